"""Sparse Cholesky factorisation for many solves: multifrontal, supernodal, in numba.

The wheels at hand either link an unoptimised BLAS or solve slowly (benchmarks/direct_solvers.py has the
numbers); here the dense work of the factorisation goes to the BLAS that numba finds in scipy.

Columns of the factor with (nearly) the same rows form a supernode. With T its triangular diagonal block
and R the rectangle below, the values stored are T^-1 above -R T^-1, row by row: each half of a solve is
then one product per supernode.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from isoweave._parallel import ThreadTeam
from isoweave._typing import AnyArray, FloatArray, IntArray
from isoweave.engines.compile import helper, kernel, reordering_kernel
from isoweave.linalg._symbolic import Elimination, permute

# Wide enough for BLAS to run at speed, narrow enough for the plain loops on diagonal blocks.
_MAX_WIDTH = 96
_ROW_BLOCK = 192


class Structure(NamedTuple):
    """Supernodes of a factor, in the order of elimination ``order``.

    ``starts`` are their first columns, ``rows[row_ptr[s] : row_ptr[s + 1]]`` the rows of supernode s (its
    own columns, then the others, increasing), ``value_ptr`` says where its values begin. ``stack_size``
    and ``front_size`` are the workspace of the factorisation in float64.
    """

    order: IntArray
    starts: IntArray
    row_ptr: AnyArray
    rows: IntArray
    value_ptr: AnyArray
    n_children: IntArray
    stack_size: int
    front_size: int


def analyse(plan: Elimination) -> Structure:
    """Supernodes of a factor and their rows."""
    starts, heights, n_super = _supernodes(plan.parent, plan.counts)
    starts = np.append(starts[:n_super][::-1], np.int32(len(plan.parent)))
    heights = heights[:n_super][::-1]
    row_ptr = np.concatenate([[0], np.cumsum(heights)])
    value_ptr = np.concatenate([[0], np.cumsum(heights * np.diff(starts))])
    rows, n_children, stack = _structure(plan.indptr, plan.indices, plan.parent, starts, row_ptr)
    front = int(np.max(heights, initial=0)) ** 2
    return Structure(plan.order, starts, row_ptr, rows, value_ptr, n_children, int(stack), front)


def factorise(s: Structure, indptr: IntArray, indices: IntArray, data: FloatArray) -> tuple[FloatArray, int]:
    """Values of the factor, and the original number of the first vertex without a positive pivot, or -1."""
    p, c, v = permute(indptr, indices, data, s.order)
    values = np.empty(s.value_ptr[-1])
    failed = _factorise(
        *(s.starts, s.row_ptr, s.rows, s.value_ptr, s.n_children),
        *(p, c, v, np.empty(s.stack_size), np.empty(s.front_size), values),
    )
    return values, -1 if failed < 0 else int(s.order[failed])


def substitute(s: Structure, values: FloatArray, rhs: FloatArray, team: ThreadTeam) -> FloatArray:
    """Solve for a block ``rhs`` (n, N); vertices left out of the order are held at zero."""
    width = rhs.shape[1]
    n_pairs = (width + 1) // 2
    block = np.zeros((2 * n_pairs, len(s.order)))
    block[:width] = rhs[s.order].T
    team.run(_substitute, n_pairs, s.starts, s.row_ptr, s.rows, s.value_ptr, values, block, grain=1)
    out = np.zeros_like(rhs)
    out[s.order] = block[:width].T
    return out


@kernel
def _supernodes(parent: IntArray, counts: AnyArray) -> tuple[IntArray, AnyArray, int]:
    """First columns and heights of the supernodes, the last one first, and their number.

    A column joins the supernode to its right when that holds its parent and the zeros stored by doing so
    stay few; narrow supernodes may waste more, for they cost more than their entries.
    """
    n = len(parent)
    starts = np.empty(n, np.int32)
    heights = np.empty(n, np.int64)
    n_super = 0
    width = 0
    zeros = 0
    for j in range(n - 1, -1, -1):
        if width > 0 and width < _MAX_WIDTH and parent[j] == j + 1:
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
def _structure(
    indptr: IntArray, indices: IntArray, parent: IntArray, starts: IntArray, row_ptr: AnyArray
) -> tuple[IntArray, IntArray, int]:
    """Rows and number of children of every supernode, and the most stack their updates ever need."""
    n = len(parent)
    n_super = len(starts) - 1
    rows = np.empty(row_ptr[n_super], np.int32)
    n_children = np.empty(n_super, np.int32)
    owner = np.empty(n, np.int32)
    seen = np.empty(n, np.int32)
    pending = np.empty(n_super, np.int32)
    n_pending = 0
    stack = 0
    deepest = 0
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
def sort_range(a: IntArray, first: int, last: int) -> None:
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
def _factorise(
    starts: IntArray, row_ptr: AnyArray, rows: IntArray, value_ptr: AnyArray, n_children: IntArray,
    indptr: IntArray, indices: IntArray, data: FloatArray,
    stack: FloatArray, front: FloatArray, values: FloatArray,
) -> int:  # fmt: skip
    """Fill ``values``; the first column with no positive pivot, or -1.

    ``front`` holds the m x m matrix of a supernode row by row.
    """
    n_super = len(starts) - 1
    where = np.empty(len(indptr) - 1, np.int32)
    pending = np.empty(n_super, np.int32)
    n_pending = 0
    top = 0
    for node in range(n_super):
        c0 = starts[node]
        r0 = row_ptr[node]
        k = starts[node + 1] - c0
        m = row_ptr[node + 1] - r0
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
        upper = block[:k]
        lower = block[k:]
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
def _factor_diagonal(front: FloatArray, m: int, k: int, block: FloatArray) -> int:
    """Inverse of the Cholesky factor of the leading k x k part of ``front`` into ``block[:k]``.

    The bad pivot or -1.
    """
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
def _substitute(
    start: int, stop: int, starts: IntArray, row_ptr: AnyArray, rows: IntArray, value_ptr: AnyArray,
    values: FloatArray, x: FloatArray,
) -> None:  # fmt: skip
    """Overwrite rows ``2 start .. 2 stop`` of ``x`` (2 P, n), in factor order, with the solutions."""
    n_super, one = np.uint64(len(starts) - 1), np.uint64(1)
    work0, work1 = np.empty(_MAX_WIDTH), np.empty(_MAX_WIDTH)
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
