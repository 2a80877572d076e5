"""What is fuzzed: a dictionary of functions that take any bytes and must not object.

A target raises for a broken promise only: an exception of another type than the documented one, a warning, a
result that is not what the reader guarantees, a message that is not one printable line. Crashes, hangs and
memory are watched from outside (``campaign.py``, ``guided.py``).

A new target is a call of :func:`register`, a folder of seeds ``tests/fuzz/corpus/<name>/``, and, if random
bytes would never get past its first check, an entry in ``fuzz_mutate.MUTATORS``.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from isoweave.graph import NeighborGraph, graph_from_matrix
from isoweave.io import (
    InputFileError,
    _read,
    _worker,
    read_anchors,
    read_annotations,
    read_columns,
    read_embedding,
    read_input,
    read_labels,
)

ROOT = Path(__file__).resolve().parent.parent
CORPUS = ROOT / "tests" / "fuzz" / "corpus"
REGRESSIONS = ROOT / "tests" / "fuzz" / "regressions"

# The loader of saved models has its target beside its tests, which use it too.
sys.path.append(str(ROOT / "tests" / "persist"))
import attacker as saved_models  # noqa: E402

TARGETS: dict[str, Callable[[bytes], None]] = {}
# Share of a run that goes to a target: a process per input is a thousand times slower.
WEIGHTS: dict[str, float] = {}
# Targets that run pyarrow or libhdf5 here. A crash, a loop or too much memory there is counted, but is no
# failure: the readers run these libraries in a limited process of their own.
CONTAINED: set[str] = set()


class BrokenPromise(AssertionError):
    """A reader returned or said what it must not."""


def register(
    name: str, function: Callable[[bytes], None], weight: float = 1.0, contained: bool = False
) -> None:
    """Add a target; ``function`` takes the bytes of a file and raises if a promise is broken."""
    TARGETS[name] = function
    WEIGHTS[name] = weight
    if contained:
        CONTAINED.add(name)


def seeds(name: str) -> list[bytes]:
    """The seed corpus of a target, and what was once found with it."""
    folders = [CORPUS / name.removesuffix("_worker")]
    if name not in CONTAINED:  # for those, what was found crashes again
        folders.append(REGRESSIONS / name)
    found = [path.read_bytes() for folder in folders if folder.is_dir() for path in sorted(folder.iterdir())]
    return saved_models.seeds() + found if name == "store" else found


def guided_targets() -> list[str]:
    """Targets whose code is ours and runs in this process: coverage can lead, and nothing crashes."""
    return [name for name in TARGETS if name not in CONTAINED and WEIGHTS[name] >= 0.1]


_folder: tuple[int, Path] | None = None


def _scratch(name: str) -> Path:
    """A file in memory where there is such a file system; one folder per process."""
    global _folder
    if _folder is None or _folder[0] != os.getpid():
        parent = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        _folder = (os.getpid(), Path(tempfile.mkdtemp(prefix="isoweave-fuzz-", dir=parent)))
        atexit.register(shutil.rmtree, _folder[1], ignore_errors=True)
    return _folder[1] / name


def _written(data: bytes, suffix: str) -> Path:
    path = _scratch(f"input{suffix}")
    path.write_bytes(data)
    return path


def attempt(read: Callable[[], Any], expected: type[Exception] = InputFileError) -> Any:
    """What ``read`` returns, or None if it refuses in the documented way."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return read()
        except expected as error:
            if type(error) is not expected:
                raise BrokenPromise(f"{type(error).__name__} instead of {expected.__name__}") from error
            if isinstance(error, InputFileError):
                _check_message(error)
            return None


def _check_message(error: InputFileError) -> None:
    if not error.reason or not error.reason.isprintable() or len(error.reason) > 1000:
        raise BrokenPromise(f"not one printable line: {error.reason[:2000]!r}") from error
    if "this machine's memory" in error.reason:
        raise BrokenPromise("memory ran out before a size was refused") from error


def _promise(condition: Any, what: str) -> None:
    if not condition:
        raise BrokenPromise(what)


