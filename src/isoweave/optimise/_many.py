"""Many small components at once: the calls that one costs are made for all of them together.

Every component gets the bits that it would get alone, from :func:`minimise_from` with L-BFGS and the start
"auto". Only the ordinary course is taken here. A component that leaves it (a direction of ascent, no gain,
too many steps) is given back, to be embedded alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from isoweave._lazy import computed_once
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
from isoweave.optimise._rotations import rotations_agree
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
_RULES = (_GOOD_FIT, _SUFFICIENT_DECREASE, _NO_GAIN, _SOLVE_TOL)


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
    ended = [interrupt.ending if one else "converged" for one in best.has_ended]
    results: list[IterationResult | None] = [
        None if is_odd else best.result(blocks, c, ended[c]) for c, is_odd in enumerate(best.is_odd)
    ]
    names = ["landmark"] * len(results)
    unsettled = ~((best.energy <= 1e-12 * best.mass) | best.has_ended | best.is_odd)
    if n_components <= LOW_DIMENSION and unsettled.any():
        unsettled &= ~rotations_agree(problem.frames, best.alignments, blocks.starts)
    if n_components > LOW_DIMENSION or not unsettled.any():
        return best.mass, names, results
    problem, blocks = _restricted(problem, blocks, unsettled)
    width, _ = companion_width(problem.graph.degrees[: blocks.sizes[0]], n_components)
    companion = join_along(problem.graph, width, team=frames.team)
    energy = sample_energy(companion, n_components, team=frames.team, starts=blocks.starts)
    dense = build_problem(energy, solver="direct")
    x = dense.integrate(synchronized_alignments(companion, energy.frames, frames.team, blocks))
    start = _descend(dense, blocks, x, LBFGS(tol, _AUXILIARY_STEPS), interrupt)
    other = _descend(problem, blocks, start.x, optimiser, interrupt)
    for at, c in enumerate(np.flatnonzero(unsettled).tolist()):
        led, status = results[c], interrupt.ending if other.has_ended[at] else "converged"
        if led is None or start.is_odd[at] or other.is_odd[at]:
            results[c] = None
        elif other.energy[at] < CLEARLY_LESS * led.energy:
            names[c], results[c] = "synchronized", other.result(blocks, at, status)
        else:
            results[c] = replace(led, status=status)
    return best.mass, names, results


def _restricted(problem: Problem, blocks: Blocks, chosen: BoolArray) -> tuple[Problem, Blocks]:
    """The same for some components."""
    graph, energy, inside = problem.graph, problem.frames, np.repeat(chosen, blocks.sizes)
    assert isinstance(energy, EdgeEnergy)
    frames, edges = energy.frames, inside[graph.sources]
    spectra = (frames.spectrum[inside], frames.fidelity[inside])
    local = LocalFrames(frames.rows[edges], frames.included[edges], *spectra)
    part = EdgeEnergy(subgraph(graph, np.flatnonzero(inside)), local, energy.weights[edges], energy.team)
    few = Blocks(np.concatenate([[0], np.cumsum(blocks.sizes[chosen])]))
    return build_problem(part, solver="direct"), few


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
    mixed = replace(problem, measured=Sum((measured, rest)))
    return _descend(mixed, blocks, x, optimiser, interrupt, parts > 0.0)


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

    @computed_once
    def energy(self) -> FloatArray:
        return self.steps[self.n_steps, 0, np.arange(len(self.n_steps))]

    def result(self, blocks: Blocks, c: int, status: str) -> IterationResult:
        rows = slice(blocks.starts[c], blocks.starts[c + 1])
        steps = self.steps[: self.n_steps[c] + 1, :, c].tolist()
        history = tuple(StepRecord(k, *step) for k, step in enumerate(steps))
        return IterationResult(self.x[rows], self.alignments[rows], steps[-1][0], history, status)


def _descend(
    problem: Problem,
    blocks: Blocks,
    start: FloatArray,
    optimiser: LBFGS,
    interrupt: Interrupt,
    wanted: BoolArray | None = None,
) -> Descent:
    """:func:`isoweave.optimise.minimise` with L-BFGS, step by step for all components, or those wanted."""
    from isoweave.engines import together as kernels

    x, n_parts, graph = _settled(blocks, start), len(blocks.sizes), problem.graph
    mass = _evaluated(problem, blocks, np.zeros_like(x))[0]
    energy, gradient, alignments = _evaluated(problem, blocks, x)
    image, rotations = problem.solve(gradient, _SOLVE_TOL), alignments
    if not len(rotations):
        rotations = np.empty((len(x), x.shape[1], x.shape[1]))
    terms: Any = problem.energy.terms if isinstance(problem.energy, Sum) else [problem.energy]
    *measured, frames = terms
    assert isinstance(frames, EdgeEnergy)
    lengths = [array for term in measured for array in (term.weights, term.both)] or [np.empty(0)] * 2
    most, most_pairs = min(optimiser.max_iter, _MOST_STEPS), _MEMORY + 1
    table, n_steps = np.zeros((most + 1, 3, n_parts)), np.zeros(n_parts, dtype=np.int64)
    factor = problem.metric.factor_of(blocks.starts)
    is_odd, has_ended = ~factor.is_connected, np.zeros(n_parts, dtype=np.bool_)
    running, block = ~is_odd if wanted is None else wanted & ~is_odd, factor.empty_block(x.shape[1])
    arguments = (
        (most, _MAX_HALVINGS),
        (optimiser.tol, max(optimiser.enough, _ROUNDING), *_RULES),
        blocks.starts,
        np.searchsorted(frames.free, graph.indptr[blocks.starts]),
        (graph.indptr, graph.indices, graph.reverse, graph.lengths, graph.sources),
        (frames.seen, frames.frames.rows, frames.free, frames.weights, *lengths),
        factor.metric,
        block,
        (x, gradient, image),
        *np.empty((2, *x.shape)),
        rotations,
        (energy, *np.zeros((3, n_parts)), mass),
        (running, is_odd, n_steps),
        (*np.empty((3, most_pairs, *x.shape)), np.empty((most_pairs, n_parts))),
        table,
        (np.empty(len(x)), np.empty((len(graph.indices), x.shape[1])), np.empty_like(x), np.empty(len(x))),
    )
    for k in range(most + 1):
        kernels.advance(0, n_parts, k, *arguments)
        if not running.any():
            break
        if interrupt.ending:
            has_ended, rotations = running, _evaluated(problem, blocks, x)[2]
            break
        factor.substitute(block)
    alignments = rotations if len(alignments) else alignments
    return Descent(_settled(blocks, x), alignments, mass, n_steps, table, is_odd, has_ended)


def _evaluated(problem: Problem, blocks: Blocks, x: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Energies of the components, half gradients and rotations."""
    energy = problem.energy
    first, *others = [term.evaluate(x) for term in (energy.terms if isinstance(energy, Sum) else [energy])]
    energies, gradient = _sums(blocks, first.energies), first.half_gradient
    for other in others:
        energies, gradient = energies + _sums(blocks, other.energies), gradient + other.half_gradient
    return energies, gradient, first.alignments


def _sums(blocks: Blocks, values: FloatArray) -> FloatArray:
    """Sums of the values at the vertices of every component, in the order of np.sum of each."""
    sums = np.empty(len(blocks.sizes))
    for which, lo, hi, n in blocks.runs:
        sums[which] = values[lo:hi].reshape((hi - lo) // n, -1).sum(axis=1)
    return sums


def _settled(blocks: Blocks, x: FloatArray) -> FloatArray:
    """Copy with every component around the origin."""
    settled = np.empty_like(x)
    for _, lo, hi, n in blocks.runs:
        stack = x[lo:hi].reshape(-1, n, x.shape[1])
        settled[lo:hi] = (stack - stack.mean(axis=1, keepdims=True)).reshape(hi - lo, -1)
    return settled
