"""Kernels that follow paths: nearest vertices, balls and vertices within hops, detours, geodesics."""

import numpy as np

from isoweave.engines.compile import helper, inlined, kernel
from isoweave.engines.lanes import LANES, lower

# Edges from a source to any vertex, at most, for a search from several sources together.
_FEW_HOPS = 20


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
def search_scratch(n, m):
    """Distances, stamps, and a heap with room for every stored edge."""
    return np.empty(n), np.zeros(n, np.int32), np.empty(m + 1), np.empty(m + 1, np.int32)


@helper
def settle(i, n_wanted, wanted, label, tie, width, found, mark, graph, scratch):
    """Settle the vertices nearest to i, i first, until ``found`` is full or holds ``n_wanted`` of a label."""
    # Those up to ``tie`` times as far as the last one follow. ``stamp[v] == mark`` says reached, ``mark + 1``
    # settled. Of every row the first ``width`` edges are followed: if it is sorted by length only the first
    # ``len(found)`` can lead to a vertex to be found (the ends of the shorter ones are nearer), so a hub
    # costs no more than any other vertex, and the heap holds ``len(found)**2 + 1``. A width below n says so,
    # and that all labels are wanted: once as many are reached, no longer path is looked at.
    indptr, indices, lengths = graph
    distance, stamp, keys, items = scratch
    distance[i], stamp[i] = 0.0, mark
    keys[0], items[0] = 0.0, i
    size, count, reach = 1, 0, np.inf
    n_reached, enough, farthest, bound = 1, n_wanted, 0.0, np.inf
    if width >= len(stamp):
        enough = -1
    while size > 0 and count < len(found) and keys[0] <= reach:
        d, u = keys[0], items[0]
        size = heap_pop(keys, items, size)
        if stamp[u] == mark + 1:
            continue
        stamp[u] = mark + 1
        found[count] = u
        count += 1
        if wanted[u] == label:
            n_wanted -= 1
            if n_wanted == 0:
                reach = d * tie
        for e in range(indptr[u], min(indptr[u + 1], indptr[u] + width)):
            v = indices[e]
            t = d + lengths[e]
            if t > bound:
                break
            if stamp[v] < mark:
                n_reached += 1
                farthest = max(farthest, t)
                if n_reached == enough:
                    bound = farthest * max(tie, 1.0)
            elif stamp[v] > mark or t >= distance[v]:
                continue
            stamp[v], distance[v] = mark, t
            size = heap_push(keys, items, size, t, v)
    return count


@kernel
def nearest_lists(start, stop, indptr, near_indices, near_lengths, columns, distances):
    """The vertices nearest along the graph for start..stop, nearest first; -1 where there are no more."""
    limit = columns.shape[1] + 1
    found = np.empty(limit, dtype=np.int32)
    graph, scratch = (indptr, near_indices, near_lengths), search_scratch(len(indptr) - 1, limit * limit)
    distance, stamp = scratch[:2]
    for i in range(start, stop):
        mark = 2 * (i + 1)
        # All are wanted. (A literal label would compile the search once more.)
        count = settle(i, limit, stamp, mark + 1, 0.0, limit, found, mark, graph, scratch)
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
def _by_degree(i, j, indptr):
    """The two vertices, the one with fewer neighbours first."""
    if indptr[i + 1] - indptr[i] > indptr[j + 1] - indptr[j]:
        return j, i
    return i, j


@kernel
def common_neighbors(start, stop, indptr, indices, share):
    """Part of the smaller neighbourhood that the ends of each edge share, at its smaller vertex only."""
    # The shorter row is looked up in the longer one, so an edge at a hub costs the degree of its other end.
    for i in range(start, stop):
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            if j < i:
                continue
            short, long = _by_degree(i, j, indptr)
            count = 0
            for a in range(indptr[short], indptr[short + 1]):
                if find_edge(indices, indptr[long], indptr[long + 1], indices[a]) >= 0:
                    count += 1
            share[e] = count / (indptr[short + 1] - indptr[short])


