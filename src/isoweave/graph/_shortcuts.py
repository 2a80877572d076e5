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

Graphs measured along another graph are left alone. There, most edges are exactly as long as a way over a
common neighbour; the others are edges of that graph, of which many join neighbourhoods that share nothing
(bridges, single roads), and to drop them would tear what holds the map together.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components, dijkstra, minimum_spanning_tree

from isoweave._parallel import ThreadTeam
from isoweave._typing import AnyArray, BoolArray, FloatArray, IntArray
from isoweave.engines import plain
from isoweave.engines.plain import repeat_and_count
from isoweave.graph._graph import (
    NeighborGraph,
    edges_of,
    keep_edges,
    positions_of,
    rows_by_length,
)

SUPPORT = 0.6
CHANCE = 1.5
FEWEST_COMMON = 5
DETOUR = 8.0
# A search that meets more vertices or edges than this is given up and the edge kept: where balls are that
# full (high dimension, hubs) a detour says nothing.
_MAX_SETTLED = 2000
_MAX_SCANNED = 40_000
_MAX_ROUNDS = 200
# Searches for detours that take as long in scipy as frames of the same graph.
_SEARCHES = 500
# How much more both edges of a detour must be trusted. With weights 1/d^2 this never happens: of two edges
# that form a detour of a third, one is at least half as long and has at most four times its weight.
TRUSTED_MORE = 10.0
_PAIRS_AT_ONCE, _EDGES_AT_ONCE = 1 << 22, 1 << 16
_ALL = slice(None)
_ROUNDED = 1.0 + 1e-9
# A graph is measured along another if this part of its edges, of so many looked at, are as long as a detour,
# up to the digits that a file may have lost.
_MOST_ALONG, _LOOKED_AT, _SAME_LENGTH = 0.5, 5000, 1e-5


class ShortcutRule:
    """The numbers of the filter, for other engines."""

    detour, max_settled, max_scanned, max_rounds = DETOUR, _MAX_SETTLED, _MAX_SCANNED, _MAX_ROUNDS
    most_along, looked_at, path = _MOST_ALONG, _LOOKED_AT, 1.0 - _SAME_LENGTH

    @staticmethod
    def threshold(typical: float, share: float) -> float:
        """Share below which an edge is suspect, from the median numbers of common neighbours and shares."""
        if typical < FEWEST_COMMON:
            return 0.0
        return min(SUPPORT, 1.0 - CHANCE / np.sqrt(typical)) * share


def drop_shortcuts(graph: NeighborGraph, *, team: ThreadTeam) -> tuple[NeighborGraph, IntArray]:
    """Remove shortcuts from a graph of positive lengths; see the module's docstring for the rule.

    Returns the graph without the shortcuts, the same object if there were none, and the ends i < j of the
    dropped edges, shape (s, 2). Connectivity is never lost: where supported edges leave parts of a component
    unconnected, the best supported suspects that join them are restored. Graphs with hardly any triangles
    (roads, trees, grids) have a median share of zero and are left alone, and so are those made of paths.
    """
    share = shared_neighborhood(graph, team)
    trusted = share >= _support_threshold(graph, share, team)
    suspects = np.flatnonzero(~trusted)
    suspects = suspects[graph.sources[suspects] < graph.indices[suspects]]
    if len(suspects) and _is_measured_along(graph):
        return graph, np.empty((0, 2), dtype=np.int32)
    limits = detour_limits(graph, team, suspects) if len(suspects) else graph.lengths[:0]
    n_rounds = 0
    while len(suspects):
        found = _has_detour(graph, suspects, limits, trusted, team)
        restored = suspects[found & (n_rounds < _MAX_ROUNDS)]
        if len(restored) == 0:
            restored = _rejoining_edges(graph, suspects, share, trusted)
        if len(restored) == 0:
            break
        trusted[restored] = trusted[graph.reverse[restored]] = True
        left = ~trusted[suspects]
        suspects, limits, n_rounds = suspects[left], limits[left], n_rounds + 1
    dropped = np.column_stack((graph.sources[suspects], graph.indices[suspects])).astype(np.int32)
    return keep_edges(graph, trusted) if len(suspects) else graph, dropped


