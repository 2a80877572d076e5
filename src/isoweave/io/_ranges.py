"""Lists of edges read a range at a time, so that many processes can read one graph and none holds it all.

Three kinds: Parquet with the columns source, target, distance; .npz with arrays of these names or as scipy's
``save_npz`` writes a square matrix; and a folder of such files. Unlike other Parquet files these are read in
the process itself, which a malicious file could crash.
"""

from __future__ import annotations

import math
import re
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from isoweave._typing import AnyArray
from isoweave.io import _source, _sparse
from isoweave.io._read import check_installed
from isoweave.io._source import Fault, InputFileError, brief, quoted, reading

Piece = tuple[AnyArray, AnyArray, AnyArray]
# Edges at a time: 24 bytes each.
_AT_ONCE = 1 << 19
_ROWS_AT_ONCE = 1 << 15
_COLUMNS = ("source", "target", "distance")
_NUMBERED = re.compile(r"(.*?)(\d+)(?:-of-(\d+))?$")


@dataclass(frozen=True)
class EdgeList:
    """Edges of a graph in one file or several, not read yet: ``n_entries`` of them, numbered from 0.

    ``n_vertices`` is what the files declare, 0 if they do not. Every entry counts in both directions, and may
    be there in both.
    """

    files: tuple[EdgeFile, ...]
    path: Path

    @property
    def n_entries(self) -> int:
        return sum(file.n_entries for file in self.files)

    @property
    def n_vertices(self) -> int:
        return max((file.n_vertices for file in self.files), default=0)

    def pieces(self, start: int, stop: int, at_once: int = _AT_ONCE) -> Iterator[Piece]:
        """Entries ``start`` to ``stop`` in their order, checked, some at a time."""
        before = 0
        for file in self.files:
            first, last = max(start - before, 0), min(stop - before, file.n_entries)
            if first < last:
                with reading(file.path):
                    for piece in file.read(first, last, at_once):
                        yield _checked(piece, file.n_vertices)
            before += file.n_entries

    def check_size(self, n_vertices: int) -> None:
        """Refuse a graph that is out of proportion to the number of its edges."""
        if n_vertices > max(_sparse.MAX_EMPTY_VERTICES, _sparse.VERTICES_PER_ENTRY * self.n_entries):
            said = f"a graph of {n_vertices:,} vertices with only {self.n_entries:,} edges is refused"
            raise InputFileError(self.path, f"{said}; number the vertices from 0 without gaps")


@dataclass(frozen=True)
class EdgeFile:
    """One file of an :class:`EdgeList`; ``read(start, stop, at_once)`` yields its entries."""

    path: Path
    n_entries: int
    n_vertices: int
    read: Callable[[int, int, int], Iterator[Piece]]


def open_edges(path: str | Path) -> EdgeList:
    """Look at a list of edges without reading them; raises InputFileError as :func:`read_input` does."""
    path = Path(path)
    if not path.is_dir():
        return EdgeList((_opened(path),), path)
    names = sorted(p for p in path.iterdir() if p.suffix.lower() in _OPENERS and not p.name.startswith("."))
    if not names:
        raise InputFileError(path, f"the folder holds no parts ({' or '.join(_OPENERS)})")
    _check_complete(path, names)
    files = tuple(_opened(name) for name in names)
    declared = {file.n_vertices: file.path.name for file in files if file.n_vertices}
    if len(declared) > 1:
        (m, one), (n, other), *_ = sorted(declared.items())
        said = f"is part of a graph of {n:,} vertices, and {one} of one of {m:,}"
        raise InputFileError(path / other, f"{said}; all parts must have the shape of the whole")
    return EdgeList(files, path)


