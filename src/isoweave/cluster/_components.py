"""Components and spanning forest of a graph in shares, in a few rounds however long its paths are."""

from __future__ import annotations

import numpy as np

from isoweave._typing import AnyArray, BoolArray
from isoweave.cluster._share import RowRanges, Share, first_of_each

_MAX_ROUNDS = 200


def smallest_members(rows: RowRanges, sources: AnyArray, ends: AnyArray) -> AnyArray:
    """For every owned vertex the smallest vertex that it is joined to, directly or through others.

    ``sources`` are owned rows, counted from the first, and ``ends`` their neighbours, both ways. The
    algorithm is FastSV (Zhang, Azad and Hu 2020): trees are hooked onto the smallest grandparent of a
    neighbour, and their paths halved.
    """
    parent, halo = rows.own, rows.halo(ends)
    grand = parent.copy()
    for _ in range(_MAX_ROUNDS):
        lowest = grand.copy()
        np.minimum.at(lowest, sources, halo.fetch(grand))
        # The parent of every vertex learns of the smallest grandparent among its neighbours.
        told = np.flatnonzero(lowest < parent)
        there, found = rows.ranks.send(rows.owner_of(parent[told]), parent[told], lowest[told])
        np.minimum(parent, lowest, out=parent)
        np.minimum.at(parent, there - rows.start, found)
        np.minimum(parent, grand, out=parent)
        new = rows.fetch(parent, parent)
        if not rows.ranks.sum(int((new != grand).any())):
            return new
        grand = new
    raise RuntimeError(f"components were not found in {_MAX_ROUNDS} rounds")


def labelled(
    rows: RowRanges, members: AnyArray, counts_as: AnyArray | None = None
) -> tuple[AnyArray, AnyArray]:
    """Component of every owned vertex, largest first, among equals by smallest vertex; and all their sizes.

    ``members`` is what :func:`smallest_members` returns; vertices where ``counts_as`` is false are in no
    component (any label). Only the list of components is on every rank.
    """
    counted = members if counts_as is None else members[counts_as]
    roots, counts = np.unique(counted, return_counts=True)
    total = np.zeros(rows.n_owned, dtype=np.int64)
    there, counts = rows.ranks.send(rows.owner_of(roots), roots, counts)
    np.add.at(total, there - rows.start, counts)
    # Roots are listed in rising order, rank after rank.
    is_root = total > 0
    found = rows.ranks.gather(total[is_root])
    sizes = np.concatenate(found)
    order = np.argsort(-sizes, kind="stable")
    number = np.empty_like(order)
    number[order] = np.arange(len(order))
    label = np.zeros_like(total)
    label[is_root] = np.split(number, np.cumsum([len(part) for part in found]))[rows.ranks.rank]
    return rows.fetch(members, label), sizes[order]


def components_of(share: Share, keep: AnyArray | None = None) -> tuple[AnyArray, AnyArray]:
    """Component of every owned vertex if only the stored edges in ``keep`` count, and the sizes of all.

    Numbered as in :func:`isoweave.graph.connected_components`. ``keep`` is the same in both directions.
    """
    kept = slice(None) if keep is None else keep
    return labelled(share, smallest_members(share, share.sources[kept], share.indices[kept]))


def spanning_edges(share: Share) -> BoolArray:
    """Owned stored edges that are in the minimum spanning forest, by Boruvka's rounds.

    Every tree takes its shortest outgoing edge (ties: the smallest ends), and trees joined in this way
    merge. Every round at least halves the number of trees.
    """
    ranks, rows, columns = share.ranks, share.sources, share.indices
    small, large = np.minimum(rows + share.start, columns), np.maximum(rows + share.start, columns)
    tree, halo, taken = share.own, share.halo(columns), np.zeros(len(rows), dtype=bool)
    while True:
        out = np.flatnonzero(tree[rows] != halo.fetch(tree))
        if not ranks.max(len(out)):
            return taken
        mine = (tree[rows[out]], share.lengths[out], small[out], large[out])
        best = first_of_each(*mine)
        found = ranks.send(share.owner_of(mine[0][best]), *(part[best] for part in mine))
        best = first_of_each(*found)
        # Their ranks hear of them at both ends.
        low, high = found[2][best], found[3][best]
        to = share.owner_of(np.concatenate((low, high)))
        here, there = ranks.send(to, np.concatenate((low, high)), np.concatenate((high, low)))
        n = share.n_vertices
        taken |= np.isin((rows + share.start) * n + columns, here * n + there)
        tree = smallest_members(share, rows[taken], columns[taken])
