"""Euclidean neighbours: exact by matrix products, or approximate by an index of faiss.

Both fetch more candidates than wanted and measure them again from coordinate differences. A search is called
with the queries and, where these are points of the index themselves, with their numbers ``own``, so that no
point is its own neighbour. What a new row finds does not depend on the others of its batch, although products
round differently from batch to batch.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from isoweave._lazy import computed_once
from isoweave._parallel import ThreadTeam
from isoweave._typing import AnyArray, FloatArray, IntArray
from isoweave.engines.neighbors import k_smallest, measure_rows

# Used when random_state is None: the same call gives the same graph.
DEFAULT_SEED = 20_170_921
# Farther out than this, in radii of the points, queries would overflow single precision.
_FARTHEST = 1e15
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
_FULL_EFFORT = 100
_PROJECTED_EFFORT = 60
# Rows, and queries, that one thread takes at a time.
_ROW_BLOCK = 4096
_QUERY_BLOCK = 16

Found = tuple[IntArray, FloatArray]


def n_candidates(k: int, n: int) -> int:
    """How many of n points to fetch for ``k`` neighbours where the order is not exact."""
    return min(n, k + max(8, k // 2))


def block_rows(n_points: int) -> int:
    """How many rows of distances to all points to hold at once."""
    # A block of all distances of so many rows takes 128 to 256 MiB at most.
    return min(256, max(8, 2**25 // n_points))


def nearest_of_all(
    to_all: Callable[[int, int], AnyArray],
    own: IntArray,
    k: int,
    team: ThreadTeam,
    step: int,
    dtype: Any = np.float64,
) -> tuple[IntArray, AnyArray]:
    """The k smallest distances of every query to all points; ties go to the lower index.

    ``to_all(lo, hi)`` gives those of the queries lo..hi. Blocks of ``step`` rows do not depend on the number
    of threads, nor do results then.
    """
    m = len(own)
    neighbors, distances = np.empty((m, k), dtype=np.int32), np.empty((m, k), dtype=dtype)

    def work(start: int, stop: int) -> None:
        for lo in range(start * step, min(stop * step, m), step):
            hi = min(lo + step, m)
            k_smallest(0, hi - lo, to_all(lo, hi), own[lo:hi], neighbors[lo:hi], distances[lo:hi])

    team.run(work, -(-m // step), grain=1)
    return neighbors, distances


def own_numbers(own: IntArray | None, m: int) -> IntArray:
    """The numbers of the queries among the points; -1 for new rows, which are none of them."""
    return np.full(m, -1, dtype=np.int32) if own is None else own


def _measured(
    points: FloatArray, queries: FloatArray, own: IntArray, candidates: IntArray, k: int, team: ThreadTeam
) -> Found:
    """The ``k`` nearest of each query's candidates by coordinate differences; -1 and inf where too few."""
    neighbors, distances = np.empty((len(queries), k), dtype=np.int32), np.empty((len(queries), k))
    team.run(measure_rows, len(queries), queries, own, points, candidates, neighbors, distances)
    return neighbors, distances


