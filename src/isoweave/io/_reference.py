"""What an embedding is compared with: coordinates and labels read from files of any tool."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from isoweave._typing import AnyArray
from isoweave.io._arrays import as_features, read_npy, read_npz
from isoweave.io._errors import InputFileError
from isoweave.io._read import read_input
from isoweave.io._text import parse_number, read_rows

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
        arrays = _arrays(path)
        key = next((key for key in (*_COORDINATE_KEYS, "") if key in arrays), None)
        if key is not None:
            array = arrays[key]
            label = f"array {key!r}: " if key else ""
            points = as_features(path, array[:, None] if array.ndim == 1 else array, label)
            names = arrays.get("vertex_names")
            return Coordinates(points, None if names is None else tuple(str(name) for name in names))
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
    if suffix in _DELIMITERS:
        return _labels_from_text(path, _DELIMITERS[suffix])
    if suffix not in (".npz", ".npy"):
        raise InputFileError(path, "labels are read from .npy, .npz, .csv, .tsv or .txt")
    arrays = _arrays(path)
    key = next((key for key in (*_LABEL_KEYS, "") if key in arrays), None)
    if key is None and len(arrays) == 1:
        key = next(iter(arrays))
    if key is None:
        raise InputFileError(
            path, f"no array named {', '.join(_LABEL_KEYS)} among {', '.join(arrays) or 'no arrays'}"
        )
    labels = arrays[key]
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1 or len(labels) == 0:
        raise InputFileError(path, f"expected one label per vertex, got shape {labels.shape}")
    if labels.dtype.kind not in "biufUS":
        raise InputFileError(path, f"labels must be numbers or words, got dtype {labels.dtype}")
    return labels


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
        raise InputFileError(path, f"the name {twice!r} stands on more than one row")
    missing = [name for name in vertex_names if name not in row_of]
    if missing:
        raise InputFileError(path, f"no row is named {missing[0]!r}, as a vertex of the graph is")
    return np.array([row_of[name] for name in vertex_names], dtype=np.intp)


def _arrays(path: Path) -> dict[str, AnyArray]:
    """Arrays of an archive by name; the one of a .npy file under the empty name."""
    try:
        return read_npz(path) if path.suffix.lower() == ".npz" else {"": read_npy(path)}
    except FileNotFoundError as error:
        raise InputFileError(path, "no such file") from error
    except OSError as error:
        raise InputFileError(path, f"cannot be read ({error.strerror or error})") from error


def _labels_from_text(path: Path, delimiter: str | None) -> AnyArray:
    try:
        cells = [(row.line, row.cells[-1]) for row in read_rows(path, delimiter)]
    except FileNotFoundError as error:
        raise InputFileError(path, "no such file") from error
    except OSError as error:
        raise InputFileError(path, f"cannot be read ({error.strerror or error})") from error
    empty = next((line for line, cell in cells if not cell), None)
    if empty is not None:
        raise InputFileError(path, "no label in the last cell", empty)
    numbers = [parse_number(cell) for _, cell in cells]
    if len(numbers) > 1 and numbers[0] is None and None not in numbers[1:]:
        cells, numbers = cells[1:], numbers[1:]
    if not cells:
        raise InputFileError(path, "the file holds no labels")
    # Words: numbers among them are names too.
    if None in numbers:
        return np.array([cell for _, cell in cells])
    return np.array(numbers, dtype=np.float64)
