"""Many small components at once: the calls that one costs are made for all of them together.

Every component gets the bits that it would get alone, from :func:`minimise_from` with L-BFGS and the start
"auto". Only the ordinary course is taken here. A component that leaves it (a direction of ascent, no gain,
too many steps) is given back, to be embedded alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from isoweave._typing import AnyArray, BoolArray, FloatArray
from isoweave.energy import EdgeEnergy
from isoweave.graph import geodesic_neighbors
from isoweave.linalg import factor
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
from isoweave.optimise._problem import Problem
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
_MOST_STEPS = 30


def minimise_many(
    frames: EdgeEnergy, blocks: Blocks, optimiser: LBFGS, tol: float, interrupt: Interrupt
) -> tuple[FloatArray, list[str], list[IterationResult | None]]:
    """Energies of the collapsed components, the start of each, and where it led, None if that is odd.

    All have the same :func:`companion_width`.
    """
    problem = _factored(frames)
    (n, n_components), graph = problem.shape, frames.graph
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
        companion = geodesic_neighbors(graph, width, team=frames.team)
        dense = _factored(sample_energy(companion, n_components, team=frames.team, starts=blocks.starts))
        x = dense.integrate(synchronized_alignments(companion, dense.frames.frames, frames.team, blocks))
        start = _descend(dense, blocks, x, LBFGS(tol, _AUXILIARY_STEPS), interrupt)
        other = _descend(problem, blocks, start.x, optimiser, interrupt)
        wins = unsettled & (other.energy < CLEARLY_LESS * best.energy)
        is_odd = is_odd | (unsettled & (start.is_odd | other.is_odd))
        has_ended = has_ended | (unsettled & other.has_ended)
    names = ["synchronized" if won else "landmark" for won in wins]
    taken = [other if won else best for won in wins]
    status = ["converged" if not ended else interrupt.status for ended in has_ended]
    results = [None if is_odd[c] else taken[c].result(blocks, c, status[c]) for c in range(len(taken))]
    return best.mass, names, results


def _factored(frames: EdgeEnergy) -> Problem:
    factored = factor(frames.laplacian(), solver="direct", n_components=frames.frames.n_components)
    return Problem(frames, factored)


@dataclass(frozen=True, eq=False)
class _Descent:
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
) -> _Descent:
    """:func:`isoweave.optimise.minimise` with L-BFGS, step by step for all components.

    One that has ended, or is odd, takes steps of length zero.
    """
    x, n_parts = _settled(blocks, start), len(blocks.sizes)
    here, mass = problem.evaluate(x), _sums(blocks, problem.evaluate(np.zeros_like(x)).energies)
    energy, gradient = _sums(blocks, here.energies), here.half_gradient
    image = problem.solve(gradient, _SOLVE_TOL)
    most, scale = min(optimiser.max_iter, _MOST_STEPS), np.where(mass > 0, mass, np.inf)
    step, n_steps = np.zeros(n_parts), np.zeros(n_parts, dtype=np.int64)
    is_odd, has_ended = np.zeros(n_parts, dtype=np.bool_), np.zeros(n_parts, dtype=np.bool_)
    running = ~is_odd
    steps: list[tuple[FloatArray, FloatArray, FloatArray]] = []
    pairs: list[tuple[FloatArray, ...]] = []
    while True:
        size = np.sqrt(np.abs(_dots(blocks, gradient, image)) / scale)
        steps.append((energy, size, step))
        misfit = np.sqrt(energy / scale)
        bound = np.maximum(optimiser.tol * misfit * np.minimum(1.0, misfit / _GOOD_FIT), _ROUNDING)
        running = running & ~(size <= bound)
        if len(steps) > most:
            is_odd |= running
            break
        if interrupt.status:
            has_ended = running
            break
        if not running.any():
            break
        direction = _direction(blocks, gradient, image, pairs)
        slope = 2.0 * _dots(blocks, gradient, direction)
        step = np.where(running & (slope < 0.0), 1.0, 0.0)
        for _ in range(_MAX_HALVINGS):
            move = _spread(blocks, step) * direction
            here = problem.evaluate(x + move)
            there = _sums(blocks, here.energies)
            refused = (step > 0.0) & ~(there <= energy + _SUFFICIENT_DECREASE * step * slope)
            if not refused.any():
                break
            step = np.where(refused, 0.5 * step, step)
        before, image = image, problem.solve(here.half_gradient, _SOLVE_TOL)
        change = here.half_gradient - gradient
        curvature = _dots(blocks, move, change)
        gained = (curvature > 1e-12 * np.abs(slope) * step) & (energy - there > _NO_GAIN * there)
        is_odd |= running & (refused | ~gained)
        running = running & ~is_odd
        pairs = [*pairs, (move, change, image - before, np.where(running, curvature, np.inf))][-_MEMORY:]
        n_steps += running
        x, energy, gradient = x + move, there, here.half_gradient
    x = _settled(blocks, x)
    return _Descent(x, here.alignments, mass, n_steps, np.array(steps), is_odd, has_ended)


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
