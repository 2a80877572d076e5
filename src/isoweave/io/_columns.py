"""Columns that describe the points of a map, read from a table."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from isoweave._typing import AnyArray
from isoweave.io._errors import InputFileError, quoted
from isoweave.io._lines import parse_number
from isoweave.io._names import check_words
from isoweave.io._open import reading
from isoweave.io._text import Row, read_rows

_DELIMITERS = {".csv": ",", ".tsv": "\t"}
# A first column with one of these headers holds names of the vertices.
_NAME_HEADERS = ("", "vertex", "name", "id")
_MAX_COLUMNS = 1000


@dataclass(frozen=True, eq=False)
class Columns:
    """Columns of one file.

    Attributes
    ----------
    values : dict of str to array of shape (n,)
        float64 where every cell is a number or empty (then NaN), otherwise strings.
    names : tuple of n str or None
        Names of the rows, if the first column is headed by nothing, "vertex", "name" or "id".
    """

    values: dict[str, AnyArray]
    names: tuple[str, ...] | None = None


def read_columns(path: str | os.PathLike[str]) -> Columns:
    r"""Read a table with a header: one row per point, one column per property.

    Parameters
    ----------
    path : path-like
        .csv (commas) or .tsv (tabs).

    Returns
    -------
    Columns

    Raises
    ------
    InputFileError

    Examples
    --------
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp(), "about.csv")
    >>> _ = file.write_text("vertex,age,town\na,3,Ulm\nb,,Bonn\n")
    >>> found = read_columns(file)
    >>> found.names, found.values["age"].tolist(), found.values["town"].tolist()
    (('a', 'b'), [3.0, nan], ['Ulm', 'Bonn'])
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in _DELIMITERS:
        raise InputFileError(path, f"columns are read from .csv or .tsv, not {quoted(suffix)}")
    with reading(path):
        rows = read_rows(path, _DELIMITERS[suffix])
        header = next(rows, None)
        if header is None:
            raise InputFileError(path, "the file holds no rows")
        _check_header(path, header)
        cells: list[list[str]] = [[] for _ in header.cells]
        for row in rows:
            if len(row.cells) != len(header.cells):
                raise InputFileError(
                    path, f"expected {len(header.cells)} cells, found {len(row.cells)}", row.line
                )
            for column, cell in zip(cells, row.cells, strict=True):
                column.append(cell)
        if not cells[0]:
            raise InputFileError(path, "there is a header, but no row below it", header.line)
        names = None
        first = 0
        if header.cells[0].lower() in _NAME_HEADERS:
            check_words(path, cells[0], len(cells[0]), path.stat().st_size)
            names, first = tuple(cells[0]), 1
        values = {
            name: _values(path, column)
            for name, column in zip(header.cells[first:], cells[first:], strict=True)
        }
        return Columns(values, names)


def _check_header(path: Path, header: Row) -> None:
    numbers = [cell for cell in header.cells if parse_number(cell) is not None]
    if numbers:
        raise InputFileError(
            path, f"the first row must name the columns, but holds the number {numbers[0]}", header.line
        )
    if len(header.cells) > _MAX_COLUMNS:
        raise InputFileError(
            path, f"{len(header.cells)} columns; at most {_MAX_COLUMNS} are read", header.line
        )
    for at, name in enumerate(header.cells):
        if name in header.cells[:at]:
            raise InputFileError(path, f"two columns are named {quoted(name)}", header.line)
        if not name and at:
            raise InputFileError(path, f"column {at + 1} has no name", header.line)
    if len(header.cells) == 1 and header.cells[0].lower() in _NAME_HEADERS:
        raise InputFileError(path, "there are names of rows, but no columns", header.line)


def _values(path: Path, cells: list[str]) -> AnyArray:
    numbers = [np.nan if not cell else parse_number(cell) for cell in cells]
    if None not in numbers and any(cells):
        return np.array(numbers, dtype=np.float64)
    check_words(path, cells, len(cells), path.stat().st_size, "a label")
    return np.array(cells, dtype=str)
