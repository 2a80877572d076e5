"""The paper's recursion: Poisson solve, then best alignments, until the alignments stand still."""

from __future__ import annotations

import numpy as np

from isoweave._typing import FloatArray
from isoweave.optimise._problem import AlignmentProblem
from isoweave.optimise._records import RUNNING, ended_record, restore, running_record
from isoweave.optimise._run import ALONE, Progress, Record, Run
from isoweave.optimise._state import (
    Callback,
    IterationResult,
    IterationState,
    StepRecord,
    check_finite,
    checked_evaluation,
    checked_solve,
    read_only,
)


def alternate(
    problem: AlignmentProblem,
    alignments: FloatArray,
    *,
    tol: float = 1e-7,
    max_iter: int = 1000,
    callback: Callback | None = None,
    stage: str = "recursion",
    run: Run = ALONE,
) -> IterationResult:
    """Alternate the global step (eq. 11) and the local step (eq. 10) as the paper prints them.

    Parameters
    ----------
    problem : AlignmentProblem
    alignments : array of shape (n, N, N)
        Q_i to start from; the paper takes identities.
    tol : float
        Stop when ``sqrt(mean_i ||Q_i(old)^T Q_i(new) - I||_2^2)`` falls below it, the paper's rule.
    max_iter : int
    callback : callable, optional
    stage : str
    run : Run
        What it belongs to; if its journal holds the state of this very recursion, that is gone on with.

    Returns
    -------
    IterationResult
        ``gradient_norm`` of the records is the paper's error.

    Raises
    ------
    NumericalError
        Where an array stops being finite; every step looks.

    Notes
    -----
    Two misprints of the paper are mended: B is formed with the differential (not its transpose), and the
    common rotation Q_0 is taken out by right multiplication. With an exact Poisson solve the sum of the B_i
    is symmetric positive semi-definite, so Q_0 is the identity up to rounding and is not computed.
    """
    stored = run.load("state")
    first, status = 1, RUNNING
    if stored is None:
        check_finite(stage, "alignments to start from", alignments)
        x = problem.integrate(alignments)
        here = checked_evaluation(problem, x, f"{stage}, step 0")
        history = [StepRecord(0, here.energy, _change(alignments, here.alignments), 1.0)]
    else:
        found = restore(problem, stored)
        x, history, first, status = found.x, found.history, found.iteration, found.status
        here = checked_evaluation(problem, x, f"{stage}, step {first - 1}")
    if status != RUNNING:
        return IterationResult(problem.settle(x), here.alignments, here.energy, tuple(history), status)
    status = "max_iter"

    def progress() -> Progress:
        misfit = float(np.sqrt(here.energy / problem.mass)) if problem.mass > 0 else 0.0
        change = history[-1].gradient_norm
        return Progress(stage, history[-1].iteration, max_iter, here.energy, misfit, change, tol)

    def record() -> Record:
        return running_record(problem, x, history, iteration)

    for iteration in range(first, max_iter + 1):
        if history[-1].gradient_norm < tol:
            status = "converged"
            break
        if run.step(progress, record, x.nbytes):
            status = "interrupted"
            break
        # L phi_new = div(W E Q) and the half gradient is L phi - div(W E Q): one solve gives the difference.
        where = f"{stage}, step {iteration}"
        candidate = x - checked_solve(problem, here.half_gradient, where)
        there = checked_evaluation(problem, candidate, where)
        if there.energy > here.energy:
            # Only an inexact solve can do this; nothing is left to gain.
            status = "stalled"
            break
        change = _change(here.alignments, there.alignments)
        x, here = candidate, there
        history.append(StepRecord(iteration, here.energy, change, 1.0))
        if callback is not None:
            state = IterationState(stage, iteration, here.energy, change, read_only(x))
            if callback(state):
                status = "stopped"
                iteration += 1  # the step that would have come next
                run.stop(record)
                break
    else:
        if history[-1].gradient_norm < tol:
            status = "converged"
    run.forget()
    ended = ended_record(problem, x, history, status)
    run.keep("state", lambda: ended)
    return IterationResult(problem.settle(x), here.alignments, here.energy, tuple(history), status)


def _change(old: FloatArray, new: FloatArray) -> float:
    """The paper's error: root mean square of the spectral norms of ``Q_old^T Q_new - I``."""
    turn = np.einsum("irk,irc->ikc", old, new) - np.eye(old.shape[1])
    norms = np.linalg.norm(turn, ord=2, axis=(1, 2))
    return float(np.sqrt(np.mean(norms**2)))
