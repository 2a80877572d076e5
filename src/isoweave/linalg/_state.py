"""Choose a method, factor once, solve many times, and go to the next method when one fails."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from isoweave._parallel import ONE_THREAD, ThreadTeam
from isoweave._typing import AnyArray, BoolArray, FloatArray
from isoweave._validation import check_option
from isoweave.linalg._cholesky import Factor
from isoweave.linalg._laplacian import column_dots, prepare_laplacian
from isoweave.linalg._methods import (
    Direct,
    IncompleteCholesky,
    Jacobi,
    PreparationError,
    SolveResult,
    SolverMethod,
)
from isoweave.linalg._multigrid import Multigrid

_METHODS: dict[str, type[SolverMethod]] = {
    method.name: method for method in (Direct, Multigrid, IncompleteCholesky, Jacobi)
}
SOLVERS = ("auto", *_METHODS)
# What is tried, in order, after a method fails to be built or misses the tolerance; each at most once.
_LADDERS = {"direct": ("jacobi",), "jacobi": ("direct",)}
# Up to here a factor takes little time, unless levels of a search hold so many vertices on average: it is
# nearly full then, and a diagonal needs few iterations. Up to the last number any factor is quick.
SMALL_FACTOR, _FULL_LEVEL, _TINY_FACTOR = 3000, 150, 512
# What a factor misses by more than this it has lost to rounding.
FACTOR_TOL = 1e-5
# Edges across a graph up to which a diagonal needs few iterations: fewer than the set-up of multigrid is
# worth. A swiss roll of 4,000 points has 43, 40,000 points of a cube 45, of five dimensions 14.
_SHALLOW = 40


@dataclass(frozen=True)
class SolverChoice:
    """A solver and why it was taken."""

    solver: str
    reason: str


def choose_solver(laplacian: Any) -> SolverChoice:
    """Pick a solver for a Laplacian (a sparse matrix).

    ``direct`` up to 512 vertices, and up to 3,000 unless one edge for every 150 vertices leads from one of
    them to all others, not by way of hubs. Otherwise conjugate gradients: with the diagonal (``jacobi``) in
    that case and where 40 edges do, as in many dimensions, else with a multigrid cycle (``amg``).
    """
    laplacian = prepare_laplacian(laplacian)
    n, is_small = laplacian.n, laplacian.n <= SMALL_FACTOR
    few = n // _FULL_LEVEL if is_small else _SHALLOW
    if n > _TINY_FACTOR and laplacian.is_within(few):
        return SolverChoice("jacobi", f"{few} edges lead from one vertex to all others")
    if is_small:
        return small_choice(n)
    return SolverChoice("amg", f"over {SMALL_FACTOR:,} vertices, some over {_SHALLOW} edges apart")


def small_choice(n: int) -> SolverChoice:
    """That of a small graph, if it is not one of many dimensions."""
    return SolverChoice("direct", f"{n} vertices, at most {SMALL_FACTOR}")


class PoissonState:
    """A graph Laplacian, a sparse matrix with one constant per component as kernel, prepared for many solves.

    ``solver`` is "auto" (by :func:`choose_solver`); "direct", a Cholesky factor; "amg", "ic" or
    "jacobi", conjugate gradients with a multigrid cycle, an incomplete Cholesky factor or the diagonal.
    ``team`` must outlive the state; ``tol`` is the largest allowed relative residual of a column. ``choice``
    is the solver started with, and why; ``notes`` say what went wrong and what was done about it.
    """

    def __init__(
        self,
        laplacian: Any,
        *,
        solver: str = "auto",
        team: ThreadTeam = ONE_THREAD,
        tol: float = 1e-10,
    ) -> None:
        check_option("solver", solver, SOLVERS)
        self._laplacian, self._team, self._tol = prepare_laplacian(laplacian, team), team, _check_tol(tol)
        self.choice = SolverChoice(solver, "asked for")
        if solver == "auto":
            self.choice = choose_solver(self._laplacian)
        self.notes: list[str] = []
        self._queue = [self.choice.solver, *_LADDERS.get(self.choice.solver, ("jacobi", "direct"))]
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
        """Go to where another state of the same matrix stood, given its ``ladder`` and ``notes``."""
        if not ladder or not set(ladder) <= set(_METHODS):
            raise ValueError(f"ladder must hold names of {', '.join(_METHODS)}, got {ladder}.")
        if ladder[0] != self.solver:
            self._method = _METHODS[ladder[0]](self._laplacian, self._team)
        self._queue = list(ladder[1:])
        self.notes[:] = notes

    def solve(self, rhs: FloatArray, *, tol: float | None = None) -> SolveResult:
        """Solve ``L x = b`` for all columns at once; b is ``rhs`` (n, N) less its mean over every component.

        ``tol`` is the largest allowed ``||b - L x|| / ||b||`` of a column, instead of the state's own; a
        factor has to reach 1e-5 whatever it is. A residual that is rounding, ``4 eps ||L|| ||x||``, also
        counts as converged.
        """
        asked = self._tol if tol is None else _check_tol(tol)
        rhs = self._laplacian.project(_as_block(rhs, self._laplacian.n, self._team), self._team)
        sizes = np.sqrt(column_dots(rhs, rhs, self._team))
        guess: FloatArray | None = None
        best: SolveResult | None = None
        best_method = self._method
        while True:
            method = self._method
            tol = min(asked, FACTOR_TOL) if method.refines else asked
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
        value = self._laplacian.project(value, self._team)
        norms = self._laplacian.residual(rhs, value, self._team)[1]
        wanted = np.maximum(tol * sizes, self._laplacian.rounding(value, self._team))
        relative = float(np.max(norms / np.where(sizes > 0, sizes, 1.0), initial=0.0))
        # A solution so large that its norm overflows has an infinite residual, and an infinite allowance.
        good = bool((norms <= wanted).all() and np.isfinite(norms).all())
        return SolveResult(value, relative, iterations, method.name, "converged" if good else "stalled")

    def factor_of(self, starts: AnyArray) -> FactorOfMany:
        """The Cholesky factor of a graph whose components begin at ``starts``, and the number of vertices."""
        found = getattr(self._method, "factor", None)
        if not isinstance(found, Factor):
            raise RuntimeError(f"There is no Cholesky factor: {'; '.join(self.notes) or self.solver}.")
        lap, place = self._laplacian, np.full(self._laplacian.n, -1, np.int32)
        place[found.order] = np.arange(len(found.order), dtype=np.int32)
        sums, firsts = abs(lap.to_matrix()) @ np.ones(lap.n), starts[:-1]
        arrays = (place, lap.indptr, lap.indices, lap.data, np.maximum.reduceat(sums, firsts))
        connected = np.maximum.reduceat(lap.labels, firsts) == np.minimum.reduceat(lap.labels, firsts)
        return FactorOfMany(arrays, connected, found)

    def _next_method(self) -> SolverMethod | None:
        """Build the next method of the ladder that can be built."""
        while self._queue:
            name = self._queue.pop(0)
            try:
                return _METHODS[name](self._laplacian, self._team)
            except PreparationError as error:
                self.notes.append(f"{name} could not be prepared: {error}")
        return None


@dataclass(frozen=True, eq=False)
class FactorOfMany:
    """A graph of many components for kernels that solve with those they choose.

    ``arrays`` are the place (n,) of every vertex in the order of the factor, -1 for one that is held at zero;
    the Laplacian in CSR form; and its largest absolute row sum in every component.
    """

    arrays: tuple[AnyArray, ...]
    is_connected: BoolArray  #: Components of the graph that edges with a weight hold together.
    factor: Factor


class AnchoredState(PoissonState):
    """A prepared matrix ``L + diag(pull)`` without the rows and columns of held vertices (eqs. 20, 21).

    Held vertices are one more vertex, the ground, that all edges to them lead to, and a pull is an edge to
    the ground. What is left is a Laplacian again, hence every solver serves: its solution is fixed up to a
    constant, which is chosen to be zero on the ground.
    """

    def __init__(self, laplacian: Any, free: AnyArray, n: int, **options: Any) -> None:
        super().__init__(laplacian, **options)
        self._free, self._n = free, n

    def solve(self, rhs: FloatArray, *, tol: float | None = None) -> SolveResult:
        """As :meth:`PoissonState.solve`; held vertices stay at zero, whatever their rows of ``rhs``."""
        value = np.zeros((self._n, rhs.shape[1]))
        block = np.empty((len(self._free) + 1, rhs.shape[1]))
        block[:-1] = rhs[self._free]
        block[-1] = -block[:-1].sum(axis=0)
        result = super().solve(block, tol=tol)
        value[self._free] = result.value[:-1] - result.value[-1]
        return replace(result, value=value)


def factor(laplacian: Any, **options: Any) -> PoissonState:
    """Prepare a Laplacian; the options are those of :class:`PoissonState`."""
    return PoissonState(laplacian, **options)


def factor_anchored(
    laplacian: Any, held: AnyArray, pulled: AnyArray, pull: FloatArray, **options: Any
) -> AnchoredState:
    """Prepare the Laplacian of a connected graph with held and pulled vertices, with options of ``factor``.

    The solution is zero at the vertices ``held`` (h,); ``pull`` (p,), positive, is added to the diagonal
    entries of the vertices ``pulled`` (p,).

    Examples
    --------
    A chain of three vertices, held at its ends:

    >>> import numpy as np, scipy.sparse as sp
    >>> path = sp.csr_array(np.array([[1.0, -1, 0], [-1, 2, -1], [0, -1, 1]]))
    >>> ends, none = np.array([0, 2]), np.array([], dtype=int)
    >>> state = factor_anchored(path, ends, none, np.array([]))
    >>> state.solve(np.array([[0.0], [1.0], [0.0]])).value.ravel()
    array([0. , 0.5, 0. ])
    """
    n = laplacian.shape[0]
    if len(held) + len(pulled) == 0:
        raise ValueError("At least one vertex must be held or pulled; for a free Laplacian use factor.")
    free = np.setdiff1d(np.arange(n), held)
    ground = len(free)
    place = np.full(n, ground)
    place[free] = np.arange(ground)
    contraction = sp.csr_array((np.ones(n), (np.arange(n), place)), shape=(n, ground + 1))
    reduced = contraction.T @ sp.csr_array(laplacian) @ contraction
    ends, to_ground = place[pulled], np.full(len(pulled), ground)
    rows = np.concatenate([ends, ends, to_ground, to_ground])
    columns = np.concatenate([ends, to_ground, ends, to_ground])
    values = np.concatenate([pull, -pull, -pull, pull])
    reduced = reduced + sp.csr_array((values, (rows, columns)), shape=reduced.shape)
    # Where all vertices are held, what is left of the ground's own entry is rounding.
    return AnchoredState(reduced if ground else sp.csr_array((1, 1)), free, n, **options)


def factor_grounded(laplacian: Any, starts: AnyArray, pull: FloatArray, **options: Any) -> PoissonState:
    """As :func:`factor_anchored` for many components that begin at ``starts``, with pulls (n,) everywhere.

    The ground of each is a row of the matrix, behind its own.
    """
    sizes, entries = np.diff(starts), sp.coo_array(laplacian)
    part = np.repeat(np.arange(len(sizes)), sizes)
    place, ground = np.arange(len(part)) + part, starts[1:][part] + part
    shape = (len(part) + len(sizes),) * 2
    moved = sp.csr_array((entries.data, (place[entries.row], place[entries.col])), shape=shape)
    rows = np.concatenate([place, place, ground, ground])
    columns = np.concatenate([place, ground, place, ground])
    values = np.concatenate([pull, -pull, -pull, pull])
    return PoissonState(moved + sp.csr_array((values, (rows, columns)), shape=shape), **options)


def _check_tol(tol: float) -> float:
    if not 0 < tol < 1:
        raise ValueError(f"tol must lie between 0 and 1, got {tol!r}.")
    return float(tol)


def _as_block(rhs: FloatArray, n: int, team: ThreadTeam) -> FloatArray:
    rhs = np.ascontiguousarray(rhs, dtype=np.float64)
    if rhs.ndim != 2 or len(rhs) != n:
        raise ValueError(f"rhs must have shape ({n}, N), got {rhs.shape}.")
    if not team.all_finite(rhs):
        row, column = np.argwhere(~np.isfinite(rhs))[0]
        raise ValueError(f"rhs must be finite, but row {row}, column {column} is {rhs[row, column]}.")
    return rhs
