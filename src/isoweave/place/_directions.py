"""Compiled kernels: which neighbours of a new point belong together, and where each of them sees it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from isoweave.place._small import factor, substitute

# Two points of the map this many times farther apart than their distances allow are not neighbours of one
# point: the triangle inequality holds with 1, maps that must stretch somewhere reach 2, and sheets that
# touch lie at least 7 times farther apart along the data (see docs/theory.md, shortcut filter).
FAR = 3.0
# Directions are regularised by this part of a neighbourhood's mean square at most, and 1e-9 at least.
_MOST_RIDGE = 1e-2
_LEAST_RIDGE = 1e-9
_SHORTEST_ROW = 1e-6


@njit(nogil=True, cache=True, inline="always")
def _gap(coordinates: Any, a: int, b: int) -> float:
    total = 0.0
    for c in range(coordinates.shape[1]):
        step = coordinates[a, c] - coordinates[b, c]
        total += step * step
    return np.sqrt(total)


@njit(nogil=True, cache=True)
def same_sheet(
    lo: int, hi: int, neighbors: Any, distances: Any, coordinates: Any, labels: Any, group: Any
) -> int:
    """Number the sheets that the neighbours lo..hi lie on; return the number of the one to use.

    Two neighbours are on one sheet if the map puts them no farther apart than ``FAR`` times the way over the
    new point, or if others link them. The sheet with the most neighbours wins, among equals the nearest.
    Vertices without coordinates are linked among each other by their component alone.
    """
    count = hi - lo
    for a in range(count):
        group[a] = a
    for a in range(1, count):
        for b in range(a):
            if group[a] == group[b] or labels[neighbors[lo + a]] != labels[neighbors[lo + b]]:
                continue
            reach = FAR * (distances[lo + a] + distances[lo + b])
            gap = _gap(coordinates, neighbors[lo + a], neighbors[lo + b])
            is_open = np.isnan(coordinates[neighbors[lo + a], 0])
            if gap > reach or is_open != np.isnan(coordinates[neighbors[lo + b], 0]):
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


@njit(nogil=True, cache=True)
def reach(
    used: Any,
    n_used: int,
    lengths: Any,
    indptr: Any,
    near: Any,
    near_lengths: Any,
    row_limit: int,
    path: Any,
    stamp: Any,
    mark: int,
) -> None:
    """Distances from the new point: measured ones to its neighbours, paths over one edge to theirs.

    ``stamp[v] == mark + 1`` says measured, ``mark`` a path.
    """
    for a in range(n_used):
        path[used[a]] = lengths[a]
        stamp[used[a]] = mark + 1
    for a in range(n_used):
        j = used[a]
        for e in range(indptr[j], min(indptr[j + 1], indptr[j] + row_limit)):
            v = near[e]
            t = lengths[a] + near_lengths[e]
            if stamp[v] < mark or (stamp[v] == mark and t < path[v]):
                path[v] = t
                stamp[v] = mark


@njit(nogil=True, cache=True)
def direction(
    j: int,
    d: float,
    indptr: Any,
    near: Any,
    near_lengths: Any,
    row_limit: int,
    coordinates: Any,
    path: Any,
    rows: Any,
    products: Any,
    gram: Any,
    lower: Any,
    right: Any,
    out: Any,
) -> bool:
    """Where the frame of j, as it lies in the map, sees a new point at distance d; False if nowhere.

    With x_l = phi_l - phi_j over the neighbours l of j, distances give the scalar products
    ``x . x_l = (d_j^2 + d_jl^2 - d_l^2) / 2`` of the new point's x, and least squares give x. The ridge
    is what the misfit of those products asks for (noise over signal), within bounds: none on exact distances.
    """
    n = coordinates.shape[1]
    count = 0
    gram[:] = 0.0
    right[:] = 0.0
    for e in range(indptr[j], min(indptr[j + 1], indptr[j] + row_limit)):
        v = near[e]
        s = near_lengths[e]
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
    if not mean > 0.0:
        return False
    ridge = _MOST_RIDGE * mean
    while True:
        factor(gram, ridge, lower)
        out[:] = right
        substitute(lower, out)
        misfit = 0.0
        for a in range(count):
            value = products[a]
            for c in range(n):
                value -= rows[a, c] * out[c]
            misfit += value * value
        wanted = max(n * misfit / (max(count - n, 1) * d * d), _LEAST_RIDGE * mean)
        if wanted > 0.25 * ridge:
            break
        ridge = wanted
    if ridge <= 1e-6 * mean:
        # Well determined: take out what the ridge holds back.
        for r in range(n):
            value = right[r]
            for c in range(n):
                value -= (gram[r, c] if c <= r else gram[c, r]) * out[c]
            products[r] = value
        substitute(lower, products[:n])
        for c in range(n):
            out[c] += products[c]
    norm = np.sqrt((out * out).sum())
    if not norm > _SHORTEST_ROW * d:
        return False
    for c in range(n):
        out[c] *= d / norm
    return True
