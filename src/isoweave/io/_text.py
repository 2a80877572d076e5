"""Strict reading of tables of numbers from text: .csv, .tsv, .txt."""

from __future__ import annotations

import csv
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from isoweave._typing import AnyArray
from isoweave.io._errors import InputFileError, brief, quoted
from isoweave.io._lines import Block, parse_number, read_blocks, split_spaces
from isoweave.io._names import check_words


class Row(NamedTuple):
    """One line of a text file that holds data."""

    line: int
    cells: list[str]


def read_rows(path: Path, delimiter: str | None) -> Iterator[Row]:
    """Lines split into stripped cells, at runs of white space if ``delimiter`` is None.

    Blank lines and comments (#) are left out. Cells may be quoted with double quotes where a delimiter is
    given; a quoted cell ends on its line.
    """
    for block in read_blocks(path):
        yield from split_block(path, block, delimiter)


def split_block(path: Path, block: Block, delimiter: str | None) -> Iterator[Row]:
    """The rows of one block, as :func:`read_rows`."""
    for line, text in enumerate(block.lines, block.first):
        if text.startswith("#") or not text.strip(" \t"):
            continue
        if delimiter is None:
            yield Row(line, split_spaces(text))
        elif '"' not in text:
            cells = text.split(delimiter)
            if " " in text or "\t" in text:
                cells = [cell.strip(" \t") for cell in cells]
            yield Row(line, cells)
        else:
            try:
                cells = next(csv.reader([text], delimiter=delimiter, strict=True, skipinitialspace=True))
            except csv.Error as error:
                raise InputFileError(path, f"badly quoted cell ({brief(error)})", line) from error
            yield Row(line, [cell.strip(" \t") for cell in cells])


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
            path,
            f"{quoted(first.cells[0])} is not a number (expected commas in .csv, tabs in .tsv)",
            first.line,
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
    if has_names:
        check_words(path, names, len(names), path.stat().st_size)
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
                shown = "is empty" if not cell else f"holds {quoted(cell)}, not a number"
                raise InputFileError(path, f"cell {position} {shown}", row.line) from None
        raise
