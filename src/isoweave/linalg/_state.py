"""Factor once, solve many times, and fall back when a method stalls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from isoweave._parallel import ThreadTeam
from isoweave._typing import FloatArray
from isoweave.linalg._auto import SolverChoice, choose_for
from isoweave.linalg._base import (
    Laplacian,
    Method,
    PreparationError,
    SolveResult,
    column_dots,
    prepare_laplacian,
)
from isoweave.linalg._cg import ConjugateGradient, Jacobi
from isoweave.linalg._direct import Cholmod, Direct
from isoweave.linalg._incomplete import IncompleteCholesky
from isoweave.linalg._multigrid import Multigrid

# What is tried, in order, after a method fails to be built or misses the tolerance. Each method is
# tried at most once in the life of a state.
LADDER: dict[str, tuple[str, ...]] = {
    "direct": ("jacobi",),
    "cholmod": ("direct", "jacobi"),
    "amg": ("jacobi", "direct"),
    "ic": ("jacobi", "direct"),
    "jacobi": ("direct",),
}

# A multigrid cycle that needs more iterations than this has failed; waiting longer is no help.
_MAX_CYCLES = 300

_BUILDERS: dict[str, Callable[[Laplacian, ThreadTeam], Method]] = {
    "direct": Direct,
    "cholmod": Cholmod,
    "amg": lambda laplacian, team: ConjugateGradient(
        laplacian, Multigrid(laplacian, team), team, max_iter=_MAX_CYCLES
    ),
    "ic": lambda laplacian, team: ConjugateGradient(laplacian, IncompleteCholesky(laplacian, team), team),
    "jacobi": lambda laplacian, team: ConjugateGradient(laplacian, Jacobi(laplacian, team), team),
}

SOLVERS = ("auto", *_BUILDERS)


class PoissonState:
    """A prepared Laplacian that solves block after block. Made by :func:`factor_laplacian`.

    Attributes
    ----------
    choice : SolverChoice
        The solver started with, and why.
    notes : list of str
        What went wrong and what was done about it, in order; empty when all went well.
    """

    def __init__(self, laplacian: Laplacian, choice: SolverChoice, team: ThreadTeam, tol: float) -> None:
        self.choice = choice
        self.notes: list[str] = []
        self._laplacian = laplacian
        self._team = team
        self._tol = tol
        self._queue = [choice.solver, *LADDER[choice.solver]]
        method = self._next_method()
        if method is None:
            raise RuntimeError("No solver could be prepared: " + "; ".join(self.notes) + ".")
        self._method = method

    @property
    def solver(self) -> str:
        """Name of the method the next solve starts with."""
        return self._method.name

    @property
    def ladder(self) -> tuple[str, ...]:
        """That method and those that follow it when it fails: with the notes all that a solve changes."""
        return self._method.name, *self._queue

    def move_to(self, ladder: tuple[str, ...], notes: list[str]) -> None:
        """Go to where another state of the same Laplacian stood, given its ``ladder`` and ``notes``."""
        unknown = [name for name in ladder if name not in _BUILDERS]
        if unknown or not ladder:
            raise ValueError(f"ladder must hold names of {', '.join(_BUILDERS)}, got {ladder}.")
        if ladder[0] != self.solver:
            self._method = _BUILDERS[ladder[0]](self._laplacian, self._team)
        self._queue = list(ladder[1:])
        self.notes[:] = notes

    def solve(
        self, rhs: FloatArray, *, guess: FloatArray | None = None, tol: float | None = None
    ) -> SolveResult:
        """Solve ``L x = rhs`` for all columns at once.

        Parameters
        ----------
        rhs : float array of shape (n, N)
            Its mean over every component is taken out first.
        guess : float array of shape (n, N), optional
            Where iterative methods start.
        tol : float, optional
            Largest allowed ``||b - L x|| / ||b||`` of a column instead of the state's own. A residual
            that is rounding, ``4 eps ||L|| ||x||``, also counts as converged.

        Returns
        -------
        SolveResult
        """
        lap = self._laplacian
        tol = self._tol if tol is None else _check_tol(tol)
        rhs = lap.project(_as_block(rhs, lap.n, "rhs"))
        if guess is not None:
            guess = lap.project(_as_block(guess, lap.n, "guess"))
            if guess.shape != rhs.shape:
                raise ValueError(f"guess must have the shape of rhs, {rhs.shape}, got {guess.shape}.")
        sizes = np.sqrt(column_dots(rhs, rhs, self._team))
        best: SolveResult | None = None
        best_method = self._method
        while True:
            method = self._method
            result = self._attempt(method, rhs, None if method.refines else guess, sizes, tol)
            if method.refines and result.status == "stalled":
                result = self._attempt(method, rhs, result.value, sizes, tol)
            # Written so that a NaN residual never wins over a number.
            if best is None or result.residual < best.residual or np.isnan(best.residual):
                best, best_method = result, method
            if result.status == "converged":
                return result
            follower = self._next_method()
            if follower is None:
                self._method = best_method
                return best
            self.notes.append(
                f"{method.name} stalled at a relative residual of {result.residual:.2e} (tolerance "
                f"{tol:.2e}) after {result.iterations} iterations; went on with {follower.name}"
            )
            self._method = follower
            guess = best.value if np.isfinite(best.residual) else None

    def _attempt(
        self, method: Method, rhs: FloatArray, guess: FloatArray | None, sizes: FloatArray, tol: float
    ) -> SolveResult:
        """Solve by one method and measure the true residuals."""
        value, iterations = method.attempt(rhs, guess, tol * sizes)
        value = self._laplacian.project(value)
        norms = self._laplacian.residual(rhs, value, self._team)[1]
        wanted = np.maximum(tol * sizes, self._laplacian.rounding(value, self._team))
        relative = float(np.max(norms / np.where(sizes > 0, sizes, 1.0), initial=0.0))
        # A solution so large that its norm overflows has an infinite residual, and an infinite allowance.
        good = bool((norms <= wanted).all() and np.isfinite(norms).all())
        return SolveResult(value, relative, iterations, method.name, "converged" if good else "stalled")

    def _next_method(self) -> Method | None:
        """Build the next method of the ladder that can be built."""
        while self._queue:
            name = self._queue.pop(0)
            try:
                return _BUILDERS[name](self._laplacian, self._team)
            except PreparationError as error:
                self.notes.append(f"{name} could not be prepared: {error}")
        return None


def factor_laplacian(
    laplacian: Any, *, solver: str = "auto", n_components: int, team: ThreadTeam, tol: float = 1e-10
) -> PoissonState:
    """Prepare a graph Laplacian for many solves.

    Parameters
    ----------
    laplacian : sparse matrix of shape (n, n)
        Symmetric positive semi-definite; its kernel is one constant per connected component.
    solver : {"auto", "direct", "cholmod", "amg", "ic", "jacobi"}
        "auto" follows :func:`choose_solver`; "direct" is a sparse Cholesky factor, "cholmod" SuiteSparse's
        (needs the extra ``isoweave[cholmod]``); "amg", "ic" and "jacobi" are conjugate gradients with a
        multigrid cycle, an incomplete Cholesky factor or the diagonal.
    n_components : int
        Dimension of the embedding, which "auto" takes into account.
    team : ThreadTeam
        Threads for the kernels; must outlive the state.
    tol : float
        Largest allowed relative residual of a column.

    Returns
    -------
    PoissonState

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> from isoweave._parallel import ThreadTeam
    >>> path = sp.csr_array(np.array([[1.0, -1, 0], [-1, 2, -1], [0, -1, 1]]))
    >>> state = factor_laplacian(path, solver="direct", n_components=1, team=ThreadTeam(1))
    >>> state.solve(np.array([[1.0], [0.0], [-1.0]])).value.ravel().round(12) + 0.0
    array([ 1.,  0., -1.])
    """
    if solver not in SOLVERS:
        raise ValueError(f"solver must be one of {', '.join(map(repr, SOLVERS))}, got {solver!r}.")
    prepared = prepare_laplacian(laplacian)
    if solver == "auto":
        choice = choose_for(prepared, n_components)
    else:
        choice = SolverChoice(solver, "asked for", None)
    return PoissonState(prepared, choice, team, _check_tol(tol))


def _check_tol(tol: float) -> float:
    if not 0 < tol < 1:
        raise ValueError(f"tol must lie between 0 and 1, got {tol!r}.")
    return float(tol)


def _as_block(block: FloatArray, n: int, name: str) -> FloatArray:
    block = np.ascontiguousarray(block, dtype=np.float64)
    if block.ndim != 2 or len(block) != n:
        raise ValueError(f"{name} must have shape ({n}, N), got {block.shape}.")
    if not np.isfinite(block).all():
        row, column = np.argwhere(~np.isfinite(block))[0]
        raise ValueError(f"{name} must be finite, but row {row}, column {column} is {block[row, column]}.")
    return block
