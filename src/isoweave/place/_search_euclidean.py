"""Euclidean neighbours of new points: exact by matrix products, or by an index of faiss.

Both fetch more candidates than wanted and measure them again from coordinate differences, so that distances
do not depend on how a batch was cut.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from isoweave._parallel import ThreadTeam
from isoweave._typing import AnyArray, FloatArray, IntArray
from isoweave.graph._search import block_rows, n_candidates
from isoweave.graph._search_approximate import FULL_EFFORT, build_index, search_index

# Farther out than this, in radii of the points, queries would overflow single precision.
_FARTHEST = 1e15
_SEED = 20_170_921

Found = tuple[IntArray, FloatArray]
Query = Callable[[Any, int, ThreadTeam], Found]


def brute_query(points: FloatArray) -> Query:
    """Exact neighbours, by matrix products in single precision where that is provably enough.

    A query is settled if no point outside its candidates can be nearer than its last neighbour, given how
    products round; the others are compared with all points by differences.
    """
    n, d = points.shape
    centre = points.mean(axis=0)
    table = points - centre
    squares = np.einsum("ij,ij->i", table, table)
    radius = float(np.sqrt(squares.max())) or 1.0
    table = (table / radius).astype(np.float32)
    halves = (0.5 * squares / radius**2).astype(np.float32)

    def query(queries: FloatArray, k: int, team: ThreadTeam) -> Found:
        width = min(n, k + max(8, k // 2))
        centred = (queries - centre) / radius
        norms = np.sqrt(np.einsum("ij,ij->i", centred, centred))
        inside = np.flatnonzero(norms < _FARTHEST)
        candidates = np.full((len(queries), width), -1, dtype=np.int32)
        last = np.full(len(queries), -np.inf)
        candidates[inside], last[inside] = _candidates(table, halves, centred[inside], width, team)
        found = _measured(queries, points, candidates, k, team)
        error = (d + 4) * float(np.finfo(np.float32).eps) * (norms + 0.5)
        outside = 2 * (last - error) + norms**2
        settled = (outside > (found[1][:, -1] / radius) ** 2) | ((width == n) & (norms < _FARTHEST))
        pending = np.flatnonzero(~settled)
        if len(pending):
            rows = queries[pending]
            candidates, _ = smallest(lambda x: cdist(x, points), rows, width, team, block_rows(n))
            found[0][pending], found[1][pending] = _measured(rows, points, candidates, k, team)
        return found

    return query


def approximate_query(points: FloatArray, team: ThreadTeam) -> Query:
    """Neighbours from a navigable graph of the points (HNSW)."""
    n = len(points)
    centre = points.mean(axis=0)
    scale = float(np.abs(points - centre).max()) or 1.0
    index = build_index(((points - centre) / scale).astype(np.float32), FULL_EFFORT, team, _SEED)

    def query(queries: FloatArray, k: int, team: ThreadTeam) -> Found:
        width = n_candidates(k, n)
        rows = np.clip((queries - centre) / scale, -_FARTHEST, _FARTHEST).astype(np.float32)
        candidates = search_index(index, rows, width, max(64, 3 * width), team)
        found = _measured(queries, points, candidates, k, team)
        missed = np.flatnonzero(found[0][:, -1] < 0)
        if len(missed):
            exact = brute_query(points)(queries[missed], k, team)
            found[0][missed], found[1][missed] = exact
        return found

    return query


def smallest(
    distances_to_all: Callable[[Any], FloatArray], queries: Any, k: int, team: ThreadTeam, step: int
) -> Found:
    """The k smallest of all distances of every query, in blocks; ties go to the lower index."""
    from isoweave.engines.neighbors import k_smallest

    m = queries.shape[0]
    neighbors, distances = np.empty((m, k), dtype=np.int32), np.empty((m, k))

    def work(start: int, stop: int) -> None:
        for lo in range(start * step, min(stop * step, m), step):
            hi = min(lo + step, m)
            nobody = np.full(hi - lo, -1, dtype=np.int32)
            k_smallest(
                0, hi - lo, distances_to_all(queries[lo:hi]), nobody, neighbors[lo:hi], distances[lo:hi]
            )

    team.run(work, -(-m // step), grain=1)
    return neighbors, distances


def _candidates(
    table: AnyArray, halves: AnyArray, queries: FloatArray, width: int, team: ThreadTeam
) -> tuple[IntArray, AnyArray]:
    """Candidates by the score |y|^2 / 2 - x.y, and the last score of each query."""
    from isoweave.engines.neighbors import k_smallest

    m, step = len(queries), block_rows(len(table))
    found, scores = np.empty((m, width), dtype=np.int32), np.empty((m, width), dtype=table.dtype)
    rows = queries.astype(table.dtype)

    def work(start: int, stop: int) -> None:
        for lo in range(start * step, min(stop * step, m), step):
            hi = min(lo + step, m)
            block = rows[lo:hi] @ table.T
            np.subtract(halves, block, out=block)
            nobody = np.full(hi - lo, -1, dtype=np.int32)
            k_smallest(0, hi - lo, block, nobody, found[lo:hi], scores[lo:hi])

    team.run(work, -(-m // step), grain=1)
    return found, scores[:, -1]


def _measured(
    queries: FloatArray, points: FloatArray, candidates: IntArray, k: int, team: ThreadTeam
) -> Found:
    """The ``k`` nearest of each query's candidates by coordinate differences."""
    from isoweave.engines.neighbors import measure_rows

    neighbors, distances = np.empty((len(queries), k), dtype=np.int32), np.empty((len(queries), k))
    rows = np.ascontiguousarray(queries)
    every = np.arange(len(rows), dtype=np.int32)
    team.run(measure_rows, len(rows), rows, every, points, False, candidates, neighbors, distances)
    return neighbors, distances
