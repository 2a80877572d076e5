"""Conjugate gradients on a block of right-hand sides.

All columns advance together, each with its own step lengths, so one pass over the matrix serves them
all; a column that has converged leaves the block. Sums are taken in a fixed order (see
:data:`isoweave.linalg._base.CHUNK`), so the bits do not depend on the number of threads.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from isoweave._parallel import ThreadTeam
from isoweave._typing import AnyArray, FloatArray
from isoweave.engines.compile import kernel
from isoweave.linalg._base import CHUNK, Laplacian, PreparationError, column_dots, count_chunks, run_evenly

# The recursive residual drifts away from the true one; each restart from the true residual wins back
# several digits, and more than a few mean that rounding, not the recursion, is the limit.
_MAX_RESTARTS = 4


class Preconditioner(Protocol):
    """A symmetric positive definite approximation of the inverse, applied to a block."""

    name: str

    def apply(self, residual: FloatArray, out: FloatArray) -> None:
        """Write the preconditioned ``residual`` (n, K), C-contiguous, to ``out``."""
        ...


class ConjugateGradient:
    """Preconditioned conjugate gradients as a solver method.

    Parameters
    ----------
    laplacian : Laplacian
    preconditioner : Preconditioner
    team : ThreadTeam
    max_iter : int or None
        Iterations allowed per solve. None means ``1000 + 20 sqrt(n)``: diagonal preconditioning needs
        a multiple of the graph's diameter, about ``sqrt(n)`` for a sheet.
    """

    refines = False

    def __init__(
        self,
        laplacian: Laplacian,
        preconditioner: Preconditioner,
        team: ThreadTeam,
        max_iter: int | None = None,
    ) -> None:
        self.name = preconditioner.name
        self.max_iter = 1000 + int(20 * np.sqrt(laplacian.n)) if max_iter is None else max_iter
        self._laplacian = laplacian
        self._preconditioner = preconditioner
        self._team = team

    def attempt(self, rhs: FloatArray, guess: FloatArray | None, goal: FloatArray) -> tuple[FloatArray, int]:
        """Solve for all columns; see :class:`isoweave.linalg._base.Method`."""
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
        n_chunks = count_chunks(lap.n)
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
            run_evenly(team, _advance_chunks, n_chunks, 16, step, p, q, x, r)
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
            run_evenly(team, _direction_chunks, n_chunks, 16, rz_new / rz, z, p)
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
        run_evenly(self._team, _scale_rows, len(residual), 16 * CHUNK, self._inverse, residual, out)


@kernel
def _scale_rows(start: int, stop: int, scale: FloatArray, x: FloatArray, out: FloatArray) -> None:
    for i in range(start, stop):
        for k in range(x.shape[1]):
            out[i, k] = scale[i] * x[i, k]


@kernel
def _advance_chunks(
    start: int, stop: int, step: FloatArray, p: FloatArray, q: FloatArray, x: FloatArray, r: FloatArray
) -> None:
    """x += step p and r -= step q."""
    n, width = p.shape
    for i in range(np.uint64(start * CHUNK), np.uint64(min(n, stop * CHUNK))):
        for k in range(np.uint64(width)):
            x[i, k] += step[k] * p[i, k]
            r[i, k] -= step[k] * q[i, k]


@kernel
def _direction_chunks(start: int, stop: int, beta: FloatArray, z: FloatArray, p: FloatArray) -> None:
    """p = z + beta p."""
    n, width = p.shape
    for i in range(np.uint64(start * CHUNK), np.uint64(min(n, stop * CHUNK))):
        for k in range(np.uint64(width)):
            p[i, k] = z[i, k] + beta[k] * p[i, k]
