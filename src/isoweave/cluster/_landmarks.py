"""Landmarks of a graph in shares, and the long distances to them (:mod:`isoweave.energy`)."""

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
from isoweave.energy import GlobalEnergy
from isoweave.graph import positions_of
from isoweave.optimise import N_LANDMARKS, crowding, landmark_projector, n_far_landmarks


def landmark_start(share: Share, landmarks: AnyArray, distances: FloatArray, width: int) -> FloatArray:
    """Coordinates of the owned vertices from their distances (l, n_owned) to the landmarks (eq. 13)."""
    between = share.fetch(landmarks, np.ascontiguousarray(distances.T)).T
    means, projector = landmark_projector(np.ascontiguousarray(between), width)
    return -0.5 * (distances**2 - means[:, None]).T @ projector


def far_vertices(share: Share, width: int, team: ThreadTeam) -> tuple[AnyArray, FloatArray]:
    """As :func:`isoweave.optimise.find_landmarks`: vertices (l,), and paths to the owned ones."""
    patch = Patch(share, np.empty(0, dtype=np.int64))
    n_wanted = min(max(N_LANDMARKS, 2 * width + 2), share.n_vertices)
    nearest = geodesics(patch, np.array([first_of(share, -crowding(patch.graph, team)[patch.own])]), team)[0]
    landmarks, distances = np.empty(n_wanted, dtype=np.int64), np.empty((n_wanted, share.n_owned))
    for a in range(n_wanted):
        landmarks[a] = first_of(share, nearest)
        distances[a] = geodesics(patch, landmarks[a : a + 1], team)[0]
        nearest = distances[a] if a == 0 else np.minimum(nearest, distances[a])
    return landmarks, distances


def first_of(share: Share, values: FloatArray) -> int:
    """The vertex with the largest value of all ranks, the first of several."""
    at = int(np.argmax(values)) if len(values) else 0
    found = share.ranks.gather((float(values[at]), share.start + at) if len(values) else (-np.inf, 0))
    return max(found, key=lambda pair: pair[0])[1]


def geodesics(patch: Patch, sources: AnyArray, team: ThreadTeam) -> FloatArray:
    """Shortest paths (l, n_owned) from vertices of any ranks, on a patch without known ones of others."""
    from isoweave.engines import paths as kernels

    graph, own, ranks = patch.graph, patch.own, patch.share.ranks
    distances = np.full((len(sources), graph.n_vertices), np.inf)
    at = positions_of(patch.ids, sources)
    distances[at >= 0, at[at >= 0]] = 0.0
    changed = distances == 0.0
    arrays = (graph.indptr, graph.indices, graph.lengths)
    while ranks.max(bool(changed.any())):
        team.run(kernels.relax_paths, len(sources), changed, *arrays, distances, grain=1)
        there = patch.on_vertices(np.ascontiguousarray(distances[:, own].T)).T
        changed = there < distances
        distances = np.where(changed, there, distances)
    return np.ascontiguousarray(distances[:, own])


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
