"""Entries of a graph put into sorted rows, both directions of every edge, repeated ones merged."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from isoweave._typing import AnyArray, FloatArray, IntArray

# Vertices and stored edges (two per undirected edge) are numbered by int32 in every kernel.
MAX_STORED_EDGES = 2**31 - 1

Rows = tuple[IntArray, IntArray, FloatArray]  # of a graph: indptr, indices, lengths


def rows_of_entries(
    n: int, rows: AnyArray, cols: AnyArray, values: FloatArray, asymmetry: str, rtol: float
) -> Rows:
    """Rows of a graph, of entries whose ends differ."""
    # Every edge as (smaller, larger) end: a stable counting sort by the former, and scipy sorts the rows. Its
    # A.maximum(A.T) would sum repeated entries and drop explicit zeros.
    small = np.minimum(rows, cols)
    order, counts = counting_argsort(small, n), np.bincount(small, minlength=n)
    ends = np.maximum(rows, cols)[order], np.append(0, np.cumsum(counts))
    ordered = sp.csr_array((order, *(part.astype(order.dtype) for part in ends)), shape=(n, n))
    ordered.sort_indices()
    small, large = np.repeat(np.arange(n, dtype=np.int32), counts), ordered.indices.astype(np.int32)
    lengths = values[ordered.data]
    first = np.ones(len(order), dtype=np.bool_)
    first[1:] = (small[1:] != small[:-1]) | (large[1:] != large[:-1])
    starts = np.flatnonzero(first)
    small, large, m = small[starts], large[starts], len(starts)
    if m < len(first):
        lengths, smallest = np.maximum.reduceat(lengths, starts), np.minimum.reduceat(lengths, starts)
        conflict = lengths - smallest > rtol * lengths
        if asymmetry == "error" and conflict.any():
            i, j = int(small[conflict][0]), int(large[conflict][0])
            stored = []
            for a, b in ((i, j), (j, i)):
                found = values[(rows == a) & (cols == b)][:4].tolist()
                stored += [f"entry ({a}, {b}) = {', '.join(map(repr, found))}"] if found else []
            raise ValueError(
                f"The distances of one edge disagree: {' and '.join(stored)}; they differ by more than "
                f"rounding (rtol = {rtol:g}). Choose asymmetry='max', 'min' or 'mean' to resolve such edges."
            )
        if asymmetry == "min":
            lengths = np.where(conflict, smallest, lengths)
        elif asymmetry == "mean":
            lengths = np.where(conflict, 0.5 * smallest + 0.5 * lengths, lengths)
    if 2 * m > MAX_STORED_EDGES:
        raise ValueError(
            f"The graph has {m} edges, more than the {MAX_STORED_EDGES // 2} that 32-bit indices can number. "
            "Use fewer neighbours per vertex."
        )
    # Numbered from 1, because sums of matrices leave out zeros.
    once = sp.csr_array((np.arange(1, m + 1, dtype=np.int32), large, row_starts(small, n)), shape=(n, n))
    both = once + once.T.tocsr()
    return both.indptr, both.indices, lengths[both.data - 1]


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
    starts = np.zeros(n + 1, dtype=np.int32)
    np.cumsum(np.bincount(rows, minlength=n), out=starts[1:])
    return starts
