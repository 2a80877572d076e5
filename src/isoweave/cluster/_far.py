"""Long distances on shares: the stress to the geodesics of landmarks (:mod:`isoweave.energy`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from isoweave._lazy import computed_once
from isoweave._parallel import ThreadTeam
from isoweave._typing import AnyArray, FloatArray
from isoweave.cluster._frames import ShareEnergy
from isoweave.cluster._patch import Patch
from isoweave.cluster._share import Share
from isoweave.cluster._starts import first_of, geodesics, landmark_start
from isoweave.energy import GlobalEnergy
from isoweave.optimise import n_far_landmarks


@dataclass(frozen=True, eq=False)
class ShareGlobal(GlobalEnergy):
    """The energy of a share: ``geodesics`` (n_owned, l), ``landmarks`` (l,) in the distributed numbering."""

    share: Share

    @property
    def n_vertices(self) -> int:
        return self.share.n_vertices

    @computed_once
    def _own(self) -> tuple[AnyArray, AnyArray]:
        which = np.flatnonzero(~self.share.are_away(self.landmarks))
        return which, self.landmarks[which] - self.share.start

    def _with_landmarks(self, x: FloatArray) -> tuple[FloatArray, AnyArray]:
        which, rows = self._own
        places = np.zeros((len(self.landmarks), x.shape[1]))
        places[which] = x[rows]
        at = np.arange(len(x), len(x) + len(places), dtype=np.int32)
        return np.concatenate((x, self._sum(places))), at

    def _sum(self, values: Any) -> Any:
        return self.share.ranks.sum(values)


def share_global(frames: ShareEnergy, x: FloatArray, weight: float | str, team: ThreadTeam) -> ShareGlobal:
    """As :func:`isoweave.optimise.global_energy`."""
    share = frames.patch.share
    ranks, n_wanted = share.ranks, n_far_landmarks(share.n_vertices, x.shape[1], weight)
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
    return ShareGlobal(landmarks, np.ascontiguousarray(distances.T), frames.mass, team, share)


def scaled_share(far: ShareGlobal, n_components: int) -> FloatArray:
    """Classical scaling of the landmarks, the owned vertices triangulated."""
    return landmark_start(far.share, far.landmarks, np.ascontiguousarray(far.geodesics.T), n_components)
