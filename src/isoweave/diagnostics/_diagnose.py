"""Diagnosis of a graph before, and of a map after solving."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import scipy.sparse as sp

from isoweave._parallel import ThreadTeam, thread_team
from isoweave._typing import AnyArray, BoolArray, FloatArray
from isoweave._validation import check_integer
from isoweave.diagnostics._facts import (
    Diagnosis,
    EnergySplit,
    MapFacts,
    dimension_facts,
    edge_table,
    frame_fit,
    frames_of,
    graph_facts,
    is_too_sparse,
    torn_share,
)
from isoweave.diagnostics._hodge import cell_boundaries, measure_misfit, split_misfit
from isoweave.diagnostics._shape import FEWEST_VERTICES, Shape, find_shape
from isoweave.diagnostics._verdicts import judge, keeps_edges
from isoweave.energy import EdgeEnergy, Evaluation, edge_energy
from isoweave.geometry import LocalFrames
from isoweave.graph import NeighborGraph, PreparedGraph, graph_from_matrix, is_edge, prepare_graph
from isoweave.optimise import LBFGS, build_problem, minimise_from
from isoweave.options import DEFAULT_TOL, EmbeddingOptions, resolve_options
from isoweave.result import Embedding, as_embedding

# Of the map of one component: energy of the collapsed map, relative energies, and the least one known.
_Part = tuple[float, EnergySplit, float]

# Components whose shape is looked at, the largest first.
_MOST_SHAPES = 5
# Up to this many edges and dimensions curl and loops are separated.
_MOST_EDGES, _MOST_COMPONENTS = 30_000, 3
_WITHIN = 0.1
# A map whose energy can be divided by this is a poor one; a better one is sought in so many steps.
_POOR, _STEPS = 1.5, 500


def diagnose(
    result: Any,
    *,
    graph: Any = None,
    n_components: int | None = None,
    shortcuts: str | bool = "auto",
    asymmetry: str = "error",
    n_jobs: int | None = None,
) -> Diagnosis:
    """Find out what a map keeps, what its graph allows, and what to do.

    Parameters
    ----------
    result : Embedding, fitted estimator, file of one, array of shape (n, N), or distance graph
        A map after solving (maps by other tools need ``graph``), or a graph alone before solving.
    graph : NeighborGraph or sparse matrix of shape (n, n), optional
        Distances to measure a map against instead of those it was made from.
    n_components : int, optional
        N, dimension of the map to be made; for a graph alone, where 2 is the default.
    shortcuts, asymmetry
        As in :func:`isoweave.embed_graph`, for a graph that is given; a result has its own dropped edges.
    n_jobs : int or None
        Threads; None and -1 use all cores. The result does not depend on it.

    Returns
    -------
    Diagnosis
        Data; ``str()`` of it is a page to read. Without a map, the parts that need one are None. Frames are
        those of the default options (``frame_size`` and ``calibrate`` of an estimator are taken over);
        energies are measured with the edge inner product. docs/diagnose.md has costs and error rates.
    """
    dropped: bool | AnyArray = resolve_options(2, shortcuts=shortcuts).drop_shortcuts
    if n_components is not None:
        n_components = check_integer("n_components", n_components, minimum=1)
    given = None if graph is None else graph_from_matrix(graph, asymmetry=asymmetry)
    if isinstance(result, NeighborGraph) or sp.issparse(result):
        if given is not None:
            raise TypeError("diagnose got two graphs and no map: give the map first, then graph=...")
        given, embedding = graph_from_matrix(result, asymmetry=asymmetry), None
    else:
        embedding = as_embedding(result, given)
        if given is None:
            given, dropped = embedding.measured_graph("diagnose"), embedding.dropped_edges
        if n_components not in (None, embedding.n_components):
            raise ValueError(
                f"n_components={n_components}, but the map has {embedding.n_components} columns; omit it."
            )
        n_components = embedding.n_components
    with thread_team(n_jobs) as team:
        return _examine(prepare_graph(given, dropped, team=team), embedding, n_components or 2, team)


def _examine(
    prepared: PreparedGraph, embedding: Embedding | None, n_components: int, team: ThreadTeam
) -> Diagnosis:
    """Facts about every component, then about the map, then findings."""
    graph, largest = prepared.given, len(prepared.parts[0])
    if 1 < largest <= n_components:
        raise ValueError(
            f"n_components={n_components} is more than the data support: the largest component has {largest} "
            f"distinct points, which span at most {largest - 1} dimensions. Lower n_components."
        )
    parts = [prepared.part(c) for c, vertices in enumerate(prepared.parts) if len(vertices) > 1]
    options, solved = _frame_options(embedding), embedding is not None
    frames = [frames_of(part, n_components, options, with_frames=solved, team=team) for part in parts]
    spectrum = np.concatenate([np.empty((0, n_components + 1)), *(spectrum for _, spectrum in frames)])
    dimension = dimension_facts(prepared.graph, spectrum)
    facts, outlying = graph_facts(prepared, spectrum, min(dimension.local, n_components), team=team)
    shapes: dict[int, Shape] = {}
    curvature = np.full(prepared.graph.n_vertices, np.nan)
    # Frames that lack directions, or have more than N, cannot be carried around.
    if dimension.local <= n_components and not is_too_sparse(facts, n_components):
        for c, part in enumerate(parts[:_MOST_SHAPES]):
            if part.n_vertices >= FEWEST_VERTICES:
                shapes[c] = find_shape(part, dimension.local, c, prepared.unit, team)
                curvature[prepared.parts[c]] = shapes[c].curvature
    shape_facts = tuple(shape.facts for shape in shapes.values())
    once = graph.sources < graph.indices
    of_map: dict[str, Any] = {"map": None, "edge_distortion": None, "misfit": None, "stretch": None}
    if embedding is not None:
        made = [each for each, _ in frames if each is not None]
        of_map = _examine_map(prepared, parts, made, shapes, embedding, dimension.local, team)
    return Diagnosis(
        n_vertices=graph.n_vertices,
        n_edges=graph.n_edges,
        n_components=n_components,
        verdicts=judge(n_components, graph.n_edges, facts, dimension, shape_facts, of_map["map"]),
        graph=facts,
        dimension=dimension,
        shapes=shape_facts,
        curvature=curvature[prepared.representative],
        outlying=outlying,
        edges=np.column_stack((graph.sources[once], graph.indices[once])),
        **of_map,
    )


def _frame_options(embedding: Embedding | None) -> EmbeddingOptions:
    """Frames to measure with: an estimator's own, where its energy is the one measured here."""
    given = {} if embedding is None else embedding.parameters
    names = ("preset", "inner_product", "frame_size", "calibrate")
    options = resolve_options(2, **{name: given[name] for name in names if name in given})
    return options if options.inner_product == "edge" else resolve_options(2)


