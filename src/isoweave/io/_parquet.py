"""Tables in Apache Parquet files, read and written with pyarrow (extra ``parquet``)."""

from __future__ import annotations

import importlib.util
import re
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from isoweave._typing import AnyArray
from isoweave.io._errors import InputFileError, quoted
from isoweave.io._isolated import Frames, frames_of
from isoweave.io._names import check_words

_INDEX_COLUMN = re.compile(r"__index_level_[0-9]+__")
_NEEDS_PYARROW = "Parquet files need pyarrow: pip install 'isoweave[parquet]', or use .npy or .csv."


def import_pyarrow() -> Any:
    """pyarrow with its parquet module, or an error that names the extra."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError(_NEEDS_PYARROW) from error
    return pyarrow


@dataclass(frozen=True)
class Table:
    """The columns of a file in their order.

    Attributes
    ----------
    columns : tuple of str
        Names of all columns.
    numbers : dict of str to float64 array of shape (n,)
    text : dict of str to tuple of n str
    """

    columns: tuple[str, ...]
    numbers: dict[str, AnyArray]
    text: dict[str, tuple[str, ...]]


def read_features(path: Path) -> tuple[AnyArray, tuple[str, ...] | None]:
    """Features and names: text is allowed in the first column or pandas' index only.

    Returns
    -------
    features : float64 array of shape (n, d)
    names : tuple of n str, or None
    """
    table = _read(path, _check_feature_columns)
    used = [values for name, values in table.numbers.items() if not _INDEX_COLUMN.fullmatch(name)]
    names = next(reversed(table.text.values()), None)
    return np.column_stack(used), names


def read_edges(path: Path) -> tuple[AnyArray, AnyArray, AnyArray, tuple[str, ...] | None]:
    """Three columns i, j, distance; i and j are both row numbers or both names.

    Returns
    -------
    i, j : int64 arrays of shape (m,)
    lengths : float64 array of shape (m,)
    names : tuple of str, or None
        In the order in which they first appear, row by row.
    """
    table = _read(path, _check_edge_columns)
    first, second, third = table.columns
    lengths = table.numbers[third]
    if len(lengths) == 0:
        raise InputFileError(path, "the file holds no edges")
    if table.text:
        number_of: dict[str, int] = {}
        ends = np.empty((len(lengths), 2), dtype=np.int64)
        for row, pair in enumerate(zip(table.text[first], table.text[second], strict=True)):
            ends[row] = [number_of.setdefault(name, len(number_of)) for name in pair]
        return ends[:, 0], ends[:, 1], lengths, tuple(number_of)
    pairs = np.column_stack((table.numbers[first], table.numbers[second]))
    bad = ~((pairs >= 0) & (pairs < 2**31) & (pairs == np.floor(pairs)))
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise InputFileError(
            path, f"vertex {pairs[row, column]} in row {row} is not a row number: integers are counted from 0"
        )
    whole = pairs.astype(np.int64)
    return whole[:, 0], whole[:, 1], lengths, None


def _check_feature_columns(path: Path, columns: dict[str, str]) -> None:
    for position, (name, kind) in enumerate(columns.items()):
        if kind == "t" and position > 0 and not _INDEX_COLUMN.fullmatch(name):
            raise InputFileError(
                path, f"column {quoted(name)} holds text; only the first column may hold names"
            )
    if all(kind == "t" or _INDEX_COLUMN.fullmatch(name) for name, kind in columns.items()):
        shown = ", ".join(quoted(name) for name in list(columns)[:10])
        raise InputFileError(path, f"no column of numbers among {shown or 'none'}")


def _check_edge_columns(path: Path, columns: dict[str, str]) -> None:
    if len(columns) != 3:
        raise InputFileError(path, f"an edge list has 3 columns (i, j, distance), found {len(columns)}")
    (_, i_kind), (_, j_kind), (name, kind) = columns.items()
    if kind == "t":
        raise InputFileError(path, f"column {quoted(name)} must hold distances, it holds text")
    if i_kind != j_kind:
        raise InputFileError(path, "columns i and j must both hold names or both hold row numbers")


def _read(path: Path, check: Any) -> Table:
    if importlib.util.find_spec("pyarrow") is None:
        raise ImportError(_NEEDS_PYARROW)
    with frames_of(path, "parquet") as frames:
        return table_from_frames(frames, check)


def table_from_frames(frames: Frames, check: Any) -> Table:
    """The table a worker sends; ``check`` may refuse its columns before any data have come."""
    path = frames.path
    frames.expect("columns")
    columns = {word[1:]: word[:1] for word in frames.words()}
    check(path, columns)
    frames.expect("numbers")
    matrix = frames.array("the numbers")
    names = [name for name, kind in columns.items() if kind == "n"]
    if matrix.ndim != 2 or matrix.shape[1] != len(names) or matrix.dtype != np.float64:
        raise frames.fault(f"{matrix.dtype} of shape {matrix.shape} for {len(names)} columns")
    text: dict[str, tuple[str, ...]] = {}
    for name, kind in columns.items():
        if kind == "t":
            text[name] = _text(frames, len(matrix))
    frames.expect("end")
    return Table(tuple(columns), {name: matrix[:, k] for k, name in enumerate(names)}, text)


def _text(frames: Frames, n_rows: int) -> tuple[str, ...]:
    frames.expect("words")
    words = frames.words()
    frames.expect("codes")
    codes = frames.array("the text")
    is_sound = codes.shape == (n_rows,) and codes.dtype == np.int32
    if not is_sound or (n_rows and (codes.min() < 0 or codes.max() >= len(words))):
        raise frames.fault(f"{codes.dtype} of shape {codes.shape} for {n_rows} rows of text")
    check_words(frames.path, words, n_rows, frames.file_size, "text")
    return tuple(words[code] for code in codes.tolist())


def write_columns(file: IO[bytes], columns: dict[str, AnyArray]) -> None:
    """Write columns as one Parquet table."""
    pyarrow = import_pyarrow()
    pyarrow.parquet.write_table(pyarrow.table(columns), file)
