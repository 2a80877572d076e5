"""Approximate Euclidean neighbours from an index of faiss.

Features are often far more than the directions in which the points spread. The index then holds the points
projected to their leading principal directions, which makes it several times faster; it yields candidates
only, which are measured again in all features. Whether the projection keeps the neighbours is not assumed but
counted, on a sample of the points.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from isoweave._parallel import ThreadTeam
from isoweave._typing import AnyArray, FloatArray, IntArray
from isoweave.graph._search import Found, n_candidates
from isoweave.graph._search_brute import measure, search_brute

# From this version of faiss on, checked with 1 to 8 threads, the HNSW graph does not depend on the number of
# threads that build it. Older versions are given one.
_FAISS_DETERMINISTIC = (1, 15, 1)
# Directions tried, in order, while they are at most a third of the features: beyond that nothing is gained.
_DIRECTIONS = (32, 64, 128)
_LEAST_SAVING = 3
# Candidates per wanted neighbour when the index is projected: 70,000 MNIST images in 64 directions, 10
# neighbours: twice as many hold 96.7 % of the true ones, three times 99.1 %, four times 99.6 %.
_CANDIDATES = 4
# Share of the true neighbours of the sample that must be among its candidates.
_LEAST_RECALL = 0.985
_SAMPLE_QUERIES = 128
_SAMPLE_SPREAD = 4000
# efConstruction of faiss: candidates compared for every point that is added.
FULL_EFFORT = 100
_PROJECTED_EFFORT = 60
# Rows, and queries, that one thread takes at a time.
_ROW_BLOCK = 4096
_QUERY_BLOCK = 16


def search_approximate(points: FloatArray, k: int, rows: IntArray, team: ThreadTeam, seed: int) -> Found:
    """Euclidean neighbours from a navigable graph of all points (HNSW, faiss)."""
    table = _in_unit_ball(points, team)
    width = min(_CANDIDATES * k, len(table) - 1)
    projected = project(table, k, width, team, seed)
    if projected is None:
        width = n_candidates(k, len(table))
        build_effort, effort, searched = FULL_EFFORT, max(64, 3 * width), table
    else:
        build_effort, effort, searched = _PROJECTED_EFFORT, max(64, width + k), projected
    index = build_index(searched, build_effort, team, seed)
    # Every row finds itself too.
    candidates = search_index(index, searched[rows], width + 1, effort, team)
    neighbors, distances = measure(points, rows, candidates, k, team)
    missed = np.flatnonzero(neighbors[:, -1] < 0)
    if len(missed):
        neighbors[missed], distances[missed] = search_brute(points, k, rows[missed], team)
    return neighbors, distances


def _in_unit_ball(points: FloatArray, team: ThreadTeam) -> AnyArray:
    """The points around their mean in single precision, none longer than 1."""
    mean = points.mean(axis=0)
    table = np.empty(points.shape, dtype=np.float32)
    lengths = np.empty(_count_blocks(len(points)))

    def measure_block(block: int, rows: slice) -> None:
        centred = points[rows] - mean
        lengths[block] = np.sqrt(np.einsum("ij,ij->i", centred, centred).max())

    def fill_block(block: int, rows: slice) -> None:
        table[rows] = (points[rows] - mean) / radius

    _over_rows(team, len(points), measure_block)
    radius = float(lengths.max()) or 1.0
    _over_rows(team, len(points), fill_block)
    return table


def project(table: AnyArray, k: int, width: int, team: ThreadTeam, seed: int) -> AnyArray | None:
    """The points in as few principal directions as keep the neighbours, or None if too many are needed.

    Neighbours are kept if the ``width`` nearest points in the projection hold 98.5 % of the ``k`` nearest,
    for 128 points drawn at random.

    Parameters
    ----------
    table : float32 array of shape (n, n_features)
        Centred points.
    """
    n, n_features = table.shape
    if _LEAST_SAVING * _DIRECTIONS[0] > n_features:
        return None
    random = np.random.default_rng(seed)
    spread = table[np.sort(random.choice(n, min(n, _SAMPLE_SPREAD), replace=False))].astype(np.float64)
    directions = np.linalg.eigh(spread.T @ spread)[1][:, ::-1]
    queries = np.sort(random.choice(n, min(n, _SAMPLE_QUERIES), replace=False))
    wanted = _nearest(table, queries, k, team)
    for n_directions in _DIRECTIONS:
        if _LEAST_SAVING * n_directions > n_features:
            return None
        projected = _times(table, np.ascontiguousarray(directions[:, :n_directions], np.float32), team)
        kept = (wanted[:, :, None] == _nearest(projected, queries, width, team)[:, None, :]).any(axis=2)
        if kept.mean() >= _LEAST_RECALL:
            return projected
    return None


def _nearest(table: AnyArray, queries: AnyArray, k: int, team: ThreadTeam) -> AnyArray:
    """The k nearest points of each query, in any order, up to rounding in single precision."""
    halves = 0.5 * np.einsum("ij,ij->i", table, table)
    found = np.empty((len(queries), k), dtype=np.int64)

    def search(start: int, stop: int) -> None:
        for at in range(start, stop):
            few = queries[at * _QUERY_BLOCK : (at + 1) * _QUERY_BLOCK]
            scores = halves - table[few] @ table.T
            scores[np.arange(len(few)), few] = np.inf
            found[at * _QUERY_BLOCK : (at + 1) * _QUERY_BLOCK] = np.argpartition(scores, k - 1, axis=1)[:, :k]

    team.run(search, -(-len(queries) // _QUERY_BLOCK), grain=1)
    return found


def _times(table: AnyArray, matrix: AnyArray, team: ThreadTeam) -> AnyArray:
    out = np.empty((len(table), matrix.shape[1]), dtype=np.float32)

    def multiply(block: int, rows: slice) -> None:
        np.matmul(table[rows], matrix, out=out[rows])

    _over_rows(team, len(table), multiply)
    return out


def _count_blocks(n_rows: int) -> int:
    return -(-n_rows // _ROW_BLOCK)


def _over_rows(team: ThreadTeam, n_rows: int, task: Callable[[int, slice], None]) -> None:
    """Call ``task`` for blocks of rows that do not depend on the number of threads, nor do results then."""

    def work(start: int, stop: int) -> None:
        for block in range(start, stop):
            task(block, slice(block * _ROW_BLOCK, (block + 1) * _ROW_BLOCK))

    team.run(work, _count_blocks(n_rows), grain=1)


def build_index(table: AnyArray, effort: int, team: ThreadTeam, seed: int) -> Any:
    """Navigable graph (HNSW) of float32 points; the same for any number of threads."""
    faiss: Any = importlib.import_module("faiss")
    index = faiss.IndexHNSWFlat(table.shape[1], 16)
    index.hnsw.rng = faiss.RandomGenerator(seed)
    index.hnsw.efConstruction = effort
    version = tuple(int(part) for part in faiss.__version__.split(".")[:3] if part.isdigit())
    with _faiss_threads(team.n_threads if version >= _FAISS_DETERMINISTIC else 1):
        index.add(table)
    return index


def search_index(index: Any, queries: AnyArray, width: int, effort: int, team: ThreadTeam) -> IntArray:
    """The ``width`` nearest points of float32 queries, -1 where the index finds fewer."""
    faiss: Any = importlib.import_module("faiss")
    with _faiss_threads(team.n_threads):
        _, found = index.search(queries, width, params=faiss.SearchParametersHNSW(efSearch=effort))
    neighbors: IntArray = found.astype(np.int32)
    return neighbors


@contextmanager
def _faiss_threads(n_threads: int) -> Iterator[None]:
    faiss: Any = importlib.import_module("faiss")
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(n_threads)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)
