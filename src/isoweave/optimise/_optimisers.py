"""L-BFGS and the paper's recursion, and one driver for both.

The driver is the only place that knows callback, progress, interrupt and checkpoint.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from isoweave._typing import FloatArray
from isoweave.energy import Evaluation
from isoweave.optimise._problem import Problem, check_finite, checked_evaluation, checked_solve
from isoweave.optimise._run import (
    ALONE,
    IterationResult,
    IterationState,
    Progress,
    Record,
    Run,
    StepRecord,
    steps_of,
    table_of,
)

RUNNING = "running"
_MEMORY = 10
# Relative residual of the solves, which only shape the direction: as many steps as with none, and a quarter
# of the iterations of conjugate gradients that 1e-6 takes (docs/performance.md).
_SOLVE_TOL = 0.03
_SUFFICIENT_DECREASE = 1e-4
_MAX_HALVINGS = 25
_ROUNDING = 1e-13
# Steps in a row that lower the energy by rounding only.
_NO_GAIN = 1e-15
_MAX_IDLE = 5
# Relative misfit below which the data count as flat and iterations go on longer: long bends of a flat map
# cost little energy and relax last; on data that cannot be flattened they are better left alone.
_GOOD_FIT = 0.2


@dataclass
class State:
    """Where an optimiser stands."""

    x: FloatArray
    here: Evaluation  # at ``x``, hence not stored in a checkpoint
    history: list[StepRecord]
    iteration: int  # the next
    status: str


@dataclass
class LBFGSState(State):
    """With what the next direction is made of."""

    # The metric's inverse applied to half the gradient. Stored although it follows from ``x``: a solve that
    # made the solver move on would be repeated by the next method.
    preconditioned: FloatArray
    idle: int  # steps in a row without gain
    pairs: tuple[FloatArray, ...]  # of the last steps: step, change of the gradient, the latter's image
    curvatures: tuple[float, ...]  # step times change


@dataclass(frozen=True)
class LBFGS:
    """Minimises ``F(x) = min_Q J(x, Q)`` (eq. 12).

    With no memory the full step ``-L^-1 grad F / 2`` is exactly one sweep of the paper's recursion (best Q,
    then Poisson solve); the memory saves most of the sweeps to the same fixed point (docs/choices.md). The
    energy never rises: a step is halved until it passes Armijo's test. One Poisson solve per step.

    It stops when one more sweep would change the edges by less than ``tol`` times the misfit that is left,
    both as root mean squares: ``sqrt(g . L^-1 g) <= tol sqrt(F)`` with g half the gradient. Where the
    relative misfit ``r = sqrt(F / mass)`` is under 0.2 the bound shrinks with it, by ``r / 0.2``: flat data
    are iterated further, and data that fit exactly to rounding, unless a change of ``enough``, relative to
    the edges, ends it.
    """

    tol: float = 0.03
    max_iter: int = 500
    enough: float = _ROUNDING

    def init(self, problem: Problem, start: FloatArray, stage: str) -> LBFGSState:
        x = problem.settle(start)
        here = checked_evaluation(problem, x, f"{stage}, step 0")
        preconditioned = checked_solve(problem, here.half_gradient, f"{stage}, step 0", _SOLVE_TOL)
        first = StepRecord(0, here.energy, _relative(problem, here, preconditioned), 0.0)
        return LBFGSState(x, here, [first], 1, RUNNING, preconditioned, 0, (), ())

    def bound(self, problem: Problem, state: LBFGSState) -> float:
        """Where iterations end; at rounding level of the frames nothing more can be gained."""
        energy, mass = state.here.energy, problem.mass
        misfit = float(np.sqrt(energy / mass)) if mass > 0 else 0.0
        return max(self.tol * misfit * min(1.0, misfit / _GOOD_FIT), self.enough, _ROUNDING)

    def step(self, problem: Problem, state: LBFGSState, stage: str) -> LBFGSState:
        here, where = state.here, f"{stage}, step {state.iteration}"
        pairs, curvatures = state.pairs, state.curvatures
        direction = _two_loop(problem, here.half_gradient, state.preconditioned, pairs, curvatures)
        slope = 2.0 * problem.dot(here.half_gradient, direction)
        if slope >= 0.0:
            # The memory lied about the curvature: fall back to the plain sweep, which descends unless the
            # solve that made it is wrong in every digit.
            pairs, curvatures = (), ()
            direction = -state.preconditioned
            slope = 2.0 * problem.dot(here.half_gradient, direction)
            if slope >= 0.0:
                state.status = "stalled"
                return state
        for halvings in range(_MAX_HALVINGS):
            step = 0.5**halvings
            x = problem.plus(state.x, step, direction)
            accepted = checked_evaluation(problem, x, where)
            if accepted.energy <= here.energy + _SUFFICIENT_DECREASE * step * slope:
                break
        else:
            if pairs:
                # Once more without the memory.
                state.pairs, state.curvatures, state.iteration = (), (), state.iteration + 1
            else:
                state.status = "stalled"
            return state
        move = direction if step == 1.0 else step * direction
        preconditioned = checked_solve(problem, accepted.half_gradient, where, _SOLVE_TOL)
        change = problem.plus(accepted.half_gradient, -1.0, here.half_gradient)
        curvature = problem.dot(move, change)
        if curvature > 1e-12 * abs(slope) * step:
            image = problem.plus(preconditioned, -1.0, state.preconditioned)
            pairs = (*pairs, *map(problem.remembered, (move, change, image)))[-3 * _MEMORY :]
            curvatures = (*curvatures, curvature)[-_MEMORY:]
        size = _relative(problem, accepted, preconditioned)
        history = [*state.history, StepRecord(state.iteration, accepted.energy, size, step)]
        idle = state.idle + 1 if here.energy - accepted.energy <= _NO_GAIN * accepted.energy else 0
        status = "stalled" if idle == _MAX_IDLE else RUNNING
        here_now = (x, accepted, history, state.iteration + 1, status)
        return LBFGSState(*here_now, preconditioned, idle, pairs, curvatures)


def _relative(problem: Problem, here: Evaluation, preconditioned: FloatArray) -> float:
    """Norm of the gradient in the metric of the Laplacian, relative to the frames."""
    # The product is negative only where the solve is wrong in every digit: then its size tells that nothing
    # has converged, while zero would say the opposite.
    square = abs(problem.dot(here.half_gradient, preconditioned))
    return float(np.sqrt(square / problem.mass)) if problem.mass > 0 else 0.0


def _two_loop(
    problem: Problem, gradient: FloatArray, preconditioned: FloatArray, pairs: Any, curvatures: Any
) -> FloatArray:
    """Quasi-Newton direction with a multiple of ``L^-1`` as initial inverse Hessian."""
    # The images ``L^-1 y`` are kept beside the pairs: ``g - sum a y`` needs no other solve.
    result, residual = preconditioned.copy(), gradient.copy()
    triples = [pairs[k : k + 3] for k in range(0, len(pairs), 3)]
    factors = []
    for (move, change, image), curvature in zip(reversed(triples), reversed(curvatures), strict=True):
        factor = 1.0 / curvature * problem.dot(move, residual)
        residual = problem.plus(residual, -factor, change, residual)
        result = problem.plus(result, -factor, image, result)
        factors.append(factor)
    if triples:
        # Rotations follow the points, so that the energy bends less than L: the last step tells how much.
        _, change, image = triples[-1]
        bend = problem.dot(change, image)
        result *= curvatures[-1] / bend if bend > 0.0 else 1.0
    for (move, change, _), curvature, factor in zip(triples, curvatures, reversed(factors), strict=True):
        factor -= 1.0 / curvature * problem.dot(change, result)
        result = problem.plus(result, factor, move, result)
    result *= -1.0
    return result


@dataclass(frozen=True)
class Alternating:
    """The paper's recursion: Poisson solve (eq. 11), best alignments (eq. 10), until these stand still.

    It stops when ``sqrt(mean_i ||Q_i(old)^T Q_i(new) - I||_2^2)`` falls below ``tol``, the paper's rule; that
    error is ``gradient_norm`` of its records.

    Notes
    -----
    Two misprints of the paper are mended: B is formed with the differential (not its transpose), and the
    common rotation Q_0 is taken out by right multiplication. With an exact Poisson solve the sum of the B_i
    is symmetric positive semi-definite, so Q_0 is the identity up to rounding and is not computed.
    """

    tol: float = 1e-7
    max_iter: int = 1000

    def init(self, problem: Problem, start: FloatArray, stage: str) -> State:
        """One global step from the best alignments of ``start``."""
        alignments = checked_evaluation(problem, start, f"{stage}, step 0").alignments
        x = problem.integrate(alignments)
        here = checked_evaluation(problem, x, f"{stage}, step 0")
        first = StepRecord(0, here.energy, _change(alignments, here.alignments), 1.0)
        return State(x, here, [first], 1, RUNNING)

    def bound(self, problem: Problem, state: State) -> float:
        """The paper asks for an error strictly below ``tol``."""
        return float(np.nextafter(self.tol, 0.0))

    def step(self, problem: Problem, state: State, stage: str) -> State:
        # L x_new = div(W E Q) and the half gradient is L x - div(W E Q): one solve gives the difference.
        where = f"{stage}, step {state.iteration}"
        x = state.x - checked_solve(problem, state.here.half_gradient, where)
        there = checked_evaluation(problem, x, where)
        if there.energy > state.here.energy:
            # Only an inexact solve can do this; nothing is left to gain.
            state.status = "stalled"
            return state
        change = _change(state.here.alignments, there.alignments)
        history = [*state.history, StepRecord(state.iteration, there.energy, change, 1.0)]
        return State(x, there, history, state.iteration + 1, RUNNING)


def _change(old: FloatArray, new: FloatArray) -> float:
    """The paper's error: root mean square of the spectral norms of ``Q_old^T Q_new - I``."""
    rotation = np.einsum("irk,irc->ikc", old, new) - np.eye(old.shape[1])
    norms = np.linalg.norm(rotation, ord=2, axis=(1, 2))
    return float(np.sqrt(np.mean(norms**2)))


