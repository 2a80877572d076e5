"""Sparse Cholesky factorisation for many solves: order, size, values; lowest eigenvectors.

The order is SuperLU's. Its factor takes as long to make and to solve with, but may not be kept: forks would
have to wait for it (:func:`symmetric_solver`), only the thread that made it can free it, and components have
other bits among others than alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import breadth_first_order
from scipy.sparse.linalg import spilu, splu

from isoweave._forks import forks_wait
from isoweave._lazy import LazyModule
from isoweave._parallel import ThreadTeam
from isoweave._typing import AnyArray, BoolArray, FloatArray, IntArray
from isoweave.linalg._banded import INDEFINITE, NO_PIVOT, PreparationError

kernels = LazyModule("isoweave.engines.cholesky")
# Entries of the largest factor a direct solver will make (1.2 GB, which take minutes).
MAX_FILL = 100_000_000
# Above this many times the entries of the matrix a factor is no use, and minimum degree takes minutes to
# find out.
MAX_FILL_RATIO = 50.0
# SuperLU on symmetric matrices.
SYMMETRIC: Any = {"permc_spec": "MMD_AT_PLUS_A", "diag_pivot_thresh": 0.0, "options": {"SymmetricMode": True}}
_TOLERANCE = 1e-10  # of the residuals of eigenvectors, beside the mean diagonal
_STANDSTILL = 3e-3  # relative change of the eigenvalues in a sweep


def hubs_of(indptr: IntArray) -> BoolArray:
    """Vertices of very high degree."""
    hubs: BoolArray = np.diff(indptr) > max(16.0, 10.0 * np.sqrt(len(indptr) - 1))
    return hubs


def elimination_order(indptr: IntArray, indices: IntArray, start: int = 0) -> IntArray:
    """Fill-reducing order of a symmetric pattern, int32 (n,), the first vertex to be eliminated first.

    Multiple minimum degree, as SuperLU computes it: on graphs of surfaces it fills as little as nested
    dissection. It is slow around vertices of very high degree: those come last. Where even a level in the
    middle of the component of ``start`` is too large to be a separator, vertices go by increasing degree.
    """
    n = len(indptr) - 1
    degrees, hubs = np.diff(indptr), hubs_of(indptr)
    # Beside a separator of w vertices the factor holds w^2 / 2 entries.
    widest = np.sqrt(2 * MAX_FILL_RATIO * len(indices))
    if n < 3 or (n > widest and _middle_level(indptr, indices, start, hubs) > widest):
        return np.argsort(degrees, kind="stable").astype(np.int32)
    rest = np.flatnonzero(~hubs)
    pattern = sp.csc_array((np.ones(len(indices)), indices, indptr), shape=(n, n))
    if len(rest) < n:
        pattern = pattern[rest][:, rest]
    # With a dominant diagonal the incomplete factorisation drops all else at once.
    dominant = sp.csc_array(pattern + sp.eye_array(len(rest), format="csc") * (1e3 * n))
    # Nothing of the factors may be left when a fork goes on: see symmetric_solver.
    with forks_wait():
        inner = np.argsort(spilu(dominant, drop_tol=1.0, fill_factor=1.0, **SYMMETRIC).perm_c)
    return np.concatenate([rest[inner], np.argsort(degrees, kind="stable")[len(rest) :]]).astype(np.int32)


def levels_from(
    indptr: IntArray, indices: IntArray, start: int, skipped: BoolArray
) -> tuple[IntArray, AnyArray]:
    """Vertices in the order of a breadth-first search that skips some, and the bounds of its levels."""
    n = len(skipped)
    if skipped.any():
        kept = ~skipped[indices]
        indices, indptr = indices[kept], np.append(0, np.cumsum(kept))[indptr].astype(np.int32)
    graph = sp.csr_array((np.ones(len(indices)), indices, indptr), shape=(n, n))
    order, before = breadth_first_order(graph, start)
    place = np.empty(n, dtype=np.int32)
    place[order] = np.arange(len(order))
    above, bounds = place[before[order[1:]]], [0, 1]
    while bounds[-1] < len(order):
        bounds.append(1 + int(np.searchsorted(above, bounds[-1])))
    return order, np.array(bounds)


def _middle_level(indptr: IntArray, indices: IntArray, start: int, skipped: BoolArray) -> int:
    """Size of the middle level of a search from the rim of the component of ``start``."""
    # Two searches: the first finds a vertex at the rim, from where levels are narrow.
    rim = levels_from(indptr, indices, start, skipped)[0][-1]
    _, bounds = levels_from(indptr, indices, int(rim), skipped)
    middle = int(np.searchsorted(bounds, bounds[-1] // 2, side="right"))
    return int(bounds[middle] - bounds[middle - 1])


class Elimination(NamedTuple):
    """A symmetric pattern in an order of elimination, and the size of its factor."""

    order: IntArray  # order[r] is the original number of row r; vertices may be left out
    indptr: IntArray
    indices: IntArray
    entries: IntArray  # the places of its entries among those of the matrix
    fill: int  # entries of the factor; beyond MAX_FILL some of them


def plan_elimination(indptr: IntArray, indices: IntArray, order: IntArray) -> Elimination:
    """A pattern in an order that may leave vertices out."""
    entries, n = np.arange(len(indices), dtype=np.int32), len(indptr) - 1
    found = sp.csr_array((entries, indices, indptr), shape=(n, n))[order][:, order]
    fill = int(kernels.count_entries(found.indptr, found.indices, MAX_FILL))
    return Elimination(order, found.indptr, found.indices, found.data, fill)


class Factor(NamedTuple):
    """A complete or incomplete factor in the order of elimination."""

    order: AnyArray
    starts: AnyArray  # of every column
    rows: IntArray
    values: FloatArray

    def empty_block(self, width: int) -> FloatArray:
        """Room for right-hand sides of ``width`` columns, which are its first rows, in factor order."""
        return np.zeros((width + width % 2, len(self.order)))

    def solve(self, rhs: FloatArray, team: ThreadTeam) -> FloatArray:
        """Solve for a block (n, N); vertices left out of the order are held at zero."""
        block, out = self.empty_block(rhs.shape[1]), np.zeros_like(rhs)
        block[: rhs.shape[1]] = rhs[self.order].T
        self.solve_block(block, team)
        out[self.order] = block[: rhs.shape[1]].T
        return out

    def solve_block(self, block: FloatArray, team: ThreadTeam) -> None:
        """Overwrite right-hand sides in an :meth:`empty_block` with solutions."""
        team.run(kernels.substitute, len(block) // 2, *self[1:], block, grain=1)


def factorise(plan: Elimination, data: FloatArray) -> Factor:
    """The complete factor of the matrix with these entries, or PreparationError."""
    if plan.fill > MAX_FILL:
        raise PreparationError(f"the Cholesky factor would hold more than {MAX_FILL:,} entries")
    n = len(plan.order)
    try:
        rows, values = np.empty(plan.fill, dtype=np.int32), np.empty(plan.fill)
        matrix = (plan.indptr, plan.indices, data[plan.entries])
        diagonal = sp.csr_array(matrix[::-1], shape=(n, n)).diagonal()
        starts, failed = kernels.factorise(*matrix, diagonal, NO_PIVOT, 0.0, n, rows, values)
    except MemoryError as error:
        raise PreparationError("not enough memory for the Cholesky factor") from error
    if failed >= 0:
        raise PreparationError(INDEFINITE.format(plan.order[failed]))
    return Factor(plan.order, starts, rows, values)


class BlockCholesky:
    """Solves with symmetric matrices of ``width`` rows per vertex and entries at the edges of one graph.

    The entries of a row are those at the vertex itself, then at its neighbours in turn, ``width`` at each.
    """

    def __init__(self, indptr: IntArray, indices: IntArray, width: int) -> None:
        n, across = len(indptr) - 1, np.arange(width)
        blocks = np.insert(indices, indptr[:-1], np.arange(n))
        ones = np.ones((len(blocks), width, width))
        pattern = sp.bsr_array((ones, blocks, indptr + np.arange(n + 1)), shape=(n * width,) * 2).tocsr()
        self.indptr, self.indices = pattern.indptr, pattern.indices
        self.diagonal = self.indptr[:-1] + np.tile(across, n)
        order = elimination_order(indptr, indices)
        rows = (width * order[:, None] + across).ravel().astype(np.int32)
        self._plan = plan_elimination(self.indptr, self.indices, rows)

    def solve(
        self, values: FloatArray, damping: float, rhs: FloatArray, team: ThreadTeam
    ) -> FloatArray | None:
        """Solution (n, width) of the matrix with ``damping`` on its diagonal; None if it is not definite."""
        damped = values.copy()
        damped[self.diagonal] += damping
        try:
            factor = factorise(self._plan, damped)
        except PreparationError:
            return None
        return factor.solve(rhs.reshape(-1, 1), team).reshape(rhs.shape)


@contextmanager
def symmetric_solver(matrix: sp.csr_array, shift: float) -> Iterator[Callable[[FloatArray], FloatArray]]:
    """Function that solves with ``matrix + shift I`` inside the block, for right-hand sides (n,) or (n, k).

    Forks by other threads wait until the block is left: while a thread holds a factor of SuperLU, SciPy (1.17
    and before) sets an error in every child forked elsewhere, which stops Python's clean-up of threads there.
    """
    with forks_wait():
        # The caller's name for the function outlives the block; the factor must not.
        held = [splu(sp.csc_array(matrix + shift * sp.eye_array(matrix.shape[0])), **SYMMETRIC)]
        try:
            yield lambda rhs: np.asarray(held[0].solve(rhs))
        finally:
            held.clear()


def lowest_eigenvectors(
    matrix: sp.csr_array, n_wanted: int, *, rough: bool = False
) -> tuple[FloatArray, FloatArray]:
    """Smallest eigenvalues and vectors of a positive semi-definite matrix by block inverse iteration.

    On flat data the eigenvalue zero of a connection Laplacian is exactly N-fold: single-vector Krylov methods
    miss copies of it, a block of more than N vectors cannot. ``rough``: a wider block, and an end once the
    eigenvalues hardly move (25 sweeps at most) instead of at small residuals (200 sweeps).
    """
    n_extra, max_sweeps = (6, 25) if rough else (3, 200)
    size = matrix.shape[0]
    scale = float(matrix.diagonal().mean())
    shift = 1e-9 * max(scale, np.finfo(float).tiny)
    block = np.random.default_rng(7).standard_normal((size, min(n_wanted + n_extra, size)))
    values = before = np.full(n_wanted, np.inf)
    with symmetric_solver(matrix, shift) as solve:
        for _ in range(max_sweeps):
            block, _ = np.linalg.qr(solve(block))
            small = block.T @ (matrix @ block)
            all_values, rotation = np.linalg.eigh(0.5 * (small + small.T))
            block = block @ rotation
            values, vectors = all_values[:n_wanted], block[:, :n_wanted]
            if rough:
                now = np.maximum(values, shift)
                if np.all(before - now <= _STANDSTILL * now):
                    break
                before = now
            else:
                residual = np.linalg.norm(matrix @ vectors - vectors * values, axis=0)
                if residual.max() <= _TOLERANCE * scale:
                    break
    return values, vectors
