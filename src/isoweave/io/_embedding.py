"""Maps in files: written whole or not at all, and read back without believing what they say."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from isoweave._files import atomic_write, check_writable, write_arrays
from isoweave._typing import AnyArray
from isoweave.io import _source
from isoweave.io._read import check_installed, read_input
from isoweave.io._source import Fault, reading, within
from isoweave.io._sparse import as_float64

# Compiled code is loaded with this, and readers of plain data need none of it.
if TYPE_CHECKING:
    from isoweave.result import Embedding

_SUFFIXES = (".npz", ".npy", ".csv", ".parquet")
# Names under which coordinates are commonly stored, the first one found is taken.
_COORDINATE_KEYS = ("embedding", "coordinates", "truth", "parameters", "coords")
# What an archive holds as it is in an Embedding, and what in another form.
_FIELDS = ("component_labels", "stretch", "energy", "relative_energy", "status")
_MORE = ("parameters", "history", "dropped_edges", "edges", "edge_lengths")
# How a fit was watched and kept is no part of its result.
_NOT_STORED = ("callback", "checkpoint", "on_interrupt")


def check_output_path(path: str | os.PathLike[str]) -> Path:
    """Refuse an output that could not be written, before hours are spent computing it.

    ValueError for an unknown suffix, WriteError (an OSError) for a folder that does not exist, ...
    """
    path = Path(path)
    if path.suffix.lower() not in _SUFFIXES:
        raise ValueError(f"cannot write {path}: the suffix must be one of {', '.join(_SUFFIXES)}.")
    check_writable(path)
    if path.suffix.lower() == ".parquet":
        check_installed("parquet")
    return path


def write_embedding(path: str | os.PathLike[str], result: Any, *, names: Sequence[str] | None = None) -> None:
    """Write a map atomically; the suffix (.npz, .npy, .csv or .parquet) determines the format.

    A .npz archive holds everything that is known: ``embedding``, ``vertex_names``, ``parameters`` as a JSON
    string, ``energy``, ``status``, ``edges`` with ``edge_lengths``, ``history`` ... A .npy file holds the
    coordinates alone; .csv and .parquet hold columns x1 .. xN, after a column ``vertex`` if there are names.
    ``result`` is an Embedding, a fitted estimator, or an array of shape (n, N).
    """
    from isoweave.result import as_embedding

    path = check_output_path(path)
    suffix = path.suffix.lower()
    source = as_embedding(result)
    # An estimator's coordinates may be float32, and stay so.
    points = np.asarray(source.coordinates if source is result else getattr(result, "embedding_", result))
    names = source.names if names is None else names
    words = {} if names is None else {"vertex": np.asarray(names, dtype=str)}
    columns = words | as_columns(points)
    with atomic_write(path) as file:
        if suffix == ".npz":
            contents = {"embedding": points, "vertex_names": words.get("vertex"), **_facts(source)}
            write_arrays(file, {key: value for key, value in contents.items() if value is not None})
        elif suffix == ".npy":
            np.lib.format.write_array(file, np.ascontiguousarray(points), allow_pickle=False)
        else:
            write_table(file, suffix, iter([columns]))


def as_columns(points: AnyArray) -> dict[str, AnyArray]:
    """Coordinates by the names they have in tables, x1 to xN."""
    return {f"x{k + 1}": column for k, column in enumerate(points.T)}


def write_table(file: IO[bytes], suffix: str, blocks: Iterator[Mapping[str, AnyArray]]) -> None:
    """Write columns by their names, given some rows at a time, as .parquet or .csv."""
    first = next(blocks)
    if suffix == ".parquet":
        import pyarrow
        import pyarrow.parquet

        schema = pyarrow.table(first).schema
        with pyarrow.parquet.ParquetWriter(file, schema) as parquet:
            for columns in chain([first], blocks):
                parquet.write_table(pyarrow.table(columns, schema=schema))
    else:
        text = io.TextIOWrapper(file, "utf-8", newline="")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(first)
        for columns in chain([first], blocks):
            # repr of a Python float is the shortest text that reads back as the same number.
            writer.writerows(zip(*(values.tolist() for values in columns.values()), strict=True))
        text.detach()


def _facts(source: Embedding) -> dict[str, Any]:
    """What an archive says beside coordinates and names; None is left out."""
    facts: dict[str, Any] = {key: getattr(source, key) for key in _FIELDS}
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


def read_embedding(path: str | os.PathLike[str]) -> Embedding:
    """Read a map with everything its file holds about it; what it does not hold is None or empty.

    The .npz of ``isoweave embed``, or coordinates by any tool: a .npz archive with an array ``embedding``,
    ``coordinates``, ``truth``, ``parameters`` or ``coords``, or any file of features. One dimension is one
    column. :class:`InputFileError` if the file is damaged, or one of its arrays does not go with the others.
    """
    from isoweave.result import Embedding

    path = Path(path)
    suffix = path.suffix.lower()
    with reading(path):
        if suffix == ".npy":
            return Embedding(_points(_source.read_npy(path)))
        arrays = _source.read_npz(path) if suffix == ".npz" else {}
        key = next((key for key in _COORDINATE_KEYS if key in arrays and arrays[key].ndim), None)
        if key is None:
            loaded = read_input(path, as_graph=False)
            assert loaded.features is not None
            return Embedding(loaded.features.astype(np.float64), names=loaded.names)
        with within(key):
            points = _points(arrays[key])
        names = None
        if "vertex_names" in arrays:
            with within("vertex_names"):
                names = _source.words_from_array(arrays["vertex_names"], len(points), path.stat().st_size)
        return Embedding(points, names=names, **(_known(arrays, points) if key == "embedding" else {}))


def _points(array: AnyArray) -> AnyArray:
    """Coordinates as float64; rows of NaN were not embedded."""
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2 or 0 in array.shape or array.dtype.kind not in "biuf":
        raise Fault(f"expected numbers of shape (n, N), got {array.dtype} of {array.shape}")
    points = as_float64(array)
    if np.isinf(points).any():
        raise Fault(f"row {np.argwhere(np.isinf(points))[0, 0]} is infinite")
    return points


def _known(arrays: dict[str, AnyArray], points: AnyArray) -> dict[str, Any]:
    """Fields of the Embedding beside coordinates and names, checked."""
    from isoweave._stages import check_array
    from isoweave.graph import graph_from_matrix
    from isoweave.persist import check_map, history_from

    known: dict[str, Any] = {}
    for key in (key for key in (*_FIELDS, *_MORE) if key in arrays):
        with within(key):
            _source.check_characters(arrays[key].reshape(-1))
        known[key] = arrays[key] if arrays[key].ndim else arrays[key].item()
    try:
        if "parameters" in known:
            known["parameters"] = json.loads(str(known["parameters"]))
    except (ValueError, RecursionError) as error:
        raise Fault(f"array 'parameters': not JSON ({_source.brief(error)})") from error
    try:
        if "history" in known:
            known["history"] = history_from(known["history"])
        check_map({"coordinates": points, **known})
        edges, lengths = known.pop("edges", None), known.pop("edge_lengths", None)
        if edges is not None:
            check_array("edge_lengths", lengths, (np.float32, np.float64), edges.shape[:1])
            matrix = sp.coo_array((lengths, tuple(edges.astype(np.int64).T)), shape=(len(points),) * 2)
            known["graph"] = graph_from_matrix(matrix) if len(points) > 1 else None
    except (ValueError, TypeError) as error:
        raise Fault(f"its arrays do not go together: {_source.brief(error)}") from error
    return known