def _is_measured_along(graph: NeighborGraph) -> bool:
    """Whether most edges are paths over others (:func:`isoweave.geodesic_neighbors`)."""
    edges = np.flatnonzero(graph.sources < graph.indices)
    edges = edges[:: -(-len(edges) // _LOOKED_AT)]
    return float(np.mean(are_paths(graph, edges))) > _MOST_ALONG


def are_paths(graph: NeighborGraph, edges: AnyArray) -> BoolArray:
    """Which of these edges are as long as the way over a common neighbour."""
    return graph.lengths[edges] >= ShortcutRule.path * _detours(graph, edges)


def _support_threshold(graph: NeighborGraph, share: FloatArray, team: ThreadTeam) -> float:
    """Share below which an edge is suspect: a part of the median, less where counts are too small to tell.

    A typical edge has c common neighbours; by chance alone the count varies by sqrt(c). An edge is
    suspect only if its count is also ``CHANCE`` such deviations under c.
    """
    if len(share) == 0:
        return ShortcutRule.threshold(0.0, 0.0)
    counts, degrees, sources, medians = np.empty_like(share), graph.degrees, graph.sources, [0.0, 0.0]

    def count(start: int, stop: int) -> None:
        edges = slice(start, stop)
        smaller = np.minimum(degrees[sources[edges]], degrees[graph.indices[edges]])
        np.rint(share[edges] * smaller, out=counts[edges])

    def take_median(start: int, stop: int) -> None:
        medians[start:stop] = [float(np.median(values)) for values in (counts, share)[start:stop]]

    team.run(count, len(share), grain=_EDGES_AT_ONCE)
    team.run(take_median, 2, grain=1)
    return ShortcutRule.threshold(*medians)


def shared_neighborhood(graph: NeighborGraph, team: ThreadTeam) -> FloatArray:
    """Common neighbours of the ends of every stored edge over the smaller degree, shape (m,)."""
    share = np.zeros(len(graph.indices))
    if len(share) <= plain.FEW:
        plain.common_neighbors(graph.sources, graph.indptr, graph.indices, share)
    else:
        from isoweave.engines.paths import common_neighbors

        team.run(common_neighbors, graph.n_vertices, graph.indptr, graph.indices, share)
    # The kernel leaves zeros in the other direction.
    return np.maximum(share, team.take(share, graph.reverse), out=share)


def detour_limits(graph: NeighborGraph, team: ThreadTeam, edges: AnyArray | slice = _ALL) -> FloatArray:
    """Longest detour that restores each of these edges: its length and some typical edges of its ends."""
    _, near_lengths = rows_by_length(graph, team)
    middle = np.minimum(graph.indptr[:-1] + graph.degrees // 2, len(near_lengths) - 1)
    median = np.where(graph.degrees > 0, near_lengths[middle], 0.0)
    typical = np.maximum(median[graph.sources[edges]], median[graph.indices[edges]])
    # A shorter edge counts as a typical one: not every tiny edge is a shortcut.
    return np.maximum(graph.lengths[edges], typical) + DETOUR * typical


def _has_detour(
    graph: NeighborGraph, suspects: AnyArray, limits: FloatArray, trusted: BoolArray, team: ThreadTeam
) -> BoolArray:
    """Suspects with a path of trusted edges within the limit, or with too full a ball to tell."""
    # A small graph has no ball that is too full.
    is_small = graph.n_vertices <= _MAX_SETTLED and len(graph.indices) <= _MAX_SCANNED
    sources, which = np.unique(graph.sources[suspects], return_inverse=True)
    work = len(graph.indices) * -(-len(sources) // _SEARCHES)
    if is_small and graph.lengths.min(initial=1.0) > 0.0 and plain.is_spared("paths.find_detours", work):
        paths = keep_edges(graph, trusted).to_matrix()
        lengths = dijkstra(paths, indices=sources, limit=float(limits.max(initial=0.0)))
        return np.asarray(lengths[which, graph.indices[suspects]] <= limits)
    from isoweave.engines.paths import find_detours

    found = np.empty(len(suspects), dtype=np.int8)
    ball = (suspects.astype(np.int32), limits, _MAX_SETTLED, _MAX_SCANNED)
    no_rim = np.empty(0, dtype=np.int8)
    arrays = (graph.sources, graph.indptr, graph.indices, graph.lengths, trusted, no_rim, found)
    team.run(find_detours, len(suspects), *ball, *arrays, grain=2000)
    return found > 0


def _rejoining_edges(
    graph: NeighborGraph, suspects: AnyArray, share: FloatArray, trusted: BoolArray
) -> AnyArray:
    """Suspects that join what trusted edges leave apart."""
    kept = keep_edges(graph, trusted)
    if kept.is_connected:
        return suspects[:0]
    labels = connected_components(kept.to_matrix(), directed=False)[1]
    ends = np.column_stack((labels[graph.sources[suspects]], labels[graph.indices[suspects]]))
    return suspects[rejoining_edges(ends, share[suspects], graph.lengths[suspects])]


def rejoining_edges(labels: AnyArray, share: FloatArray, lengths: FloatArray) -> AnyArray:
    """Those of some edges that join parts: the best supported first, then the shortest.

    ``labels`` (e, 2) are the numbers of the parts that the edges end in.
    """
    across = np.flatnonzero(labels[:, 0] != labels[:, 1])
    ranked = across[np.lexsort((lengths[across], -share[across]))]
    if len(ranked) == 0:
        return ranked
    # One edge per pair of parts, the first in rank; then the spanning forest of lowest ranks.
    parts, numbers = np.unique(np.sort(labels[ranked], axis=1), return_inverse=True)
    # scipy 1.12 spans trees over 32-bit indices only.
    pairs, first = np.unique(numbers.reshape(-1, 2).astype(np.int32), axis=0, return_index=True)
    joins = sp.csr_array((first + 1.0, (pairs[:, 0], pairs[:, 1])), shape=(len(parts),) * 2)
    return ranked[minimum_spanning_tree(joins).data.astype(np.int64) - 1]


def bypass_doubtful(graph: NeighborGraph, weights: FloatArray) -> NeighborGraph:
    """The graph with lengths for shortest paths: doubtful edges get that of their detour (eq. 23).

    An edge is doubtful if its ends have a common neighbour to which the edges of both have ten times its
    weight, shape (m,), or more. The shortest detour over such a neighbour replaces its length. It is an upper
    bound of the distance, which longer paths improve; a wrong length that is too small nothing would improve.
    Without a doubtful edge the same object is returned.
    """
    sources, targets = graph.sources, graph.indices
    heaviest = np.zeros(graph.n_vertices)
    np.maximum.at(heaviest, sources, weights)
    light = TRUSTED_MORE * weights <= np.minimum(heaviest[sources], heaviest[targets])
    edges = np.flatnonzero(light & (sources < targets))
    detours = _detours(graph, edges, weights)
    found = np.isfinite(detours)
    if not found.any():
        return graph
    lengths = graph.lengths.copy()
    lengths[edges[found]] = lengths[graph.reverse[edges[found]]] = detours[found]
    return graph.with_lengths(lengths)


def longer_than_detours(graph: NeighborGraph) -> BoolArray:
    """Edges that are longer than the way over a common neighbour, which no distance can be, shape (m,)."""
    edges = np.flatnonzero(graph.sources < graph.indices)
    wrong = np.zeros(len(graph.indices), dtype=bool)
    wrong[edges] = graph.lengths[edges] > _ROUNDED * _detours(graph, edges)
    return wrong | wrong[graph.reverse]


def _detours(graph: NeighborGraph, edges: AnyArray, weights: FloatArray | None = None) -> FloatArray:
    """Shortest way over a common neighbour of the ends of these edges; infinite where there is none.

    With ``weights``, over edges that are trusted ten times as much.
    """
    degrees, targets, n = graph.degrees, graph.indices, graph.n_vertices
    detours = np.full(len(edges), np.inf)
    step = max(1, _PAIRS_AT_ONCE // max(1, int(degrees.max(initial=1))))
    for lo in range(0, len(edges), step):
        chosen = edges[lo : lo + step]
        i, j = graph.sources[chosen], targets[chosen]
        # All neighbours k of i, and the edge (j, k) where there is one.
        owner, rank = repeat_and_count(degrees[i])
        to_k = graph.indptr[i][owner] + rank
        rows = edges_of(graph.indptr, np.unique(j))
        keys = graph.sources[rows].astype(np.int64) * n + targets[rows]
        from_k = positions_of(keys, j[owner].astype(np.int64) * n + targets[to_k])
        good = from_k >= 0
        from_k = rows[from_k]
        if weights is not None:
            need = TRUSTED_MORE * weights[chosen][owner]
            good &= (weights[to_k] >= need) & (weights[from_k] >= need)
        np.fmin.at(detours, lo + owner[good], graph.lengths[to_k[good]] + graph.lengths[from_k[good]])
    return detours
