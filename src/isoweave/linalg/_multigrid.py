"""Smoothed-aggregation multigrid as a preconditioner for blocks.

pyamg builds the hierarchy; the cycle is ours, because pyamg's takes one vector at a time.
"""

from __future__ import annotations

import threading

import numpy as np
import scipy.sparse as sp

from isoweave._forks import forks_wait
from isoweave._parallel import ThreadTeam, single_blas_thread
from isoweave._typing import FloatArray, IntArray
from isoweave.engines.compile import kernel
from isoweave.linalg._base import Laplacian, multiply_rows, run_evenly

_Csr = tuple[IntArray, IntArray, FloatArray]
_MAX_COARSE = 200
_SEED = 20240607


class Multigrid:
    """One V(1, 1) cycle with Gauss-Seidel smoothing, forward down and backward up (so it is symmetric)."""

    name = "amg"

    def __init__(self, laplacian: Laplacian, team: ThreadTeam) -> None:
        # Estimates of spectral radii go through BLAS, which rounds by its number of threads.
        with single_blas_thread():
            levels = _build_hierarchy(laplacian.to_matrix())
        # A component that shrinks to one coarse vertex leaves a diagonal of pure rounding behind.
        negligible = 1e-12 * laplacian.norm
        self._team = team
        self._matrices = [_csr_arrays(level.A) for level in levels]
        self._inverse_diagonals = [_invert(level.A.diagonal(), negligible) for level in levels]
        self._prolong = [_csr_arrays(level.P) for level in levels[:-1]]
        self._restrict = [_csr_arrays(level.P.T) for level in levels[:-1]]
        # The coarsest matrix inherits the constants in its kernel, hence a pseudo-inverse.
        with single_blas_thread():
            values, vectors = np.linalg.eigh(levels[-1].A.toarray())
            inverse = (vectors * _invert(values, negligible)) @ vectors.T
        # As a sparse matrix: BLAS and einsum round by the number of columns, which goes with the threads.
        self._coarse = _csr_arrays(sp.csr_array(inverse))

    def apply(self, residual: FloatArray, out: FloatArray) -> None:
        # A sweep is sequential, but columns do not depend on each other: every thread takes its own through
        # the whole cycle.
        run_evenly(self._team, self._apply_to_columns, residual.shape[1], 1, residual, out)

    def _apply_to_columns(self, start: int, stop: int, residual: FloatArray, out: FloatArray) -> None:
        out[:, start:stop] = self._cycle(0, np.ascontiguousarray(residual[:, start:stop]))

    def _cycle(self, depth: int, rhs: FloatArray) -> FloatArray:
        if depth == len(self._prolong):
            return _multiply(self._coarse, rhs)
        indptr, indices, data = self._matrices[depth]
        inverse = self._inverse_diagonals[depth]
        value = np.zeros_like(rhs)
        _gauss_seidel(indptr, indices, data, inverse, rhs, value, False)
        defect = rhs - _multiply(self._matrices[depth], value)
        correction = self._cycle(depth + 1, _multiply(self._restrict[depth], defect))
        value += _multiply(self._prolong[depth], correction)
        _gauss_seidel(indptr, indices, data, inverse, rhs, value, True)
        return value


def _multiply(matrix: _Csr, block: FloatArray) -> FloatArray:
    indptr, indices, data = matrix
    out = np.empty((len(indptr) - 1, block.shape[1]))
    multiply_rows(0, len(out), indptr, indices, data, block, out)
    return out


# One hierarchy at a time: another thread's would draw from the same global random numbers.
_hierarchy_lock = threading.RLock()


def _build_hierarchy(matrix: sp.csr_array) -> list:
    """pyamg's levels. Its spectral radius estimates start from numpy's global random state."""
    from pyamg.aggregation import smoothed_aggregation_solver

    with forks_wait(), _hierarchy_lock:
        state = np.random.get_state()  # noqa: NPY002
        np.random.seed(_SEED)  # noqa: NPY002
        try:
            solver = smoothed_aggregation_solver(
                sp.csr_matrix(matrix),
                symmetry="symmetric",
                # Constants are the kernel exactly; there is nothing to improve.
                improve_candidates=None,
                max_coarse=_MAX_COARSE,
                max_levels=20,
            )
        finally:
            np.random.set_state(state)  # noqa: NPY002
    return solver.levels


def _csr_arrays(matrix: sp.spmatrix) -> _Csr:
    matrix = sp.csr_array(matrix)
    return matrix.indptr.astype(np.int32), matrix.indices.astype(np.int32), matrix.data.astype(np.float64)


def _invert(values: FloatArray, negligible: float) -> FloatArray:
    """Reciprocals, with zero for what is not clearly positive."""
    sound = values > negligible
    return np.where(sound, 1.0, 0.0) / np.where(sound, values, 1.0)


@kernel
def _gauss_seidel(
    indptr: IntArray,
    indices: IntArray,
    data: FloatArray,
    inverse: FloatArray,
    rhs: FloatArray,
    x: FloatArray,
    backward: bool,
) -> None:
    """One sweep over all rows in place: x_i += (b - A x)_i / a_ii. Up to three columns in registers."""
    n, width = x.shape
    total = np.empty(width)
    for step in range(n):
        i = n - 1 - step if backward else step
        first, last = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
        if width == 1:
            t0 = rhs[i, 0]
            for e in range(first, last):
                t0 -= data[e] * x[np.uint32(indices[e]), 0]
            x[i, 0] += inverse[i] * t0
        elif width == 2:
            t0, t1 = rhs[i, 0], rhs[i, 1]
            for e in range(first, last):
                j, weight = np.uint32(indices[e]), data[e]
                t0 -= weight * x[j, 0]
                t1 -= weight * x[j, 1]
            x[i, 0] += inverse[i] * t0
            x[i, 1] += inverse[i] * t1
        elif width == 3:
            t0, t1, t2 = rhs[i, 0], rhs[i, 1], rhs[i, 2]
            for e in range(first, last):
                j, weight = np.uint32(indices[e]), data[e]
                t0 -= weight * x[j, 0]
                t1 -= weight * x[j, 1]
                t2 -= weight * x[j, 2]
            x[i, 0] += inverse[i] * t0
            x[i, 1] += inverse[i] * t1
            x[i, 2] += inverse[i] * t2
        else:
            for k in range(width):
                total[k] = rhs[i, k]
            for e in range(first, last):
                j, weight = np.uint32(indices[e]), data[e]
                for k in range(width):
                    total[k] -= weight * x[j, k]
            for k in range(width):
                x[i, k] += inverse[i] * total[k]
