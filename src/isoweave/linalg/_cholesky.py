"""Sparse Cholesky factorisation for many solves: order, size, supernodes, values; lowest eigenvectors.

Written here because wheels at hand link an unoptimised BLAS or solve slowly (benchmarks/direct_solvers.py).
Columns of the factor with (nearly) the same rows form a supernode. With T its triangular diagonal block and R
the rectangle below, T^-1 is stored above -R T^-1: each half of a solve is one product per supernode.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import breadth_first_order
from scipy.sparse.linalg import spilu, splu

from isoweave._forks import forks_wait
from isoweave._lazy import LazyModule
from isoweave._parallel import ONE_THREAD, ThreadTeam, single_blas_thread
from isoweave._typing import AnyArray, BoolArray, FloatArray, IntArray

kernels = LazyModule("isoweave.engines.cholesky")
# Entries of the largest factor a direct solver will make (2 GB of float64).
MAX_FILL = 250_000_000
# Above this many times the entries of the matrix a factor is no use, and minimum degree takes minutes to
# find out.
MAX_FILL_RATIO = 50.0
# Columns from which a factor is made of tasks, and the most of the work that a task of layer 0 has.
_SMALLEST_CUT = 24_000
_SHARES = 64
# Nested dissection: vertices of a part on average, the most halvings, and the widest first separator, in
# square roots of the number of vertices (a square sheet has about 2).
_SMALLEST_PART = 8_000
_DEEPEST = 6
_WIDEST_CUT = 3.0
_LEAST_ROWS = 16_384  # of a right-hand side, per thread
# SuperLU on symmetric matrices.
SYMMETRIC: Any = {"permc_spec": "MMD_AT_PLUS_A", "diag_pivot_thresh": 0.0, "options": {"SymmetricMode": True}}
_TOLERANCE = 1e-10  # of the residuals of eigenvectors, beside the mean diagonal
_STANDSTILL = 3e-3  # relative change of the eigenvalues in a sweep


def elimination_order(
    indptr: IntArray, indices: IntArray, start: int = 0, team: ThreadTeam = ONE_THREAD
) -> IntArray:
    """Fill-reducing order of a symmetric pattern, int32 (n,), the first vertex to be eliminated first.

    Multiple minimum degree, as SuperLU computes it: on graphs of surfaces it fills as little as nested
    dissection, which goes before it on large ones, so that their parts can be ordered side by side. It is
    slow around vertices of very high degree: those come last. Where even a level in the middle of the
    component of ``start`` is too large to be a separator, vertices go by increasing degree.
    """
    n = len(indptr) - 1
    degrees = np.diff(indptr)
    hubs = degrees > max(16.0, 10.0 * np.sqrt(n))
    # Beside a separator of w vertices the factor holds w^2 / 2 entries.
    widest = np.sqrt(2 * MAX_FILL_RATIO * len(indices))
    middle, reached = _middle_level(indptr, indices, start, hubs) if n > widest else (0, 0)
    if n < 3 or middle > widest:
        return np.argsort(degrees, kind="stable").astype(np.int32)
    rest = np.flatnonzero(~hubs).astype(np.int32)
    depth = int(np.log2(len(rest) / _SMALLEST_PART)) if len(rest) >= _SMALLEST_CUT else 0
    # Nothing of the factors may be left when a fork goes on: see symmetric_solver.
    with forks_wait():
        # Many components keep the order that each has alone.
        if depth and middle <= _WIDEST_CUT * np.sqrt(n) and 2 * reached > n:
            inner = _dissected(indptr, indices, rest, min(depth, _DEEPEST), team)
        else:
            pattern = sp.csc_array((np.ones(len(indices)), indices, indptr), shape=(n, n))
            inner = rest[_minimum_degree(pattern[rest][:, rest] if hubs.any() else pattern)]
    if len(rest) < n:
        inner = np.concatenate([inner, np.argsort(degrees, kind="stable")[len(rest) :]])
    return inner.astype(np.int32, copy=False)


def _minimum_degree(pattern: sp.csc_array) -> AnyArray:
    # With a dominant diagonal the incomplete factorisation drops all else at once.
    n = pattern.shape[0]
    dominant = sp.csc_array(pattern + sp.eye_array(n, format="csc") * (1e3 * n))
    return np.argsort(spilu(dominant, drop_tol=1.0, fill_factor=1.0, **SYMMETRIC).perm_c)


def _dissected(indptr: IntArray, indices: IntArray, rest: IntArray, depth: int, team: ThreadTeam) -> IntArray:
    """Order of the vertices ``rest``: halves before what separates them, the parts by minimum degree."""
    from isoweave.engines.dissection import bisect

    region = np.zeros(len(indptr) - 1, dtype=np.int32)
    region[rest] = 1
    order, queue, work = rest.copy(), np.empty_like(rest), np.empty((4, len(region)), np.int32)
    bounds = np.array([0, len(rest)], dtype=np.int32)
    for deep in range(depth):
        sizes = np.empty(2 << deep, dtype=np.int32)
        arrays = (bounds, indptr, indices, region, order, queue, work, sizes)
        team.run(bisect, 1 << deep, 1 << deep, *arrays, grain=1)
        starts = np.repeat(bounds[::2], 2)
        starts[1::2] += sizes[::2]
        bounds = np.column_stack([starts, starts + sizes]).ravel()
    team.run(_order_parts, len(bounds) // 2, bounds, indptr, indices, order, grain=1)
    return order


def _order_parts(
    start: int, stop: int, bounds: IntArray, indptr: IntArray, indices: IntArray, order: IntArray
) -> None:
    for lo, hi in bounds.reshape(-1, 2)[start:stop]:
        part = np.sort(order[lo:hi])
        p, c, _ = _permute(indptr, indices, part)
        pattern = sp.csc_array((np.ones(len(c)), c, p), shape=(len(part), len(part)))
        order[lo:hi] = part[_minimum_degree(pattern)] if len(part) > 2 else part


def _middle_level(indptr: IntArray, indices: IntArray, start: int, skipped: BoolArray) -> tuple[int, int]:
    """Size of the middle level of a search from the rim of the component of ``start``, and of all levels."""
    n = len(skipped)
    if skipped.any():
        kept = ~skipped[indices]
        indices, indptr = indices[kept], np.append(0, np.cumsum(kept))[indptr].astype(np.int32)
    graph = sp.csr_array((np.ones(len(indices)), indices, indptr), shape=(n, n))
    # Two searches: the first finds a vertex at the rim, from where levels are narrow.
    rim = breadth_first_order(graph, start, return_predecessors=False)[-1]
    order, before = breadth_first_order(graph, rim)
    place = np.empty(n, dtype=np.int32)
    place[order] = np.arange(len(order))
    above = place[before[order[1:]]]
    first, last = 0, 1
    while last <= len(order) // 2:
        first, last = last, 1 + int(np.searchsorted(above, last))
    return last - first, len(order)


class Tasks(NamedTuple):
    """Parts of an elimination tree. Those of a layer do not need each other; only the matrix decides."""

    bounds: IntArray  # first column, later first supernode, of every task, and the end
    above: IntArray  # the task that a task hands its contributions to, or -1
    layers: list[int]  # first task of every layer, and the end


class Elimination(NamedTuple):
    """An elimination order and the size of the factor it leads to."""

    order: IntArray  # order[r] is the original number of row r of the factor; vertices may be left out
    indptr: IntArray  # pattern of the matrix in that order, rows unsorted
    indices: IntArray
    parent: IntArray  # elimination tree: the first row below the diagonal in every column, -1 for none
    counts: AnyArray  # entries of every column of the factor
    fill: int  # their sum
    tasks: Tasks


def _permute(indptr: IntArray, indices: IntArray, order: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Rows and columns of a pattern in an order that may leave some out, and which entries those are."""
    entries, n = np.arange(len(indices), dtype=np.int32), len(indptr) - 1
    found = sp.csr_array((entries, indices, indptr), shape=(n, n))[order][:, order]
    return found.indptr, found.indices, found.data


