"""A Laplacian with its nullspace, checked: products, residuals, and where its factor begins."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import breadth_first_order, connected_components

from isoweave._lazy import LazyModule, computed_once
from isoweave._parallel import ONE_THREAD, ThreadTeam
from isoweave._typing import FloatArray, IntArray
from isoweave.engines import plain
from isoweave.linalg._cholesky import Elimination, elimination_order, hubs_of, plan_elimination

sparse = LazyModule("isoweave.engines.sparse")
# Part of the largest entry by which rounding may keep sums of rows from zero, and entries from their mirrors.
_SLACK = 1e-8
_ROWS_AT_ONCE = 2**15
# Entries from which compiled code is worth loading to check them.
_MANY = 2**18


@dataclass(frozen=True, eq=False)
class Laplacian:
    """Symmetric positive semi-definite matrix in CSR form with one constant per component in its kernel."""

    indptr: IntArray
    indices: IntArray
    data: FloatArray
    diagonal: FloatArray
    norm: float  # largest absolute row sum, an upper bound of the largest eigenvalue
    labels: IntArray  # connected component of every vertex
    sizes: FloatArray  # number of vertices of every component

    @property
    def n(self) -> int:
        return len(self.indptr) - 1

    def to_matrix(self) -> sp.csr_array:
        """The matrix as a scipy sparse array sharing this memory."""
        return sp.csr_array((self.data, self.indices, self.indptr), shape=(self.n, self.n))

    def project(self, block: FloatArray, team: ThreadTeam) -> FloatArray:
        """Copy of ``block`` (n, N) with the mean over every component taken out of each column."""
        out = np.empty_like(block)
        if len(self.sizes) > 1 or self.n <= _ROWS_AT_ONCE:
            (plain if len(self.data) <= plain.FEW else sparse).project(self.labels, self.sizes, block, out)
            return out
        starts = range(0, self.n, _ROWS_AT_ONCE)
        sums = np.empty((len(starts), block.shape[1]))

        def add_up(start: int, stop: int) -> None:
            for k in range(start, stop):
                sums[k] = block[starts[k] : starts[k] + _ROWS_AT_ONCE].sum(axis=0)

        team.run(add_up, len(starts), grain=1)
        mean = sums.sum(axis=0) / self.n
        team.run(lambda lo, hi: np.subtract(block[lo:hi], mean, out=out[lo:hi]), self.n, grain=_ROWS_AT_ONCE)
        return out

    @computed_once
    def ground(self) -> IntArray:
        """The vertex with most neighbours of every component: without it a factor fills in least."""
        if len(self.sizes) == 1:
            return np.array([np.argmax(np.diff(self.indptr))], dtype=np.int32)
        order = np.lexsort((-np.diff(self.indptr), self.labels))
        first = np.searchsorted(self.labels[order], np.arange(len(self.sizes)))
        return order[first].astype(np.int32)

    def is_within(self, n_edges: int) -> bool:
        """Whether so many edges lead from a vertex of lowest degree to all it is joined to without hubs."""
        matrix, reached = self.to_matrix(), hubs_of(self.indptr)
        rim = np.array([np.argmin(np.diff(self.indptr))])
        for _ in range(n_edges + 1):
            reached[rim] = True
            around = matrix[rim].indices
            rim = np.unique(around[~reached[around]])
            if len(rim) == 0:
                return True
        return False

    def elimination(self) -> Elimination:
        """Order and size of the Cholesky factor with :attr:`ground` left out."""
        order = elimination_order(self.indptr, self.indices, int(self.ground[np.argmax(self.sizes)]))
        return plan_elimination(self.indptr, self.indices, order[~np.isin(order, self.ground)])

    def multiply(self, block: FloatArray, out: FloatArray, team: ThreadTeam) -> None:
        """Write ``L block`` to ``out``, both C-contiguous of shape (n, N)."""
        matrix = (self.indptr, self.indices, self.data)
        # A kernel that conjugate gradients have loaded is faster; it is not loaded for residuals alone.
        kernel = plain.choose("sparse.multiply_rows", len(self.data))
        run_evenly(team, kernel, self.n, 2 * plain.CHUNK, *matrix, block, out)

    def residual(self, rhs: FloatArray, value: FloatArray, team: ThreadTeam) -> tuple[FloatArray, FloatArray]:
        """``rhs - L value`` of shape (n, N) and the norms of its columns of shape (N,)."""
        out = np.empty_like(rhs)
        self.multiply(value, out, team)
        np.subtract(rhs, out, out=out)
        return out, np.sqrt(column_dots(out, out, team))

    def rounding(self, value: FloatArray, team: ThreadTeam) -> FloatArray:
        """Residual norms (N,) that rounding alone may leave; ill-conditioned graphs can do no better."""
        return 4.0 * sys.float_info.epsilon * self.norm * np.sqrt(column_dots(value, value, team))


def run_evenly(team: ThreadTeam, kernel: Callable[..., Any], n_items: int, least: int, *args: Any) -> None:
    """Run a kernel whose items cost the same: one range per thread, of at least ``least`` items."""
    # Conjugate gradients make five calls an iteration: more ranges would cost more than they even out.
    team.run(kernel, n_items, *args, grain=max(least, -(-n_items // team.n_threads)))


def column_dots(a: FloatArray, b: FloatArray, team: ThreadTeam) -> FloatArray:
    """Dot products of matching columns of two blocks (n, N), in an order that never changes."""
    n_chunks = -(-len(a) // plain.CHUNK)
    partial = np.empty((n_chunks, a.shape[1]))
    run_evenly(team, plain.choose("sparse.dot_chunks", a.size), n_chunks, 16, a, b, partial)
    return partial.sum(axis=0) if n_chunks > 1 else partial[0]


def prepare_laplacian(laplacian: Any, team: ThreadTeam = ONE_THREAD) -> Laplacian:
    """Check a Laplacian, symmetric with rows that sum to zero, and find its connected components."""
    if isinstance(laplacian, Laplacian):
        return laplacian
    if not sp.issparse(laplacian):
        raise TypeError(f"laplacian must be a scipy sparse matrix, got {type(laplacian).__name__}.")
    n, n_columns = laplacian.shape
    if n != n_columns or n == 0:
        raise ValueError(f"laplacian must be square and not empty, got shape {laplacian.shape}.")
    matrix = sp.csr_array(laplacian, dtype=np.float64)
    if not matrix.has_canonical_format or not matrix.data.all():
        matrix = matrix.copy()
        matrix.sum_duplicates()
        # A stored zero joins nothing; left in, it would hide a second component and its constant.
        matrix.eliminate_zeros()
    most = np.iinfo(np.int32).max
    if matrix.nnz > most:
        raise ValueError(f"laplacian has {matrix.nnz} entries; at most {most} are supported.")
    indptr, indices = (a.astype(np.int32, copy=False) for a in (matrix.indptr, matrix.indices))
    if matrix.nnz > _MANY:
        diagonal, facts = np.zeros(n), np.empty((n, 4))
        team.run(sparse.look_at_rows, n, indptr, indices, matrix.data, diagonal, facts)
        off, norm, scale, gap = np.abs(facts).max(axis=0).tolist()
        # Where an entry is not finite, one of these is not either.
        if not max(off, gap) <= _SLACK * scale < np.inf:
            _check_entries(matrix)
    else:
        _check_entries(matrix)
        diagonal, norm = matrix.diagonal(), float((abs(matrix) @ np.ones(n)).max())
    labels = np.zeros(n, dtype=np.int32)
    if len(breadth_first_order(matrix, 0, return_predecessors=False)) < n:
        labels = connected_components(matrix, directed=False)[1].astype(np.int32)
    sizes = np.bincount(labels).astype(np.float64)
    return Laplacian(indptr, indices, matrix.data, diagonal, norm, labels, sizes)


def _check_entries(matrix: sp.csr_array) -> None:
    """Refuse what is not a Laplacian: such a system has no solution after projection."""
    bad = np.flatnonzero(~np.isfinite(matrix.data))
    if len(bad):
        row = int(np.searchsorted(matrix.indptr, bad[0], side="right")) - 1
        raise ValueError(
            f"laplacian has {len(bad)} entries that are not finite, the first in row {row}, column "
            f"{matrix.indices[bad[0]]}: {matrix.data[bad[0]]}. Check the weights or frames it was made from."
        )
    scale = float(np.abs(matrix.data).max(initial=0.0))
    sums = np.abs(matrix.sum(axis=1))
    if sums.max() > _SLACK * scale:
        row = int(np.argmax(sums))
        raise ValueError(
            f"rows of a Laplacian sum to zero, but row {row} sums to {sums[row]:.3g} "
            f"(largest entry {scale:.3g}). Build it with the diagonal equal to minus the rest of the row."
        )
    mirror = sp.csr_array(matrix.T)
    same = np.array_equal(mirror.indices, matrix.indices)
    # Without the memory of a difference of matrices, which is needed to name the entry only.
    if same and np.abs(matrix.data - mirror.data).max(initial=0.0) <= _SLACK * scale:
        return
    gaps = sp.coo_array(abs(matrix - mirror))
    e = int(np.argmax(gaps.data))
    if gaps.data[e] > _SLACK * scale:
        raise ValueError(
            f"laplacian must be symmetric, but entry ({gaps.row[e]}, {gaps.col[e]}) and its mirror differ "
            f"by {gaps.data[e]:.3g}. Symmetrise it with (L + L.T) / 2."
        )
