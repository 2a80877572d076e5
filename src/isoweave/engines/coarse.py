"""Kernels of the coarse start."""

import numpy as np

from isoweave.engines.compile import kernel
from isoweave.engines.paths import search_scratch, settle
from isoweave.engines.small import factor_small, substitute_small


@kernel
def sample_balls(
    start, stop, sample, is_sample, n_wanted, indptr, indices, lengths, members, distances, counts, others
):
    """Geodesic balls around samples start..stop, each grown until it holds ``n_wanted`` other samples."""
    # ``members[s, :counts[s]]`` are the vertices of ball s in order of distance, cut at the width of that;
    # ``others[s]``, of any width, the places of the other samples among them, then -1.
    n = len(indptr) - 1
    graph, scratch = (indptr, indices, lengths), search_scratch(n, len(indices))
    distance, found = scratch[0], np.empty(members.shape[1], dtype=np.int32)
    for s in range(start, stop):
        mark = 2 * (s + 1)
        counts[s] = settle(sample[s], n_wanted + 1, is_sample, 1, 0.0, n, found, mark, graph, scratch)
        size = 0
        for a in range(counts[s]):
            members[s, a], distances[s, a] = found[a], distance[found[a]]
            if a > 0 and size < others.shape[1] and is_sample[found[a]] == 1:
                others[s, size] = a
                size += 1
        for a in range(size, others.shape[1]):
            others[s, a] = -1


@kernel
def keep_nearest(start, stop, first, counts, members, distances, anchors, lengths, filled):
    """Insert balls ``first, first + 1, ...`` into the nearest anchors of the vertices start..stop."""
    # Rows are nearest first, with ``filled`` entries in use.
    width = anchors.shape[1]
    for s in range(len(counts)):
        for b in range(counts[s]):
            v, d = members[s, b], distances[s, b]
            if v < start or v >= stop:
                continue
            a = filled[v]
            if a == width:
                if d >= lengths[v, width - 1]:
                    continue
                a -= 1
            else:
                filled[v] += 1
            while a > 0 and lengths[v, a - 1] > d:
                anchors[v, a], lengths[v, a] = anchors[v, a - 1], lengths[v, a - 1]
                a -= 1
            anchors[v, a], lengths[v, a] = first + s, d


@kernel
def triangulate(start, stop, filled, anchors, distances, places, coordinates):
    """Position of vertices from their distances to the nearest few anchors (eq. 13, locally)."""
    # Subtracting the mean of the equations ``|y - p_a|^2 = d_a^2`` leaves a linear least-squares problem in
    # y. Vertices with too few anchors are put at the nearest one; those with none are left alone.
    n_components = places.shape[1]
    gram, right, mean = np.empty((n_components, n_components)), np.empty(n_components), np.empty(n_components)
    excess, lower = np.empty(anchors.shape[1]), np.empty((n_components, n_components))
    for i in range(start, stop):
        count = filled[i]
        if count == 0:
            continue
        for c in range(n_components):
            coordinates[i, c] = places[anchors[i, 0], c]
        if count < n_components + 2 or distances[i, 0] == 0.0:
            continue
        mean[:] = 0.0
        for a in range(count):
            for c in range(n_components):
                mean[c] += places[anchors[i, a], c] / count
        level = trace = 0.0
        for a in range(count):
            square = 0.0
            for c in range(n_components):
                x = places[anchors[i, a], c] - mean[c]
                square += x * x
            excess[a] = square - distances[i, a] * distances[i, a]
            level += excess[a] / count
            trace += square
        right[:] = 0.0
        gram[:] = 0.0
        for a in range(count):
            value = 0.5 * (excess[a] - level)
            for r in range(n_components):
                x = places[anchors[i, a], r] - mean[r]
                right[r] += x * value
                for c in range(n_components):
                    gram[r, c] += x * (places[anchors[i, a], c] - mean[c])
        if not trace > 0.0:
            continue
        # A little of the identity keeps thin sets of anchors from throwing the vertex far away. LAPACK would
        # let one thread in at a time.
        factor_small(gram, 1e-3 * trace / n_components, lower)
        substitute_small(lower, right)
        for c in range(n_components):
            coordinates[i, c] = mean[c] + right[c]


@kernel
def smooth_around(start, stop, indptr, indices, x, out):
    """Every vertex half way to the mean of its neighbours."""
    for i in range(start, stop):
        first, last = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
        for c in range(x.shape[1]):
            total = 0.0
            for e in range(first, last):
                total += x[np.uint32(indices[e]), c]
            out[i, c] = 0.5 * x[i, c] + 0.5 * total / (indptr[i + 1] - indptr[i])
