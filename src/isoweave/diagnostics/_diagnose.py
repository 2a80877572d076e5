"""Diagnosis of a graph before, and of a map after solving."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from isoweave._parallel import ThreadTeam, thread_team
from isoweave._typing import AnyArray, BoolArray
from isoweave._validation import check_integer
from isoweave.diagnostics._local import dimension_facts, frames_of, graph_facts, is_too_sparse
from isoweave.diagnostics._map import PartMisfit, examine_part, map_facts
from isoweave.diagnostics._measure import edge_table
from isoweave.diagnostics._result import Diagnosis
from isoweave.diagnostics._shape import FEWEST_VERTICES, Shape, find_shape
from isoweave.diagnostics._verdicts import judge
from isoweave.energy import edge_energy
from isoweave.geometry import LocalFrames
from isoweave.graph import NeighborGraph, PreparedGraph, graph_from_matrix, is_edge, prepare_graph
from isoweave.options import resolve_options
from isoweave.result import Embedding, as_embedding

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
    """Find out what a map keeps, what its graph allows, and what to do.

    Parameters
    ----------
    result : Embedding, fitted estimator, file of one, array of shape (n, N), or distance graph
        A map after solving (maps by other tools need ``graph``), or a graph alone
        (:class:`~isoweave.graph.NeighborGraph` or sparse matrix of shape (n, n)) before solving.
    graph : NeighborGraph or sparse matrix of shape (n, n), optional
        Distances to measure a map against instead of those it was made from.
    n_components : int, optional
        N, dimension of the map to be made; for a graph alone, where 2 is the default.
    shortcuts : {"auto", "drop", "keep"}
        As in :func:`isoweave.embed_graph`, where a graph is given; a result has its own dropped edges.
    asymmetry : {"error", "max", "min", "mean"}
        What to do where the two directions of an edge of a given matrix differ.
    n_jobs : int or None
        Threads; None and -1 use all cores. The result does not depend on it.

    Returns
    -------
    Diagnosis
        Data; ``str()`` of it is a page to read. Without a map, the parts that need one are None.

    Notes
    -----
    Frames are those of the default options (``frame_size`` and ``calibrate`` of an estimator are taken over);
    energies are measured with the edge inner product. The shape of components of more than 2,000 vertices is
    found on a sample, at a cost that hardly depends on n; docs/diagnose.md has costs and error rates.

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
    options = _frame_options(embedding)
    with_frames = embedding is not None
    frames = [frames_of(part, n_components, **options, with_frames=with_frames, team=team) for part in parts]
    spectra = [spectrum for _, spectrum in frames]
    dimension = dimension_facts(prepared.graph, spectra, n_components)
    facts = graph_facts(prepared, spectra, min(dimension.local, n_components), team=team)
    shapes: dict[int, Shape] = {}
    curvature = np.full(prepared.graph.n_vertices, np.nan)
    # Frames that lack directions, or have more than N, cannot be carried around.
    if dimension.local <= n_components and not is_too_sparse(facts, n_components):
        for c, part in enumerate(parts[:_MOST_SHAPES]):
            if part.n_vertices >= FEWEST_VERTICES:
                shapes[c] = find_shape(part, dimension.local, c, prepared.unit, team=team)
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
        edges=np.column_stack((graph.sources[once], graph.indices[once])),
        **of_map,
    )


def _frame_options(embedding: Embedding | None) -> dict[str, Any]:
    """Frames to measure with: an estimator's own, where its energy is the one measured here."""
    given = {} if embedding is None else embedding.parameters
    names = ("preset", "inner_product", "frame_size", "calibrate")
    options = resolve_options(2, **{name: given[name] for name in names if name in given})
    if options.inner_product != "edge":
        options = resolve_options(2)
    return {"frame_size": options.frame_size, "calibrate": options.calibrate}


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
    found: list[PartMisfit] = []
    for c, (part, made) in enumerate(zip(parts, frames, strict=True)):
        vertices = prepared.parts[c]
        if placed[vertices].all():
            energy = edge_energy(part, made, team=team)
            found.append(examine_part(energy, points[vertices], shapes.get(c)))
            misfit[vertices], stretch[vertices] = found[-1].vertex_misfit, found[-1].stretch
    of_rows = stretch[back] if embedding.stretch is None else embedding.stretch
    _, lengths, distortion = edge_table(graph, embedding.coordinates)
    counts = (lengths > 0.0) & ~is_edge(graph, embedding.dropped_edges)[graph.sources < graph.indices]
    facts = map_facts(found, distortion[counts], of_rows[placed[back]], local, embedding.status)
    return {"map": facts, "edge_distortion": distortion, "misfit": misfit[back], "stretch": of_rows}
