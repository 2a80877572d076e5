"""Entries of a graph put into sorted rows, both directions of every edge, repeated ones merged."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

from isoweave._parallel import ThreadTeam
from isoweave._typing import AnyArray, FloatArray, IntArray

# Vertices and stored edges (two per undirected edge) are numbered by int32 in every kernel.
MAX_STORED_EDGES = 2**31 - 1
# Rows up to this length are sorted by insertion in compiled code; compiling a sort for longer ones takes
# longer than numpy takes for all of them.
LONGEST_INSERTED = 200
# Entries from which compiled code is worth loading, and the blocks that they are counted in, on any number
# of threads.
MANY_ENTRIES = 2**18
_BLOCKS = 16

Rows = tuple[IntArray, IntArray, FloatArray]  # of a graph: indptr, indices, lengths


def sort_entries(
    n: int, rows: AnyArray, cols: AnyArray, values: FloatArray, asymmetry: str, rtol: float
) -> Rows:
    """Rows of a graph, by sorting all entries."""
    # Every edge as (smaller, larger) end, in linear time by two stable counting sorts, which unlike scipy's
    # A.maximum(A.T) neither sum repeated entries nor drop explicit zeros.
    small = np.minimum(rows, cols).astype(np.int32, copy=False)
    large = np.maximum(rows, cols).astype(np.int32, copy=False)
    order = counting_argsort(large, n)
    order = order[counting_argsort(small[order], n)]
    small, large, lengths = small[order], large[order], values[order]
    first = np.ones(len(order), dtype=np.bool_)
    first[1:] = (small[1:] != small[:-1]) | (large[1:] != large[:-1])
    starts = np.flatnonzero(first)
    small, large, m = small[starts], large[starts], len(starts)

    def stored(k: int) -> str:
        texts, ends = [], (int(small[k]), int(large[k]))
        for a, b in (ends, ends[::-1]):
            found = values[(rows == a) & (cols == b)][:4].tolist()
            texts += [f"entry ({a}, {b}) = {', '.join(map(repr, found))}"] if found else []
        return " and ".join(texts)

    lengths = settled(lengths, starts, asymmetry, rtol, stored)
    if 2 * m > MAX_STORED_EDGES:
        raise ValueError(
            f"The graph has {m} edges, more than the {MAX_STORED_EDGES // 2} that 32-bit indices can number. "
            "Use fewer neighbours per vertex."
        )
    # Numbers of the edges from 1, because scipy's sum drops zeros.
    upper = sp.csr_array((np.arange(1, m + 1, dtype=np.int32), large, row_starts(small, n)), shape=(n, n))
    both = upper + upper.T.tocsr()
    return both.indptr, both.indices, lengths[both.data - 1]


def settled(
    lengths: FloatArray, starts: AnyArray, asymmetry: str, rtol: float, stored: Callable[[int], str]
) -> FloatArray:
    """One length for each run that begins at ``starts``; ``stored`` says what of a run there is."""
    if len(starts) == len(lengths):
        return lengths
    most, least = np.maximum.reduceat(lengths, starts), np.minimum.reduceat(lengths, starts)
    conflict = most - least > rtol * most
    if asymmetry == "error" and conflict.any():
        raise ValueError(
            f"The distances of one edge disagree: {stored(int(np.argmax(conflict)))}; they differ by more "
            f"than rounding (rtol = {rtol:g}). Choose asymmetry='max', 'min' or 'mean' to resolve such edges."
        )
    if asymmetry == "min":
        return np.where(conflict, least, most)
    return np.where(conflict, 0.5 * least + 0.5 * most, most) if asymmetry == "mean" else most


def merge_entries(
    n: int, rows: AnyArray, cols: AnyArray, values: FloatArray, asymmetry: str, rtol: float, team: ThreadTeam
) -> Rows | None:
    """The same in compiled code, row by row; None where lengths disagree that must not."""
    from isoweave.engines import assembly as kernels

    size = -(-len(rows) // _BLOCKS)
    rows, cols = (np.ascontiguousarray(ends, dtype=np.int32) for ends in (rows, cols))
    counts, totals = np.empty((_BLOCKS, n), dtype=np.int32), np.empty(n, dtype=np.int32)
    team.run(kernels.count_entries, _BLOCKS, size, rows, cols, counts, grain=1)
    team.run(kernels.place_blocks, n, counts, totals, grain=4096)
    starts = bounds_of(totals)
    columns, lengths = np.empty(2 * len(rows), dtype=np.int32), np.empty(2 * len(rows))
    entries = (rows, cols, np.ascontiguousarray(values))
    team.run(kernels.spread_entries, _BLOCKS, size, *entries, starts, counts, columns, lengths, grain=1)
    del counts, entries, rows, cols, values
    sort_long_rows(starts, columns, lengths)
    conflicts, rule = np.empty(n, dtype=np.bool_), {"min": 1, "mean": 2}.get(asymmetry, 0)
    team.run(kernels.merge_rows, n, starts, columns, lengths, rule, rtol, totals, conflicts)
    if asymmetry == "error" and conflicts.any():
        return None
    indptr = bounds_of(totals)
    indices, merged = np.empty(indptr[-1], dtype=np.int32), np.empty(indptr[-1])
    same = np.arange(n, dtype=np.int32)
    # Rows are in order: none is longer than 0.
    team.run(kernels.take_rows, n, 0, same, same, starts, columns, lengths, indptr, indices, merged)
    return indptr, indices, merged


def sort_long_rows(starts: IntArray, columns: IntArray, lengths: FloatArray) -> None:
    """Sort by column the rows that are too long to be sorted by insertion."""
    for i in np.flatnonzero(np.diff(starts) > LONGEST_INSERTED):
        first, last = starts[i : i + 2]
        order = first + np.argsort(columns[first:last], kind="stable")
        columns[first:last], lengths[first:last] = columns[order], lengths[order]


def counting_argsort(keys: AnyArray, n: int) -> AnyArray:
    """Stable argsort of integers from 0 to ``n``, linear in their number."""
    # A matrix with one entry per row turned into column order: scipy has this counting sort compiled, and it
    # takes a third of the time of numpy's lexsort.
    m = len(keys)
    index_type = np.int32 if max(m, n) < 2**31 else np.int64
    starts = np.arange(m + 1, dtype=index_type)
    table = sp.csr_array((np.ones(m, np.int8), keys.astype(index_type, copy=False), starts), shape=(m, n))
    return np.asarray(table.tocsc().indices)


def row_starts(rows: AnyArray, n: int) -> IntArray:
    """Where each of n rows begins, and where the last ends, if entries are listed row by row."""
    return bounds_of(np.bincount(rows, minlength=n))


def inverse_of(order: AnyArray) -> IntArray:
    """Where each number stands in an order of all of them."""
    place = np.empty(len(order), dtype=np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    return place


def bounds_of(counts: AnyArray) -> IntArray:
    """Where each of some rows of so many entries begins, and where the last ends."""
    bounds = np.zeros(len(counts) + 1, dtype=np.int32)
    np.cumsum(counts, out=bounds[1:])
    return bounds