# ``step`` sets the status "stalled" where no step lowers the energy. Iterations end once ``gradient_norm`` of
# the last record is no larger than ``bound``.
Optimiser = LBFGS | Alternating


def minimise(
    optimiser: Optimiser, problem: Any, start: FloatArray, *, stage: str = "optimise", run: Run = ALONE
) -> IterationResult:
    """Run an optimiser from ``start``, shape (n, N), to its end.

    ``stage`` is the name for the callback and for errors. If the journal of ``run`` holds the state of this
    very iteration, that is continued, ``start`` is ignored, and the result has the same bits.

    Raises
    ------
    NumericalError
        Where an array stops being finite; every step looks.
    """
    if run.one_of_many and run.callback is None and run.journal is None and isinstance(optimiser, LBFGS):
        from isoweave.optimise._many import minimise_small

        found = minimise_small(optimiser, problem, start, run.interrupt)
        if found is not None:
            run.pause()
            return found
    stored = run.load("state")
    state: Any
    if stored is None:
        check_finite(stage, "start", start)
        state = optimiser.init(problem, start, stage)
    else:
        state = _restored(optimiser, problem, stored, stage)
    check_finite(stage, "energy of the collapsed map", problem.mass)
    if state.status != RUNNING:
        return _result(problem, state)

    def progress() -> Progress:
        energy, last = state.here.energy, state.history[-1]
        misfit = float(np.sqrt(energy / problem.mass)) if problem.mass > 0 else 0.0
        bound = optimiser.bound(problem, state)
        return Progress(stage, last.iteration, optimiser.max_iter, energy, misfit, last.gradient_norm, bound)

    def record() -> Record:
        return _record(problem, state)

    while state.status == RUNNING:
        if state.history[-1].gradient_norm <= optimiser.bound(problem, state):
            state.status = "converged"
        elif state.iteration > optimiser.max_iter:
            state.status = "max_iter"
        elif ending := run.step(progress, record):
            state.status = ending
        else:
            n_records = len(state.history)
            state = optimiser.step(problem, state, stage)
            accepted = len(state.history) > n_records and state.status == RUNNING
            if accepted and run.callback is not None and run.callback(_seen(problem, state, stage)):
                run.stop(record)
                state.status = "stopped"
    run.forget()
    ended = _record(problem, State(state.x, state.here, state.history, 0, state.status))
    run.keep("state", lambda: ended)
    return _result(problem, state)


