"""The state of an iteration as a record, and back."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from isoweave._typing import FloatArray
from isoweave.linalg import SolverState
from isoweave.optimise._problem import AlignmentProblem
from isoweave.optimise._run import Record
from isoweave.optimise._state import StepRecord

# A step, what it changed in the gradient, the image of that under the inverse Laplacian, 1 / curvature.
Pair = tuple[FloatArray, FloatArray, FloatArray, float]
RUNNING = "running"
# Every file is synced by itself, which takes milliseconds: up to here the pairs are copied into one.
_LARGEST_COPY = 64_000_000


@dataclass(frozen=True, eq=False)
class StoredState:
    """An iteration to go on with.

    Attributes
    ----------
    x : array of shape (n, N)
    history : list of StepRecord
    status : str
        "running", or how it ended.
    iteration : int
        The next.
    idle : int
    preconditioned : array of shape (n, N) or None
    pairs : deque
    """

    x: FloatArray
    history: list[StepRecord]
    status: str
    iteration: int
    idle: int
    preconditioned: FloatArray | None
    pairs: deque[Pair]


def running_record(
    problem: AlignmentProblem,
    x: FloatArray,
    history: Iterable[StepRecord],
    iteration: int,
    *,
    idle: int = 0,
    preconditioned: FloatArray | None = None,
    pairs: Iterable[Pair] = (),
) -> Record:
    """Everything that the iteration needs to go on bit by bit.

    Energy, gradient and alignments follow from ``x``. The preconditioned gradient does too, but for the
    solver's ladder: a solve that made it move on would be repeated by the next method.
    """
    arrays = {"x": x, "history": _table(history)}
    if preconditioned is not None:
        arrays["preconditioned"] = preconditioned
    pairs = list(pairs)
    parts = [part for *three, _ in pairs for part in three]
    if parts and sum(part.nbytes for part in parts) <= _LARGEST_COPY and _are_in_rows(parts):
        arrays["pairs"] = np.stack(parts)
    else:
        arrays |= {f"pair-{k}": part for k, part in enumerate(parts)}
    arrays["rho"] = np.array([rho for *_, rho in pairs], dtype=np.float64)
    values = {"status": RUNNING, "iteration": iteration, "idle": idle, **solver_values(problem.poisson)}
    return Record(values, arrays)


def ended_record(
    problem: AlignmentProblem, x: FloatArray, history: Iterable[StepRecord], status: str
) -> Record:
    """Where an iteration has ended."""
    values = {"status": status, "iteration": 0, "idle": 0, **solver_values(problem.poisson)}
    return Record(values, {"x": x, "history": _table(history), "rho": np.empty(0)})


def restore(problem: AlignmentProblem, record: Record, memory: int = 0) -> StoredState:
    """The state in a record, checked against the problem, whose solver is put back to where it was."""
    shape = (problem.graph.n_vertices, problem.n_components)
    rho = record.array("rho", (None,))
    table = record.array("history", (None, 4))
    if len(rho) > memory or len(table) == 0:
        raise ValueError("The checkpoint cannot be used: its iteration is of another kind. Remove it.")
    pairs: deque[Pair] = deque(maxlen=memory)
    if "pairs" in record.arrays:
        parts = list(record.array("pairs", (3 * len(rho), *shape)))
    else:
        parts = [record.array(f"pair-{k}", shape) for k in range(3 * len(rho))]
    for k in range(len(rho)):
        move, change, image = parts[3 * k : 3 * k + 3]
        pairs.append((move, change, image, float(rho[k])))
    preconditioned = record.arrays.get("preconditioned")
    if preconditioned is not None:
        preconditioned = record.array("preconditioned", shape)
    restore_solver(problem.poisson, record)
    return StoredState(
        x=record.array("x", shape),
        history=[StepRecord(int(i), float(e), float(g), float(s)) for i, e, g, s in table],
        status=record.value("status", str),
        iteration=record.value("iteration", int),
        idle=record.value("idle", int),
        preconditioned=preconditioned,
        pairs=pairs,
    )


def solver_values(poisson: SolverState) -> dict[str, list[str]]:
    """Where the solver stands on its ladder."""
    return {"solvers": list(poisson.ladder), "solver_notes": list(poisson.notes)}


def restore_solver(poisson: SolverState, record: Record) -> None:
    """Put the solver back to where it stood."""
    ladder, notes = record.value("solvers", list), record.value("solver_notes", list)
    poisson.move_to(tuple(map(str, ladder)), list(map(str, notes)))


def _are_in_rows(parts: list[FloatArray]) -> bool:
    # Arrays in the other order would come back in this one, and sums over them would round differently.
    return all(part.flags.c_contiguous for part in parts)


def _table(history: Iterable[StepRecord]) -> FloatArray:
    rows = [(r.iteration, r.energy, r.gradient_norm, r.step) for r in history]
    return np.array(rows, dtype=np.float64).reshape(-1, 4)
