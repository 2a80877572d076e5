"""Strict reading of tables of numbers from text: .csv, .tsv, .txt."""

from __future__ import annotations

import csv
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from isoweave._typing import AnyArray
from isoweave.io._errors import InputFileError

_MAX_LINE_BYTES = 1 << 26


@dataclass(frozen=True)
class Row:
    """One line of a text file that holds data."""

    line: int
    cells: list[str]


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Number and text of every line that is neither blank nor a comment (#)."""
    with path.open("rb") as file:
        line = 0
        while raw := file.readline(_MAX_LINE_BYTES):
            line += 1
            if len(raw) == _MAX_LINE_BYTES:
                raise InputFileError(path, f"line longer than {_MAX_LINE_BYTES >> 20} MiB", line)
            if b"\0" in raw:
                raise InputFileError(path, "NUL byte: not a text file", line)
            try:
                # A byte order mark can only open the file; utf-8-sig would drop one from any line.
                text = raw.decode("utf-8-sig" if line == 1 else "utf-8").strip("\r\n")
            except UnicodeDecodeError as error:
                raise InputFileError(
                    path, f"not UTF-8 text (byte {error.start} of the line)", line
                ) from error
            if text.strip() and not text.startswith("#"):
                yield line, text


def read_rows(path: Path, delimiter: str | None) -> Iterator[Row]:
    """Lines split into stripped cells, at runs of white space if ``delimiter`` is None.

    Cells may be quoted with double quotes where a delimiter is given; a quoted cell ends on its line.
    """
    for line, text in read_lines(path):
        if delimiter is None:
            yield Row(line, text.split())
        elif '"' not in text:
            yield Row(line, [cell.strip() for cell in text.split(delimiter)])
        else:
            try:
                cells = next(csv.reader([text], delimiter=delimiter, strict=True, skipinitialspace=True))
            except csv.Error as error:
                raise InputFileError(path, f"badly quoted cell ({error})", line) from error
            yield Row(line, [cell.strip() for cell in cells])


def parse_number(text: str) -> float | None:
    """The number a cell holds, or None. Python's own extensions (1_000, Arabic digits) are not numbers."""
    if "_" in text or not text.isascii():
        return None
    try:
        return float(text)
    except ValueError:
        return None


def read_table(path: Path, delimiter: str | None) -> tuple[AnyArray, tuple[str, ...] | None]:
    """Features from text, and the rows' names if the file has any.

    A first row without a single number is a header, and so is one whose first cell is empty (the way
    pandas writes its index). A first column holds names rather than features when its header cell is
    empty or its first entry is not a number.

    Returns
    -------
    features : float64 array of shape (n, d)
    names : tuple of n str, or None
    """
    rows = read_rows(path, delimiter)
    first = next(rows, None)
    if first is None:
        raise InputFileError(path, "the file holds no rows")
    is_header = not first.cells[0] or all(parse_number(cell) is None for cell in first.cells)
    header = first if is_header else None
    if header is not None:
        first = next(rows, None)
        if first is None:
            raise InputFileError(path, "no number in any row; expected rows of numbers", header.line)
    has_names = (header is not None and not header.cells[0]) or parse_number(first.cells[0]) is None
    n_cells = len(first.cells) if header is None else len(header.cells)
    if n_cells == int(has_names):
        raise InputFileError(
            path, f"{first.cells[0]!r} is not a number (expected commas in .csv, tabs in .tsv)", first.line
        )

    values, lines = array("d"), array("q")
    names: list[str] = []
    row: Row | None = first
    while row is not None:
        if len(row.cells) != n_cells:
            raise InputFileError(path, f"expected {n_cells} cells, found {len(row.cells)}", row.line)
        if has_names:
            names.append(row.cells[0])
        _append_numbers(path, values, row, int(has_names))
        lines.append(row.line)
        row = next(rows, None)
    features = np.frombuffer(values, dtype=np.float64).reshape(-1, n_cells - int(has_names))
    bad = ~np.isfinite(features)
    if bad.any():
        i, j = np.argwhere(bad)[0]
        raise InputFileError(
            path,
            f"cell {j + 1 + int(has_names)} holds {features[i, j]}; features must be finite numbers",
            lines[i],
        )
    return features, tuple(names) if has_names else None


def _append_numbers(path: Path, values: array[float], row: Row, start: int) -> None:
    cells = row.cells[start:]
    joined = "".join(cells)
    try:
        # One test per row for what float() accepts and a strict reader does not.
        if "_" in joined or not joined.isascii():
            raise ValueError
        values.extend(map(float, cells))
    except ValueError:
        for position, cell in enumerate(cells, start + 1):
            if parse_number(cell) is None:
                shown = "is empty" if not cell else f"holds {cell[:40]!r}, not a number"
                raise InputFileError(path, f"cell {position} {shown}", row.line) from None
        raise