def plan_elimination(indptr: IntArray, indices: IntArray, order: IntArray) -> Elimination:
    """Elimination tree and column counts for an order, replaced by one with contiguous subtrees."""
    # In time and memory that are linear in the entries of the matrix, however large the factor would be.
    p, c, _ = _permute(indptr, indices, order)
    order = order[kernels.postorder(kernels.elimination_tree(p, c))]
    p, c, _ = _permute(indptr, indices, order)
    parent = kernels.elimination_tree(p, c)
    counts = kernels.column_counts(p, c, parent)
    tasks = Tasks(np.array([0, len(order)], np.int32), np.array([-1], np.int32), [0, 1])
    trees = np.diff(np.flatnonzero(parent == -1), prepend=-1)  # their sizes
    if len(order) >= _SMALLEST_CUT and 2 * trees.max() > len(order):
        columns, tasks = _cut(parent, counts)
        place = np.append(_inverse(columns), np.int32(-1))  # where a parent of -1 finds itself
        order, parent, counts = order[columns], place[parent[columns]], counts[columns]
        p, c, _ = _permute(indptr, indices, order)
    return Elimination(order, p, c, parent, counts, int(counts.sum()), tasks)


def _cut(parent: IntArray, counts: AnyArray) -> tuple[AnyArray, Tasks]:
    """Columns, in postorder until now, by layer and task."""
    task, layer, above = kernels.cut_tree(parent, counts, _SHARES)
    by_layer = np.argsort(layer, kind="stable")
    number = np.append(_inverse(by_layer), np.int32(-1))
    task = number[task]
    bounds = np.append(0, np.cumsum(np.bincount(task))).astype(np.int32)
    layers = np.searchsorted(layer[by_layer], np.arange(layer.max() + 2)).tolist()
    return np.argsort(task, kind="stable"), Tasks(bounds, number[above[by_layer]], layers)


