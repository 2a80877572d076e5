"""Sparse Cholesky factorisation for many solves: order, size, supernodes, values.

Written here because the wheels at hand either link an unoptimised BLAS or solve slowly: benchmarks/
direct_solvers.py has the numbers. Multifrontal and supernodal: columns of the factor with (nearly) the same
rows form a supernode. With T its triangular diagonal block and R the rectangle below, the values stored are
T^-1 above -R T^-1, row by row: each half of a solve is then one product per supernode.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import spilu

from isoweave._forks import forks_wait
from isoweave._parallel import ThreadTeam
from isoweave._typing import AnyArray, BoolArray, FloatArray, IntArray
from isoweave.engines import cholesky, elimination

# Entries of the largest factor a direct solver will make (2 GB of float64).
MAX_FILL = 250_000_000
# Above this many times the entries of the matrix a factor is no use, and minimum degree takes minutes to
# find out.
MAX_FILL_RATIO = 50.0
# SuperLU on symmetric matrices.
SYMMETRIC: dict[str, Any] = {
    "permc_spec": "MMD_AT_PLUS_A",
    "diag_pivot_thresh": 0.0,
    "options": {"SymmetricMode": True},
}


def elimination_order(indptr: IntArray, indices: IntArray, start: int = 0) -> IntArray:
    """Fill-reducing order of a symmetric pattern, int32 (n,), the first vertex to be eliminated first.

    Multiple minimum degree, as SuperLU computes it: on graphs of surfaces it fills as little as nested
    dissection. Vertices of very high degree come last, for minimum degree is slow around them. Where even a
    breadth-first level in the middle of the graph (of the component of ``start``) is too large to be a
    separator, every order fills in and vertices are simply taken by increasing degree.
    """
    n = len(indptr) - 1
    degrees = np.diff(indptr)
    by_degree = np.argsort(degrees, kind="stable").astype(np.int32)
    hubs = degrees > max(16.0, 10.0 * np.sqrt(n))
    n_hubs = int(np.count_nonzero(hubs))
    # Beside a separator of w vertices the factor holds w^2 / 2 entries.
    widest = np.sqrt(2 * MAX_FILL_RATIO * len(indices))
    if n < 4 or (n > widest and _separator(indptr, indices, start, hubs) > widest):
        return by_degree
    if n_hubs == 0:
        return _minimum_degree(sp.csc_array((np.ones(len(indices)), indices, indptr), shape=(n, n)))
    rest = np.sort(by_degree[: n - n_hubs])
    pattern = sp.csr_array((np.ones(len(indices)), indices, indptr), shape=(n, n))
    inner = _minimum_degree(sp.csc_array(pattern[rest][:, rest]))
    return np.concatenate([rest[inner], by_degree[n - n_hubs :]]).astype(np.int32)


def _separator(indptr: IntArray, indices: IntArray, start: int, hubs: BoolArray) -> int:
    """Size of a level in the middle of the graph without its hubs."""
    # Two searches: the first finds a vertex at the rim, from where levels are narrow.
    far = elimination.middle_level(indptr, indices, start, hubs)[0]
    return int(elimination.middle_level(indptr, indices, far, hubs)[1])


def _minimum_degree(pattern: sp.csc_array) -> IntArray:
    """SuperLU's order. With a dominant diagonal the incomplete factorisation drops all else at once."""
    n = pattern.shape[0]
    dominant = sp.csc_array(pattern + sp.eye_array(n, format="csc") * (1e3 * n))
    # Nothing of the factor may be left when a fork goes on: see symmetric_solver.
    with forks_wait():
        order = np.argsort(spilu(dominant, drop_tol=1.0, fill_factor=1.0, **SYMMETRIC).perm_c)
    return order.astype(np.int32)


class Elimination(NamedTuple):
    """An elimination order and the size of the factor it leads to."""

    order: IntArray  # order[r] is the original number of row r of the factor; vertices may be left out
    indptr: IntArray  # pattern of the matrix in that order, rows unsorted
    indices: IntArray
    parent: IntArray  # elimination tree: the first row below the diagonal in every column, -1 for none
    counts: AnyArray  # entries of every column of the factor
    fill: int  # their sum


def plan_elimination(indptr: IntArray, indices: IntArray, order: IntArray) -> Elimination:
    """Elimination tree and column counts of a symmetric pattern for a given order of its vertices.

    The order is replaced by an equivalent one in which every subtree is contiguous. Time and memory are
    linear in the entries of the matrix, however large the factor would be.
    """
    p, c, _ = elimination.permute(indptr, indices, np.empty(0), order)
    order = order[elimination.postorder(elimination.elimination_tree(p, c))]
    p, c, _ = elimination.permute(indptr, indices, np.empty(0), order)
    parent = elimination.elimination_tree(p, c)
    counts = elimination.column_counts(p, c, parent)
    return Elimination(order, p, c[: p[-1]], parent, counts, int(counts.sum()))


class Structure(NamedTuple):
    """Supernodes of a factor."""

    order: IntArray  # of elimination
    starts: IntArray  # first column of every supernode
    row_ptr: AnyArray  # rows[row_ptr[s] : row_ptr[s + 1]] are the rows of s: its own columns, then the others
    rows: IntArray
    value_ptr: AnyArray  # where its values begin
    n_children: IntArray
    stack_size: int  # workspace of the factorisation in float64
    front_size: int


def analyse(plan: Elimination) -> Structure:
    """Supernodes of a factor and their rows."""
    starts, heights, n_super = elimination.find_supernodes(plan.parent, plan.counts)
    starts = np.append(starts[:n_super][::-1], np.int32(len(plan.parent)))
    heights = heights[:n_super][::-1]
    row_ptr = np.concatenate([[0], np.cumsum(heights)])
    value_ptr = np.concatenate([[0], np.cumsum(heights * np.diff(starts))])
    arrays = (plan.indptr, plan.indices, plan.parent, starts, row_ptr)
    rows, n_children, stack = elimination.supernode_rows(*arrays)
    front = int(np.max(heights, initial=0)) ** 2
    return Structure(plan.order, starts, row_ptr, rows, value_ptr, n_children, int(stack), front)


def factorise(s: Structure, indptr: IntArray, indices: IntArray, data: FloatArray) -> tuple[FloatArray, int]:
    """Values of the factor, and the original number of the first vertex without a positive pivot, or -1."""
    permuted = elimination.permute(indptr, indices, data, s.order)
    values = np.empty(s.value_ptr[-1])
    work = np.empty(s.stack_size), np.empty(s.front_size)
    failed = cholesky.factorise(*s[1:6], *permuted, *work, values)
    return values, -1 if failed < 0 else int(s.order[failed])


def substitute(s: Structure, values: FloatArray, rhs: FloatArray, team: ThreadTeam) -> FloatArray:
    """Solve for a block ``rhs`` (n, N); vertices left out of the order are held at zero."""
    width = rhs.shape[1]
    n_pairs = (width + 1) // 2
    block = np.zeros((2 * n_pairs, len(s.order)))
    block[:width] = rhs[s.order].T
    team.run(cholesky.substitute, n_pairs, *s[1:5], values, block, grain=1)
    out = np.zeros_like(rhs)
    out[s.order] = block[:width].T
    return out
