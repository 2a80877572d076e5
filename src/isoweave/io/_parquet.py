"""Tables in Apache Parquet files, read and written with pyarrow (extra ``parquet``)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import IO, Any

import numpy as np

from isoweave._typing import AnyArray
from isoweave.io._errors import InputFileError

_INDEX_COLUMN = re.compile(r"__index_level_[0-9]+__")


def import_pyarrow() -> Any:
    """pyarrow with its parquet module, or an error that names the extra."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError(
            "Parquet files need pyarrow: pip install 'isoweave[parquet]', or use .npy or .csv."
        ) from error
    return pyarrow


def read_columns(path: Path) -> dict[str, AnyArray]:
    """Columns by name: numbers as float64, anything else as strings. Missing values are an error."""
    pyarrow = import_pyarrow()
    try:
        table = pyarrow.parquet.read_table(path)
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise InputFileError(path, f"not a Parquet file, or a damaged one ({error})") from error
    columns: dict[str, AnyArray] = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        kind = column.type
        is_text = pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind)
        is_number = (
            pyarrow.types.is_integer(kind)
            or pyarrow.types.is_floating(kind)
            or pyarrow.types.is_boolean(kind)
        )
        if not (is_text or is_number):
            raise InputFileError(path, f"column {name!r} has type {kind}; only numbers and text are read")
        if column.null_count:
            row = column.is_null().to_pylist().index(True)
            raise InputFileError(path, f"column {name!r} has no value in row {row}")
        if name in columns:
            raise InputFileError(path, f"two columns are named {name!r}")
        values = column.to_pylist() if is_text else column.to_numpy()
        columns[name] = np.asarray(values, dtype=str if is_text else np.float64)
    return columns


def split_names(path: Path, columns: dict[str, AnyArray]) -> tuple[AnyArray, tuple[str, ...] | None]:
    """Features and names from columns: text is allowed in the first column or pandas' index only.

    Returns
    -------
    features : float64 array of shape (n, d)
    names : tuple of n str, or None
    """
    names: tuple[str, ...] | None = None
    features: list[AnyArray] = []
    for position, (label, values) in enumerate(columns.items()):
        is_index = _INDEX_COLUMN.fullmatch(label) is not None
        if values.dtype.kind == "U":
            if position > 0 and not is_index:
                raise InputFileError(
                    path, f"column {label!r} holds text; only the first column may hold names"
                )
            names = tuple(values.tolist())
        elif not is_index:
            features.append(values)
    if not features:
        raise InputFileError(path, f"no column of numbers among {list(columns)[:10]}")
    return np.column_stack(features), names


def write_columns(file: IO[bytes], columns: dict[str, AnyArray]) -> None:
    """Write columns as one Parquet table."""
    pyarrow = import_pyarrow()
    pyarrow.parquet.write_table(pyarrow.table(columns), file)
