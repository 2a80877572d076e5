"""Embedding of one connected component: frames, operators, starts, optimiser."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from isoweave._parallel import ThreadTeam
from isoweave._typing import FloatArray
from isoweave.embedding._options import EmbeddingOptions
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
    synchronized_start,
)
from isoweave.operators import InnerProduct, edge_inner_product, rank_inner_product

# "auto" tries the synchronised start up to this many unknowns (n N) and dimensions: it factors a matrix of that
# order with N x N blocks, which beyond costs more than all the rest.
SYNCHRONISED_LIMIT = 12_000
SYNCHRONISED_MAX_COMPONENTS = 3
# The landmark start wins unless the other has clearly less energy: on surfaces that cannot be flattened, near ties
# go with much worse global distances (flat torus: Pearson .67 against .88 at 2 % less energy).
CLEARLY_LESS = 0.9


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
    name, result, landmarks = _best_start(problem, options, user_start, callback)
    coordinates = result.coordinates
    if options.scale == "geodesics":
        landmarks = landmarks or find_landmarks(graph, n_components)
        coordinates = coordinates * _geodesic_factor(coordinates, landmarks)
    result = IterationResult(coordinates, result.alignments, result.energy, result.history, result.status)
    choice = problem.poisson.choice
    return ComponentResult(
        iteration=result,
        stretch=local_stretch(graph, frames, coordinates),
        mass=problem.mass,
        start=name,
        solver=f"{problem.poisson.solver}: {choice.reason}",
    )


def _best_start(
    problem: AlignmentProblem,
    options: EmbeddingOptions,
    user_start: FloatArray | None,
    callback: Callback | None,
) -> tuple[str, IterationResult, Landmarks | None]:
    """Run the optimiser from the start asked for, or from each cheap one, and keep the best."""
    graph, n_components = problem.graph, problem.n_components

    def optimise(start: FloatArray) -> IterationResult:
        if options.optimizer == "alternating":
            alignments = problem.evaluate(start).alignments
            return alternate(
                problem, alignments, tol=options.tol, max_iter=options.max_iter, callback=callback
            )
        return minimize_energy(problem, start, tol=options.tol, max_iter=options.max_iter, callback=callback)

    if user_start is not None:
        return "given", optimise(user_start), None
    if options.start == "identity":
        identity = np.broadcast_to(np.eye(n_components), (graph.n_vertices, n_components, n_components))
        if options.optimizer == "alternating":
            result = alternate(
                problem, identity.copy(), tol=options.tol, max_iter=options.max_iter, callback=callback
            )
        else:
            result = optimise(problem.integrate(identity.copy()))
        return "identity", result, None
    if options.start == "synchronised":
        start = synchronized_start(graph, n_components, team=problem.team, tol=options.tol)
        return "synchronised", optimise(start), None
    landmarks = find_landmarks(graph, n_components)
    best = optimise(landmarks.start)
    if options.start == "landmark" or best.status == "stopped" or not _synchronise_too(problem, best):
        return "landmark", best, landmarks
    start = synchronized_start(graph, n_components, team=problem.team, tol=options.tol)
    other = optimise(start)
    if other.energy < CLEARLY_LESS * best.energy:
        return "synchronised", other, landmarks
    return "landmark", best, landmarks


def _synchronise_too(problem: AlignmentProblem, best: IterationResult) -> bool:
    """Whether "auto" also tries the synchronised start: small enough, and something left to gain."""
    n, n_components = problem.graph.n_vertices, problem.n_components
    exact = best.energy <= 1e-12 * problem.mass
    return (
        not exact and n * n_components <= SYNCHRONISED_LIMIT and n_components <= SYNCHRONISED_MAX_COMPONENTS
    )


def _geodesic_factor(coordinates: FloatArray, landmarks: Landmarks) -> float:
    """The one factor that brings distances to the landmarks nearest to their geodesics (least squares)."""
    cross = square = 0.0
    for vertex, geodesic in zip(landmarks.vertices, landmarks.distances, strict=True):
        straight = np.linalg.norm(coordinates - coordinates[vertex], axis=1)
        cross += float(np.sum(straight * geodesic))
        square += float(np.sum(straight * straight))
    return cross / square if square > 0 else 1.0
