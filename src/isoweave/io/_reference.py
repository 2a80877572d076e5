"""What an embedding is compared with: coordinates and labels read from files of any tool."""

from __future__ import annotations

import os
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from isoweave._typing import AnyArray
from isoweave.io._arrays import read_npy, read_npz
from isoweave.io._errors import InputFileError, quoted
from isoweave.io._features import as_features
from isoweave.io._lines import parse_number
from isoweave.io._names import check_characters, check_words, words_from_array
from isoweave.io._open import reading
from isoweave.io._read import read_input
from isoweave.io._text import read_rows

_DELIMITERS = {".csv": ",", ".tsv": "\t", ".txt": None}
# Names under which coordinates and labels are commonly stored, the first one found is taken.
_COORDINATE_KEYS = ("embedding", "coordinates", "truth", "parameters", "coords")
_LABEL_KEYS = ("labels", "label", "y", "target")


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Points of one file.

    Attributes
    ----------
    points : array of shape (n, N)
        Finite.
    names : tuple of n str or None
        Names of the rows, where the file has them.
    """

    points: AnyArray
    names: tuple[str, ...] | None = None


def read_coordinates(path: str | os.PathLike[str]) -> Coordinates:
    """Read an embedding or true positions.

    Parameters
    ----------
    path : path-like
        A .npz archive with an array ``embedding`` (as ``isoweave embed`` writes it), ``coordinates``,
        ``truth``, ``parameters`` or ``coords``, or else one that :func:`read_input` takes for features; any
        other file of features. A one-dimensional array is one column.

    Returns
    -------
    Coordinates

    Raises
    ------
    InputFileError
    """
    path = Path(path)
    if path.suffix.lower() in (".npz", ".npy"):
        with reading(path):
            arrays = _arrays(path)
            key = next((key for key in (*_COORDINATE_KEYS, "") if key in arrays), None)
            if key is not None:
                found = arrays[key]
                label = f"array {key!r}: " if key else ""
                points = as_features(path, found[:, None] if found.ndim == 1 else found, label)
                return Coordinates(points, vertex_names(path, arrays, len(points)))
    loaded = read_input(path, as_graph=False)
    assert loaded.features is not None
    return Coordinates(loaded.features, loaded.names)


def read_labels(path: str | os.PathLike[str]) -> AnyArray:
    """Read one label per vertex: numbers or words.

    Parameters
    ----------
    path : path-like
        .npy; .npz with an array ``labels``, ``label``, ``y`` or ``target``, or a single one; .csv, .tsv or
        .txt with the label in the last cell of every row. A first row with no number in it is taken for a
        header if the labels are numbers; words have no header.

    Returns
    -------
    array of shape (n,)
        Integers, or strings where not every label is a number.

    Raises
    ------
    InputFileError
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in (".npz", ".npy", *_DELIMITERS):
        raise InputFileError(path, "labels are read from .npy, .npz, .csv, .tsv or .txt")
    with reading(path):
        if suffix in _DELIMITERS:
            return _labels_from_text(path, _DELIMITERS[suffix])
        return _labels_from_arrays(path, _arrays(path))


def _labels_from_arrays(path: Path, arrays: dict[str, AnyArray]) -> AnyArray:
    key = next((key for key in (*_LABEL_KEYS, "") if key in arrays), None)
    if key is None and len(arrays) == 1:
        key = next(iter(arrays))
    if key is None:
        found = ", ".join(quoted(name) for name in list(arrays)[:10]) or "no arrays"
        raise InputFileError(path, f"no array named {', '.join(_LABEL_KEYS)} among {found}")
    labels = arrays[key]
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1 or len(labels) == 0:
        raise InputFileError(path, f"expected one label per vertex, got shape {labels.shape}")
    if labels.dtype.kind not in "biufUS":
        raise InputFileError(path, f"labels must be numbers or words, got dtype {labels.dtype}")
    if labels.dtype.kind == "U":
        check_characters(path, labels, "")
    elif labels.dtype.kind == "f":
        _check_finite(path, labels)
    return labels


def vertex_names(path: Path, arrays: dict[str, AnyArray], n_points: int) -> tuple[str, ...] | None:
    """Names of the rows, if the archive has them."""
    if "vertex_names" not in arrays:
        return None
    size = path.stat().st_size
    return words_from_array(path, arrays["vertex_names"], n_points, size, "array 'vertex_names': ")


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
        raise InputFileError(path, f"the name {quoted(twice)} stands on more than one row")
    missing = [name for name in vertex_names if name not in row_of]
    if missing:
        raise InputFileError(path, f"no row is named {quoted(missing[0])}, as a vertex of the graph is")
    return np.array([row_of[name] for name in vertex_names], dtype=np.intp)


def _arrays(path: Path) -> dict[str, AnyArray]:
    """Arrays of an archive by name; the one of a .npy file under the empty name."""
    return read_npz(path) if path.suffix.lower() == ".npz" else {"": read_npy(path)}


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
    labels = np.array(numbers, dtype=np.float64)
    _check_finite(path, labels, lines)
    return labels


def _check_finite(path: Path, labels: AnyArray, lines: Sequence[int] | None = None) -> None:
    finite = np.isfinite(labels)
    if not finite.all():
        row = int(np.argmin(finite))
        line = None if lines is None else lines[row]
        raise InputFileError(path, f"label {labels[row]} of row {row} is neither a number nor a word", line)