def _inverse(permutation: AnyArray) -> IntArray:
    place = np.empty(len(permutation), dtype=np.int32)
    place[permutation] = np.arange(len(permutation), dtype=np.int32)
    return place


class Structure(NamedTuple):
    """Supernodes of a factor."""

    order: IntArray  # of elimination
    starts: IntArray  # first column of every supernode
    row_ptr: AnyArray  # rows[row_ptr[s] : row_ptr[s + 1]] are the rows of s: its own columns, then the others
    rows: IntArray
    value_ptr: AnyArray  # where its values begin
    last_child: IntArray
    sibling: IntArray  # the child of the same parent before
    places: AnyArray  # of its update in the workspace
    stack_size: int  # workspace of the factorisation in float64
    front_size: int
    tasks: Tasks
    n_inner: int  # columns of layer 0

    def empty_block(self, width: int) -> FloatArray:
        """Room for right-hand sides of ``width`` columns, which are its first rows, in factor order."""
        n, n_tasks = len(self.order), len(self.tasks.above)
        return np.zeros((width + width % 2, n + n_tasks * (n - self.n_inner)))


def analyse(plan: Elimination) -> Structure:
    """Supernodes of a factor and their rows."""
    inside = plan.parent.copy()
    inside[plan.tasks.bounds[1:-1] - 1] = -1
    starts, heights, n_super = kernels.find_supernodes(inside, plan.counts)
    starts = np.append(starts[:n_super][::-1], np.int32(len(plan.parent)))
    heights = heights[:n_super][::-1]
    row_ptr = np.concatenate([[0], np.cumsum(heights)])
    value_ptr = np.concatenate([[0], np.cumsum(heights * np.diff(starts))])
    bounds = np.searchsorted(starts, plan.tasks.bounds).astype(np.int32)
    rows, *links, stack = kernels.supernode_rows(*plan[1:4], starts, row_ptr, bounds)
    tallest = np.maximum.reduceat(heights, bounds[:-1]) if n_super else np.zeros(1)
    front = max(int((tallest[lo:hi] ** 2).sum()) for lo, hi in pairwise(plan.tasks.layers))
    n_inner, tasks = int(plan.tasks.bounds[plan.tasks.layers[1]]), plan.tasks._replace(bounds=bounds)
    sizes: Any = (int(stack), front, tasks, n_inner)
    return Structure(plan.order, starts, row_ptr, rows, value_ptr, *links, *sizes)


def factorise(
    s: Structure, indptr: IntArray, indices: IntArray, data: FloatArray, team: ThreadTeam = ONE_THREAD
) -> tuple[FloatArray, int]:
    """Values of the factor, and the original number of the first vertex without a positive pivot, or -1."""
    pattern = _permute(indptr, indices, s.order)
    values, stack = np.empty(s.value_ptr[-1]), np.empty(s.stack_size)
    failed = np.full(len(s.tasks.above), -1, dtype=np.int32)
    arrays = (s.tasks.bounds, *s[1:8], *pattern, data, stack, values, failed)
    for lo, hi in pairwise(s.tasks.layers):
        team.run(kernels.factorise, hi - lo, lo, *arrays, grain=1)
        if (failed >= 0).any():
            return values, int(s.order[failed[failed >= 0].min()])
    return values, -1


def substitute(s: Structure, values: FloatArray, rhs: FloatArray, team: ThreadTeam) -> FloatArray:
    """Solve for a block ``rhs`` (n, N); vertices left out of the order are held at zero."""
    block, out = s.empty_block(rhs.shape[1]), np.zeros_like(rhs)
    team.run(_gather, len(s.order), s.order, rhs, block, grain=_LEAST_ROWS)
    substitute_block(s, values, block, team)
    team.run(_scatter, len(s.order), s.order, block, out, grain=_LEAST_ROWS)
    return out


def _gather(start: int, stop: int, order: IntArray, rhs: FloatArray, block: FloatArray) -> None:
    block[: rhs.shape[1], start:stop] = rhs[order[start:stop]].T


def _scatter(start: int, stop: int, order: IntArray, block: FloatArray, out: FloatArray) -> None:
    out[order[start:stop]] = block[: out.shape[1], start:stop].T


