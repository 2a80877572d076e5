"""Compiled kernels that gather neighbourhoods: nearest vertices along the graph, vertices within hops."""

from __future__ import annotations

import numpy as np
from numba import njit

from isoweave.engines.compile import helper, kernel

# Distances this close are equal: which of two such vertices comes first depends on the numbering and on the
# order of a sum, so neither may be taken without the other.
_TIE = 1.0 + 1e-9


@kernel
def sort_rows_by_length(start, stop, longest, indptr, indices, lengths, near_indices, near_lengths):
    """Copy the rows start..stop with the edges of each row in order of length (ties: as stored).

    By insertion; rows of more than ``longest`` edges are left to the caller.
    """
    for i in range(start, stop):
        lo = indptr[i]
        hi = indptr[i + 1]
        if hi - lo > longest:
            continue
        for a in range(lo, hi):
            length = lengths[a]
            b = a
            while b > lo and near_lengths[b - 1] > length:
                near_lengths[b] = near_lengths[b - 1]
                near_indices[b] = near_indices[b - 1]
                b -= 1
            near_lengths[b] = length
            near_indices[b] = indices[a]


@helper
def find_edge(indices, lo, end, v):
    """Position of v in the sorted row ``indices[lo:end]`` by bisection, or -1."""
    hi = end
    while lo < hi:
        mid = (lo + hi) >> 1
        if indices[mid] < v:
            lo = mid + 1
        else:
            hi = mid
    return lo if lo < end and indices[lo] == v else -1


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
    key = keys[size]
    item = items[size]
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


@helper
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
        d = keys[0]
        u = items[0]
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


@kernel
def nearest_lists(start, stop, indptr, near_indices, near_lengths, columns, distances):
    """The vertices nearest along the graph for start..stop, nearest first; -1 where there are no more."""
    n = len(indptr) - 1
    limit = columns.shape[1] + 1
    distance = np.empty(n)
    stamp = np.zeros(n, dtype=np.int32)
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


@helper
def within_hops(i, n_hops, limit, indptr, near_indices, stamp, mark, found):
    """Vertices within ``n_hops`` edges of i in order of hops, i first, at most ``limit`` of them.

    Returns
    -------
    n_nearer, n_found : int
        How many of them are within one edge less, and how many there are.
    """
    found[0] = i
    stamp[i] = mark
    count = 1
    begin = 0
    end = 1
    for hop in range(n_hops):
        end = count
        for a in range(begin, end):
            u = found[a]
            for b in range(indptr[u], indptr[u + 1]):
                v = near_indices[b]
                if stamp[v] < mark:
                    if count == limit:
                        return end if hop == n_hops - 1 else count, count
                    stamp[v] = mark
                    found[count] = v
                    count += 1
        begin = end
    return end, count


@helper
def _admit(v, count, room, place, stamp, mark):
    """Put v into the room unless it is there; return the number of vertices in it."""
    if stamp[v] == mark:
        return count
    room[count] = v
    place[v] = count
    stamp[v] = mark
    return count + 1


@helper
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
    found,
    n_inner,
    n_found,
    room,
    place,
    stamp,
    mark,
):
    """Fill ``room`` with the vertices of the frame of i and then those that paths may lead through.

    First i, its neighbours up to ``row_limit`` and the ``forced`` ones; then ``found[:n_inner]``, all of it
    for frames by hops, otherwise in order of distance until the frame has ``frame_size`` vertices, with those
    that are as far as the last; then the rest of ``found``. ``stamp[v] == mark`` and ``place[v]`` tell where
    a vertex is.

    Returns
    -------
    n_frame, n_room : int
    """
    room[0] = i
    place[i] = 0
    stamp[i] = mark
    n_room = 1
    lo = indptr[i]
    hi = indptr[i + 1]
    for a in range(lo, min(hi, lo + row_limit)):
        v = near_indices[a]
        room[n_room] = v
        place[v] = n_room
        stamp[v] = mark
        n_room += 1
    if len(forced) > 0:
        for e in range(lo, hi):
            if forced[e]:
                n_room = _admit(indices[e], n_room, room, place, stamp, mark)
    reach = np.inf if hop_frames or n_room < frame_size else -1.0
    for a in range(n_inner):
        v = found[a]
        if not hop_frames and distance[v] > reach:
            break
        n_room = _admit(v, n_room, room, place, stamp, mark)
        if not hop_frames and n_room >= frame_size and reach == np.inf:
            reach = distance[v] * _TIE
    n_frame = n_room
    for a in range(n_found):
        if n_room == len(room):
            break
        n_room = _admit(found[a], n_room, room, place, stamp, mark)
    return n_frame, n_room
