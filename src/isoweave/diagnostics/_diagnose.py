"""Diagnosis of a graph before, and of a map after solving."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from isoweave._parallel import ThreadTeam, thread_team
from isoweave._typing import FloatArray, IntArray
from isoweave._validation import check_integer
from isoweave.diagnostics._local import dimension_facts, frames_of, graph_facts, suspicious_edges
from isoweave.diagnostics._map import PartMisfit, edge_distortion, examine_part, map_facts
from isoweave.diagnostics._prepare import Prepared, is_edge, prepare
from isoweave.diagnostics._result import Diagnosis, DimensionFacts, MapFacts, ShapeFacts
from isoweave.diagnostics._shape import FEWEST_VERTICES, Shape, find_shape
from isoweave.diagnostics._source import Source, read_source
from isoweave.diagnostics._verdicts import judge
from isoweave.frames import LocalFrames
from isoweave.graph import NeighborGraph, graph_from_matrix

# Components whose shape is looked at, the largest first.
_MOST_SHAPES = 5


def diagnose(result: Any, *, graph: Any = None, n_jobs: int | None = None) -> Diagnosis:
    """Tell what a map keeps, what its graph allows, and what to do.

    Parameters
    ----------
    result : Embedding, fitted IsometricEmbedding, or array of shape (n, N)
        Coordinates alone, by any tool, need ``graph``.
    graph : NeighborGraph or sparse matrix of shape (n, n), optional
        Distances to measure against instead of those the map was made from. Its shortcuts are looked for
        anew.
    n_jobs : int or None
        Threads; None or -1 takes all cores. The result does not depend on it.

    Returns
    -------
    Diagnosis

    Notes
    -----
    Frames are those of the default options (``frame_size`` and ``calibrate`` of an estimator are taken over),
    energies are measured with the edge inner product. Takes about as long as the embedding; the shape of
    components of more than 2,000 vertices is found on a sample.

    Examples
    --------
    >>> from isoweave import embed_graph
    >>> from isoweave.datasets import swiss_roll
    >>> from isoweave.diagnostics import diagnose
    >>> from isoweave.graph import knn_graph
    >>> roll = knn_graph(swiss_roll(500, random_state=3).data, 10)
    >>> diagnose(embed_graph(roll, n_components=2)).codes
    ('isometric',)
    """
    source = read_source(result, graph)
    with thread_team(n_jobs) as team:
        return _examine(source, team)


def diagnose_graph(
    graph: Any,
    n_components: int = 2,
    *,
    shortcuts: str | bool = "auto",
    asymmetry: str = "error",
    n_jobs: int | None = None,
) -> Diagnosis:
    """Tell what a distance graph allows before it is embedded.

    Parameters
    ----------
    graph : NeighborGraph or sparse matrix of shape (n, n)
    n_components : int
        N, dimension of the map to be made.
    shortcuts : {"auto", "drop", "keep"}
        As in :func:`isoweave.embed_graph`.
    asymmetry : {"error", "max", "min", "mean"}
        What to do where the two directions of an edge differ.
    n_jobs : int or None

    Returns
    -------
    Diagnosis
        Without the parts that need a map.
    """
    n_components = check_integer("n_components", n_components, minimum=1)
    if shortcuts not in ("auto", "drop", "keep", True, False):
        raise ValueError(f"shortcuts must be 'auto', 'drop' or 'keep', got {shortcuts!r}.")
    keep = shortcuts in ("keep", False)
    checked = graph_from_matrix(graph, asymmetry=asymmetry)
    dropped = np.empty((0, 2), dtype=np.int32) if keep else None
    source = Source(checked, n_components, None, None, dropped, None, "auto", "rows")
    with thread_team(n_jobs) as team:
        return _examine(source, team)


def _examine(source: Source, team: ThreadTeam) -> Diagnosis:
    """Facts about every component, then about the map, then findings."""
    graph, n_components = source.graph, source.n_components
    prepared = prepare(graph, source.dropped, team=team)
    frames: list[LocalFrames] = []
    spectra: list[FloatArray] = []
    embedded = [part for part in prepared.parts if len(part.vertices) > 1]
    for part in embedded:
        made, spectrum = frames_of(part, n_components, source.frame_size, source.calibrate, team=team)
        frames.append(made)
        spectra.append(spectrum)
    dimension = dimension_facts(prepared.graph, spectra, n_components)
    shapes: list[Shape] = []
    curvature = np.full(prepared.graph.n_vertices, np.nan)
    n_suspicious = 0
    for c, part in enumerate(embedded[:_MOST_SHAPES]):
        if len(part.vertices) >= FEWEST_VERTICES:
            shape = find_shape(part.graph, min(dimension.local, n_components), c, team=team)
            shapes.append(shape)
            curvature[part.vertices] = shape.curvature / prepared.unit**2
            n_suspicious += len(suspicious_edges(part, shape))
    facts = graph_facts(prepared, spectra, n_components, n_suspicious, team=team)
    edges, lengths = _undirected(graph)
    found, distortion, stretch = None, None, None
    if source.coordinates is not None:
        distortion = edge_distortion(edges, lengths, source.coordinates)
        counts = lengths > 0.0
        if source.dropped is not None and len(source.dropped):
            counts &= ~is_edge(graph, source.dropped)[graph.sources < graph.indices]
        found, stretch = _examine_map(source, prepared, frames, shapes, distortion[counts], dimension, team)
    shape_facts = tuple(_in_users_unit(s.facts, prepared.unit) for s in shapes)
    return Diagnosis(
        n_vertices=graph.n_vertices,
        n_edges=graph.n_edges,
        n_components=n_components,
        verdicts=judge(n_components, graph.n_edges, facts, dimension, shape_facts, found),
        graph=facts,
        dimension=dimension,
        shapes=shape_facts,
        map=found,
        curvature=curvature[prepared.representative],
        edges=edges,
        edge_distortion=distortion,
        stretch=stretch,
    )


def _examine_map(
    source: Source,
    prepared: Prepared,
    frames: list[LocalFrames],
    shapes: list[Shape],
    distortion: FloatArray,
    dimension: DimensionFacts,
    team: ThreadTeam,
) -> tuple[MapFacts, FloatArray]:
    """Energy of the map component by component, and the stretch of every vertex of the input."""
    assert source.coordinates is not None
    points = source.coordinates[prepared.firsts] / prepared.unit
    found: list[PartMisfit] = []
    stretch = np.ones((len(points), source.n_components))
    embedded = ~np.isnan(points).any(axis=1)
    for c, part in enumerate(p for p in prepared.parts if len(p.vertices) > 1):
        if not embedded[part.vertices].all():
            continue
        shape = next((s for s in shapes if s.facts.component == c), None)
        examined = examine_part(part, frames[c], points[part.vertices], shape, team=team)
        found.append(examined)
        stretch[part.vertices] = examined.stretch
    stretch = stretch[prepared.representative] if source.stretch is None else source.stretch
    here = embedded[prepared.representative]
    return map_facts(found, distortion, stretch[here], dimension.local, source.status), stretch


def _undirected(graph: NeighborGraph) -> tuple[IntArray, FloatArray]:
    """Ends i < j of every edge in the order of the rows, shape (E, 2), and their lengths."""
    once = graph.sources < graph.indices
    return np.column_stack((graph.sources[once], graph.indices[once])), graph.lengths[once]


def _in_users_unit(facts: ShapeFacts, unit: float) -> ShapeFacts:
    if facts.curvature is None:
        return facts
    return replace(facts, curvature=facts.curvature / unit**2)
