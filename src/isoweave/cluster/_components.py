"""Connected components of a graph in shares, in a few rounds however long its paths are."""

from __future__ import annotations

import numpy as np

from isoweave._typing import AnyArray
from isoweave.cluster._share import Halo, Ranks, Share, fetch

_MAX_ROUNDS = 200


def smallest_members(ranks: Ranks, offsets: AnyArray, rows: AnyArray, cols: AnyArray) -> AnyArray:
    """For every owned vertex the smallest vertex that it is joined to, directly or through others.

    ``rows`` are owned vertices and ``cols`` their neighbours, both ways, in the distributed numbering. The
    algorithm is FastSV (Zhang, Azad and Hu 2020): trees are hooked onto the smallest grandparent of a
    neighbour, and their paths halved.
    """
    first = offsets[ranks.rank]
    parent = np.arange(first, offsets[ranks.rank + 1])
    sources, ends = rows - first, np.unique(cols)
    halo, at = Halo(ranks, offsets, ends), np.searchsorted(ends, cols)
    grand = parent.copy()
    for _ in range(_MAX_ROUNDS):
        lowest = grand.copy()
        np.minimum.at(lowest, sources, halo.fetch(grand)[at])
        # The parent of every vertex learns of the smallest grandparent among its neighbours.
        told = np.flatnonzero(lowest < parent)
        rows_here, found = Halo(ranks, offsets, parent[told]).collect(lowest[told])
        np.minimum(parent, lowest, out=parent)
        np.minimum.at(parent, rows_here, found)
        np.minimum(parent, grand, out=parent)
        new = fetch(ranks, offsets, parent, parent)
        if not ranks.sum(int((new != grand).any())):
            return new
        grand = new
    raise RuntimeError(f"components were not found in {_MAX_ROUNDS} rounds")


def labelled(
    ranks: Ranks, offsets: AnyArray, members: AnyArray, counts_as: AnyArray | None = None
) -> tuple[AnyArray, AnyArray]:
    """Component of every owned vertex, largest first, among equals by smallest vertex; and all their sizes.

    ``members`` is what :func:`smallest_members` returns; vertices where ``counts_as`` is false are in no
    component (any label). Only the list of components is on every rank.
    """
    counted = members if counts_as is None else members[counts_as]
    roots, counts = np.unique(counted, return_counts=True)
    halo = Halo(ranks, offsets, roots)
    rows, found = halo.collect(counts)
    total = np.zeros(offsets[ranks.rank + 1] - offsets[ranks.rank], dtype=np.int64)
    np.add.at(total, rows, found)
    # Roots are listed in rising order, rank after rank.
    sizes = np.concatenate(ranks.gather(total[total > 0]))
    order = np.argsort(-sizes, kind="stable")
    number = np.empty_like(order)
    number[order] = np.arange(len(order))
    before = sum(ranks.gather(int((total > 0).sum()))[: ranks.rank])
    label = np.zeros_like(total)
    label[total > 0] = number[before : before + int((total > 0).sum())]
    return fetch(ranks, offsets, members, label), sizes[order]


def components_of(share: Share, keep: AnyArray | None = None) -> tuple[AnyArray, AnyArray]:
    """Component of every owned vertex if only the stored edges in ``keep`` count, and the sizes of all.

    Numbered as in :func:`isoweave.graph.connected_components`. ``keep`` is the same in both directions.
    """
    rows = np.repeat(np.arange(share.start, share.start + share.n_owned), np.diff(share.indptr))
    cols = share.indices
    if keep is not None:
        rows, cols = rows[keep], cols[keep]
    return labelled(share.ranks, share.offsets, smallest_members(share.ranks, share.offsets, rows, cols))
