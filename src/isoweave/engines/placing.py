"""Kernels that place new points in a finished map.

Every new point is worked out from its own row alone, so its bits do not depend on the others in the batch.
"""

import numpy as np

from isoweave.engines.compile import helper, kernel
from isoweave.engines.small import factor_small, substitute_small

# Two points of the map this many times farther apart than their distances allow are not neighbours of one
# point: the triangle inequality holds with 1, maps that must stretch somewhere reach 2, and sheets that
# touch lie at least 7 times farther apart along the data (see docs/theory.md, shortcut filter).
FAR = 3.0
# Directions are regularised by this part of a neighbourhood's mean square at most, and 1e-9 at least.
_MOST_RIDGE = 1e-2
_LEAST_RIDGE = 1e-9
# From the largest to the smallest ridge in steps of a quarter or less there are 13.
_MAX_RIDGES = 16
_SHORTEST_ROW = 1e-6
# Smaller distances, in units of the median edge, are none: their squares vanish. So do the ridges of a
# neighbourhood whose mean square is smaller than the second.
_COINCIDENT = 1e-150
_COLLAPSED = 1e-290
# What a distance counts for against the direction a neighbour's frame gives (docs/new_points.md).
_LENGTH_WEIGHT = 16.0
# Where distances alone can be met this much better (as squares) they are exact, and directions, which paths
# make up, are in the way. Real data stay above a half.
_CLEARLY_BETTER = 1e-4
_EXACT_WEIGHT = 1e10
_MAX_STEPS = 60
_STEP_TOLERANCE = 1e-9


@helper
def _same_sheet(neighbors, distances, coordinates, labels, group):
    """Number the sheets that the neighbours lie on; return the number of the one to use."""
    # Two neighbours are on one sheet if the map puts them no farther apart than ``FAR`` times the way over
    # the new point, or if others link them. The sheet with the most neighbours wins, among equals the
    # nearest. Vertices without coordinates are linked among each other by their component alone.
    count = len(neighbors)
    for a in range(count):
        group[a] = a
    for a in range(1, count):
        for b in range(a):
            j, k = neighbors[a], neighbors[b]
            if group[a] == group[b] or labels[j] != labels[k]:
                continue
            square = 0.0
            for c in range(coordinates.shape[1]):
                step = coordinates[j, c] - coordinates[k, c]
                square += step * step
            is_far = np.sqrt(square) > FAR * (distances[a] + distances[b])
            if is_far or np.isnan(coordinates[j, 0]) != np.isnan(coordinates[k, 0]):
                continue
            old, new = max(group[a], group[b]), min(group[a], group[b])
            for other in range(count):
                if group[other] == old:
                    group[other] = new
    best, most = 0, 0
    for a in range(count):
        size = 0
        for b in range(count):
            size += group[b] == a
        # Groups are numbered by their nearest member.
        if size > most:
            best, most = a, size
    return best


@helper
def _reach(used, lengths, indptr, near, near_lengths, row_limit, path, stamp, mark):
    """Distances from the new point: measured ones (stamp ``mark + 1``), paths over one edge (``mark``)."""
    for a in range(len(used)):
        path[used[a]], stamp[used[a]] = lengths[a], mark + 1
    for a in range(len(used)):
        j = used[a]
        for e in range(indptr[j], min(indptr[j + 1], indptr[j] + row_limit)):
            v = near[e]
            t = lengths[a] + near_lengths[e]
            if stamp[v] < mark or (stamp[v] == mark and t < path[v]):
                path[v], stamp[v] = t, mark


@helper
def _direction(
    j, d, indptr, near, near_lengths, row_limit, coordinates, path, rows, products, gram, lower, right, out
):
    """Where the frame of j, as it lies in the map, sees a new point at distance d; False if nowhere."""
    # With x_l = phi_l - phi_j over the neighbours l of j, distances give the scalar products ``x . x_l =
    # (d_j^2 + d_jl^2 - d_l^2) / 2`` of the new point's x, and least squares give x. The ridge is what the
    # misfit of those products asks for (noise over signal), within bounds: none on exact distances.
    n, count = coordinates.shape[1], 0
    gram[:] = 0.0
    right[:] = 0.0
    for e in range(indptr[j], min(indptr[j + 1], indptr[j] + row_limit)):
        v, s = near[e], near_lengths[e]
        square = 0.0
        for c in range(n):
            rows[count, c] = coordinates[v, c] - coordinates[j, c]
            square += rows[count, c] * rows[count, c]
        # An edge stretched this far is a shortcut, or torn; also skips what has no coordinates (NaN).
        if not square <= FAR * FAR * s * s:
            continue
        products[count] = 0.5 * (d * d + s * s - path[v] * path[v])
        for r in range(n):
            right[r] += rows[count, r] * products[count]
            for c in range(r + 1):
                gram[r, c] += rows[count, r] * rows[count, c]
        count += 1
    mean = 0.0
    for c in range(n):
        mean += gram[c, c] / n
    if not mean > _COLLAPSED:
        return False
    ridge = _MOST_RIDGE * mean
    for _ in range(_MAX_RIDGES):
        factor_small(gram, ridge, lower)
        out[:] = right
        substitute_small(lower, out)
        misfit = 0.0
        for a in range(count):
            value = products[a]
            for c in range(n):
                value -= rows[a, c] * out[c]
            misfit += value * value
        wanted = max(n * misfit / (max(count - n, 1) * d * d), _LEAST_RIDGE * mean)
        # Also where nothing is a number any more.
        if not wanted <= 0.25 * ridge:
            break
        ridge = wanted
    if ridge <= 1e-6 * mean:
        # Well determined: take out what the ridge holds back.
        for r in range(n):
            value = right[r]
            for c in range(n):
                value -= (gram[r, c] if c <= r else gram[c, r]) * out[c]
            products[r] = value
        substitute_small(lower, products[:n])
        for c in range(n):
            out[c] += products[c]
    norm = np.sqrt((out * out).sum())
    if not norm > _SHORTEST_ROW * d:
        return False
    for c in range(n):
        out[c] *= d / norm
    return True