def _check_complete(path: Path, names: list[Path]) -> None:
    """Refuse a folder in which a numbered part is missing."""
    found = [_NUMBERED.fullmatch(name.stem) for name in names]
    numbers = [int(match[2]) for match in found if match]
    if len(numbers) < len(names):
        return
    numbers.sort()
    said = {int(match[3]) for match in found if match and match[3]}
    first = min(numbers[0], 1)
    count = max((*said, numbers[-1] + 1 - first))
    missing = sorted(set(range(first, first + count)) - set(numbers))
    if missing:
        raise InputFileError(path, f"part {missing[0]} is missing; found {len(numbers)} of {count} parts")


def _opened(path: Path) -> EdgeFile:
    with reading(path):
        opener = _OPENERS.get(path.suffix.lower())
        if opener is None:
            kinds = "Parquet (source, target, distance), .npz, or a folder of such parts"
            raise Fault(f"edges are read in ranges from {kinds}, not {quoted(path.suffix)}")
        return opener(path)


def _checked(piece: Piece, n_vertices: int) -> Piece:
    """Edges as int64, int64 and float64; InputFileError for what can be none."""
    i, j, lengths = piece[0].astype(np.int64), piece[1].astype(np.int64), piece[2].astype(np.float64)
    low, high = (min(i.min(), j.min()), max(i.max(), j.max())) if len(i) else (0, 0)
    if low < 0 or (n_vertices and high >= n_vertices):
        upper = f"to {n_vertices - 1}" if n_vertices else "on"
        raise Fault(f"vertex {low if low < 0 else high}; vertices are numbered from 0 {upper}")
    at = _sparse.first_wrong_length(lengths)
    if at is not None:
        where = f"distance {lengths[at]} between vertices {i[at]} and {j[at]}"
        raise Fault(f"{where}; distances must be finite and not negative")
    at = _sparse.first((i == j) & (lengths != 0))
    if at is not None:
        raise Fault(f"vertex {i[at]} is at distance {lengths[at]:g} from itself; that must be zero")
    return i, j, lengths


def _parquet_pieces(path: Path, start: int, stop: int, at_once: int) -> Iterator[Piece]:
    import pyarrow.parquet

    with pyarrow.parquet.ParquetFile(path) as opened, _said_by_arrow():
        sizes = [opened.metadata.row_group(k).num_rows for k in range(opened.num_row_groups)]
        ends = np.cumsum(sizes)
        groups = [k for k, end in enumerate(ends) if end > start and end - sizes[k] < stop]
        at = int(ends[groups[0]]) - sizes[groups[0]]
        columns = opened.schema_arrow.names[:3]
        for batch in opened.iter_batches(at_once, row_groups=groups, columns=columns, use_threads=False):
            first, last = max(start - at, 0), min(stop - at, batch.num_rows)
            at += batch.num_rows
            if first >= last:
                continue
            batch = batch.slice(first, last - first)
            for name, column in zip(columns, batch.columns, strict=True):
                if column.null_count:
                    raise Fault(f"column {quoted(name)} has no value in {column.null_count} rows")
            i, j, lengths = (np.asarray(c.to_numpy(zero_copy_only=False)) for c in batch.columns)
            yield i, j, lengths


@contextmanager
def _said_by_arrow() -> Iterator[None]:
    """Errors of Arrow as faults of the file."""
    import pyarrow

    try:
        yield
    except (pyarrow.ArrowException, OSError) as error:
        raise Fault(f"not a Parquet file, or a damaged one ({brief(error)})") from error


def _open_parquet(path: Path) -> EdgeFile:
    import pyarrow.parquet

    check_installed("parquet")
    with _source.open_input(path), _said_by_arrow(), pyarrow.parquet.ParquetFile(path) as opened:
        names, types = opened.schema_arrow.names, opened.schema_arrow.types
        kinds = [pyarrow.types.is_integer(kind) for kind in types[:2]]
        kinds += [pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind) for kind in types[2:3]]
        if len(names) != 3 or not all(kinds):
            found = ", ".join(f"{quoted(n)} ({str(t)[:20]})" for n, t in zip(names[:6], types, strict=False))
            wanted = f"{', '.join(_COLUMNS)}: two columns of vertex numbers and one of distances"
            raise Fault(f"a list of edges has {wanted}; found {found or 'none'}")
        return EdgeFile(path, opened.metadata.num_rows, 0, partial(_parquet_pieces, path))


