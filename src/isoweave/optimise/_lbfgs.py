"""L-BFGS on the reduced energy, with the Laplacian as metric."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from isoweave._typing import FloatArray
from isoweave.energy import Evaluation
from isoweave.optimise._driver import RUNNING, State
from isoweave.optimise._errors import checked_evaluation, checked_solve
from isoweave.optimise._problem import Problem
from isoweave.optimise._state import StepRecord

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


@dataclass
class LBFGSState(State):
    """What the next step needs.

    Attributes
    ----------
    preconditioned : float64 array of shape (n, N)
        The metric's inverse applied to half the gradient. Stored although it follows from ``x``: a solve that
        made the solver move on would be repeated by the next method.
    idle : int
        Steps in a row without gain.
    pairs : tuple of arrays of shape (n, N)
        Step, change of the gradient, and the image of that under the metric's inverse, of the last steps.
    curvatures : tuple of float
        Step times change, of each.
    """

    preconditioned: FloatArray
    idle: int
    pairs: tuple[FloatArray, ...]
    curvatures: tuple[float, ...]


@dataclass(frozen=True)
class LBFGS:
    """Minimises ``F(x) = min_Q J(x, Q)`` (eq. 12).

    With no memory the full step ``-L^-1 grad F / 2`` is exactly one sweep of the paper's recursion (best Q,
    then Poisson solve); the memory saves most of the sweeps to the same fixed point (docs/choices.md counts
    them). The energy never rises: a step is taken only if it passes Armijo's test, otherwise it is halved.
    One Poisson solve per step.

    Parameters
    ----------
    tol : float
        Stop when one more sweep would change the edges by less than ``tol`` times the misfit that is left,
        both as root mean squares: ``sqrt(g . L^-1 g) <= tol sqrt(F)`` with g half the gradient. Where the
        relative misfit ``r = sqrt(F / mass)`` is under 0.2 the bound shrinks with it, by ``r / 0.2``: flat
        data are iterated further, and data that fit exactly to rounding.
    max_iter : int
    """

    tol: float = 0.03
    max_iter: int = 500
    state = LBFGSState

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
        return max(self.tol * misfit * min(1.0, misfit / _GOOD_FIT), _ROUNDING)

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
        step = 1.0
        accepted: Evaluation | None = None
        for _ in range(_MAX_HALVINGS):
            trial = checked_evaluation(problem, state.x + step * direction, where)
            if trial.energy <= here.energy + _SUFFICIENT_DECREASE * step * slope:
                accepted = trial
                break
            step *= 0.5
        if accepted is None:
            if pairs:
                # Once more without the memory.
                state.pairs, state.curvatures, state.iteration = (), (), state.iteration + 1
            else:
                state.status = "stalled"
            return state
        move = step * direction
        preconditioned = checked_solve(problem, accepted.half_gradient, where, _SOLVE_TOL)
        change = accepted.half_gradient - here.half_gradient
        curvature = problem.dot(move, change)
        if curvature > 1e-12 * abs(slope) * step:
            pairs = (*pairs, move, change, preconditioned - state.preconditioned)[-3 * _MEMORY :]
            curvatures = (*curvatures, curvature)[-_MEMORY:]
        size = _relative(problem, accepted, preconditioned)
        history = [*state.history, StepRecord(state.iteration, accepted.energy, size, step)]
        idle = state.idle + 1 if here.energy - accepted.energy <= _NO_GAIN * accepted.energy else 0
        status = "stalled" if idle == _MAX_IDLE else RUNNING
        x = state.x + move
        following = state.iteration + 1
        return LBFGSState(x, accepted, history, following, status, preconditioned, idle, pairs, curvatures)


def _relative(problem: Problem, here: Evaluation, preconditioned: FloatArray) -> float:
    """Norm of the gradient in the metric of the Laplacian, relative to the frames."""
    # The product is negative only where the solve is wrong in every digit: then its size tells that nothing
    # has converged, while zero would say the opposite.
    square = abs(problem.dot(here.half_gradient, preconditioned))
    return float(np.sqrt(square / problem.mass)) if problem.mass > 0 else 0.0


def _two_loop(
    problem: Problem,
    gradient: FloatArray,
    preconditioned: FloatArray,
    pairs: tuple[FloatArray, ...],
    curvatures: tuple[float, ...],
) -> FloatArray:
    """Quasi-Newton direction with ``L^-1`` as initial inverse Hessian.

    The images ``L^-1 y`` are kept beside the pairs, so the inverse is applied to the combination
    ``g - sum a y`` without another solve.
    """
    result = preconditioned.copy()
    residual = gradient.copy()
    triples = [pairs[k : k + 3] for k in range(0, len(pairs), 3)]
    factors = []
    for (move, change, image), curvature in zip(reversed(triples), reversed(curvatures), strict=True):
        factor = 1.0 / curvature * problem.dot(move, residual)
        residual -= factor * change
        result -= factor * image
        factors.append(factor)
    for (move, change, _), curvature, factor in zip(triples, curvatures, reversed(factors), strict=True):
        result += move * (factor - 1.0 / curvature * problem.dot(change, result))
    return -result
