"""Shortest paths."""

from __future__ import annotations

from typing import Any

import scipy.sparse as sp

from isoweave._typing import FloatArray
from isoweave.graph._graph import NeighborGraph


def geodesics(graph: NeighborGraph | sp.csr_array, sources: Any = None) -> FloatArray:
    """Shortest-path distances along the graph, infinite between components.

    Parameters
    ----------
    graph : NeighborGraph or csr_array of shape (n, n)
        Stored zeros are edges. A matrix holds both directions of every edge.
    sources : int or integer array of shape (r,), optional
        Vertices the paths start from; all by default.

    Returns
    -------
    array of shape (r, n)
        (n,) for a single vertex. A path summed from its other end may differ in the last bit.
    """
    from scipy.sparse.csgraph import dijkstra

    matrix = graph.to_matrix() if isinstance(graph, NeighborGraph) else graph
    distances: FloatArray = dijkstra(matrix, indices=sources)
    return distances
