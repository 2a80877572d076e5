"""Neighbours from all pairs, Euclidean ones by matrix products.

A search is called with queries and their numbers ``own`` among the points, so that no point is its own
neighbour; all are -1 for new rows, and what one finds does not depend on the others of its batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from isoweave._lazy import LazyModule
from isoweave._parallel import ThreadTeam
from isoweave._typing import AnyArray, FloatArray, IntArray
from isoweave.graph._features import FeatureSpace, row_norms

kernels = LazyModule("isoweave.engines.neighbors")
# Lower bounds of distances are this much lower, whatever the rounding of a root and a product.
_ROUNDED_DOWN = 1.0 - 1e-12
# Farther out than this, in radii of the points, queries would overflow single precision.
_FARTHEST = 1e15
# Dense metrics that scikit-learn computes by matrix products: their bits depend on the rows of a block.
_BY_PRODUCTS = ("cosine", "euclidean", "sqeuclidean", "nan_euclidean")
# Rows that one thread takes at a time, and of a few.
_ROW_BLOCK, _FEW_ROWS = 4096, 16

Found = tuple[IntArray, FloatArray]


def n_candidates(k: int, n: int) -> int:
    """How many of n points to fetch for ``k`` neighbours where the order is not exact."""
    return min(n, k + max(8, k // 2))


def block_rows(n_points: int) -> int:
    """How many rows of distances to all points to hold at once."""
    # A block of all distances of so many rows takes 128 to 256 MiB at most.
    return min(256, max(8, 2**25 // n_points))


def nearest_of_all(
    to_all: Callable[..., AnyArray], own: IntArray, k: int, team: ThreadTeam, step: int, dtype: Any = float
) -> tuple[IntArray, AnyArray]:
    """The k smallest distances of every query, given for those of lo..hi; ties go to the lower index."""
    m = len(own)
    neighbors, distances = np.full((m, k), -1, dtype=np.int32), np.full((m, k), np.inf, dtype=dtype)

    def work(start: int, stop: int) -> None:
        for lo in range(start * step, min(stop * step, m), step):
            hi = min(lo + step, m)
            found = (neighbors[lo:hi], distances[lo:hi])
            kernels.k_smallest(0, hi - lo, to_all(lo, hi), 0, own[lo:hi], *found)

    team.run(work, -(-m // step), grain=1)
    return neighbors, distances


def by_blocks(task: Callable[..., AnyArray], rows: AnyArray, out: AnyArray, team: ThreadTeam) -> AnyArray:
    """A function of all rows, in blocks: they and hence the bits do not depend on the number of threads."""

    def work(start: int, stop: int) -> None:
        for lo in range(start * _ROW_BLOCK, stop * _ROW_BLOCK, _ROW_BLOCK):
            out[lo : lo + _ROW_BLOCK] = task(rows[lo : lo + _ROW_BLOCK])

    team.run(work, -(-len(rows) // _ROW_BLOCK), grain=1)
    return out


def scores(table: AnyArray, halves: AnyArray, rows: AnyArray) -> AnyArray:
    """The score |y|^2 / 2 - x.y of some rows x against all y, which orders y as |x - y| does."""
    block = rows @ table.T
    return np.subtract(halves, block, out=block)


def half_squares(table: AnyArray) -> AnyArray:
    """``|y|^2 / 2`` of every row."""
    return 0.5 * np.einsum("ij,ij->i", table, table)


def nearest_by_scores(table: AnyArray, own: IntArray, k: int, team: ThreadTeam) -> IntArray:
    """The ``k`` nearest of all float32 points to a few of them, by products."""
    halves = half_squares(table)
    return nearest_of_all(
        lambda lo, hi: scores(table, halves, table[own[lo:hi]]), own, k, team, _FEW_ROWS, np.float32
    )[0]


class ProductSearch:
    """Exact neighbours, by matrix products in single precision where that is provably enough.

    A query is settled if no point outside its candidates can be nearer than its k-th neighbour, given the
    error of products. The others go on to double precision and then to differences throughout.
    """

    def __init__(self, points: FloatArray, team: ThreadTeam) -> None:
        self.points, self.centre = points, points.mean(axis=0)
        lengths = by_blocks(lambda rows: row_norms(rows - self.centre), points, np.empty(len(points)), team)
        self.radius = float(lengths.max()) or 1.0
        self.norms = lengths / self.radius
        self.single = self._table(np.float32, team)

    def scaled(self, rows: FloatArray) -> FloatArray:
        """Into the unit ball of the points, where single precision does not overflow."""
        return (rows - self.centre) / self.radius

    def _table(self, dtype: Any, team: ThreadTeam) -> AnyArray:
        return by_blocks(self.scaled, self.points, np.empty(self.points.shape, dtype), team)

    def measured(
        self,
        queries: FloatArray,
        own: IntArray,
        near: IntArray,
        k: int,
        team: ThreadTeam,
        floors: FloatArray | None = None,
    ) -> Found:
        """The ``k`` nearest of the candidates by coordinate differences; -1 and inf where too few.

        ``floors`` are, of candidates in their order, what their distances are not below.
        """
        neighbors, distances = np.empty((len(queries), k), dtype=np.int32), np.empty((len(queries), k))
        floors = np.empty((len(queries), 0)) if floors is None else floors
        team.run(
            kernels.measure_rows, len(queries), queries, own, self.points, near, floors, neighbors, distances
        )
        return neighbors, distances

    def _order(self, dtype: Any, team: ThreadTeam) -> Callable[[FloatArray], AnyArray]:
        """What orders all points by their distance from rows: scores of a precision, or the distance."""
        if dtype is None:
            return lambda rows: cdist(rows, self.points)
        table = self.single if dtype == np.float32 else self._table(dtype, team)
        halves = (0.5 * self.norms**2).astype(dtype)
        return lambda rows: scores(table, halves, self.scaled(rows).astype(dtype))

    def __call__(self, queries: FloatArray, own: IntArray, k: int, team: ThreadTeam) -> Found:
        n, m = len(self.points), len(queries)
        is_new = bool((own < 0).all())
        n_others = n if is_new else n - 1
        width = n_candidates(k, n_others)
        norms = row_norms(self.scaled(queries)) if is_new else self.norms[own]
        # Strictly for new rows: what they find must not depend on candidates that tie for the last place.
        slack = 1.0 if is_new else 1.0 - 5e-10
        neighbors, distances = np.empty((m, k), dtype=np.int32), np.empty((m, k))

        def settle(at: AnyArray, dtype: Any) -> AnyArray:
            """Neighbours of the queries ``at`` among their best by scores; who may have nearer ones."""
            to_all = self._order(dtype, team)
            candidates, best = nearest_of_all(
                lambda lo, hi: to_all(queries[at[lo:hi]]), own[at], width, team, block_rows(n), dtype or float
            )
            rows, floors = queries if len(at) == m else queries[at], None
            if dtype is not None:
                error = (self.points.shape[1] + 4) * float(np.finfo(dtype).eps) * (norms[at] + 0.5)
                squares = 2 * best.astype(np.float64) + (norms[at] ** 2 - 2 * error)[:, None]
                floors = (self.radius * _ROUNDED_DOWN) * np.sqrt(np.maximum(squares, 0.0))
            neighbors[at], distances[at] = self.measured(rows, own[at], candidates, k, team, floors)
            if floors is None or width >= n_others:
                return at[:0]
            return at[floors[:, -1] <= distances[at, -1] * slack]

        far, pending = np.flatnonzero(norms >= _FARTHEST), np.flatnonzero(norms < _FARTHEST)
        for dtype in (np.float32, np.float64, None):
            pending = np.sort(np.concatenate((pending, far))) if dtype is None else pending
            if len(pending):
                pending = settle(pending, dtype)
        return neighbors, distances


def pairwise_search(space: FeatureSpace, queries: Any, own: IntArray, k: int, team: ThreadTeam) -> Found:
    """Neighbours in any metric of scikit-learn, from the distances of all pairs."""
    points, n, is_new = space.points, space.points.shape[0], bool((own < 0).all())
    step = block_rows(n)
    # A new row is to find the same in any batch.
    alone = is_new and space.metric in _BY_PRODUCTS and not space.is_sparse
    # scikit-learn's Euclidean distances lose digits; only sparse features too large to be made dense come
    # here with them, and then a few candidates more are fetched and measured again.
    inexact = space.metric == "euclidean" and not space.params
    width = n_candidates(k, n if is_new else n - 1) if inexact else k

    from sklearn.metrics import pairwise_distances

    def to_all(lo: int, hi: int) -> FloatArray:
        block = pairwise_distances(queries[lo:hi], points, metric=space.metric, **space.params)
        return np.ascontiguousarray(block, dtype=np.float64)

    neighbors, distances = nearest_of_all(to_all, own, width, team, 1 if alone else step)
    if not inexact:
        return neighbors, distances
    for lo in range(0, len(own), step):
        near = neighbors[lo : lo + step]
        difference = queries[np.repeat(np.arange(lo, lo + len(near)), width)] - points[near.reshape(-1)]
        squares = np.asarray(difference.multiply(difference).sum(axis=1))
        distances[lo : lo + step] = np.sqrt(squares).reshape(-1, width)
    order = np.lexsort((neighbors, distances))[:, :k]
    return np.take_along_axis(neighbors, order, axis=1), np.take_along_axis(distances, order, axis=1)
