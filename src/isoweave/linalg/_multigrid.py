"""Conjugate gradients with a multigrid cycle: smoothed aggregation, set up and run by all threads.

Vertices around those of a maximal set, three steps apart, are the vertices of the next level (P. Vanek, J.
Mandel, M. Brezina, "Algebraic multigrid by smoothed aggregation", 1996). The set is found by tickets that
depend on the number of a vertex alone, and every row of a matrix is computed by itself: any number of threads
makes the same hierarchy; pyamg has but one. The GPU engine has the same levels and sweeps
(``isoweave.cuda``).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from isoweave._lazy import LazyModule
from isoweave._parallel import ThreadTeam, single_blas_thread
from isoweave._typing import AnyArray, FloatArray, IntArray
from isoweave.engines import plain
from isoweave.linalg._banded import PreparationError
from isoweave.linalg._laplacian import column_dots, run_evenly
from isoweave.linalg._methods import ConjugateGradient

kernels, sparse = LazyModule("isoweave.engines.multigrid"), LazyModule("isoweave.engines.sparse")
# The coarsest matrix, which is inverted; levels that shrink by less end the hierarchy.
COARSEST, LEAST_SHRINKING, MOST_LEVELS = 300, 0.8, 12
LARGEST_INVERSE = 2000
# Weights of the two sweeps before and after the coarser levels, as parts of 2 over the largest eigenvalue of
# D^-1 A: Chebyshev's, over the upper four fifths of the spectrum.
SWEEPS = (0.5664, 1.5765)
# Of the power iteration for that eigenvalue, and what is added for what it misses.
POWER_STEPS, MARGIN = 12, 1.1
# A vertex with more times the mean number of entries is a hub: what it is joined to has nothing in common.
HUB = 10.0
_LEAST_ROWS = 8 * plain.CHUNK  # of a thread


class Csr(NamedTuple):
    """A sparse matrix by its arrays."""

    indptr: Any
    indices: Any
    data: Any

    @property
    def n(self) -> int:
        return len(self.indptr) - 1


class _Level(NamedTuple):
    """One level of the cycle: the matrix, and the ways to and from the next level."""

    matrix: Csr
    prolong: Csr
    restrict: Csr
    scales: list[FloatArray]  # of the sweeps: weight times inverse diagonal


class Multigrid(ConjugateGradient):
    """One V(2, 2) cycle with Chebyshev's weights for Jacobi sweeps, the same up as down: symmetric."""

    name = "amg"
    # One that needs more has failed; waiting longer is no help.
    max_iter = 300

    def _prepare(self) -> None:
        lap, team = self._laplacian, self._team
        matrix, self._levels = Csr(lap.indptr, lap.indices, lap.data), list[_Level]()
        # A component that shrinks to one coarse vertex leaves a diagonal of pure rounding behind.
        negligible = 1e-12 * lap.norm
        while matrix.n > COARSEST and len(self._levels) < MOST_LEVELS:
            near = _without_hubs(matrix)
            aggregates, n_coarse = aggregate(near, team)
            if n_coarse > LEAST_SHRINKING * matrix.n:
                break
            inverse = _invert(_diagonal(matrix), negligible)
            largest = MARGIN * _largest_eigenvalue(matrix, inverse, team)
            scale = inverse if near is matrix else _invert(_diagonal(near), negligible)
            scale = 4.0 / 3.0 / largest * scale
            prolong = _rows(
                kernels.smooth_rows, matrix.n, (*near, scale, aggregates, n_coarse), team, _LEAST_ROWS
            )
            restrict = _transposed(prolong, n_coarse)
            scales = [part * 2.0 / largest * inverse for part in SWEEPS]
            self._levels.append(_Level(matrix, prolong, restrict, scales))
            matrix = _rows(kernels.galerkin_rows, n_coarse, (*restrict, *matrix, *prolong), team, 64)
        if matrix.n > LARGEST_INVERSE:
            raise PreparationError(f"coarsening ends at {matrix.n} vertices")
        dense = sp.csr_array(matrix[::-1], shape=(matrix.n, matrix.n)).toarray()
        with single_blas_thread():
            values, vectors = np.linalg.eigh(0.5 * (dense + dense.T))
        # The coarsest matrix inherits the constants in its kernel, hence a pseudo-inverse. It is a sparse
        # matrix because BLAS rounds by the number of columns.
        inverse = sp.csr_array((vectors * _invert(values, negligible)) @ vectors.T)
        self._coarsest = Csr(inverse.indptr, inverse.indices, inverse.data)
        self._width, self._room = 0, list[FloatArray]()

    def apply(self, residual: FloatArray, out: FloatArray) -> None:
        width = residual.shape[1]
        if self._width != width:
            sizes = [level.matrix.n for level in self._levels] + [self._coarsest.n]
            self._room = [np.empty((4 if depth else 2, n, width)) for depth, n in enumerate(sizes)]
            self._width = width
        self._cycle(0, residual, out)

    def _cycle(self, depth: int, rhs: FloatArray, out: FloatArray) -> None:
        def run(kernel: Any, matrix: Csr, *args: Any) -> None:
            run_evenly(self._team, kernel, matrix.n, _LEAST_ROWS, *args)

        if depth == len(self._levels):
            run(sparse.multiply_rows, self._coarsest, *self._coarsest, rhs, out)
            return
        matrix, prolong, restrict, (first, second) = self._levels[depth]
        (x, y), (_, _, coarse_rhs, coarse) = self._room[depth][:2], self._room[depth + 1]
        run(sparse.scale_rows, matrix, first, rhs, x)
        run(kernels.sweep_rows, matrix, *matrix, second, rhs, x, y)
        run(kernels.plus_product, matrix, rhs, -1.0, *matrix, y, x)
        run(sparse.multiply_rows, restrict, *restrict, x, coarse_rhs)
        self._cycle(depth + 1, coarse_rhs, coarse)
        run(kernels.plus_product, prolong, y, 1.0, *prolong, coarse, y)
        run(kernels.sweep_rows, matrix, *matrix, first, rhs, y, x)
        run(kernels.sweep_rows, matrix, *matrix, second, rhs, x, out)


