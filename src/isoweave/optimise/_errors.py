"""Numbers that are not finite: the errors that name the stage, and the checks that raise them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import isfinite
from typing import Any

import numpy as np

from isoweave._typing import AnyArray, FloatArray
from isoweave.energy import Evaluation, FrameEnergy
from isoweave.optimise._problem import Problem

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
    stage: str, what: str, index: tuple[int, ...] = (), *, frames: FrameEnergy, why: str
) -> UnsolvedError:
    """The error for a Poisson problem that has no solution because of ``why``."""
    ratio = frames.graph.lengths.max() / frames.graph.lengths.min()
    return UnsolvedError(
        f"{stage}: {what}. The Poisson problems of this graph could not be solved ({why}): its distances "
        f"differ by factors up to {ratio:.1e}; {frames.remedy}remove the extreme ones.",
        stage,
        index,
    )


def badly_solved(problem: Problem, stage: str, what: str, index: tuple[int, ...] = ()) -> UnsolvedError:
    """The error for a Poisson problem whose solution turned out to be wrong."""
    why = "; ".join(problem.metric.notes[-2:]) or f"by {problem.metric.solver}"
    return unsolved(stage, what, index, frames=problem.frames, why=why)


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


def checked_evaluation(problem: Problem, x: FloatArray, stage: str) -> Evaluation:
    """The energy at ``x``; an error names the first array that is not finite.

    One pass over the alignments and the gradient; evaluating them takes a pass per neighbour.
    """
    here = problem.evaluate(x)
    if isfinite(here.energy) and np.isfinite(here.half_gradient).all() and np.isfinite(here.alignments).all():
        return here
    # What the energy was computed from first: the earliest bad array is nearest to the cause.
    check_finite(stage, "coordinates", x)
    for name, array in problem.energy.suspects().items():
        check_finite(stage, name, array)
    largest = float(np.abs(x).max())
    if largest > _OVERFLOWING or (not isfinite(here.energy) and not np.isnan(here.energies).any()):
        raise badly_solved(problem, stage, f"the energy overflows at coordinates up to {largest:.1e}")
    check_finite(stage, "alignments", here.alignments)
    check_finite(stage, "energies", here.energies)
    check_finite(stage, "gradient", here.half_gradient)
    raise AssertionError("one of the arrays is not finite")


def checked_solve(problem: Problem, rhs: FloatArray, stage: str, tol: float | None = None) -> FloatArray:
    """Solution of a Poisson problem, finite; ``tol`` is that of :meth:`PoissonState.solve`."""
    value = problem.solve(rhs, tol)
    found = first_not_finite(value)
    if found is not None:
        raise badly_solved(problem, stage, f"the solution of the Poisson problem{found[1]}", found[0])
    return value
