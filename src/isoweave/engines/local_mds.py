"""Compiled kernel of the local frames: local geodesics, Gram matrices, eigenvectors.

Cost per vertex is bounded whatever the degrees are: see :func:`local_mds`.
"""

from __future__ import annotations

import numpy as np

from isoweave.engines.compile import helper, kernel
from isoweave.engines.eigen import EXTRA_VECTORS, block_iteration, full_spectrum
from isoweave.engines.neighborhoods import find_edge, gather, nearest_by_geodesic, within_hops

# Eigenvalues below this part of the largest one are rounding noise of the Gram matrix:
# the local rank is lower.
_RANK_TOLERANCE = 1e-10


@helper
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
                    e = find_edge(indices, indptr[u], indptr[u + 1], v)
                    if e >= 0:
                        dense[a, b] = lengths[e]
                        dense[b, a] = lengths[e]


@helper
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


@kernel
def local_mds(
    start, stop, indptr, indices, lengths, near_indices, near_lengths, frame_size, room_size, row_limit,
    hop_frames, forced, frame, inverse, spectrum, included,
):  # fmt: skip
    """Local frames of the vertices start..stop (eqs. 1 to 4).

    Parameters
    ----------
    indptr, indices, lengths : the graph; near_indices, near_lengths : the same rows in order of length
    frame_size, room_size : number of vertices (i included) in the scaling, and through which paths may lead
    row_limit : neighbours of i beyond so many nearest are left out of the frame of i, unless ``forced``
    hop_frames : bool
        Frames over all of the second-order neighbourhood with paths inside the third, as the paper has
        it, up to the two sizes; otherwise neighbours and geodesically nearest vertices.
    forced : bool (m,) or (0,), edges that must be in the frame whatever their rank
    frame : (m, N) output, rows E_i[j]
    inverse : (m, N) output, rows V S^(-1/2), or (0, N) when not wanted
    spectrum : (n, N + 1) output, leading eigenvalues and, last, the sum of squares of all eigenvalues
    included : bool (m,) output, edges with a row in the frame of their source
    """
    n = len(indptr) - 1
    n_components = frame.shape[1]
    distance = np.empty(n)
    stamp = np.zeros(n, dtype=np.int32)
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
    found = np.empty(capacity, dtype=np.int32)
    room = np.empty(capacity, dtype=np.int32)
    n_heap = 1 if hop_frames else min(most * most, len(indices)) + 1
    keys = np.empty(n_heap)
    items = np.empty(n_heap, dtype=np.int32)
    dense = np.empty((capacity, capacity))
    values = np.empty(n_components)
    vectors = np.empty((capacity, n_components))
    block = n_components + EXTRA_VECTORS
    rows = np.empty((block, capacity))
    image = np.empty((block, capacity))
    small = np.empty((block, block))
    rotation = np.empty((block, block))
    order = np.empty(block, dtype=np.int32)
    mark = 0
    for i in range(start, stop):
        # 1. The vertices of the frame, and those that paths may lead through.
        if hop_frames:
            n_inner, n_found = within_hops(i, 3, room_size, indptr, near_indices, stamp, mark + 1, found)
            n_inner = min(n_inner, frame_size)
        else:
            n_found = nearest_by_geodesic(
                i, room_size, most, indptr, near_indices, near_lengths,
                distance, stamp, mark + 1, found, keys, items,
            )  # fmt: skip
            n_inner = n_found
        mark += 3
        n_frame, n_room = gather(
            i, frame_size, hop_frames, row_limit, forced, indptr, indices, near_indices,
            distance, found, n_inner, n_found, room, place, stamp, mark,
        )  # fmt: skip
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
        if not block_iteration(gram, values, vectors, rows, image, small, rotation, order):
            full_spectrum(gram, values, vectors)
        spectrum[i, n_components] = power
        for c in range(n_components):
            spectrum[i, c] = 0.0
            if c < m:
                spectrum[i, c] = max(values[c], 0.0)
        threshold = _RANK_TOLERANCE * spectrum[i, 0]
        for e in range(indptr[i], indptr[i + 1]):
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
