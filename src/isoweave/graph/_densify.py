"""Geodesic neighbours: a denser graph with the same shortest paths."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from isoweave._parallel import ThreadTeam
from isoweave.graph._graph import NeighborGraph
from isoweave.graph._validate import graph_from_matrix


def geodesic_neighbors(graph: NeighborGraph, n_neighbors: int, *, team: ThreadTeam) -> NeighborGraph:
    """Join every vertex to the ``n_neighbors`` vertices nearest along the graph, at their path lengths.

    Frames on sparse graphs overlap in too few vertices to be turned into each other reliably; on this graph they
    overlap more. Also the way to give road networks, which have no triangles, neighbourhoods worth the name.

    Parameters
    ----------
    graph : NeighborGraph
        Positive lengths.
    n_neighbors : int
    team : ThreadTeam

    Returns
    -------
    NeighborGraph
        Union of both directions; its shortest paths have the lengths of the original ones.
    """
    from isoweave.backends import _local_mds as kernels

    n = graph.n_vertices
    width = min(n_neighbors, n - 1)
    arrays = (graph.indptr, graph.indices, graph.lengths)
    near_indices = np.empty_like(graph.indices)
    near_lengths = np.empty_like(graph.lengths)
    team.run(kernels.sort_rows_by_length, n, *arrays, near_indices, near_lengths)
    columns = np.empty((n, width), dtype=np.int32)
    distances = np.empty((n, width))
    team.run(kernels.nearest_lists, n, graph.indptr, near_indices, near_lengths, columns, distances)
    rows = np.repeat(np.arange(n, dtype=np.int32), width)
    found = columns.ravel() >= 0
    entries = (distances.ravel()[found], (rows[found], columns.ravel()[found]))
    # A path summed from its two ends may differ in the last bit.
    return graph_from_matrix(sp.coo_array(entries, shape=(n, n)), asymmetry="min")
