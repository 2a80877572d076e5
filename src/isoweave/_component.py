"""Embedding of one connected component: frames, energy, starts, optimiser."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from isoweave._edges import NO_LENGTH, at_lost_edges, edge_factors, lengths_in
from isoweave._parallel import ThreadTeam
from isoweave._typing import AnyArray, BoolArray, FloatArray
from isoweave.energy import AnchorEnergy, FrameEnergy, edge_energy, paper_energy
from isoweave.geometry import calibrate_frames, local_frames, local_stretch, neighborhood_volumes
from isoweave.graph import NeighborGraph, bypass_doubtful, longer_than_detours
from isoweave.known import Known
from isoweave.optimise import (
    ALONE,
    AT_ONCE,
    ENDED_EARLY,
    LBFGS,
    LOW_DIMENSION,
    SYNCHRONIZED_LIMIT,
    Alternating,
    IterationResult,
    Problem,
    Run,
    agreement,
    badly_solved,
    build_problem,
    check_finite,
    find_landmarks,
    flatness,
    is_trusted,
    long_distances,
    mean_degree,
    mended,
    minimise,
    minimise_from,
    numerical_stage,
    opened,
)
from isoweave.options import EmbeddingOptions

# Coordinates to start from, in units of the median length: beyond, squares of squares overflow.
_LARGEST_START = 1e75
# Energy of an embedding over that of all points in one place. At most 1 but for rounding wherever the Poisson
# problems were solved.
MOST_ENERGY = 1.0 + 1e-6
# Long bends relax last, and the misfit that the tolerance is relative to is large where there are any.
GLOBAL_TOL = 1 / 3
# Larger weights of the long distances that small problems come down from, each to a minimum of its own.
_ABOVE = (100.0, 1000.0)
# Of a robust loss: rounds at most, weight of an edge that is surely wrong, change of weights that is none,
# and the relative error of an edge that any map has.
_ROUNDS = 8
_LEAST_TRUST = 1e-6
_SAME_TRUST = 0.05
_SMALL_ERROR = 0.02
# Part of their lengths by which edges still move when refine="auto" ends, for up to so many vertices; it
# grows with their number, because every step costs more, a hundred times at most.
ENOUGH, _MANY = 1e-5, 10_000
MOST_STEPS = 200


@dataclass(frozen=True, eq=False)
class ComponentResult:
    """Embedding of one component, in the units of its graph."""

    iteration: IterationResult
    stretch: FloatArray
    mass: float
    start: str
    solver: str
    global_weight: float = 0.0


def embed_component(
    graph: NeighborGraph,
    options: EmbeddingOptions,
    known: Known,
    *,
    team: ThreadTeam,
    start: FloatArray | None = None,
    run: Run = ALONE,
    on_device: bool = False,
) -> ComponentResult:
    """Embed a connected graph of at least two vertices with positive lengths, as often as the loss asks for.

    A robust loss begins without the edges that break the triangle inequality. Then, in rounds, edges have the
    weights ``1 / (1 + (r / 3 s)^2)^2`` of Geman and McClure (eq. 28), with r the error of an edge relative to
    the shorter of its lengths and s 1.5 times the median error.
    """
    once: Any = _embed_once
    if on_device:
        from isoweave.cuda import embed_on_device as once
    if options.loss == "squares":
        return once(graph, options, known, team, start, run)
    given = 1.0 if known.edge_weights is None else known.edge_weights

    def weighted(trust: FloatArray, run: Run) -> ComponentResult:
        return once(graph, options, replace(known, edge_weights=given * trust), team, start, run)

    wrong = longer_than_detours(graph)
    return embed_in_rounds(wrong, weighted, lambda x: (lengths_in(graph, x), graph.lengths), run)


def embed_in_rounds(
    wrong: BoolArray,
    weighted: Callable[[FloatArray, Run], ComponentResult],
    lengths_of: Callable[[FloatArray], tuple[FloatArray, FloatArray]],
    run: Run,
    median: Callable[[FloatArray], Any] = np.median,
    most: Callable[[FloatArray], Any] = np.max,
) -> ComponentResult:
    """The rounds of a robust loss; ``lengths_of`` a map are those of its edges, and as they were measured.

    Where edges are in shares, ``median`` and ``most`` are over all of them.
    """
    trust = np.where(wrong, _LEAST_TRUST, 1.0)
    for number in range(_ROUNDS):
        found = weighted(trust, run.within(f"round {number}"))
        before, (lengths, measured) = trust, lengths_of(found.iteration.coordinates)
        error = np.abs(lengths - measured) / np.maximum(np.minimum(lengths, measured), NO_LENGTH)
        typical = max(1.5 * float(median(error)), _SMALL_ERROR)
        trust = np.maximum((1.0 + (error / (3.0 * typical)) ** 2) ** -2, _LEAST_TRUST)
        if found.iteration.status in ENDED_EARLY or most(np.abs(trust - before)) < _SAME_TRUST:
            break
    return found


def _embed_once(
    graph: NeighborGraph,
    options: EmbeddingOptions,
    known: Known,
    team: ThreadTeam,
    start: FloatArray | None,
    run: Run,
) -> ComponentResult:
    """The stages in order; what each hands on is checked to be finite, so that an error names the stage."""
    check_finite("distance graph", "lengths", graph.lengths)
    check_start(start)
    # The same edges, with the lengths that shortest paths go by.
    paths = graph if known.edge_weights is None else bypass_doubtful(graph, known.edge_weights)
    run.stage("frames")
    frames = frames_of(graph, paths, options, known, team)
    name, problem, result = optimised(frames, options, known.anchors, start, run)
    solver = f"{problem.metric.solver}: {problem.metric.choice.reason}"
    # Frames know less than exact distances.
    is_exact = name == "lifted" and options.global_weight == "auto" and _is_plain(graph, known)
    is_exact = is_exact and is_trusted(graph, result.coordinates)
    dial = 0.0 if is_exact else options.global_weight
    weight, part, far = long_distances(frames, known.anchors, result, dial, run)
    kept = weight
    if far is not None:
        # One factor at a time.
        del problem
        build, local = far_problem(frames, options, known.anchors), result
        problem, result = globalise(frames, graph, options, far, part, result, run, build)
        kept = 0.0 if result is local else weight
    mass = problem.mass
    if is_exact or result.status in ENDED_EARLY:
        pass
    elif options.refine == "distances":
        mass, result = refine_from(problem, graph, options, 1.0, result, run.within("refine"))
    elif options.refine == "auto" and weight == 0.0:
        mend: Any = (lambda x: mended(graph, x, team, run)) if _is_plain(graph, known) else None
        mass, result = refine_if_flat(problem, graph, options, result, run, mend)
    if is_exact and options.inner_product == "edge":
        mass, result = _at_exact_distances(problem, graph, result)
    if options.scale == "geodesics":
        spread = find_landmarks(paths, options.n_components, team=team)
        places = result.coordinates[spread.vertices]
        factor = geodesic_factor(result.coordinates, places, spread.distances, np.sum)
        result = replace(result, coordinates=result.coordinates * factor)
    elif options.keeps_lengths and known.anchors is None:
        factor = edge_factors(result.coordinates, frames, graph, np.array([0, graph.n_vertices]))[0]
        result = replace(result, coordinates=result.coordinates * factor)
    check_finite("result", "coordinates", result.coordinates)
    stretch, lost = stretch_of(graph, frames, result.coordinates)
    if lost.any() and result.status in ("converged", "stalled"):
        result = replace(result, status="collapsed")
    return ComponentResult(result, stretch, mass, name, solver, kept)


def check_start(start: FloatArray | None) -> None:
    """Refuse coordinates to start from that are out of all proportion."""
    largest = 0.0 if start is None else float(np.abs(start).max(initial=0.0))
    if not largest <= _LARGEST_START:
        raise ValueError(
            f"start has coordinates of {largest:.3g} times the median distance, over {_LARGEST_START:g}; "
            "give it in the unit of the distances."
        )


def _is_plain(graph: NeighborGraph, known: Known) -> bool:
    return known.per_edge(graph) is None and known.anchors is None


def stretch_of(graph: NeighborGraph, frames: FrameEnergy, x: FloatArray) -> tuple[FloatArray, BoolArray]:
    """Stretch of every vertex, and those at an edge that has no length in the map."""
    with numerical_stage("stretch"):
        stretch = local_stretch(graph, frames.frames, x, team=frames.team)
    check_finite("stretch", "singular values", stretch)
    lost = at_lost_edges(graph, x, frames.team)
    stretch[lost, -1] = 0.0
    return stretch, lost


def frames_of(
    graph: NeighborGraph,
    paths: NeighborGraph,
    options: EmbeddingOptions,
    known: Known,
    team: ThreadTeam,
    starts: AnyArray | None = None,
) -> FrameEnergy:
    """Calibrated frames with the inner product that goes with them."""
    is_paper = options.inner_product == "paper"
    with numerical_stage("local frames"):
        sizes: Any = {"frame_size": options.frame_size, "starts": starts}
        raw = local_frames(paths, options.n_components, team=team, with_inverse=is_paper, **sizes)
    check_finite("local frames", "rows", raw.rows)
    check_finite("local frames", "eigenvalues", raw.spectrum)
    frames = calibrate_frames(graph, raw, options.calibrate, team=team)
    check_finite("calibration", "rows", frames.rows)
    if not is_paper:
        edges = edge_energy(paths, frames, confidence=known.per_edge(graph), team=team, starts=starts)
        check_finite("inner product", "weights", edges.weights)
        return edges
    kind = "hull" if options.preset == "paper" else "equal"
    volumes = neighborhood_volumes(graph, raw, kind, seed=options.seed)
    if known.vertex_weights is not None:
        volumes = volumes * known.vertex_weights
    check_finite("inner product", "volumes", volumes)
    paper = paper_energy(paths, frames, volumes, team=team)
    check_finite("inner product", "inverse frames", paper.inverse)
    return paper


def _factored(
    frames: FrameEnergy, options: EmbeddingOptions, anchors: AnchorEnergy | None, run: Run
) -> Problem:
    run.stage("factor")
    problem = build_problem(frames, solver=options.solver, anchors=anchors)
    check_finite("operators", "energy of the collapsed map", problem.mass)
    return problem


def check_energy(problem: Any, options: EmbeddingOptions, result: IterationResult) -> None:
    """Refuse an embedding with more energy than all points in one place: a solve or tol is to blame."""
    # The solution x' of the next Poisson problem has at most that energy. F(x) is F(x') plus the square of
    # the step that is left, and L-BFGS ends where that is at most tol^2 F(x).
    is_paper = options.optimizer == "alternating"
    share = result.energy / problem.mass if problem.mass > 0 else 0.0
    if share <= MOST_ENERGY or not (is_paper or result.status in ("converged", "stalled")):
        return
    what = f"the map has {share:.1e} times the energy of all points in one place"
    if not is_paper and share * (1.0 - options.tol**2) <= MOST_ENERGY:
        raise ValueError(f"tol={options.tol:g} ends the iteration where {what}; lower tol.")
    raise badly_solved(problem, "result", what)


def optimised(
    frames: Any,
    options: EmbeddingOptions,
    anchors: AnchorEnergy | None,
    start: FloatArray | None,
    run: Run,
    factored: Callable[[Any, EmbeddingOptions, AnchorEnergy | None, Run], Any] = _factored,
    starts: Any = None,
) -> tuple[str, Any, IterationResult]:
    """The name of the start, the problem and where it ended; another engine has problems and starts."""
    is_paper = options.optimizer == "alternating"
    optimiser = (Alternating if is_paper else LBFGS)(options.tol, options.max_iter)
    stage = "recursion" if is_paper else "optimise"

    def descend(problem: Any, x: FloatArray, place: str) -> IterationResult:
        name = "anchors" if place == "anchors" and not is_paper else stage
        run.stage(place if place == "anchors" else name)
        return minimise(optimiser, problem, x, stage=name, run=run.within(place))

    if start is not None:
        problem = factored(frames, options, anchors, run)
        found = descend(problem, start, "given" if anchors is None else "anchors")
        if anchors is None:
            check_energy(problem, options, found)
        return "given", problem, found
    problem = factored(frames, options, None, run)
    with numerical_stage(f"start {options.start!r}"):
        how = (options.start, options.energy_tol, stage, run, starts)
        name, free = minimise_from(problem, optimiser, *how)
    if name != "lifted":
        check_energy(problem, options, free)
    if anchors is None:
        return name, problem, free
    # In the energy from the beginning, anchors would keep a map from unfolding: it is laid on them and goes
    # on with its own rotations, so that what they ask for is spread over their surroundings.
    rotations = problem.evaluate(anchors.lay_on(free.coordinates)).alignments
    # One factor at a time.
    del problem
    problem = factored(frames, options, anchors, run)
    x = problem.integrate(rotations)
    check_finite("anchors", "start", x)
    if free.status not in ENDED_EARLY:
        return name, problem, descend(problem, x, "anchors")
    here = problem.evaluate(x)
    return name, problem, IterationResult(x, here.alignments, here.energy, free.history, free.status)


def far_problem(
    frames: FrameEnergy, options: EmbeddingOptions, anchors: AnchorEnergy | None
) -> Callable[[Any, Any], Any]:
    """The problem for long distances, with their springs at a place in the metric."""
    return lambda far, near: build_problem(frames, solver=options.solver, anchors=anchors, far=far, near=near)


def globalise(
    frames: Any,
    graph: Any,
    options: EmbeddingOptions,
    far: Any,
    part: float,
    result: IterationResult,
    run: Run,
    build: Callable[[Any, Any], Any],
) -> tuple[Any, IterationResult]:
    """Continue with the long distances in the energy; energy and rotations are those of the frames there.

    ``part`` of the frames' weight goes to the distances. With refine="auto", small problems that are not flat
    are also solved coming from larger weights of the long distances, and the lowest minimum is taken.
    ``build(far, near)`` is the problem with these long distances, of any engine. Where they would ruin the
    map and the weight is "auto", the local result itself is returned.
    """
    assert options.max_iter is not None
    optimiser = LBFGS(GLOBAL_TOL * options.energy_tol, options.max_iter)
    is_auto = options.refine == "auto"

    def descend(far: Any, x: Any, name: str) -> tuple[Any, IterationResult]:
        run.stage(name)
        problem = build(far, x)
        mixed = problem.of_distances(graph, part) if is_auto and part > 0.0 else problem
        return problem, minimise(optimiser, mixed, x, stage="global", run=run.within(name))

    problem, moved = descend(far, result.coordinates, "global")
    n, n_components = graph.n_vertices, options.n_components
    is_small = n_components <= LOW_DIMENSION and AT_ONCE < n <= SYNCHRONIZED_LIMIT // n_components
    is_open = opened(frames, result)[1] > 0.0
    for larger in _ABOVE if is_auto and is_open and is_small else ():
        if moved.status in ENDED_EARLY:
            break
        _, above = descend(replace(far, weight=larger * far.weight), result.coordinates, f"from {larger:g}")
        if above.status not in ENDED_EARLY:
            _, above = descend(far, above.coordinates, f"again from {larger:g}")
        if above.status in ENDED_EARLY:
            moved = replace(moved, status=above.status)
        elif above.energy < moved.energy:
            moved = above
    here = frames.evaluate(moved.coordinates)
    if options.global_weight != "auto" or here.energy <= MOST_ENERGY * frames.mass:
        result = IterationResult(
            moved.coordinates, here.alignments, here.energy, result.history, moved.status
        )
    # Else lengths differ by orders of magnitude, and neighbourhoods would be worse than all in one place.
    return replace(problem, far=None), result


def refine_from(
    problem: Any,
    graph: Any,
    options: EmbeddingOptions,
    part: float,
    result: IterationResult,
    run: Run,
) -> tuple[float, IterationResult]:
    """Continue with the distances themselves (eq. 22); the energy of the collapsed map, and where it ends."""
    run.stage("refine")
    measured, is_auto = problem.of_distances(graph, part), options.refine == "auto"
    enough = ENOUGH * min(max(graph.n_vertices / _MANY, 1.0), 100.0) if is_auto else 0.0
    most = min(options.max_iter, MOST_STEPS) if is_auto else options.max_iter
    optimiser = LBFGS(options.energy_tol, most, enough)
    refined = minimise(optimiser, measured, result.coordinates, stage="refine", run=run)
    here = problem.evaluate(refined.coordinates)
    # What has converged stays so, however far it can be refined.
    kept = result.status != "converged" or (is_auto and refined.status not in ENDED_EARLY)
    status = result.status if kept else refined.status
    return measured.mass, IterationResult(
        refined.coordinates, here.alignments, refined.energy, result.history, status
    )


def refine_if_flat(
    problem: Any,
    graph: Any,
    options: EmbeddingOptions,
    result: IterationResult,
    run: Run,
    mend: Callable[[FloatArray], FloatArray | None] | None = None,
) -> tuple[float, IterationResult]:
    """Let the distances count as far as the data are flat and the distances agree with each other.

    ``mend`` finds the map that has all distances where they are exact and this one is stuck.
    """
    mass, refined = _refined_if_flat(problem, graph, options, result, run)
    whole = None
    if mend and refined is not result and refined.status not in ENDED_EARLY and graph.n_vertices > AT_ONCE:
        whole = mend(refined.coordinates)
    if whole is None:
        return mass, refined
    return _at_exact_distances(problem, graph, replace(refined, coordinates=whole))


def _at_exact_distances(problem: Any, graph: Any, result: IterationResult) -> tuple[float, IterationResult]:
    """The energy of the collapsed map, and the map with the energy of its distances."""
    measured, here = problem.of_distances(graph), problem.evaluate(result.coordinates)
    energy = measured.evaluate(result.coordinates).energy
    return measured.mass, replace(result, energy=energy, alignments=here.alignments)


def _refined_if_flat(
    problem: Any, graph: Any, options: EmbeddingOptions, result: IterationResult, run: Run
) -> tuple[float, IterationResult]:
    share = result.energy / problem.mass if problem.mass > 0 else 0.0
    part = flatness(mean_degree(graph), options.n_components, share)
    if part == 0.0:
        return problem.mass, result
    mass, refined = refine_from(problem, graph, options, part, result, run.within("refine"))
    # On curved or noisy data much of the misfit stays, and is better left to neighbourhoods than to edges.
    left = refined.energy / (mass * share) if mass * share > 0 else 0.0
    agreed = part * agreement(left)
    if agreed == part or refined.status in ENDED_EARLY:
        return mass, refined
    if agreed == 0.0:
        return problem.mass, result
    return refine_from(problem, graph, options, agreed, result, run.within("refine again"))


def geodesic_factor(
    x: FloatArray, landmarks: FloatArray, distances: FloatArray, total: Callable[[FloatArray], Any]
) -> float:
    """The one factor that brings distances to landmarks (l, N) nearest to geodesics (l, n), least squares."""
    cross = square = 0.0
    for place, geodesic in zip(landmarks, distances, strict=True):
        straight = np.linalg.norm(x - place, axis=1)
        cross += float(total(straight * geodesic))
        square += float(total(straight * straight))
    factor = cross / square if square > 0 else 1.0
    check_finite("scale", "factor to the geodesics", factor)
    return factor
