"""From pieces of a list of edges, scattered over the ranks, to the share of each.

Rows are first kept in the caller's numbering, as many on one rank as on the next: there the edges are checked
and made symmetric, duplicates merged, components found. Then every vertex moves to its rank.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from isoweave._typing import AnyArray, FloatArray
from isoweave.cluster._components import labelled, smallest_members
from isoweave.cluster._partition import target_ranks
from isoweave.cluster._share import CallerRows, Ranks, RowEdges, RowRanges, Share, grouped, spread, starts_of
from isoweave.graph import NeighborGraph, check_ratio, local_order, positions_of, row_starts, settled
from isoweave.io import open_edges

# As in isoweave.graph: relative difference of two values of one edge that counts as rounding.
_RTOL = 1e-6
# Pairs of vertices are numbered by 64 bits.
_MOST_VERTICES = 3_000_000_000
_EXPONENTS = 1100
# Sums over all ranks stay below 64 bits.
_DIGESTS = 2**48
_MIX = np.uint64(0xBF58476D1CE4E5B9)


def read_share(ranks: Ranks, path: str | Path, *, asymmetry: str = "error") -> tuple[Share, CallerRows]:
    """Read a graph of which every rank reads a part (:func:`isoweave.io.open_edges`), and distribute it."""
    with ranks.together():
        edges = open_edges(path)
        mine = RowRanges.even(ranks, edges.n_entries)
        pieces = list(edges.pieces(mine.start, mine.start + mine.n_owned))
    largest = max((int(max(i.max(), j.max())) for i, j, _ in pieces), default=-1)
    n = max(int(ranks.max(largest)) + 1, edges.n_vertices)
    with ranks.together():
        edges.check_size(n)
    return distribute(ranks, pieces, n, asymmetry=asymmetry)


def share_of(graph: NeighborGraph, comm: Any) -> Share:
    """The share of a graph that every rank has whole: for tests and comparisons."""
    ranks = Ranks(comm)
    once = np.flatnonzero(graph.sources < graph.indices)
    once = once[RowRanges.even(ranks, len(once)).own]
    i, j = (array[once].astype(np.int64) for array in (graph.sources, graph.indices))
    return distribute(ranks, [(i, j, graph.lengths[once])], graph.n_vertices)[0]


def distribute(
    ranks: Ranks, pieces: list[tuple[AnyArray, AnyArray, FloatArray]], n: int, *, asymmetry: str = "error"
) -> tuple[Share, CallerRows]:
    """The share of every rank, and the rows of the caller's numbering that it answers for.

    ``pieces`` are this rank's edges (ends below ``n``, lengths), in any number; the list is emptied.
    """
    with ranks.together():
        if n < 2:
            raise ValueError(f"Distances are needed of at least 2 vertices, got {n}.")
        if n > _MOST_VERTICES:
            raise ValueError(f"The graph has {n:,} vertices; at most {_MOST_VERTICES:,} are possible.")
    even = RowRanges.even(ranks, n)
    small, large, lengths = _settled(even, _at_home(even, pieces), asymmetry)
    unit, whole = _unit(ranks, lengths), ranks.sum(digest(small, large, lengths))
    lengths = np.ldexp(lengths, -int(np.log2(unit)))
    ends = (np.concatenate((small, large)), np.concatenate((large, small)))
    rows = by_rows(even, *ends, np.concatenate((lengths, lengths)))
    del small, large, lengths, ends
    rows, stands_for = _without_duplicates(rows)
    alive = stands_for == rows.own
    label, sizes = labelled(rows, smallest_members(rows, rows.sources, rows.indices), alive)
    target = target_ranks(rows, alive, label, sizes)
    share = _moved(rows, alive, label, sizes, target, unit)
    # Where each row of the caller's has gone: the rank that has the vertex tells the one that has the row.
    told, number = ranks.send(even.owner_of(share.caller_ids), share.caller_ids, share.own)
    vertex = np.full(rows.n_owned, -1, dtype=np.int64)
    vertex[told - rows.start] = number
    vertex = rows.fetch(stands_for, vertex)
    share.facts["digest"] = whole % _DIGESTS
    return _renumbered(share, rows, vertex), CallerRows(ranks, even.offsets, vertex)


def digest(*columns: AnyArray) -> int:
    """A number that tells rows of numbers from others, whatever their order; those of ranks add up."""
    mixed = np.zeros(len(columns[0]) if columns else 0, dtype=np.uint64)
    for values in (row for column in columns for row in np.atleast_2d(column.T)):
        kind = np.float64 if values.dtype.kind == "f" else np.int64
        mixed = (mixed ^ values.astype(kind).view(np.uint64)) * _MIX
        mixed ^= mixed >> np.uint64(29)
    return int(mixed.sum(dtype=np.uint64)) % _DIGESTS


def _at_home(rows: RowRanges, pieces: list[Any]) -> list[AnyArray]:
    """Every edge as smaller end, larger end and length, all mentions of one on the same rank."""
    found: list[list[AnyArray]] = []
    empty = (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
    for _ in range(rows.ranks.max(len(pieces))):
        i, j, lengths = pieces.pop() if pieces else empty
        apart = i != j
        small, large, lengths = np.minimum(i, j)[apart], np.maximum(i, j)[apart], lengths[apart]
        # Half of them with their smaller end: that alone would fill the first ranks.
        home = np.where((small + large) & 1, small, large)
        found.append(rows.ranks.send(rows.owner_of(home), small, large, lengths))
    if not found:
        return list(empty)
    columns: list[AnyArray] = []
    for k in range(3):
        columns.append(np.concatenate([piece[k] for piece in found]))
        for piece in found:
            piece[k] = np.empty(0)
    return columns


def _settled(rows: RowRanges, edges: list[AnyArray], asymmetry: str) -> list[AnyArray]:
    """Every edge once: repeated ones as :func:`isoweave.graph.graph_from_matrix` says."""
    starts, small, large, lengths = grouped(rows.n_vertices, *edges)

    def stored(k: int) -> str:
        found = np.unique(np.split(lengths, starts[1:])[k])
        return f"({small[starts[k]]}, {large[starts[k]]}) is there with {found[0]!r} and {found[-1]!r}"

    with rows.ranks.together():
        once = settled(lengths, starts, asymmetry, _RTOL, stored)
    return [small[starts], large[starts], once]


def _unit(ranks: Ranks, lengths: FloatArray) -> float:
    """The power of two that :func:`isoweave.graph.normalise_lengths` finds: only exponents are counted."""
    positive = lengths[lengths > 0]
    exponents = np.frexp(positive)[1].astype(np.int64)
    counts = np.cumsum(ranks.sum(np.bincount(exponents + _EXPONENTS, minlength=2 * _EXPONENTS)))
    if counts[-1] == 0:
        return 1.0
    low, high = ranks.min(positive.min(initial=np.inf)), ranks.max(positive.max(initial=0.0))
    with ranks.together():
        check_ratio(low, high)
    middle = int(np.searchsorted(counts, counts[-1] // 2, side="right")) - _EXPONENTS
    return float(np.ldexp(1.0, min(middle, np.finfo(np.float64).maxexp - 1)))


def by_rows(rows: RowRanges, ends: AnyArray, cols: AnyArray, lengths: FloatArray) -> RowEdges:
    """Entries as sorted rows on the ranks that these belong to; of a repeated one the shortest counts."""
    ends, cols, lengths = rows.ranks.send(rows.owner_of(ends), ends, cols, lengths)
    starts, ends, cols, lengths = grouped(rows.n_vertices, ends - rows.start, cols, lengths)
    if len(starts) < len(ends):
        ends, cols, lengths = ends[starts], cols[starts], np.minimum.reduceat(lengths, starts)
    return RowEdges(rows.ranks, rows.offsets, starts_of(ends, rows.n_owned), cols, lengths)


def _without_duplicates(rows: RowEdges) -> tuple[RowEdges, AnyArray]:
    """Rows with duplicates (at length zero) merged, and the vertex that every row stands for."""
    zero = rows.lengths == 0
    if not rows.ranks.sum(int(zero.any())):
        return rows, rows.own
    sources = rows.sources
    stands_for = smallest_members(rows, sources[zero], rows.indices[zero])
    here, there = stands_for[sources], rows.fetch(rows.indices, stands_for)
    apart = here != there
    return by_rows(rows, here[apart], there[apart], rows.lengths[apart]), stands_for


def _moved(
    rows: RowEdges, alive: AnyArray, label: AnyArray, sizes: AnyArray, target: AnyArray, unit: float
) -> Share:
    """Rows on the ranks they go to, put in order there; columns are still the caller's."""
    ranks, degrees = rows.ranks, np.diff(rows.indptr)
    ids, component, degree = ranks.send(target[alive], rows.own[alive], label[alive], degrees[alive])
    to = np.repeat(target, degrees)  # a vertex that goes nowhere has no edges
    indices, lengths = ranks.send(to, rows.indices, rows.lengths)
    # They arrive by rising rank and row, that is in the caller's order.
    indptr = np.concatenate(([0], np.cumsum(degree)))
    kept = RowRanges.of(ranks, len(ids))
    order = _local_order(ids, indptr, indices)
    if order is not None:
        at = spread(indptr[order], degree[order])
        ids, component, indices, lengths = ids[order], component[order], indices[at], lengths[at]
        indptr = np.concatenate(([0], np.cumsum(degree[order])))
    return Share(ranks, kept.offsets, indptr, indices, lengths, ids, component, sizes, unit=unit)


def _local_order(ids: AnyArray, indptr: AnyArray, indices: AnyArray) -> AnyArray | None:
    """:func:`isoweave.graph.local_order` of the vertices on this rank."""
    at = positions_of(ids, indices)
    rows = np.repeat(np.arange(len(ids), dtype=np.int32), np.diff(indptr))[at >= 0]
    ones: Any = np.ones(len(rows), dtype=np.int8)
    return local_order(NeighborGraph(row_starts(rows, len(ids)), at[at >= 0].astype(np.int32), ones))


def _renumbered(share: Share, rows: RowEdges, vertex: AnyArray) -> Share:
    """The share with columns in the distributed numbering, sorted within each row."""
    columns = rows.fetch(share.indices, vertex)
    order = np.argsort(share.sources * share.n_vertices + columns, kind="stable")
    n_cut = np.count_nonzero(share.are_away(columns))
    n_edges, n_cut = share.ranks.sum(np.array([len(columns), n_cut])) // 2
    n_merged = rows.n_vertices - share.n_vertices
    facts = {"edges": int(n_edges), "cut edges": int(n_cut), "duplicates merged": n_merged}
    facts |= share.facts
    return replace(share, indices=columns[order], lengths=share.lengths[order], facts=facts)