def check_loaded(loaded: Any) -> None:
    """What :func:`read_input` guarantees of its result."""
    if loaded is None:
        return
    _promise((loaded.features is None) != (loaded.graph is None), "features and graph")
    if loaded.features is not None:
        _check_points(loaded.features)
    else:
        _check_csr(loaded.graph)
    _check_names(loaded.names, loaded.n_rows)


def _check_points(points: Any) -> None:
    _promise(points.ndim == 2 and points.size, f"shape {points.shape}")
    _promise(points.dtype in (np.float32, np.float64) and points.dtype.isnative, f"dtype {points.dtype}")
    _promise(np.isfinite(points).all(), "features that are not finite")


def _check_names(names: Any, n: int) -> None:
    if names is not None:
        _promise(len(names) == n, f"{len(names)} names for {n} rows")
        for name in names:
            _promise(type(name) is str, f"a name of type {type(name)}")
            name.encode("utf-8")


def _check_csr(graph: Any) -> None:
    n = graph.shape[0]
    _promise(graph.shape == (n, n), f"shape {graph.shape}")
    _promise(len(graph.indptr) == n + 1 and graph.indptr[0] == 0, "indptr")
    _promise((graph.indptr[1:] >= graph.indptr[:-1]).all(), "indptr falls")
    _promise(graph.indptr[-1] == len(graph.indices) == len(graph.data), "lengths of arrays")
    if len(graph.data):
        _promise(graph.indices.min() >= 0 and graph.indices.max() < n, "index out of range")
        _promise(np.isfinite(graph.data).all() and graph.data.min() >= 0, "distances")


def _read_all_ways(suffix: str, data: bytes) -> None:
    path = _written(data, suffix)
    for as_graph in (None, True, False):
        check_loaded(attempt(lambda as_graph=as_graph: read_input(path, as_graph=as_graph)))
    check_map(attempt(lambda: read_embedding(path)))
    labels = attempt(lambda: read_labels(path))
    if labels is not None:
        _promise(labels.ndim == 1 and len(labels), f"labels of shape {labels.shape}")
        [str(label) for label in labels[:100].tolist()]


def check_map(found: Any) -> None:
    """What :func:`read_embedding` guarantees of its result."""
    if found is None:
        return
    points, n = found.coordinates, len(found.coordinates)
    _promise(
        points.ndim == 2 and points.size and points.dtype == np.float64, f"{points.dtype} {points.shape}"
    )
    _promise(not np.isinf(points).any(), "infinite coordinates")
    _check_names(found.names, n)
    _promise(found.stretch is None or found.stretch.shape == points.shape, "stretch")
    _promise(found.component_labels is None or found.component_labels.shape == (n,), "component_labels")
    edges = found.dropped_edges
    _promise(edges.shape[1:] == (2,) and ((edges >= 0) & (edges < n)).all(), "dropped edges")
    _promise(type(found.n_iter) is int and type(found.parameters) is dict, "n_iter or parameters")
    if found.graph is not None:
        _promise(found.graph.n_vertices == n, "another graph")
        _check_graph(found.graph)


def columns(data: bytes) -> None:
    for suffix in (".csv", ".tsv"):
        path = _written(data, suffix)
        found = attempt(lambda path=path: read_columns(path))
        if found is not None:
            values, names = found
            lengths = {len(column) for column in values.values()}
            _promise(len(lengths) == 1 and 0 not in lengths, f"columns of lengths {lengths}")
            _promise({column.dtype.kind for column in values.values()} <= set("fU"), "types of columns")
            _check_names(names, lengths.pop())


def anchors(data: bytes) -> None:
    names = ("a", "b", "c", "Köln", "1")
    for suffix in (".csv", ".tsv", ".txt"):
        path = _written(data, suffix)
        for known in (None, names):
            found = attempt(lambda path=path, known=known: read_anchors(path, 5, known))
            if found is not None:
                vertices, positions = found
                _promise(len(vertices) == len(set(vertices.tolist())) == len(positions) > 0, "vertices")
                _promise(vertices.min() >= 0 and vertices.max() < 5, "a vertex out of range")
                _check_points(positions)


def _library(kind: str, data: bytes, as_graph: bool) -> None:
    path = _written(data, f".{kind}")
    check_loaded(attempt(lambda: read_input(path, as_graph=as_graph)))
    if kind == "h5ad":
        attempt(lambda: read_annotations(path, ["a"]))


