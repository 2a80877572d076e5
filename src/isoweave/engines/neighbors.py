"""Kernels of the neighbour searches and of duplicates: distances, smallest entries, hashes of rows."""

import numpy as np

from isoweave.engines.compile import helper, inlined, kernel


@inlined
def _insert(r, value, j, values, indices):
    """Put a pair into a sorted row, which drops its last; ties go to the lower index."""
    k = values.shape[1]
    slot = k
    while slot > 0 and (
        value < values[r, slot - 1] or (value == values[r, slot - 1] and j < indices[r, slot - 1])
    ):
        slot -= 1
        if slot + 1 < k:
            values[r, slot + 1], indices[r, slot + 1] = values[r, slot], indices[r, slot]
    if slot < k:
        values[r, slot], indices[r, slot] = value, j


@kernel
def measure_rows(start, stop, queries, own, points, candidates, floors, neighbors, distances):
    """Nearest candidates of each query by coordinate differences, sorted; ties go to the lower index."""
    # ``own`` is the number of a query among the points, -1 if it is none: no point is its own neighbour.
    # ``floors`` has a column for each candidate, in ascending order, or none: it is no nearer than that.
    last = neighbors.shape[1] - 1
    for r in range(start, stop):
        neighbors[r] = -1
        distances[r] = np.inf
        for c in range(candidates.shape[1]):
            j = candidates[r, c]
            if c < floors.shape[1] and floors[r, c] > distances[r, last]:
                break
            if j < 0 or j == own[r]:
                continue
            total = 0.0
            for a in range(points.shape[1]):
                step = queries[r, a] - points[j, a]
                total += step * step
            _insert(r, np.sqrt(total), j, distances, neighbors)


@kernel
def k_smallest(start, stop, scores, own, indices, values):
    """Smallest entries of each row of ``scores`` but its own, sorted; ties go to the lower index."""
    last = indices.shape[1] - 1
    for r in range(start, stop):
        indices[r] = -1
        values[r] = worst = np.inf
        for j in range(scores.shape[1]):
            if scores[r, j] < worst and j != own[r]:
                _insert(r, scores[r, j], j, values, indices)
                worst = values[r, last]


@helper
def _mix(x):
    """Finaliser of splitmix64: every bit of the result depends on every bit of ``x``."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@kernel
def hash_rows(start, stop, bits, hashes):
    """Hash of each row's bit patterns."""
    for i in range(start, stop):
        h = np.uint64(0)
        for j in range(bits.shape[1]):
            h = _mix(h + bits[i, j] + np.uint64(0x9E3779B97F4A7C15))
        hashes[i] = h
