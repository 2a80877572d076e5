"""Compiled kernels: short geodesics around every vertex, and what angles and Gram matrices need of them."""

from __future__ import annotations

import numpy as np
from numba import njit

from isoweave._typing import FloatArray, IntArray


@njit(nogil=True, cache=True)
def _sift_up(position: int, heap: IntArray, place: IntArray, key: FloatArray) -> None:
    vertex = heap[position]
    while position > 0:
        parent = (position - 1) >> 1
        if key[heap[parent]] <= key[vertex]:
            break
        heap[position] = heap[parent]
        place[heap[position]] = position
        position = parent
    heap[position] = vertex
    place[vertex] = position


@njit(nogil=True, cache=True)
def _pop(size: int, heap: IntArray, place: IntArray, key: FloatArray) -> int:
    """Remove and return the nearest vertex of a heap that holds ``size`` vertices."""
    top: int = heap[0]
    vertex = heap[size - 1]
    position = 0
    while True:
        child = 2 * position + 1
        if child >= size - 1:
            break
        if child + 1 < size - 1 and key[heap[child + 1]] < key[heap[child]]:
            child += 1
        if key[vertex] <= key[heap[child]]:
            break
        heap[position] = heap[child]
        place[heap[position]] = position
        position = child
    heap[position] = vertex
    place[vertex] = position
    return top


@njit(nogil=True, cache=True)
def _reach(
    source: int,
    n_targets: int,
    is_target: IntArray,
    indptr: IntArray,
    indices: IntArray,
    lengths: FloatArray,
    distance: FloatArray,
    heap: IntArray,
    place: IntArray,
    touched: IntArray,
) -> int:
    """Dijkstra from ``source`` until every vertex with ``is_target == source`` is settled.

    ``distance`` is infinite everywhere on entry; on exit it is final for the targets, and the vertices
    whose value must be reset are the first (returned number) entries of ``touched``.
    """
    distance[source] = 0.0
    heap[0] = source
    place[source] = 0
    touched[0] = source
    size, n_touched = 1, 1
    while size > 0 and n_targets > 0:
        vertex = _pop(size, heap, place, distance)
        size -= 1
        if is_target[vertex] == source:
            n_targets -= 1
        for e in range(indptr[vertex], indptr[vertex + 1]):
            other = indices[e]
            through = distance[vertex] + lengths[e]
            if through < distance[other]:
                if distance[other] == np.inf:
                    touched[n_touched] = other
                    n_touched += 1
                    heap[size] = other
                    place[other] = size
                    size += 1
                distance[other] = through
                _sift_up(place[other], heap, place, distance)
    return n_touched


@njit(nogil=True, cache=True)
def edge_geodesics(
    start: int, stop: int, indptr: IntArray, indices: IntArray, lengths: FloatArray, geodesics: FloatArray
) -> None:
    """Shortest-path distance between the ends of every stored edge of rows ``start .. stop``."""
    n = len(indptr) - 1
    distance = np.full(n, np.inf)
    heap, place, touched = np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n, np.int32)
    is_target = np.full(n, np.int32(-1))
    for i in range(start, stop):
        for e in range(indptr[i], indptr[i + 1]):
            is_target[indices[e]] = i
        n_targets = indptr[i + 1] - indptr[i]
        n_touched = _reach(i, n_targets, is_target, indptr, indices, lengths, distance, heap, place, touched)
        for e in range(indptr[i], indptr[i + 1]):
            geodesics[e] = distance[indices[e]]
        for t in range(n_touched):
            distance[touched[t]] = np.inf


@njit(nogil=True, cache=True)
def neighborhood_shapes(
    start: int,
    stop: int,
    indptr: IntArray,
    indices: IntArray,
    geodesics: FloatArray,
    embedding: FloatArray,
    angle_sum: FloatArray,
    angle_count: FloatArray,
    gram_error: FloatArray,
    gram_size: FloatArray,
) -> None:
    """Compare angles and Gram entries of the neighbour pairs (j, k) of i, for all i around each j.

    One search from j serves every i next to j, so there are n searches and not one per edge. Outputs:
    ``angle_sum[j]`` and ``angle_count[j]`` over pairs with j < k, in radians; ``gram_error[e]`` and
    ``gram_size[e]`` for the stored edge e = (j, i): row j of Gram matrix i, squared and summed.
    """
    n, width = embedding.shape
    distance = np.full(n, np.inf)
    heap, place, touched = np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n, np.int32)
    is_target = np.full(n, np.int32(-1))
    for j in range(start, stop):
        n_targets = 0
        for e in range(indptr[j], indptr[j + 1]):
            i = indices[e]
            for f in range(indptr[i], indptr[i + 1]):
                if is_target[indices[f]] != j:
                    is_target[indices[f]] = j
                    n_targets += 1
        n_touched = _reach(
            j, n_targets, is_target, indptr, indices, geodesics, distance, heap, place, touched
        )
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
        for t in range(n_touched):
            distance[touched[t]] = np.inf
