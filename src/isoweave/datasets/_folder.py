"""The data folder: where files are looked for, and what is said when they are missing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeAlias

import numpy as np

from isoweave._typing import AnyArray

DATA_VARIABLE = "ISOWEAVE_DATA"
"""Environment variable that names the data folder."""

DataHome: TypeAlias = str | os.PathLike[str] | None


class DatasetMissingError(FileNotFoundError):
    """A data set's file is not in the data folder, or no folder was named."""


def data_path(filename: str, data_home: DataHome = None) -> Path:
    """Where a file of the data folder is.

    Parameters
    ----------
    filename : str
    data_home : path, optional
        The data folder; the environment variable ``ISOWEAVE_DATA`` by default.

    Raises
    ------
    DatasetMissingError
        When there is no folder or no such file in it; the message says what was looked for.
    """
    home = data_home if data_home is not None else os.environ.get(DATA_VARIABLE) or None
    if home is None:
        raise DatasetMissingError(
            f"{filename} is needed, but no data folder is known: set the environment variable "
            f"{DATA_VARIABLE} to the folder that holds it, or pass data_home."
        )
    path = Path(home).expanduser() / filename
    if not path.is_file():
        reason = "it is not there" if path.parent.is_dir() else "there is no such folder"
        raise DatasetMissingError(
            f"Looked for {path}: {reason}. Put {filename} into the data folder, or point data_home or "
            f"{DATA_VARIABLE} to the folder that holds it."
        )
    return path


def load_arrays(filename: str, names: tuple[str, ...], data_home: DataHome = None) -> dict[str, AnyArray]:
    """The named arrays of one ``.npz`` file of the data folder (pickles are refused)."""
    path = data_path(filename, data_home)
    # The user's own data folder is trusted as to sizes (SECURITY.md).
    with np.load(path, allow_pickle=False) as archive:  # noqa: TID251
        missing = [name for name in names if name not in archive.files]
        if missing:
            raise ValueError(
                f"{path} has no array {missing[0]!r} (it has {', '.join(archive.files)}); "
                "is it the file this loader expects?"
            )
        return {name: archive[name] for name in names}
