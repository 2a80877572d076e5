"""Sparse matrices from text: edge lists (lines of ``i j distance``) and Matrix Market coordinate files.

scipy's reader of Matrix Market can crash the interpreter on a NUL byte; this one reports the line.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from isoweave._typing import AnyArray
from isoweave.io._source import InputFileError, check_words, quoted
from isoweave.io._sparse import check_size, csr_from_triplets, sorted_pairs
from isoweave.io._text import Block, Row, check_n_cells, parse_number, read_blocks, split_block, split_spaces

_INTEGER = re.compile(r"[+-]?[0-9]+")
_WORD = re.compile(r"[^\W\d][\w .()\[\]/-]*")
_MAX_VERTICES = 2**31
_NAMES_HINT = ", as the vertices of the first edge; name all of them or none"
# Longer than any line of numbers; comments are the only reason for long lines.
_MAX_MARKET_LINE_BYTES = 1 << 19


class _Triplets:
    """Entries i, j, value read so far, with the line of each."""

    def __init__(self, low: int, high: tuple[int, int], are_valid: Callable[[AnyArray], bool]) -> None:
        self.low, self.high, self.are_valid = low, high, are_valid
        self.i, self.j, self.lines, self.values = array("q"), array("q"), array("q"), array("d")

    def append(self, i: int, j: int, value: float, line: int) -> None:
        self.i.append(i)
        self.j.append(j)
        self.values.append(value)
        self.lines.append(line)

    def arrays(self) -> tuple[AnyArray, ...]:
        return tuple(np.asarray(column) for column in (self.i, self.j, self.values, self.lines))

    def append_block(self, block: Block, delimiter: str | None) -> bool:
        """All entries of a block at once; False, and nothing appended, unless all of it is in order."""
        if not block.is_plain:
            return False
        rows = [text.split(delimiter) for text in block.lines]
        n = len(rows)
        try:
            i_text, j_text, value_text = zip(*rows, strict=True)
            i = np.fromiter(map(int, i_text), dtype=np.int64, count=n)
            j = np.fromiter(map(int, j_text), dtype=np.int64, count=n)
            values = np.fromiter(map(float, value_text), dtype=np.float64, count=n)
        except (ValueError, OverflowError):  # a header, comment or blank line, or a fault: line by line
            return False
        if not (min(i.min(), j.min()) >= self.low and i.max() <= self.high[0] and j.max() <= self.high[1]):
            return False
        if not self.are_valid(values):
            return False
        for column, found in ((self.i, i), (self.j, j), (self.values, values)):
            column.frombytes(found.tobytes())
        self.lines.extend(range(block.first, block.first + n))
        return True


def symmetric_csr(
    path: Path, i: AnyArray, j: AnyArray, values: AnyArray, n: int, lines: AnyArray | None, may_repeat: bool
) -> sp.csr_array:
    """An n x n matrix from the entries of one triangle, or of both if equal ones ``may_repeat``.

    ``lines`` says where each entry was found; without it, messages tell its position.
    """
    high, low = np.maximum(i, j), np.minimum(i, j)
    keep = _checked_pairs(path, high, low, values, (n, n), lines, may_repeat)
    high, low, values = high[keep], low[keep], values[keep]
    apart = low != high
    row, col = np.concatenate((low, high[apart])), np.concatenate((high, low[apart]))
    return csr_from_triplets(row, col, np.concatenate((values, values[apart])), (n, n))


def _checked_pairs(
    path: Path,
    row: AnyArray,
    col: AnyArray,
    values: AnyArray,
    shape: tuple[int, int],
    lines: AnyArray | None,
    may_repeat: bool,
) -> AnyArray:
    """Entries in order, each pair once; an error if a pair comes again, or only with another value."""
    order = sorted_pairs(row, col, shape)
    row, col, values = row[order], col[order], values[order]
    repeated = (row[1:] == row[:-1]) & (col[1:] == col[:-1])
    conflict = repeated & (values[1:] != values[:-1]) if may_repeat else repeated
    if conflict.any():
        e = int(np.argmax(conflict))
        where = order if lines is None else lines[order]
        said = f"{values[e]} ({'edge' if lines is None else 'line'} {where[e]}) and {values[e + 1]}"
        line = None if lines is None else int(where[e + 1])
        raise InputFileError(path, f"two values for one pair: {said}; keep one", line)
    return order[np.concatenate((np.ones(min(1, len(order)), dtype=bool), ~repeated))]


def read_edge_list(path: Path, delimiter: str | None) -> tuple[sp.csr_array, tuple[str, ...] | None]:
    """A symmetric distance graph from a text file with one edge per line, and the names of its vertices.

    Each line holds two vertices and the distance between them; a header line is recognised. If the
    vertices of the first edge are integers, all must be: they are row numbers counted from 0. Otherwise
    they are names, and rows follow the order in which names first appear. An edge may be given once or in
    both directions, never with two different distances. Without a delimiter it is a comma if the first line
    has one, else a tab if it has one, else white space.
    """
    top = _MAX_VERTICES - 1
    edges = _Triplets(0, (top, top), _are_distances)
    first: Row | None = None
    is_integer, is_opening = False, True
    number_of: dict[str, int] = {}
    for block in read_blocks(path):
        if is_integer and edges.append_block(block, delimiter):
            continue
        if is_opening and delimiter is None:
            delimiter = _find_delimiter(block)
        for row in split_block(path, block, delimiter):
            if is_opening and _is_header(row):
                is_opening = False
                continue
            is_opening = False
            check_n_cells(path, row, 3, " (i, j, distance)")
            if first is None:
                first = row
                is_integer = all(_INTEGER.fullmatch(cell) for cell in row.cells[:2])
            i_text, j_text, length = row.cells
            if is_integer:
                i, j = (_index(path, text, row.line, 0, top, _NAMES_HINT) for text in (i_text, j_text))
            else:
                if not i_text or not j_text:
                    raise InputFileError(path, "empty vertex name", row.line)
                i = number_of.setdefault(i_text, len(number_of))
                j = number_of.setdefault(j_text, len(number_of))
            value = _number(path, length, row.line, "distance")
            if not 0 <= value < float("inf"):
                said = f"distance {value}; distances must be finite and not negative"
                raise InputFileError(path, said, row.line)
            edges.append(i, j, value, row.line)
    if first is None:
        raise InputFileError(path, "the file holds no edges; expected lines of: i j distance")
    check_words(path, number_of, len(number_of), path.stat().st_size)
    return graph_from_edges(path, *edges.arrays()), None if is_integer else tuple(number_of)


def graph_from_edges(
    path: Path, i: AnyArray, j: AnyArray, lengths: AnyArray, lines: AnyArray | None = None
) -> sp.csr_array:
    """Symmetric graph from edges given once or in both directions, on as many vertices as they mention."""
    high = np.maximum(i, j)
    n = int(high.max()) + 1
    line = None if lines is None else int(lines[np.argmax(high)])
    check_size(path, n, n, len(i), path.stat().st_size, line)
    return symmetric_csr(path, i, j, lengths, n, lines, may_repeat=True)


def _index(path: Path, text: str, line: int, low: int, high: int, hint: str = "") -> int:
    """A row or column number, or a size."""
    # Digits are counted before int() sees them, which refuses thousands of them in its own way.
    digits = text.lstrip("+-0")
    is_integer = _INTEGER.fullmatch(text) is not None and len(digits) < 19 and not (digits and text[0] == "-")
    if not is_integer or not low <= int(digits or "0") <= high:
        raise InputFileError(path, f"{quoted(text)} is not an integer from {low} to {high}{hint}", line)
    return int(digits or "0")


def _number(path: Path, text: str, line: int, what: str) -> float:
    value = parse_number(text)
    if value is None:
        raise InputFileError(path, f"{what} {quoted(text)} is not a number", line)
    return value


def _find_delimiter(block: Block) -> str | None:
    for text in block.lines:
        if text.strip(" \t") and not text.startswith("#"):
            return next((mark for mark in ",\t" if mark in text), None)
    return None


def _is_header(row: Row) -> bool:
    # A word where the distance belongs, and no row numbers before it: "0 1 1.5x" is a mistake instead.
    last = row.cells[-1]
    is_word = parse_number(last) is None and _WORD.fullmatch(last) is not None
    return is_word and not any(_INTEGER.fullmatch(cell) for cell in row.cells)


def read_matrix_market(path: Path) -> sp.csr_array:
    """The matrix of a ``coordinate`` file, ``real`` or ``integer``, ``general`` or ``symmetric``.

    Explicit zeros are kept; an entry given twice is an error, and so is a count that does not match the
    size line.
    """
    banner: tuple[bool, bool] | None = None
    entries: _Triplets | None = None
    n_declared = 0
    # Comments may be in any encoding; what is read as numbers must be ASCII and is checked there.
    for block in read_blocks(path, "latin-1", _MAX_MARKET_LINE_BYTES):
        fits = entries is not None and len(entries.i) + len(block.lines) <= n_declared
        if entries is not None and fits and entries.append_block(block, None):
            continue
        for line, text in enumerate(block.lines, block.first):
            if banner is None:
                banner = _parse_banner(path, text)
            elif not text.strip(" \t") or (entries is None and text.startswith("%")):
                continue
            elif entries is None:
                n_rows, n_columns, n_declared = _parse_sizes(path, text, line, is_symmetric=banner[1])
                entries = _Triplets(1, (n_rows, n_columns), _are_whole if banner[0] else _are_any)
            elif len(entries.i) == n_declared:
                raise InputFileError(path, f"more entries than the {n_declared} declared", line)
            else:
                entries.append(*_parse_entry(path, text, line, entries.high, is_integer=banner[0]), line)
    _, is_symmetric = banner or _parse_banner(path, "")
    if entries is None:
        raise InputFileError(path, "the size line (rows columns entries) is missing")
    if len(entries.i) != n_declared:
        raise InputFileError(path, f"{n_declared} entries declared, {len(entries.i)} found")
    i, j, values, lines = entries.arrays()
    if is_symmetric:
        return symmetric_csr(path, i - 1, j - 1, values, entries.high[0], lines, may_repeat=False)
    _checked_pairs(path, i - 1, j - 1, values, entries.high, lines, may_repeat=False)
    return csr_from_triplets(i - 1, j - 1, values, entries.high)


def _are_any(values: AnyArray) -> bool:
    return True


def _are_whole(values: AnyArray) -> bool:
    return bool((np.isfinite(values) & (values == np.floor(values))).all())


def _are_distances(values: AnyArray) -> bool:
    return bool(values.min() >= 0 and values.max() < np.inf)


def _parse_banner(path: Path, text: str) -> tuple[bool, bool]:
    """Check the first line; returns whether values are integers, and whether the matrix is symmetric."""
    words = split_spaces(text.lower())
    if len(words) != 5 or words[:2] != ["%%matrixmarket", "matrix"]:
        raise InputFileError(path, "not a Matrix Market file: it must open with '%%MatrixMarket matrix'", 1)
    layout, field, symmetry = words[2:]
    fault = ""
    if layout != "coordinate":
        fault = f"layout {quoted(layout)} is not supported; write it as coordinate"
    elif field == "pattern":
        fault = "a pattern file holds no distances; write it as real, with lengths"
    elif field not in ("real", "integer"):
        fault = f"values of type {quoted(field)} are not supported; write them as real"
    elif symmetry not in ("general", "symmetric"):
        fault = f"symmetry {quoted(symmetry)} is not supported; use general or symmetric"
    if fault:
        raise InputFileError(path, fault, 1)
    return field == "integer", symmetry == "symmetric"


def _parse_sizes(path: Path, text: str, line: int, is_symmetric: bool) -> list[int]:
    """Rows, columns and entries, once the file is known to be long enough for them."""
    sizes = [_index(path, token, line, 0, 2**62) for token in split_spaces(text)]
    if len(sizes) != 3:
        raise InputFileError(path, f"the size line needs three integers, got {quoted(text)}", line)
    n_rows, n_columns, n_entries = sizes
    if is_symmetric and n_rows != n_columns:
        raise InputFileError(path, f"a symmetric matrix cannot be {n_rows} x {n_columns}", line)
    # An entry takes at least six bytes ("1 1 1\n", the last line feed may be missing).
    file_size = path.stat().st_size
    if 6 * n_entries > file_size:
        raise InputFileError(path, f"the file is too short for the {n_entries} entries it declares", line)
    check_size(path, n_rows, n_columns, n_entries, file_size, line)
    return sizes


def _parse_entry(
    path: Path, text: str, line: int, shape: tuple[int, int], is_integer: bool
) -> tuple[int, int, float]:
    tokens = split_spaces(text)
    if len(tokens) != 3:
        raise InputFileError(path, f"expected: row column value, got {quoted(text)}", line)
    i, j = (_index(path, token, line, 1, size) for token, size in zip(tokens[:2], shape, strict=True))
    value = _number(path, tokens[2], line, "value")
    if is_integer and not value.is_integer():
        raise InputFileError(path, f"value {quoted(tokens[2])} is not an integer, as declared", line)
    return i, j, value
