"""Distance graphs from edge lists: lines of ``i j distance``."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from isoweave._typing import AnyArray
from isoweave.io._arrays import as_distances, check_size, csr_from_triplets
from isoweave.io._errors import InputFileError
from isoweave.io._text import Row, parse_number, read_lines, read_rows

_INTEGER = re.compile(r"-?[0-9]+")
_WORD = re.compile(r"[^\W\d][\w .()\[\]/-]*")


def read_edge_list(path: Path, delimiter: str | None) -> tuple[sp.csr_array, tuple[str, ...] | None]:
    """A symmetric distance graph from a text file with one edge per line.

    Each line holds two vertices and the distance between them; a header line is recognised. If the
    vertices of the first edge are integers, all must be: they are row numbers counted from 0. Otherwise
    they are names, and rows follow the order in which names first appear. An edge may be given once or in
    both directions, never with two different distances.

    Parameters
    ----------
    path : pathlib.Path
    delimiter : str or None
        None: a comma if the first line has one, else a tab if it has one, else white space.

    Returns
    -------
    graph : csr array of shape (n, n)
    names : tuple of n str, or None for integer vertices
    """
    rows = read_rows(path, delimiter or _find_delimiter(path))
    first = next(rows, None)
    if first is not None and _is_header(first):
        first = next(rows, None)
    if first is None:
        raise InputFileError(path, "the file holds no edges; expected lines of: i j distance")
    _check_cells(path, first)
    is_integer = all(_INTEGER.fullmatch(cell) for cell in first.cells[:2])

    sources, targets, lengths, lines = array("q"), array("q"), array("d"), array("q")
    number_of: dict[str, int] = {}
    for row in _chain(first, rows):
        _check_cells(path, row)
        i, j, length = row.cells
        if is_integer:
            sources.append(_row_number(path, i, first.line, row.line))
            targets.append(_row_number(path, j, first.line, row.line))
        else:
            if not i or not j:
                raise InputFileError(path, "empty vertex name", row.line)
            sources.append(number_of.setdefault(i, len(number_of)))
            targets.append(number_of.setdefault(j, len(number_of)))
        lengths.append(_length(path, length, row.line))
        lines.append(row.line)
    i_all, j_all, length_all = (np.asarray(column) for column in (sources, targets, lengths))
    graph = graph_from_edges(path, i_all, j_all, length_all, np.asarray(lines))
    return graph, None if is_integer else tuple(number_of)


def graph_from_edges(
    path: Path, i: AnyArray, j: AnyArray, lengths: AnyArray, lines: AnyArray | None = None
) -> sp.csr_array:
    """Symmetric graph from edges given once or in both directions.

    Parameters
    ----------
    path : pathlib.Path
        For messages.
    i, j : int64 arrays of shape (m,)
        Row numbers, not negative.
    lengths : float64 array of shape (m,)
    lines : int64 array of shape (m,), optional
        Where each edge was found, for messages; by default its position.
    """
    low, high = np.minimum(i, j), np.maximum(i, j)
    n = int(high.max()) + 1
    line = None if lines is None else int(lines[np.argmax(high)])
    check_size(path, n, n, len(i), line)

    order = np.lexsort((low, high))
    low, high, lengths = low[order], high[order], lengths[order]
    repeated = (low[1:] == low[:-1]) & (high[1:] == high[:-1])
    conflict = repeated & (lengths[1:] != lengths[:-1])
    if conflict.any():
        e = int(np.argmax(conflict))
        where = order if lines is None else lines[order]
        raise InputFileError(
            path,
            f"two distances for one edge: {lengths[e]} ({'edge' if lines is None else 'line'} {where[e]}) "
            f"and {lengths[e + 1]}; keep one",
            None if lines is None else int(where[e + 1]),
        )
    keep = np.concatenate(([True], ~repeated))
    low, high, lengths = low[keep], high[keep], lengths[keep]
    off_diagonal = low != high
    row = np.concatenate((low, high[off_diagonal]))
    col = np.concatenate((high, low[off_diagonal]))
    both = np.concatenate((lengths, lengths[off_diagonal]))
    return as_distances(path, csr_from_triplets(row, col, both, (n, n)))


def _find_delimiter(path: Path) -> str | None:
    for _, text in read_lines(path):
        return next((mark for mark in ",\t" if mark in text), None)
    return None


def _is_header(row: Row) -> bool:
    # A word where the distance belongs, and no row numbers before it: "0 1 1.5x" is a mistake instead.
    return (
        parse_number(row.cells[-1]) is None
        and _WORD.fullmatch(row.cells[-1]) is not None
        and not any(_INTEGER.fullmatch(cell) for cell in row.cells)
    )


def _check_cells(path: Path, row: Row) -> None:
    if len(row.cells) != 3:
        raise InputFileError(path, f"expected 3 cells (i, j, distance), found {len(row.cells)}", row.line)


def _chain(first: Row, rows: Iterator[Row]) -> Iterator[Row]:
    yield first
    yield from rows


def _row_number(path: Path, text: str, first_line: int, line: int) -> int:
    if not _INTEGER.fullmatch(text):
        raise InputFileError(
            path,
            f"vertex {text[:40]!r} is not an integer, as on line {first_line}; name all vertices or none",
            line,
        )
    number = int(text) if len(text) < 12 else -1
    if not 0 <= number < 2**31:
        raise InputFileError(
            path, f"vertex {text[:40]} is not a row number: integers are counted from 0", line
        )
    return number


def _length(path: Path, text: str, line: int) -> float:
    length = parse_number(text)
    if length is None:
        raise InputFileError(path, f"distance {text[:40]!r} is not a number", line)
    if not 0 <= length < float("inf"):
        raise InputFileError(path, f"distance {length}; distances must be finite and not negative", line)
    return length
