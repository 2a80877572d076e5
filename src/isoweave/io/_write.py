"""Writing an embedding so that a reader never sees half a file."""

from __future__ import annotations

import csv
import io
import json
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from isoweave._typing import AnyArray
from isoweave.io._parquet import import_pyarrow, write_columns

_SUFFIXES = (".npz", ".npy", ".csv", ".parquet")


def check_output_path(path: str | os.PathLike[str]) -> Path:
    """Refuse an output that could not be written, before hours are spent computing it."""
    path = Path(path)
    if path.suffix.lower() not in _SUFFIXES:
        raise ValueError(f"cannot write {path}: the suffix must be one of {', '.join(_SUFFIXES)}.")
    if path.is_dir():
        raise ValueError(f"cannot write {path}: it is a folder.")
    if not path.parent.is_dir():
        raise ValueError(f"cannot write {path}: folder {path.parent} does not exist.")
    if not os.access(path.parent, os.W_OK):
        raise ValueError(f"cannot write {path}: no permission to write in {path.parent}.")
    if path.suffix.lower() == ".parquet":
        import_pyarrow()
    return path


@contextmanager
def atomic_write(path: Path) -> Iterator[IO[bytes]]:
    """A binary file that takes its name only once it is complete and on disk.

    A crash, a full disk or an exception leaves the old file, if there was one, as it was.
    """
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if hasattr(os, "O_DIRECTORY"):  # POSIX: the new name is only durable once its folder is
        folder = os.open(target.parent, os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


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
    np.savez(file, **arrays)  # type: ignore[arg-type]


def _write_csv(file: IO[bytes], columns: dict[str, AnyArray]) -> None:
    # repr of a Python float is the shortest text that reads back as the same number.
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*(values.tolist() for values in columns.values()), strict=True))
    text.detach()  # flushes, and leaves the file open for its owner
