"""Compiled kernel of the local frames: neighbourhood, local geodesics, Gram matrix, eigenvectors.

Cost per vertex is bounded whatever the degrees are: see :func:`local_mds`.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from isoweave.backends._eigen import leading_eigenpairs

# Eigenvalues below this part of the largest one are rounding noise of the Gram matrix:
# the local rank is lower.
_RANK_TOLERANCE = 1e-10


@njit(nogil=True, cache=True)
def sort_rows_by_length(start, stop, indptr, indices, lengths, near_indices, near_lengths):
    """Copy the rows start..stop with the edges of each row in order of length (ties: as stored)."""
    for i in range(start, stop):
        lo, hi = indptr[i], indptr[i + 1]
        order = np.argsort(lengths[lo:hi], kind="mergesort")
        for a in range(hi - lo):
            near_indices[lo + a] = indices[lo + order[a]]
            near_lengths[lo + a] = lengths[lo + order[a]]


@njit(nogil=True, cache=True, inline="always")
def _heap_push(keys, items, size, key, item):
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
def _heap_pop(keys, items, size):
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
    i, limit, indptr, near_indices, near_lengths, distance, stamp, mark, found, keys, items
):
    """Settle the ``limit`` vertices nearest to i along the graph, i first; return how many there are.

    Only the first ``limit`` edges of a row sorted by length can lead to one of the ``limit`` nearest
    vertices (the ends of the shorter ones are nearer), so a hub costs no more than any other vertex.
    ``distance`` and ``stamp`` are scratch of length n; ``stamp[v] == mark`` means reached,
    ``mark + 1`` settled.
    """
    distance[i] = 0.0
    stamp[i] = mark
    keys[0] = 0.0
    items[0] = i
    size = 1
    count = 0
    while size > 0 and count < limit:
        d, u = keys[0], items[0]
        size = _heap_pop(keys, items, size)
        if stamp[u] == mark + 1:
            continue
        stamp[u] = mark + 1
        found[count] = u
        count += 1
        lo = indptr[u]
        hi = min(indptr[u + 1], lo + limit)
        for a in range(lo, hi):
            v = near_indices[a]
            t = d + near_lengths[a]
            if stamp[v] < mark or (stamp[v] == mark and t < distance[v]):
                stamp[v] = mark
                distance[v] = t
                size = _heap_push(keys, items, size, t, v)
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
            i, limit, indptr, near_indices, near_lengths, distance, stamp, mark, found, keys, items
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


@njit(nogil=True, cache=True)
def _has_edge(indptr, indices, lengths, u, v):
    """Length of edge uv by bisection in the row of u, or -1."""
    lo, hi = indptr[u], indptr[u + 1]
    while lo < hi:
        mid = (lo + hi) >> 1
        if indices[mid] < v:
            lo = mid + 1
        else:
            hi = mid
    if lo < indptr[u + 1] and indices[lo] == v:
        return lengths[lo]
    return -1.0


@njit(nogil=True, cache=True)
def _fill_adjacency(room, n_room, row_limit, indptr, indices, lengths, place, stamp, mark, dense):
    """Dense matrix of the edges among ``room``; infinity where there is none.

    Rows longer than ``row_limit`` are not scanned: their edges appear in the rows of the other ends, and
    edges between two such rows are looked up by bisection.
    """
    n_hubs = 0
    for a in range(n_room):
        for b in range(n_room):
            dense[a, b] = np.inf
        dense[a, a] = 0.0
    for a in range(n_room):
        u = room[a]
        if indptr[u + 1] - indptr[u] > row_limit:
            n_hubs += 1
            continue
        for e in range(indptr[u], indptr[u + 1]):
            v = indices[e]
            if stamp[v] == mark:
                b = place[v]
                dense[a, b] = lengths[e]
                dense[b, a] = lengths[e]
    if n_hubs > 1:
        for a in range(n_room):
            u = room[a]
            if indptr[u + 1] - indptr[u] <= row_limit:
                continue
            for b in range(a):
                v = room[b]
                if indptr[v + 1] - indptr[v] > row_limit:
                    length = _has_edge(indptr, indices, lengths, u, v)
                    if length >= 0.0:
                        dense[a, b] = length
                        dense[b, a] = length


@njit(nogil=True, cache=True)
def _shortest_paths(dense, n_frame, n_room):
    """Floyd-Warshall, in place: shortest paths among the first ``n_frame`` vertices through all ``n_room``.

    Vertices outside the frame are eliminated first, each on a smaller matrix than the one before. The inner
    loop runs over contiguous memory, which compilers turn into vector instructions.
    """
    for k in range(n_room - 1, -1, -1):
        width = max(k, n_frame)
        row_k = dense[k]
        for u in range(width):
            t = dense[u, k]
            if u == k or t == np.inf:
                continue
            row_u = dense[u]
            for v in range(width):
                s = t + row_k[v]
                row_u[v] = s if s < row_u[v] else row_u[v]


@njit(nogil=True, cache=True)
def local_mds(
    start,
    stop,
    indptr,
    indices,
    lengths,
    near_indices,
    near_lengths,
    frame_size,
    room_size,
    row_limit,
    hop_frames,
    forced,
    frame,
    inverse,
    spectrum,
    included,
):
    """Local frames of the vertices start..stop (eqs. 1 to 4).

    Parameters
    ----------
    indptr, indices, lengths
        The graph; ``near_indices``, ``near_lengths`` the same rows in order of length.
    frame_size, room_size : int
        Number of vertices (i included) that take part in the scaling, and through which paths may lead.
    row_limit : int
        Neighbours of i beyond the ``row_limit`` nearest are left out of the frame of i, unless ``forced``.
    hop_frames : bool
        Frames over all of the second-order neighbourhood with paths inside the third, as the paper has
        it, up to the two sizes; otherwise neighbours and geodesically nearest vertices.
    forced : bool array (m,) or (0,)
        Edges that must be in the frame whatever their rank.
    frame : (m, N) output, rows E_i[j]
    inverse : (m, N) output, rows V S^(-1/2), or (0, N) when not wanted
    spectrum : (n, N + 1) output, leading eigenvalues and, last, the sum of squares of all eigenvalues
    included : bool (m,) output, edges with a row in the frame of their source
    """
    n = len(indptr) - 1
    n_components = frame.shape[1]
    distance = np.empty(n)
    stamp = np.zeros(n, dtype=np.int64)
    place = np.empty(n, dtype=np.int32)
    capacity = 0
    for i in range(start, stop):
        capacity = max(capacity, min(indptr[i + 1] - indptr[i], row_limit))
    if len(forced) > 0:
        for i in range(start, stop):
            count = min(indptr[i + 1] - indptr[i], row_limit)
            for e in range(indptr[i], indptr[i + 1]):
                count += forced[e]
            capacity = max(capacity, count)
    capacity = min(capacity + max(frame_size, room_size) + 1, n)
    settled = np.empty(capacity, dtype=np.int32)
    room = np.empty(capacity, dtype=np.int32)
    n_heap = capacity * min(max(room_size, 1), n) + 1
    keys = np.empty(min(n_heap, len(indices) + 1))
    items = np.empty(min(n_heap, len(indices) + 1), dtype=np.int32)
    dense = np.empty((capacity, capacity))
    mark = 0
    for i in range(start, stop):
        lo, hi = indptr[i], indptr[i + 1]
        # 1. The vertices: first those of the frame (i, its neighbours, the nearest others),
        # then the rest of the room.
        mark += 3
        if hop_frames:
            n_near = within_hops(i, 3, room_size, indptr, near_indices, stamp, mark, settled)
            mark += 3
            n_second = within_hops(i, 2, frame_size, indptr, near_indices, stamp, mark, settled)
        else:
            n_near = nearest_by_geodesic(
                i, room_size, indptr, near_indices, near_lengths, distance, stamp, mark, settled, keys, items
            )
            n_second = 0
        mark += 3
        room[0] = i
        place[i] = 0
        stamp[i] = mark
        n_frame = 1
        for rank in range(hi - lo):
            wanted = rank < row_limit
            v = near_indices[lo + rank]
            if not wanted and len(forced) == 0:
                break
            if not wanted:
                continue
            room[n_frame] = v
            place[v] = n_frame
            stamp[v] = mark
            n_frame += 1
        if len(forced) > 0:
            for e in range(lo, hi):
                v = indices[e]
                if forced[e] and stamp[v] != mark:
                    room[n_frame] = v
                    place[v] = n_frame
                    stamp[v] = mark
                    n_frame += 1
        a = 0
        n_wanted = n_second if hop_frames else n_near
        while a < n_wanted and (hop_frames or n_frame < frame_size):
            v = settled[a]
            if stamp[v] != mark:
                room[n_frame] = v
                place[v] = n_frame
                stamp[v] = mark
                n_frame += 1
            a += 1
        if hop_frames:
            mark += 3
            n_near = within_hops(i, 3, room_size, indptr, near_indices, stamp, mark, settled)
            mark += 3
            for b in range(n_frame):
                stamp[room[b]] = mark
            a = 0
        n_room = n_frame
        while a < n_near and n_room < capacity:
            v = settled[a]
            if stamp[v] != mark:
                room[n_room] = v
                place[v] = n_room
                stamp[v] = mark
                n_room += 1
            a += 1
        # 2. Geodesics among the frame's vertices (eq. 1).
        _fill_adjacency(room, n_room, row_limit, indptr, indices, lengths, place, stamp, mark, dense)
        _shortest_paths(dense, n_frame, n_room)
        # 3. Gram matrix with the origin at i (eq. 2).
        m = n_frame - 1
        gram = np.empty((m, m))
        power = 0.0
        for u in range(m):
            for v in range(u + 1):
                value = 0.5 * (
                    dense[0, u + 1] * dense[0, u + 1]
                    + dense[0, v + 1] * dense[0, v + 1]
                    - dense[u + 1, v + 1] * dense[u + 1, v + 1]
                )
                gram[u, v] = value
                gram[v, u] = value
                power += value * value * (2.0 if u != v else 1.0)
        # 4. Leading eigenpairs (eq. 3); directions that the neighbourhood does not have stay zero.
        values, vectors = leading_eigenpairs(gram, min(n_components, m))
        spectrum[i, n_components] = power
        for c in range(n_components):
            spectrum[i, c] = 0.0
            if c < len(values):
                spectrum[i, c] = max(values[c], 0.0)
        threshold = _RANK_TOLERANCE * spectrum[i, 0]
        for e in range(lo, hi):
            v = indices[e]
            b = place[v] - 1
            included[e] = stamp[v] == mark and b < m
            for c in range(n_components):
                frame[e, c] = 0.0
                if included[e] and spectrum[i, c] > threshold:
                    frame[e, c] = vectors[b, c] * np.sqrt(spectrum[i, c])
            if len(inverse) > 0:
                for c in range(n_components):
                    inverse[e, c] = 0.0
                    if included[e] and spectrum[i, c] > threshold:
                        inverse[e, c] = vectors[b, c] / np.sqrt(spectrum[i, c])
