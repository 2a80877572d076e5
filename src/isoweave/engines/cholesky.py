"""Sparse Cholesky factors, complete or with small entries left out, and their solves.

A factor is the rows and values of its columns, one after the other, the entry on the diagonal first. A column
is computed from those that reach into its row: a component has the same bits alone and among others.
"""

import numpy as np

from isoweave.engines.compile import helper, kernel


@kernel
def count_entries(indptr, indices, most):
    """Entries of the complete factor of a symmetric pattern, or a number over ``most`` if there are more."""
    # Row i of the factor has the columns on the ways up the elimination tree, from the entries of row i of
    # the matrix to i itself.
    n = len(indptr) - 1
    parent, seen = np.empty(n, np.int32), np.empty(n, np.int32)
    total = 0
    for i in range(n):
        parent[i], seen[i] = -1, i
        total += 1
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            while j < i and seen[j] != i:
                if parent[j] == -1:
                    parent[j] = i
                seen[j] = i
                total += 1
                j = parent[j]
        if total > most:
            break
    return total


@kernel
def factorise(indptr, indices, data, diagonal, least_pivot, drop_tol, extra, rows, values):
    """Write the columns of the factor; where each begins, and the first without a pivot, or -1."""
    # Left out are entries up to ``drop_tol`` times the norm of their column of the matrix, and the smallest
    # where more than ``extra`` would join those that the matrix has there. Pivots are more than
    # ``least_pivot`` times their entry of ``diagonal``, which stands for that of the matrix.
    n, is_complete = len(diagonal), drop_tol == 0.0 and extra >= len(diagonal)
    ptr = np.zeros(n + 1, np.int64)
    work, part, listed, seen = np.zeros(n), np.empty(n), np.empty(n, np.int32), np.empty(n, np.int32)
    # waiting[i] heads the list of earlier columns whose next unused entry, at cursor, is in row i.
    waiting, following, cursor = np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n, np.int64)
    # Columns with one leader and the next entry in one row go on with the same rows.
    leader = np.empty(n, np.int32)
    for i in range(n):
        seen[i] = waiting[i] = following[i] = -1
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
            lead = cursor[c]
            size = ptr[c + 1] - lead
            for t in range(np.uint64(1), np.uint64(size)):
                below = np.uint32(rows[np.uint64(lead) + t])
                if seen[below] != j:
                    seen[below], work[below], listed[used] = j, 0.0, below
                    used += 1
                part[t] = work[below]
            clique = leader[c]
            while c != -1 and leader[c] == clique:
                at = cursor[c]
                weight = values[at]
                pivot -= weight * weight
                for t in range(np.uint64(1), np.uint64(size)):
                    part[t] -= weight * values[np.uint64(at) + t]
                after, cursor[c] = following[c], at + 1
                if size > 1:
                    i = rows[at + 1]
                    following[c], waiting[i] = waiting[i], c
                c = after
            for t in range(np.uint64(1), np.uint64(size)):
                work[np.uint32(rows[np.uint64(lead) + t])] = part[t]
        if not pivot > least_pivot * diagonal[j]:
            return ptr, j
        pivot = np.sqrt(pivot)
        threshold = drop_tol * norm
        kept = used
        while not is_complete:
            kept = 0
            for t in range(used):
                if abs(work[listed[t]]) > threshold:
                    listed[kept] = listed[t]
                    kept += 1
            if kept <= n_matrix + extra:
                break
            used, threshold = kept, max(2.0 * threshold, 5e-324)  # it may be 0, which twice is 0
        first, before = ptr[j], ptr[j - 1]
        # A complete column has all rows of those that reach it first.
        if j > 0 and is_complete and kept == first - before - 2 and rows[before + 1] == j:
            leader[j] = leader[j - 1]
            for t in range(kept):
                listed[t] = rows[before + 2 + t]
        else:
            leader[j] = j
            _sort(listed, kept)
        rows[first], values[first] = j, pivot
        for t in range(kept):
            rows[first + 1 + t], values[first + 1 + t] = listed[t], work[listed[t]] / pivot
        ptr[j + 1] = first + 1 + kept
        cursor[j] = first + 1
        if kept > 0:
            following[j], waiting[listed[0]] = waiting[listed[0]], j
    return ptr, -1


@helper
def _sort(a, count):
    """Shell sort of the first entries in place (numba takes seconds to compile np.sort)."""
    gap = 1
    while gap < count // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for t in range(gap, count):
            item = a[t]
            u = t
            while u - gap >= 0 and a[u - gap] > item:
                a[u] = a[u - gap]
                u -= gap
            a[u] = item
        gap //= 3


@kernel
def substitute(start, stop, ptr, rows, values, x):
    """Overwrite pairs of rows of ``x`` (2 P, n), in the order of the factor, with the solutions."""
    # The factor is read once for two columns, which are paired the same way for any number of threads;
    # unsigned indices spare numba's test for negative ones.
    one, n = np.uint64(1), np.uint64(len(ptr) - 1)
    for pair in range(start, stop):
        x0, x1 = x[2 * pair], x[2 * pair + 1]
        for j in range(n):
            first, last = np.uint64(ptr[j]), np.uint64(ptr[j + one])
            a0, a1 = x0[j] / values[first], x1[j] / values[first]
            x0[j], x1[j] = a0, a1
            for e in range(first + one, last):
                i = np.uint32(rows[e])
                x0[i] -= values[e] * a0
                x1[i] -= values[e] * a1
        for step in range(n):
            back = n - one - np.uint64(step)
            first, last = np.uint64(ptr[back]), np.uint64(ptr[back + one])
            a0, a1 = x0[back], x1[back]
            for e in range(first + one, last):
                i = np.uint32(rows[e])
                a0 -= values[e] * x0[i]
                a1 -= values[e] * x1[i]
            x0[back], x1[back] = a0 / values[first], a1 / values[first]
