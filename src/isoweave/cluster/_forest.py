"""The minimum spanning forest of a graph in shares."""

from __future__ import annotations

import numpy as np

from isoweave._typing import AnyArray, BoolArray
from isoweave.cluster._share import Share

_MAX_ROUNDS = 100


def spanning_edges(share: Share) -> BoolArray:
    """Owned stored edges that are in the minimum spanning forest, by Boruvka's rounds.

    Every tree takes its shortest outgoing edge (ties: the smallest ends), and trees joined in this way
    merge. Every round at least halves the number of trees.
    """
    ranks, own, rows = share.ranks, share.own, share.sources
    ids, columns = rows + share.start, share.indices
    small, large = np.minimum(ids, columns), np.maximum(ids, columns)
    ends, at = np.unique(share.indices, return_inverse=True)
    halo = share.halo(ends)
    tree = own
    taken = np.zeros(len(rows), dtype=bool)
    for _ in range(_MAX_ROUNDS):
        other = halo.fetch(tree)[at]
        out = np.flatnonzero(tree[rows] != other)
        if not ranks.max(len(out)):
            return taken
        table = (tree[rows[out]], share.lengths[out], small[out], large[out], other[out])
        best = _first_of_each(*table)
        found = ranks.send(share.owner_of(table[0][best]), *(part[best] for part in table))
        best = _first_of_each(*found)
        roots, _, low, high, there = (part[best] for part in found)
        taken |= _named(share, low, high)
        # Of two trees that take the same edge the one with the smaller number stays the root.
        parent = own.copy()
        parent[roots - share.start] = there
        back = share.fetch(parent, parent)
        parent[(back == own) & (own < parent)] = own[(back == own) & (own < parent)]
        while True:
            higher = share.fetch(parent, parent)
            if not ranks.max(bool((higher != parent).any())):
                break
            parent = higher
        tree = share.fetch(tree, parent)
    raise RuntimeError(f"the spanning forest was not found in {_MAX_ROUNDS} rounds")


def _first_of_each(
    label: AnyArray, length: AnyArray, low: AnyArray, high: AnyArray, *_: AnyArray
) -> AnyArray:
    """Where the smallest entry of every label stands."""
    order = np.lexsort((high, low, length, label))
    return order[np.unique(label[order], return_index=True)[1]]


def _named(share: Share, low: AnyArray, high: AnyArray) -> BoolArray:
    """Owned stored edges among those that any rank names by their ends."""
    to = share.owner_of(np.concatenate((low, high)))
    first, second = share.ranks.send(to, np.concatenate((low, high)), np.concatenate((high, low)))
    n = share.n_vertices
    return np.isin((share.sources + share.start) * n + share.indices, first * n + second)
