"""An energy with the metric in which it is minimised, and the errors for numbers that are not finite."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

import numpy as np

from isoweave._lazy import computed_once
from isoweave._typing import AnyArray, FloatArray
from isoweave.energy import (
    AnchorEnergy,
    DistanceEnergy,
    EdgeEnergy,
    Energy,
    Evaluation,
    FrameEnergy,
    GlobalEnergy,
    Sum,
    differences,
    divergence,
)
from isoweave.graph import NeighborGraph
from isoweave.linalg import PoissonState, factor, factor_anchored

# Squares of coordinates beyond this, in units of the median length, no longer leave room for sums.
_OVERFLOWING = 1e150
# Numbers of an array from which memory counts.
MANY_NUMBERS = 2**16


@dataclass(frozen=True, eq=False)
class Problem:
    """Everything that stays fixed while the embedding moves. The graph is connected.

    ``metric`` is the factored Laplacian of the energy (with the anchors if there are any), ``measured`` is
    minimised in place of the frames' energy, ``far`` beside it.
    """

    frames: FrameEnergy
    metric: PoissonState
    anchors: AnchorEnergy | None = None
    measured: Energy | None = None
    far: GlobalEnergy | None = None

    @property
    def graph(self) -> NeighborGraph:
        return self.frames.graph

    @property
    def shape(self) -> tuple[int, int]:
        """Of an embedding: (n, N)."""
        return self.graph.n_vertices, self.frames.frames.n_components

    @computed_once
    def energy(self) -> Energy:
        main: Energy = self.frames if self.measured is None else self.measured
        others = [term for term in (self.anchors, self.far) if term is not None]
        return Sum((main, *others)) if others else main

    @computed_once
    def mass(self) -> float:
        """Energy of the collapsed embedding, ``sum_i tr(E_i^T W_i E_i)``: the scale of all energies."""
        return self.energy.mass

    def settle(self, x: FloatArray) -> FloatArray:
        """Copy in the position that the energy leaves open: zero mean, or hard anchors where they belong."""
        return x - x.mean(axis=0) if self.anchors is None else self.anchors.settle(x)

    def evaluate(self, x: FloatArray) -> Evaluation:
        """The energy and half its gradient, which is zero at hard anchors."""
        here = self.energy.evaluate(x)
        if self.anchors is not None:
            here.half_gradient[self.anchors.held] = 0.0
        return here

    def solve(self, rhs: FloatArray, tol: float | None = None) -> FloatArray:
        """The inverse of the metric applied to ``rhs``."""
        return self.metric.solve(rhs, tol=tol).value

    def dot(self, a: FloatArray, b: FloatArray) -> float:
        return self.frames.team.dot(a, b)

    def plus(self, a: FloatArray, factor: float, b: FloatArray, out: FloatArray | None = None) -> FloatArray:
        """``a + factor * b``."""
        return self.frames.team.plus(a, factor, b, out)

    def remembered(self, array: FloatArray) -> FloatArray:
        """What L-BFGS keeps of a step, which only shapes the next: where that is much, half of its digits."""
        if array.size <= MANY_NUMBERS:
            return array
        with np.errstate(over="ignore"):
            half: AnyArray = array.astype(np.float32)
        return half if self.is_finite(half) else array

    def is_finite(self, array: FloatArray) -> bool:
        return self.frames.team.all_finite(array)

    @staticmethod
    def on_host(x: FloatArray) -> FloatArray:
        """A view for callbacks; of arrays on a device it would be a copy."""
        return x.view()

    def integrate(self, alignments: FloatArray) -> FloatArray:
        """Embedding that fits given alignments best: the Poisson problem ``L x = div(W E Q)`` (eq. 11).

        With anchors, under their constraints (eqs. 20, 21).
        """
        graph, team = self.graph, self.frames.team
        rotated = np.einsum("er,erc->ec", self.frames.frames.rows, alignments[graph.sources])
        rhs = divergence(graph, self.frames.flux(rotated), team)
        if self.anchors is None:
            return self.solve(rhs)
        # From an embedding with every anchor in its position, soft ones too: their pull is zero there.
        placed = np.zeros_like(rhs)
        placed[self.anchors.vertices] = self.anchors.positions
        rhs -= divergence(graph, self.frames.flux(differences(graph, placed)), team)
        return placed + self.solve(rhs)

    def of_distances(self, graph: NeighborGraph | None = None, part: float = 1.0) -> Problem:
        """The same weights, anchors and metric with the energy of the distances (eq. 22).

        ``graph`` has the measured lengths, if others; with a ``part`` below 1 the frames keep the rest.
        """
        if not isinstance(self.frames, EdgeEnergy):
            raise ValueError("The energy of the distances needs the edge inner product, one weight per edge.")
        weights, team = self.frames.weights, self.frames.team
        share = weights if part == 1.0 else part * weights
        measured: Energy = DistanceEnergy(graph or self.graph, self.shape[1], share, team)
        if part < 1.0:
            measured = Sum((measured, replace(self.frames, weights=(1.0 - part) * weights)))
        return replace(self, measured=measured)


def build_problem(
    frames: FrameEnergy,
    *,
    solver: str = "auto",
    anchors: AnchorEnergy | None = None,
    far: GlobalEnergy | None = None,
    near: FloatArray | None = None,
) -> Problem:
    """Assemble and factor the Laplacian, once for all steps; ``far`` enters with its springs at ``near``."""
    options: Any = {"solver": solver, "team": frames.team}
    held, pulls = np.empty(0, dtype=np.int32), np.zeros(frames.graph.n_vertices)
    if far is not None:
        assert near is not None
        pulls += far.springs(near)
    if anchors is not None:
        held = anchors.held
        pulls[anchors.pulled] += anchors.pull
        pulls[held] = 0.0
    pulled = np.flatnonzero(pulls)
    try:
        if anchors is None and far is None:
            return Problem(frames, factor(frames.laplacian(), **options))
        metric = factor_anchored(frames.laplacian(), held, pulled, pulls[pulled], **options)
    except RuntimeError as error:
        raise _unsolved("operators", "no factor", (), frames, str(error).rstrip(".")) from error
    return Problem(frames, metric, anchors, far=far)


class NumericalError(ArithmeticError):
    """A stage produced a number that is not finite, although its input was checked.

    Not a fault of the input, which raises ValueError, except as :class:`UnsolvedError`. ``stage`` is where it
    was met, ``index`` that of the first such entry, in the numbering of the stage (vertices of one component,
    duplicates merged); empty for a number.
    """

    def __init__(self, message: str, stage: str = "", index: tuple[int, ...] = ()) -> None:
        super().__init__(message)
        self.stage, self.index = stage, index

    def __reduce__(self) -> tuple[Any, ...]:
        # Errors travel between processes by pickle.
        return type(self), (str(self), self.stage, self.index)


class UnsolvedError(NumericalError, ValueError):
    """A Poisson problem has no usable solution: its distances are too many orders of magnitude apart.

    The paper's weights are inverse squares of the lengths: eight orders of magnitude exhaust all digits.
    """


def _unsolved(stage: str, what: str, index: tuple[int, ...], frames: FrameEnergy, why: str) -> UnsolvedError:
    """The error for a Poisson problem that has no solution because of ``why``."""
    ratio = frames.graph.lengths.max() / frames.graph.lengths.min()
    text = (
        f"{stage}: {what}. The Poisson problems of this graph could not be solved ({why}): its distances "
        f"differ by factors up to {ratio:.1e}; {frames.remedy}remove the extreme ones."
    )
    return UnsolvedError(text, stage, index)


def badly_solved(problem: Problem, stage: str, what: str, index: tuple[int, ...] = ()) -> UnsolvedError:
    """The error for a Poisson problem whose solution turned out to be wrong."""
    why = "; ".join(problem.metric.notes[-2:]) or f"by {problem.metric.solver}"
    return _unsolved(stage, what, index, problem.frames, why)


def _numerical_error(stage: str, what: str, index: tuple[int, ...] = ()) -> NumericalError:
    advice = "run again, and report it with the graph if it comes back."
    text = f"{stage}: {what}. The input had been checked, so this is no fault of the data; {advice}"
    return NumericalError(text, stage, index)


def _first_not_finite(values: AnyArray | float) -> tuple[tuple[int, ...], str] | None:
    """Index of the first entry that is not finite, and a text that names it; None if there is none."""
    if np.isfinite(values).all():
        return None
    array = np.asarray(values)
    index = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
    at = f" at {index[0] if len(index) == 1 else index}" if index else ""
    return index, f"{at} is {array[index]}"


def check_finite(stage: str, name: str, values: AnyArray | float) -> None:
    """Raise :class:`NumericalError` unless all values are finite; the first that is not is named."""
    found = _first_not_finite(values)
    if found is not None:
        raise _numerical_error(stage, name + found[1], found[0])


@contextmanager
def numerical_stage(stage: str) -> Iterator[None]:
    """Decompositions that fail inside carry the stage's name."""
    try:
        yield
    except (np.linalg.LinAlgError, RuntimeError) as error:
        # SuperLU has a RuntimeError for what it cannot factor.
        if isinstance(error, RuntimeError) and "singular" not in str(error):
            raise
        raise _numerical_error(stage, f"a decomposition failed ({str(error).rstrip('.')})") from error


def checked_evaluation(problem: Problem, x: FloatArray, stage: str) -> Evaluation:
    """The energy at ``x``; an error names the first array that is not finite."""
    here = problem.evaluate(x)
    if isfinite(here.energy) and all(map(problem.is_finite, (here.half_gradient, here.alignments))):
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
    return here


def checked_solve(problem: Problem, rhs: FloatArray, stage: str, tol: float | None = None) -> FloatArray:
    """Solution of a Poisson problem, finite."""
    value = problem.solve(rhs, tol)
    found = None if problem.is_finite(value) else _first_not_finite(value)
    if found is not None:
        raise badly_solved(problem, stage, f"the solution of the Poisson problem{found[1]}", found[0])
    return value