def aggregate(matrix: Csr, team: ThreadTeam) -> tuple[IntArray, int]:
    """The aggregate of every vertex, and how many there are."""
    n = matrix.n
    tickets = _tickets(n)
    near, around = np.empty_like(tickets), np.empty_like(tickets)
    undecided = np.ones(n, dtype=np.bool_)
    while undecided.any():
        undecided[:] = False
        run_evenly(team, kernels.largest_ticket, n, _LEAST_ROWS, *matrix, tickets, near)
        run_evenly(team, kernels.largest_ticket, n, _LEAST_ROWS, *matrix, near, around)
        run_evenly(team, kernels.decide, n, _LEAST_ROWS, around, tickets, undecided)
    chosen = tickets >= kernels.CHOSEN
    number = np.cumsum(chosen, dtype=np.int32)
    found, joined = np.where(chosen, number - 1, np.int32(-1)), np.empty(n, dtype=np.int32)
    for _ in range(2):
        run_evenly(team, kernels.join, n, _LEAST_ROWS, *matrix, found, joined)
        found, joined = joined, found
    return found, int(number[-1])


def _tickets(n: int) -> AnyArray:
    """A scrambled number for every vertex, all different."""
    vertex = np.arange(n, dtype=np.uint64)
    h = vertex + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        h = (h ^ (h >> np.uint64(shift))) * np.uint64(factor)
    return kernels.UNDECIDED | (h >> np.uint64(34)) << np.uint64(32) | vertex


def hub_limit(indptr: Any) -> float:
    """Rows of a matrix that have more entries are those of hubs."""
    return HUB * max(int(indptr[-1]) / (len(indptr) - 1), 10.0)


def _without_hubs(matrix: Csr) -> Csr:
    """The matrix with entries at hubs added to the diagonal, so that rows keep their sums.

    Interpolated through a hub, its neighbours would be one aggregate, and coarse matrices full.
    """
    counts = np.diff(matrix.indptr)
    hub = counts > hub_limit(matrix.indptr)
    if not hub.any():
        return matrix
    rows = np.repeat(np.arange(matrix.n), counts)
    leaves = (hub[rows] | hub[matrix.indices]) & (rows != matrix.indices)
    data = np.where(leaves, 0.0, matrix.data)
    lost = np.bincount(rows[leaves], matrix.data[leaves], matrix.n)
    at = rows == matrix.indices
    data[at] += lost[rows[at]]
    keep = ~leaves
    indptr = np.append(0, np.cumsum(np.bincount(rows[keep], minlength=matrix.n)))
    return Csr(indptr.astype(np.int32), matrix.indices[keep], data[keep])


def _largest_eigenvalue(matrix: Csr, inverse: FloatArray, team: ThreadTeam) -> float:
    """Of D^-1 A, nearly."""
    x, y, value = np.empty((matrix.n, 1)), np.empty((matrix.n, 1)), 1.0

    def begin(start: int, stop: int) -> None:
        x[start:stop, 0] = np.sin(np.arange(start + 1.0, stop + 1.0) ** 2)

    run_evenly(team, begin, matrix.n, _LEAST_ROWS)
    for _ in range(POWER_STEPS):
        x /= value
        run_evenly(team, sparse.multiply_rows, matrix.n, _LEAST_ROWS, *matrix, x, y)
        run_evenly(team, sparse.scale_rows, matrix.n, _LEAST_ROWS, inverse, y, x)
        value = float(np.sqrt(column_dots(x, x, team)[0]))
    return value


def _rows(kernel: Any, n_rows: int, arrays: tuple[Any, ...], team: ThreadTeam, grain: int) -> Csr:
    """The matrix whose rows a kernel counts, then writes."""
    ends, none = np.zeros(n_rows + 1, dtype=np.int64), (np.empty(0, np.int32), np.empty(0))
    run_evenly(team, kernel, n_rows, grain, *arrays, False, ends, *none)
    np.cumsum(ends, out=ends)
    columns, values = np.empty(ends[-1], dtype=np.int32), np.empty(ends[-1])
    run_evenly(team, kernel, n_rows, grain, *arrays, True, ends, columns, values)
    return Csr(ends.astype(np.int32), columns, values)


def _transposed(matrix: Csr, n_columns: int) -> Csr:
    turned = sp.csr_array(sp.csr_array(matrix[::-1], shape=(matrix.n, n_columns)).T)
    return Csr(turned.indptr, turned.indices, turned.data)


def _diagonal(matrix: Csr) -> FloatArray:
    return sp.csr_array(matrix[::-1], shape=(matrix.n, matrix.n)).diagonal()


def _invert(values: FloatArray, negligible: float) -> FloatArray:
    """Reciprocals, with zero for what is not clearly positive."""
    return np.divide(1.0, values, out=np.zeros_like(values), where=values > negligible)
