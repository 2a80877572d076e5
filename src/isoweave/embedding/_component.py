"""Embedding of one connected component: frames, operators, starts, optimiser."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from isoweave._parallel import ThreadTeam
from isoweave._typing import FloatArray
from isoweave.embedding._options import DEFAULT_TOL, EmbeddingOptions
from isoweave.frames import calibrate_frames, local_frames, neighborhood_volumes
from isoweave.graph import NeighborGraph
from isoweave.iteration import (
    AlignmentProblem,
    Callback,
    IterationResult,
    Landmarks,
    alternate,
    build_problem,
    find_landmarks,
    local_stretch,
    minimize_energy,
    optimise_from,
)
from isoweave.operators import InnerProduct, edge_inner_product, rank_inner_product


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
) -> ComponentResult:
    """Embed a connected graph of at least two vertices with positive lengths."""
    n_components = options.n_components
    paper_product = options.inner_product == "paper"
    raw = local_frames(
        graph, n_components, team=team, frame_size=options.frame_size, with_inverse=paper_product
    )
    frames = calibrate_frames(graph, raw, options.calibrate)
    inner: InnerProduct
    if paper_product:
        volumes = neighborhood_volumes(graph, raw, options.volumes, seed=options.seed)
        inner = rank_inner_product(raw, volumes, graph)
    else:
        inner = edge_inner_product(graph, frames, options.edge_weights)
    problem = build_problem(graph, frames, inner, team=team, solver=options.solver)
    name, result = _optimise(problem, options, user_start, callback)
    coordinates = result.coordinates
    if options.scale == "geodesics":
        coordinates = coordinates * _geodesic_factor(
            coordinates, find_landmarks(graph, n_components, team=team)
        )
    result = IterationResult(coordinates, result.alignments, result.energy, result.history, result.status)
    choice = problem.poisson.choice
    return ComponentResult(
        iteration=result,
        stretch=local_stretch(graph, frames, coordinates, team=team),
        mass=problem.mass,
        start=name,
        solver=f"{problem.poisson.solver}: {choice.reason}",
    )


def _optimise(
    problem: AlignmentProblem,
    options: EmbeddingOptions,
    user_start: FloatArray | None,
    callback: Callback | None,
) -> tuple[str, IterationResult]:
    """Run the optimiser of the preset from the start asked for."""

    def optimise(start: FloatArray) -> IterationResult:
        if options.optimizer == "alternating":
            first = problem.evaluate(start).alignments
            return alternate(problem, first, tol=options.tol, max_iter=options.max_iter, callback=callback)
        return minimize_energy(problem, start, tol=options.tol, max_iter=options.max_iter, callback=callback)

    if user_start is not None or not isinstance(options.start, str):
        assert user_start is not None
        return "given", optimise(user_start)
    # The recursion's tolerance is on alignments; the auxiliary problems of the starts have the energy's.
    tol = options.tol if options.optimizer == "lbfgs" else DEFAULT_TOL
    return optimise_from(problem, options.start, optimise, tol=tol)


def _geodesic_factor(coordinates: FloatArray, landmarks: Landmarks) -> float:
    """The one factor that brings distances to the landmarks nearest to their geodesics (least squares)."""
    cross = square = 0.0
    for vertex, geodesic in zip(landmarks.vertices, landmarks.distances, strict=True):
        straight = np.linalg.norm(coordinates - coordinates[vertex], axis=1)
        cross += float(np.sum(straight * geodesic))
        square += float(np.sum(straight * straight))
    return cross / square if square > 0 else 1.0
