"""Embedding of one connected component: frames, operators, starts, optimiser."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from isoweave._parallel import ThreadTeam
from isoweave._typing import FloatArray
from isoweave.embedding._known_parts import PartKnown
from isoweave.embedding._options import DEFAULT_TOL, EmbeddingOptions
from isoweave.embedding._records import frames_from, frames_record
from isoweave.energy import InnerProduct, edge_inner_product, rank_inner_product
from isoweave.geometry import LocalFrames, calibrate_frames, local_frames, neighborhood_volumes
from isoweave.graph import NeighborGraph, bypass_doubtful
from isoweave.optimise import (
    ALONE,
    AlignmentProblem,
    Anchoring,
    Callback,
    IterationResult,
    Landmarks,
    Run,
    alternate,
    build_problem,
    distance_problem,
    find_landmarks,
    local_stretch,
    minimize_energy,
    optimise_from,
)
from isoweave.optimise._state import badly_solved, check_finite, numerical_stage, unsolved

# Coordinates to start from, in units of the median length: beyond, squares of squares overflow.
_LARGEST_START = 1e75
# Energy of a map over that of all points in one place. At most 1 but for rounding wherever the Poisson
# problems were solved.
_MOST_ENERGY = 1.0 + 1e-6
# An iteration that was ended from outside: nothing is built on it.
_CUT_SHORT = ("stopped", "interrupted")


@dataclass(frozen=True, eq=False)
class ComponentResult:
    """Embedding of one component, in the units of its graph."""

    iteration: IterationResult
    stretch: FloatArray
    mass: float
    start: str
    solver: str


def embed_component(
    graph: NeighborGraph,
    options: EmbeddingOptions,
    *,
    team: ThreadTeam,
    user_start: FloatArray | None = None,
    callback: Callback | None = None,
    run: Run = ALONE,
    known: PartKnown | None = None,
) -> ComponentResult:
    """Embed a connected graph of at least two vertices with positive lengths.

    What every stage hands on is checked to be finite: a pass over it costs nothing beside the stage, and an
    error names the stage.
    """
    n_components = options.n_components
    check_finite("distance graph", "lengths", graph.lengths)
    if user_start is not None:
        _check_size(user_start)
    known = known or PartKnown()
    # The same edges, with the lengths that shortest paths go by.
    paths = graph if known.edge_weights is None else bypass_doubtful(graph, known.edge_weights)
    stored = run.load("frames")
    if stored is None:
        run.stage("frames")
        frames, inner = _frames(graph, paths, options, team, known)
        run.keep("frames", lambda: frames_record(frames, inner))
    else:
        frames, inner = frames_from(stored, graph, options)

    def factored(anchoring: Anchoring | None) -> AlignmentProblem:
        run.stage("factor")
        return _factored(paths, frames, inner, options, team, anchoring)

    if known.anchoring is None:
        problem = factored(None)
        name, result = _optimise(problem, options, user_start, callback, run)
        _check_energy(problem, options, result)
    else:
        name, problem, result = _optimise_anchored(
            factored, options, known.anchoring, user_start, callback, run
        )
    if options.refine == "distances" and result.status not in _CUT_SHORT:
        result = _refine(problem, graph, options, result, callback, run.within("refine"))
    coordinates = result.coordinates
    if options.scale == "geodesics":
        coordinates = coordinates * _geodesic_factor(
            coordinates, find_landmarks(paths, n_components, team=team)
        )
    result = IterationResult(coordinates, result.alignments, result.energy, result.history, result.status)
    check_finite("result", "coordinates", result.coordinates)
    with numerical_stage("stretch"):
        stretch = local_stretch(graph, frames, coordinates, team=team)
    check_finite("stretch", "singular values", stretch)
    choice = problem.poisson.choice
    return ComponentResult(
        iteration=result,
        stretch=stretch,
        mass=problem.mass,
        start=name,
        solver=f"{problem.poisson.solver}: {choice.reason}",
    )


def _frames(
    graph: NeighborGraph,
    paths: NeighborGraph,
    options: EmbeddingOptions,
    team: ThreadTeam,
    known: PartKnown,
) -> tuple[LocalFrames, InnerProduct]:
    """Calibrated frames and the inner product that goes with them."""
    paper_product = options.inner_product == "paper"
    with numerical_stage("local frames"):
        raw = local_frames(
            paths,
            options.n_components,
            team=team,
            frame_size=options.frame_size,
            with_inverse=paper_product,
        )
    check_finite("local frames", "rows", raw.rows)
    check_finite("local frames", "eigenvalues", raw.spectrum)
    frames = calibrate_frames(graph, raw, options.calibrate)
    check_finite("calibration", "rows", frames.rows)
    if not paper_product:
        edge = edge_inner_product(graph, frames, options.edge_weights, known.per_edge(graph))
        check_finite("inner product", "weights", edge.weights)
        return frames, edge
    volumes = neighborhood_volumes(graph, raw, options.volumes, seed=options.seed)
    if known.vertex_weights is not None:
        volumes = volumes * known.vertex_weights
    check_finite("inner product", "volumes", volumes)
    rank = rank_inner_product(raw, volumes, graph)
    check_finite("inner product", "inverse frames", rank.inverse)
    return frames, rank


def _factored(
    graph: NeighborGraph,
    frames: LocalFrames,
    inner: InnerProduct,
    options: EmbeddingOptions,
    team: ThreadTeam,
    anchoring: Anchoring | None,
) -> AlignmentProblem:
    try:
        problem = build_problem(graph, frames, inner, team=team, solver=options.solver, anchoring=anchoring)
    except RuntimeError as error:
        why = str(error).rstrip(".")
        raise unsolved("operators", "no factor", graph=graph, inner=inner, why=why) from error
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


def _check_energy(problem: AlignmentProblem, options: EmbeddingOptions, result: IterationResult) -> None:
    """Refuse a map worse than all points in one place.

    Every exact Poisson solution has at most the energy of the collapsed map; more is a solve that failed.
    """
    share = result.energy / problem.mass if problem.mass > 0 else 0.0
    ended = options.optimizer == "alternating" or result.status in ("converged", "stalled")
    if not ended or share <= _MOST_ENERGY:
        return
    what = f"the map has {share:.1e} times the energy of all points in one place"
    raise badly_solved(problem, "result", what)


def _optimise(
    problem: AlignmentProblem,
    options: EmbeddingOptions,
    user_start: FloatArray | None,
    callback: Callback | None,
    run: Run,
) -> tuple[str, IterationResult]:
    """Run the optimiser of the preset from the start asked for."""

    def optimise(start: FloatArray, here: Run) -> IterationResult:
        return _minimise(problem, options, start, callback, here)

    if user_start is not None or not isinstance(options.start, str):
        assert user_start is not None
        return "given", optimise(user_start, run.within("given"))
    # The recursion's tolerance is on alignments; the auxiliary problems of the starts have the energy's.
    with numerical_stage(f"start {options.start!r}"):
        return optimise_from(problem, options.start, optimise, tol=_energy_tol(options), run=run)


def _minimise(
    problem: AlignmentProblem,
    options: EmbeddingOptions,
    start: FloatArray,
    callback: Callback | None,
    run: Run,
    stage: str = "optimise",
) -> IterationResult:
    """The preset's optimiser from given coordinates."""
    run.stage(stage)
    watched: Any = {"tol": options.tol, "max_iter": options.max_iter, "callback": callback, "run": run}
    if options.optimizer == "alternating":
        check_finite("recursion", "start", start)
        return alternate(problem, problem.evaluate(start).alignments, **watched)
    return minimize_energy(problem, start, stage=stage, **watched)


