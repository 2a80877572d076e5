"""Diagnosis of a graph before, and of a map after solving."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from isoweave._parallel import ThreadTeam, thread_team
from isoweave._typing import BoolArray, FloatArray, IntArray
from isoweave.diagnostics._local import dimension_facts, frames_of, graph_facts, is_too_sparse
from isoweave.diagnostics._map import PartMisfit, examine_part, map_facts
from isoweave.diagnostics._prepare import Prepared, prepare
from isoweave.diagnostics._result import Diagnosis, DimensionFacts, MapFacts, ShapeFacts
from isoweave.diagnostics._shape import FEWEST_VERTICES, Shape, find_shape
from isoweave.diagnostics._source import Source, read_source
from isoweave.diagnostics._verdicts import judge
from isoweave.geometry import LocalFrames
from isoweave.graph import NeighborGraph, edge_distortion, is_edge

# Components whose shape is looked at, the largest first.
_MOST_SHAPES = 5


def diagnose(
    result: Any,
    *,
    graph: Any = None,
    n_components: int | None = None,
    shortcuts: str | bool = "auto",
    asymmetry: str = "error",
    n_jobs: int | None = None,
) -> Diagnosis:
    """Tell what a map keeps, what its graph allows, and what to do.

    Parameters
    ----------
    result : Embedding, fitted IsometricEmbedding, array of shape (n, N), or distance graph
        A map after solving (bare coordinates, by any tool, need ``graph``), or a graph alone
        (:class:`~isoweave.graph.NeighborGraph` or sparse matrix of shape (n, n)) before solving.
    graph : NeighborGraph or sparse matrix of shape (n, n), optional
        Distances to measure a map against instead of those it was made from.
    n_components : int, optional
        N, dimension of the map to be made; for a graph alone, where 2 is the default.
    shortcuts : {"auto", "drop", "keep"}
        As in :func:`isoweave.embed_graph`, where a graph is given; a result brings its own dropped edges.
    asymmetry : {"error", "max", "min", "mean"}
        What to do where the two directions of an edge of a given matrix differ.
    n_jobs : int or None
        Threads; None or -1 takes all cores. The result does not depend on it.

    Returns
    -------
    Diagnosis
        Data; ``str()`` of it is a page to read. Without a map, the parts that need one are None.

    Notes
    -----
    Frames are those of the default options (``frame_size`` and ``calibrate`` of an estimator are taken over);
    energies are measured with the edge inner product. The shape of components of more than 2,000 vertices is
    found on a sample, of which the cost hardly depends on n; docs/diagnose.md has costs and error rates.

    Examples
    --------
    >>> from isoweave import diagnose, embed_graph
    >>> from isoweave.datasets import s_curve
    >>> from isoweave.graph import knn_graph
    >>> sheet = knn_graph(s_curve(500, random_state=3).data, 10)
    >>> diagnose(sheet, n_components=2).codes
    ('flat',)
    >>> diagnose(embed_graph(sheet.to_matrix(), n_components=2)).codes
    ('isometric',)
    """
    source = read_source(result, graph, n_components, shortcuts, asymmetry)
    with thread_team(n_jobs) as team:
        return _examine(source, team)


def _examine(source: Source, team: ThreadTeam) -> Diagnosis:
    """Facts about every component, then about the map, then findings."""
    graph, n_components = source.graph, source.n_components
    prepared = prepare(graph, source.dropped, team=team)
    largest = len(prepared.parts[0].vertices)
    if 1 < largest <= n_components:
        raise ValueError(
            f"n_components={n_components} is more than the data support: the largest component has {largest} "
            f"distinct points, which span at most {largest - 1} dimensions. Lower n_components."
        )
    frames: list[LocalFrames | None] = []
    spectra: list[FloatArray] = []
    for part in prepared.embedded:
        made, spectrum = frames_of(
            part,
            n_components,
            source.frame_size,
            source.calibrate,
            with_frames=source.coordinates is not None,
            team=team,
        )
        frames.append(made)
        spectra.append(spectrum)
    dimension = dimension_facts(prepared.graph, spectra, n_components)
    facts = graph_facts(prepared, spectra, min(dimension.local, n_components), team=team)
    shapes: list[Shape] = []
    curvature = np.full(prepared.graph.n_vertices, np.nan)
    # Frames that lack directions, or have more than N, cannot be carried around.
    if dimension.local <= n_components and not is_too_sparse(facts, n_components):
        for c, part in enumerate(prepared.embedded[:_MOST_SHAPES]):
            if len(part.vertices) >= FEWEST_VERTICES:
                shape = find_shape(part.graph, dimension.local, c, team=team)
                shapes.append(shape)
                with np.errstate(over="ignore", under="ignore"):
                    curvature[part.vertices] = shape.curvature / prepared.unit / prepared.unit
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
    frames: list[LocalFrames | None],
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
    embedded: BoolArray = np.asarray(np.isfinite(points).all(axis=1))
    for c, part in enumerate(prepared.embedded):
        if not embedded[part.vertices].all():
            continue
        shape = next((s for s in shapes if s.facts.component == c), None)
        made = frames[c]
        assert made is not None
        examined = examine_part(part, made, points[part.vertices], shape, team=team)
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
    return replace(facts, curvature=facts.curvature / unit / unit)