def _library_apart(kind: str, data: bytes) -> None:
    _library(kind, data, bool(len(data) & 1))


def _in_process(path: Path, kind: str, what: str, size: int, output: Any, *genes: str) -> None:
    """The worker's work done here, where a crash is seen and inputs are read a thousand times faster."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _worker.produce(kind, what, str(path), 1 << 27, output, genes)


def _worker_of(kind: str, data: bytes) -> None:
    usual = _read.run_worker
    _read.run_worker = _in_process
    try:
        for as_graph in (False, True):
            _library(kind, data, as_graph)
    finally:
        _read.run_worker = usual


def _read_text(data: bytes, suffix: str, as_graph: bool | None) -> None:
    path = _written(data, suffix)
    check_loaded(attempt(lambda: read_input(path, as_graph=as_graph)))


def mtx(data: bytes) -> None:
    _read_text(data, ".mtx", None)
    _read_text(data, ".mtx", False)


def text(data: bytes) -> None:
    for suffix in (".csv", ".tsv", ".txt"):
        _read_text(data, suffix, False)
    _read_text(data, ".csv", True)
    _read_text(data, ".edges", None)
    labels = attempt(lambda: read_labels(_written(data, ".csv")))
    _promise(labels is None or len(labels), "no labels")


def graph(data: bytes) -> None:
    """The validator that every graph passes, given matrices scipy would not make."""
    matrix = matrix_from_bytes(data)
    if matrix is None:
        return
    for asymmetry in ("error", "max"):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                found = graph_from_matrix(matrix, asymmetry=asymmetry)
            except (ValueError, TypeError):
                continue
        _check_graph(found)


def _check_graph(found: NeighborGraph) -> None:
    matrix = found.to_matrix()
    _check_csr(matrix)
    mirrored = matrix.T.tocsr()
    mirrored.sort_indices()
    _promise(np.array_equal(matrix.indices, mirrored.indices), "not symmetric")
    _promise(np.array_equal(matrix.data, mirrored.data), "lengths not symmetric")
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    _promise(not (rows == matrix.indices).any(), "an edge from a vertex to itself")


def matrix_from_bytes(data: bytes) -> Any:
    """A sparse matrix with whatever arrays the bytes say, past the checks of scipy's constructors."""
    if len(data) < 7:
        return None
    layout = ("csr", "csc", "coo")[data[0] % 3]
    index_type = (np.int32, np.int64)[data[1] % 2]
    value_type = (np.float64, np.float32, np.int32, np.complex64, np.bool_)[data[2] % 5]
    n = int.from_bytes(data[3:7], "little") % 2_000_000
    parts, at = [], 7
    for kind in (index_type, index_type, value_type):
        count = int.from_bytes(data[at : at + 2], "little")
        size = np.dtype(kind).itemsize
        body = data[at + 2 : at + 2 + count * size]
        body = body[: len(body) // size * size]
        parts.append(np.frombuffer(body, np.uint8).view(kind) if body else np.empty(0, kind))
        at += 2 + count * size
    if layout == "coo":
        matrix = sp.coo_array((n, n))
        matrix.row, matrix.col, matrix.data = parts
        return matrix
    matrix = sp.csr_array((n, n)) if layout == "csr" else sp.csc_array((n, n))
    matrix.indptr, matrix.indices, matrix.data = parts
    return matrix


read_npz = partial(_read_all_ways, ".npz")
register("npy", partial(_read_all_ways, ".npy"))
register("npz_dense", read_npz)
register("npz_sparse", read_npz)
register("mtx", mtx, weight=0.5)
# Every input is read in five ways, each also in blocks of a few bytes.
register("text", text, weight=0.2)
register("map", read_npz)
register("columns", columns)
register("anchors", anchors)
register("graph", graph)
register("store", saved_models.target, weight=0.5)
for kind, package, weight in (("parquet", "pyarrow", 1.0), ("h5ad", "h5py", 0.3)):
    if importlib.util.find_spec(package) is not None:
        register(f"{kind}_worker", partial(_worker_of, kind), weight, contained=True)
        register(kind, partial(_library_apart, kind), weight=0.001)
