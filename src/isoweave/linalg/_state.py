"""Choose a method, factor once, solve many times, and go to the next method when one fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from isoweave._parallel import ONE_THREAD, ThreadTeam
from isoweave._typing import FloatArray
from isoweave.linalg._cholesky import MAX_FILL, MAX_FILL_RATIO
from isoweave.linalg._direct import Cholmod, Direct
from isoweave.linalg._iterative import ConjugateGradient, IncompleteCholesky, Jacobi, Multigrid
from isoweave.linalg._laplacian import (
    Laplacian,
    PreparationError,
    SolveResult,
    SolverMethod,
    column_dots,
    prepare_laplacian,
)

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
_BUILDERS: dict[str, Callable[[Laplacian, ThreadTeam], SolverMethod]] = {
    "direct": Direct,
    "cholmod": Cholmod,
    "amg": lambda lap, team: ConjugateGradient(lap, Multigrid(lap, team), team, max_iter=_MAX_CYCLES),
    "ic": lambda lap, team: ConjugateGradient(lap, IncompleteCholesky(lap, team), team),
    "jacobi": lambda lap, team: ConjugateGradient(lap, Jacobi(lap, team), team),
}
SOLVERS = ("auto", *_BUILDERS)

# Up to here even a full factor takes a fraction of a second.
_SMALL = 3000
# From this dimension on neighbourhood graphs are so well connected that diagonal preconditioning needs few
# iterations and beats a multigrid cycle; in five dimensions they take about as long.
_WELL_CONDITIONED = 8


@dataclass(frozen=True)
class SolverChoice:
    """What ``solver="auto"`` resolves to and why.

    ``predicted_fill`` is the number of entries of the Cholesky factor: infinite if there are more than a
    factor may have, None if they were not counted.
    """

    solver: str
    reason: str
    predicted_fill: float | None


def choose_solver(laplacian: Any, n_components: int) -> SolverChoice:
    """Pick a solver for a Laplacian (a sparse matrix) by its size, the fill of its factor and the dimension.

    The first rule that applies:

    1. up to 3,000 vertices: ``direct``;
    2. the Cholesky factor, counted exactly from its elimination tree without being computed, has at
       most 50 times the entries of the Laplacian (and 2.5e8): ``direct``. Graphs of surfaces have 3 to 5
       times, 50,000 points of a cube 28 times, 10,000 MNIST digits 37 times, 20,000 points in five
       dimensions 97 times; a factor was worth making from 16, 24 and 80 solves on in the last three;
    3. ``n_components`` of 8 and more: ``jacobi``;
    4. otherwise ``amg``.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> choose_solver(sp.csr_array(np.array([[1.0, -1.0], [-1.0, 1.0]])), 2).solver
    'direct'
    """
    laplacian = prepare_laplacian(laplacian)
    if laplacian.n <= _SMALL:
        return SolverChoice("direct", f"{laplacian.n} vertices, at most {_SMALL}", None)
    fill = float(laplacian.elimination.fill)
    ratio = fill / len(laplacian.data)
    size = f"its Cholesky factor has {ratio:.0f} times the entries of the Laplacian"
    if fill <= MAX_FILL and ratio <= MAX_FILL_RATIO:
        return SolverChoice("direct", f"{size}, at most {MAX_FILL_RATIO:.0f}", fill)
    if fill > MAX_FILL:
        fill, size = float("inf"), f"its Cholesky factor has more than {MAX_FILL:,} entries"
    if n_components >= _WELL_CONDITIONED:
        return SolverChoice("jacobi", f"{size}, and {n_components} dimensions are well conditioned", fill)
    return SolverChoice("amg", f"{size}, and {n_components} dimensions need more than a diagonal", fill)


class SolverState(Protocol):
    """A matrix prepared for many solves, as :func:`factor` and :func:`factor_anchored` return it.

    Attributes
    ----------
    choice : SolverChoice
        The solver started with, and why.
    notes : list of str
        What went wrong and what was done about it, in order; empty when all went well.
    solver : str
        Name of the method the next solve starts with.
    ladder : tuple of str
        That method and those that follow it when it fails: with the notes all that a solve changes.
    """

    choice: SolverChoice
    notes: list[str]

    @property
    def solver(self) -> str: ...

    @property
    def ladder(self) -> tuple[str, ...]: ...

    def move_to(self, ladder: tuple[str, ...], notes: list[str]) -> None:
        """Go to where another state of the same matrix stood, given its ``ladder`` and ``notes``."""

    def solve(self, rhs: FloatArray, *, tol: float | None = None) -> SolveResult:
        """Solve for all columns of ``rhs`` (n, N) at once."""


class PoissonState:
    """A prepared Laplacian, made by :func:`factor`; see :class:`SolverState`."""

    def __init__(self, laplacian: Laplacian, choice: SolverChoice, team: ThreadTeam, tol: float) -> None:
        self.choice = choice
        self.notes: list[str] = []
        self._laplacian, self._team, self._tol = laplacian, team, tol
        self._queue = [choice.solver, *LADDER[choice.solver]]
        method = self._next_method()
        if method is None:
            raise RuntimeError("No solver could be prepared: " + "; ".join(self.notes) + ".")
        self._method = method

    @property
    def solver(self) -> str:
        return self._method.name

    @property
    def ladder(self) -> tuple[str, ...]:
        return self._method.name, *self._queue

    def move_to(self, ladder: tuple[str, ...], notes: list[str]) -> None:
        """As :meth:`SolverState.move_to`."""
        unknown = [name for name in ladder if name not in _BUILDERS]
        if unknown or not ladder:
            raise ValueError(f"ladder must hold names of {', '.join(_BUILDERS)}, got {ladder}.")
        if ladder[0] != self.solver:
            self._method = _BUILDERS[ladder[0]](self._laplacian, self._team)
        self._queue = list(ladder[1:])
        self.notes[:] = notes

    def solve(self, rhs: FloatArray, *, tol: float | None = None) -> SolveResult:
        """Solve ``L x = b`` for all columns at once; b is ``rhs`` (n, N) less its mean over every component.

        ``tol`` is the largest allowed ``||b - L x|| / ||b||`` of a column instead of the state's own. A
        residual that is rounding, ``4 eps ||L|| ||x||``, also counts as converged.
        """
        lap = self._laplacian
        tol = self._tol if tol is None else _check_tol(tol)
        rhs = lap.project(_as_block(rhs, lap.n))
        sizes = np.sqrt(column_dots(rhs, rhs, self._team))
        guess: FloatArray | None = None
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
        self, method: SolverMethod, rhs: FloatArray, guess: FloatArray | None, sizes: FloatArray, tol: float
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

    def _next_method(self) -> SolverMethod | None:
        """Build the next method of the ladder that can be built."""
        while self._queue:
            name = self._queue.pop(0)
            try:
                return _BUILDERS[name](self._laplacian, self._team)
            except PreparationError as error:
                self.notes.append(f"{name} could not be prepared: {error}")
        return None


def factor(
    laplacian: Any,
    *,
    n_components: int,
    solver: str = "auto",
    team: ThreadTeam = ONE_THREAD,
    tol: float = 1e-10,
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
    >>> path = sp.csr_array(np.array([[1.0, -1, 0], [-1, 2, -1], [0, -1, 1]]))
    >>> state = factor(path, solver="direct", n_components=1)
    >>> state.solve(np.array([[1.0], [0.0], [-1.0]])).value.ravel().round(12) + 0.0
    array([ 1.,  0., -1.])
    """
    if solver not in SOLVERS:
        raise ValueError(f"solver must be one of {', '.join(map(repr, SOLVERS))}, got {solver!r}.")
    prepared = prepare_laplacian(laplacian)
    asked = SolverChoice(solver, "asked for", None)
    choice = choose_solver(prepared, n_components) if solver == "auto" else asked
    return PoissonState(prepared, choice, team, _check_tol(tol))


def _check_tol(tol: float) -> float:
    if not 0 < tol < 1:
        raise ValueError(f"tol must lie between 0 and 1, got {tol!r}.")
    return float(tol)


def _as_block(rhs: FloatArray, n: int) -> FloatArray:
    rhs = np.ascontiguousarray(rhs, dtype=np.float64)
    if rhs.ndim != 2 or len(rhs) != n:
        raise ValueError(f"rhs must have shape ({n}, N), got {rhs.shape}.")
    if not np.isfinite(rhs).all():
        row, column = np.argwhere(~np.isfinite(rhs))[0]
        raise ValueError(f"rhs must be finite, but row {row}, column {column} is {rhs[row, column]}.")
    return rhs
