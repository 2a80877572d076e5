"""Graphs on the device, and sums whose order never changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from isoweave._lazy import computed_once
from isoweave.cuda import _device
from isoweave.graph import NeighborGraph

# Rows up to this length are sorted by insertion, one thread each.
_LONGEST_INSERTED = 200
# Rows of a partial sum, and partial sums at most: both depend on the number of rows alone.
_CHUNK, _MOST_CHUNKS = 256, 4096
# Two lengths of one path, summed from either end, agree to this part.
_SAME_PATH = 1e-6


@dataclass(frozen=True, eq=False)
class DeviceGraph:
    """A :class:`isoweave.graph.NeighborGraph` with its arrays on the device."""

    device: Any
    indptr: Any
    indices: Any
    lengths: Any

    @classmethod
    def of(cls, graph: NeighborGraph, device: Any) -> DeviceGraph:
        """A copy of a graph, or where it came from."""
        found: DeviceGraph | None = graph.__dict__.get("on_device")
        return found or cls(device, *map(device.put, (graph.indptr, graph.indices, graph.lengths)))

    def to_host(self) -> NeighborGraph:
        return NeighborGraph(*map(self.device.get, (self.indptr, self.indices, self.lengths)))

    def keep(self, used: Any) -> DeviceGraph:
        """The same vertices with the edges in use (m,)."""
        before = self.device.xp.zeros(len(used) + 1, dtype=self.device.xp.int32)
        before[1:] = self.device.xp.cumsum(used)
        return DeviceGraph(self.device, before[self.indptr], self.indices[used], self.lengths[used])

    def renumber(self, number: Any) -> DeviceGraph:
        """The same graph with other numbers of its vertices."""
        xp, n = self.device.xp, self.n_vertices
        keys = number[self.sources].astype(xp.int64) * n + number[self.indices]
        order = xp.argsort(keys)
        indptr = xp.zeros(n + 1, dtype=xp.int32)
        degrees = xp.empty(n, dtype=xp.int32)
        degrees[number] = self.degrees
        indptr[1:] = xp.cumsum(degrees)
        return DeviceGraph(self.device, indptr, (keys[order] % n).astype(xp.int32), self.lengths[order])

    @property
    def n_vertices(self) -> int:
        return len(self.indptr) - 1

    @property
    def n_edges(self) -> int:
        return len(self.indices) // 2

    @computed_once
    def degrees(self) -> Any:
        return self.indptr[1:] - self.indptr[:-1]

    @computed_once
    def long_rows(self) -> Any:
        """Vertices with so many edges that a warp adds them up."""
        return long_rows(self.device.xp, self.indptr)

    @computed_once
    def sources(self) -> Any:
        xp = self.device.xp
        at = xp.arange(len(self.indices), dtype=xp.int32)
        return (xp.searchsorted(self.indptr, at, side="right") - 1).astype(xp.int32)

    @computed_once
    def reverse(self) -> Any:
        xp = self.device.xp
        return xp.argsort(self.indices, kind="stable").astype(xp.int32)

    @computed_once
    def by_length(self) -> tuple[Any, Any]:
        """Neighbours and lengths of every row in order of length."""
        xp, n = self.device.xp, self.n_vertices
        if int(self.degrees.max()) > _LONGEST_INSERTED:
            order = xp.lexsort(xp.stack((self.lengths, self.sources.astype(xp.float64))))
            return self.indices[order], self.lengths[order]
        near = xp.empty_like(self.indices), xp.empty_like(self.lengths)
        arrays = (self.indptr, self.indices, self.lengths, *near)
        self.device.module("frames.cu", 2).each("sort_rows", n, n, _LONGEST_INSERTED, *arrays)
        return near

    @computed_once
    def sums_of_lengths(self) -> Any:
        """At every vertex, shortest first."""
        return self.sums_of_rows(self.by_length[1])

    def sums_of_rows(self, values: Any) -> Any:
        """Of the edges (m,) of every vertex, in their order."""
        sums = self.device.xp.empty(self.n_vertices)
        arrays = (self.n_vertices, self.indptr, values, sums)
        self.device.module("balls.cu", 2).each("sums_of_lengths", self.n_vertices, *arrays)
        return sums


def long_rows(xp: Any, indptr: Any) -> Any:
    """Rows of a matrix that are longer than a thread takes."""
    return xp.flatnonzero(indptr[1:] - indptr[:-1] > _device.LONGEST_ROW).astype(xp.int32)


def joined(device: Any, n: int, rows: Any, columns: Any, lengths: Any) -> DeviceGraph:
    """Graph of entries, of which each edge has one or two: these measure one path, or the shorter counts."""
    xp = device.xp
    keys = xp.minimum(rows, columns).astype(xp.int64) * n + xp.maximum(rows, columns)
    order = xp.argsort(keys, kind="stable")
    keys, lengths = keys[order], lengths[order]
    first = xp.ones(len(keys), dtype=bool)
    first[1:] = keys[1:] != keys[:-1]
    starts = xp.flatnonzero(first)
    ends = xp.concatenate((starts[1:], xp.asarray([len(keys)]))) - 1
    least, most = xp.minimum(lengths[starts], lengths[ends]), xp.maximum(lengths[starts], lengths[ends])
    once = xp.where(most - least > _SAME_PATH * most, least, most)
    small, large = keys[starts] // n, keys[starts] % n
    keys = xp.concatenate((small * n + large, large * n + small))
    order = xp.argsort(keys, kind="stable")
    keys, both = keys[order], xp.concatenate((once, once))[order]
    indptr = xp.searchsorted(keys, xp.arange(n + 1, dtype=xp.int64) * n).astype(xp.int32)
    return DeviceGraph(device, indptr, (keys % n).astype(xp.int32), both)


def team_memory(
    device: Any, words: int, n_items: int, most: int, part: int = 1
) -> tuple[Any, dict[str, int]]:
    """Scratch where ``words`` exceed a part of the fast memory, and what a launch needs to know."""
    if 8 * words <= device.shared_bytes // part:
        return None, {"words": words}
    teams = min(n_items, most)
    return device.xp.empty(teams * words), {"most": teams}


def n_chunks(n: int) -> tuple[int, int]:
    """Number and size of the pieces in which n rows are summed."""
    size = max(_CHUNK, -(-n // _MOST_CHUNKS))
    return -(-n // size), size


def column_dots(device: Any, a: Any, b: Any) -> Any:
    """Dot products of matching columns of (n, c) arrays on the device, shape (c,)."""
    xp, (n, width) = device.xp, a.shape
    count, size = n_chunks(n)
    partial, dots, kernels = xp.empty((2, count, width)), xp.empty(width), device.module("sparse.cu", width)
    kernels.teams("dot_chunks", count, count, n, size, a, b, None, partial)
    kernels.teams("finish_dots", width, count, 0, partial, dots, None, None)
    return dots


def total(device: Any, values: Any) -> float:
    """Sum of an array on the device."""
    flat = values.reshape(-1, 1)
    return float(column_dots(device, flat, device.xp.ones_like(flat))[0])