@kernel
def find_detours(
    start, stop, suspects, limits, max_settled, max_scanned, sources, indptr, indices, lengths, trusted, rim,
    found,
):  # fmt: skip
    """Whether a path of trusted edges no longer than the limit joins the ends, for suspects start..stop."""
    # ``found``: 1 yes, 0 no, 2 undecided (the ball around the edge is too large to search), 3 that depends on
    # edges which are not here: of vertices where ``rim`` (n,) or (0,) is 1, and becomes 2.
    distance, stamp, keys, items = search_scratch(len(indptr) - 1, max_scanned)
    for s in range(start, stop):
        u, v, limit = sources[suspects[s]], indices[suspects[s]], limits[s]
        found[s] = 0
        # A common neighbour settles most cases.
        short, long = _by_degree(u, v, indptr)
        for a in range(indptr[short], indptr[short + 1]):
            if trusted[a] and lengths[a] <= limit:
                b = find_edge(indices, indptr[long], indptr[long + 1], indices[a])
                if b >= 0 and trusted[b] and lengths[a] + lengths[b] <= limit:
                    found[s] = 1
                    break
        if found[s] == 1:
            continue
        mark = 2 * (s + 1)
        distance[u], stamp[u] = 0.0, mark
        keys[0], items[0] = 0.0, u
        size, is_open = 1, False
        # Whatever is reached within the limit is in the ball, and counts long before it is settled.
        reached, scanned = 1, indptr[u + 1] - indptr[u]
        while size > 0 and found[s] == 0:
            d, w = keys[0], items[0]
            size = heap_pop(keys, items, size)
            if stamp[w] == mark + 1:
                continue
            stamp[w] = mark + 1
            if len(rim) > 0 and rim[w] > 0:
                rim[w], is_open = 2, True
            for a in range(indptr[w], indptr[w + 1]):
                t = d + lengths[a]
                if not trusted[a] or t > limit:
                    continue
                x = indices[a]
                if x == v:
                    found[s] = 1
                    break
                if stamp[x] < mark:
                    reached += 1
                    scanned += indptr[x + 1] - indptr[x]
                    if reached > max_settled or scanned > max_scanned:
                        found[s] = 2
                        break
                if stamp[x] < mark or (stamp[x] == mark and t < distance[x]):
                    stamp[x], distance[x] = mark, t
                    size = heap_push(keys, items, size, t, x)
        if found[s] == 0 and is_open:
            found[s] = 3


@kernel
def geodesics_from(start, stop, sources, indptr, indices, lengths, geodesics):
    """Shortest-path distances from the sources ``start .. stop`` to all vertices, infinite without a path."""
    n = len(indptr) - 1
    found = np.empty(n, np.int32)
    graph, scratch = (indptr, indices, lengths), search_scratch(n, len(indices))
    distance, stamp = scratch[:2]
    for s in range(start, stop):
        mark = 2 * (s + 1)
        settle(np.int64(sources[s]), n, stamp, mark + 1, 0.0, n, found, mark, graph, scratch)
        for i in range(n):
            geodesics[s, i] = distance[i] if stamp[i] == mark + 1 else np.inf


@kernel
def geodesics_together(start, stop, sources, indptr, indices, lengths, geodesics):
    """The same, bit by bit, for the groups ``start .. stop`` of ``LANES`` sources each."""
    # Where no vertex is many edges away, the paths from all sources of a group are shortened together,
    # vertex after vertex, until none can be: several times as fast as one search after the other.
    n = len(indptr) - 1
    distances, waiting = np.empty((n, LANES)), np.empty(n, np.int32)
    stamp, found = np.zeros(n, np.int32), np.empty(n, np.int32)
    for group in range(start, stop):
        first, last = group * LANES, min((group + 1) * LANES, len(sources))
        source = np.int64(sources[first])
        if within_hops(source, _FEW_HOPS, n, indptr, indices, stamp, group + 1, found)[1] < n:
            geodesics_from(first, last, sources, indptr, indices, lengths, geodesics)
            continue
        distances[:] = np.inf
        waiting[:] = 0
        for s in range(first, last):
            distances[sources[s], s - first] = 0.0
            waiting[sources[s]] = 1
        changed = True
        while changed:
            changed = False
            for u in range(n):
                if waiting[u] == 0:
                    continue
                waiting[u] = 0
                for e in range(indptr[u], indptr[u + 1]):
                    v = np.int64(indices[e])
                    if lower(distances, v * LANES, u * LANES, lengths[e]):
                        waiting[v] = 1
                        changed = True
        for s in range(first, last):
            for i in range(n):
                geodesics[s, i] = distances[i, s - first]


@kernel
def geodesics_within(start, stop, starts, offsets, indptr, indices, lengths, geodesics):
    """The same from all vertices of the components start..stop to those of each, one table after another."""
    n, most = len(indptr) - 1, 0
    for p in range(start, stop):
        most = max(most, starts[p + 1] - starts[p])
    found = np.empty(most, np.int32)
    graph, scratch = (indptr, indices, lengths), search_scratch(n, len(indices))
    distance, stamp = scratch[:2]
    for p in range(start, stop):
        lo, size, at = starts[p], starts[p + 1] - starts[p], offsets[p]
        for i in range(lo, lo + size):
            mark = 2 * (i + 1)
            settle(i, size, stamp, mark + 1, 0.0, n, found[:size], mark, graph, scratch)
            for j in range(lo, lo + size):
                geodesics[at] = distance[j] if stamp[j] == mark + 1 else np.inf
                at += 1


