"""Cholesky factors: how they fill in (elimination trees, counts, supernodes), their values, the solves."""

import numpy as np

from isoweave.engines.compile import helper, kernel, reordering_kernel

# Wide enough for BLAS to run at speed, narrow enough for the plain loops on diagonal blocks.
MAX_WIDTH = 96
_ROW_BLOCK = 192


@kernel
def permute(indptr, indices, order):
    """Rows and columns of a pattern in an order that may leave some out, and which entries those are."""
    place = np.empty(len(indptr) - 1, np.int32)
    place[:] = -1
    size = 0
    for r in range(len(order)):
        place[order[r]] = r
        size += indptr[order[r] + 1] - indptr[order[r]]
    starts = np.empty(len(order) + 1, np.int32)
    columns, entries = np.empty(size, np.int32), np.empty(size, np.int32)
    used = 0
    for r in range(len(order)):
        starts[r] = used
        for e in range(indptr[order[r]], indptr[order[r] + 1]):
            if place[indices[e]] >= 0:
                columns[used], entries[used] = place[indices[e]], e
                used += 1
    starts[len(order)] = used
    return starts, columns[:used].copy(), entries[:used].copy()


@kernel
def elimination_tree(indptr, indices):
    """Parent of every column (Liu's algorithm with path compression)."""
    n = len(indptr) - 1
    parent, ancestor = np.empty(n, np.int32), np.empty(n, np.int32)
    for j in range(n):
        parent[j] = ancestor[j] = -1
        for e in range(indptr[j], indptr[j + 1]):
            i = indices[e]
            while i != -1 and i < j:
                above = ancestor[i]
                ancestor[i] = j
                if above == -1:
                    parent[i] = j
                i = above
    return parent


@kernel
def postorder(parent):
    """Order in which every subtree is contiguous and ends at its root."""
    n = len(parent)
    post, sizes, ends = np.empty(n, np.int32), np.empty(n + 1, np.int32), np.empty(n + 1, np.int32)
    # Parent -1 is the last entry: what all roots hang on.
    sizes[:] = 1
    for j in range(n):
        sizes[parent[j]] += sizes[j]
    ends[n] = n
    for j in range(n - 1, -1, -1):
        # The subtrees of a parent end right before it, the last first.
        ends[j] = ends[parent[j]] - 1
        ends[parent[j]] -= sizes[j]
        post[ends[j]] = j
    return post


@kernel
def column_counts(indptr, indices, parent):
    """Entries of every column, diagonal included, in time that hardly exceeds the entries of the matrix."""
    # Row i of the factor is a subtree with root i, whose leaves are among the entries of row i of the matrix;
    # of these leaves a column counts those below it, less one wherever the ways of two of them meet (Gilbert,
    # Ng and Peyton 1994). Columns are in postorder.
    n = len(parent)
    first = np.empty(n, np.int32)  # first descendant
    counts = np.empty(n, np.int64)
    last_first = np.empty(n, np.int32)  # of the leaves of row i so far, the latest first descendant
    last_leaf, ancestor = np.empty(n, np.int32), np.empty(n, np.int32)
    for j in range(n):
        first[j] = last_first[j] = last_leaf[j] = -1
        ancestor[j] = j
    for j in range(n):
        counts[j] = 1 if first[j] == -1 else 0
        above = j
        while above != -1 and first[above] == -1:
            first[above] = j
            above = parent[above]
    for j in range(n):
        if parent[j] != -1:
            counts[parent[j]] -= 1
        for e in range(indptr[j], indptr[j + 1]):
            i = indices[e]
            # A leaf of row i: nothing of row i is below j.
            if i > j and first[j] > last_first[i]:
                last_first[i] = first[j]
                counts[j] += 1
                before, last_leaf[i] = last_leaf[i], j
                if before != -1:
                    meeting = before
                    while meeting != ancestor[meeting]:
                        meeting = ancestor[meeting]
                    while before != meeting:
                        above = ancestor[before]
                        ancestor[before] = meeting
                        before = above
                    counts[meeting] -= 1
        if parent[j] != -1:
            ancestor[j] = parent[j]
    for j in range(n):
        if parent[j] != -1:
            counts[parent[j]] += counts[j]
    return counts