class ProductSearch:
    """Exact neighbours, by matrix products in single precision where that is provably enough.

    Products give |x - y|^2 with an error bounded by the norms. A query is settled if no point outside its
    candidates can be nearer than its k-th neighbour, given the bound. The others go on to double precision
    (points only) and then to differences throughout.
    """

    def __init__(self, points: FloatArray) -> None:
        self.points = points
        self.centre = points.mean(axis=0)
        centred = points - self.centre
        self.norms = np.sqrt(np.einsum("ij,ij->i", centred, centred))
        self.radius = float(self.norms.max()) or 1.0

    def _table(self, dtype: Any) -> tuple[AnyArray, AnyArray]:
        """The points scaled into the unit ball, where single precision does not overflow, and |y|^2 / 2."""
        table = ((self.points - self.centre) / self.radius).astype(dtype)
        return table, (0.5 * (self.norms / self.radius) ** 2).astype(dtype)

    @computed_once
    def _single(self) -> tuple[AnyArray, AnyArray]:
        return self._table(np.float32)

    def __call__(self, queries: FloatArray, own: IntArray | None, k: int, team: ThreadTeam) -> Found:
        (n, d), m = self.points.shape, len(queries)
        n_others = n if own is None else n - 1
        width = n_candidates(k, n_others)
        if own is None:
            scaled = (queries - self.centre) / self.radius
            norms = np.sqrt(np.einsum("ij,ij->i", scaled, scaled))
            # Strictly: what a new row finds must not depend on candidates that tie for the last place.
            slack = 1.0
        else:
            norms = self.norms[own] / self.radius
            slack = 1.0 - 1e-9
        numbers = own_numbers(own, m)
        neighbors, distances = np.empty((m, k), dtype=np.int32), np.empty((m, k))

        def measure(which: AnyArray, candidates: IntArray) -> None:
            rows = queries if len(which) == m else queries[which]
            found = _measured(self.points, rows, numbers[which], candidates, k, team)
            neighbors[which], distances[which] = found

        far = norms >= _FARTHEST
        pending = np.flatnonzero(~far)
        for dtype in (np.float32,) if own is None else (np.float32, np.float64):
            if len(pending) == 0:
                break
            table, halves = self._single if dtype == np.float32 else self._table(dtype)
            rows = table if own is not None else scaled.astype(dtype)
            at = pending if own is None else own[pending]
            candidates, best = nearest_of_all(
                partial(_scores, table, halves, rows, at), numbers[pending], width, team, block_rows(n), dtype
            )
            measure(pending, candidates)
            error = (d + 4) * float(np.finfo(dtype).eps) * (norms[pending] + 0.5)
            outside = 2 * (best[:, -1].astype(np.float64) - error) + norms[pending] ** 2
            limit = (distances[pending, -1] / self.radius) ** 2 * slack
            pending = pending[(outside <= limit) & (width < n_others)]
        pending = np.sort(np.concatenate((pending, np.flatnonzero(far))))
        if len(pending):
            candidates, _ = nearest_of_all(
                lambda lo, hi: cdist(queries[pending[lo:hi]], self.points),
                numbers[pending],
                width,
                team,
                block_rows(n),
            )
            measure(pending, candidates)
        return neighbors, distances


def _scores(table: AnyArray, halves: AnyArray, rows: AnyArray, at: AnyArray, lo: int, hi: int) -> AnyArray:
    """The score |y|^2 / 2 - x.y of some rows x against all y, which orders y as |x - y| does."""
    block = rows[at[lo:hi]] @ table.T
    return np.subtract(halves, block, out=block)


class GraphSearch:
    """Neighbours from a navigable graph of all points (HNSW, faiss).

    Features are often far more than the directions in which the points spread. For the neighbours of the
    points themselves the index then holds the points projected to their leading principal directions, which
    makes it several times faster; candidates are measured again in all features. Whether the projection keeps
    the neighbours is not assumed but counted, on a sample of the points.
    """

    def __init__(self, points: FloatArray, seed: int) -> None:
        self.points = points
        self.seed = seed
        self._prepared: Any = None

    def __call__(self, queries: FloatArray, own: IntArray | None, k: int, team: ThreadTeam) -> Found:
        if own is None:
            candidates = self._near_new(queries, k, team)
        else:
            candidates = self._near_points(own, k, team)
        numbers = own_numbers(own, len(queries))
        neighbors, distances = _measured(self.points, queries, numbers, candidates, k, team)
        missed = np.flatnonzero(neighbors[:, -1] < 0)
        if len(missed):
            exact = ProductSearch(self.points)
            found = exact(queries[missed], None if own is None else own[missed], k, team)
            neighbors[missed], distances[missed] = found
        return neighbors, distances

    def _near_points(self, own: IntArray, k: int, team: ThreadTeam) -> IntArray:
        table = _in_unit_ball(self.points, team)
        width = min(_CANDIDATES * k, len(table) - 1)
        projected = project(table, k, width, team, self.seed)
        if projected is None:
            width = n_candidates(k, len(table) - 1)
            build_effort, effort, searched = _FULL_EFFORT, max(64, 3 * width), table
        else:
            build_effort, effort, searched = _PROJECTED_EFFORT, max(64, width + k), projected
        index = _build_hnsw(searched, build_effort, team, self.seed)
        # Every point finds itself too.
        return _search_hnsw(index, searched[own], width + 1, effort, team)

    def _near_new(self, queries: FloatArray, k: int, team: ThreadTeam) -> IntArray:
        if self._prepared is None:
            centre = self.points.mean(axis=0)
            scale = float(np.abs(self.points - centre).max()) or 1.0
            table = ((self.points - centre) / scale).astype(np.float32)
            self._prepared = _build_hnsw(table, _FULL_EFFORT, team, DEFAULT_SEED), centre, scale
        index, centre, scale = self._prepared
        width = n_candidates(k, len(self.points) - 1)
        rows = np.clip((queries - centre) / scale, -_FARTHEST, _FARTHEST).astype(np.float32)
        return _search_hnsw(index, rows, width, max(64, 3 * width), team)


