"""Points at distance zero: merged in a graph, counted once in a neighbour search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from isoweave._parallel import ThreadTeam
from isoweave._typing import AnyArray, FloatArray, IntArray
from isoweave.engines.neighbors import hash_rows, hash_sparse_rows
from isoweave.graph._graph import NeighborGraph, row_starts
from isoweave.graph._validate import assemble_graph, counting_argsort


def merge_duplicates(graph: NeighborGraph) -> tuple[NeighborGraph, IntArray]:
    """Merge vertices joined by edges of length zero, directly or through others.

    Returns
    -------
    reduced : NeighborGraph
        One vertex per group of duplicates, numbered by the smallest member; the edge between two groups
        has the smallest length among their members' edges. The same object if there is nothing to merge.
    representative : int32 array of shape (n,)
        Vertex of ``reduced`` that stands for each vertex of ``graph``.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from isoweave.graph import graph_from_matrix
    >>> matrix = sp.coo_array(([0.0, 3.0, 2.0], ([0, 0, 1], [1, 2, 2])), shape=(3, 3))
    >>> reduced, representative = merge_duplicates(graph_from_matrix(matrix))
    >>> reduced.lengths, representative
    (array([2., 2.]), array([0, 0, 1], dtype=int32))
    """
    n = graph.n_vertices
    zero = graph.lengths == 0
    if not zero.any():
        return graph, np.arange(n, dtype=np.int32)
    n_groups, representative = group_pairs(n, graph.sources[zero], graph.indices[zero])
    rows, cols = representative[graph.sources], representative[graph.indices]
    # One direction is enough, and between groups only: the assembly adds the other.
    keep = rows < cols
    reduced = assemble_graph(n_groups, rows[keep], cols[keep], graph.lengths[keep], asymmetry="min")
    return reduced, representative


def group_pairs(n: int, rows: AnyArray, cols: AnyArray) -> tuple[int, IntArray]:
    """Number of groups that the pairs join ``0 .. n`` into, and the group of each, by smallest member."""
    # The values are ones because csgraph reads stored zeros differently from version to version.
    links = sp.coo_array((np.ones(len(rows), dtype=np.int8), (rows, cols)), shape=(n, n)).tocsr()
    links.data[:] = 1
    n_groups, labels = sp.csgraph.connected_components(links, directed=False)
    _, smallest = np.unique(labels, return_index=True)
    number = np.empty(n_groups, dtype=np.int32)
    number[np.argsort(smallest)] = np.arange(n_groups, dtype=np.int32)
    return int(n_groups), number[labels]


@dataclass(frozen=True, eq=False)
class PointGroups:
    """Points sorted into groups of identical ones.

    ``members`` lists the points of group 0, of group 1 and so on, each group in rising order; ``starts``,
    shape (n_groups + 1,), says where each group begins.
    """

    members: IntArray
    starts: IntArray

    @property
    def n_groups(self) -> int:
        return len(self.starts) - 1

    @property
    def first(self) -> IntArray:
        """Smallest member of each group, shape (n_groups,)."""
        return self.members[self.starts[:-1]]

    @property
    def sizes(self) -> IntArray:
        return np.diff(self.starts)


def groups_from_labels(labels: AnyArray, n_groups: int) -> PointGroups:
    """Groups of the points with equal labels in ``0 .. n_groups``."""
    order = counting_argsort(labels, n_groups).astype(np.int32, copy=False)
    return PointGroups(order, row_starts(labels, n_groups))


def group_equal_rows(features: Any, team: ThreadTeam) -> PointGroups:
    """Groups of identical rows, numbered by a hash of the row's contents.

    Numbering by contents makes whatever is done with the groups in order (trees, ties between equal
    distances, sampling) independent of the order in which the rows came. Features are a float64 array or a
    canonical CSR array without negative zeros, which have other bits than zero.
    """
    n = features.shape[0]
    hashes = np.empty(n, dtype=np.uint64)
    seed = 0
    while True:
        if sp.issparse(features):
            bits = features.data.view(np.uint64)
            team.run(hash_sparse_rows, n, bits, features.indices, features.indptr, np.uint64(seed), hashes)
        else:
            team.run(hash_rows, n, features.view(np.uint64), np.uint64(seed), hashes)
        order = np.argsort(hashes, kind="stable")
        new = np.ones(n, dtype=np.bool_)
        new[1:] = hashes[order[1:]] != hashes[order[:-1]]
        starts = np.append(np.flatnonzero(new), n).astype(np.int32)
        if _rows_agree(features, order, starts):
            return PointGroups(order.astype(np.int32), starts)
        seed += 1  # two different rows had one hash: about n^2 / 2^65 likely


def _rows_agree(features: Any, order: NDArray[np.intp], starts: IntArray) -> bool:
    sizes = np.diff(starts)
    leader = np.repeat(order[starts[:-1]], sizes)
    at = np.flatnonzero(leader != order)
    # Blocks, because a comparison of wide rows makes copies of them.
    step = max(1, 2**22 // max(1, features.shape[1]))
    for lo in range(0, len(at), step):
        a, b = features[order[at[lo : lo + step]]], features[leader[at[lo : lo + step]]]
        same = (a != b).nnz == 0 if sp.issparse(a) else np.array_equal(a.view(np.uint64), b.view(np.uint64))
        if not same:
            return False
    return True


def spread_neighbors(
    groups: PointGroups, neighbors: IntArray, distances: FloatArray, n_neighbors: int
) -> tuple[IntArray, IntArray, FloatArray]:
    """Edges between points from the nearest neighbours of their groups.

    Each point is joined to its own duplicates, up to ``n_neighbors`` of them in cyclic order, so that a
    group hangs together however large it is. It is further joined to one member at least of every
    neighbouring group, so that merging duplicates leaves the kNN graph of the distinct points, and to more
    members, nearest group first, as long as it has fewer than ``n_neighbors`` neighbours. In groups of more
    than ``n_neighbors`` points only the first is joined to other groups: thousands of duplicates would make
    hubs of their neighbours and change nothing else.

    ``neighbors`` and ``distances`` have the shape (n_groups, k), nearest first; returns the rows, columns and
    lengths of the edges.
    """
    k = neighbors.shape[1]
    if groups.n_groups == len(groups.members):
        rows = np.repeat(groups.members, k)
        return rows, groups.members[neighbors.reshape(-1)], distances.reshape(-1)
    sizes = groups.sizes
    twins = np.minimum(sizes - 1, n_neighbors)
    found = np.cumsum(sizes[neighbors], axis=1, dtype=np.int64) - sizes[neighbors]
    take = np.clip(n_neighbors - twins[:, None] - found, 1, sizes[neighbors])

    own = np.repeat(np.arange(groups.n_groups, dtype=np.int32), sizes)
    rank = np.arange(len(own), dtype=np.int32) - groups.starts[own]
    outgoing = np.flatnonzero((twins[own] < n_neighbors) | (rank == 0))
    # One line per (point, neighbouring group), then one per member taken from that group.
    line, step = _repeat_and_count(take[own[outgoing]].reshape(-1))
    point = np.repeat(outgoing, k)[line]
    other = neighbors[own[outgoing]].reshape(-1)[line]
    outer_cols = groups.members[groups.starts[other] + (rank[point] + step) % sizes[other]]
    outer_lengths = distances[own[outgoing]].reshape(-1)[line]

    twin, step = _repeat_and_count(twins[own])
    inner_cols = groups.members[groups.starts[own[twin]] + (rank[twin] + 1 + step) % sizes[own[twin]]]
    return (
        np.concatenate([groups.members[point], groups.members[twin]]),
        np.concatenate([outer_cols, inner_cols]),
        np.concatenate([outer_lengths, np.zeros(len(twin))]),
    )


def _repeat_and_count(counts: AnyArray) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Each index as often as its count says, and 0, 1, 2 ... along each run."""
    index = np.repeat(np.arange(len(counts)), counts)
    return index, np.arange(len(index)) - np.repeat(np.cumsum(counts) - counts, counts)
