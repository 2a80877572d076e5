"""Compiled kernels: short geodesics around every vertex, and what angles and Gram matrices need of them."""

from __future__ import annotations

import numpy as np

from isoweave.engines.compile import helper, kernel
from isoweave.engines.neighborhoods import heap_pop, heap_push


@helper
def _reach(source, n_targets, is_target, indptr, indices, lengths, distance, reached, keys, items):
    """Dijkstra from ``source`` until every vertex with ``is_target == source`` is settled.

    ``distance`` is then final for the targets; it means something where ``reached == source`` only.
    """
    distance[source] = 0.0
    reached[source] = source
    keys[0] = 0.0
    items[0] = source
    size = 1
    while size > 0 and n_targets > 0:
        d = keys[0]
        u = items[0]
        size = heap_pop(keys, items, size)
        if d > distance[u]:
            continue
        if is_target[u] == source:
            n_targets -= 1
        for e in range(indptr[u], indptr[u + 1]):
            v = indices[e]
            t = d + lengths[e]
            if reached[v] != source or t < distance[v]:
                reached[v] = source
                distance[v] = t
                size = heap_push(keys, items, size, t, v)


@helper
def _scratch(n, m):
    """Distances, who reached and who is sought (no vertex is numbered -1), and a heap for every edge."""
    reached = np.empty(n, np.int32)
    is_target = np.empty(n, np.int32)
    for i in range(n):
        reached[i] = is_target[i] = -1
    return np.empty(n), reached, is_target, np.empty(m + 1), np.empty(m + 1, np.int32)


@kernel
def geodesics_from(start, stop, sources, indptr, indices, lengths, geodesics):
    """Shortest-path distances from the sources ``start .. stop`` to all vertices; infinite without a path."""
    n = len(indptr) - 1
    distance, reached, is_target, keys, items = _scratch(n, len(indices))
    for s in range(start, stop):
        for i in range(n):
            reached[i] = -1
        _reach(sources[s], 1, is_target, indptr, indices, lengths, distance, reached, keys, items)
        for i in range(n):
            geodesics[s, i] = distance[i] if reached[i] >= 0 else np.inf


@kernel
def edge_geodesics(start, stop, indptr, indices, lengths, geodesics):
    """Shortest-path distance between the ends of every stored edge of rows ``start .. stop``."""
    distance, reached, is_target, keys, items = _scratch(len(indptr) - 1, len(indices))
    for i in range(start, stop):
        for e in range(indptr[i], indptr[i + 1]):
            is_target[indices[e]] = i
        n_targets = indptr[i + 1] - indptr[i]
        _reach(i, n_targets, is_target, indptr, indices, lengths, distance, reached, keys, items)
        for e in range(indptr[i], indptr[i + 1]):
            geodesics[e] = distance[indices[e]]


@kernel
def neighborhood_shapes(
    start, stop, indptr, indices, geodesics, embedding, angle_sum, angle_count, gram_error, gram_size
):
    """Compare angles and Gram entries of the neighbour pairs (j, k) of i, for all i around each j.

    One search from j serves every i next to j, so there are n searches and not one per edge. Outputs:
    ``angle_sum[j]`` and ``angle_count[j]`` over pairs with j < k, in radians; ``gram_error[e]`` and
    ``gram_size[e]`` for the stored edge e = (j, i): row j of Gram matrix i, squared and summed.
    """
    width = embedding.shape[1]
    distance, reached, is_target, keys, items = _scratch(len(indptr) - 1, len(indices))
    for j in range(start, stop):
        n_targets = 0
        for e in range(indptr[j], indptr[j + 1]):
            i = indices[e]
            for f in range(indptr[i], indptr[i + 1]):
                if is_target[indices[f]] != j:
                    is_target[indices[f]] = j
                    n_targets += 1
        _reach(j, n_targets, is_target, indptr, indices, geodesics, distance, reached, keys, items)
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
                    ours = product / (np.sqrt(norm_j) * np.sqrt(norm_k))
                    theirs = gram / (arm_j * arm_k)
                    ours, theirs = min(1.0, max(-1.0, ours)), min(1.0, max(-1.0, theirs))
                    angle_sum[j] += abs(np.arccos(ours) - np.arccos(theirs))
                    angle_count[j] += 1.0
            gram_error[e] = error
            gram_size[e] = size