def _in_unit_ball(points: FloatArray, team: ThreadTeam) -> AnyArray:
    """The points around their mean in single precision, none longer than 1."""
    mean = points.mean(axis=0)
    table, lengths = np.empty(points.shape, dtype=np.float32), np.empty(len(points))

    def measure(rows: slice) -> None:
        centred = points[rows] - mean
        lengths[rows] = np.sqrt(np.einsum("ij,ij->i", centred, centred))

    def fill(rows: slice) -> None:
        table[rows] = (points[rows] - mean) / radius

    _over_rows(team, len(points), measure)
    radius = float(lengths.max()) or 1.0
    _over_rows(team, len(points), fill)
    return table


def project(table: AnyArray, k: int, width: int, team: ThreadTeam, seed: int) -> AnyArray | None:
    """Centred points in as few principal directions as keep the neighbours; None if too many are needed.

    Neighbours are kept if the ``width`` nearest points in the projection hold 98.5 % of the ``k`` nearest,
    for 128 points drawn at random.
    """
    n, n_features = table.shape
    if _LEAST_SAVING * _DIRECTIONS[0] > n_features:
        return None
    random = np.random.default_rng(seed)
    spread = table[np.sort(random.choice(n, min(n, _SAMPLE_SPREAD), replace=False))].astype(np.float64)
    directions = np.linalg.eigh(spread.T @ spread)[1][:, ::-1]
    queries = np.sort(random.choice(n, min(n, _SAMPLE_QUERIES), replace=False)).astype(np.int32)
    wanted = _nearest(table, queries, k, team)
    for n_directions in _DIRECTIONS:
        if _LEAST_SAVING * n_directions > n_features:
            return None
        projected = _times(table, np.ascontiguousarray(directions[:, :n_directions], np.float32), team)
        kept = (wanted[:, :, None] == _nearest(projected, queries, width, team)[:, None, :]).any(axis=2)
        if kept.mean() >= _LEAST_RECALL:
            return projected
    return None


def _nearest(table: AnyArray, queries: IntArray, k: int, team: ThreadTeam) -> IntArray:
    """The k nearest other points of some points, up to rounding in single precision."""
    halves = 0.5 * np.einsum("ij,ij->i", table, table)
    scores = partial(_scores, table, halves, table, queries)
    return nearest_of_all(scores, queries, k, team, _QUERY_BLOCK, np.float32)[0]


def _times(table: AnyArray, matrix: AnyArray, team: ThreadTeam) -> AnyArray:
    out = np.empty((len(table), matrix.shape[1]), dtype=np.float32)

    def multiply(rows: slice) -> None:
        np.matmul(table[rows], matrix, out=out[rows])

    _over_rows(team, len(table), multiply)
    return out


def _over_rows(team: ThreadTeam, n_rows: int, task: Callable[[slice], None]) -> None:
    """Call ``task`` for blocks of rows that do not depend on the number of threads, nor do results then."""

    def work(start: int, stop: int) -> None:
        for block in range(start, stop):
            task(slice(block * _ROW_BLOCK, (block + 1) * _ROW_BLOCK))

    team.run(work, -(-n_rows // _ROW_BLOCK), grain=1)


def _build_hnsw(table: AnyArray, effort: int, team: ThreadTeam, seed: int) -> Any:
    """Navigable graph of float32 points; the same for any number of threads."""
    faiss: Any = importlib.import_module("faiss")
    index = faiss.IndexHNSWFlat(table.shape[1], 16)
    index.hnsw.rng = faiss.RandomGenerator(seed)
    index.hnsw.efConstruction = effort
    version = tuple(int(part) for part in faiss.__version__.split(".")[:3] if part.isdigit())
    with _faiss_threads(faiss, team.n_threads if version >= _FAISS_DETERMINISTIC else 1):
        index.add(table)
    return index


def _search_hnsw(index: Any, queries: AnyArray, width: int, effort: int, team: ThreadTeam) -> IntArray:
    """The ``width`` nearest points of float32 queries, -1 where the index finds fewer."""
    faiss: Any = importlib.import_module("faiss")
    with _faiss_threads(faiss, team.n_threads):
        _, found = index.search(queries, width, params=faiss.SearchParametersHNSW(efSearch=effort))
    neighbors: IntArray = found.astype(np.int32)
    return neighbors


@contextmanager
def _faiss_threads(faiss: Any, n_threads: int) -> Iterator[None]:
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(n_threads)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)
