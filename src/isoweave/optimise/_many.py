"""Many small components at once: the calls that one costs are made for all of them together.

Every component gets the bits that it would get alone, from :func:`minimise_from` with L-BFGS and the start
"auto", and from what follows it. A component for which something fails (a solve, a number that is not finite)
is given back, to be embedded alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from isoweave._lazy import computed_once
from isoweave._parallel import ONE_THREAD
from isoweave._typing import AnyArray, BoolArray, FloatArray
from isoweave.energy import DistanceEnergy, EdgeEnergy, Sum
from isoweave.geometry import LocalFrames, typical_degree
from isoweave.graph import join_along, subgraph
from isoweave.linalg import FACTOR_TOL, AnchoredState, factor_grounded
from isoweave.optimise._blocks import Blocks, geodesic_tables, mean_degrees
from isoweave.optimise._global import (
    NO_WEIGHT,
    ONE_PLACE,
    balanced_weight,
    farthest_in_each,
    known_part,
    mixed_part,
    openness,
    unflat_share,
)
from isoweave.optimise._optimisers import (
    _GOOD_FIT,
    _MAX_HALVINGS,
    _MAX_IDLE,
    _MEMORY,
    _NO_GAIN,
    _ROUNDING,
    _SUFFICIENT_DECREASE,
    LBFGS,
)
from isoweave.optimise._problem import Problem, build_problem
from isoweave.optimise._rotations import rotations_agree
from isoweave.optimise._run import Interrupt, IterationResult, StepRecord, steps_of
from isoweave.optimise._starts import (
    _AUXILIARY_STEPS,
    CLEARLY_LESS,
    ENDED_EARLY,
    LOW_DIMENSION,
    all_landmarks,
    companion_width,
    landmark_start,
    sample_energy,
    synchronized_alignments,
)

# Components that a thread takes at once: more would leave its cache, fewer would pay for more calls.
AT_ONCE = 256
# Components, embedded one by one, from which on compiling their steps is worth it.
MANY = 16
# Vertices of a component up to which compiled steps are worth it; longer sums have another order.
_SMALL = 512
# Steps beyond this are taken alone: everybody waits for the few that need more.
_MOST_STEPS = 1000
# In the order of :mod:`isoweave.engines.together`.
_STATUSES = ("running", "converged", "stalled", "max_iter", "odd")
_RULES = (_GOOD_FIT, _SUFFICIENT_DECREASE, _NO_GAIN, FACTOR_TOL)


@dataclass(frozen=True, eq=False)
class Fits:
    """Where components stand: the fields of :class:`IterationResult` for all of them.

    ``mass`` are the energies where all points coincide; ``is_odd`` tells what has to be embedded alone.
    """

    x: FloatArray
    alignments: FloatArray
    energy: FloatArray
    mass: FloatArray
    statuses: list[str]
    starts: list[str]
    histories: list[tuple[StepRecord, ...]]
    is_odd: BoolArray

    @property
    def share(self) -> FloatArray:
        """Relative energies."""
        return np.divide(self.energy, self.mass, out=np.zeros_like(self.mass), where=self.mass > 0)


def minimise_many(
    problem: Problem, blocks: Blocks, optimiser: LBFGS, tol: float, interrupt: Interrupt
) -> Fits:
    """Minimise from the starts of "auto". All components have the same :func:`companion_width`."""
    (n, n_components), graph, frames = problem.shape, problem.graph, problem.frames
    x = np.empty((n, n_components))
    for which, landmarks, distances in all_landmarks(graph, blocks, frames.team):
        rows = slice(blocks.starts[which.start], blocks.starts[which.stop])
        x[rows] = landmark_start(landmarks, distances, n_components).reshape(-1, n_components)
    best = _descend(problem, blocks, x, optimiser, interrupt)
    parts = range(len(blocks.sizes))
    histories, names = [best.history(c) for c in parts], ["landmark" for _ in parts]
    found = Fits(
        best.x, best.alignments, best.energy, best.mass, best.statuses, names, histories, best.is_odd
    )
    unsettled = ~((best.energy <= 1e-12 * best.mass) | best.has_ended | best.is_odd)
    if n_components <= LOW_DIMENSION and unsettled.any():
        unsettled &= ~rotations_agree(problem.frames, best.alignments, blocks.starts)
    if n_components > LOW_DIMENSION or not unsettled.any():
        return found
    assert isinstance(frames, EdgeEnergy)
    few, within = _restricted(frames, blocks, unsettled)
    problem = build_problem(few, solver="direct")
    width, _ = companion_width(typical_degree(few.graph.degrees[: within.sizes[0]]), n_components)
    companion = join_along(problem.graph, width, team=frames.team)
    energy = sample_energy(companion, n_components, team=frames.team, starts=within.starts)
    dense = build_problem(energy, solver="direct")
    x = dense.integrate(synchronized_alignments(companion, energy.frames, frames.team, within))
    start = _descend(dense, within, x, LBFGS(tol, _AUXILIARY_STEPS), interrupt)
    other = _descend(problem, within, start.x, optimiser, interrupt)
    found.is_odd[unsettled] = start.is_odd | other.is_odd
    won = other.energy < CLEARLY_LESS * found.energy[unsettled]
    for at, c in enumerate(np.flatnonzero(unsettled).tolist()):
        if won[at]:
            names[c], histories[c], found.statuses[c] = "synchronized", other.history(at), other.statuses[at]
        elif other.has_ended[at]:
            found.statuses[c] = other.statuses[at]
    winners = unsettled.copy()
    winners[unsettled] = won
    here, there = np.repeat(winners, blocks.sizes), np.repeat(won, within.sizes)
    found.x[here], found.alignments[here] = other.x[there], other.alignments[there]
    found.energy[winners] = other.energy[won]
    return found


def _restricted(energy: EdgeEnergy, blocks: Blocks, chosen: BoolArray) -> tuple[EdgeEnergy, Blocks]:
    """The same for some components."""
    graph, frames, inside = energy.graph, energy.frames, np.repeat(chosen, blocks.sizes)
    edges = inside[graph.sources]
    spectra = (frames.spectrum[inside], frames.fidelity[inside])
    local = LocalFrames(frames.rows[edges], frames.included[edges], *spectra)
    few = Blocks(np.concatenate([[0], np.cumsum(blocks.sizes[chosen])]))
    return EdgeEnergy(subgraph(graph, np.flatnonzero(inside)), local, energy.weights[edges], energy.team), few


def refine_many(
    problem: Problem,
    blocks: Blocks,
    parts: FloatArray,
    x: FloatArray,
    optimiser: LBFGS,
    interrupt: Interrupt,
) -> Descent:
    """Continue with the distances, which count as far as ``parts`` say (:meth:`Problem.of_distances`)."""
    return _descend(_mixed(problem, blocks, parts), blocks, x, optimiser, interrupt, parts > 0.0)


def _mixed(problem: Problem, blocks: Blocks, parts: FloatArray) -> Problem:
    frames, graph = problem.frames, problem.graph
    assert isinstance(frames, EdgeEnergy)
    share = np.repeat(parts, np.diff(graph.indptr[blocks.starts]))
    measured = DistanceEnergy(graph, problem.shape[1], share * frames.weights, frames.team)
    rest = replace(frames, weights=(1.0 - share) * frames.weights)
    return replace(problem, measured=Sum((measured, rest)))


@dataclass(frozen=True, eq=False)
class LongDistances:
    """:class:`isoweave.energy.GlobalEnergy` of many components.

    ``geodesics`` are (n, l) tables one after the other, ``squares`` their sums of squares; ``offsets`` and
    ``marks`` tell where the table and the landmarks of each begin.
    """

    weights: FloatArray
    squares: FloatArray
    offsets: AnyArray
    marks: AnyArray
    landmarks: AnyArray
    geodesics: FloatArray

    def arguments(self, shape: tuple[int, ...]) -> tuple[Any, Any]:
        """What kernels take, and their scratch."""
        vectors = (*np.empty((2, shape[0])), np.empty(shape), np.empty(shape[0]))
        vectors += (*np.empty((2, shape[1])),)
        terms = (self.weights, self.squares, self.offsets, self.marks, self.landmarks, self.geodesics)
        return (2.0, *terms), (*vectors, np.empty(shape[0]))

    def sums(self, blocks: Blocks, x: FloatArray) -> FloatArray:
        """Of every component the energy, the sum of ``d g`` and that of ``d^2``, shape (k, 3)."""
        from isoweave.engines import together as kernels

        found, (terms, scratch) = np.empty((len(blocks.sizes), 3)), self.arguments(x.shape)
        kernels.stresses(0, len(found), blocks.starts, terms, x, np.zeros_like(x), scratch, found)
        return found


_NONE: Any = (np.empty(0), np.empty(0, dtype=np.int64))
_NEAR_ONLY = LongDistances(_NONE[0], _NONE[0], _NONE[1], _NONE[1], _NONE[1], _NONE[0])


def _measured_from(
    energy: EdgeEnergy, blocks: Blocks, x: FloatArray, mass: FloatArray
) -> tuple[LongDistances, FloatArray, BoolArray]:
    """As :func:`global_energy`, with the stress that classical scaling leaves, and where points coincide."""
    n_components, n_parts = x.shape[1], len(blocks.sizes)
    landmarks, scaled = np.empty(len(x), dtype=np.int64), np.empty(x.shape)
    squares, coincide = np.empty(n_parts), np.zeros(n_parts, dtype=np.bool_)
    geodesics = np.empty(blocks.offsets[-1])
    for (which, lo, hi, n), table in zip(blocks.runs, geodesic_tables(energy.graph, blocks), strict=True):
        order = farthest_in_each(x[lo:hi].reshape(-1, n, n_components), n)
        coincide[which] = (np.sort(order, axis=1) != np.arange(n)).any(axis=1)
        distances = np.take_along_axis(table, order[:, :, None], axis=1)
        mirrored = np.ascontiguousarray(distances.swapaxes(1, 2)).reshape(len(order), -1)
        geodesics[blocks.offsets[which.start] : blocks.offsets[which.stop]] = mirrored.ravel()
        squares[which] = (mirrored * mirrored).sum(axis=1)
        landmarks[lo:hi] = (order + np.arange(lo, hi, n)[:, None]).ravel()
        scaled[lo:hi] = landmark_start(order, distances, n_components).reshape(-1, n_components)
    far = LongDistances(mass, squares, blocks.offsets, blocks.starts, landmarks, geodesics)
    return far, far.sums(blocks, scaled)[:, 0] / mass, coincide


def globalise_many(
    problem: Problem,
    blocks: Blocks,
    found: Fits,
    weight: float | str,
    mixes: bool,
    most: float,
    optimiser: LBFGS,
    interrupt: Interrupt,
) -> tuple[FloatArray, FloatArray]:
    """Continue with the long distances where they count (:func:`long_distances`), with edges if it mixes.

    Returns the weights that were tried and those that were kept, because no relative energy is over ``most``.
    """
    whole, (_, n_components), n_parts = problem.frames, problem.shape, len(blocks.sizes)
    assert isinstance(whole, EdgeEnergy)
    tried, kept = np.zeros((2, n_parts))
    firsts, degrees = blocks.starts[:-1], mean_degrees(problem.graph, blocks)
    extent = (np.maximum.reduceat(found.x, firsts) - np.minimum.reduceat(found.x, firsts)).max(axis=1)
    wanted, shares, openings = np.zeros(n_parts, dtype=np.bool_), found.share.tolist(), [0.0] * n_parts
    for c, is_apart in enumerate((~found.is_odd & (extent > ONE_PLACE)).tolist()):
        if is_apart and found.statuses[c] not in ENDED_EARLY and weight != 0.0:
            shares[c] = unflat_share(degrees[c], n_components, shares[c])
            openings[c] = openness(degrees[c], n_components, shares[c])
            wanted[c] = weight != "auto" or openings[c] > 0.0
    if not wanted.any():
        return tried, kept
    energy, few = _restricted(whole, blocks, wanted)
    inside, mass, at = np.repeat(wanted, blocks.sizes), found.mass[wanted], np.flatnonzero(wanted)
    start = found.x[inside]
    far, stress, coincide = _measured_from(energy, few, start, mass)
    chosen, parts = np.zeros((2, len(at)))
    for k, (c, left) in enumerate(zip(at.tolist(), stress.tolist(), strict=True)):
        ratio = shares[c] / left if openings[c] > 0.0 and left > 0.0 else 0.0
        chosen[k] = openings[c] * balanced_weight(ratio) if weight == "auto" else float(weight)
        parts[k] = openings[c] * mixed_part(ratio, known_part(degrees[c], n_components))
    chosen[coincide | (chosen < NO_WEIGHT)] = 0.0
    far = replace(far, weights=chosen * mass)
    _, cross, squares = far.sums(few, start).T.tolist()
    # As Python has powers, whose last bit is not always that of a product.
    sums = zip(far.weights.tolist(), cross, squares, far.squares.tolist(), strict=True)
    springs = np.array([w * (d / square) ** 2 / total for w, d, square, total in sums])
    pulls = np.repeat(springs * few.sizes + springs * few.sizes, few.sizes)
    options: Any = {"solver": "direct", "team": energy.team}
    moving = Problem(energy, factor_grounded(energy.laplacian(), few.starts, pulls, **options))
    moving = _mixed(moving, few, parts) if mixes and parts.any() else moving
    descent = _descend(moving, few, start, optimiser, interrupt, chosen > 0.0, far)
    here = energy.evaluate(descent.x)
    energies = _sums(few, here.energies)
    good = (chosen > 0.0) & ((weight != "auto") | (energies <= most * mass))
    tried[at], kept[at] = chosen, np.where(good, chosen, 0.0)
    found.is_odd[at] |= coincide | (descent.is_odd & (chosen > 0.0))
    moved, rows = np.repeat(kept > 0.0, blocks.sizes), np.repeat(good, few.sizes)
    found.x[moved], found.alignments[moved] = descent.x[rows], here.alignments[rows]
    found.energy[at[good]] = energies[good]
    for k in np.flatnonzero(good).tolist():
        found.statuses[at[k]] = descent.statuses[k]
    return tried, kept


@dataclass(frozen=True, eq=False)
class Descent:
    """Where all components have ended; ``steps`` are numbers, energies, stopping quantities and lengths."""

    x: FloatArray
    alignments: FloatArray
    mass: FloatArray
    n_steps: AnyArray
    steps: FloatArray
    statuses: list[str]
    has_ended: BoolArray

    @computed_once
    def is_odd(self) -> BoolArray:
        return np.array([status == "odd" for status in self.statuses])

    @computed_once
    def energy(self) -> FloatArray:
        return self.steps[self.n_steps, 1, np.arange(len(self.n_steps))]

    def history(self, c: int) -> tuple[StepRecord, ...]:
        return steps_of(self.steps[: self.n_steps[c] + 1, :, c])


def _descend(
    problem: Problem,
    blocks: Blocks,
    start: FloatArray,
    optimiser: LBFGS,
    interrupt: Interrupt,
    wanted: BoolArray | None = None,
    far: LongDistances = _NEAR_ONLY,
) -> Descent:
    """:func:`isoweave.optimise.minimise` with L-BFGS, step by step for all components, or those wanted."""
    from isoweave.engines import together as kernels

    x, n_parts, graph = _settled(blocks, start), len(blocks.sizes), problem.graph
    *measured, frames = _terms(problem)
    mass, has_alignments = _masses(problem, blocks, x), not measured
    # Frames may go by other lengths of the same edges.
    lengths = [a for term in measured for a in (term.weights, term.graph.lengths)]
    most, most_pairs = min(optimiser.max_iter, _MOST_STEPS), _MEMORY + 1
    has_ground = len(far.weights) > 0 or isinstance(problem.metric, AnchoredState)
    rows = blocks.starts + np.arange(n_parts + 1) if has_ground else blocks.starts
    metric, table = problem.metric.factor_of(rows), np.zeros((most + 1, 4, n_parts))
    counts = np.zeros((6, n_parts), dtype=np.int64)
    status, n_steps = counts[:2]
    status[~metric.is_connected] = kernels.ODD
    if wanted is not None:
        status[~wanted] = kernels.CONVERGED
    block, rhs = metric.factor.empty_block(x.shape[1]), np.zeros((rows[-1], x.shape[1]))
    trial, following, gradient, image = np.empty((4, *x.shape))
    rotations, (stress, scratch) = np.empty((len(x), x.shape[1], x.shape[1])), far.arguments(x.shape)
    arguments = (
        (most, optimiser.max_iter, _MAX_HALVINGS, _MAX_IDLE, has_ground),
        (optimiser.tol, max(optimiser.enough, _ROUNDING), *_RULES),
        blocks.starts,
        np.searchsorted(frames.free, graph.indptr[blocks.starts]),
        (graph.indptr, graph.indices, graph.reverse, graph.lengths, graph.sources),
        (frames.seen, frames.frames.rows, frames.free, frames.weights, *(lengths or [np.empty(0)] * 2)),
        stress,
        metric.arrays,
        block,
        (x, trial, following),
        tuple(array.reshape(-1) for array in (x, trial, gradient, image, following)),
        rhs,
        rotations,
        (*np.zeros((4, n_parts)), mass),
        tuple(counts),
        (*np.empty((3, most_pairs, x.size)), np.empty((most_pairs, n_parts))),
        table,
        (
            np.empty(len(x)),
            np.empty((len(graph.indices), x.shape[1])),
            np.empty_like(x),
            np.empty(len(x)),
            scratch,
        ),
    )
    has_ended = np.zeros(n_parts, dtype=np.bool_)
    for k in range(-1, most + 1):
        kernels.advance(0, n_parts, k, *arguments)
        running = status == kernels.RUNNING
        if not running.any():
            break
        if k >= 0 and interrupt.ending:
            has_ended, rotations = running, frames.evaluate(x).alignments
            break
        metric.factor.solve_block(block, ONE_THREAD)
    statuses = [
        interrupt.ending if ended else _STATUSES[s] for ended, s in zip(has_ended, status, strict=True)
    ]
    alignments = rotations if has_alignments else rotations[:0]
    return Descent(_settled(blocks, x), alignments, mass, n_steps, table, statuses, has_ended)


def _terms(problem: Problem) -> list[Any]:
    """Energies of what is minimised beside long distances; frames, perhaps without weight, come last."""
    main: Any = problem.frames if problem.measured is None else problem.measured
    terms = list(main.terms) if isinstance(main, Sum) else [main]
    if not isinstance(terms[-1], EdgeEnergy):
        frames: Any = problem.frames
        terms.append(replace(frames, weights=0.0 * frames.weights))
    return terms


def _masses(problem: Problem, blocks: Blocks, x: FloatArray) -> FloatArray:
    """Energies of the components where all points coincide."""
    first, *others = [term.evaluate(np.zeros_like(x)) for term in _terms(problem)]
    energies = _sums(blocks, first.energies)
    for other in others:
        energies = energies + _sums(blocks, other.energies)
    return energies


def minimise_small(
    optimiser: LBFGS, problem: Any, start: FloatArray, interrupt: Interrupt
) -> IterationResult | None:
    """:func:`isoweave.optimise.minimise` by the kernel, with the same bits; None where it cannot."""
    if not isinstance(problem, Problem) or not isinstance(problem.frames, EdgeEnergy):
        return None
    n, far = problem.shape[0], problem.far
    if n > _SMALL or problem.anchors is not None or problem.metric.solver != "direct":
        return None
    blocks, distances = Blocks(np.array([0, n])), _NEAR_ONLY
    if far is not None:
        ends = np.array([0, far.geodesics.size]), np.array([0, len(far.landmarks)])
        marks, table = far.landmarks.astype(np.int64), far.geodesics.reshape(-1)
        distances = LongDistances(np.array([far.weight]), np.array([far.squares]), *ends, marks, table)
    try:
        found = _descend(problem, blocks, start, optimiser, interrupt, None, distances)
    except (ArithmeticError, ValueError, RuntimeError):
        return None
    if found.is_odd[0]:
        return None
    energy = float(found.energy[0])
    return IterationResult(found.x, found.alignments, energy, found.history(0), found.statuses[0])


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
