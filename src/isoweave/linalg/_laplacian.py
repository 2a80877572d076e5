"""What every solver shares: the matrix with its nullspace, products with blocks, the result.

A graph Laplacian has one constant per connected component in its kernel. That is dealt with here
and nowhere else: :func:`prepare_laplacian` finds the components, :meth:`Laplacian.project` takes the
constants out of right-hand sides and solutions, and methods see projected blocks only.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from isoweave._lazy import computed_once
from isoweave._parallel import ThreadTeam
from isoweave._typing import FloatArray, IntArray
from isoweave.engines import sparse
from isoweave.linalg._cholesky import Elimination, elimination_order, plan_elimination

# Part of the largest entry by which sums of rows may differ from zero, and entries from their mirrors. Loose:
# the paper's operator is assembled from many rounded products per entry.
_SLACK = 1e-8


@dataclass(frozen=True, eq=False)
class SolveResult:
    """Outcome of one block solve."""

    value: FloatArray  #: Solution, shape (n, N), with zero mean on every connected component.
    residual: float  #: Largest ``||b - L x|| / ||b||`` of a column, measured, b projected.
    iterations: int  #: Of conjugate gradients (slowest column); refinement steps of a direct solver.
    solver: str  #: The method that produced ``value``; after a fallback not the one asked for.
    status: Literal["converged", "stalled"]


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

    def project(self, block: FloatArray) -> FloatArray:
        """Copy of ``block`` (n, N) with the mean over every component taken out of each column."""
        out = np.empty_like(block)
        sparse.project(self.labels, self.sizes, block, out)
        return out

    @computed_once
    def ground(self) -> IntArray:
        """The vertex with most neighbours of every component: without it a factor fills in least."""
        order = np.lexsort((-np.diff(self.indptr), self.labels))
        first = np.searchsorted(self.labels[order], np.arange(len(self.sizes)))
        return order[first].astype(np.int32)

    @computed_once
    def elimination(self) -> Elimination:
        """Order and size of the Cholesky factor with :attr:`ground` left out."""
        start = int(self.ground[np.argmax(self.sizes)])
        order = elimination_order(self.indptr, self.indices, start)
        return plan_elimination(self.indptr, self.indices, order[~np.isin(order, self.ground)])

    def multiply(self, block: FloatArray, out: FloatArray, team: ThreadTeam) -> None:
        """Write ``L block`` to ``out``, both C-contiguous of shape (n, N)."""
        matrix = (self.indptr, self.indices, self.data)
        run_evenly(team, sparse.multiply_rows, self.n, 2 * sparse.CHUNK, *matrix, block, out)

    def residual(self, rhs: FloatArray, value: FloatArray, team: ThreadTeam) -> tuple[FloatArray, FloatArray]:
        """``rhs - L value`` of shape (n, N) and the norms of its columns of shape (N,)."""
        out = np.empty_like(rhs)
        self.multiply(value, out, team)
        np.subtract(rhs, out, out=out)
        return out, np.sqrt(column_dots(out, out, team))

    def rounding(self, value: FloatArray, team: ThreadTeam) -> FloatArray:
        """Residual norms (N,) that rounding alone may leave; ill-conditioned graphs can do no better."""
        return 4.0 * sys.float_info.epsilon * self.norm * np.sqrt(column_dots(value, value, team))


class SolverMethod:
    """A factored or otherwise prepared solver. It sees projected right-hand sides only."""

    name: str
    # Whether a solution that misses its goal should be handed back once as ``guess``.
    refines = False

    def __init__(self, laplacian: Laplacian, team: ThreadTeam) -> None:
        self._laplacian, self._team = laplacian, team
        self._prepare()

    def _prepare(self) -> None:
        """Factor, or raise PreparationError."""

    def attempt(self, rhs: FloatArray, guess: FloatArray | None, goal: FloatArray) -> tuple[FloatArray, int]:
        """Solution of ``L x = rhs`` with residual norms ``goal`` (N,), or the best there is; iterations."""
        raise NotImplementedError


class PreparationError(RuntimeError):
    """A method could not be prepared: out of memory, or the matrix is not positive definite."""


def run_evenly(team: ThreadTeam, kernel: Callable[..., Any], n_items: int, least: int, *args: Any) -> None:
    """Run a kernel whose items cost the same: one range per thread, of at least ``least`` items."""
    # Conjugate gradients make five calls an iteration: more ranges would cost more than they even out.
    team.run(kernel, n_items, *args, grain=max(least, -(-n_items // team.n_threads)))


def column_dots(a: FloatArray, b: FloatArray, team: ThreadTeam) -> FloatArray:
    """Dot products of matching columns of two blocks (n, N), in an order that never changes."""
    n_chunks = -(-len(a) // sparse.CHUNK)
    partial = np.empty((n_chunks, a.shape[1]))
    run_evenly(team, sparse.dot_chunks, n_chunks, 16, a, b, partial)
    return partial.sum(axis=0) if n_chunks > 1 else partial[0]


def prepare_laplacian(laplacian: Any) -> Laplacian:
    """Check a Laplacian, symmetric with rows that sum to zero, and find its connected components."""
    if isinstance(laplacian, Laplacian):
        return laplacian
    if not sp.issparse(laplacian):
        raise TypeError(f"laplacian must be a scipy sparse matrix, got {type(laplacian).__name__}.")
    n, n_columns = laplacian.shape
    if n != n_columns or n == 0:
        raise ValueError(f"laplacian must be square and not empty, got shape {laplacian.shape}.")
    matrix = sp.csr_array(laplacian, dtype=np.float64, copy=True)
    matrix.sum_duplicates()
    # A stored zero joins nothing; left in, it would hide a second component and its constant.
    matrix.eliminate_zeros()
    most = np.iinfo(np.int32).max
    if matrix.nnz > most:
        raise ValueError(f"laplacian has {matrix.nnz} entries; at most {most} are supported.")
    indptr, indices = matrix.indptr.astype(np.int32), matrix.indices.astype(np.int32)
    diagonal = np.empty(n)
    largest, most, norm, gap = sparse.inspect(indptr, indices, matrix.data, diagonal)
    if max(most, gap) > _SLACK * largest or not np.isfinite(matrix.data).all():
        _check_entries(matrix)
    n_parts, labels = connected_components(matrix, directed=False)
    return Laplacian(
        indptr=indptr,
        indices=indices,
        data=matrix.data,
        diagonal=diagonal,
        norm=norm,
        labels=labels.astype(np.int32),
        sizes=np.bincount(labels, minlength=n_parts).astype(np.float64),
    )


def _check_entries(matrix: sp.csr_array) -> None:
    """Refuse what is not a Laplacian: such a system has no solution after projection."""
    bad = np.flatnonzero(~np.isfinite(matrix.data))
    if len(bad):
        row = int(np.searchsorted(matrix.indptr, bad[0], side="right")) - 1
        raise ValueError(
            f"laplacian has {len(bad)} entries that are not finite, the first in row {row}, column "
            f"{matrix.indices[bad[0]]}: {matrix.data[bad[0]]}. Check the weights or frames it was made from."
        )
    scale = float(abs(matrix.data).max()) if matrix.nnz else 0.0
    limit = _SLACK * scale
    sums = np.abs(matrix.sum(axis=1))
    if sums.max() > limit:
        row = int(np.argmax(sums))
        raise ValueError(
            f"rows of a Laplacian sum to zero, but row {row} sums to {sums[row]:.3g} "
            f"(largest entry {scale:.3g}). Build it with the diagonal equal to minus the rest of the row."
        )
    gaps = abs(matrix - matrix.T).tocoo()
    if gaps.nnz and gaps.data.max() > limit:
        e = int(np.argmax(gaps.data))
        raise ValueError(
            f"laplacian must be symmetric, but entry ({gaps.row[e]}, {gaps.col[e]}) and its mirror differ "
            f"by {gaps.data[e]:.3g}. Symmetrise it with (L + L.T) / 2."
        )
