"""Compiled kernels of the coarse start."""

from __future__ import annotations

import numpy as np

from isoweave.engines.compile import kernel
from isoweave.engines.neighborhoods import heap_pop, heap_push


@kernel
def sample_balls(
    start, stop, sample, is_sample, n_wanted, indptr, indices, lengths, members, distances, counts
):
    """Geodesic balls around samples start..stop, each grown until it holds ``n_wanted`` other samples.

    ``members[s, :counts[s]]`` are the vertices of ball s in order of distance; a ball is cut at the width of
    ``members``.
    """
    n = len(indptr) - 1
    distance = np.empty(n)
    stamp = np.zeros(n, dtype=np.int32)
    capacity = members.shape[1]
    n_heap = 1024
    keys = np.empty(n_heap)
    items = np.empty(n_heap, dtype=np.int32)
    mark = 0
    for s in range(start, stop):
        mark += 2
        root = sample[s]
        distance[root] = 0.0
        stamp[root] = mark
        keys[0] = 0.0
        items[0] = root
        size = 1
        count = 0
        found = -1
        while size > 0 and count < capacity and found < n_wanted:
            d = keys[0]
            u = items[0]
            size = heap_pop(keys, items, size)
            if stamp[u] == mark + 1:
                continue
            stamp[u] = mark + 1
            members[s, count] = u
            distances[s, count] = d
            count += 1
            found += is_sample[u]
            if size + indptr[u + 1] - indptr[u] >= n_heap:
                n_heap = 2 * (size + indptr[u + 1] - indptr[u])
                wider_keys = np.empty(n_heap)
                wider_items = np.empty(n_heap, dtype=np.int32)
                for a in range(size):
                    wider_keys[a] = keys[a]
                    wider_items[a] = items[a]
                keys = wider_keys
                items = wider_items
            for a in range(indptr[u], indptr[u + 1]):
                v = indices[a]
                t = d + lengths[a]
                if stamp[v] < mark or (stamp[v] == mark and t < distance[v]):
                    stamp[v] = mark
                    distance[v] = t
                    size = heap_push(keys, items, size, t, v)
        counts[s] = count


@kernel
def keep_nearest(first, counts, members, distances, anchors, lengths, filled):
    """Insert the members of balls ``first, first + 1, ...`` into every vertex's list of nearest anchors.

    ``anchors`` and ``lengths`` have a row per vertex, nearest first, of which ``filled`` entries are in use.
    Runs in one thread: balls overlap.
    """
    width = anchors.shape[1]
    for s in range(len(counts)):
        for b in range(counts[s]):
            v = members[s, b]
            d = distances[s, b]
            a = filled[v]
            if a == width:
                if d >= lengths[v, width - 1]:
                    continue
                a -= 1
            else:
                filled[v] += 1
            while a > 0 and lengths[v, a - 1] > d:
                anchors[v, a] = anchors[v, a - 1]
                lengths[v, a] = lengths[v, a - 1]
                a -= 1
            anchors[v, a] = first + s
            lengths[v, a] = d


@kernel
def triangulate(start, stop, filled, anchors, distances, places, coordinates):
    """Position of the vertices start..stop from their distances to the nearest few anchors (eq. 13, locally).

    Subtracting the mean of the equations ``|y - p_a|^2 = d_a^2`` leaves a linear least-squares problem in y.
    Vertices with too few anchors are put at the nearest one; those with none are left alone.
    """
    n_components = places.shape[1]
    gram = np.empty((n_components, n_components))
    right = np.empty(n_components)
    mean = np.empty(n_components)
    for i in range(start, stop):
        count = filled[i]
        if count == 0:
            continue
        for c in range(n_components):
            coordinates[i, c] = places[anchors[i, 0], c]
        if count < n_components + 2 or distances[i, 0] == 0.0:
            continue
        for c in range(n_components):
            mean[c] = 0.0
            for a in range(count):
                mean[c] += places[anchors[i, a], c] / count
        level = 0.0
        for a in range(count):
            square = 0.0
            for c in range(n_components):
                x = places[anchors[i, a], c] - mean[c]
                square += x * x
            level += (square - distances[i, a] * distances[i, a]) / count
        for r in range(n_components):
            right[r] = 0.0
            for c in range(n_components):
                gram[r, c] = 0.0
        trace = 0.0
        for a in range(count):
            square = 0.0
            for c in range(n_components):
                x = places[anchors[i, a], c] - mean[c]
                square += x * x
            value = 0.5 * (square - distances[i, a] * distances[i, a] - level)
            trace += square
            for r in range(n_components):
                x = places[anchors[i, a], r] - mean[r]
                right[r] += x * value
                for c in range(n_components):
                    gram[r, c] += x * (places[anchors[i, a], c] - mean[c])
        if not trace > 0.0:
            continue
        # A little of the identity keeps thin sets of anchors from throwing the vertex far away.
        for r in range(n_components):
            gram[r, r] += 1e-3 * trace / n_components
        solution = np.linalg.solve(gram, right)
        for c in range(n_components):
            coordinates[i, c] = mean[c] + solution[c]


@kernel
def average_neighbors(start, stop, indptr, indices, values, out):
    """Half of every value plus half of the mean over the neighbours, for rows start..stop."""
    width = values.shape[1]
    for i in range(start, stop):
        degree = indptr[i + 1] - indptr[i]
        for c in range(width):
            total = 0.0
            for e in range(indptr[i], indptr[i + 1]):
                total += values[indices[e], c]
            out[i, c] = 0.5 * values[i, c] + (0.5 * total / degree if degree > 0 else 0.5 * values[i, c])
