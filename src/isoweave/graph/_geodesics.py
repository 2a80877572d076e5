"""Shortest paths: their lengths, and the nearest vertices along them."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from isoweave._parallel import ONE_THREAD, ThreadTeam
from isoweave._typing import AnyArray, FloatArray
from isoweave.graph._graph import NeighborGraph
from isoweave.graph._order import rows_by_length
from isoweave.graph._validate import assemble_graph


def geodesics(graph: NeighborGraph | sp.csr_array, sources: Any = None) -> FloatArray:
    """Shortest-path distances along the graph from some vertices (all by default), shape (r, n).

    Infinite between components; shape (n,) for a single vertex. Stored zeros are edges, and a matrix holds
    both directions of every edge. A path summed from its other end may differ in the last bit.
    """
    from scipy.sparse.csgraph import dijkstra

    matrix = graph.to_matrix() if isinstance(graph, NeighborGraph) else graph
    distances: FloatArray = dijkstra(matrix, indices=sources)
    return distances


def geodesics_from(graph: NeighborGraph, sources: AnyArray, *, team: ThreadTeam = ONE_THREAD) -> FloatArray:
    """As :func:`geodesics`, on the threads of a team; sources int32 of shape (r,)."""
    from isoweave.engines import paths as kernels

    distances = np.empty((len(sources), graph.n_vertices))
    arrays = (sources, graph.indptr, graph.indices, graph.lengths, distances)
    team.run(kernels.geodesics_from, len(sources), *arrays, grain=1)
    return distances


def geodesic_neighbors(
    graph: NeighborGraph, n_neighbors: int, *, team: ThreadTeam = ONE_THREAD
) -> NeighborGraph:
    """Join every vertex to the ``n_neighbors`` vertices nearest along the graph, at their path lengths.

    Frames on sparse graphs overlap in too few vertices to be aligned with each other reliably; on this
    graph they overlap more. Also the way to give road networks, which have no triangles, neighbourhoods
    worth the name. The graph, of positive lengths, keeps its edges, and shortest paths keep their lengths.
    """
    sources, targets, lengths = nearest_entries(graph, n_neighbors, team=team)
    # The graph's own edges stay: a hub has more of them than it has nearest vertices, and what hangs on one
    # long edge must not fall off.
    lengths = np.concatenate((lengths, graph.lengths))
    sources = np.concatenate((sources, graph.sources))
    targets = np.concatenate((targets, graph.indices))
    # The shorter of an edge and its path; a path summed from its two ends may also differ in the last bit.
    return assemble_graph(graph.n_vertices, sources, targets, lengths, asymmetry="min", rtol=1e-6)


def nearest_entries(
    graph: NeighborGraph, n_neighbors: int, *, team: ThreadTeam = ONE_THREAD
) -> tuple[AnyArray, AnyArray, FloatArray]:
    """Every vertex with those nearest to it along the graph, and the lengths of the paths."""
    from isoweave.engines import neighborhoods as kernels

    n = graph.n_vertices
    width = min(n_neighbors, n - 1)
    near_indices, near_lengths = rows_by_length(graph, team)
    columns = np.empty((n, width), dtype=np.int32)
    distances = np.empty((n, width))
    team.run(kernels.nearest_lists, n, graph.indptr, near_indices, near_lengths, columns, distances)
    found = columns.ravel() >= 0
    rows = np.repeat(np.arange(n, dtype=np.int32), width)
    return rows[found], columns.ravel()[found], distances.ravel()[found]
