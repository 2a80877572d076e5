"""Means of neighbourhoods, which move points back towards the surface that noise has carried them off."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp

from isoweave._parallel import ThreadTeam, thread_team
from isoweave._typing import FloatArray
from isoweave._validation import check_integer
from isoweave.graph._index import NeighborIndex, build_index, check_search_memory

# Chosen on rolls and trees of benchmarks/noise.py (docs/noise.md): once leaves too much noise, three times
# tears a sheet into clumps; with all points in the means, those between two sheets join them.
_ROUNDS = 2
_LEFT_OUT = 0.1
_ENTRIES_AT_ONCE = 1 << 22


class NeighborhoodMeans:
    """Points (n, D) moved to the mean of their k nearest, twice, and the rule that moves new ones.

    Each time, the tenth of the points in the thinnest surroundings (farthest from their k-th neighbour) are
    moved but are in no mean. Identical points count once. A point of the fit that comes back as a new one is
    moved to the same bits. Without ``n_neighbors`` nothing is moved.
    """

    def __init__(
        self,
        X: Any,
        n_neighbors: int | None,
        *,
        n_jobs: int | None = None,
        memory_limit: float | None = math.inf,
        **search: Any,
    ) -> None:
        self.points = X
        self._n_jobs = n_jobs
        self._rounds: list[tuple[NeighborIndex, FloatArray]] = []
        if n_neighbors is None:
            return
        check_integer("denoise", n_neighbors, minimum=1)
        said = f"denoise={n_neighbors} takes means of features and needs a dense array of them, but "
        if isinstance(search.get("metric"), str) and search["metric"] == "precomputed":
            raise ValueError(f"{said}metric='precomputed' was given. Leave denoise out.")
        if sp.issparse(X):
            raise ValueError(f"{said}X is sparse. Reduce it first (TruncatedSVD), or leave denoise out.")
        points = np.asarray(X, dtype=np.float64)
        self._k = k = min(n_neighbors, len(points) - 1)
        check_search_memory(len(points), points.shape[1], k, memory_limit, n_jobs)
        with thread_team(n_jobs) as team:
            for _ in range(_ROUNDS):
                index = build_index(points, team=team, **search)
                radius = index.neighbors(points, k + 1, team=team)[1][:, -1]
                dense = points[radius <= np.quantile(radius, 1.0 - _LEFT_OUT)]
                self._rounds.append((build_index(dense, team=team, **search), dense))
                points = self._step(points, *self._rounds[-1], team)
        self.points = points

    def move(self, X: Any) -> Any:
        """New points (m, D), moved by the means of the points of the fit."""
        with thread_team(self._n_jobs) as team:
            for index, dense in self._rounds:
                X = self._step(np.asarray(X, dtype=np.float64), index, dense, team)
        return X

    def _step(self, x: FloatArray, index: NeighborIndex, dense: FloatArray, team: ThreadTeam) -> FloatArray:
        # In one order, so that points with the same neighbours become duplicates, not almost.
        neighbors = np.sort(index.neighbors(x, self._k, team=team)[0], axis=1)
        moved = np.empty(x.shape)
        size = max(1, _ENTRIES_AT_ONCE // max(1, neighbors.shape[1] * x.shape[1]))
        for lo in range(0, len(x), size):
            moved[lo : lo + size] = dense[neighbors[lo : lo + size]].mean(axis=1)
        return moved
