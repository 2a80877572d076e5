"""The shortcut filter: edges that jump between parts of the data which are far apart along it.

An edge is dropped when two things hold.

1. *Unsupported*: its ends share far fewer neighbours than the ends of a typical edge do.
2. *Long detour*: no chain of supported edges joins its ends that is longer than the edge by no more
   than ``DETOUR`` typical edges.

Edges that fail only the first test are restored, and then count as supported for the next round, until
nothing changes. Restoring round by round fills the gaps that setting edges aside has torn: a hole of
the sampling closes from its rim inwards, while the two sheets a shortcut joins stay far apart however
much is restored.

Why 0.6 and 8. Two balls at the distance of their own radius still share 39 % of their area in the plane,
while the ends of a shortcut share other shortcuts only; 0.6 of the median lies between. Eight means: an edge
that closes a loop of ten typical edges or fewer is a hole of the sampling. Counting in typical edges and not
in multiples of the edge finds long shortcuts too, whose detour is only a few times their own length.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree

from isoweave._parallel import ThreadTeam
from isoweave._typing import AnyArray, BoolArray, FloatArray, IntArray
from isoweave.graph._graph import NeighborGraph, edge_keys, keep_edges, positions_of
from isoweave.graph._order import rows_by_length

SUPPORT = 0.6
CHANCE = 1.5
FEWEST_COMMON = 5
DETOUR = 8.0
# A search that meets more vertices or edges than this is given up and the edge kept: where balls are that
# full (high dimension, hubs) a detour says nothing.
_MAX_SETTLED = 2000
_MAX_SCANNED = 40_000
_MAX_ROUNDS = 200
# How much more both edges of a detour must be trusted. With weights 1/d^2 this never happens: of two edges
# that form a detour of a third, one is at least half as long and has at most four times its weight.
TRUSTED_MORE = 10.0
_PAIRS_AT_ONCE = 1 << 22


@dataclass(frozen=True, eq=False)
class ShortcutReport:
    """What the filter did.

    Attributes
    ----------
    graph : NeighborGraph
        The graph without the shortcuts; the same object if there were none.
    dropped : int32 array of shape (s, 2)
        Ends i < j of the dropped edges, sorted.
    n_suspects : int
        Undirected edges that failed the first test.
    """

    graph: NeighborGraph
    dropped: IntArray
    n_suspects: int


def drop_shortcuts(graph: NeighborGraph, *, team: ThreadTeam) -> ShortcutReport:
    """Remove short-circuits from a graph of positive lengths; see the module's docstring for the rule.

    Connectivity is never lost: where supported edges leave parts of a component unconnected, the best
    supported suspects that join them are restored. Graphs with hardly any triangles (roads, trees, grids)
    have a median share of zero and are left alone. Cost is O(edges) for bounded degrees.
    """
    nothing = ShortcutReport(graph, np.empty((0, 2), dtype=np.int32), 0)
    if graph.n_edges == 0:
        return nothing
    share = shared_neighborhood(graph, team)
    trusted = share >= _support_threshold(graph, share)
    n_suspects = int(np.count_nonzero(~trusted)) // 2
    if n_suspects == 0:
        return nothing
    limits = _detour_limits(graph, team)
    forward = graph.sources < graph.indices
    for attempt in range(_MAX_ROUNDS + 1):
        suspects = np.flatnonzero(~trusted & forward)
        if len(suspects) == 0:
            return ShortcutReport(graph, nothing.dropped, n_suspects)
        restored = suspects[:0]
        if attempt < _MAX_ROUNDS:
            restored = suspects[_has_detour(graph, suspects, limits[suspects], trusted, team)]
        if len(restored) == 0:
            restored = _reconnecting(graph, suspects, share, trusted)
        if len(restored) == 0:
            break
        trusted[restored] = True
        trusted[graph.reverse[restored]] = True
    suspects = np.flatnonzero(~trusted & forward)
    dropped = np.column_stack((graph.sources[suspects], graph.indices[suspects])).astype(np.int32)
    return ShortcutReport(keep_edges(graph, trusted), dropped, n_suspects)


def _support_threshold(graph: NeighborGraph, share: FloatArray) -> float:
    """Share below which an edge is suspect: a part of the median, less where counts are too small to tell.

    A typical edge has c common neighbours; by chance alone the count varies by sqrt(c). An edge is
    suspect only if its count is also ``CHANCE`` such deviations under c.
    """
    smaller = np.minimum(graph.degrees[graph.sources], graph.degrees[graph.indices])
    typical = float(np.median(np.rint(share * smaller)))
    if typical < FEWEST_COMMON:
        return 0.0
    return min(SUPPORT, 1.0 - CHANCE / np.sqrt(typical)) * float(np.median(share))


def shared_neighborhood(graph: NeighborGraph, team: ThreadTeam) -> FloatArray:
    """Common neighbours of the ends of every stored edge over the smaller degree, shape (m,)."""
    from isoweave.engines import paths as kernels

    share = np.zeros(len(graph.indices))
    team.run(kernels.common_neighbors, graph.n_vertices, graph.indptr, graph.indices, share)
    forward = graph.sources < graph.indices
    share[graph.reverse[forward]] = share[forward]
    return share


def _detour_limits(graph: NeighborGraph, team: ThreadTeam) -> FloatArray:
    """Longest detour that restores each stored edge: its length and some typical edges of its ends.

    An edge shorter than those counts as one of them: not every tiny edge is a shortcut.
    """
    _, near_lengths = rows_by_length(graph, team)
    middle = np.minimum(graph.indptr[:-1] + graph.degrees // 2, len(near_lengths) - 1)
    median = np.where(graph.degrees > 0, near_lengths[middle], 0.0)
    typical = np.maximum(median[graph.sources], median[graph.indices])
    limits: FloatArray = np.maximum(graph.lengths, typical) + DETOUR * typical
    return limits


def _has_detour(
    graph: NeighborGraph, suspects: AnyArray, limits: FloatArray, trusted: BoolArray, team: ThreadTeam
) -> BoolArray:
    """Suspects with a path of trusted edges within the limit, or with too full a ball to tell."""
    from isoweave.engines import paths as kernels

    found = np.empty(len(suspects), dtype=np.int8)
    team.run(
        kernels.find_detours,
        len(suspects),
        suspects.astype(np.int32),
        limits,
        _MAX_SETTLED,
        _MAX_SCANNED,
        graph.sources,
        graph.indptr,
        graph.indices,
        graph.lengths,
        trusted,
        found,
        grain=2000,
    )
    return found > 0


def _reconnecting(
    graph: NeighborGraph, suspects: AnyArray, share: FloatArray, trusted: BoolArray
) -> AnyArray:
    """Suspects that join what trusted edges leave apart: the best supported first, then the shortest."""
    n = graph.n_vertices
    matrix = sp.csr_array(
        (np.ones(np.count_nonzero(trusted)), (graph.sources[trusted], graph.indices[trusted])), shape=(n, n)
    )
    n_parts, labels = connected_components(matrix, directed=False)
    ranked = suspects[np.lexsort((graph.lengths[suspects], -share[suspects]))]
    a, b = labels[graph.sources[ranked]], labels[graph.indices[ranked]]
    low, high = np.minimum(a, b), np.maximum(a, b)
    across = low != high
    # One edge per pair of parts, the first in rank; then the spanning forest of lowest ranks.
    keys, first = np.unique((low.astype(np.int64) * n_parts + high)[across], return_index=True)
    chosen = np.flatnonzero(across)[first]
    # scipy 1.12 wants the indices of csgraph's input in 32 bits.
    ends = ((keys // n_parts).astype(np.int32), (keys % n_parts).astype(np.int32))
    parts = sp.csr_array((chosen + 1.0, ends), shape=(n_parts, n_parts))
    return ranked[minimum_spanning_tree(parts).data.astype(np.int64) - 1]


def bypass_doubtful(graph: NeighborGraph, weights: FloatArray) -> NeighborGraph:
    """The graph with lengths for shortest paths: doubtful edges get that of their detour (eq. 23).

    An edge is doubtful if its ends have a common neighbour to which the edges of both weigh ten times as much
    or more. The shortest detour over such a neighbour takes the place of its length. It is an upper bound of
    the distance, which longer paths improve; a wrong length that is too small nothing would improve.

    ``weights``, shape (m,), is the positive confidence of every stored edge, the same in both directions.
    Without a doubtful edge the same object is returned.

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
    keys = edge_keys(graph)
    detours = np.full(len(edges), np.inf)
    step = max(1, _PAIRS_AT_ONCE // max(1, int(degrees.max())))
    for lo in range(0, len(edges), step):
        chosen = edges[lo : lo + step]
        i, j = sources[chosen], targets[chosen]
        # All neighbours k of i, and the edge (j, k) where there is one.
        owner = np.repeat(np.arange(len(chosen)), degrees[i])
        first = np.arange(len(owner)) - np.repeat(np.cumsum(degrees[i]) - degrees[i], degrees[i])
        to_k = graph.indptr[i][owner] + first
        from_k = positions_of(keys, j[owner].astype(np.int64) * graph.n_vertices + targets[to_k])
        need = TRUSTED_MORE * weights[chosen][owner]
        good = (from_k >= 0) & (weights[to_k] >= need) & (weights[from_k] >= need)
        lengths = graph.lengths[to_k[good]] + graph.lengths[from_k[good]]
        np.minimum.at(detours, lo + owner[good], lengths)
    found = np.isfinite(detours)
    if not found.any():
        return graph
    lengths = graph.lengths.copy()
    lengths[edges[found]] = detours[found]
    lengths[graph.reverse[edges[found]]] = detours[found]
    return NeighborGraph(graph.indptr, graph.indices, lengths)
