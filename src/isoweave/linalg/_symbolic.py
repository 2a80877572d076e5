"""How large a Cholesky factor will be, told from the pattern of the matrix alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from isoweave._typing import AnyArray, FloatArray, IntArray
from isoweave.engines.compile import kernel


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
        Their sum.
    """

    order: IntArray
    indptr: IntArray
    indices: IntArray
    parent: IntArray
    counts: AnyArray
    fill: int


def plan_elimination(indptr: IntArray, indices: IntArray, order: IntArray) -> Elimination:
    """Elimination tree and column counts of a symmetric pattern for a given order of its vertices.

    The order is replaced by an equivalent one in which every subtree is contiguous. Time and memory go with
    the entries of the matrix, however large the factor would be.
    """
    p, c, _ = permute(indptr, indices, np.empty(0), order)
    order = order[_postorder(_elimination_tree(p, c))]
    p, c, _ = permute(indptr, indices, np.empty(0), order)
    parent = _elimination_tree(p, c)
    counts = _column_counts(p, c, parent)
    return Elimination(order, p, c[: p[-1]], parent, counts, int(counts.sum()))


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
def _column_counts(indptr: IntArray, indices: IntArray, parent: IntArray) -> AnyArray:
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
        first[j] = -1
        last_first[j] = -1
        last_leaf[j] = -1
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
