"""Compiled kernels of the shortcut filter."""

from __future__ import annotations

import numpy as np

from isoweave.engines.compile import kernel
from isoweave.engines.neighborhoods import find_edge, heap_pop, heap_push


@kernel
def common_neighbors(start, stop, indptr, indices, share):
    """Part of the smaller neighbourhood that the two ends of each edge share, for rows start..stop.

    The shorter row is looked up in the longer one, so an edge at a hub costs the degree of its other end.
    Only the smaller vertex of an edge works; the caller copies to the reverse edges.
    """
    for i in range(start, stop):
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            if j < i:
                continue
            short = i
            long = j
            if indptr[i + 1] - indptr[i] > indptr[j + 1] - indptr[j]:
                short = j
                long = i
            count = 0
            for a in range(indptr[short], indptr[short + 1]):
                if find_edge(indices, indptr[long], indptr[long + 1], indices[a]) >= 0:
                    count += 1
            share[e] = count / (indptr[short + 1] - indptr[short])


@kernel
def find_detours(
    start, stop, suspects, limits, max_settled, max_scanned, sources, indptr, indices, lengths, trusted, found
):
    """Whether a path of trusted edges no longer than the limit joins the ends, for suspects start..stop.

    ``found``: 1 yes, 0 no, 2 undecided (the ball around the edge is too large to search).
    """
    n = len(indptr) - 1
    distance = np.empty(n)
    stamp = np.zeros(n, dtype=np.int32)
    keys = np.empty(max_scanned + 1)
    items = np.empty(max_scanned + 1, dtype=np.int32)
    mark = 0
    for s in range(start, stop):
        e = suspects[s]
        u = sources[e]
        v = indices[e]
        limit = limits[s]
        found[s] = 0
        # A common neighbour settles most cases.
        short = u
        long = v
        if indptr[u + 1] - indptr[u] > indptr[v + 1] - indptr[v]:
            short = v
            long = u
        for a in range(indptr[short], indptr[short + 1]):
            if trusted[a] and lengths[a] <= limit:
                b = find_edge(indices, indptr[long], indptr[long + 1], indices[a])
                if b >= 0 and trusted[b] and lengths[a] + lengths[b] <= limit:
                    found[s] = 1
                    break
        if found[s] == 1:
            continue
        mark += 2
        distance[u] = 0.0
        stamp[u] = mark
        keys[0] = 0.0
        items[0] = u
        size = 1
        settled = 0
        scanned = 0
        while size > 0:
            d = keys[0]
            w = items[0]
            size = heap_pop(keys, items, size)
            if stamp[w] == mark + 1:
                continue
            stamp[w] = mark + 1
            if w == v:
                found[s] = 1
                break
            settled += 1
            scanned += indptr[w + 1] - indptr[w]
            if settled > max_settled or scanned > max_scanned:
                found[s] = 2
                break
            for a in range(indptr[w], indptr[w + 1]):
                t = d + lengths[a]
                if not trusted[a] or t > limit:
                    continue
                x = indices[a]
                if stamp[x] < mark or (stamp[x] == mark and t < distance[x]):
                    stamp[x] = mark
                    distance[x] = t
                    size = heap_push(keys, items, size, t, x)
