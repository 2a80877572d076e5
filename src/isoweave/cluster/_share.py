"""The share of one rank, and how ranks communicate: in a fixed order, so that bits never change.

Every message is counted. No function here takes or gives an array as long as the whole graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np

from isoweave._typing import AnyArray, FloatArray

# Entries of arrays that are added up over the ranks: every rank has those of all in memory.
_REDUCED_AT_ONCE = 1 << 16


class ElsewhereError(Exception):
    """Another rank has failed, and says why."""


class Ranks:
    """The ranks of a job, seen from one of them: counted exchanges, sums in the order of the ranks."""

    knows_failure = False  #: all ranks know that one has failed; the same for every object of a process

    def __init__(self, comm: Any) -> None:
        self.comm, self.rank, self.size = comm, int(comm.rank), int(comm.size)
        self.sent = np.zeros(2, dtype=np.int64)  #: messages of this rank to others, and their bytes

    def counted(self, messages: int, n_bytes: int) -> None:
        """Count messages that somebody else has sent, such as PETSc."""
        self.sent = self.sent + np.array((messages, n_bytes), dtype=np.int64)

    def gather(self, value: Any) -> list[Any]:
        """A small value of every rank, in their order, on all of them."""
        found = self.comm.allgather(value)
        self.counted(self.size - 1, (self.size - 1) * np.asarray(value).nbytes)
        return found

    def sum(self, value: Any) -> Any:
        """Sum of a number or an array over the ranks, in their order: the same bits on all and every time."""
        return self._reduced(value, lambda rows: reduce(np.add, rows))

    def max(self, value: Any) -> Any:
        return self._reduced(value, lambda rows: rows.max(axis=0))

    def min(self, value: Any) -> Any:
        return self._reduced(value, lambda rows: rows.min(axis=0))

    def total(self, values: FloatArray) -> float:
        """Sum over all entries of all ranks, in a fixed order."""
        return float(self.sum(float(np.sum(values))))

    def everywhere(self, array: AnyArray) -> AnyArray:
        """The rows of all ranks, in their order, on every rank; for few rows."""
        return np.concatenate(self.gather(array))

    def kth_smallest(self, values: AnyArray, wanted: Any) -> FloatArray:
        """What would stand at places ``wanted`` if the values of all ranks, not negative, were sorted."""
        # The bits of floats that are not negative rise with them: bisection over integers ends at the very
        # value, and no array is as long as the whole graph anywhere.
        ordered = np.sort(np.asarray(values, dtype=np.float64) + 0.0).view(np.int64)
        wanted = np.asarray(wanted, dtype=np.int64)
        low = np.zeros(len(wanted), dtype=np.int64)
        high = np.full(len(wanted), int(self.max(int(ordered[-1]) if len(ordered) else 0)))
        while (low < high).any():
            middle = low + (high - low) // 2
            enough = self.sum(np.searchsorted(ordered, middle, side="right")) > wanted
            low, high = np.where(enough, low, middle + 1), np.where(enough, middle, high)
        return low.view(np.float64)

    def median(self, values: AnyArray) -> float:
        """As ``np.median`` of the values, not negative, of all ranks; 0 where there are none."""
        n = int(self.sum(len(values)))
        return float(self.kth_smallest(values, [(n - 1) // 2, n // 2]).mean()) if n else 0.0

    def _reduced(self, value: Any, reduced: Callable[[AnyArray], AnyArray]) -> Any:
        """One of a number of every rank, or of arrays of one shape, some entries at a time; no pickles."""
        mine = np.asarray(value).reshape(-1)
        found = np.empty_like(mine)
        for lo in range(0, len(mine), _REDUCED_AT_ONCE):
            part = np.ascontiguousarray(mine[lo : lo + _REDUCED_AT_ONCE])
            rows = np.empty((self.size, len(part)), dtype=mine.dtype)
            self.comm.Allgather(part, rows)
            self.counted(self.size - 1, (self.size - 1) * part.nbytes)
            found[lo : lo + len(part)] = reduced(rows)
        return found.reshape(np.shape(value))[()]

    @contextmanager
    def together(self) -> Iterator[None]:
        """A block without messages after which all ranks continue, or none: one raises, the others end."""
        error = None
        try:
            yield
        except Exception as found:
            error = found
        failed = self.gather(error is not None)
        if any(failed):
            Ranks.knows_failure = True
            if error is not None and self.rank == failed.index(True):
                raise error
            raise ElsewhereError(failed.index(True))

    def exchange(self, counts: AnyArray, *arrays: AnyArray) -> tuple[AnyArray, list[AnyArray]]:
        """Send rows of arrays, grouped by rank; returns how many came from each rank, and them, in its order.

        ``counts`` says how many consecutive rows go to each rank.
        """
        counts = np.ascontiguousarray(counts, dtype=np.int64)
        received = np.empty_like(counts)
        self.comm.Alltoall(counts, received)
        self.counted(self.size - 1, (self.size - 1) * 8)
        return received, [self._exchange(counts, received, array) for array in arrays]

    def send(self, to: AnyArray, *arrays: AnyArray) -> list[AnyArray]:
        """Send every row to the rank that ``to`` names; they arrive in the order of the senders."""
        order = np.argsort(to, kind="stable")
        counts = np.bincount(to, minlength=self.size)
        return self.exchange(counts, *(array[order] for array in arrays))[1]

    def _exchange(self, counts: AnyArray, received: AnyArray, array: AnyArray) -> AnyArray:
        array = np.ascontiguousarray(array)
        width = int(np.prod(array.shape[1:], dtype=np.int64)) * array.dtype.itemsize
        result = np.empty((int(received.sum()), *array.shape[1:]), dtype=array.dtype)
        if self.size == 1:
            result[:] = array
            return result
        from mpi4py import MPI

        others = np.arange(self.size) != self.rank
        self.counted(int(np.count_nonzero(counts[others])), int(counts[others].sum()) * width)
        # A row is the unit, because counts of bytes would not fit into 32 bits.
        row = MPI.BYTE.Create_contiguous(max(width, 1)).Commit()
        try:
            sends, receives = (_layout(c) for c in (counts, received))
            self.comm.Alltoallv([array, *sends, row], [result, *receives, row])
        finally:
            row.Free()
        return result


def _layout(counts: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Counts and displacements as MPI takes them."""
    if counts.sum() > np.iinfo(np.int32).max:
        raise ValueError(f"One rank would exchange {counts.sum():,} rows at once; use more ranks.")
    starts = np.concatenate(([0], np.cumsum(counts)[:-1]))
    return counts.astype(np.int32), starts.astype(np.int32)