@kernel
def find_supernodes(parent, counts):
    """First columns and heights of the supernodes, the last one first, and their number."""
    # A column joins the supernode of its parent to its right when that stores few zeros; narrow supernodes
    # may waste more, for they cost more than their entries.
    n = len(parent)
    starts, heights = np.empty(n, np.int32), np.empty(n, np.int64)
    n_super = width = zeros = 0
    for j in range(n - 1, -1, -1):
        if width > 0 and width < MAX_WIDTH and parent[j] == j + 1:
            height = heights[n_super - 1] + 1
            share = 1.0 if width < 4 else 0.4 if width < 16 else 0.1 if width < 48 else 0.05
            if zeros + height - counts[j] <= share * (width + 1) * height:
                zeros += height - counts[j]
                width += 1
                starts[n_super - 1], heights[n_super - 1] = j, height
                continue
        starts[n_super], heights[n_super] = j, counts[j]
        n_super, width, zeros = n_super + 1, 1, 0
    return starts, heights, n_super


@kernel
def supernode_rows(indptr, indices, parent, starts, row_ptr):
    """Rows and number of children of every supernode, and the most stack their updates ever need."""
    n, n_super = len(parent), len(starts) - 1
    rows = np.empty(row_ptr[n_super], np.int32)
    n_children, pending = np.zeros(n_super, np.int32), np.empty(n_super, np.int32)
    owner, seen = np.empty(n, np.int32), np.empty(n, np.int32)
    seen[:] = -1
    n_pending = stack = deepest = 0
    for s in range(n_super):
        for j in range(starts[s], starts[s + 1]):
            owner[j] = s
    for s in range(n_super):
        used = row_ptr[s]
        for j in range(starts[s], starts[s + 1]):
            rows[used], seen[j] = j, s
            used += 1
        for j in range(starts[s], starts[s + 1]):
            for e in range(indptr[j], indptr[j + 1]):
                i = indices[e]
                if i > j and seen[i] != s:
                    rows[used], seen[i] = i, s
                    used += 1
        # In postorder the updates of the children are the last ones made.
        for _ in range(n_children[s]):
            n_pending -= 1
            c = pending[n_pending]
            first = row_ptr[c] + starts[c + 1] - starts[c]
            size = row_ptr[c + 1] - first
            stack -= size * size
            for t in range(first, row_ptr[c + 1]):
                i = rows[t]
                if seen[i] != s:
                    rows[used], seen[i] = i, s
                    used += 1
        first = row_ptr[s] + starts[s + 1] - starts[s]
        size = used - first
        sort_range(rows, first, used)
        above = parent[starts[s + 1] - 1]
        if above >= 0:
            pending[n_pending] = s
            n_pending += 1
            n_children[owner[above]] += 1
            stack += size * size
            deepest = max(deepest, stack)
    return rows, n_children, deepest


@helper
def sort_range(a, first, last):
    """Shell sort of part of an array in place (numba takes seconds to compile np.sort)."""
    gap = 1
    while gap < (last - first) // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for t in range(first + gap, last):
            item = a[t]
            u = t
            while u - gap >= first and a[u - gap] > item:
                a[u] = a[u - gap]
                u -= gap
            a[u] = item
        gap //= 3


@kernel
def factorise(starts, row_ptr, rows, value_ptr, n_children, indptr, indices, data, stack, front, values):
    """Fill ``values``; the first column with no positive pivot, or -1. ``front`` holds one supernode."""
    n_super = len(starts) - 1
    where, pending = np.empty(len(indptr) - 1, np.int32), np.empty(n_super, np.int32)
    n_pending = top = 0
    for node in range(n_super):
        c0, r0 = starts[node], row_ptr[node]
        k, m = starts[node + 1] - c0, row_ptr[node + 1] - r0
        for t in range(m):
            where[rows[r0 + t]] = t
            for u in range(t + 1):
                front[t * m + u] = 0.0
        for j in range(c0, c0 + k):
            for e in range(indptr[j], indptr[j + 1]):
                if indices[e] >= j:
                    front[where[indices[e]] * m + j - c0] += data[e]
        for _ in range(n_children[node]):
            n_pending -= 1
            c = pending[n_pending]
            first = row_ptr[c] + starts[c + 1] - starts[c]
            size = row_ptr[c + 1] - first
            top -= size * size
            for a in range(size):
                i = where[rows[first + a]] * m
                for b in range(a + 1):
                    front[i + where[rows[first + b]]] += stack[top + a * size + b]
        block = values[value_ptr[node] : value_ptr[node + 1]].reshape(m, k)
        bad = _factor_diagonal(front, m, k, block)
        if bad >= 0:
            return c0 + bad
        if m == k:
            continue
        for i in range(k, m):
            for j in range(k):
                block[i, j] = -front[i * m + j]
        # The signs cancel in the product of ``below`` with itself.
        size = m - k
        below = np.empty((size, k))
        upper, lower = block[:k], block[k:]
        np.dot(lower, upper.T, below)
        np.dot(below, upper, lower)
        for a in range(0, size, _ROW_BLOCK):
            b = min(size, a + _ROW_BLOCK)
            product = np.empty((b - a, b))
            np.dot(below[a:b], below[:b].T, product)
            for i in range(a, b):
                row = (k + i) * m + k
                for j in range(i + 1):
                    stack[top + i * size + j] = front[row + j] - product[i - a, j]
        top += size * size
        pending[n_pending] = node
        n_pending += 1
    return -1


