"""Connected components of a graph in shares, in a few rounds however long its paths are."""

from __future__ import annotations

import numpy as np

from isoweave._typing import AnyArray
from isoweave.cluster._share import RowRanges, Share

_MAX_ROUNDS = 200


def smallest_members(rows: RowRanges, sources: AnyArray, ends: AnyArray) -> AnyArray:
    """For every owned vertex the smallest vertex that it is joined to, directly or through others.

    ``sources`` are owned rows, counted from the first, and ``ends`` their neighbours, both ways. The
    algorithm is FastSV (Zhang, Azad and Hu 2020): trees are hooked onto the smallest grandparent of a
    neighbour, and their paths halved.
    """
    parent = rows.own
    others, at = np.unique(ends, return_inverse=True)
    halo, at = rows.halo(others), at.reshape(-1)
    grand = parent.copy()
    for _ in range(_MAX_ROUNDS):
        lowest = grand.copy()
        np.minimum.at(lowest, sources, halo.fetch(grand)[at])
        # The parent of every vertex learns of the smallest grandparent among its neighbours.
        told = np.flatnonzero(lowest < parent)
        rows_here, found = rows.halo(parent[told]).collect(lowest[told])
        np.minimum(parent, lowest, out=parent)
        np.minimum.at(parent, rows_here, found)
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
    np.add.at(total, *rows.halo(roots).collect(counts))
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
