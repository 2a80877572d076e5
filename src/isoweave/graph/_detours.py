"""Edges of little confidence: paths go round them."""

from __future__ import annotations

import numpy as np

from isoweave._typing import FloatArray
from isoweave.graph._graph import NeighborGraph

# How much more both edges of a detour must be trusted. With weights 1/d^2 this never happens: of two edges
# that go round a third, one is at least half as long and has at most four times its weight.
TRUSTED_MORE = 10.0
_PAIRS_AT_ONCE = 1 << 22


def bypass_doubtful(graph: NeighborGraph, weights: FloatArray) -> NeighborGraph:
    """The graph with lengths for shortest paths: doubtful edges get that of the way round (eq. 23).

    An edge is doubtful if its ends have a common neighbour to which the edges of both weigh ten times as much
    or more. The shortest detour over such a neighbour takes the place of its length. It is an upper bound of
    the distance, which longer paths improve; a wrong length that is too small nothing would improve.

    Parameters
    ----------
    graph : NeighborGraph
    weights : float64 array of shape (m,)
        Confidence of every stored edge, positive, the same in both directions.

    Returns
    -------
    NeighborGraph
        With the same pattern; the same object if there is no doubtful edge.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> from isoweave.graph import graph_from_matrix
    >>> graph = graph_from_matrix(sp.csr_array(np.array([[0, 3, 1.0], [3, 0, 4], [1, 4, 0]])))
    >>> bypass_doubtful(graph, np.array([1.0, 0.01, 1.0, 1.0, 0.01, 1.0])).to_matrix().toarray()
    array([[0., 3., 7.],
           [3., 0., 4.],
           [7., 4., 0.]])
    """
    sources, targets, degrees = graph.sources, graph.indices, graph.degrees
    heaviest = np.zeros(graph.n_vertices)
    np.maximum.at(heaviest, sources, weights)
    light = TRUSTED_MORE * weights <= np.minimum(heaviest[sources], heaviest[targets])
    edges = np.flatnonzero(light & (sources < targets))
    if len(edges) == 0:
        return graph
    n = graph.n_vertices
    keys = sources.astype(np.int64) * n + targets
    detours = np.full(len(edges), np.inf)
    step = max(1, _PAIRS_AT_ONCE // max(1, int(degrees.max())))
    for lo in range(0, len(edges), step):
        chosen = edges[lo : lo + step]
        i, j = sources[chosen], targets[chosen]
        # All neighbours k of i, and the edge (j, k) where there is one.
        owner = np.repeat(np.arange(len(chosen)), degrees[i])
        first = np.arange(len(owner)) - np.repeat(np.cumsum(degrees[i]) - degrees[i], degrees[i])
        to_k = graph.indptr[i][owner] + first
        wanted = j[owner].astype(np.int64) * n + targets[to_k]
        from_k = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        need = TRUSTED_MORE * weights[chosen][owner]
        good = (keys[from_k] == wanted) & (weights[to_k] >= need) & (weights[from_k] >= need)
        lengths = graph.lengths[to_k[good]] + graph.lengths[from_k[good]]
        np.minimum.at(detours, lo + owner[good], lengths)
    found = np.isfinite(detours)
    if not found.any():
        return graph
    lengths = graph.lengths.copy()
    lengths[edges[found]] = detours[found]
    lengths[graph.reverse[edges[found]]] = detours[found]
    return NeighborGraph(graph.indptr, graph.indices, lengths)