@helper
def _factor_diagonal(front, m, k, block):
    """Inverse of the factor of the leading k x k part of ``front`` into ``block``; the bad pivot or -1."""
    for j in range(k):
        diagonal = front[j * m + j]
        scale = diagonal
        for i in range(j):
            scale += front[j * m + i] * front[j * m + i]
        # scale is the assembled diagonal again: a pivot that is rounding beside it is no pivot.
        if not diagonal > 1e-14 * scale:
            return j
        pivot = np.sqrt(diagonal)
        for i in range(j, k):
            front[i * m + j] /= pivot
        for i in range(j + 1, k):
            for t in range(j + 1, i + 1):
                front[i * m + t] -= front[i * m + j] * front[t * m + j]
    for i in range(k):
        pivot = front[i * m + i]
        for j in range(k):
            block[i, j] = 0.0
        for t in range(i):
            for j in range(t + 1):
                block[i, j] -= front[i * m + t] * block[t, j]
        for j in range(i):
            block[i, j] /= pivot
        block[i, i] = 1.0 / pivot
    return -1


# The factor is read once for two columns. Unsigned indices spare numba's test for negative ones, and
# leave to reorder sums lets the inner loops use vector instructions: twice as fast as BLAS on blocks of
# this size. Columns are paired the same way for any number of threads.
@reordering_kernel
def substitute(start, stop, starts, row_ptr, rows, value_ptr, values, x):
    """Overwrite rows ``2 start .. 2 stop`` of ``x`` (2 P, n), in factor order, with the solutions."""
    n_super, one = np.uint64(len(starts) - 1), np.uint64(1)
    work0, work1 = np.empty(MAX_WIDTH), np.empty(MAX_WIDTH)
    for pair in range(start, stop):
        x0, x1 = x[2 * pair], x[2 * pair + 1]
        for node in range(n_super):
            c0, r0, v = np.uint64(starts[node]), np.uint64(row_ptr[node]), np.uint64(value_ptr[node])
            k, m = np.uint64(starts[node + one]) - c0, np.uint64(row_ptr[node + one]) - r0
            for t in range(k):
                work0[t], work1[t] = x0[c0 + t], x1[c0 + t]
                x0[c0 + t], x1[c0 + t] = 0.0, 0.0
            for i in range(m):
                a0, a1 = 0.0, 0.0
                for t in range(k):
                    a0 += values[v + i * k + t] * work0[t]
                    a1 += values[v + i * k + t] * work1[t]
                r = np.uint64(rows[r0 + i])
                x0[r] += a0
                x1[r] += a1
        for step in range(n_super):
            back = n_super - one - np.uint64(step)
            c0, r0, v = np.uint64(starts[back]), np.uint64(row_ptr[back]), np.uint64(value_ptr[back])
            k, m = np.uint64(starts[back + one]) - c0, np.uint64(row_ptr[back + one]) - r0
            for t in range(k):
                work0[t], work1[t] = 0.0, 0.0
            for i in range(m):
                r = np.uint64(rows[r0 + i])
                a0, a1 = x0[r], x1[r]
                for t in range(k):
                    work0[t] += values[v + i * k + t] * a0
                    work1[t] += values[v + i * k + t] * a1
            for t in range(k):
                x0[c0 + t], x1[c0 + t] = work0[t], work1[t]


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
