"""How a Cholesky factor fills in: elimination trees, counts, supernodes."""

import numpy as np

from isoweave.engines.compile import helper, kernel

# Wide enough for BLAS to run at speed, narrow enough for the plain loops on diagonal blocks.
MAX_WIDTH = 96


@kernel
def middle_level(indptr, indices, start, skipped):
    """Last vertex of a breadth-first search that skips some vertices, and the size of its middle level."""
    n = len(indptr) - 1
    queue, level_ends = np.empty(n, np.int32), np.empty(n + 1, np.int32)
    seen = skipped.copy()
    queue[0], seen[start] = start, True
    used, first, n_levels = 1, 0, 0
    while first < used:
        last = used
        level_ends[n_levels] = last
        n_levels += 1
        for t in range(first, last):
            for e in range(indptr[queue[t]], indptr[queue[t] + 1]):
                j = indices[e]
                if not seen[j]:
                    queue[used], seen[j] = j, True
                    used += 1
        first = last
    # The last level ends at all that was reached, so one of them passes the half.
    t = 0
    while level_ends[t] <= used // 2:
        t += 1
    return queue[used - 1], level_ends[t] - (level_ends[t - 1] if t > 0 else 0)


@kernel
def permute(indptr, indices, order):
    """Rows and columns of a pattern in an order that may leave some out, and which entries those are."""
    place = np.empty(len(indptr) - 1, np.int32)
    place[:] = -1
    size = 0
    for r in range(len(order)):
        place[order[r]] = r
        size += indptr[order[r] + 1] - indptr[order[r]]
    starts, columns, entries = (
        np.empty(len(order) + 1, np.int32),
        np.empty(size, np.int32),
        np.empty(size, np.int32),
    )
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
    post, child, sibling = np.empty(n, np.int32), np.empty(n + 1, np.int32), np.empty(n, np.int32)
    child[:] = -1
    for j in range(n - 1, -1, -1):
        above = parent[j] if parent[j] >= 0 else n
        sibling[j], child[above] = child[above], j
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