def starts_of(rows: AnyArray, n: int) -> AnyArray:
    """Where each of n rows begins, and where the last ends, if entries are listed row by row (int64)."""
    return np.concatenate(([0], np.cumsum(np.bincount(rows, minlength=n))))


def grouped(n: int, rows: AnyArray, cols: AnyArray, lengths: FloatArray) -> list[AnyArray]:
    """Where every pair of ends below n begins, and the entries in order of them."""
    order = np.argsort(rows * n + cols, kind="stable")
    rows, cols, lengths = rows[order], cols[order], lengths[order]
    is_first = np.ones(len(order), dtype=np.bool_)
    is_first[1:] = (rows[1:] != rows[:-1]) | (cols[1:] != cols[:-1])
    return [np.flatnonzero(is_first), rows, cols, lengths]


def first_of_each(keys: AnyArray, *ranked_by: AnyArray) -> AnyArray:
    """Where the first entry of every key stands, in rising order of these."""
    order = np.lexsort((*reversed(ranked_by), keys))
    return order[np.unique(keys[order], return_index=True)[1]]


def spread(starts: AnyArray, counts: AnyArray) -> AnyArray:
    """So many positions from every start on, one after the other."""
    before = np.cumsum(counts) - counts
    return np.arange(int(counts.sum())) + np.repeat(starts - before, counts)


def scrambled(numbers: AnyArray) -> FloatArray:
    """Whole numbers below 2^52 that are as good as random, always the same for the same number."""
    mixed = (numbers.astype(np.uint64) + np.uint64(11)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(31))) * np.uint64(0xBF58476D1CE4E5B9)
    return (mixed >> np.uint64(12)).astype(np.float64)


