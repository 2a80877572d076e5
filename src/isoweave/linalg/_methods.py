"""The methods that solve with a Laplacian: Cholesky factors, conjugate gradients.

A graph Laplacian has one constant per connected component in its kernel: :meth:`Laplacian.project` takes them
out of right-hand sides and solutions, and methods see projected blocks only. A factor is that of the grounded
Laplacian: one vertex per component is held at zero. With conjugate gradients all columns advance together,
each with its own step lengths. Sums are taken in a fixed order (``engines.plain.CHUNK``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from isoweave._lazy import LazyModule
from isoweave._parallel import ThreadTeam
from isoweave._typing import AnyArray, FloatArray
from isoweave.engines import plain
from isoweave.linalg._banded import PreparationError, banded_factor
from isoweave.linalg._cholesky import Factor, factorise
from isoweave.linalg._laplacian import Laplacian, column_dots, run_evenly

cholesky, sparse = LazyModule("isoweave.engines.cholesky"), LazyModule("isoweave.engines.sparse")
# The recursive residual drifts away from the true one; each restart from the true residual wins back
# several digits, and more than a few mean that rounding, not the recursion, is the limit.
_MAX_RESTARTS = 4
_NEVER_LOST = 1e-6  # a part of the residual to which the recursion follows it
# Of the incomplete factor: entries kept per column beside as many as the matrix has there, and the shares by
# which its diagonal is raised, in order, until every pivot is positive (Manteuffel, 1980).
_EXTRA, _LEAST_PIVOT = 30, 1e-10
_SHIFTS = (0.0, 1e-3, 1e-2, 1e-1, 1.0)


@dataclass(frozen=True, eq=False)
class SolveResult:
    """Outcome of one block solve."""

    value: FloatArray  #: Solution, shape (n, N), with zero mean on every connected component.
    residual: float  #: Largest ``||b - L x|| / ||b||`` of a column, measured, b projected.
    iterations: int  #: Of conjugate gradients (slowest column); refinement steps of a direct solver.
    solver: str  #: The method that produced ``value``; after a fallback not the one asked for.
    status: Literal["converged", "stalled"]


class SolverMethod:
    """A factored or otherwise prepared solver. It sees projected right-hand sides only."""

    name: str
    refines = False  # whether a solution that misses its goal should be handed back once as ``guess``

    def __init__(self, laplacian: Laplacian, team: ThreadTeam) -> None:
        self._laplacian, self._team = laplacian, team
        self._prepare()

    def _prepare(self) -> None:
        """Factor, or raise PreparationError."""

    def attempt(self, rhs: FloatArray, guess: FloatArray | None, goal: FloatArray) -> tuple[FloatArray, int]:
        """Solution of ``L x = rhs`` with residual norms ``goal`` (N,), or the best there is; iterations."""
        raise NotImplementedError


class Direct(SolverMethod):
    """The factor of :mod:`isoweave.linalg._cholesky`, or a band where that does as well."""

    name = "direct"
    refines = True

    def _prepare(self) -> None:
        lap = self._laplacian
        band = banded_factor(lap.to_matrix(), lap.ground)
        self.factor = factorise(lap.elimination(), lap.data) if band is None else band

    def attempt(self, rhs: FloatArray, guess: FloatArray | None, goal: FloatArray) -> tuple[FloatArray, int]:
        """Solve for all columns, or improve ``guess`` by one step of iterative refinement."""
        if guess is None:
            return self.factor.solve(rhs, self._team), 0
        residual = self._laplacian.residual(rhs, guess, self._team)[0]
        return guess + self.factor.solve(residual, self._team), 1


class ConjugateGradient(SolverMethod):
    """Preconditioned conjugate gradients."""

    # 0 means 1000 + 20 sqrt(n): a diagonal needs a multiple of the graph's diameter, sqrt(n) for a sheet.
    max_iter = 0

    def apply(self, residual: FloatArray, out: FloatArray) -> None:
        """Write ``residual`` (n, K), C-contiguous, times a positive definite near-inverse to ``out``."""
        raise NotImplementedError

    def attempt(self, rhs: FloatArray, guess: FloatArray | None, goal: FloatArray) -> tuple[FloatArray, int]:
        value = np.zeros_like(rhs) if guess is None else guess.copy()
        left = most = self.max_iter or 1000 + int(20 * np.sqrt(len(rhs)))
        previous = np.full(rhs.shape[1], np.inf)
        for restart in range(_MAX_RESTARTS):
            if restart == 0 and guess is None:
                residual, norms = rhs, np.sqrt(column_dots(rhs, rhs, self._team))
            else:
                residual, norms = self._laplacian.residual(rhs, value, self._team)
            wanted = np.maximum(goal, self._laplacian.rounding(value, self._team))
            # A restart must at least halve a column's residual to be worth another.
            active = np.flatnonzero((norms > wanted) & (norms < 0.5 * previous))
            if len(active) == 0 or left <= 0:
                break
            previous = norms
            left -= self._run(value, residual, active, goal, left)
            if (goal >= _NEVER_LOST * norms).all():
                break
        return value, most - left

    def _run(
        self, value: FloatArray, residual: FloatArray, active: AnyArray, goal: FloatArray, max_iter: int
    ) -> int:
        """Improve the ``active`` columns of ``value`` in place by one conjugate gradient recursion."""
        lap, team = self._laplacian, self._team
        n_chunks = -(-lap.n // plain.CHUNK)
        all_columns = len(active) == residual.shape[1]
        r = residual.copy() if all_columns else np.ascontiguousarray(residual[:, active])
        x, z, q = np.zeros_like(r), np.empty_like(r), np.empty_like(r)
        self.apply(r, z)
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
            keep = sound & (np.sqrt(column_dots(r, r, team)) > goal[active]) & (iteration < max_iter)
            if all_columns and not keep.any():
                team.plus(value, 1.0, x, value)
                break
            if not keep.all():
                all_columns = False
                value[:, active[~keep]] += x[:, ~keep]
                active, rz = active[keep], rz[keep]
                if len(active) == 0:
                    break
                x, r, p = (np.ascontiguousarray(a[:, keep]) for a in (x, r, p))
                z, q = np.empty_like(r), np.empty_like(r)
            self.apply(r, z)
            before, rz = rz, column_dots(r, z, team)
            run_evenly(team, sparse.direction_chunks, n_chunks, 16, rz / before, z, p)
        return iteration


class Jacobi(ConjugateGradient):
    """Division by the diagonal."""

    name = "jacobi"

    def _prepare(self) -> None:
        diagonal = self._laplacian.diagonal
        # An isolated vertex has an empty row; its projected right-hand side is zero, so any divisor does.
        isolated = np.diff(self._laplacian.indptr) == 0
        bad = np.flatnonzero((diagonal <= 0) & ~isolated)
        if len(bad):
            raise PreparationError(
                f"the diagonal of the Laplacian is not positive at {len(bad)} vertices, the first is "
                f"{bad[0]} ({diagonal[bad[0]]:.3g})"
            )
        self._inverse = 1.0 / np.where(isolated, 1.0, diagonal)

    def apply(self, residual: FloatArray, out: FloatArray) -> None:
        arrays = (self._inverse, residual, out)
        run_evenly(self._team, sparse.scale_rows, len(residual), 16 * plain.CHUNK, *arrays)


class IncompleteCholesky(ConjugateGradient):
    """``L Lᵀ`` close to the Laplacian, entries under ``drop_tol`` times their column's norm left out.

    As in the paper. Maintained packages offer only incomplete LU (not symmetric) or come without wheels.
    """

    name = "ic"
    drop_tol = 3e-3

    def _prepare(self) -> None:
        lap = self._laplacian
        # Doubling the diagonal at one vertex per component makes the matrix definite; the constants, which
        # this changes, do not occur in projected right-hand sides.
        grounded = np.isin(np.arange(lap.n), lap.ground)
        most = lap.n * (1 + _EXTRA) + len(lap.indices) // 2
        rows, values = np.empty(most, dtype=np.int32), np.empty(most)
        for self.shift in _SHIFTS:
            diagonal = lap.diagonal * (1.0 + self.shift + grounded)
            diagonal[lap.diagonal <= 0.0] = 1.0
            matrix = (lap.indptr, lap.indices, lap.data, diagonal)
            starts, failed = cholesky.factorise(*matrix, _LEAST_PIVOT, self.drop_tol, _EXTRA, rows, values)
            if failed < 0:
                kept = starts[-1]
                self._factor = Factor(np.arange(lap.n), starts, rows[:kept].copy(), values[:kept].copy())
                return
        raise PreparationError(
            f"no incomplete Cholesky factor even with the diagonal multiplied by {1 + _SHIFTS[-1]:g} "
            f"(pivot of vertex {failed})"
        )

    def apply(self, residual: FloatArray, out: FloatArray) -> None:
        out[:] = self._factor.solve(residual, self._team)
