"""How a Cholesky factor fills in: elimination trees, counts, supernodes."""

from __future__ import annotations

import numpy as np

from isoweave.engines.compile import helper, kernel

# Wide enough for BLAS to run at speed, narrow enough for the plain loops on diagonal blocks.
MAX_WIDTH = 96


@kernel
def middle_level(indptr, indices, start, skipped):
    """Last vertex of a breadth-first search that skips some vertices, and the size of its middle level."""
    n = len(indptr) - 1
    queue = np.empty(n, np.int32)
    seen = skipped.copy()
    level_ends = np.empty(n + 1, np.int32)
    queue[0] = start
    seen[start] = True
    used, first, n_levels = 1, 0, 0
    while first < used:
        last = used
        level_ends[n_levels] = last
        n_levels += 1
        for t in range(first, last):
            for e in range(indptr[queue[t]], indptr[queue[t] + 1]):
                j = indices[e]
                if not seen[j]:
                    seen[j] = True
                    queue[used] = j
                    used += 1
        first = last
    begin = 0
    for t in range(n_levels):
        if level_ends[t] > used // 2:
            return queue[used - 1], level_ends[t] - begin
        begin = level_ends[t]
    return queue[used - 1], used


@kernel
def permute(indptr, indices, data, order):
    """Rows and columns in the given order, rows unsorted; ``data`` may be empty for the pattern alone.

    The arrays of columns and values are longer than needed where vertices are left out.
    """
    inverse = np.empty(len(indptr) - 1, np.int32)
    for i in range(len(inverse)):
        inverse[i] = -1
    total = 0
    for r in range(len(order)):
        inverse[order[r]] = r
        total += indptr[order[r] + 1] - indptr[order[r]]
    with_data = len(data) > 0
    p = np.empty(len(order) + 1, np.int32)
    c = np.empty(total, np.int32)
    v = np.empty(total if with_data else 0, np.float64)
    used = 0
    for r in range(len(order)):
        p[r] = used
        for e in range(indptr[order[r]], indptr[order[r] + 1]):
            j = inverse[indices[e]]
            if j >= 0:
                c[used] = j
                if with_data:
                    v[used] = data[e]
                used += 1
    p[len(order)] = used
    return p, c, v


@kernel
def elimination_tree(indptr, indices):
    """Parent of every column (Liu's algorithm with path compression)."""
    n = len(indptr) - 1
    parent = np.empty(n, np.int32)
    ancestor = np.empty(n, np.int32)
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
    child = np.empty(n + 1, np.int32)
    sibling = np.empty(n, np.int32)
    for j in range(n + 1):
        child[j] = -1
    for j in range(n - 1, -1, -1):
        above = parent[j] if parent[j] >= 0 else n
        sibling[j] = child[above]
        child[above] = j
    post = np.empty(n, np.int32)
    used = 0
    root = child[n]
    while root != -1:
        j = root
        while True:
            while child[j] != -1:
                j = child[j]
            post[used] = j
            used += 1
            if j == root:
                break
            if sibling[j] != -1:
                j = sibling[j]
            else:
                j = parent[j]
                child[j] = -1
        root = sibling[root]
    return post


@kernel
def column_counts(indptr, indices, parent):
    """Entries of every column, diagonal included, in time that hardly exceeds the entries of the matrix.

    Row i of the factor is a subtree with root i, whose leaves are among the entries of row i of the matrix. A
    column has an entry in it for every such subtree it lies in: leaves below it count one each, and wherever
    the ways of two leaves meet, one is too many (Gilbert, Ng and Peyton 1994). Columns are in postorder.
    """
    n = len(parent)
    first = np.empty(n, np.int32)  # first descendant
    counts = np.empty(n, np.int64)
    last_first = np.empty(n, np.int32)  # of the leaves of row i so far, the latest first descendant
    last_leaf = np.empty(n, np.int32)
    ancestor = np.empty(n, np.int32)
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
                before = last_leaf[i]
                last_leaf[i] = j
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
    """First columns and heights of the supernodes, the last one first, and their number.

    A column joins the supernode to its right when that holds its parent and the zeros stored by doing so
    stay few; narrow supernodes may waste more, for they cost more than their entries.
    """
    n = len(parent)
    starts = np.empty(n, np.int32)
    heights = np.empty(n, np.int64)
    n_super = width = zeros = 0
    for j in range(n - 1, -1, -1):
        if width > 0 and width < MAX_WIDTH and parent[j] == j + 1:
            height = heights[n_super - 1] + 1
            share = 1.0 if width < 4 else 0.4 if width < 16 else 0.1 if width < 48 else 0.05
            if zeros + height - counts[j] <= share * (width + 1) * height:
                zeros += height - counts[j]
                width += 1
                starts[n_super - 1] = j
                heights[n_super - 1] = height
                continue
        starts[n_super] = j
        heights[n_super] = counts[j]
        n_super += 1
        width = 1
        zeros = 0
    return starts, heights, n_super


@kernel
def supernode_rows(indptr, indices, parent, starts, row_ptr):
    """Rows and number of children of every supernode, and the most stack their updates ever need."""
    n = len(parent)
    n_super = len(starts) - 1
    rows = np.empty(row_ptr[n_super], np.int32)
    n_children = np.empty(n_super, np.int32)
    owner = np.empty(n, np.int32)
    seen = np.empty(n, np.int32)
    pending = np.empty(n_super, np.int32)
    n_pending = stack = deepest = 0
    for s in range(n_super):
        n_children[s] = 0
        for j in range(starts[s], starts[s + 1]):
            owner[j] = s
            seen[j] = -1
    for s in range(n_super):
        k = starts[s + 1] - starts[s]
        for t in range(k):
            seen[starts[s] + t] = s
            rows[row_ptr[s] + t] = starts[s] + t
        used = row_ptr[s] + k
        for j in range(starts[s], starts[s + 1]):
            for e in range(indptr[j], indptr[j + 1]):
                i = indices[e]
                if i > j and seen[i] != s:
                    seen[i] = s
                    rows[used] = i
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
                    seen[i] = s
                    rows[used] = i
                    used += 1
        size = used - row_ptr[s] - k
        sort_range(rows, row_ptr[s] + k, used)
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
