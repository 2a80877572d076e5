"""Compiled kernels that place new points in a finished map.

Every new point is worked out from its own row alone, so its bits do not depend on the others in the batch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from isoweave.place._directions import direction, reach, same_sheet
from isoweave.place._small import factor, substitute

# What a distance counts for against the direction a neighbour's frame gives (docs/new_points.md).
_LENGTH_WEIGHT = 16.0
# Where distances alone can be met this much better (as squares) they are exact, and directions, which paths
# make up, are in the way. Real data stay above a half.
_CLEARLY_BETTER = 1e-4
_EXACT_WEIGHT = 1e10
_MAX_STEPS = 60
_STEP_TOLERANCE = 1e-9


@njit(nogil=True, cache=True)
def _energies(
    y: Any, used: Any, n_used: int, lengths: Any, coordinates: Any, seen: Any
) -> tuple[float, float]:
    """Mismatch of directions and of distances, each neighbour weighted by 1 / distance."""
    turned, stretched = 0.0, 0.0
    for a in range(n_used):
        square, off = 0.0, 0.0
        for c in range(len(y)):
            square += (y[c] - coordinates[used[a], c]) ** 2
            off += (y[c] - seen[a, c]) ** 2
        turned += off / lengths[a]
        stretched += (np.sqrt(square) - lengths[a]) ** 2 / lengths[a]
    return turned, stretched


@njit(nogil=True, cache=True)
def _settle(
    y: Any,
    used: Any,
    n_used: int,
    lengths: Any,
    coordinates: Any,
    seen: Any,
    hessian: Any,
    lower: Any,
    step: Any,
    trial: Any,
    weight: float,
) -> int:
    """Minimise directions plus ``weight`` times distances from y, in place; return the steps taken.

    Gauss-Newton; a step that raises the energy is replaced by one of majorisation (every neighbour pulls to
    its distance along the present direction), which never does.
    """
    n = len(y)
    turned, stretched = _energies(y, used, n_used, lengths, coordinates, seen)
    energy = turned + weight * stretched
    mean = lengths[:n_used].mean()
    for iteration in range(1, _MAX_STEPS + 1):
        hessian[:] = 0.0
        step[:] = 0.0
        total = 0.0
        for a in range(n_used):
            w = 1.0 / lengths[a]
            total += w
            length = 0.0
            for c in range(n):
                trial[c] = y[c] - coordinates[used[a], c]
                length += trial[c] * trial[c]
            length = np.sqrt(length)
            for r in range(n):
                step[r] += w * (seen[a, r] - y[r])
                if length > 0.0:
                    step[r] += weight * w * (lengths[a] - length) * trial[r] / length
                    for c in range(r + 1):
                        hessian[r, c] += weight * w * trial[r] * trial[c] / (length * length)
        for c in range(n):
            trial[c] = y[c] + step[c] / (total * (1.0 + weight))
        factor(hessian, total, lower)
        substitute(lower, step)
        for c in range(n):
            step[c] += y[c]
        turned, stretched = _energies(step, used, n_used, lengths, coordinates, seen)
        if not turned + weight * stretched <= energy:
            step[:] = trial
            turned, stretched = _energies(step, used, n_used, lengths, coordinates, seen)
            if not turned + weight * stretched < energy:
                return iteration - 1
        energy = turned + weight * stretched
        moved = 0.0
        for c in range(n):
            moved += (step[c] - y[c]) ** 2
            y[c] = step[c]
        if moved <= (_STEP_TOLERANCE * mean) ** 2:
            return iteration
    return _MAX_STEPS


@njit(nogil=True, cache=True)
def place_rows(
    start: int,
    stop: int,
    starts: Any,
    counts: Any,
    neighbors: Any,
    distances: Any,
    indptr: Any,
    near: Any,
    near_lengths: Any,
    row_limit: int,
    coordinates: Any,
    labels: Any,
    places: Any,
    residual: Any,
    n_iter: Any,
    n_used: Any,
) -> None:
    """Places of the new points start..stop, neighbours sorted by distance (see ``place_points``)."""
    n_points, n = coordinates.shape
    widest, longest = 1, n
    for i in range(start, stop):
        widest = max(widest, counts[i])
    for v in range(n_points):
        longest = max(longest, min(indptr[v + 1] - indptr[v], row_limit))
    group = np.empty(widest, dtype=np.int32)
    used = np.empty(widest, dtype=np.int32)
    lengths = np.empty(widest)
    seen = np.empty((widest, n))
    path = np.empty(n_points)
    stamp = np.zeros(n_points, dtype=np.int64)
    rows = np.empty((longest + 1, n))
    products = np.empty(longest + 1)
    square = np.empty((n, n))
    lower = np.zeros((n, n))
    right = np.empty(n)
    work = np.empty(n)
    y = np.empty(n)
    mark = 0
    for i in range(start, stop):
        mark += 2
        lo, hi = starts[i], starts[i] + counts[i]
        n_iter[i] = 0
        if distances[lo] == 0.0:
            # A point of the map: its own place, whatever the others say.
            places[i] = coordinates[neighbors[lo]]
            residual[i] = np.nan if np.isnan(places[i, 0]) else 0.0
            n_used[i] = 1
            continue
        best = same_sheet(lo, hi, neighbors, distances, coordinates, labels, group)
        count = 0
        for a in range(hi - lo):
            if group[a] == best:
                used[count] = neighbors[lo + a]
                lengths[count] = distances[lo + a]
                count += 1
        n_used[i] = count
        if np.isnan(coordinates[used[0], 0]):
            places[i] = np.nan
            residual[i] = np.nan
            continue
        reach(used, count, lengths, indptr, near, near_lengths, row_limit, path, stamp, mark)
        y[:] = 0.0
        total = 0.0
        for a in range(count):
            found = direction(
                used[a],
                lengths[a],
                indptr,
                near,
                near_lengths,
                row_limit,
                coordinates,
                path,
                rows,
                products,
                square,
                lower,
                right,
                work,
            )
            for c in range(n):
                seen[a, c] = coordinates[used[a], c] + (work[c] if found else 0.0)
                y[c] += seen[a, c] / lengths[a]
            total += 1.0 / lengths[a]
        for c in range(n):
            y[c] /= total
        weight = _LENGTH_WEIGHT
        n_iter[i] = _settle(y, used, count, lengths, coordinates, seen, square, lower, right, work, weight)
        turned, stretched = _energies(y, used, count, lengths, coordinates, seen)
        total = lengths[:count].sum()
        # Up to N distances can always be met, which says nothing about them.
        if count > n:
            places[i] = y
            before = stretched
            steps = _settle(
                y, used, count, lengths, coordinates, seen, square, lower, right, work, _EXACT_WEIGHT
            )
            turned_now, stretched = _energies(y, used, count, lengths, coordinates, seen)
            if stretched <= _CLEARLY_BETTER * before:
                n_iter[i] += steps
                weight, turned = _EXACT_WEIGHT, turned_now
            else:
                y[:] = places[i]
                stretched = before
        places[i] = y
        scale = (1.0 + weight) * total
        residual[i] = np.inf if count < max(n, 2) else np.sqrt((turned + weight * stretched) / scale)
