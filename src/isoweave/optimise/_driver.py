"""One driver for every optimiser: the only place that knows callback, progress, interrupt and checkpoint."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Protocol

import numpy as np

from isoweave._typing import FloatArray
from isoweave.energy import Evaluation
from isoweave.optimise._errors import check_finite, checked_evaluation
from isoweave.optimise._problem import Problem
from isoweave.optimise._run import ALONE, Progress, Record, Run
from isoweave.optimise._state import IterationResult, IterationState, StepRecord

RUNNING = "running"
# Annotations of the fields that a checkpoint stores as values; arrays and tuples of arrays are the rest.
_NUMBERS = "tuple[float, ...]"


@dataclass
class State:
    """Where an optimiser stands. Subclasses add arrays, numbers and tuples of arrays of shape (n, N).

    Attributes
    ----------
    x : float64 array of shape (n, N)
    here : Evaluation
        At ``x``; not stored in a checkpoint, because it follows from ``x``.
    history : list of StepRecord
    iteration : int
        Number of the next step.
    status : str
        "running", or how it ended.
    """

    x: FloatArray
    here: Evaluation
    history: list[StepRecord]
    iteration: int
    status: str


class Optimiser(Protocol):
    """What :func:`minimise` drives."""

    @property
    def max_iter(self) -> int: ...

    @property
    def state(self) -> type[Any]:
        """Class of its state."""
        ...

    def init(self, problem: Problem, start: FloatArray, stage: str) -> Any:
        """The state before the first step."""
        ...

    def step(self, problem: Problem, state: Any, stage: str) -> Any:
        """One step further; sets the status "stalled" where no step lowers the energy."""
        ...

    def bound(self, problem: Problem, state: Any) -> float:
        """Iterations end once ``gradient_norm`` of the last record is no larger than this."""
        ...


def minimise(
    optimiser: Optimiser, problem: Problem, start: FloatArray, *, stage: str = "optimise", run: Run = ALONE
) -> IterationResult:
    """Run an optimiser from ``start`` to its end.

    Parameters
    ----------
    optimiser : LBFGS or Alternating
    problem : Problem
    start : array of shape (n, N)
    stage : str
        Name reported to the callback and in errors.
    run : Run
        If its journal holds the state of this very iteration, that is continued, ``start`` is ignored, and
        the result has the same bits.

    Raises
    ------
    NumericalError
        Where an array stops being finite; every step looks.
    """
    stored = run.load("state")
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
        elif run.step(progress, record, sum(a.nbytes for a in _arrays(state).values())):
            state.status = "interrupted"
        else:
            n_records = len(state.history)
            state = optimiser.step(problem, state, stage)
            accepted = len(state.history) > n_records and state.status == RUNNING
            if accepted and run.callback is not None and _is_stopped(run, state, stage):
                run.stop(record)
                state.status = "stopped"
    run.forget()
    ended = Record(
        {"status": state.status, "iteration": 0, **_solver_values(problem)},
        {"x": state.x, "history": _table(state.history)},
    )
    run.keep("state", lambda: ended)
    return _result(problem, state)


def _is_stopped(run: Run, state: State, stage: str) -> bool:
    assert run.callback is not None
    view = state.x.view()
    # The iteration goes on from these numbers.
    view.flags.writeable = False
    last = state.history[-1]
    return bool(run.callback(IterationState(stage, last.iteration, last.energy, last.gradient_norm, view)))


def _result(problem: Problem, state: State) -> IterationResult:
    here = state.here
    return IterationResult(
        problem.settle(state.x), here.alignments, here.energy, tuple(state.history), state.status
    )


def _arrays(state: State) -> dict[str, FloatArray]:
    """Arrays of a state by the names of its fields; tuples of arrays are numbered."""
    arrays: dict[str, FloatArray] = {}
    for f in fields(state):
        value = getattr(state, f.name)
        if isinstance(value, np.ndarray):
            arrays[f.name] = value
        elif isinstance(value, tuple) and f.type != _NUMBERS:
            arrays |= {f"{f.name}.{k}": item for k, item in enumerate(value)}
    return arrays


def _record(problem: Problem, state: State) -> Record:
    """A state by its fields: everything the iteration needs to continue bit by bit."""
    kept = [f.name for f in fields(state) if f.type in ("int", "str", _NUMBERS)]
    numbers = {name: getattr(state, name) for name in kept}
    numbers = {name: list(v) if isinstance(v, tuple) else v for name, v in numbers.items()}
    return Record(
        {**numbers, **_solver_values(problem)}, {**_arrays(state), "history": _table(state.history)}
    )


def _restored(optimiser: Optimiser, problem: Problem, record: Record, stage: str) -> Any:
    """The state in a record, checked against the problem, whose solver is put back to where it stood."""
    restore_solver(problem, record)
    x, table = record.array("x", problem.shape), record.array("history", (None, 4))
    if len(table) == 0:
        raise ValueError("The checkpoint cannot be used: it holds the state of another optimiser. Remove it.")
    history = [StepRecord(int(i), float(e), float(g), float(s)) for i, e, g, s in table]
    status, iteration = record.value("status", str), record.value("iteration", int)
    here = checked_evaluation(problem, x, f"{stage}, step {history[-1].iteration}")
    if status != RUNNING:
        return State(x, here, history, iteration, status)
    more: dict[str, Any] = {}
    for f in fields(optimiser.state):
        if f.name in ("x", "here", "history", "iteration", "status"):
            continue
        if f.type == "int":
            more[f.name] = record.value(f.name, int)
        elif f.type == _NUMBERS:
            more[f.name] = tuple(float(number) for number in record.value(f.name, list))
        elif f.type == "FloatArray":
            more[f.name] = record.array(f.name, problem.shape)
        else:
            count = sum(name.startswith(f"{f.name}.") for name in record.arrays)
            more[f.name] = tuple(record.array(f"{f.name}.{k}", problem.shape) for k in range(count))
    return optimiser.state(x, here, history, iteration, status, **more)


def _table(history: list[StepRecord]) -> FloatArray:
    rows = [(r.iteration, r.energy, r.gradient_norm, r.step) for r in history]
    return np.array(rows, dtype=np.float64).reshape(-1, 4)


def _solver_values(problem: Problem) -> dict[str, list[str]]:
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