def _energy_tol(options: EmbeddingOptions) -> float:
    return options.tol if options.optimizer == "lbfgs" else DEFAULT_TOL


def _optimise_anchored(
    factored: Callable[[Anchoring | None], AlignmentProblem],
    options: EmbeddingOptions,
    anchoring: Anchoring,
    user_start: FloatArray | None,
    callback: Callback | None,
    run: Run,
) -> tuple[str, AlignmentProblem, IterationResult]:
    """Embed without the anchors, lay the map on them, and go on with them.

    Anchors in the energy would keep a map from unfolding that begins far from them. The first step towards
    them keeps the turns of the map that was laid on them, so that what they ask for is spread over their
    surroundings and not left to the edges at each of them.
    """
    place = run.within("anchors")
    if user_start is not None:
        anchored = factored(anchoring)
        return "given", anchored, _minimise(anchored, options, user_start, callback, place, "anchors")
    problem = factored(None)
    name, free = _optimise(problem, options, None, callback, run)
    _check_energy(problem, options, free)
    turns = problem.evaluate(anchoring.lay_on(free.coordinates)).alignments
    # One factor at a time.
    del problem
    anchored = factored(anchoring)
    start = anchored.integrate(turns)
    check_finite("anchors", "start", start)
    if free.status in _CUT_SHORT:
        here = anchored.evaluate(start)
        return name, anchored, IterationResult(start, here.alignments, here.energy, free.history, free.status)
    return name, anchored, _minimise(anchored, options, start, callback, place, "anchors")


def _refine(
    problem: AlignmentProblem,
    graph: NeighborGraph,
    options: EmbeddingOptions,
    result: IterationResult,
    callback: Callback | None,
    run: Run,
) -> IterationResult:
    """Go on with the distances themselves (eq. 22); energy and turns are those of the frames there."""
    run.stage("refine")
    refined = minimize_energy(
        distance_problem(problem, graph),
        result.coordinates,
        tol=_energy_tol(options),
        max_iter=options.max_iter,
        callback=callback,
        stage="refine",
        run=run,
    )
    here = problem.evaluate(refined.coordinates)
    status = refined.status if result.status == "converged" else result.status
    return IterationResult(refined.coordinates, here.alignments, here.energy, result.history, status)


def _geodesic_factor(coordinates: FloatArray, landmarks: Landmarks) -> float:
    """The one factor that brings distances to the landmarks nearest to their geodesics (least squares)."""
    cross = square = 0.0
    for vertex, geodesic in zip(landmarks.vertices, landmarks.distances, strict=True):
        straight = np.linalg.norm(coordinates - coordinates[vertex], axis=1)
        cross += float(np.sum(straight * geodesic))
        square += float(np.sum(straight * straight))
    factor = cross / square if square > 0 else 1.0
    check_finite("scale", "factor to the geodesics", factor)
    return factor
