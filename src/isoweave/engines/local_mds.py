"""Kernel of the local frames: local geodesics, Gram matrices, eigenvectors; any degrees at bounded cost."""

import numpy as np

from isoweave.engines.compile import helper, inlined, kernel
from isoweave.engines.lanes import LANES
from isoweave.engines.paths import find_edge, search_scratch, settle, within_hops
from isoweave.engines.plain import SEVERAL, TIE
from isoweave.engines.plain_frames import EXTRA_VECTORS, RANK_TOLERANCE
from isoweave.engines.small import block_iteration, block_iterations, full_spectrum
from isoweave.engines.tridiagonal import ROWS, leading_pairs
from isoweave.engines.vectors import aligned, choose, get_from, put_from, spread

# Size of the largest matrices that are decomposed side by side: by power iterations, tridiagonal ones.
_BY_POWERS, _TRIDIAGONAL = 64, 256
# By how much the orders of the latter may differ: the smaller ones are filled up with zeros.
_FILLED = 8


@helper
def _admit(v, count, room, place, stamp, mark):
    """Put v into the room unless it is there; return the number of vertices in it."""
    if stamp[v] == mark:
        return count
    room[count] = v
    place[v], stamp[v] = count, mark
    return count + 1


@helper
def _gather(
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
            reach = distance[v] * TIE
    n_frame = n_room
    for a in range(n_found):
        if n_room == len(room):
            break
        n_room = _admit(found[a], n_room, room, place, stamp, mark)
    return n_frame, n_room


@helper
def _fill_adjacency(room, n_room, row_limit, indptr, indices, lengths, place, dense):
    """Dense matrix of the edges among ``room``, below the diagonal; infinity where there is none."""
    # Rows longer than ``row_limit`` are not scanned: their edges appear in the rows of the other ends, and
    # edges between two such rows are looked up by bisection.
    n_hubs = 0
    for a in range(n_room):
        for b in range(a):
            dense[a, b] = np.inf
    for a in range(n_room):
        u = room[a]
        if indptr[u + 1] - indptr[u] > row_limit:
            n_hubs += 1
            continue
        for e in range(indptr[u], indptr[u + 1]):
            # Of a vertex outside the room the place is that in another.
            b = place[indices[e]]
            if 0 <= b < n_room and room[b] == indices[e]:
                dense[max(a, b), min(a, b)] = lengths[e]
    if n_hubs > 1:
        for a in range(n_room):
            u = room[a]
            if indptr[u + 1] - indptr[u] <= row_limit:
                continue
            for b in range(a):
                v = room[b]
                if indptr[v + 1] - indptr[v] > row_limit:
                    e = find_edge(indices, indptr[u], indptr[u + 1], v)
                    if e >= 0:
                        dense[a, b] = lengths[e]


@helper
def _shortest_paths(dense, n_frame, n_room, through):
    """Floyd-Warshall below the diagonal: shortest paths among the ``n_frame`` first vertices through all."""
    # Vertices outside the frame go first, each on a smaller matrix than the one before. Rows end on whole
    # vectors; what is written on and above the diagonal is never read.
    stride = dense.shape[1]
    for k in range(n_room - 1, -1, -1):
        width = max(k, n_frame)
        for v in range(k):
            through[v] = dense[k, v]
        for v in range(k, width):
            through[v] = dense[v, k]
        for u in range(width):
            if u == k or through[u] == np.inf:
                continue
            t = spread(through[u])
            for v in range(0, u, LANES):
                known, other = get_from(dense, u * stride + v), t + get_from(through, v)
                put_from(dense, u * stride + v, choose(other < known, other, known))


@helper
def _put(i, m, values, vectors, indptr, frame, inverse, spectrum):
    """Rows of the frame of i from the eigenpairs of its Gram matrix of order m."""
    # ``frame[e, 0]`` is the row of the matrix that belongs to the end of e, or -1.
    n_components = frame.shape[1]
    for c in range(n_components):
        spectrum[i, c] = max(values[c], 0.0) if c < m else 0.0
    threshold = RANK_TOLERANCE * spectrum[i, 0]
    for e in range(indptr[i], indptr[i + 1]):
        b = int(frame[e, 0])
        for c in range(n_components):
            present = b >= 0 and spectrum[i, c] > threshold
            frame[e, c] = vectors[b, c] * np.sqrt(spectrum[i, c]) if present else 0.0
            if len(inverse) > 0:
                inverse[e, c] = vectors[b, c] / np.sqrt(spectrum[i, c]) if present else 0.0


@helper
def _left_to_lapack(matrix, values, vectors, rows, image, small, rotation, order):
    return False


@helper
def _put_by_powers(waiting, count, orders, alone, lanes, small, rotation, order, outputs):
    """As :func:`_put` for the first ``count`` vertices ``waiting``."""
    m = _side_by_side(count, orders, alone, lanes[0])
    block_iterations(lanes[0], m, *lanes[1:], small, rotation, order)
    _put_all(waiting, count, orders, alone, lanes, outputs)


@helper
def _put_by_tridiagonals(waiting, count, orders, alone, lanes, small, rotation, order, outputs):
    """The same."""
    m = _side_by_side(count, orders, alone, lanes[0])
    leading_pairs(lanes[0], m, orders, *lanes[1:])
    _put_all(waiting, count, orders, alone, lanes, outputs)


@helper
def _side_by_side(count, orders, alone, grams):
    """Put the first matrices of ``alone``, of these orders, side by side, filled up to the order returned."""
    m = 0
    for w in range(count):
        m = max(m, orders[w])
    for w in range(LANES):
        # Lanes without a matrix have the first.
        which = w if w < count else 0
        size = orders[w] = orders[which]
        for a in range(m):
            for k in range(m):
                filled = a >= size or k >= size
                grams[(a * m + k) * LANES + w] = 0.0 if filled else alone[which, a * size + k]
    return m


@helper
def _put_all(waiting, count, orders, alone, lanes, outputs):
    """Rows of frames from eigenpairs found side by side, by LAPACK those that were not."""
    _, lane_values, lane_vectors, settled, _ = lanes
    values, vectors, indptr, frame, inverse, spectrum = outputs
    for w in range(count):
        size = orders[w]
        for c in range(len(values)):
            values[c] = lane_values[c, w]
        if settled[w] == 1:
            _put(waiting[w], size, values, lane_vectors[w], indptr, frame, inverse, spectrum)
            continue
        gram = np.empty((size, size))
        for a in range(size):
            for k in range(size):
                gram[a, k] = alone[w, a * size + k]
        full_spectrum(gram, values, vectors)
        _put(waiting[w], size, values, vectors, indptr, frame, inverse, spectrum)


def local_mds_in(n_components):
    """The kernel of frames in so many dimensions."""
    return local_mds if n_components < SEVERAL else local_mds_several


@kernel
def local_mds(
    start, stop, indptr, indices, lengths, near_indices, near_lengths, frame_size, room_size, row_limit,
    hop_frames, forced, frame, inverse, spectrum, included,
):  # fmt: skip
    """Local frames of the vertices start..stop (eqs. 1 to 4), of few dimensions."""
    _local_mds(
        _put_by_powers, block_iteration, start, stop, indptr, indices, lengths, near_indices, near_lengths,
        frame_size, room_size, row_limit, hop_frames, forced, frame, inverse, spectrum, included,
    )  # fmt: skip


@kernel
def local_mds_several(
    start, stop, indptr, indices, lengths, near_indices, near_lengths, frame_size, room_size, row_limit,
    hop_frames, forced, frame, inverse, spectrum, included,
):  # fmt: skip
    """The same of several dimensions."""
    _local_mds(
        _put_by_tridiagonals, _left_to_lapack, start, stop, indptr, indices, lengths, near_indices,
        near_lengths, frame_size, room_size, row_limit, hop_frames, forced, frame, inverse, spectrum,
        included,
    )  # fmt: skip


@inlined
def _local_mds(
    put_all, pairs_of, start, stop, indptr, indices, lengths, near_indices, near_lengths, frame_size,
    room_size, row_limit, hop_frames, forced, frame, inverse, spectrum, included,
):  # fmt: skip
    """Local frames; eigenpairs of matrices side by side, and of one too large for that."""
    # ``near_indices, near_lengths`` are the rows of the graph in order of length; ``frame_size, room_size``
    # the number of vertices (i included) in the scaling, and through which paths may lead. Neighbours beyond
    # the ``row_limit`` nearest are left out of a frame unless ``forced`` (m,) or (0,). ``hop_frames`` are
    # those over the second-order neighbourhood with paths inside the third, as the paper has it, up to the
    # two sizes; others have neighbours and geodesically nearest vertices. Output: ``frame`` (m, N) rows
    # E_i[j], ``inverse`` rows V S^(-1/2), or (0, N) if not wanted, ``spectrum`` (n, N + 1) leading
    # eigenvalues and the sum of squares of all of them, ``included`` edges with a row in the frame of their
    # source.
    n = len(indptr) - 1
    n_components = frame.shape[1]
    place = np.empty(n, dtype=np.int32)
    own = 0
    for i in range(start, stop):
        count = min(indptr[i + 1] - indptr[i], row_limit)
        if len(forced) > 0:
            for e in range(indptr[i], indptr[i + 1]):
                count += forced[e]
        own = max(own, count)
    # Vertices at equal distances are taken together, up to another frame of them.
    most = min(room_size + (0 if hop_frames else frame_size), n)
    capacity = min(own + max(frame_size, most) + 1, n)
    found, room = np.empty(capacity, np.int32), np.empty(capacity, np.int32)
    graph = (indptr, near_indices, near_lengths)
    scratch = search_scratch(n, 0 if hop_frames else min(most * most, len(indices)))
    distance, stamp = scratch[:2]
    n_vectors = (capacity + LANES - 1) // LANES
    dense, through = aligned(capacity * n_vectors).reshape(capacity, n_vectors * LANES), aligned(n_vectors)
    values, vectors = np.empty(n_components), np.empty((capacity, n_components))
    block = n_components + EXTRA_VECTORS
    rows, image = np.empty((block, capacity)), np.empty((block, capacity))
    small, rotation, order = np.empty((block, block)), np.empty((block, block)), np.empty(block, np.int32)
    # Gram matrices of nearly the same order wait until there is one for every lane.
    by_powers = n_components < SEVERAL
    widest = min(_BY_POWERS if by_powers else _TRIDIAGONAL, capacity)
    filled, fewest = (0, 3 * block) if by_powers else (_FILLED, n_components)
    alone, grams = np.empty((LANES, widest * widest)), aligned(widest * widest)
    waiting, orders, n_waiting = np.empty(LANES, np.int32), np.empty(LANES, np.int32), 0
    lane_values = aligned(n_components).reshape(n_components, LANES)
    lane_vectors = np.empty((LANES, widest, n_components))
    settled, n_rows = np.empty(LANES, np.int32), max(3 * block + n_components + 1, n_components + ROWS)
    beside = aligned(n_rows * widest + 3 * (block + n_components) * block)
    lanes = (grams, lane_values, lane_vectors, settled, beside)
    outputs = (values, vectors, indptr, frame, inverse, spectrum)
    mark = 0
    for i in range(start, stop):
        # 1. The vertices of the frame, and those that paths may lead through.
        if hop_frames:
            n_inner, n_found = within_hops(i, 3, room_size, indptr, near_indices, stamp, mark + 1, found)
            n_inner = min(n_inner, frame_size)
        else:
            near = found[:most]
            n_found = settle(i, room_size, stamp, mark + 2, TIE, most, near, mark + 1, graph, scratch)
            n_inner = n_found
        mark += 3
        n_frame, n_room = _gather(
            i, frame_size, hop_frames, row_limit, forced, indptr, indices, near_indices,
            distance, found, n_inner, n_found, room, place, stamp, mark,
        )  # fmt: skip
        # 2. Geodesics among the frame's vertices (eq. 1).
        _fill_adjacency(room, n_room, row_limit, indptr, indices, lengths, place, dense)
        _shortest_paths(dense, n_frame, n_room, through)
        # 3. Gram matrix with the origin at i (eq. 2).
        m = n_frame - 1
        gram = np.empty((m, m))
        power = 0.0
        for u in range(m):
            for v in range(u + 1):
                value = 0.5 * (
                    dense[u + 1, 0] * dense[u + 1, 0]
                    + dense[v + 1, 0] * dense[v + 1, 0]
                    - dense[u + 1, v + 1] * dense[u + 1, v + 1]
                )
                gram[u, v] = gram[v, u] = value
                power += value * value * (2.0 if u != v else 1.0)
        spectrum[i, n_components] = power
        for e in range(indptr[i], indptr[i + 1]):
            v = indices[e]
            included[e] = stamp[v] == mark and place[v] <= m
            frame[e, 0] = place[v] - 1 if included[e] else -1
        # 4. Leading eigenpairs (eq. 3); directions that the neighbourhood does not have stay zero.
        if n_waiting > 0 and abs(m - orders[0]) > filled:
            put_all(waiting, n_waiting, orders, alone, lanes, small, rotation, order, outputs)
            n_waiting = 0
        if fewest < m <= widest:
            for a in range(m):
                for k in range(m):
                    alone[n_waiting, a * m + k] = gram[a, k]
            waiting[n_waiting], orders[n_waiting] = i, m
            n_waiting += 1
            if n_waiting == LANES:
                put_all(waiting, n_waiting, orders, alone, lanes, small, rotation, order, outputs)
                n_waiting = 0
            continue
        if not pairs_of(gram, values, vectors, rows, image, small, rotation, order):
            full_spectrum(gram, values, vectors)
        _put(i, m, *outputs)
    if n_waiting > 0:
        put_all(waiting, n_waiting, orders, alone, lanes, small, rotation, order, outputs)
