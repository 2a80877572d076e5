"""Geodesic neighbours: a denser graph with the same shortest paths."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from isoweave._parallel import ONE_THREAD, ThreadTeam
from isoweave.graph._graph import NeighborGraph
from isoweave.graph._order import rows_by_length
from isoweave.graph._validate import graph_from_matrix


def geodesic_neighbors(
    graph: NeighborGraph, n_neighbors: int, *, team: ThreadTeam = ONE_THREAD
) -> NeighborGraph:
    """Join every vertex to the ``n_neighbors`` vertices nearest along the graph, at their path lengths.

    Frames on sparse graphs overlap in too few vertices to be turned into each other reliably; on this
    graph they overlap more. Also the way to give road networks, which have no triangles, neighbourhoods
    worth the name.

    Parameters
    ----------
    graph : NeighborGraph
        Positive lengths.
    n_neighbors : int
    team : ThreadTeam

    Returns
    -------
    NeighborGraph
        Union of both directions and of the graph's own edges; its shortest paths have the lengths of the
        original ones.
    """
    from isoweave.engines import neighborhoods as kernels

    n = graph.n_vertices
    width = min(n_neighbors, n - 1)
    near_indices, near_lengths = rows_by_length(graph, team)
    columns = np.empty((n, width), dtype=np.int32)
    distances = np.empty((n, width))
    team.run(kernels.nearest_lists, n, graph.indptr, near_indices, near_lengths, columns, distances)
    rows = np.repeat(np.arange(n, dtype=np.int32), width)
    found = columns.ravel() >= 0
    # The graph's own edges stay: a hub has more of them than it has nearest vertices, and what hangs on one
    # long edge must not fall off.
    lengths = np.concatenate((distances.ravel()[found], graph.lengths))
    sources = np.concatenate((rows[found], graph.sources))
    targets = np.concatenate((columns.ravel()[found], graph.indices))
    # The shorter of an edge and its path; a path summed from its two ends may also differ in the last bit.
    return graph_from_matrix(sp.coo_array((lengths, (sources, targets)), shape=(n, n)), asymmetry="min")
