"""Cholesky factors: how they fill in (elimination trees, counts, supernodes), their values, the solves."""

import numpy as np

from isoweave.engines.compile import helper, kernel, reordering_kernel

# Wide enough for BLAS to run at speed, narrow enough for the plain loops on diagonal blocks.
MAX_WIDTH = 96
_ROW_BLOCK = 192


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
    """Rows of every supernode; its last child, its sibling before, its update's place in the stack, or -1."""
    n, n_super = len(parent), len(starts) - 1
    rows, places = np.empty(row_ptr[n_super], np.int32), np.empty(n_super, np.int64)
    last_child, sibling = np.empty(n_super, np.int32), np.empty(n_super, np.int32)
    owner, seen = np.empty(n, np.int32), np.empty(n, np.int32)
    seen[:] = -1
    for s in range(n_super):
        last_child[s] = sibling[s] = places[s] = -1
        for j in range(starts[s], starts[s + 1]):
            owner[j] = s
    stack = deepest = 0
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
        c = last_child[s]
        while c != -1:
            first = row_ptr[c] + starts[c + 1] - starts[c]
            # In postorder the updates of the children are the last ones made.
            stack = places[c]
            for t in range(first, row_ptr[c + 1]):
                i = rows[t]
                if seen[i] != s:
                    rows[used], seen[i] = i, s
                    used += 1
            c = sibling[c]
        first = row_ptr[s] + starts[s + 1] - starts[s]
        size = used - first
        sort_range(rows, first, used)
        above = parent[starts[s + 1] - 1]
        if above >= 0:
            sibling[s], last_child[owner[above]] = last_child[owner[above]], s
            places[s] = stack
            stack += size * (size + 1) // 2
            deepest = max(deepest, stack)
    return rows, last_child, sibling, places, deepest


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
def factorise(
    starts, row_ptr, rows, value_ptr, last_child, sibling, places, indptr, indices, entries, data, stack,
    values,
):  # fmt: skip
    """Fill ``values``; the first column with no positive pivot, or -1."""
    # Entry e of the pattern is ``data[entries[e]]``.
    where, tallest, n_super = np.empty(len(indptr) - 1, np.int32), 0, len(starts) - 1
    for node in range(n_super):
        tallest = max(tallest, row_ptr[node + 1] - row_ptr[node])
    front, column = np.empty(tallest * tallest), np.empty(MAX_WIDTH)
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
                    front[where[indices[e]] * m + j - c0] += data[entries[e]]
        c = last_child[node]
        while c != -1:
            first = row_ptr[c] + starts[c + 1] - starts[c]
            size = row_ptr[c + 1] - first
            for a in range(size):
                to, update = np.uint64(where[rows[first + a]] * m), np.uint64(places[c] + a * (a + 1) // 2)
                for b in range(np.uint64(a + 1)):
                    front[to + np.uint64(where[rows[np.uint64(first) + b]])] += stack[update + b]
            c = sibling[c]
        block = values[value_ptr[node] : value_ptr[node + 1]].reshape(m, k)
        bad = _factor_diagonal(front, m, k, block, column)
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
                row, update = np.uint64((k + i) * m + k), np.uint64(places[node] + i * (i + 1) // 2)
                for t in range(np.uint64(i + 1)):
                    stack[update + t] = front[row + t] - product[i - a, t]
    return -1


@helper
def _factor_diagonal(front, m, k, block, column):
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
        # Side by side, for vector instructions.
        for i in range(j + 1, k):
            column[i] = front[i * m + j]
        for i in range(j + 1, k):
            row, weight = np.uint64(i * m), column[i]
            for t in range(np.uint64(j + 1), np.uint64(i + 1)):
                front[row + t] -= weight * column[t]
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
    """Overwrite pairs of rows of ``x`` (2 P, n), in factor order, with the solutions."""
    one, n_super = np.uint64(1), np.uint64(len(starts) - 1)
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
