"""Long distances on shares: the stress to the geodesics of landmarks (:mod:`isoweave.energy`)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from isoweave._lazy import computed_once
from isoweave._parallel import ThreadTeam
from isoweave._typing import AnyArray, FloatArray
from isoweave.cluster._frames import ShareEnergy
from isoweave.cluster._measure import total
from isoweave.cluster._patch import Patch
from isoweave.cluster._share import Share
from isoweave.cluster._starts import first_of, geodesics, landmark_start
from isoweave.energy import Evaluation
from isoweave.optimise import n_far_landmarks

_BLOCK = 512


@dataclass(frozen=True, eq=False)
class ShareGlobal:
    """``weight`` times the scale-free stress (eq. 24); ``geodesics`` (n_owned, l) to ``landmarks`` (l,)."""

    share: Share
    landmarks: AnyArray  #: distributed numbering
    geodesics: FloatArray
    weight: float
    team: ThreadTeam
    mass = 0.0

    @computed_once
    def _squares(self) -> float:
        return total(self.share.ranks, self.geodesics * self.geodesics)

    @computed_once
    def _mine(self) -> tuple[AnyArray, AnyArray]:
        """Which landmarks are owned, and their rows."""
        rows = self.landmarks - self.share.start
        which = np.flatnonzero((rows >= 0) & (rows < self.share.n_owned))
        return which, rows[which]

    def _places(self, x: FloatArray) -> FloatArray:
        """Of the landmarks, on all ranks."""
        which, rows = self._mine
        places = np.zeros((len(self.landmarks), x.shape[1]))
        places[which] = x[rows]
        return self.share.ranks.sum(places)

    def _sums(self, x: FloatArray) -> tuple[float, FloatArray, FloatArray, FloatArray]:
        """``sum d g``, for owned vertices ``sum d^2`` and pulls of the geodesics; the landmarks' places."""
        from isoweave.engines import stress as kernels

        (n, width), n_landmarks = x.shape, len(self.landmarks)
        places = self._places(x)
        # The landmarks follow the owned vertices as rows without geodesics, which pull at nothing.
        both, rows = np.concatenate((x, places)), n + n_landmarks
        distances = np.concatenate((self.geodesics, np.zeros((n_landmarks, n_landmarks))))
        at = np.arange(n, rows, dtype=np.int32)
        n_blocks = -(-rows // _BLOCK)
        cross, squares, pulls = np.empty(rows), np.empty(rows), np.empty((rows, width))
        at_landmarks = np.empty((n_blocks, n_landmarks, width))
        arrays = (both, at, distances, cross, squares, pulls, at_landmarks)
        self.team.run(kernels.landmark_stress, n_blocks, _BLOCK, *arrays, grain=1)
        pulls = pulls[:n]
        which, mine = self._mine
        pulls[mine] += self.share.ranks.sum(at_landmarks.sum(axis=0))[which]
        return total(self.share.ranks, cross[:n]), squares[:n], pulls, places

    def evaluate(self, x: FloatArray) -> Evaluation:
        ranks, n = self.share.ranks, self.share.n_vertices
        cross, squares, pulls, places = self._sums(x)
        square = total(ranks, squares)
        none = np.empty((0, *x.shape[1:] * 2))
        if cross == 0.0:
            return Evaluation(self.weight, np.zeros_like(x), none, np.zeros(len(x)))
        half_gradient = len(self.landmarks) * x - places.sum(axis=0)
        which, mine = self._mine
        half_gradient[mine] += n * places[which] - ranks.sum(x.sum(axis=0))
        half_gradient -= (square / cross) * pulls
        half_gradient *= self._spring(cross, square)
        value = self.weight * max(0.0, 1.0 - cross * cross / (square * self._squares))
        return Evaluation(value, half_gradient, none, np.full(len(x), value / n))

    def _spring(self, cross: float, square: float) -> float:
        return self.weight * (cross / square) ** 2 / self._squares

    def springs(self, x: FloatArray) -> FloatArray:
        """Diagonal of the quadratic part at ``x`` (eq. 26), owned rows."""
        cross, squares, _, _ = self._sums(x)
        spring = self._spring(cross, total(self.share.ranks, squares))
        diagonal = np.full(len(x), spring * len(self.landmarks))
        diagonal[self._mine[1]] += spring * self.share.n_vertices
        return diagonal

    def suspects(self) -> dict[str, AnyArray]:
        return {"geodesics of the landmarks": self.geodesics}


def share_global(frames: ShareEnergy, x: FloatArray, team: ThreadTeam) -> ShareGlobal:
    """The stress to landmarks that are far apart in an embedding, with the weight of the frames' mass."""
    share = frames.patch.share
    ranks, n_wanted = share.ranks, n_far_landmarks(share.n_vertices, x.shape[1])
    away = x - ranks.sum(x.sum(axis=0)) / share.n_vertices
    nearest = np.einsum("ic,ic->i", away, away)
    chosen: list[int] = []
    for _ in range(n_wanted):
        chosen.append(first_of(share, nearest))
        away = x - share.halo(np.array(chosen[-1:])).fetch(x)[0]
        squares = np.einsum("ic,ic->i", away, away)
        nearest = squares if len(chosen) == 1 else np.minimum(nearest, squares)
        if ranks.max(nearest.max(initial=0.0)) == 0.0:
            break
    landmarks = np.array(chosen)
    # Paths by the lengths that frames were made with.
    distances = geodesics(Patch(share, np.empty(0, dtype=np.int64)), landmarks, team)
    return ShareGlobal(share, landmarks, np.ascontiguousarray(distances.T), frames.mass, team)


def scaled_share(far: ShareGlobal, n_components: int) -> FloatArray:
    """Classical scaling of the landmarks, the owned vertices triangulated."""
    return landmark_start(far.share, far.landmarks, np.ascontiguousarray(far.geodesics.T), n_components)