def substitute_block(s: Structure, values: FloatArray, block: FloatArray, team: ThreadTeam) -> None:
    """Overwrite right-hand sides in an :meth:`Structure.empty_block` with solutions."""
    layers, arrays = list(pairwise(s.tasks.layers)), (*s.tasks[:2], s.n_inner, *s[1:5], values, block)

    def run(lo: int, hi: int, forward: bool, backward: bool) -> None:
        n_items = (hi - lo) * (len(block) // 2)
        team.run(kernels.substitute, n_items, lo, hi - lo, forward, backward, *arrays, grain=1)

    for layer in layers[:-1]:
        run(*layer, True, False)
    run(*layers[-1], True, True)
    for layer in layers[-2::-1]:
        run(*layer, False, True)


class BlockCholesky:
    """Solves with symmetric matrices of ``width`` rows per vertex and entries at the edges of one graph.

    The entries of a row are those at the vertex itself, then at its neighbours in turn, ``width`` at each.
    """

    def __init__(self, indptr: IntArray, indices: IntArray, width: int) -> None:
        n, across = len(indptr) - 1, np.arange(width)
        blocks = np.insert(indices, indptr[:-1], np.arange(n))
        counts = np.repeat(np.diff(indptr) + 1, width)
        ends = np.cumsum(counts)
        firsts = np.repeat(indptr[:-1] + np.arange(n), width)
        position = np.arange(ends[-1]) + np.repeat(firsts - (ends - counts), counts)
        self.indptr = np.append(0, width * ends).astype(np.int32)
        self.indices = (width * blocks[position][:, None] + across).ravel().astype(np.int32)
        self.diagonal = self.indptr[:-1] + np.tile(across, n)
        order = elimination_order(indptr, indices)
        rows = (width * order[:, None] + across).ravel().astype(np.int32)
        self._structure = analyse(plan_elimination(self.indptr, self.indices, rows))

    def solve(
        self, values: FloatArray, damping: float, rhs: FloatArray, team: ThreadTeam
    ) -> FloatArray | None:
        """Solution (n, width) of the matrix with ``damping`` on its diagonal; None if it is not definite."""
        damped = values.copy()
        damped[self.diagonal] += damping
        with single_blas_thread():
            factor, failed = factorise(self._structure, self.indptr, self.indices, damped, team)
        if failed >= 0:
            return None
        return substitute(self._structure, factor, rhs.reshape(-1, 1), team).reshape(rhs.shape)


@contextmanager
def symmetric_solver(matrix: sp.csr_array, shift: float) -> Iterator[Callable[[FloatArray], FloatArray]]:
    """Function that solves with ``matrix + shift I`` inside the block, for right-hand sides (n,) or (n, k).

    Forks by other threads wait until the block is left: while a thread holds a factor of SuperLU, SciPy (1.17
    and before) sets an error in every child forked elsewhere, which stops Python's clean-up of threads there.
    """
    with forks_wait():
        # The caller's name for the function outlives the block; the factor must not.
        held = [splu(sp.csc_array(matrix + shift * sp.eye_array(matrix.shape[0])), **SYMMETRIC)]
        try:
            yield lambda rhs: np.asarray(held[0].solve(rhs))
        finally:
            held.clear()


def lowest_eigenvectors(
    matrix: sp.csr_array, n_wanted: int, *, rough: bool = False
) -> tuple[FloatArray, FloatArray]:
    """Smallest eigenvalues and vectors of a positive semi-definite matrix by block inverse iteration.

    On flat data the eigenvalue zero of a connection Laplacian is exactly N-fold: single-vector Krylov methods
    miss copies of it, a block of more than N vectors cannot. ``rough``: a wider block, and an end once the
    eigenvalues hardly move (25 sweeps at most) instead of at small residuals (200 sweeps).
    """
    n_extra, max_sweeps = (6, 25) if rough else (3, 200)
    size = matrix.shape[0]
    scale = float(matrix.diagonal().mean())
    shift = 1e-9 * max(scale, np.finfo(float).tiny)
    block = np.random.default_rng(7).standard_normal((size, min(n_wanted + n_extra, size)))
    values = before = np.full(n_wanted, np.inf)
    with symmetric_solver(matrix, shift) as solve:
        for _ in range(max_sweeps):
            block, _ = np.linalg.qr(solve(block))
            small = block.T @ (matrix @ block)
            all_values, rotation = np.linalg.eigh(0.5 * (small + small.T))
            block = block @ rotation
            values, vectors = all_values[:n_wanted], block[:, :n_wanted]
            if rough:
                now = np.maximum(values, shift)
                if np.all(before - now <= _STANDSTILL * now):
                    break
                before = now
            else:
                residual = np.linalg.norm(matrix @ vectors - vectors * values, axis=0)
                if residual.max() <= _TOLERANCE * scale:
                    break
    return values, vectors
