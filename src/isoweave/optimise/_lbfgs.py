"""L-BFGS on the reduced energy, with the Laplacian as metric."""

from __future__ import annotations

from collections import deque

import numpy as np

from isoweave._typing import FloatArray
from isoweave.optimise._problem import AlignmentProblem, Evaluation
from isoweave.optimise._records import RUNNING, Pair, ended_record, restore, running_record
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

_MEMORY = 10
# Relative residual of the solves, which only shape the direction: the energy is exact whatever they are, and
# its end point agrees to eight digits. Conjugate gradients need half the iterations of 1e-10.
_SOLVE_TOL = 1e-5
_SUFFICIENT_DECREASE = 1e-4
_MAX_HALVINGS = 25
_ROUNDING = 1e-13
# Steps in a row that lower the energy by rounding only.
_NO_GAIN = 1e-15
_MAX_IDLE = 5
# Relative misfit below which the data count as flat and iterations go on longer: long bends of a flat map
# cost little energy and relax last, while on data that cannot be flattened they are better left alone.
_GOOD_FIT = 0.2


def minimize_energy(
    problem: AlignmentProblem,
    start: FloatArray,
    *,
    tol: float = 0.02,
    max_iter: int = 500,
    callback: Callback | None = None,
    stage: str = "optimise",
    run: Run = ALONE,
) -> IterationResult:
    """Minimise ``F(phi) = min_Q J(phi, Q)`` (eq. 12).

    With no memory the full step ``-L^-1 grad F / 2`` is exactly one sweep of the paper's recursion (best Q,
    then Poisson solve); the memory saves most of the sweeps to the same fixed point (docs/choices.md counts
    them).

    Parameters
    ----------
    problem : AlignmentProblem
    start : array of shape (n, N)
    tol : float
        Stop when one more sweep would change the edges by less than ``tol`` times the misfit that is left,
        both as root mean squares: ``sqrt(g . L^-1 g) <= tol sqrt(F)`` with g half the gradient. Where the
        relative misfit ``r = sqrt(F / mass)`` is under 0.2 the bound shrinks with it, by ``r / 0.2``: flat
        data are iterated further, and data that fit exactly to rounding.
    max_iter : int
    callback : callable, optional
        Called with an :class:`IterationState` after every step, its coordinates read-only; returning True
        stops.
    stage : str
        Name reported to the callback and in errors.
    run : Run
        What it belongs to. If its journal holds the state of this very iteration, that is gone on with, and
        ``start`` is not looked at; the result has the same bits.

    Returns
    -------
    IterationResult

    Raises
    ------
    NumericalError
        Where an array stops being finite; every step looks.

    Notes
    -----
    The energy never rises: a step is taken only if it passes Armijo's test, otherwise it is halved. One
    Poisson solve per step.
    """
    stored = run.load("state")
    pairs: deque[Pair] = deque(maxlen=_MEMORY)
    history: list[StepRecord] = []
    preconditioned: FloatArray | None = None
    first, idle, status = 1, 0, RUNNING
    if stored is None:
        check_finite(stage, "start", start)
        x = problem.settle(start)
    else:
        found = restore(problem, stored, _MEMORY)
        x, history, preconditioned, pairs = found.x, found.history, found.preconditioned, found.pairs
        first, idle, status = found.iteration, found.idle, found.status
    here = checked_evaluation(problem, x, f"{stage}, step {first - 1}")
    mass = problem.mass
    check_finite(stage, "energy of the collapsed map", mass)
    if status != RUNNING:
        return IterationResult(problem.settle(x), here.alignments, here.energy, tuple(history), status)
    if preconditioned is None:
        preconditioned = checked_solve(problem, here.half_gradient, f"{stage}, step 0", _SOLVE_TOL)
    size = _relative(here, preconditioned, mass)
    if not history:
        history.append(StepRecord(0, here.energy, size, 0.0))
    status = "max_iter"

    def progress() -> Progress:
        misfit = float(np.sqrt(here.energy / mass)) if mass > 0 else 0.0
        bound = _bound(here.energy, mass, tol)
        return Progress(stage, history[-1].iteration, max_iter, here.energy, misfit, size, bound)

    def record() -> Record:
        return running_record(
            problem, x, history, iteration, idle=idle, preconditioned=preconditioned, pairs=pairs
        )

    for iteration in range(first, max_iter + 1):
        if _is_small(size, here.energy, mass, tol):
            status = "converged"
            break
        if run.step(progress, record, x.nbytes * (2 + 3 * len(pairs))):
            status = "interrupted"
            break
        where = f"{stage}, step {iteration}"
        direction = _two_loop(here.half_gradient, preconditioned, pairs)
        slope = 2.0 * float(np.sum(here.half_gradient * direction))
        if slope >= 0.0:
            # The memory lied about the curvature: fall back to the plain sweep, which descends unless the
            # solve that made it is wrong in every digit.
            pairs.clear()
            direction = -preconditioned
            slope = 2.0 * float(np.sum(here.half_gradient * direction))
            if slope >= 0.0:
                status = "stalled"
                break
        step = 1.0
        accepted: Evaluation | None = None
        for _ in range(_MAX_HALVINGS):
            trial = checked_evaluation(problem, x + step * direction, where)
            if trial.energy <= here.energy + _SUFFICIENT_DECREASE * step * slope:
                accepted = trial
                break
            step *= 0.5
        if accepted is None:
            if pairs:
                pairs.clear()
                continue
            status = "stalled"
            break
        move = step * direction
        previous, previous_preconditioned = here, preconditioned
        x = x + move
        here = accepted
        preconditioned = checked_solve(problem, here.half_gradient, where, _SOLVE_TOL)
        change = here.half_gradient - previous.half_gradient
        curvature = float(np.sum(move * change))
        if curvature > 1e-12 * abs(slope) * step:
            pairs.append((move, change, preconditioned - previous_preconditioned, 1.0 / curvature))
        size = _relative(here, preconditioned, mass)
        history.append(StepRecord(iteration, here.energy, size, step))
        gained = previous.energy - here.energy
        idle = idle + 1 if gained <= _NO_GAIN * here.energy else 0
        if idle == _MAX_IDLE:
            status = "stalled"
            break
        if callback is not None:
            state = IterationState(stage, iteration, here.energy, size, read_only(x))
            if callback(state):
                status = "stopped"
                iteration += 1  # the step that would have come next
                run.stop(record)
                break
    else:
        if _is_small(size, here.energy, mass, tol):
            status = "converged"
    run.forget()
    ended = ended_record(problem, x, history, status)
    run.keep("state", lambda: ended)
    return IterationResult(problem.settle(x), here.alignments, here.energy, tuple(history), status)


