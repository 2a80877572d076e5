"""Strict, streaming reader of Matrix Market coordinate files.

scipy's reader can crash the interpreter on a NUL byte; this one reports the line of the first fault.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from isoweave.io._errors import InputFileError, quoted
from isoweave.io._lines import Block, parse_number, read_blocks, split_spaces
from isoweave.io._sparse import check_size, csr_from_triplets, sorted_pairs

# Longer than any line of numbers; comments are the only reason for long lines.
_MAX_LINE_BYTES = 1 << 19


class _Entries:
    """Entries read so far, of a matrix whose size is known."""

    def __init__(self, path: Path, shape: tuple[int, int], n_declared: int, is_integer: bool) -> None:
        self.path = path
        self.shape = shape
        self.n_declared = n_declared
        self.is_integer = is_integer
        self.row, self.col = array("q"), array("q")
        self.data, self.line = array("d"), array("q")

    def append(self, line: int, text: str) -> None:
        """The entry of one line, with every check."""
        tokens = split_spaces(text)
        if len(tokens) != 3:
            raise InputFileError(self.path, f"expected: row column value, got {quoted(text)}", line)
        i, j = _integer(self.path, tokens[0], line), _integer(self.path, tokens[1], line)
        n_rows, n_columns = self.shape
        if not (1 <= i <= n_rows and 1 <= j <= n_columns):
            raise InputFileError(
                self.path, f"entry ({i}, {j}) is outside the {n_rows} x {n_columns} matrix", line
            )
        value = parse_number(tokens[2])
        if value is None:
            raise InputFileError(self.path, f"value {quoted(tokens[2])} is not a number", line)
        if self.is_integer and not value.is_integer():
            raise InputFileError(self.path, f"value {quoted(tokens[2])} is not an integer, as declared", line)
        if len(self.data) == self.n_declared:
            raise InputFileError(self.path, f"more entries than the {self.n_declared} declared", line)
        self.row.append(i - 1)
        self.col.append(j - 1)
        self.data.append(value)
        self.line.append(line)

    def append_block(self, block: Block) -> bool:
        """All entries of a block at once; False, and nothing appended, unless all of it is in order."""
        if not block.is_plain or len(self.data) + len(block.lines) > self.n_declared:
            return False
        rows = [text.split() for text in block.lines]
        try:
            i_text, j_text, value_text = zip(*rows, strict=True)
            i = np.fromiter(map(int, i_text), dtype=np.int64, count=len(rows))
            j = np.fromiter(map(int, j_text), dtype=np.int64, count=len(rows))
            value = np.fromiter(map(float, value_text), dtype=np.float64, count=len(rows))
        except (ValueError, OverflowError):  # a blank line, or a fault: line by line
            return False
        n_rows, n_columns = self.shape
        if not (i.min() >= 1 and i.max() <= n_rows and j.min() >= 1 and j.max() <= n_columns):
            return False
        if self.is_integer and not (np.isfinite(value) & (value == np.floor(value))).all():
            return False
        self.row.frombytes((i - 1).tobytes())
        self.col.frombytes((j - 1).tobytes())
        self.data.frombytes(value.tobytes())
        self.line.extend(range(block.first, block.first + len(rows)))
        return True


def read_matrix_market(path: Path) -> sp.csr_array:
    """The matrix of a ``coordinate`` file, ``real`` or ``integer``, ``general`` or ``symmetric``.

    Explicit zeros are kept; an entry given twice is an error, and so is a count that does not match the
    size line.

    Returns
    -------
    matrix : csr array of float64
    """
    # Comments may be in any encoding; what is read as numbers must be ASCII and is checked there.
    blocks = read_blocks(path, "latin-1", _MAX_LINE_BYTES)
    lines = _Lines(blocks)
    is_integer, is_symmetric = _read_banner(path, lines)
    line, text = next(((n, t) for n, t in lines if t.strip(" \t") and not t.startswith("%")), (None, ""))
    if line is None:
        raise InputFileError(path, "the size line (rows columns entries) is missing")
    sizes = [_integer(path, token, line) for token in split_spaces(text)]
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

    entries = _Entries(path, (n_rows, n_columns), n_entries, is_integer)
    for line, text in lines.rest_of_block():
        if text.strip(" \t"):
            entries.append(line, text)
    for block in blocks:
        if not entries.append_block(block):
            for line, text in enumerate(block.lines, block.first):
                if text.strip(" \t"):
                    entries.append(line, text)
    if len(entries.data) != n_entries:
        raise InputFileError(path, f"{n_entries} entries declared, {len(entries.data)} found")
    return _assemble(path, entries, is_symmetric)


class _Lines(Iterator[tuple[int, str]]):
    """Number and text of every line; what is left of the current block can be had alone."""

    def __init__(self, blocks: Iterator[Block]) -> None:
        self._blocks = blocks
        self._block: Iterator[tuple[int, str]] = iter(())

    def __next__(self) -> tuple[int, str]:
        while True:
            for numbered in self._block:
                return numbered
            block = next(self._blocks)
            self._block = enumerate(block.lines, block.first)

    def rest_of_block(self) -> Iterator[tuple[int, str]]:
        return self._block


def _assemble(path: Path, entries: _Entries, is_symmetric: bool) -> sp.csr_array:
    row, col, data, line = (
        np.asarray(column) for column in (entries.row, entries.col, entries.data, entries.line)
    )
    if is_symmetric:
        row, col = np.maximum(row, col), np.minimum(row, col)
    order = sorted_pairs(row, col, entries.shape)
    repeated = (np.diff(row[order]) == 0) & (np.diff(col[order]) == 0)
    if repeated.any():
        e = int(np.argmax(repeated))
        first, second = line[order[e]], line[order[e + 1]]
        i, j = row[order[e]] + 1, col[order[e]] + 1
        raise InputFileError(path, f"entry ({i}, {j}) stands on line {first} already", int(second))
    if is_symmetric:
        mirrored = row != col
        row, col = np.concatenate((row, col[mirrored])), np.concatenate((col, row[mirrored]))
        data = np.concatenate((data, data[mirrored]))
    return csr_from_triplets(row, col, data, entries.shape)


def _read_banner(path: Path, lines: Iterator[tuple[int, str]]) -> tuple[bool, bool]:
    """Check the first line; returns whether values are integers, and whether the matrix is symmetric."""
    line, text = next(lines, (1, ""))
    words = split_spaces(text.lower())
    if len(words) != 5 or words[0] != "%%matrixmarket" or words[1] != "matrix":
        raise InputFileError(
            path, "not a Matrix Market file: it must open with '%%MatrixMarket matrix'", line
        )
    layout, field, symmetry = words[2:]
    if layout != "coordinate":
        raise InputFileError(path, f"layout {quoted(layout)} is not supported; write it as coordinate", line)
    if field == "pattern":
        raise InputFileError(path, "a pattern file holds no distances; write it as real, with lengths", line)
    if field not in ("real", "integer"):
        raise InputFileError(
            path, f"values of type {quoted(field)} are not supported; write them as real", line
        )
    if symmetry not in ("general", "symmetric"):
        raise InputFileError(
            path, f"symmetry {quoted(symmetry)} is not supported; use general or symmetric", line
        )
    return field == "integer", symmetry == "symmetric"


def _integer(path: Path, token: str, line: int) -> int:
    digits = token.removeprefix("+")
    if not (digits.isascii() and digits.isdigit() and len(digits.lstrip("0")) < 19):
        raise InputFileError(path, f"{quoted(token)} is not a positive integer", line)
    return int(digits.lstrip("0") or "0")
