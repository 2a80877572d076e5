"""Kernels that gather neighbourhoods: nearest vertices along the graph, vertices within hops, searches."""

import numpy as np

from isoweave.engines.compile import helper, inlined, kernel

# Distances this close are equal: which of two such vertices comes first depends on the numbering and on the
# order of a sum, so neither may be taken without the other.
_TIE = 1.0 + 1e-9


@kernel
def sort_rows_by_length(start, stop, longest, indptr, indices, lengths, near_indices, near_lengths):
    """Copy rows of up to ``longest`` edges in order of length (ties: as stored), by insertion."""
    for i in range(start, stop):
        lo, hi = indptr[i], indptr[i + 1]
        if hi - lo > longest:
            continue
        for a in range(lo, hi):
            length = lengths[a]
            b = a
            while b > lo and near_lengths[b - 1] > length:
                near_lengths[b], near_indices[b] = near_lengths[b - 1], near_indices[b - 1]
                b -= 1
            near_lengths[b], near_indices[b] = length, indices[a]


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


@inlined
def heap_push(keys, items, size, key, item):
    """Add an item; the new size."""
    a = size
    while a > 0:
        parent = (a - 1) >> 1
        if keys[parent] <= key:
            break
        keys[a], items[a] = keys[parent], items[parent]
        a = parent
    keys[a], items[a] = key, item
    return size + 1


@inlined
def heap_pop(keys, items, size):
    """Remove the root, which the caller has read; the new size."""
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
        keys[a], items[a] = keys[child], items[child]
        a = child
    keys[a], items[a] = key, item
    return size


@inlined
def search_from(i, mark, distance, stamp, keys, items):
    """Begin a search at i, ``stamp[v] == mark`` for reached, ``mark + 1`` for settled; the heap's size."""
    distance[i], stamp[i] = 0.0, mark
    keys[0], items[0] = 0.0, i
    return 1


@inlined
def relax(d, first, last, indices, lengths, mark, distance, stamp, keys, items, size):
    """Reach the ends of the edges first..last from a vertex settled at d; the heap's size."""
    for e in range(first, last):
        v = indices[e]
        t = d + lengths[e]
        if stamp[v] < mark or (stamp[v] == mark and t < distance[v]):
            stamp[v], distance[v] = mark, t
            size = heap_push(keys, items, size, t, v)
    return size


@inlined
def search_scratch(n, m):
    """Distances, stamps, and a heap with room for every stored edge."""
    return np.empty(n), np.zeros(n, np.int32), np.empty(m + 1), np.empty(m + 1, np.int32)


@helper
def settle(
    i, n_wanted, wanted, label, found, mark, indptr, indices, lengths, distance, stamp, keys, items
):  # fmt: skip
    """Settle the vertices nearest to i into ``found`` until it is full or holds ``n_wanted`` of a label."""
    size = search_from(i, mark, distance, stamp, keys, items)
    count = 0
    while size > 0 and count < len(found) and n_wanted > 0:
        d, u = keys[0], items[0]
        size = heap_pop(keys, items, size)
        if stamp[u] == mark + 1:
            continue
        stamp[u] = mark + 1
        found[count] = u
        count += 1
        if wanted[u] == label:
            n_wanted -= 1
        size = relax(
            d, indptr[u], indptr[u + 1], indices, lengths, mark, distance, stamp, keys, items, size
        )  # fmt: skip
    return count


@helper
def nearest_by_geodesic(
    i, limit, most, indptr, near_indices, near_lengths, distance, stamp, mark, found, keys, items
):
    """Settle the ``limit`` vertices nearest to i, i first; return how many there are."""
    # Vertices as far as the last one follow, up to ``most`` in all. Only the first ``most`` edges of a row
    # sorted by length can lead to one of the ``most`` nearest vertices (the ends of the shorter ones are
    # nearer), so a hub costs no more than any other vertex. ``keys`` and ``items`` hold ``most**2 + 1``.
    size = search_from(i, mark, distance, stamp, keys, items)
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
        size = relax(d, lo, hi, near_indices, near_lengths, mark, distance, stamp, keys, items, size)
    return count


@kernel
def nearest_lists(start, stop, indptr, near_indices, near_lengths, columns, distances):
    """The vertices nearest along the graph for start..stop, nearest first; -1 where there are no more."""
    n = len(indptr) - 1
    limit = columns.shape[1] + 1
    found = np.empty(limit, dtype=np.int32)
    distance, stamp, keys, items = search_scratch(n, limit * limit)
    for i in range(start, stop):
        mark = 2 * (i + 1)
        count = nearest_by_geodesic(
            i, limit, limit, indptr, near_indices, near_lengths, distance, stamp, mark, found, keys, items
        )
        for a in range(1, limit):
            columns[i, a - 1] = found[a] if a < count else -1
            distances[i, a - 1] = distance[found[a]] if a < count else np.inf


@helper
def within_hops(i, n_hops, limit, indptr, near_indices, stamp, mark, found):
    """Vertices within ``n_hops`` edges of i in order of hops, i first, at most ``limit`` of them."""
    # Returns how many of them are within one edge less, and how many there are.
    found[0] = i
    stamp[i] = mark
    count, begin, end = 1, 0, 1
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
    place[v], stamp[v] = count, mark
    return count + 1


@helper
def gather(
    i, frame_size, hop_frames, row_limit, forced, indptr, indices, near_indices,
    distance, found, n_inner, n_found, room, place, stamp, mark,
):  # fmt: skip
    """Fill ``room`` with the vertices of the frame of i and then those that paths may lead through."""
    # First i, its neighbours up to ``row_limit`` and the ``forced`` ones; then ``found[:n_inner]``, all of it
    # for frames by hops, otherwise in order of distance until the frame has ``frame_size`` vertices, with
    # those that are as far as the last; then the rest of ``found``. Returns the sizes of the frame and the
    # room.
    lo, hi = indptr[i], indptr[i + 1]
    n_room = _admit(i, 0, room, place, stamp, mark)
    for a in range(lo, min(hi, lo + row_limit)):
        n_room = _admit(near_indices[a], n_room, room, place, stamp, mark)
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
