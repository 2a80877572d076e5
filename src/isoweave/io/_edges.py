"""Distance graphs from edge lists: lines of ``i j distance``."""

from __future__ import annotations

import re
from array import array
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from isoweave._typing import AnyArray
from isoweave.io._errors import InputFileError, quoted
from isoweave.io._lines import Block, parse_number, read_blocks
from isoweave.io._names import check_words
from isoweave.io._sparse import as_distances, check_size, csr_from_triplets, sorted_pairs
from isoweave.io._text import Row, split_block

_INTEGER = re.compile(r"[+-]?[0-9]+")
_WORD = re.compile(r"[^\W\d][\w .()\[\]/-]*")
_MAX_VERTICES = 2**31


class _Edges:
    """Edges read so far, and how their vertices are named."""

    def __init__(self, path: Path, first: Row) -> None:
        self.path = path
        self.first_line = first.line
        self.is_integer = all(_INTEGER.fullmatch(cell) for cell in first.cells[:2])
        self.sources, self.targets = array("q"), array("q")
        self.lengths, self.lines = array("d"), array("q")
        self.number_of: dict[str, int] = {}

    def append(self, row: Row) -> None:
        """One edge, with every check."""
        _check_cells(self.path, row)
        i, j, length = row.cells
        if self.is_integer:
            ends = (self._row_number(i, row.line), self._row_number(j, row.line))
        else:
            if not i or not j:
                raise InputFileError(self.path, "empty vertex name", row.line)
            source = self.number_of.setdefault(i, len(self.number_of))
            ends = (source, self.number_of.setdefault(j, len(self.number_of)))
        value = parse_number(length)
        if value is None:
            raise InputFileError(self.path, f"distance {quoted(length)} is not a number", row.line)
        if not 0 <= value < float("inf"):
            raise InputFileError(
                self.path, f"distance {value}; distances must be finite and not negative", row.line
            )
        self.sources.append(ends[0])
        self.targets.append(ends[1])
        self.lengths.append(value)
        self.lines.append(row.line)

    def append_block(self, block: Block, delimiter: str | None) -> bool:
        """All edges of a block at once; False, and nothing appended, unless all of it is in order."""
        if not (self.is_integer and block.is_plain):
            return False
        rows = [text.split(delimiter) for text in block.lines]
        try:
            i_text, j_text, length_text = zip(*rows, strict=True)
            i = np.fromiter(map(int, i_text), dtype=np.int64, count=len(rows))
            j = np.fromiter(map(int, j_text), dtype=np.int64, count=len(rows))
            length = np.fromiter(map(float, length_text), dtype=np.float64, count=len(rows))
        except (ValueError, OverflowError):  # a header, comment or blank line, or a fault: line by line
            return False
        ends = (min(i.min(), j.min()), max(i.max(), j.max()))
        if not (ends[0] >= 0 and ends[1] < _MAX_VERTICES and length.min() >= 0 and length.max() < np.inf):
            return False
        self.sources.frombytes(i.tobytes())
        self.targets.frombytes(j.tobytes())
        self.lengths.frombytes(length.tobytes())
        self.lines.extend(range(block.first, block.first + len(rows)))
        return True

    def _row_number(self, text: str, line: int) -> int:
        if not _INTEGER.fullmatch(text):
            raise InputFileError(
                self.path,
                f"vertex {quoted(text)} is not an integer, as on line {self.first_line}; name all vertices "
                "or none",
                line,
            )
        # Counted before int() sees them, which refuses thousands of digits in its own way.
        digits = text.lstrip("+-0")
        if len(digits) > 10 or (digits and text[0] == "-") or int(digits or "0") >= _MAX_VERTICES:
            raise InputFileError(
                self.path, f"vertex {text[:40]} is not a row number: integers are counted from 0", line
            )
        return int(digits or "0")


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
    edges: _Edges | None = None
    is_first = True
    for block in read_blocks(path):
        if edges is not None and edges.append_block(block, delimiter):
            continue
        if is_first and delimiter is None:
            delimiter = _find_delimiter(block)
        for row in split_block(path, block, delimiter):
            if is_first and _is_header(row):
                is_first = False
                continue
            is_first = False
            if edges is None:
                _check_cells(path, row)
                edges = _Edges(path, row)
            edges.append(row)
    if edges is None:
        raise InputFileError(path, "the file holds no edges; expected lines of: i j distance")
    i_all, j_all, length_all, lines = (
        np.asarray(column) for column in (edges.sources, edges.targets, edges.lengths, edges.lines)
    )
    graph = graph_from_edges(path, i_all, j_all, length_all, lines)
    if edges.is_integer:
        return graph, None
    check_words(path, edges.number_of, len(edges.number_of), path.stat().st_size)
    return graph, tuple(edges.number_of)


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
    check_size(path, n, n, len(i), path.stat().st_size, line)

    order = sorted_pairs(high, low, (n, n))
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


def _find_delimiter(block: Block) -> str | None:
    for text in block.lines:
        if text.strip(" \t") and not text.startswith("#"):
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
