"""Maps in files: written whole or not at all, and read back without believing what they say."""

from __future__ import annotations

import csv
import io
import json
import os
import zipfile
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from isoweave._files import atomic_write, check_writable
from isoweave._typing import AnyArray
from isoweave.io._arrays import read_npy, read_npz
from isoweave.io._isolated import NEEDED
from isoweave.io._read import read_input
from isoweave.io._source import InputFileError, brief, check_characters, reading, words_from_array

# Compiled code is loaded with these, and readers of plain data need none of it.
if TYPE_CHECKING:
    from isoweave.graph import NeighborGraph
    from isoweave.result import Embedding

_SUFFIXES = (".npz", ".npy", ".csv", ".parquet")
_ROWS_AT_ONCE = 10_000
# Names under which coordinates are commonly stored, the first one found is taken.
_COORDINATE_KEYS = ("embedding", "coordinates", "truth", "parameters", "coords", "")
# How a fit was watched and kept is no part of its result.
_NOT_STORED = ("callback", "checkpoint", "on_interrupt")


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
        _import_pyarrow()
    return path


def write_embedding(path: str | os.PathLike[str], result: Any, *, names: Sequence[str] | None = None) -> None:
    """Write a map atomically; the suffix determines the format.

    A .npz archive holds everything that is known: ``embedding``, ``vertex_names``, ``parameters`` as a JSON
    string, ``energy``, ``status``, ``edges`` with ``edge_lengths``, ``history`` ... A .npy file holds the
    coordinates alone; .csv and .parquet hold columns x1 .. xN, after a column ``vertex`` if there are names.

    Parameters
    ----------
    path : path-like
        Ends in .npz, .npy, .csv or .parquet.
    result : Embedding, fitted estimator, or array of shape (n, N)
    names : sequence of n str, optional
        In place of those of the result.
    """
    from isoweave.result import as_embedding

    path = check_output_path(path)
    suffix = path.suffix.lower()
    source = as_embedding(result)
    # An estimator's coordinates may be float32, and stay so.
    points = np.asarray(source.coordinates if source is result else getattr(result, "embedding_", result))
    names = source.names if names is None else names
    words = None if names is None else np.asarray(names, dtype=str)
    with atomic_write(path) as file:
        if suffix == ".npz":
            _write_npz(file, {"embedding": points, "vertex_names": words, **_facts(source)})
        elif suffix == ".npy":
            np.lib.format.write_array(file, np.ascontiguousarray(points), allow_pickle=False)
        else:
            columns: dict[str, AnyArray] = {} if words is None else {"vertex": words}
            columns |= {f"x{k + 1}": points[:, k] for k in range(points.shape[1])}
            (_write_parquet if suffix == ".parquet" else _write_csv)(file, columns)


def _facts(source: Embedding) -> dict[str, Any]:
    """What an archive says beside coordinates and names; None is left out."""
    facts: dict[str, Any] = {key: getattr(source, key) for key in ("component_labels", "stretch", "energy")}
    facts |= {"relative_energy": source.relative_energy, "status": source.status}
    parameters = {name: value for name, value in source.parameters.items() if name not in _NOT_STORED}
    if parameters:
        facts["parameters"] = json.dumps(parameters, default=str)
    if source.history:
        steps = [(step.iteration, step.energy, step.gradient_norm, step.step) for step in source.history]
        facts |= {"n_iter": source.n_iter, "history": np.array(steps, dtype=np.float64)}
    if source.graph is not None:
        # Each edge once.
        upper = sp.triu(source.graph.to_matrix(), k=1, format="coo")
        facts["edges"] = np.column_stack((upper.row, upper.col)).astype(np.int32)
        facts |= {"edge_lengths": np.asarray(upper.data, np.float64), "dropped_edges": source.dropped_edges}
    return facts


