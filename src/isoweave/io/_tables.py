"""Tables beside a map: labels and columns of its vertices, and known positions of some of them."""

from __future__ import annotations

import os
from array import array
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from isoweave._typing import AnyArray, FloatArray
from isoweave.io._arrays import read_npy, read_npz
from isoweave.io._source import InputFileError, check_characters, check_words, quoted, reading
from isoweave.io._text import DELIMITERS, Row, check_n_cells, parse_number, read_rows

_LABEL_KEYS = ("labels", "label", "y", "target")
# A first column with one of these headers holds names of the vertices.
_NAME_HEADERS = ("", "vertex", "name", "id")
_MAX_COLUMNS = 1000


def read_columns(path: str | os.PathLike[str]) -> tuple[dict[str, AnyArray], tuple[str, ...] | None]:
    r"""Read a table with a header: one row per point, one column per property.

    Parameters
    ----------
    path : path-like
        .csv (commas) or .tsv (tabs); :class:`InputFileError` if it is neither, or damaged.

    Returns
    -------
    values : dict of str to array of shape (n,)
        float64 where every cell is a number or empty (then NaN), otherwise strings.
    names : tuple of n str or None
        Names of the rows, if the first column is headed by nothing, "vertex", "name" or "id".

    Examples
    --------
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp(), "about.csv")
    >>> _ = file.write_text("vertex,age,town\na,3,Ulm\nb,,Bonn\n")
    >>> values, names = read_columns(file)
    >>> names, values["age"].tolist(), values["town"].tolist()
    (('a', 'b'), [3.0, nan], ['Ulm', 'Bonn'])
    """
    path = Path(path)
    delimiter = _delimiter(path, "columns", (".csv", ".tsv"))
    with reading(path):
        rows = read_rows(path, delimiter)
        header = next(rows, None)
        if header is None:
            raise InputFileError(path, "the file holds no rows")
        _check_header(path, header)
        columns: list[list[str]] = [[] for _ in header.cells]
        for row in rows:
            check_n_cells(path, row, len(header.cells))
            for column, cell in zip(columns, row.cells, strict=True):
                column.append(cell)
        if not columns[0]:
            raise InputFileError(path, "there is a header, but no row below it", header.line)
        names = None
        if header.cells[0].lower() in _NAME_HEADERS:
            names = tuple(columns.pop(0))
            check_words(path, names, len(names), path.stat().st_size)
        heads = header.cells[-len(columns) :]
        return {head: _values(path, cells) for head, cells in zip(heads, columns, strict=True)}, names


def _check_header(path: Path, header: Row) -> None:
    numbers = [cell for cell in header.cells if parse_number(cell) is not None]
    fault = ""
    if numbers:
        fault = f"the first row must name the columns, but holds the number {quoted(numbers[0])}"
    elif len(header.cells) > _MAX_COLUMNS:
        fault = f"{len(header.cells)} columns; at most {_MAX_COLUMNS} are allowed"
    elif len(set(header.cells)) < len(header.cells):
        fault = f"two columns are named {quoted(max(header.cells, key=header.cells.count))}"
    elif "" in header.cells[1:]:
        fault = f"column {header.cells.index('', 1) + 1} has no name"
    elif len(header.cells) == 1 and header.cells[0].lower() in _NAME_HEADERS:
        fault = "there are names of rows, but no columns"
    if fault:
        raise InputFileError(path, fault, header.line)


def _values(path: Path, cells: list[str]) -> AnyArray:
    numbers = [np.nan if not cell else parse_number(cell) for cell in cells]
    if None not in numbers and any(cells):
        return np.array(numbers, dtype=np.float64)
    check_words(path, cells, len(cells), path.stat().st_size, "a label")
    return np.array(cells, dtype=str)


