"""Reading back what ``isoweave embed`` has written, by this version or an earlier one."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from isoweave._typing import AnyArray, FloatArray
from isoweave.io._arrays import read_npz
from isoweave.io._errors import InputFileError, brief
from isoweave.io._names import check_characters
from isoweave.io._open import reading
from isoweave.io._reference import read_coordinates, vertex_names

if TYPE_CHECKING:
    from isoweave.graph import NeighborGraph


class HistoryStep(NamedTuple):
    """One step of the optimiser."""

    iteration: int
    energy: float
    gradient_norm: float
    step: float


@dataclass(frozen=True, eq=False)
class StoredEmbedding:
    """A map read from a file; whatever the file does not hold is None or empty.

    Attributes
    ----------
    coordinates : float64 array of shape (n, N)
        Rows of NaN were not embedded.
    names : tuple of n str or None
    graph : NeighborGraph or None
        Measured distances, dropped edges included.
    stretch : float64 array of shape (n, N) or None
    component_labels : int array of shape (n,) or None
    dropped_edges : int array of shape (s, 2)
    history : tuple of HistoryStep
    status : str or None
    energy, relative_energy : float or None
    n_iter : int or None
    parameters : dict
    """

    coordinates: FloatArray
    names: tuple[str, ...] | None = None
    graph: NeighborGraph | None = None
    stretch: FloatArray | None = None
    component_labels: AnyArray | None = None
    dropped_edges: AnyArray = field(default_factory=lambda: np.empty((0, 2), dtype=np.int32))
    history: tuple[HistoryStep, ...] = ()
    status: str | None = None
    energy: float | None = None
    relative_energy: float | None = None
    n_iter: int | None = None
    parameters: dict[str, Any] = field(default_factory=dict)


def read_embedding(path: str | os.PathLike[str]) -> StoredEmbedding:
    """Read a map with everything its file tells about it.

    Parameters
    ----------
    path : path-like
        The .npz of ``isoweave embed`` (archives without edges or history, as earlier versions wrote them, are
        fine), or coordinates in any file that :func:`read_coordinates` takes.

    Returns
    -------
    StoredEmbedding

    Raises
    ------
    InputFileError
        The file is missing, damaged, or one of its arrays does not go with the others.
    """
    path = Path(path)
    with reading(path):
        arrays = read_npz(path) if path.suffix.lower() == ".npz" else {}
        if "embedding" not in arrays:
            found = read_coordinates(path)
            return StoredEmbedding(found.points.astype(np.float64), found.names)
        return _from_arrays(path, arrays)


def _from_arrays(path: Path, arrays: dict[str, AnyArray]) -> StoredEmbedding:
    points = arrays["embedding"]
    if points.ndim != 2 or 0 in points.shape or points.dtype.kind not in "fiu":
        raise InputFileError(
            path, f"array 'embedding': expected numbers of shape (n, N), got {points.dtype} of {points.shape}"
        )
    points = points.astype(np.float64)
    if np.isinf(points).any():
        row = int(np.argwhere(np.isinf(points))[0, 0])
        raise InputFileError(path, f"array 'embedding': row {row} is infinite")
    n = len(points)
    dropped = _optional(path, arrays, "dropped_edges", (-1, 2), "iu")
    if dropped is not None:
        _check_ends(path, "dropped_edges", dropped, n)
    history = _optional(path, arrays, "history", (-1, 4), "f")
    stretch = _optional(path, arrays, "stretch", points.shape, "f")
    return StoredEmbedding(
        coordinates=points,
        names=vertex_names(path, arrays, n),
        graph=_graph(path, arrays, n),
        stretch=None if stretch is None else stretch.astype(np.float64),
        component_labels=_optional(path, arrays, "component_labels", (n,), "iu"),
        dropped_edges=np.empty((0, 2), dtype=np.int32) if dropped is None else dropped,
        history=tuple(
            HistoryStep(int(i), *rest)
            for i, *rest in ([] if history is None else history[np.isfinite(history).all(axis=1)].tolist())
        ),
        status=_text(path, arrays, "status"),
        energy=_number(path, arrays, "energy"),
        relative_energy=_number(path, arrays, "relative_energy"),
        n_iter=None if (steps := _number(path, arrays, "n_iter")) is None else int(steps),
        parameters=_parameters(path, arrays),
    )


def _optional(
    path: Path, arrays: dict[str, AnyArray], key: str, shape: tuple[int, ...], kinds: str
) -> AnyArray | None:
    """An array if it is there, of a given shape (-1: any size) and of certain types."""
    if key not in arrays:
        return None
    array = arrays[key]
    fits = array.ndim == len(shape) and all(
        want in (-1, have) for want, have in zip(shape, array.shape, strict=True)
    )
    if not fits or array.dtype.kind not in kinds:
        wanted = "(" + ", ".join("any" if size < 0 else str(size) for size in shape) + ")"
        raise InputFileError(
            path, f"array {key!r}: expected shape {wanted}, got {array.dtype} of shape {array.shape}"
        )
    return array


def _check_ends(path: Path, key: str, edges: AnyArray, n: int) -> None:
    outside = ((edges < 0) | (edges >= n)).any(axis=1)
    if outside.any():
        at = int(np.argmax(outside))
        raise InputFileError(
            path, f"array {key!r}: row {at} is {edges[at].tolist()}, but vertices are 0 to {n - 1}"
        )


def _graph(path: Path, arrays: dict[str, AnyArray], n: int) -> NeighborGraph | None:
    from isoweave.graph import graph_from_matrix

    edges = _optional(path, arrays, "edges", (-1, 2), "iu")
    if edges is None or n < 2:
        return None
    lengths = _optional(path, arrays, "edge_lengths", (len(edges),), "f")
    if lengths is None:
        raise InputFileError(path, "array 'edges' without its 'edge_lengths'")
    _check_ends(path, "edges", edges, n)
    ends = edges.astype(np.int64)
    try:
        return graph_from_matrix(sp.coo_array((lengths.astype(np.float64), (ends[:, 0], ends[:, 1])), (n, n)))
    except ValueError as error:
        raise InputFileError(path, f"arrays 'edges' and 'edge_lengths': {brief(error)}") from error


def _number(path: Path, arrays: dict[str, AnyArray], key: str) -> float | None:
    array = _optional(path, arrays, key, (), "fiu")
    return None if array is None else float(array)


def _text(path: Path, arrays: dict[str, AnyArray], key: str) -> str | None:
    array = _optional(path, arrays, key, (), "U")
    if array is None:
        return None
    check_characters(path, array.reshape(1), f"array {key!r}: ")
    return str(array)


def _parameters(path: Path, arrays: dict[str, AnyArray]) -> dict[str, Any]:
    text = _text(path, arrays, "parameters")
    if text is None:
        return {}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputFileError(path, f"array 'parameters': not JSON ({brief(error)})") from error
    if not isinstance(found, dict):
        raise InputFileError(path, "array 'parameters': expected a JSON object")
    return found
