"""What an iteration reports while it runs and when it ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from isoweave._typing import FloatArray


@dataclass(frozen=True)
class StepRecord:
    """One accepted step.

    Attributes
    ----------
    iteration : int
        0 is the start.
    energy : float
    gradient_norm : float
        Size of the next alternating step relative to the frames, dimensionless (the stopping quantity).
    step : float
        Step length taken, 1 for a full quasi-Newton step.
    """

    iteration: int
    energy: float
    gradient_norm: float
    step: float


@dataclass(frozen=True, eq=False)
class IterationState:
    """Handed to callbacks after every step; a callback that returns True stops the iteration.

    The coordinates are read-only where they are the optimiser's own. A callback given to
    :func:`isoweave.embed_graph` or the estimator sees a copy in the order and unit of its input, NaN outside
    the component at work.
    """

    stage: str
    iteration: int
    energy: float
    gradient_norm: float
    coordinates: FloatArray


Callback = Callable[[IterationState], object]


@dataclass(frozen=True, eq=False)
class IterationResult:
    """Where an iteration ended and why.

    Attributes
    ----------
    coordinates : float64 array of shape (n, N)
        Zero mean, or with hard anchors in their places.
    alignments : float64 array of shape (n, N, N)
    energy : float
    history : tuple of StepRecord
    status : str
        "converged": the gradient is below the tolerance. "stalled": no step lowers the energy any
        more within rounding. "max_iter": the limit was reached. "stopped": the callback asked for it.
    """

    coordinates: FloatArray
    alignments: FloatArray
    energy: float
    history: tuple[StepRecord, ...]
    status: str

    @property
    def n_iter(self) -> int:
        return self.history[-1].iteration
