"""Compiled kernels that gather neighbourhoods: nearest vertices along the graph, vertices within hops."""

from __future__ import annotations

import numpy as np
from numba import njit

# Distances this close are equal: which of two such vertices comes first depends on the numbering and on the
# order of a sum, so neither may be taken without the other.
_TIE = 1.0 + 1e-9


@njit(nogil=True, cache=True)
def sort_rows_by_length(start, stop, indptr, indices, lengths, near_indices, near_lengths):
    """Copy the rows start..stop with the edges of each row in order of length (ties: as stored)."""
    for i in range(start, stop):
        lo, hi = indptr[i], indptr[i + 1]
        order = np.argsort(lengths[lo:hi], kind="mergesort")
        for a in range(hi - lo):
            near_indices[lo + a] = indices[lo + order[a]]
            near_lengths[lo + a] = lengths[lo + order[a]]


@njit(nogil=True, cache=True)
def find_edge(indptr, indices, u, v):
    """Position of edge (u, v) by bisection in the row of u, or -1."""
    lo, hi = indptr[u], indptr[u + 1]
    while lo < hi:
        mid = (lo + hi) >> 1
        if indices[mid] < v:
            lo = mid + 1
        else:
            hi = mid
    if lo < indptr[u + 1] and indices[lo] == v:
        return lo
    return -1


@njit(nogil=True, cache=True, inline="always")
def heap_push(keys, items, size, key, item):
    a = size
    while a > 0:
        parent = (a - 1) >> 1
        if keys[parent] <= key:
            break
        keys[a] = keys[parent]
        items[a] = items[parent]
        a = parent
    keys[a] = key
    items[a] = item
    return size + 1


@njit(nogil=True, cache=True, inline="always")
def heap_pop(keys, items, size):
    """Remove the root; the caller has read it."""
    size -= 1
    key, item = keys[size], items[size]
    a = 0
    while True:
        child = 2 * a + 1
        if child >= size:
            break
        if child + 1 < size and keys[child + 1] < keys[child]:
            child += 1
        if keys[child] >= key:
            break
        keys[a] = keys[child]
        items[a] = items[child]
        a = child
    keys[a] = key
    items[a] = item
    return size


@njit(nogil=True, cache=True)
def nearest_by_geodesic(
    i, limit, most, indptr, near_indices, near_lengths, distance, stamp, mark, found, keys, items
):
    """Settle the ``limit`` vertices nearest to i along the graph, i first; return how many there are.

    Vertices as far as the last one follow, up to ``most`` in all. Only the first ``most`` edges of a row
    sorted by length can lead to one of the ``most`` nearest vertices (the ends of the shorter ones are
    nearer), so a hub costs no more than any other vertex. ``distance`` and ``stamp`` are scratch of length n;
    ``stamp[v] == mark`` means reached, ``mark + 1`` settled. ``keys`` and ``items`` hold ``most**2 + 1``.
    """
    distance[i] = 0.0
    stamp[i] = mark
    keys[0] = 0.0
    items[0] = i
    size = 1
    count = 0
    reach = np.inf
    while size > 0 and count < most and keys[0] <= reach:
        d, u = keys[0], items[0]
        size = heap_pop(keys, items, size)
        if stamp[u] == mark + 1:
            continue
        stamp[u] = mark + 1
        found[count] = u
        count += 1
        if count == limit:
            reach = d * _TIE
        lo = indptr[u]
        hi = min(indptr[u + 1], lo + most)
        for a in range(lo, hi):
            v = near_indices[a]
            t = d + near_lengths[a]
            if stamp[v] < mark or (stamp[v] == mark and t < distance[v]):
                stamp[v] = mark
                distance[v] = t
                size = heap_push(keys, items, size, t, v)
    return count


@njit(nogil=True, cache=True)
def nearest_lists(start, stop, indptr, near_indices, near_lengths, columns, distances):
    """The vertices nearest along the graph for start..stop, nearest first; -1 where there are no more."""
    n = len(indptr) - 1
    limit = columns.shape[1] + 1
    distance = np.empty(n)
    stamp = np.zeros(n, dtype=np.int64)
    found = np.empty(limit, dtype=np.int32)
    keys = np.empty(limit * limit + 1)
    items = np.empty(limit * limit + 1, dtype=np.int32)
    mark = 0
    for i in range(start, stop):
        mark += 2
        count = nearest_by_geodesic(
            i, limit, limit, indptr, near_indices, near_lengths, distance, stamp, mark, found, keys, items
        )
        for a in range(1, limit):
            columns[i, a - 1] = found[a] if a < count else -1
            distances[i, a - 1] = distance[found[a]] if a < count else np.inf


@njit(nogil=True, cache=True)
def within_hops(i, n_hops, limit, indptr, near_indices, stamp, mark, found):
    """Vertices within ``n_hops`` edges of i in order of hops, i first, at most ``limit`` of them."""
    found[0] = i
    stamp[i] = mark
    count = 1
    begin = 0
    for _ in range(n_hops):
        end = count
        for a in range(begin, end):
            u = found[a]
            for b in range(indptr[u], indptr[u + 1]):
                v = near_indices[b]
                if stamp[v] < mark:
                    if count == limit:
                        return count
                    stamp[v] = mark
                    found[count] = v
                    count += 1
        begin = end
    return count


@njit(nogil=True, cache=True, inline="always")
def _admit(v, count, room, place, stamp, mark):
    """Put v into the room unless it is there; return the number of vertices in it."""
    if stamp[v] == mark:
        return count
    room[count] = v
    place[v] = count
    stamp[v] = mark
    return count + 1


@njit(nogil=True, cache=True)
def gather(
    i,
    frame_size,
    hop_frames,
    row_limit,
    forced,
    indptr,
    indices,
    near_indices,
    distance,
    inner,
    n_inner,
    outer,
    n_outer,
    room,
    place,
    stamp,
    mark,
):
    """Fill ``room`` with the vertices of the frame of i and then those that paths may lead through.

    First i, its neighbours up to ``row_limit`` and the ``forced`` ones; then ``inner``, all of it for frames
    by hops, otherwise in order of distance until the frame has ``frame_size`` vertices, with those that are
    as far as the last; then ``outer``. ``stamp[v] == mark`` and ``place[v]`` tell where a vertex is.

    Returns
    -------
    n_frame, n_room : int
    """
    n_room = _admit(i, 0, room, place, stamp, mark)
    lo, hi = indptr[i], indptr[i + 1]
    for a in range(lo, min(hi, lo + row_limit)):
        n_room = _admit(near_indices[a], n_room, room, place, stamp, mark)
    if len(forced) > 0:
        for e in range(lo, hi):
            if forced[e]:
                n_room = _admit(indices[e], n_room, room, place, stamp, mark)
    reach = np.inf if hop_frames or n_room < frame_size else -1.0
    for a in range(n_inner):
        v = inner[a]
        if not hop_frames and distance[v] > reach:
            break
        n_room = _admit(v, n_room, room, place, stamp, mark)
        if not hop_frames and n_room >= frame_size and reach == np.inf:
            reach = distance[v] * _TIE
    n_frame = n_room
    for a in range(n_outer):
        if n_room == len(room):
            break
        n_room = _admit(outer[a], n_room, room, place, stamp, mark)
    return n_frame, n_room