@helper
def _energies(y, used, lengths, coordinates, seen):
    """Mismatch of directions and of distances, each neighbour weighted by 1 / distance."""
    turned, stretched = 0.0, 0.0
    for a in range(len(used)):
        square, off = 0.0, 0.0
        for c in range(len(y)):
            square += (y[c] - coordinates[used[a], c]) ** 2
            off += (y[c] - seen[a, c]) ** 2
        turned += off / lengths[a]
        stretched += (np.sqrt(square) - lengths[a]) ** 2 / lengths[a]
    return turned, stretched


@helper
def _settle(y, used, lengths, coordinates, seen, hessian, lower, step, trial, weight):
    """Minimise directions plus ``weight`` times distances from y, in place; return the steps taken."""
    # Gauss-Newton; a step that raises the energy is replaced by one of majorisation (every neighbour pulls to
    # its distance along the present direction), which never does.
    n = len(y)
    turned, stretched = _energies(y, used, lengths, coordinates, seen)
    energy = turned + weight * stretched
    mean = lengths.mean()
    for iteration in range(1, _MAX_STEPS + 1):
        hessian[:] = 0.0
        step[:] = 0.0
        total = 0.0
        for a in range(len(used)):
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
        factor_small(hessian, total, lower)
        substitute_small(lower, step)
        for c in range(n):
            step[c] += y[c]
        turned, stretched = _energies(step, used, lengths, coordinates, seen)
        if not turned + weight * stretched <= energy:
            step[:] = trial
            turned, stretched = _energies(step, used, lengths, coordinates, seen)
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


@kernel
def place_rows(
    start, stop, starts, counts, neighbors, distances, indptr, near, near_lengths, row_limit,
    coordinates, labels, places, residual, n_iter, n_used,
):  # fmt: skip
    """Places of the new points start..stop, neighbours sorted by distance (see ``place_points``)."""
    n_points, n = coordinates.shape
    widest, longest = 1, n
    for i in range(start, stop):
        widest = max(widest, counts[i])
    for v in range(n_points):
        longest = max(longest, min(indptr[v + 1] - indptr[v], row_limit))
    group, all_used = np.empty(widest, np.int32), np.empty(widest, np.int32)
    all_lengths, seen = np.empty(widest), np.empty((widest, n))
    path, stamp = np.empty(n_points), np.zeros(n_points, np.int64)
    rows, products = np.empty((longest + 1, n)), np.empty(longest + 1)
    square, lower = np.empty((n, n)), np.zeros((n, n))
    right, work, y = np.empty(n), np.empty(n), np.empty(n)
    for i in range(start, stop):
        lo, hi = starts[i], starts[i] + counts[i]
        n_iter[i] = 0
        if distances[lo] <= _COINCIDENT:
            # A point of the map: its own place, whatever the others say.
            places[i] = coordinates[neighbors[lo]]
            residual[i] = np.nan if np.isnan(places[i, 0]) else 0.0
            n_used[i] = 1
            continue
        best = _same_sheet(neighbors[lo:hi], distances[lo:hi], coordinates, labels, group)
        count = 0
        for a in range(hi - lo):
            if group[a] == best:
                all_used[count], all_lengths[count] = neighbors[lo + a], distances[lo + a]
                count += 1
        used, lengths = all_used[:count], all_lengths[:count]
        n_used[i] = count
        if np.isnan(coordinates[used[0], 0]):
            places[i] = residual[i] = np.nan
            continue
        _reach(used, lengths, indptr, near, near_lengths, row_limit, path, stamp, 2 * (i + 1))
        y[:] = 0.0
        total = 0.0
        for a in range(count):
            found = _direction(
                used[a], lengths[a], indptr, near, near_lengths, row_limit, coordinates, path,
                rows, products, square, lower, right, work,
            )  # fmt: skip
            for c in range(n):
                seen[a, c] = coordinates[used[a], c] + (work[c] if found else 0.0)
                y[c] += seen[a, c] / lengths[a]
            total += 1.0 / lengths[a]
        for c in range(n):
            y[c] /= total
        weight = _LENGTH_WEIGHT
        n_iter[i] = _settle(y, used, lengths, coordinates, seen, square, lower, right, work, weight)
        turned, stretched = _energies(y, used, lengths, coordinates, seen)
        # Up to N distances can always be met, which says nothing about them.
        if count > n:
            places[i] = y
            before = stretched
            steps = _settle(y, used, lengths, coordinates, seen, square, lower, right, work, _EXACT_WEIGHT)
            turned_now, stretched = _energies(y, used, lengths, coordinates, seen)
            if stretched <= _CLEARLY_BETTER * before:
                n_iter[i] += steps
                weight, turned = _EXACT_WEIGHT, turned_now
            else:
                y[:] = places[i]
                stretched = before
        places[i] = y
        scale = (1.0 + weight) * lengths.sum()
        residual[i] = np.inf if count < max(n, 2) else np.sqrt((turned + weight * stretched) / scale)
