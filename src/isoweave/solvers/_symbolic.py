"""How large a Cholesky factor will be, told from the pattern of the matrix alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from isoweave._typing import AnyArray, FloatArray, IntArray
from isoweave.backends._compile import kernel


@dataclass(frozen=True, eq=False)
class Elimination:
    """An elimination order and the size of the factor it leads to.

    Attributes
    ----------
    order : int32 array of shape (n,)
        ``order[r]`` is the original number of row r of the factor; vertices may be left out.
    indptr, indices : int32 arrays
        Pattern of the matrix in that order, rows unsorted.
    parent : int32 array of shape (n,)
        Elimination tree: the first row below the diagonal in every column of the factor, -1 for none.
    counts : int64 array of shape (n,)
        Entries in every column of the factor.
    fill : int
        Their sum; more than the limit given means that counting stopped there.
    """

    order: IntArray
    indptr: IntArray
    indices: IntArray
    parent: IntArray
    counts: AnyArray
    fill: int


def plan_elimination(indptr: IntArray, indices: IntArray, order: IntArray, limit: int) -> Elimination:
    """Elimination tree and column counts of a symmetric pattern for a given order of its vertices.

    The order is replaced by an equivalent one in which every subtree is contiguous. Counting takes time
    in proportion to the factor, but no memory for it, and stops once the sum passes ``limit``.
    """
    p, c, _ = permute(indptr, indices, np.empty(0), order)
    order = order[_postorder(_elimination_tree(p, c))]
    p, c, _ = permute(indptr, indices, np.empty(0), order)
    parent = _elimination_tree(p, c)
    counts, fill = _column_counts(p, c, parent, limit)
    return Elimination(order, p, c[: p[-1]], parent, counts, int(fill))


@kernel
def permute(
    indptr: IntArray, indices: IntArray, data: FloatArray, order: IntArray
) -> tuple[IntArray, IntArray, FloatArray]:
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
def _elimination_tree(indptr: IntArray, indices: IntArray) -> IntArray:
    """Parent of every column (Liu's algorithm with path compression)."""
    n = len(indptr) - 1
    parent = np.empty(n, np.int32)
    ancestor = np.empty(n, np.int32)
    for j in range(n):
        parent[j] = -1
        ancestor[j] = -1
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
def _postorder(parent: IntArray) -> IntArray:
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
def _column_counts(indptr: IntArray, indices: IntArray, parent: IntArray, limit: int) -> tuple[AnyArray, int]:
    """Entries of every column, diagonal included, and their sum.

    Row i of the factor is the part of the tree between the entries of row i of the matrix and i.
    """
    n = len(parent)
    counts = np.empty(n, np.int64)
    seen = np.empty(n, np.int32)
    total = n
    for i in range(n):
        counts[i] = 1
    for i in range(n):
        # Read below for columns before i only.
        seen[i] = i
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            while j < i and seen[j] != i:
                counts[j] += 1
                total += 1
                seen[j] = i
                j = parent[j]
        if total > limit:
            break
    return counts, total