def _is_small(size: float, energy: float, mass: float, tol: float) -> bool:
    """The stopping rule."""
    return size <= _bound(energy, mass, tol)


def _bound(energy: float, mass: float, tol: float) -> float:
    """Where iterations end; at rounding level of the frames nothing more can be gained."""
    misfit = float(np.sqrt(energy / mass)) if mass > 0 else 0.0
    return max(tol * misfit * min(1.0, misfit / _GOOD_FIT), _ROUNDING)


def _relative(here: Evaluation, preconditioned: FloatArray, mass: float) -> float:
    """Norm of the gradient in the metric of the Laplacian, relative to the frames."""
    # The product is negative only where the solve is wrong in every digit: then its size tells that nothing
    # has converged, while zero would say the opposite.
    square = abs(float(np.sum(here.half_gradient * preconditioned)))
    return float(np.sqrt(square / mass)) if mass > 0 else 0.0


def _two_loop(
    gradient: FloatArray,
    preconditioned: FloatArray,
    pairs: deque[Pair],
) -> FloatArray:
    """Quasi-Newton direction with ``L^-1`` as initial inverse Hessian.

    The images ``L^-1 y`` are kept beside the pairs, so the inverse is applied to the combination
    ``g - sum a y`` without another solve.
    """
    result = preconditioned.copy()
    residual = gradient.copy()
    factors = []
    for move, change, image, rho in reversed(pairs):
        factor = rho * float(np.sum(move * residual))
        residual -= factor * change
        result -= factor * image
        factors.append(factor)
    for (move, change, _, rho), factor in zip(pairs, reversed(factors), strict=True):
        result += move * (factor - rho * float(np.sum(change * result)))
    return -result