@kernel
def relax_paths(start, stop, changed, indptr, indices, lengths, distances):
    """Lower the distances in rows ``start .. stop`` to what paths from the ``changed`` vertices allow."""
    n = len(indptr) - 1
    keys, items = np.empty(n + len(indices) + 1), np.empty(n + len(indices) + 1, np.int32)
    for s in range(start, stop):
        size = 0
        for i in range(n):
            if changed[s, i]:
                size = heap_push(keys, items, size, distances[s, i], np.int32(i))
        while size > 0:
            d, u = keys[0], items[0]
            size = heap_pop(keys, items, size)
            if d > distances[s, u]:
                continue
            for e in range(indptr[u], indptr[u + 1]):
                t = d + lengths[e]
                if t < distances[s, indices[e]]:
                    distances[s, indices[e]] = t
                    size = heap_push(keys, items, size, t, indices[e])


@kernel
def edge_geodesics(start, stop, indptr, indices, lengths, geodesics):
    """Shortest-path distance between the ends of every stored edge of rows ``start .. stop``."""
    n = len(indptr) - 1
    found, target_of = np.empty(n, np.int32), np.full(n, -1, np.int32)
    graph, scratch = (indptr, indices, lengths), search_scratch(n, len(indices))
    for i in range(start, stop):
        for e in range(indptr[i], indptr[i + 1]):
            target_of[indices[e]] = i
        degree = indptr[i + 1] - indptr[i]
        settle(i, degree, target_of, i, 0.0, n, found, 2 * (i + 1), graph, scratch)
        for e in range(indptr[i], indptr[i + 1]):
            geodesics[e] = scratch[0][indices[e]]


@kernel
def neighborhood_shapes(
    start, stop, indptr, indices, geodesics, embedding, angle_sum, angle_count, gram_error, gram_size
):
    """Compare angles and Gram entries of the neighbour pairs (j, k) of i, for all i around each j."""
    # One search from j serves every i next to j, so there are n searches and not one per edge. Angles are in
    # radians over pairs with j < k; ``gram_error[e]`` and ``gram_size[e]`` of the stored edge e = (j, i) are
    # sums over the squares in row j of Gram matrix i.
    width = embedding.shape[1]
    n = len(indptr) - 1
    found, target_of = np.empty(n, np.int32), np.full(n, -1, np.int32)
    graph, scratch = (indptr, indices, geodesics), search_scratch(n, len(indices))
    distance = scratch[0]
    for j in range(start, stop):
        n_targets = 0
        for e in range(indptr[j], indptr[j + 1]):
            i = indices[e]
            for f in range(indptr[i], indptr[i + 1]):
                if target_of[indices[f]] != j:
                    target_of[indices[f]] = j
                    n_targets += 1
        settle(j, n_targets, target_of, j, 0.0, n, found, 2 * (j + 1), graph, scratch)
        for e in range(indptr[j], indptr[j + 1]):
            i = indices[e]
            arm_j = geodesics[e]
            norm_j = 0.0
            for c in range(width):
                norm_j += (embedding[j, c] - embedding[i, c]) ** 2
            error, size = 0.0, 0.0
            for f in range(indptr[i], indptr[i + 1]):
                k = indices[f]
                arm_k = geodesics[f]
                gram = 0.5 * (arm_j * arm_j + arm_k * arm_k - distance[k] * distance[k])
                product, norm_k = 0.0, 0.0
                for c in range(width):
                    step = embedding[k, c] - embedding[i, c]
                    product += (embedding[j, c] - embedding[i, c]) * step
                    norm_k += step * step
                error += (product - gram) ** 2
                size += gram * gram
                if k > j and arm_j > 0.0 and arm_k > 0.0 and norm_j > 0.0 and norm_k > 0.0:
                    ours = min(1.0, max(-1.0, product / (np.sqrt(norm_j) * np.sqrt(norm_k))))
                    theirs = min(1.0, max(-1.0, gram / (arm_j * arm_k)))
                    angle_sum[j] += abs(np.arccos(ours) - np.arccos(theirs))
                    angle_count[j] += 1.0
            gram_error[e] = error
            gram_size[e] = size
