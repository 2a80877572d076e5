"""Many small components at once: the calls that one costs are made for all of them together.

Every component gets the bits that it would get alone, from :func:`minimise_from` with L-BFGS and the start
"auto". Only the ordinary course is taken here. A component that leaves it (a direction of ascent, no gain,
too many steps) is given back, to be embedded alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from isoweave._typing import AnyArray, BoolArray, FloatArray
from isoweave.energy import DistanceEnergy, EdgeEnergy, Sum
from isoweave.geometry import LocalFrames
from isoweave.graph import join_along, subgraph
from isoweave.optimise._optimisers import (
    _GOOD_FIT,
    _MAX_HALVINGS,
    _MEMORY,
    _NO_GAIN,
    _ROUNDING,
    _SOLVE_TOL,
    _SUFFICIENT_DECREASE,
    LBFGS,
)
from isoweave.optimise._problem import Problem, build_problem
from isoweave.optimise._run import Interrupt, IterationResult, StepRecord
from isoweave.optimise._starts import (
    _AUXILIARY_STEPS,
    CLEARLY_LESS,
    LOW_DIMENSION,
    Blocks,
    all_landmarks,
    companion_width,
    landmark_start,
    sample_energy,
    synchronized_alignments,
)

# Components that a thread takes at once: more would leave its cache, fewer would pay for more calls.
AT_ONCE = 256
# Steps beyond this are taken alone: everybody would wait for the few that need more.
_MOST_STEPS = 100


def minimise_many(
    problem: Problem, blocks: Blocks, optimiser: LBFGS, tol: float, interrupt: Interrupt
) -> tuple[FloatArray, list[str], list[IterationResult | None]]:
    """Energies of the collapsed components, the start of each, and where it led, None if that is odd.

    All have the same :func:`companion_width`.
    """
    (n, n_components), graph, frames = problem.shape, problem.graph, problem.frames
    x = np.empty((n, n_components))
    for which, landmarks, distances in all_landmarks(graph, blocks, frames.team):
        rows = slice(blocks.starts[which.start], blocks.starts[which.stop])
        x[rows] = landmark_start(landmarks, distances, n_components).reshape(-1, n_components)
    best = _descend(problem, blocks, x, optimiser, interrupt)
    is_odd, has_ended, wins = best.is_odd, best.has_ended, np.zeros(len(blocks.sizes), dtype=np.bool_)
    other = best
    unsettled = ~((best.energy <= 1e-12 * best.mass) | has_ended)
    if n_components <= LOW_DIMENSION and unsettled.any():
        width, _ = companion_width(graph.degrees[: blocks.sizes[0]], n_components)
        companion = join_along(graph, width, team=frames.team)
        energy = sample_energy(companion, n_components, team=frames.team, starts=blocks.starts)
        dense = build_problem(energy, solver="direct")
        x = dense.integrate(synchronized_alignments(companion, energy.frames, frames.team, blocks))
        start = _descend(dense, blocks, x, LBFGS(tol, _AUXILIARY_STEPS), interrupt)
        other = _descend(problem, blocks, start.x, optimiser, interrupt)
        wins = unsettled & (other.energy < CLEARLY_LESS * best.energy)
        is_odd = is_odd | (unsettled & (start.is_odd | other.is_odd))
        has_ended = has_ended | (unsettled & other.has_ended)
    names = ["synchronized" if won else "landmark" for won in wins]
    taken = [other if won else best for won in wins]
    status = ["converged" if not ended else interrupt.ending for ended in has_ended]
    results = [None if is_odd[c] else taken[c].result(blocks, c, status[c]) for c in range(len(taken))]
    return best.mass, names, results


def refine_many(
    problem: Problem,
    blocks: Blocks,
    parts: FloatArray,
    x: FloatArray,
    optimiser: LBFGS,
    interrupt: Interrupt,
) -> Descent:
    """Continue with the distances, which count as far as ``parts`` say (:meth:`Problem.of_distances`)."""
    frames, graph = problem.frames, problem.graph
    assert isinstance(frames, EdgeEnergy)
    share = np.repeat(parts, np.diff(graph.indptr[blocks.starts]))
    measured = DistanceEnergy(graph, problem.shape[1], share * frames.weights, frames.team)
    rest = replace(frames, weights=(1.0 - share) * frames.weights)
    return _descend(replace(problem, measured=Sum((measured, rest))), blocks, x, optimiser, interrupt)


@dataclass(frozen=True, eq=False)
class Descent:
    """Where all components have ended; ``steps`` are energies, stopping quantities and step lengths."""

    x: FloatArray
    alignments: FloatArray
    mass: FloatArray
    n_steps: AnyArray
    steps: FloatArray
    is_odd: BoolArray
    has_ended: BoolArray

    @property
    def energy(self) -> FloatArray:
        return self.steps[self.n_steps, 0, np.arange(len(self.n_steps))]

    def result(self, blocks: Blocks, c: int, status: str) -> IterationResult:
        rows = slice(blocks.starts[c], blocks.starts[c + 1])
        steps = self.steps[: self.n_steps[c] + 1, :, c].tolist()
        history = tuple(StepRecord(k, *step) for k, step in enumerate(steps))
        return IterationResult(self.x[rows], self.alignments[rows], steps[-1][0], history, status)


def _descend(
    problem: Problem, blocks: Blocks, start: FloatArray, optimiser: LBFGS, interrupt: Interrupt
) -> Descent:
    """:func:`isoweave.optimise.minimise` with L-BFGS, step by step for all components.

    One that has ended, or is odd, takes steps of length zero until half of them do; then the others go on.
    """
    x, n_parts = _settled(blocks, start), len(blocks.sizes)
    mass = _evaluated(problem, blocks, np.zeros_like(x))[0]
    energy, gradient, alignments = _evaluated(problem, blocks, x)
    image = problem.solve(gradient, _SOLVE_TOL)
    most, nobody = min(optimiser.max_iter, _MOST_STEPS), np.zeros(n_parts, dtype=np.bool_)
    table, n_steps = np.zeros((most + 1, 3, n_parts)), np.zeros(n_parts, dtype=np.int64)
    whole = Descent(x, alignments, mass, n_steps, table, nobody, nobody.copy())
    # The components and vertices at work, by their numbers among all.
    everything, at, rows = blocks, np.arange(n_parts), np.arange(len(x))
    step, running = np.zeros(n_parts), ~nobody
    pairs: list[tuple[FloatArray, ...]] = []
    for k in range(most + 1):
        scale = np.where(mass > 0, mass, np.inf)
        size = np.sqrt(np.abs(_dots(blocks, gradient, image)) / scale)
        table[k][:, at] = energy, size, step
        misfit = np.sqrt(energy / scale)
        bound = optimiser.tol * misfit * np.minimum(1.0, misfit / _GOOD_FIT)
        bound = np.maximum(bound, max(optimiser.enough, _ROUNDING))
        running = running & ~(size <= bound)
        if k == most:
            whole.is_odd[at[running]] = True
        elif interrupt.ending:
            whole.has_ended[at[running]] = True
        elif running.any():
            if 2 * np.count_nonzero(running) < len(running):
                whole.x[rows], whole.alignments[rows[: len(alignments)]] = x, alignments
                inside = np.repeat(running, blocks.sizes)
                problem = _restricted(problem, inside)
                blocks = Blocks(np.concatenate([[0], np.cumsum(blocks.sizes[running])]))
                pairs = [(*(values[inside] for values in pair), c[running]) for *pair, c in pairs]
                x, gradient, image, rows = x[inside], gradient[inside], image[inside], rows[inside]
                at, mass, energy, running = at[running], mass[running], energy[running], running[running]
            direction = _direction(blocks, gradient, image, pairs)
            slope = 2.0 * _dots(blocks, gradient, direction)
            step = np.where(running & (slope < 0.0), 1.0, 0.0)
            for _ in range(_MAX_HALVINGS):
                move = _spread(blocks, step) * direction
                there, following, alignments = _evaluated(problem, blocks, x + move)
                refused = (step > 0.0) & ~(there <= energy + _SUFFICIENT_DECREASE * step * slope)
                if not refused.any():
                    break
                step = np.where(refused, 0.5 * step, step)
            before, image = image, problem.solve(following, _SOLVE_TOL)
            change = following - gradient
            curvature = _dots(blocks, move, change)
            gained = (curvature > 1e-12 * np.abs(slope) * step) & (energy - there > _NO_GAIN * there)
            whole.is_odd[at[running & (refused | ~gained)]] = True
            running = running & ~whole.is_odd[at]
            pairs = [*pairs, (move, change, image - before, np.where(running, curvature, np.inf))][-_MEMORY:]
            n_steps[at[running]] += 1
            x, energy, gradient = x + move, there, following
            continue
        break
    whole.x[rows], whole.alignments[rows[: len(alignments)]] = x, alignments
    return replace(whole, x=_settled(everything, whole.x))


def _restricted(problem: Problem, inside: BoolArray) -> Problem:
    """The same on some components."""
    graph, frames = problem.graph, problem.frames.frames
    part, edges = subgraph(graph, np.flatnonzero(inside)), inside[graph.sources]
    spectra = (frames.spectrum[inside], frames.fidelity[inside])
    local = LocalFrames(frames.rows[edges], frames.included[edges], *spectra)

    def cut(term: Any) -> Any:
        weights = term.weights[edges]
        if isinstance(term, DistanceEnergy):
            return DistanceEnergy(part, problem.shape[1], weights, term.team)
        return EdgeEnergy(part, local, weights, term.team)

    small = build_problem(cut(problem.frames), solver="direct")
    if problem.measured is None:
        return small
    terms: Any = problem.measured
    return replace(small, measured=Sum([cut(term) for term in terms.terms]))


def _evaluated(problem: Problem, blocks: Blocks, x: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Energies of the components, half gradients and rotations."""
    energy = problem.energy
    first, *others = [term.evaluate(x) for term in (energy.terms if isinstance(energy, Sum) else [energy])]
    energies, gradient = _sums(blocks, first.energies), first.half_gradient
    for other in others:
        energies, gradient = energies + _sums(blocks, other.energies), gradient + other.half_gradient
    return energies, gradient, first.alignments


