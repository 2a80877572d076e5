"""Writing an embedding so that a reader never sees half a file."""

from __future__ import annotations

import csv
import io
import json
import os
import zipfile
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np

from isoweave._files import atomic_write, check_writable
from isoweave._typing import AnyArray
from isoweave.io._parquet import import_pyarrow, write_columns

_SUFFIXES = (".npz", ".npy", ".csv", ".parquet")
_ROWS_AT_ONCE = 10_000


def check_output_path(path: str | os.PathLike[str]) -> Path:
    """Refuse an output that could not be written, before hours are spent computing it.

    Raises
    ------
    ValueError
        The suffix is unknown.
    WriteError
        An OSError: the folder does not exist or may not be written in, the name is taken by a folder, ...
    """
    path = Path(path)
    if path.suffix.lower() not in _SUFFIXES:
        raise ValueError(f"cannot write {path}: the suffix must be one of {', '.join(_SUFFIXES)}.")
    check_writable(path)
    if path.suffix.lower() == ".parquet":
        import_pyarrow()
    return path


def write_embedding(
    path: str | os.PathLike[str],
    embedding: AnyArray,
    *,
    names: Sequence[str] | None = None,
    parameters: Mapping[str, Any] | None = None,
    **arrays: Any,
) -> None:
    """Write an embedding atomically; the suffix tells the format.

    A .npz archive holds everything: ``embedding``, ``vertex_names`` if there are names, ``parameters`` as
    a JSON string, and every further keyword as an array. A .npy file holds the coordinates alone; .csv and
    .parquet hold columns x1 .. xN after a column ``vertex`` with the names, if any.

    Parameters
    ----------
    path : path-like
        Ends in .npz, .npy, .csv or .parquet.
    embedding : array of shape (n, N)
    names : sequence of n str, optional
    parameters : mapping, optional
    **arrays
        Anything numpy stores without pickling: arrays, numbers, strings.
    """
    path = check_output_path(path)
    suffix = path.suffix.lower()
    with atomic_write(path) as file:
        if suffix == ".npz":
            contents = {"embedding": embedding, **arrays}
            if names is not None:
                contents["vertex_names"] = np.asarray(names, dtype=str)
            if parameters is not None:
                contents["parameters"] = json.dumps(dict(parameters), default=str)
            _write_npz(file, contents)
        elif suffix == ".npy":
            np.lib.format.write_array(file, np.ascontiguousarray(embedding), allow_pickle=False)
        else:
            columns: dict[str, AnyArray] = {} if names is None else {"vertex": np.asarray(names, dtype=str)}
            columns |= {f"x{k}": embedding[:, k - 1] for k in range(1, embedding.shape[1] + 1)}
            (write_columns if suffix == ".parquet" else _write_csv)(file, columns)


def _write_npz(file: IO[bytes], contents: dict[str, Any]) -> None:
    arrays = {key: np.asarray(value) for key, value in contents.items()}
    for key, array in arrays.items():
        if array.dtype.hasobject:
            raise TypeError(f"{key} cannot be stored without pickling: {contents[key]!r}.")
    # As numpy.savez writes it, except that the archive is closed whatever happens.
    with zipfile.ZipFile(file, "w", allowZip64=True) as archive:
        for key, array in arrays.items():
            with archive.open(f"{key}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def _write_csv(file: IO[bytes], columns: dict[str, AnyArray]) -> None:
    # repr of a Python float is the shortest text that reads back as the same number.
    rows = zip(*(values.tolist() for values in columns.values()), strict=True)
    block: list[Any] = [tuple(columns)]
    while block:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(block)
        file.write(text.getvalue().encode("utf-8"))
        block = list(islice(rows, _ROWS_AT_ONCE))