def _examine_map(
    prepared: PreparedGraph,
    parts: list[NeighborGraph],
    frames: list[LocalFrames],
    shapes: dict[int, Shape],
    embedding: Embedding,
    local: int,
    team: ThreadTeam,
) -> dict[str, Any]:
    """The map component by component, and what it does to every edge and vertex of the input."""
    graph, back = prepared.given, prepared.representative
    points = embedding.coordinates[prepared.firsts] / prepared.unit
    placed: BoolArray = np.asarray(np.isfinite(points).all(axis=1))
    misfit, stretch = np.full(len(points), np.nan), np.ones(points.shape)
    found: list[_Part] = []
    for c, (part, made) in enumerate(zip(parts, frames, strict=True)):
        vertices = prepared.parts[c]
        if placed[vertices].all():
            energy = edge_energy(part, made, team=team)
            at = energy.evaluate(points[vertices])
            found.append(_examine_part(energy, at, points[vertices], shapes.get(c)))
            misfit[vertices], stretch[vertices] = frame_fit(energy, at, points[vertices])
    of_rows = stretch[back] if embedding.stretch is None else embedding.stretch
    _, lengths, distortion = edge_table(graph, embedding.coordinates)
    counts = (lengths > 0.0) & ~is_edge(graph, embedding.dropped_edges)[graph.sources < graph.indices]
    facts = _map_facts(found, distortion[counts], of_rows[placed[back]], local, embedding.status)
    return {"map": facts, "edge_distortion": distortion, "misfit": misfit[back], "stretch": of_rows}


def _examine_part(energy: EdgeEnergy, at: Evaluation, coordinates: FloatArray, shape: Shape | None) -> _Part:
    """Energies of the map of one component, given in the unit of its graph and evaluated there."""
    graph, n_components = energy.graph, energy.frames.n_components
    problem = build_problem(energy)
    misfit = measure_misfit(problem, at.alignments, coordinates)
    split, best = misfit.split, misfit.split.total
    if shape is not None and n_components <= _MOST_COMPONENTS and graph.n_edges <= _MOST_EDGES:
        split = split_misfit(misfit, cell_boundaries(graph, team=energy.team))
    if shape is not None and shape.facts.kind == "flat" and shape.facts.dimension == n_components:
        assert shape.problem is not None
        assert shape.facts.relaxed is not None
        fitted = shape.facts.relaxed.total * shape.problem.mass
        distortion = edge_table(graph, coordinates)[2]
        is_kept = keeps_edges(float(np.mean(np.abs(distortion))), torn_share(distortion))
        if not is_kept and shape.problem.evaluate(coordinates[shape.vertices]).energy >= _POOR * fitted:
            _, found = minimise_from(problem, LBFGS(DEFAULT_TOL, _STEPS), "auto", DEFAULT_TOL)
            if _POOR * found.energy <= at.energy:
                best = found.energy / problem.mass
    return misfit.mass, split, best


def _map_facts(
    parts: list[_Part], distortion: FloatArray, stretch: FloatArray, local: int, status: str | None
) -> MapFacts:
    """Put the components together.

    ``distortion`` is that of the edges that count, ``stretch`` that of the vertices that were embedded;
    ``local`` is the number of directions that the data have.
    """
    known = distortion[np.isfinite(distortion)]
    known = known if len(known) else np.zeros(1)
    values = stretch[:, : min(local, stretch.shape[1])]
    values = values if len(values) else np.ones((1, 1))
    edge_low, edge_median, edge_high = np.percentile(known, (5, 50, 95)).tolist()
    low, median, high = np.percentile(values, (5, 50, 95)).tolist()
    # Energies of all components over the sum of their masses; None where one is unknown.
    mass = sum(m for m, _, _ in parts) or 1.0
    energy: dict[str, Any] = {}
    for name in (field.name for field in fields(EnergySplit)):
        each = [(m, getattr(split, name)) for m, split, _ in parts]
        energy[name] = None if any(v is None for _, v in each) else float(sum(m * v for m, v in each) / mass)
    best = sum(m * lowest for m, _, lowest in parts) / mass
    return MapFacts(
        status=status,
        energy=EnergySplit(**energy),
        edge_error=float(np.mean(np.abs(known))),
        edge_median=edge_median,
        edge_low=edge_low,
        edge_high=edge_high,
        edge_within=float(np.mean(np.abs(known) <= _WITHIN)),
        torn=torn_share(known),
        stretch_median=median,
        stretch_low=low,
        stretch_high=high,
        stretch_within=float(np.mean(np.all(np.abs(values - 1.0) <= _WITHIN, axis=1))),
        better=best if any(lowest < split.total for _, split, lowest in parts) else None,
    )