def _seen(problem: Problem, state: State, stage: str) -> IterationState:
    view, last = problem.on_host(state.x), state.history[-1]
    # The iteration goes on from these numbers.
    view.flags.writeable = False
    return IterationState(stage, last.iteration, last.energy, last.gradient_norm, view)


def _result(problem: Problem, state: State) -> IterationResult:
    x, here = problem.settle(state.x), state.here
    return IterationResult(x, here.alignments, here.energy, tuple(state.history), state.status)


def _record(problem: Problem, state: State) -> Record:
    """A state by its fields: everything the iteration needs to continue bit by bit."""
    values = {"status": state.status, "iteration": state.iteration, **_solver_values(problem)}
    arrays = {"x": state.x, "history": table_of(state.history)}
    if isinstance(state, LBFGSState):
        values |= {"idle": state.idle, "curvatures": list(state.curvatures)}
        arrays["preconditioned"] = state.preconditioned
        arrays |= {f"pairs.{k}": array for k, array in enumerate(state.pairs)}
    return Record(values, arrays)


def _restored(optimiser: Optimiser, problem: Problem, record: Record, stage: str) -> State:
    """The state in a record, checked against the problem, whose solver is put back to where it stood."""
    restore_solver(problem, record)
    x, table = record.array("x", problem.shape), record.array("history", (None, 4))
    if len(table) == 0:
        raise ValueError("it holds the state of another optimiser")
    history = list(steps_of(table))
    here = checked_evaluation(problem, x, f"{stage}, step {history[-1].iteration}")
    state = State(x, here, history, record.value("iteration", int), record.value("status", str))
    if state.status != RUNNING or isinstance(optimiser, Alternating):
        return state
    names = [f"pairs.{k}" for k in range(sum(name.startswith("pairs.") for name in record.arrays))]
    kinds = (getattr(record.arrays.get(name), "dtype", None) for name in names)
    kept = [np.float32 if kind == np.float32 else np.float64 for kind in kinds]
    return LBFGSState(
        **vars(state),
        preconditioned=record.array("preconditioned", problem.shape),
        idle=record.value("idle", int),
        pairs=tuple(record.array(name, problem.shape, k) for name, k in zip(names, kept, strict=True)),
        curvatures=tuple(map(float, record.value("curvatures", list))),
    )


def _solver_values(problem: Problem) -> dict[str, Any]:
    return {"solvers": list(problem.metric.ladder), "solver_notes": list(problem.metric.notes)}


def keep_start(problem: Problem, x: FloatArray, run: Run) -> None:
    """Keep coordinates to start from, with where the solver stands on its ladder."""
    run.forget()
    record = Record(_solver_values(problem), {"coordinates": x})
    run.keep("start", lambda: record)


def restore_solver(problem: Problem, record: Record) -> None:
    """Put the solver back to where it stood on its ladder."""
    ladder, notes = record.value("solvers", list), record.value("solver_notes", list)
    problem.metric.move_to(tuple(map(str, ladder)), list(map(str, notes)))
