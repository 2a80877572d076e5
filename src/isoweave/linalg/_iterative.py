"""Conjugate gradients on a block of right-hand sides, and their preconditioners.

All columns advance together, each with its own step lengths, so one pass over the matrix serves them
all; a column that has converged leaves the block. Sums are taken in a fixed order (see
:data:`isoweave.engines.sparse.CHUNK`), so the bits do not depend on the number of threads.
"""

from __future__ import annotations

import threading
from typing import Protocol

import numpy as np
import scipy.sparse as sp

from isoweave._forks import forks_wait
from isoweave._parallel import ThreadTeam, single_blas_thread
from isoweave._typing import AnyArray, FloatArray, IntArray
from isoweave.engines import cholesky, sparse
from isoweave.linalg._laplacian import Laplacian, PreparationError, column_dots, run_evenly

# The recursive residual drifts away from the true one; each restart from the true residual wins back
# several digits, and more than a few mean that rounding, not the recursion, is the limit.
_MAX_RESTARTS = 4
# Of the incomplete factor: entries kept per column beside as many as the matrix has there, and the shares by
# which its diagonal is raised, in order, until every pivot is positive.
_EXTRA = 30
_SHIFTS = (0.0, 1e-3, 1e-2, 1e-1, 1.0)
# Of the multigrid hierarchy.
_MAX_COARSE = 200
_SEED = 20240607

_Csr = tuple[IntArray, IntArray, FloatArray]


class Preconditioner(Protocol):
    """A symmetric positive definite approximation of the inverse, applied to a block."""

    name: str

    def apply(self, residual: FloatArray, out: FloatArray) -> None:
        """Write the preconditioned ``residual`` (n, K), C-contiguous, to ``out``."""
        ...