class Halo:
    """Values at given vertices, whichever ranks own them: who sends what is found out once and used often.

    ``vertices`` (distributed numbering) may be in any order; those of others are asked for once.
    """

    def __init__(self, rows: RowRanges, vertices: AnyArray) -> None:
        self._ranks, self._away = rows.ranks, rows.are_away(vertices)
        self._own = vertices[~self._away] - rows.start
        others, back = np.unique(vertices[self._away], return_inverse=True)
        self._back = back.reshape(-1)
        self._wanted = np.bincount(rows.owner_of(others), minlength=self._ranks.size)
        self._given, (asked,) = self._ranks.exchange(self._wanted, others)
        self._rows = asked - rows.start  # of this rank, by the rank that asks

    def fetch(self, values: AnyArray) -> AnyArray:
        """Rows of ``values``, of which every rank has those of its own vertices, at ``vertices``."""
        found = np.empty((len(self._away), *values.shape[1:]), values.dtype)
        found[~self._away] = values[self._own]
        found[self._away] = self._ranks._exchange(self._given, self._wanted, values[self._rows])[self._back]
        return found


@dataclass(frozen=True, eq=False)
class RowRanges:
    """Which rows of one numbering, of the caller's or the distributed one, each rank has: a range of them."""

    ranks: Ranks
    offsets: AnyArray  #: int64 (size + 1): rank r has the rows offsets[r] : offsets[r + 1], possibly none

    @classmethod
    def even(cls, ranks: Ranks, n: int) -> RowRanges:
        """As many of ``n`` rows on one rank as on the others."""
        return cls(ranks, (n * np.arange(ranks.size + 1, dtype=np.int64)) // ranks.size)

    @classmethod
    def of(cls, ranks: Ranks, n_owned: Any) -> RowRanges:
        """So many on this rank."""
        return cls(ranks, np.concatenate(([0], np.cumsum(ranks.gather(int(n_owned))))))

    @property
    def start(self) -> int:
        """Number of the first owned row."""
        return int(self.offsets[self.ranks.rank])

    @property
    def n_owned(self) -> int:
        return int(self.offsets[self.ranks.rank + 1]) - self.start

    @property
    def own(self) -> AnyArray:
        """Numbers of the owned rows."""
        return np.arange(self.start, self.start + self.n_owned)

    @property
    def n_vertices(self) -> int:
        """Of the whole graph."""
        return int(self.offsets[-1])

    def owner_of(self, rows: AnyArray) -> AnyArray:
        """Rank of each of these rows."""
        return np.searchsorted(self.offsets, rows, side="right") - 1

    def are_away(self, rows: AnyArray) -> AnyArray:
        """Which of these rows other ranks have."""
        return (rows < self.start) | (rows >= self.start + self.n_owned)

    def halo(self, rows: AnyArray) -> Halo:
        """For fetching values at these rows, repeatedly."""
        return Halo(self, rows)

    def fetch(self, rows: AnyArray, values: AnyArray) -> AnyArray:
        """Rows of ``values``, of which every rank has its own, at any of them, once."""
        return self.halo(rows).fetch(values)


@dataclass(frozen=True, eq=False)
class CallerRows(RowRanges):
    """The rows of the caller's numbering that a rank answers for, and the vertices they have become."""

    vertex: AnyArray  #: int64: vertex of each in the distributed numbering; duplicates share one


@dataclass(frozen=True, eq=False)
class RowEdges(RowRanges):
    """The rows of one rank with their edges."""

    indptr: AnyArray  #: int64 (n_owned + 1)
    indices: AnyArray  #: int64, of all ranks
    lengths: FloatArray

    @property
    def sources(self) -> AnyArray:
        """Owned row of every entry, counted from the first."""
        return np.repeat(np.arange(self.n_owned), np.diff(self.indptr))


@dataclass(frozen=True, eq=False)
class Share(RowEdges):
    """The vertices of one rank with all their edges: a contiguous range of the distributed numbering.

    Distinct vertices only, as in :class:`isoweave.graph.PreparedGraph`: duplicates are merged, lengths are
    positive and multiples of ``unit``. Rows are sorted, and both directions of every edge are stored.
    """

    caller_ids: AnyArray  #: int64 (n_owned): the first row of the user's numbering that is this vertex
    component: AnyArray  #: int64 (n_owned): connected component, largest first, the same on all ranks
    component_sizes: AnyArray  #: int64: distinct vertices of every component, the same on all ranks
    weights: FloatArray | None = None  #: of edges, the same in both directions
    unit: float = 1.0  #: of the lengths, a power of two near their median
    facts: dict[str, Any] = field(default_factory=dict)  #: what was found on the way: duplicates, cut edges