def _rows(
    take: Callable[[int], AnyArray], n_rows: int, n_entries: int, start: int, stop: int
) -> Iterator[AnyArray]:
    """Row of every entry of a range, from the row pointers, of which a block is read at a time."""
    first, last = take(1)[0], 0
    for lo in range(0, n_rows, _ROWS_AT_ONCE):
        hi = min(lo + _ROWS_AT_ONCE, n_rows)
        ends = np.append(first, take(hi - lo)).astype(np.int64)
        if ends[0] != last or (ends[1:] < ends[:-1]).any() or ends[-1] > n_entries:
            raise Fault(f"array 'indptr' must rise from 0 to {n_entries}; rows {lo} to {hi} do not")
        first = last = int(ends[-1])
        inside = np.clip(ends, start, stop)
        if inside[-1] > inside[0]:
            yield np.repeat(np.arange(lo, hi), inside[1:] - inside[:-1])
        if last >= stop:
            return
    raise Fault(f"array 'indptr' must rise from 0 to {n_entries}; it ends at {last}")


def _open_npz(path: Path) -> EdgeFile:
    headers = _source.read_headers(path)
    names: tuple[str, ...] = _COLUMNS
    by_rows, n = False, 0
    if set(_COLUMNS) <= headers.keys():
        for name in _COLUMNS:
            _sparse.check_part(name, *headers[name])
    else:
        names, by_rows, n = _sparse_names(path, headers)
    # Row pointers are counted by the vertices.
    sizes = {headers["data" if by_rows and name == "indptr" else name][1][0] for name in names}
    if len(sizes) > 1:
        said = ", ".join(f"{name} {headers[name][1][0]:,}" for name in names)
        raise Fault(f"the arrays of a list of edges must be equally long; they have {said} values")
    if by_rows and headers["indptr"][1] != (n + 1,):
        raise Fault(f"array 'indptr' must have {n + 1} values, has {headers['indptr'][1][0]}")
    n_entries = sizes.pop()

    def read(start: int, stop: int, at_once: int) -> Iterator[Piece]:
        with _source.open_input(path) as (file, _), zipfile.ZipFile(file) as archive:
            takes = [_source.open_array(archive, name, start) for name in names[1:]]
            first = _source.open_array(archive, names[0], 0 if by_rows else start)
            rows: Iterator[AnyArray] = (first(min(at_once, stop - k)) for k in range(start, stop, at_once))
            for i in _rows(first, n, n_entries, start, stop) if by_rows else rows:
                j, lengths = (take(len(i)) for take in takes)
                yield i, j, lengths

    return EdgeFile(path, n_entries, n, read)


def _sparse_names(path: Path, headers: dict[str, Any]) -> tuple[tuple[str, ...], bool, int]:
    """Arrays of a matrix that scipy has saved, whether its rows are compressed, and its size."""
    if not {"format", "shape", "data"} <= headers.keys():
        shown = ", ".join(f"{quoted(name)} {shape}" for name, (_, shape) in list(headers.items())[:6])
        wanted = f"arrays {', '.join(_COLUMNS)}, or a sparse matrix by scipy.sparse.save_npz"
        raise Fault(f"expected {wanted}; found {shown or 'nothing readable'}")
    with _source.open_input(path) as (file, _), zipfile.ZipFile(file) as archive:
        kept = _source.open_array(archive, "format")(1)
        sizes = _source.open_array(archive, "shape")(math.prod(headers["shape"][1][:1]))
    layout, names, shape = _sparse.sparse_parts(kept, sizes, headers)
    _sparse.check_square(shape)
    # Columns of a symmetric graph are its rows.
    return names, layout != "coo", shape[0]


_OPENERS = {".parquet": _open_parquet, ".npz": _open_npz}
