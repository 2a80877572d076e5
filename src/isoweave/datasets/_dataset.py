"""What generators and loaders return, and the data folder loaders read."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import scipy.sparse as sp

from isoweave._typing import AnyArray, FloatArray

DATA_VARIABLE = "ISOWEAVE_DATA"
"""Environment variable that names the data folder."""

DataHome: TypeAlias = str | os.PathLike[str] | None


@dataclass(frozen=True, eq=False)
class Dataset:
    """Feature vectors and whatever is known about them.

    Attributes
    ----------
    name : str
    data : array of shape (n, D)
    parameters : float64 array of shape (n, d) or None
        The intrinsic coordinates each point was made from (or its measured pose); what
        :func:`isoweave.metrics.parameter_error` compares with.
    labels : integer array of shape (n,) or None
    label_names : tuple of str or None
    isometric : bool
        True when distances between ``parameters`` are the manifold's geodesic distances, so that
        ``parameters`` is the embedding to be recovered up to a rigid motion.
    """

    name: str
    data: FloatArray
    parameters: FloatArray | None = None
    labels: AnyArray | None = None
    label_names: tuple[str, ...] | None = None
    isometric: bool = False

    @property
    def truth(self) -> FloatArray | None:
        """``parameters`` where they are isometric, for ``procrustes_error``; otherwise None."""
        return self.parameters if self.isometric else None

    @property
    def n_samples(self) -> int:
        return len(self.data)


@dataclass(frozen=True, eq=False)
class GraphDataset:
    """A distance graph, with the positions of its vertices where they are known.

    Attributes
    ----------
    name : str
    graph : csr_array of shape (n, n)
        Symmetric; every stored entry is an edge, explicit zeros included.
    truth : float64 array of shape (n, d) or None
        True positions, in the unit of the edge lengths.
    anchors : intp array of shape (a,)
        Vertices whose positions are given to the method (sensor networks); empty elsewhere.
    vertex_names : tuple of str or None
    faces : integer array of shape (m, 3) or None
        Triangles, for meshes.
    """

    name: str
    graph: sp.csr_array
    truth: FloatArray | None
    anchors: AnyArray
    vertex_names: tuple[str, ...] | None = None
    faces: AnyArray | None = None

    @property
    def n_vertices(self) -> int:
        return int(self.graph.shape[0])


class DatasetMissingError(FileNotFoundError):
    """A data set's file is not in the data folder, or no folder was named."""


def data_path(filename: str, data_home: DataHome = None) -> Path:
    """Path of a file in the data folder: ``data_home``, or what the variable ``ISOWEAVE_DATA`` names.

    Raises DatasetMissingError, with what was looked for, when there is no folder or no such file in it.
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
