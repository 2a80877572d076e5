"""Strict, streaming reader of Matrix Market coordinate files.

scipy's reader can crash the interpreter on a NUL byte; this one reports the line of the first fault.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from isoweave.io._arrays import check_size, csr_from_triplets
from isoweave.io._errors import InputFileError
from isoweave.io._text import parse_number

_MAX_LINE_BYTES = 1 << 16


def read_matrix_market(path: Path) -> sp.csr_array:
    """The matrix of a ``coordinate`` file, ``real`` or ``integer``, ``general`` or ``symmetric``.

    Explicit zeros are kept; an entry given twice is an error, and so is a count that does not match the
    size line.

    Returns
    -------
    matrix : csr array of float64
    """
    lines = _lines(path)
    is_symmetric = _read_banner(path, lines)
    line, text = next(((n, t) for n, t in lines if t.strip() and not t.startswith("%")), (None, ""))
    if line is None:
        raise InputFileError(path, "the size line (rows columns entries) is missing")
    sizes = [_integer(path, token, line) for token in text.split()]
    if len(sizes) != 3:
        raise InputFileError(path, f"the size line needs three integers, got {text[:40]!r}", line)
    n_rows, n_columns, n_entries = sizes
    if is_symmetric and n_rows != n_columns:
        raise InputFileError(path, f"a symmetric matrix cannot be {n_rows} x {n_columns}", line)
    # An entry takes at least six bytes ("1 1 1\n", the last line feed may be missing).
    if 6 * n_entries > path.stat().st_size:
        raise InputFileError(path, f"the file is too short for the {n_entries} entries it declares", line)
    check_size(path, n_rows, n_columns, n_entries, line)

    row, col, data, where = array("q"), array("q"), array("d"), array("q")
    for line, text in lines:
        tokens = text.split()
        if not tokens:
            continue
        if len(tokens) != 3:
            raise InputFileError(path, f"expected: row column value, got {text[:40]!r}", line)
        i, j = _integer(path, tokens[0], line), _integer(path, tokens[1], line)
        if not (1 <= i <= n_rows and 1 <= j <= n_columns):
            raise InputFileError(path, f"entry ({i}, {j}) is outside the {n_rows} x {n_columns} matrix", line)
        value = parse_number(tokens[2])
        if value is None:
            raise InputFileError(path, f"value {tokens[2][:40]!r} is not a number", line)
        if len(data) == n_entries:
            raise InputFileError(path, f"more entries than the {n_entries} declared", line)
        row.append(i - 1)
        col.append(j - 1)
        data.append(value)
        where.append(line)
    if len(data) != n_entries:
        raise InputFileError(path, f"{n_entries} entries declared, {len(data)} found")
    return _assemble(path, row, col, data, where, (n_rows, n_columns), is_symmetric)


def _assemble(
    path: Path,
    row_list: array[int],
    col_list: array[int],
    data_list: array[float],
    line_list: array[int],
    shape: tuple[int, int],
    is_symmetric: bool,
) -> sp.csr_array:
    row, col = np.asarray(row_list), np.asarray(col_list)
    data, line = np.asarray(data_list), np.asarray(line_list)
    if is_symmetric:
        row, col = np.maximum(row, col), np.minimum(row, col)
    order = np.lexsort((col, row))
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
    return csr_from_triplets(row, col, data, shape)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    with path.open("rb") as file:
        line = 0
        while raw := file.readline(_MAX_LINE_BYTES):
            line += 1
            if len(raw) == _MAX_LINE_BYTES:
                raise InputFileError(path, f"line longer than {_MAX_LINE_BYTES} bytes", line)
            # Comments may be in any encoding; what is read as numbers must be ASCII and is checked there.
            yield line, raw.decode("latin-1").strip("\r\n")


def _read_banner(path: Path, lines: Iterator[tuple[int, str]]) -> bool:
    """Check the first line; returns whether the matrix is symmetric."""
    line, text = next(lines, (1, ""))
    words = text.lower().split()
    if len(words) != 5 or words[0] != "%%matrixmarket" or words[1] != "matrix":
        raise InputFileError(
            path, "not a Matrix Market file: it must open with '%%MatrixMarket matrix'", line
        )
    layout, field, symmetry = words[2:]
    if layout != "coordinate":
        raise InputFileError(path, f"layout {layout!r} is not supported; write it as coordinate", line)
    if field == "pattern":
        raise InputFileError(path, "a pattern file holds no distances; write it as real, with lengths", line)
    if field not in ("real", "integer"):
        raise InputFileError(path, f"values of type {field!r} are not supported; write them as real", line)
    if symmetry not in ("general", "symmetric"):
        raise InputFileError(path, f"symmetry {symmetry!r} is not supported; use general or symmetric", line)
    return symmetry == "symmetric"


def _integer(path: Path, token: str, line: int) -> int:
    if not (token.isascii() and token.isdigit() and len(token) < 19):
        raise InputFileError(path, f"{token[:40]!r} is not a positive integer", line)
    return int(token)