def _write_npz(file: IO[bytes], contents: dict[str, Any]) -> None:
    # As numpy.savez writes it, except that the archive is closed whatever happens.
    with zipfile.ZipFile(file, "w", allowZip64=True) as archive:
        for key, value in contents.items():
            if value is not None:
                with archive.open(f"{key}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, np.asarray(value), allow_pickle=False)


def _write_csv(file: IO[bytes], columns: dict[str, AnyArray]) -> None:
    # repr of a Python float is the shortest text that reads back as the same number.
    rows = zip(*(values.tolist() for values in columns.values()), strict=True)
    block: list[Any] = [tuple(columns)]
    while block:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(block)
        file.write(text.getvalue().encode("utf-8"))
        block = list(islice(rows, _ROWS_AT_ONCE))


def _write_parquet(file: IO[bytes], columns: dict[str, AnyArray]) -> None:
    pyarrow = _import_pyarrow()
    pyarrow.parquet.write_table(pyarrow.table(columns), file)


def _import_pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError(NEEDED["parquet"][1]) from error
    return pyarrow


def read_embedding(path: str | os.PathLike[str]) -> Embedding:
    """Read a map with everything its file holds about it.

    Parameters
    ----------
    path : path-like
        The .npz of ``isoweave embed`` (archives without edges or history, as earlier versions wrote them, are
        fine), or coordinates by any tool: a .npz archive with an array ``embedding``, ``coordinates``,
        ``truth``, ``parameters`` or ``coords``, or any file of features. One dimension is one column.

    Returns
    -------
    Embedding
        Whatever the file does not hold is None or empty.

    Raises
    ------
    InputFileError
        The file is missing, damaged, or one of its arrays does not go with the others.
    """
    from isoweave.result import Embedding

    path = Path(path)
    suffix = path.suffix.lower()
    with reading(path):
        arrays = read_npz(path) if suffix == ".npz" else {"": read_npy(path)} if suffix == ".npy" else {}
        key = next((key for key in _COORDINATE_KEYS if key in arrays and arrays[key].ndim), None)
        if key is None:
            loaded = read_input(path, as_graph=False)
            assert loaded.features is not None
            return Embedding(loaded.features.astype(np.float64), names=loaded.names)
        points = _points(path, arrays[key], f"array {key!r}: " if key else "")
        names = arrays.get("vertex_names")
        words = (
            None if names is None else words_from_array(path, names, len(points), "array 'vertex_names': ")
        )
        known = _known(path, arrays, points.shape) if key == "embedding" else {}
        return Embedding(points, names=words, **known)


def _points(path: Path, array: AnyArray, label: str) -> AnyArray:
    """Coordinates as float64; rows of NaN were not embedded."""
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2 or 0 in array.shape or array.dtype.kind not in "biuf":
        found = f"{array.dtype} of {array.shape}"
        raise InputFileError(path, f"{label}expected numbers of shape (n, N), got {found}")
    with np.errstate(all="ignore"):
        points = array.astype(np.float64)
    if np.isinf(points).any():
        row = int(np.argwhere(np.isinf(points))[0, 0])
        raise InputFileError(path, f"{label}row {row} is infinite")
    return points


def _known(path: Path, arrays: dict[str, AnyArray], shape: tuple[int, ...]) -> dict[str, Any]:
    """Fields of the Embedding beside coordinates and names, checked."""
    from isoweave.optimise import StepRecord

    def found(key: str, shape: tuple[int, ...], kinds: str) -> AnyArray | None:
        """An array if it is there, of a given shape (-1: any size) and of certain types."""
        array = arrays.get(key)
        if array is None:
            return None
        fits = array.ndim == len(shape) and all(
            want in (-1, have) for want, have in zip(shape, array.shape, strict=True)
        )
        if not fits or array.dtype.kind not in kinds:
            wanted = "(" + ", ".join("any" if size < 0 else str(size) for size in shape) + ")"
            got = f"{array.dtype} of shape {array.shape}"
            raise InputFileError(path, f"array {key!r}: expected shape {wanted}, got {got}")
        check_characters(path, array.reshape(-1), f"array {key!r}: ")
        return array

    known: dict[str, Any] = {}
    known["component_labels"] = found("component_labels", shape[:1], "iu")
    stretch = found("stretch", shape, "f")
    known["stretch"] = None if stretch is None else stretch.astype(np.float64)
    for key in ("energy", "relative_energy"):
        number = found(key, (), "fiu")
        known[key] = None if number is None else float(number)
    n_iter = found("n_iter", (), "fiu")
    if n_iter is not None and not (np.isfinite(n_iter) and n_iter >= 0):
        raise InputFileError(path, f"array 'n_iter': expected a number of steps, got {n_iter}")
    status, text = found("status", (), "U"), found("parameters", (), "U")
    known["status"] = None if status is None else str(status)
    known["parameters"] = {} if text is None else _parameters(path, str(text))
    history = found("history", (-1, 4), "f")
    rows = [] if history is None else history[np.isfinite(history).all(axis=1)].tolist()
    known["history"] = tuple(StepRecord(int(iteration), *rest) for iteration, *rest in rows)
    known["graph"] = _graph(path, found, shape[0])
    dropped = found("dropped_edges", (-1, 2), "iu")
    if dropped is not None:
        _check_ends(path, "dropped_edges", dropped, shape[0])
        known["dropped_edges"] = dropped
    return known


def _check_ends(path: Path, key: str, edges: AnyArray, n: int) -> None:
    outside = ((edges < 0) | (edges >= n)).any(axis=1)
    if outside.any():
        at = int(np.argmax(outside))
        said = f"row {at} is {edges[at].tolist()}, but vertices are 0 to {n - 1}"
        raise InputFileError(path, f"array {key!r}: {said}")


def _graph(path: Path, found: Any, n: int) -> NeighborGraph | None:
    from isoweave.graph import graph_from_matrix

    edges = found("edges", (-1, 2), "iu")
    if edges is None or n < 2:
        return None
    lengths = found("edge_lengths", (len(edges),), "f")
    if lengths is None:
        raise InputFileError(path, "array 'edges' without its 'edge_lengths'")
    _check_ends(path, "edges", edges, n)
    try:
        ends = tuple(edges.astype(np.int64).T)
        return graph_from_matrix(sp.coo_array((lengths.astype(np.float64), ends), shape=(n, n)))
    except ValueError as error:
        raise InputFileError(path, f"arrays 'edges' and 'edge_lengths': {brief(error)}") from error


def _parameters(path: Path, text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputFileError(path, f"array 'parameters': not JSON ({brief(error)})") from error
    if not isinstance(found, dict):
        raise InputFileError(path, "array 'parameters': expected a JSON object")
    return found
