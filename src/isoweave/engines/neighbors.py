"""Kernels of the neighbour searches: distances, smallest entries."""

import numpy as np

from isoweave.engines.compile import inlined, kernel
from isoweave.engines.lanes import LANES, set_products
from isoweave.engines.vectors import aligned

# Scores that are looked at together.
_BLOCK = 32


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
    last, d = neighbors.shape[1] - 1, points.shape[1]
    # Ends on a whole vector, with zeros.
    width = (d + LANES - 1) // LANES * LANES
    step, total = aligned(width // LANES), aligned(1)
    for r in range(start, stop):
        neighbors[r] = -1
        distances[r] = np.inf
        for c in range(candidates.shape[1]):
            j = candidates[r, c]
            if c < floors.shape[1] and floors[r, c] > distances[r, last]:
                break
            if j < 0 or j == own[r]:
                continue
            for a in range(d):
                step[a] = queries[r, a] - points[j, a]
            set_products(total, 0, 1.0, step, 0, LANES, step, 0, LANES, width // LANES)
            _insert(r, np.sqrt(total.sum()), j, distances, neighbors)


@kernel
def k_smallest(start, stop, scores, column, own, indices, values):
    """Put entries of each row of ``scores`` but its own among its smallest so far, sorted.

    Columns are numbered from ``column``; ties go to the lower index.
    """
    last = indices.shape[1] - 1
    for r in range(start, stop):
        worst = values[r, last]
        for first in range(0, scores.shape[1], _BLOCK):
            end = min(first + _BLOCK, scores.shape[1])
            # Few blocks hold one that is small enough: those are counted by vector instructions.
            count = 0
            for j in range(first, end):
                count += scores[r, j] < worst
            if count == 0:
                continue
            for j in range(first, end):
                if scores[r, j] < worst and column + j != own[r]:
                    _insert(r, scores[r, j], column + j, values, indices)
                    worst = values[r, last]
