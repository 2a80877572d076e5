"""Diagnosis of a graph before, and of a map after solving: what is measured, and in what order."""

from __future__ import annotations

import warnings
from dataclasses import fields, replace
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
    frame_dimension,
    frame_fit,
    frames_of,
    graph_facts,
    is_too_sparse,
    torn_share,
)
from isoweave.diagnostics._hodge import cell_boundaries, measure_misfit, split_misfit
from isoweave.diagnostics._shape import FEWEST_VERTICES, Shape, find_shape
from isoweave.diagnostics._verdicts import judge, keeps_edges
from isoweave.embed import embed
from isoweave.energy import EdgeEnergy, Evaluation, edge_energy
from isoweave.geometry import LocalFrames
from isoweave.graph import (
    NeighborGraph,
    PreparedGraph,
    geodesics_from,
    graph_from_matrix,
    is_edge,
    prepare_graph,
)
from isoweave.optimise import build_problem, sample_vertices
from isoweave.options import EmbeddingOptions, resolve_options
from isoweave.result import Embedding, as_embedding

# Of the map of one component: energy of the collapsed map, relative energies, and the least one known.
_Part = tuple[float, EnergySplit, float]

# Components whose shape is looked at, the largest first.
_MOST_SHAPES = 5
# Up to this many edges and dimensions curl and loops are separated.
_MOST_EDGES, _MOST_COMPONENTS = 30_000, 3
_WITHIN = 0.1
# A map whose energy can be divided by this is a poor one.
_POOR = 1.5
# Coordinates of a map in units of the median length: beyond, squares of squares overflow.
_LARGEST = 1e75
# Vertices that long distances are measured from, fewer where there would be too many distances.
_SOURCES, _FEWEST_SOURCES, _MOST_PATHS = 30, 5, 10_000_000


def diagnose(
    result: Any,
    *,
    graph: Any = None,
    n_components: int | None = None,
    n_neighbors: int | None = None,
    along_graph: int | None = None,
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
    n_neighbors : int, optional
        With which the graph was made from features, for advice that can name a better value.
    along_graph, shortcuts, asymmetry, n_jobs
        As in :func:`isoweave.embed_graph`, for a graph that is given; a result has its own.

    Returns
    -------
    Diagnosis
        Data; ``str()`` of it is a page to read. Without a map, the parts that need one are None. Frames are
        those of the default options (``frame_size`` and ``calibrate`` of an estimator are taken over);
        energies are measured with the edge inner product. docs/diagnose.md has costs and error rates.
    """
    options = resolve_options(2, shortcuts=shortcuts, along_graph=along_graph)
    dropped: bool | AnyArray = options.shortcuts == "drop"
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
        made = embedding.parameters
        along_graph = made.get("along_graph") if along_graph is None else along_graph
        if "along_graph" in made and made.get("metric", "precomputed") != "precomputed":
            n_neighbors = made["n_neighbors"]
    with thread_team(n_jobs) as team:
        prepared = prepare_graph(given, dropped, along=along_graph, team=team)
        found = _examine(prepared, embedding, n_components or 2, n_neighbors, team)
    return found


def _examine(
    prepared: PreparedGraph,
    embedding: Embedding | None,
    n_components: int,
    n_neighbors: int | None,
    team: ThreadTeam,
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
    n_directions = frame_dimension(facts, dimension, n_components)
    if dimension.local <= n_components and not is_too_sparse(facts, n_directions):
        for c, part in enumerate(parts[:_MOST_SHAPES]):
            if part.n_vertices >= FEWEST_VERTICES:
                shapes[c] = find_shape(part, dimension.local, c, prepared.unit, team)
                curvature[prepared.parts[c]] = shapes[c].curvature
    once = graph.sources < graph.indices
    of_map: dict[str, Any] = {"map": None}
    if embedding is not None:
        made = [each for each, _ in frames if each is not None]
        of_map = _examine_map(prepared, parts, made, shapes, embedding, dimension.local, team)
    found = Diagnosis(
        n_vertices=graph.n_vertices,
        n_edges=graph.n_edges,
        n_components=n_components,
        verdicts=(),
        graph=facts,
        dimension=dimension,
        shapes=tuple(shape.facts for shape in shapes.values()),
        curvature=curvature[prepared.representative],
        outlying=outlying,
        edges=np.column_stack((graph.sources[once], graph.indices[once])),
        from_features=n_neighbors is not None,
        **of_map,
    )
    return replace(found, verdicts=judge(found, n_neighbors))


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
    with np.errstate(over="ignore"):
        points = embedding.coordinates[prepared.firsts] / prepared.unit
    largest = float(np.nanmax(np.abs(points), initial=0.0))
    if largest > _LARGEST:
        raise ValueError(
            f"The map has coordinates of {largest:.3g} times the median distance, over {_LARGEST:g}: one "
            "of its numbers is wrong, or it is in another unit than the distances."
        )
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
    if parts and placed[prepared.parts[0]].all():
        facts = replace(facts, paths=_path_correlation(parts[0], points[prepared.parts[0]], team))
    return {"map": facts, "edge_distortion": distortion, "misfit": misfit[back], "stretch": of_rows}


def _path_correlation(graph: NeighborGraph, points: FloatArray, team: ThreadTeam) -> float | None:
    """Correlation of distances in the map with paths from some vertices far from each other."""
    n_sources = min(graph.n_vertices, max(_FEWEST_SOURCES, min(_SOURCES, _MOST_PATHS // graph.n_vertices)))
    sources = sample_vertices(graph, n_sources, team=team)
    paths = geodesics_from(graph, sources, team=team)
    straight = np.array([np.linalg.norm(points - points[i], axis=1) for i in sources])
    apart = paths > 0.0
    if np.ptp(paths[apart]) == 0.0 or np.ptp(straight[apart]) == 0.0:
        return None
    return float(np.corrcoef(paths[apart], straight[apart])[0, 1])


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
            # What start="auto" would give is told by doing it.
            options = resolve_options(n_components, shortcuts="keep", n_jobs=energy.team.n_threads)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                other = embed(graph, options).coordinates
            left = energy.evaluate(other).energy
            lower = np.mean(np.abs(edge_table(graph, other)[2])) < np.mean(np.abs(distortion))
            if lower and _POOR * left <= at.energy:
                best = left / problem.mass
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
        paths=None,
        better=best if any(lowest < split.total for _, split, lowest in parts) else None,
    )