def read_labels(path: str | os.PathLike[str]) -> AnyArray:
    """Read one label per vertex: numbers or words.

    Parameters
    ----------
    path : path-like
        .npy; .npz with an array ``labels``, ``label``, ``y`` or ``target``, or a single one; .csv, .tsv or
        .txt with the label in the last cell of every row. A first row with no number in it is taken for a
        header if the labels are numbers; words have no header. :class:`InputFileError` for anything else.

    Returns
    -------
    array of shape (n,)
        Numbers, or strings where not every label is a number.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    with reading(path):
        if suffix == ".npy":
            return _checked_labels(path, read_npy(path))
        if suffix == ".npz":
            arrays = read_npz(path)
            keys = [key for key in _LABEL_KEYS if key in arrays] or list(arrays)
            if keys and (keys[0] in _LABEL_KEYS or len(arrays) == 1):
                return _checked_labels(path, arrays[keys[0]])
            found = ", ".join(quoted(name) for name in keys[:10]) or "no arrays"
            raise InputFileError(path, f"no array named {', '.join(_LABEL_KEYS)} among {found}")
        return _labels_from_text(path, _delimiter(path, "labels", (".npy", ".npz", *DELIMITERS)))


def _checked_labels(path: Path, labels: AnyArray, lines: Sequence[int] | None = None) -> AnyArray:
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1 or len(labels) == 0:
        raise InputFileError(path, f"expected one label per vertex, got shape {labels.shape}")
    if labels.dtype.kind not in "biufUS":
        raise InputFileError(path, f"labels must be numbers or words, got dtype {labels.dtype}")
    check_characters(path, labels, "")
    finite = np.isfinite(labels) if labels.dtype.kind == "f" else np.ones(1, dtype=bool)
    if not finite.all():
        row = int(np.argmin(finite))
        line = None if lines is None else lines[row]
        raise InputFileError(path, f"label {labels[row]} of row {row} is neither a number nor a word", line)
    return labels


def _labels_from_text(path: Path, delimiter: str | None) -> AnyArray:
    cells: list[str] = []
    lines = array("q")
    for row in read_rows(path, delimiter):
        if not row.cells[-1]:
            raise InputFileError(path, "no label in the last cell", row.line)
        cells.append(row.cells[-1])
        lines.append(row.line)
    numbers = [parse_number(cell) for cell in cells]
    if len(numbers) > 1 and numbers[0] is None and None not in numbers[1:]:
        del cells[0], numbers[0], lines[0]
    if not cells:
        raise InputFileError(path, "the file holds no labels")
    # Words: numbers among them are names too.
    if None in numbers:
        check_words(path, cells, len(cells), path.stat().st_size, "a label")
        return np.array(cells)
    return _checked_labels(path, np.array(numbers, dtype=np.float64), lines)


def read_anchors(
    path: str | os.PathLike[str], n_vertices: int, names: Sequence[str] | None = None
) -> tuple[AnyArray, FloatArray]:
    r"""Read anchors: one row per anchor, its vertex first and then its coordinates.

    Parameters
    ----------
    path : path-like
        .csv, .tsv or .txt; :class:`InputFileError` for anything else. A first row whose coordinates are not
        numbers is a header.
    n_vertices : int
    names : sequence of n_vertices str, optional
        Names of the vertices; without any, vertices are given by number, counted from 0.

    Returns
    -------
    anchors : int64 array of shape (a,)
    positions : float64 array of shape (a, N)

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
    delimiter = _delimiter(path, "anchors", tuple(DELIMITERS))
    with reading(path):
        rows = list(read_rows(path, delimiter))
        if rows and len(rows[0].cells) > 1 and all(parse_number(cell) is None for cell in rows[0].cells[1:]):
            del rows[0]
        if not rows:
            raise InputFileError(path, "the file holds no anchors")
        number = None if names is None else {name: i for i, name in enumerate(names)}
        n_components = max(len(rows[0].cells) - 1, 1)
        line_of: dict[int, int] = {}
        positions = np.empty((len(rows), n_components))
        for at, row in enumerate(rows):
            vertex = _vertex(path, row, n_vertices, number)
            if vertex in line_of:
                said = f"vertex {quoted(row.cells[0])} was already given on line {line_of[vertex]}"
                raise InputFileError(path, said, row.line)
            line_of[vertex] = row.line
            check_n_cells(path, row, n_components + 1, f" (a vertex and {n_components} coordinates)")
            for k, cell in enumerate(row.cells[1:]):
                value = parse_number(cell)
                if value is None or not np.isfinite(value):
                    said = f"cell {k + 2} holds {quoted(cell)}, not a finite number"
                    raise InputFileError(path, said, row.line)
                positions[at, k] = value
    return np.array(list(line_of), dtype=np.int64), positions


def _vertex(path: Path, row: Row, n_vertices: int, number: dict[str, int] | None) -> int:
    cell = row.cells[0]
    if number is not None:
        if cell not in number:
            raise InputFileError(path, f"no vertex is named {quoted(cell)}", row.line)
        return number[cell]
    # Only plain digits: int() takes more.
    if not (cell.isascii() and cell.isdigit()) or len(cell) > 18 or int(cell) >= n_vertices:
        said = f"expected a vertex number from 0 to {n_vertices - 1}, found {quoted(cell)}"
        raise InputFileError(path, said, row.line)
    return int(cell)


def _delimiter(path: Path, what: str, suffixes: tuple[str, ...]) -> str | None:
    suffix = path.suffix.lower()
    if suffix not in suffixes:
        known = f"{', '.join(suffixes[:-1])} or {suffixes[-1]}"
        raise InputFileError(path, f"{what} are read from {known}, not {quoted(suffix)}")
    return DELIMITERS[suffix]


def match_names(
    path: Path, names: Sequence[str] | None, vertex_names: Sequence[str] | None
) -> AnyArray | None:
    """Order that puts the rows of ``path`` in the order of the graph's vertices; None: as they are.

    Where either has no names, rows and vertices correspond by position.
    """
    if names is None or vertex_names is None or tuple(names) == tuple(vertex_names):
        return None
    row_of = {name: row for row, name in enumerate(names)}
    if len(row_of) != len(names):
        twice = next(name for row, name in enumerate(names) if row_of[name] != row)
        raise InputFileError(path, f"the name {quoted(twice)} occurs in more than one row")
    missing = [name for name in vertex_names if name not in row_of]
    if missing:
        raise InputFileError(path, f"no row is named {quoted(missing[0])}, but a vertex of the graph is")
    return np.array([row_of[name] for name in vertex_names], dtype=np.intp)
