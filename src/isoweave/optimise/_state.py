"""What an iteration reports while it runs and when it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from isoweave._typing import AnyArray, FloatArray
from isoweave.energy import InnerProduct, RankInnerProduct
from isoweave.graph import NeighborGraph

if TYPE_CHECKING:
    from isoweave.optimise._problem import AlignmentProblem, Evaluation

# Squares of coordinates beyond this, in units of the median length, no longer leave room for sums.
_OVERFLOWING = 1e150


class NumericalError(ArithmeticError):
    """A stage gave a number that is not finite, although what went into it was checked.

    Not a fault of the input, which raises ValueError: a defect of this library or of one below it, or
    damaged memory. The one exception is its subclass :class:`UnsolvedError`.

    Attributes
    ----------
    stage : str
        Where it was met.
    index : tuple of int
        Of the first such entry, in the numbering of the stage (vertices of one component, duplicates
        merged); empty for a number.
    """

    def __init__(self, message: str, stage: str = "", index: tuple[int, ...] = ()) -> None:
        super().__init__(message)
        self.stage, self.index = stage, index

    def __reduce__(self) -> tuple[Any, ...]:
        # Errors travel between processes by pickle.
        return type(self), (str(self), self.stage, self.index)


class UnsolvedError(NumericalError, ValueError):
    """A Poisson problem has no usable solution: its distances are too many orders of magnitude apart.

    The paper's weights go with the inverse squares of the lengths, so lengths eight orders of magnitude apart
    span all the digits there are. The weights of the edge inner product do not depend on the lengths.
    """


def unsolved(
    stage: str, what: str, index: tuple[int, ...] = (), *, graph: NeighborGraph, inner: InnerProduct, why: str
) -> UnsolvedError:
    """The error for a Poisson problem that has no solution because of ``why``."""
    ratio = graph.lengths.max() / graph.lengths.min()
    other = "use inner_product='edge', or " if isinstance(inner, RankInnerProduct) else ""
    return UnsolvedError(
        f"{stage}: {what}. The Poisson problems of this graph could not be solved ({why}): its distances "
        f"differ by factors up to {ratio:.1e}; {other}remove the extreme ones.",
        stage,
        index,
    )


def badly_solved(
    problem: AlignmentProblem, stage: str, what: str, index: tuple[int, ...] = ()
) -> UnsolvedError:
    """The error for a Poisson problem whose solution turned out to be wrong."""
    why = "; ".join(problem.poisson.notes[-2:]) or f"by {problem.poisson.solver}"
    return unsolved(stage, what, index, graph=problem.graph, inner=problem.inner, why=why)


def numerical_error(stage: str, what: str, index: tuple[int, ...] = ()) -> NumericalError:
    """The error for what cannot be the fault of the data."""
    return NumericalError(
        f"{stage}: {what}. The input had been checked, so this is no fault of the data; run again, and "
        "report it with the graph if it comes back.",
        stage,
        index,
    )


def first_not_finite(values: AnyArray | float) -> tuple[tuple[int, ...], str] | None:
    """Index of the first entry that is not finite, and a text that names it; None if there is none."""
    if np.isfinite(values).all():
        return None
    array = np.asarray(values)
    index = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
    at = f" at {index[0] if len(index) == 1 else index}" if index else ""
    return index, f"{at} is {array[index]}"


def check_finite(stage: str, name: str, values: AnyArray | float) -> None:
    """Raise :class:`NumericalError` unless all values are finite; the first that is not is named."""
    found = first_not_finite(values)
    if found is not None:
        raise numerical_error(stage, name + found[1], found[0])


@contextmanager
def numerical_stage(stage: str) -> Iterator[None]:
    """Decompositions that fail inside carry the stage's name."""
    try:
        yield
    except (np.linalg.LinAlgError, RuntimeError) as error:
        # SuperLU has a RuntimeError for what it cannot factor.
        if isinstance(error, RuntimeError) and "singular" not in str(error):
            raise
        raise numerical_error(stage, f"a decomposition failed ({str(error).rstrip('.')})") from error


def checked_evaluation(problem: AlignmentProblem, x: FloatArray, stage: str) -> Evaluation:
    """The energy at ``x``; an error names the first array that is not finite.

    One pass over the alignments and the gradient; evaluating them takes a pass per neighbour.
    """
    here = problem.evaluate(x)
    if isfinite(here.energy) and np.isfinite(here.half_gradient).all() and np.isfinite(here.alignments).all():
        return here
    inner = problem.inner
    # What the energy was computed from first: the earliest bad array is nearest to the cause.
    check_finite(stage, "coordinates", x)
    check_finite(stage, "frames", problem.frames.rows)
    check_finite(
        stage, "inner product", inner.inverse if isinstance(inner, RankInnerProduct) else inner.weights
    )
    largest = float(np.abs(x).max())
    if largest > _OVERFLOWING or (not isfinite(here.energy) and not np.isnan(here.energies).any()):
        raise badly_solved(problem, stage, f"the energy overflows at coordinates up to {largest:.1e}")
    check_finite(stage, "alignments", here.alignments)
    check_finite(stage, "energies", here.energies)
    check_finite(stage, "gradient", here.half_gradient)
    raise AssertionError("one of the arrays is not finite")


def checked_solve(
    problem: AlignmentProblem, rhs: FloatArray, stage: str, tol: float | None = None
) -> FloatArray:
    """Solution of a Poisson problem, finite; ``tol`` is that of :meth:`SolverState.solve`."""
    value = problem.poisson.solve(rhs, tol=tol).value
    found = first_not_finite(value)
    if found is not None:
        raise badly_solved(problem, stage, f"the solution of the Poisson problem{found[1]}", found[0])
    return value


def read_only(x: FloatArray) -> FloatArray:
    """A view that callbacks cannot write to: the iteration goes on from these numbers."""
    view = x.view()
    view.flags.writeable = False
    return view


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
