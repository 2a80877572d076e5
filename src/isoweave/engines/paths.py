"""Kernels that follow paths: detours of the shortcut filter, geodesics that metrics compare with."""

import numpy as np

from isoweave.engines.compile import helper, kernel
from isoweave.engines.neighborhoods import find_edge, heap_pop, heap_push, search_from, search_scratch, settle


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
    start, stop, suspects, limits, max_settled, max_scanned, sources, indptr, indices, lengths, trusted, found
):
    """Whether a path of trusted edges no longer than the limit joins the ends, for suspects start..stop."""
    # ``found``: 1 yes, 0 no, 2 undecided (the ball around the edge is too large to search).
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
        size = search_from(u, mark, distance, stamp, keys, items)
        settled = scanned = 0
        while size > 0:
            d, w = keys[0], items[0]
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
                    stamp[x], distance[x] = mark, t
                    size = heap_push(keys, items, size, t, x)


@kernel
def edge_geodesics(start, stop, indptr, indices, lengths, geodesics):
    """Shortest-path distance between the ends of every stored edge of rows ``start .. stop``."""
    n = len(indptr) - 1
    found, target_of = np.empty(n, np.int32), np.full(n, -1, np.int32)
    distance, stamp, keys, items = search_scratch(n, len(indices))
    for i in range(start, stop):
        for e in range(indptr[i], indptr[i + 1]):
            target_of[indices[e]] = i
        settle(
            i, indptr[i + 1] - indptr[i], target_of, i, found, 2 * (i + 1),
            indptr, indices, lengths, distance, stamp, keys, items,
        )  # fmt: skip
        for e in range(indptr[i], indptr[i + 1]):
            geodesics[e] = distance[indices[e]]


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
    distance, stamp, keys, items = search_scratch(n, len(indices))
    for j in range(start, stop):
        n_targets = 0
        for e in range(indptr[j], indptr[j + 1]):
            i = indices[e]
            for f in range(indptr[i], indptr[i + 1]):
                if target_of[indices[f]] != j:
                    target_of[indices[f]] = j
                    n_targets += 1
        settle(
            j, n_targets, target_of, j, found, 2 * (j + 1),
            indptr, indices, geodesics, distance, stamp, keys, items,
        )  # fmt: skip
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