def _direction(
    blocks: Blocks, gradient: FloatArray, image: FloatArray, pairs: list[tuple[FloatArray, ...]]
) -> FloatArray:
    """The two loops of L-BFGS; a pair that a component has not taken has an infinite curvature there."""
    result, residual = image.copy(), gradient.copy()
    factors = []
    for move, change, changed, curvature in reversed(pairs):
        scale = 1.0 / curvature * _dots(blocks, move, residual)
        residual -= _spread(blocks, scale) * change
        result -= _spread(blocks, scale) * changed
        factors.append(scale)
    for (move, change, _, curvature), scale in zip(pairs, reversed(factors), strict=True):
        result += move * _spread(blocks, scale - 1.0 / curvature * _dots(blocks, change, result))
    return -result


def _sums(blocks: Blocks, values: FloatArray) -> FloatArray:
    """Sums of the values at the vertices of every component, in the order of np.sum of each."""
    sums = np.empty(len(blocks.sizes))
    for which, lo, hi, n in blocks.runs:
        sums[which] = values[lo:hi].reshape((hi - lo) // n, -1).sum(axis=1)
    return sums


def _dots(blocks: Blocks, a: FloatArray, b: FloatArray) -> FloatArray:
    return _sums(blocks, a * b)


def _spread(blocks: Blocks, values: FloatArray) -> FloatArray:
    """The value of its component at every vertex, shape (n, 1)."""
    return np.repeat(values, blocks.sizes)[:, None]


def _settled(blocks: Blocks, x: FloatArray) -> FloatArray:
    """Copy with every component around the origin."""
    settled = np.empty_like(x)
    for _, lo, hi, n in blocks.runs:
        stack = x[lo:hi].reshape(-1, n, x.shape[1])
        settled[lo:hi] = (stack - stack.mean(axis=1, keepdims=True)).reshape(hi - lo, -1)
    return settled
