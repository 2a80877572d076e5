"""Known positions of some vertices, read from a table."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from isoweave._typing import AnyArray, FloatArray
from isoweave.io._errors import InputFileError, quoted
from isoweave.io._lines import parse_number
from isoweave.io._open import reading
from isoweave.io._text import Row, read_rows

_DELIMITERS = {".csv": ",", ".tsv": "\t", ".txt": None}


def read_anchors(
    path: str | os.PathLike[str], n_vertices: int, names: Sequence[str] | None = None
) -> tuple[AnyArray, FloatArray]:
    r"""Read anchors: one row per anchor, its vertex first and then its coordinates.

    Parameters
    ----------
    path : path-like
        .csv, .tsv or .txt. A first row whose coordinates are not numbers is a header.
    n_vertices : int
    names : sequence of n_vertices str, optional
        Names of the vertices; without any, vertices are given by number, counted from 0.

    Returns
    -------
    anchors : int64 array of shape (a,)
    positions : float64 array of shape (a, N)

    Raises
    ------
    InputFileError

    Examples
    --------
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp(), "anchors.csv")
    >>> _ = file.write_text("town,x,y\nb,3,4\na,0,0\n")
    >>> anchors, positions = read_anchors(file, 3, names=("a", "b", "c"))
    >>> anchors.tolist(), positions.tolist()
    ([1, 0], [[3.0, 4.0], [0.0, 0.0]])
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in _DELIMITERS:
        raise InputFileError(path, "anchors are read from .csv, .tsv or .txt")
    with reading(path):
        rows = list(read_rows(path, _DELIMITERS[suffix]))
        if rows and len(rows[0].cells) > 1 and all(parse_number(cell) is None for cell in rows[0].cells[1:]):
            del rows[0]
        if not rows:
            raise InputFileError(path, "the file holds no anchors")
        number = None if names is None else {name: i for i, name in enumerate(names)}
        line_of: dict[int, int] = {}
        positions = np.empty((len(rows), max(len(rows[0].cells) - 1, 1)))
        for at, row in enumerate(rows):
            vertex = _vertex(path, row, n_vertices, number)
            if vertex in line_of:
                said = f"vertex {quoted(row.cells[0])} was given on line {line_of[vertex]} already"
                raise InputFileError(path, said, row.line)
            line_of[vertex] = row.line
            positions[at] = _coordinates(path, row, positions.shape[1])
    return np.array(list(line_of), dtype=np.int64), positions


def _vertex(path: Path, row: Row, n_vertices: int, number: dict[str, int] | None) -> int:
    cell = row.cells[0]
    if number is not None:
        if cell not in number:
            raise InputFileError(path, f"no vertex is named {quoted(cell)}", row.line)
        return number[cell]
    # Only plain digits: int() takes more.
    if not (cell.isascii() and cell.isdigit()) or len(cell) > 18 or int(cell) >= n_vertices:
        raise InputFileError(
            path, f"expected a vertex number from 0 to {n_vertices - 1}, found {quoted(cell)}", row.line
        )
    return int(cell)


def _coordinates(path: Path, row: Row, n_components: int) -> list[float]:
    if len(row.cells) != n_components + 1:
        raise InputFileError(
            path,
            f"expected a vertex and {n_components} coordinates, found {len(row.cells)} cells",
            row.line,
        )
    values = []
    for position, cell in enumerate(row.cells[1:], 2):
        value = parse_number(cell)
        if value is None or not np.isfinite(value):
            raise InputFileError(path, f"cell {position} holds {quoted(cell)}, not a finite number", row.line)
        values.append(value)
    return values
