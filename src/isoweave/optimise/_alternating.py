"""The paper's recursion: Poisson solve, then best alignments, until the alignments stand still."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from isoweave._typing import FloatArray
from isoweave.optimise._driver import RUNNING, State
from isoweave.optimise._errors import checked_evaluation, checked_solve
from isoweave.optimise._problem import Problem
from isoweave.optimise._state import StepRecord


@dataclass(frozen=True)
class Alternating:
    """Alternates the global step (eq. 11) and the local step (eq. 10) as the paper prints them.

    ``gradient_norm`` of its records is the paper's error.

    Parameters
    ----------
    tol : float
        Stop when ``sqrt(mean_i ||Q_i(old)^T Q_i(new) - I||_2^2)`` falls below it, the paper's rule.
    max_iter : int

    Notes
    -----
    Two misprints of the paper are mended: B is formed with the differential (not its transpose), and the
    common rotation Q_0 is taken out by right multiplication. With an exact Poisson solve the sum of the B_i
    is symmetric positive semi-definite, so Q_0 is the identity up to rounding and is not computed.
    """

    tol: float = 1e-7
    max_iter: int = 1000
    state = State

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
