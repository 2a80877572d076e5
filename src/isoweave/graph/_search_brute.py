"""Exact Euclidean neighbour search by matrix products."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist

from isoweave._parallel import ThreadTeam
from isoweave._typing import AnyArray, FloatArray, IntArray
from isoweave.engines.neighbors import k_smallest, measure_rows
from isoweave.graph._search import Found, n_candidates, over_blocks


def search_brute(points: FloatArray, k: int, rows: IntArray, team: ThreadTeam) -> Found:
    """Exact Euclidean neighbours, by matrix products in single precision where that is provably enough.

    Products give |x - y|^2 with an error bounded by the norms. A row's candidates are measured again
    from coordinate differences; it is settled if no point outside them can be nearer than its k-th
    neighbour, given the bound. The other rows go on to double precision and then to differences
    throughout.
    """
    n, d = points.shape
    width = n_candidates(k, n)
    neighbors, distances = np.empty((len(rows), k), dtype=np.int32), np.empty((len(rows), k))
    centred = points - points.mean(axis=0)
    norms = np.sqrt(np.einsum("ij,ij->i", centred, centred))
    radius = norms.max()
    pending = np.arange(len(rows))
    for dtype in (np.float32, np.float64):
        # Scaled into the unit ball: no overflow in single precision.
        table = (centred / radius).astype(dtype)
        halves = (0.5 * (norms / radius) ** 2).astype(dtype)
        queries = rows[pending]
        candidates = np.empty((len(queries), width), dtype=np.int32)
        scores = np.empty((len(queries), width), dtype=dtype)
        over_blocks(team, len(queries), n, _ProductSearch(table, halves, queries, candidates, scores))
        found = measure(points, queries, candidates, k, team)
        neighbors[pending], distances[pending] = found
        if width == n - 1:
            return neighbors, distances
        length = norms[queries] / radius
        error = (d + 4) * float(np.finfo(dtype).eps) * (length + 0.5)
        outside = 2 * (scores[:, -1].astype(np.float64) - error) + length**2
        pending = pending[outside < (found[1][:, -1] / radius) ** 2 * (1 - 1e-9)]
        if len(pending) == 0:
            return neighbors, distances
    queries = rows[pending]
    candidates = np.empty((len(queries), width), dtype=np.int32)
    values = np.empty((len(queries), width))

    def search(lo: int, hi: int) -> None:
        k_smallest(
            0,
            hi - lo,
            cdist(points[queries[lo:hi]], points),
            queries[lo:hi],
            candidates[lo:hi],
            values[lo:hi],
        )

    over_blocks(team, len(queries), n, search)
    neighbors[pending], distances[pending] = measure(points, queries, candidates, k, team)
    return neighbors, distances


@dataclass(frozen=True, eq=False)
class _ProductSearch:
    """Candidates of a block of rows by the score |y|^2 / 2 - x.y, which orders y as |x - y| does."""

    table: AnyArray
    halves: AnyArray
    queries: IntArray
    candidates: IntArray
    scores: AnyArray

    def __call__(self, lo: int, hi: int) -> None:
        block = self.table[self.queries[lo:hi]] @ self.table.T
        np.subtract(self.halves, block, out=block)
        k_smallest(0, hi - lo, block, self.queries[lo:hi], self.candidates[lo:hi], self.scores[lo:hi])


def measure(points: FloatArray, rows: IntArray, candidates: IntArray, k: int, team: ThreadTeam) -> Found:
    """The ``k`` nearest of each row's candidates by coordinate differences; -1 and inf where too few."""
    neighbors, distances = np.empty((len(rows), k), dtype=np.int32), np.empty((len(rows), k))
    team.run(measure_rows, len(rows), points, rows, points, True, candidates, neighbors, distances)
    return neighbors, distances
