"""Incomplete Cholesky factors and their solves."""

import numpy as np

from isoweave.engines.cholesky import sort_range
from isoweave.engines.compile import kernel


@kernel
def incomplete_factor(indptr, indices, data, diagonal, drop_tol, extra):
    """Columns of the factor, diagonal entry first, and the column that failed or -1."""
    n = len(diagonal)
    bound = n * (1 + extra) + len(indices) // 2
    ptr, rows, values = np.zeros(n + 1, np.int64), np.empty(bound, np.int32), np.empty(bound)
    work, listed, seen = np.zeros(n), np.empty(n, np.int32), np.full(n, -1, np.int32)
    # waiting[i] heads the list of earlier columns whose next unused entry, at cursor, is in row i.
    waiting, following = np.full(n, -1, np.int32), np.full(n, -1, np.int32)
    cursor = np.zeros(n, np.int64)
    for j in range(n):
        used, norm, n_matrix = 0, diagonal[j], 0
        pivot = diagonal[j]
        for e in range(indptr[j], indptr[j + 1]):
            i = indices[e]
            if i != j:
                norm += abs(data[e])
            if i > j:
                seen[i], work[i], listed[used] = j, data[e], i
                used += 1
                n_matrix += 1
        c = waiting[j]
        while c != -1:
            after = following[c]
            weight = values[cursor[c]]
            pivot -= weight * weight
            for e in range(cursor[c] + 1, ptr[c + 1]):
                i = rows[e]
                if seen[i] != j:
                    seen[i], work[i], listed[used] = j, 0.0, i
                    used += 1
                work[i] -= weight * values[e]
            cursor[c] += 1
            if cursor[c] < ptr[c + 1]:
                i = rows[cursor[c]]
                following[c], waiting[i] = waiting[i], c
            c = after
        if not pivot > 1e-10 * diagonal[j]:
            return ptr, rows, values, j
        pivot = np.sqrt(pivot)
        threshold = drop_tol * norm
        while True:
            kept = 0
            for t in range(used):
                if abs(work[listed[t]]) > threshold:
                    listed[kept] = listed[t]
                    kept += 1
            # Too many for the space set aside: keep the largest.
            if kept <= n_matrix + extra:
                break
            used, threshold = kept, max(2.0 * threshold, 5e-324)  # it may be 0, which twice is 0
        sort_range(listed, 0, kept)
        first = ptr[j]
        rows[first], values[first] = j, pivot
        for t in range(kept):
            rows[first + 1 + t], values[first + 1 + t] = listed[t], work[listed[t]] / pivot
        ptr[j + 1] = first + 1 + kept
        cursor[j] = first + 1
        if kept > 0:
            following[j], waiting[listed[0]] = waiting[listed[0]], j
    return ptr, rows[: ptr[n]].copy(), values[: ptr[n]].copy(), -1


@kernel
def incomplete_substitute(ptr, rows, values, x):
    """Overwrite the block ``x`` with the solution of ``L Lᵀ y = x``."""
    n, width = x.shape
    for j in range(n):
        first = ptr[j]
        for b in range(width):
            x[j, b] /= values[first]
        for e in range(first + 1, ptr[j + 1]):
            i, weight = rows[e], values[e]
            for b in range(width):
                x[i, b] -= weight * x[j, b]
    for j in range(n - 1, -1, -1):
        first = ptr[j]
        for e in range(first + 1, ptr[j + 1]):
            i, weight = rows[e], values[e]
            for b in range(width):
                x[j, b] -= weight * x[i, b]
        for b in range(width):
            x[j, b] /= values[first]