class ConjugateGradient:
    """Preconditioned conjugate gradients as a solver method.

    ``max_iter`` bounds the iterations of a solve. 0 means ``1000 + 20 sqrt(n)``: diagonal preconditioning
    needs a multiple of the graph's diameter, about ``sqrt(n)`` for a sheet.
    """

    refines = False

    def __init__(
        self, laplacian: Laplacian, preconditioner: Preconditioner, team: ThreadTeam, max_iter: int = 0
    ) -> None:
        self.name = preconditioner.name
        self.max_iter = max_iter or 1000 + int(20 * np.sqrt(laplacian.n))
        self._laplacian, self._preconditioner, self._team = laplacian, preconditioner, team

    def attempt(self, rhs: FloatArray, guess: FloatArray | None, goal: FloatArray) -> tuple[FloatArray, int]:
        """Solve for all columns; see :class:`isoweave.linalg._laplacian.SolverMethod`."""
        value = np.zeros_like(rhs) if guess is None else guess.copy()
        spent = 0
        previous = np.full(rhs.shape[1], np.inf)
        for _ in range(_MAX_RESTARTS):
            residual, norms = self._laplacian.residual(rhs, value, self._team)
            wanted = np.maximum(goal, self._laplacian.rounding(value, self._team))
            # A restart must at least halve a column's residual to be worth another.
            active = np.flatnonzero((norms > wanted) & (norms < 0.5 * previous))
            if len(active) == 0 or spent >= self.max_iter:
                break
            previous = norms
            spent += self._run(value, residual, active, goal, self.max_iter - spent)
        return value, spent

    def _run(
        self, value: FloatArray, residual: FloatArray, active: AnyArray, goal: FloatArray, max_iter: int
    ) -> int:
        """Improve the ``active`` columns of ``value`` in place by one conjugate gradient recursion."""
        lap, team = self._laplacian, self._team
        n_chunks = -(-lap.n // sparse.CHUNK)
        r = np.ascontiguousarray(residual[:, active])
        x, z, q = np.zeros_like(r), np.empty_like(r), np.empty_like(r)
        self._preconditioner.apply(r, z)
        p = z.copy()
        rz = column_dots(r, z, team)
        for iteration in range(1, max_iter + 1):
            lap.multiply(p, q, team)
            curvature = column_dots(p, q, team)
            # Rounding can leave a direction with no positive curvature or a NaN; such a column keeps
            # what it has, and the caller sees its true residual.
            sound = (curvature > 0) & (rz > 0) & np.isfinite(curvature) & np.isfinite(rz)
            step = np.where(sound, rz, 0.0) / np.where(sound, curvature, 1.0)
            run_evenly(team, sparse.advance_chunks, n_chunks, 16, step, p, q, x, r)
            keep = sound & (np.sqrt(column_dots(r, r, team)) > goal[active])
            if not keep.all():
                value[:, active[~keep]] += x[:, ~keep]
                active, rz = active[keep], rz[keep]
                if len(active) == 0:
                    return iteration
                x, r, p = (np.ascontiguousarray(a[:, keep]) for a in (x, r, p))
                z, q = np.empty_like(r), np.empty_like(r)
            self._preconditioner.apply(r, z)
            rz_new = column_dots(r, z, team)
            run_evenly(team, sparse.direction_chunks, n_chunks, 16, rz_new / rz, z, p)
            rz = rz_new
        value[:, active] += x
        return max_iter


class Jacobi:
    """Division by the diagonal."""

    name = "jacobi"

    def __init__(self, laplacian: Laplacian, team: ThreadTeam) -> None:
        diagonal = laplacian.diagonal
        # An isolated vertex has an empty row; its projected right-hand side is zero, so any divisor does.
        isolated = np.diff(laplacian.indptr) == 0
        bad = np.flatnonzero((diagonal <= 0) & ~isolated)
        if len(bad):
            raise PreparationError(
                f"the diagonal of the Laplacian is not positive at {len(bad)} vertices, the first is "
                f"{bad[0]} ({diagonal[bad[0]]:.3g})"
            )
        self._inverse = 1.0 / np.where(isolated, 1.0, diagonal)
        self._team = team

    def apply(self, residual: FloatArray, out: FloatArray) -> None:
        arrays = (self._inverse, residual, out)
        run_evenly(self._team, sparse.scale_rows, len(residual), 16 * sparse.CHUNK, *arrays)


class IncompleteCholesky:
    """``L Lᵀ`` close to the Laplacian, entries under ``drop_tol`` times their column's norm left out.

    The paper solves its Poisson problem this way. Written here because maintained packages offer only
    incomplete LU (not symmetric) or come without wheels: left-looking by columns, with a larger diagonal when
    a pivot fails (Manteuffel, 1980).
    """

    name = "ic"

    def __init__(self, laplacian: Laplacian, team: ThreadTeam, drop_tol: float = 3e-3) -> None:
        # Doubling the diagonal at one vertex per component makes the matrix definite; the constants,
        # which this changes, do not occur in projected right-hand sides.
        grounded = np.zeros(laplacian.n)
        grounded[laplacian.ground] = 1.0
        for self.shift in _SHIFTS:
            diagonal = laplacian.diagonal * (1.0 + self.shift + grounded)
            diagonal[laplacian.diagonal <= 0.0] = 1.0
            self._factor = cholesky.incomplete_factor(
                laplacian.indptr, laplacian.indices, laplacian.data, diagonal, drop_tol, _EXTRA
            )
            if self._factor[3] < 0:
                return
        raise PreparationError(
            f"no incomplete Cholesky factor even with the diagonal multiplied by {1 + _SHIFTS[-1]:g} "
            f"(pivot of vertex {self._factor[3]})"
        )

    def apply(self, residual: FloatArray, out: FloatArray) -> None:
        out[:] = residual
        cholesky.incomplete_substitute(*self._factor[:3], out)


class Multigrid:
    """One V(1, 1) cycle with Gauss-Seidel smoothing, forward down and backward up (so it is symmetric).

    pyamg builds the hierarchy; the cycle is ours, because pyamg's takes one vector at a time.
    """

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
        # As a sparse matrix: BLAS and einsum round by the number of columns, and threads share those.
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
        matrix, inverse = self._matrices[depth], self._inverse_diagonals[depth]
        value = np.zeros_like(rhs)
        sparse.gauss_seidel(*matrix, inverse, rhs, value, False)
        defect = rhs - _multiply(matrix, value)
        correction = self._cycle(depth + 1, _multiply(self._restrict[depth], defect))
        value += _multiply(self._prolong[depth], correction)
        sparse.gauss_seidel(*matrix, inverse, rhs, value, True)
        return value


def _multiply(matrix: _Csr, block: FloatArray) -> FloatArray:
    out = np.empty((len(matrix[0]) - 1, block.shape[1]))
    sparse.multiply_rows(0, len(out), *matrix, block, out)
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
