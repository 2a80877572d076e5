"""Embedding of one connected component: frames, energy, starts, optimiser."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from isoweave._parallel import ThreadTeam
from isoweave._stages import frames_from, frames_record
from isoweave._typing import FloatArray
from isoweave.energy import AnchorEnergy, FrameEnergy, edge_energy, paper_energy
from isoweave.geometry import calibrate_frames, local_frames, local_stretch, neighborhood_volumes
from isoweave.graph import NeighborGraph, bypass_doubtful
from isoweave.known import Known
from isoweave.optimise import (
    ALONE,
    ENDED_EARLY,
    LBFGS,
    Alternating,
    IterationResult,
    Plan,
    Problem,
    Run,
    badly_solved,
    balanced_weight,
    build_problem,
    check_finite,
    find_landmarks,
    global_energy,
    minimise,
    minimise_from,
    numerical_stage,
    openness,
    unsolved,
)
from isoweave.options import EmbeddingOptions

# Coordinates to start from, in units of the median length: beyond, squares of squares overflow.
_LARGEST_START = 1e75
# Energy of an embedding over that of all points in one place. At most 1 but for rounding wherever the Poisson
# problems were solved.
_MOST_ENERGY = 1.0 + 1e-6
# Long bends relax last, and the misfit that the tolerance is relative to is large where there are any.
_GLOBAL_TOL = 1 / 3


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
) -> ComponentResult:
    """Embed a connected graph of at least two vertices with positive lengths.

    What every stage hands on is checked to be finite: a pass over it costs nothing beside the stage, and an
    error names the stage.
    """
    check_finite("distance graph", "lengths", graph.lengths)
    if start is not None:
        _check_size(start)
    # The same edges, with the lengths that shortest paths go by.
    paths = graph if known.edge_weights is None else bypass_doubtful(graph, known.edge_weights)
    stored = run.load("frames")
    if stored is None:
        run.stage("frames")
        frames = _frames(graph, paths, options, known, team)
        run.keep("frames", lambda: frames_record(frames))
    else:
        frames = frames_from(stored, paths, options, team)
    name, problem, result = _optimise(frames, options, known.anchors, start, run)
    weight, problem, result = _globalise(problem, options, result, run)
    if options.refine == "distances" and result.status not in ENDED_EARLY:
        result = _refine(problem, graph, options, result, run.within("refine"))
    if options.scale == "geodesics":
        factor = _geodesic_factor(result.coordinates, paths, team)
        result = replace(result, coordinates=result.coordinates * factor)
    check_finite("result", "coordinates", result.coordinates)
    with numerical_stage("stretch"):
        stretch = local_stretch(graph, frames.frames, result.coordinates, team=team)
    check_finite("stretch", "singular values", stretch)
    solver = f"{problem.metric.solver}: {problem.metric.choice.reason}"
    return ComponentResult(result, stretch, problem.mass, name, solver, weight)


def _frames(
    graph: NeighborGraph, paths: NeighborGraph, options: EmbeddingOptions, known: Known, team: ThreadTeam
) -> FrameEnergy:
    """Calibrated frames with the inner product that goes with them."""
    is_paper = options.inner_product == "paper"
    with numerical_stage("local frames"):
        raw = local_frames(
            paths, options.n_components, team=team, frame_size=options.frame_size, with_inverse=is_paper
        )
    check_finite("local frames", "rows", raw.rows)
    check_finite("local frames", "eigenvalues", raw.spectrum)
    frames = calibrate_frames(graph, raw, options.calibrate)
    check_finite("calibration", "rows", frames.rows)
    if not is_paper:
        edges = edge_energy(paths, frames, confidence=known.per_edge(graph), team=team)
        check_finite("inner product", "weights", edges.weights)
        return edges
    volumes = neighborhood_volumes(graph, raw, options.volumes, seed=options.seed)
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
    try:
        problem = build_problem(frames, solver=options.solver, anchors=anchors)
    except RuntimeError as error:
        raise unsolved("operators", "no factor", frames=frames, why=str(error).rstrip(".")) from error
    check_finite("operators", "energy of the collapsed map", problem.mass)
    return problem


def _check_size(start: FloatArray) -> None:
    """Refuse a start so far out that energies overflow."""
    largest = float(np.abs(start).max(initial=0.0))
    if not largest <= _LARGEST_START:
        raise ValueError(
            f"start has coordinates of {largest:.3g} times the median distance, over {_LARGEST_START:g}; "
            "give it in the unit of the distances."
        )


def _check_energy(problem: Problem, options: EmbeddingOptions, result: IterationResult) -> None:
    """Refuse an embedding worse than all points in one place.

    Every exact Poisson solution has at most the energy of the collapsed embedding; more is a failed solve.
    """
    share = result.energy / problem.mass if problem.mass > 0 else 0.0
    ended = options.optimizer == "alternating" or result.status in ("converged", "stalled")
    if ended and share > _MOST_ENERGY:
        what = f"the map has {share:.1e} times the energy of all points in one place"
        raise badly_solved(problem, "result", what)


def _plan(options: EmbeddingOptions, stage: str = "optimise") -> Plan:
    assert options.tol is not None
    assert options.max_iter is not None
    name = options.start if isinstance(options.start, str) else "given"
    if options.optimizer == "alternating":
        return Plan(Alternating(options.tol, options.max_iter), name, options.energy_tol, "recursion")
    return Plan(LBFGS(options.tol, options.max_iter), name, options.energy_tol, stage)


def _optimise(
    frames: FrameEnergy,
    options: EmbeddingOptions,
    anchors: AnchorEnergy | None,
    start: FloatArray | None,
    run: Run,
) -> tuple[str, Problem, IterationResult]:
    """The name of the start, the problem and where it ended.

    With anchors: embed without them, lay the embedding on them, and continue with them. Anchors in the energy
    would keep an embedding from unfolding that begins far from them. The first step towards them keeps the
    rotations of the embedding that was laid on them, so that what they ask for is spread over their
    surroundings and not left to the edges at each of them.
    """
    plan = _plan(options)
    if start is not None:
        problem = _factored(frames, options, anchors, run)
        if anchors is not None:
            return "given", problem, _continue(problem, options, start, run)
        run.stage(plan.stage)
        given = minimise(plan.optimiser, problem, start, stage=plan.stage, run=run.within("given"))
        _check_energy(problem, options, given)
        return "given", problem, given
    problem = _factored(frames, options, None, run)
    with numerical_stage(f"start {options.start!r}"):
        name, free = minimise_from(problem, plan, run)
    _check_energy(problem, options, free)
    if anchors is None:
        return name, problem, free
    rotations = problem.evaluate(anchors.lay_on(free.coordinates)).alignments
    # One factor at a time.
    del problem
    problem = _factored(frames, options, anchors, run)
    x = problem.integrate(rotations)
    check_finite("anchors", "start", x)
    if free.status not in ENDED_EARLY:
        return name, problem, _continue(problem, options, x, run)
    here = problem.evaluate(x)
    return name, problem, IterationResult(x, here.alignments, here.energy, free.history, free.status)


def _continue(problem: Problem, options: EmbeddingOptions, x: FloatArray, run: Run) -> IterationResult:
    """The optimiser with the anchors in the energy."""
    plan = _plan(options, "anchors")
    run.stage("anchors")
    return minimise(plan.optimiser, problem, x, stage=plan.stage, run=run.within("anchors"))


def _globalise(
    problem: Problem, options: EmbeddingOptions, result: IterationResult, run: Run
) -> tuple[float, Problem, IterationResult]:
    """Continue with the long distances in the energy (eq. 24): their weight, the problem, where it ended.

    Energy and rotations are those of the frames there.
    """
    assert options.tol is not None
    assert options.max_iter is not None
    frames, x, weight = problem.frames, result.coordinates, options.global_weight
    share = result.energy / problem.mass if problem.mass > 0 else 0.0
    opening = openness(problem.graph, options.n_components, share) if weight == "auto" else 1.0
    # Anchors tell where things are, better than paths can.
    unwanted = weight == 0.0 or opening == 0.0 or (weight == "auto" and problem.anchors is not None)
    if unwanted or result.status in ENDED_EARLY:
        return 0.0, problem, result
    run.stage("landmarks")
    far = global_energy(frames, x)
    check_finite("landmarks", "geodesics", far.geodesics)
    if weight == "auto":
        weight = opening * balanced_weight(share, far.evaluate(x).energy / far.weight)
    far = replace(far, weight=weight * far.weight)
    # One factor at a time.
    solver, anchors = options.solver, problem.anchors
    del problem
    problem = build_problem(frames, solver=solver, anchors=anchors, far=far, near=x)
    optimiser = LBFGS(_GLOBAL_TOL * options.tol, options.max_iter)
    run.stage("global")
    moved = minimise(optimiser, problem, x, stage="global", run=run.within("global"))
    here = frames.evaluate(moved.coordinates)
    status = moved.status if result.status == "converged" else result.status
    result = IterationResult(moved.coordinates, here.alignments, here.energy, result.history, status)
    return weight, replace(problem, far=None), result


def _refine(
    problem: Problem, graph: NeighborGraph, options: EmbeddingOptions, result: IterationResult, run: Run
) -> IterationResult:
    """Continue with the distances themselves (eq. 22); energy and rotations are those of the frames there."""
    assert options.max_iter is not None
    run.stage("refine")
    optimiser = LBFGS(options.energy_tol, options.max_iter)
    refined = minimise(optimiser, problem.of_distances(graph), result.coordinates, stage="refine", run=run)
    here = problem.evaluate(refined.coordinates)
    status = refined.status if result.status == "converged" else result.status
    return IterationResult(refined.coordinates, here.alignments, here.energy, result.history, status)


def _geodesic_factor(coordinates: FloatArray, graph: NeighborGraph, team: ThreadTeam) -> float:
    """The one factor that brings distances to the landmarks nearest to their geodesics (least squares)."""
    landmarks = find_landmarks(graph, coordinates.shape[1], team=team)
    cross = square = 0.0
    for vertex, geodesic in zip(landmarks.vertices, landmarks.distances, strict=True):
        straight = np.linalg.norm(coordinates - coordinates[vertex], axis=1)
        cross += float(np.sum(straight * geodesic))
        square += float(np.sum(straight * straight))
    factor = cross / square if square > 0 else 1.0
    check_finite("scale", "factor to the geodesics", factor)
    return factor
