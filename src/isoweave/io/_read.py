"""One entry point for every file the command line can embed."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import scipy.sparse as sp

from isoweave._typing import AnyArray
from isoweave.io._arrays import (
    as_distances,
    as_features,
    densify,
    features_from_npz,
    graph_from_square,
    is_sparse_npz,
    read_npy,
    read_npz,
    sparse_from_npz,
)
from isoweave.io._edges import graph_from_edges, read_edge_list
from isoweave.io._errors import InputFileError
from isoweave.io._matrix_market import read_matrix_market
from isoweave.io._parquet import read_columns, split_names
from isoweave.io._text import read_table

_DELIMITERS = {".csv": ",", ".tsv": "\t", ".txt": None}
_SUFFIXES = ".npy .npz .csv .tsv .txt .parquet .mtx .edges"


@dataclass(frozen=True, eq=False)
class LoadedInput:
    """What a file held: features or a distance graph, never both.

    Attributes
    ----------
    features : array of shape (n, d) or None
        float32 or float64, finite.
    graph : csr array of shape (n, n) or None
        Finite lengths, none negative; zero lengths are explicit.
    names : tuple of n str or None
        Names of the rows, where the file has them.
    """

    features: AnyArray | None = None
    graph: sp.csr_array | None = None
    names: tuple[str, ...] | None = None

    @property
    def kind(self) -> Literal["features", "graph"]:
        return "features" if self.graph is None else "graph"

    @property
    def n_rows(self) -> int:
        source = self.features if self.graph is None else self.graph
        assert source is not None
        return int(source.shape[0])


def read_input(path: str | os.PathLike[str], *, as_graph: bool | None = None) -> LoadedInput:
    r"""Read features or a distance graph; the file's suffix tells the format.

    ======================  ===========================================  ===============================
    suffix                  features                                     distance graph
    ======================  ===========================================  ===============================
    .npy                    2-D array                                    square array, zero: no edge
    .npz                    array X, data or features, or the only 2-D   scipy's save_npz (csr, csc, coo)
    .csv .tsv .txt          rows of numbers, header and names allowed    edge list ``i j distance``
    .parquet                columns of numbers                           three columns i, j, distance
    .mtx                    coordinate matrix that is not square         square coordinate matrix
    .edges                                                               edge list
    ======================  ===========================================  ===============================

    Parameters
    ----------
    path : path-like
    as_graph : bool, optional
        By default a square sparse .npz, a square .mtx and .edges are distance graphs, anything else is
        features. True reads a graph, False reads features.

    Returns
    -------
    LoadedInput

    Raises
    ------
    InputFileError
        The file is missing, damaged, or not what was asked for; names the file, the line and the reason.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp(), "triangle.edges")
    >>> _ = file.write_text("a b 3\nb c 4\na c 5\n")
    >>> loaded = read_input(file)
    >>> loaded.names, loaded.graph.toarray().tolist()
    (('a', 'b', 'c'), [[0.0, 3.0, 5.0], [3.0, 0.0, 4.0], [5.0, 4.0, 0.0]])
    """
    path = Path(path)
    try:
        return _read(path, path.suffix.lower(), as_graph)
    except IsADirectoryError as error:
        raise InputFileError(path, "is a folder, not a file") from error
    except FileNotFoundError as error:
        raise InputFileError(path, "no such file") from error
    except OSError as error:
        raise InputFileError(path, f"cannot be read ({error.strerror or error})") from error
    except MemoryError as error:
        raise InputFileError(path, "too large for this machine's memory") from error


def _read(path: Path, suffix: str, as_graph: bool | None) -> LoadedInput:
    if suffix == ".npy":
        array = read_npy(path)
        if as_graph:
            return LoadedInput(graph=graph_from_square(path, array))
        return LoadedInput(features=as_features(path, array))
    if suffix == ".npz":
        arrays = read_npz(path)
        if is_sparse_npz(arrays):
            return _from_sparse(path, sparse_from_npz(path, arrays), as_graph)
        features = features_from_npz(path, arrays)
        if as_graph:
            return LoadedInput(graph=graph_from_square(path, features))
        return LoadedInput(features=features)
    if suffix == ".mtx":
        return _from_sparse(path, read_matrix_market(path), as_graph)
    if suffix == ".parquet":
        return _from_parquet(path, bool(as_graph))
    if suffix == ".edges" and as_graph is not False:
        graph, names = read_edge_list(path, None)
        return LoadedInput(graph=graph, names=names)
    if suffix in _DELIMITERS:
        if as_graph:
            graph, names = read_edge_list(path, _DELIMITERS[suffix])
            return LoadedInput(graph=graph, names=names)
        features, names = read_table(path, _DELIMITERS[suffix])
        return LoadedInput(features=features, names=names)
    kind = "features" if suffix == ".edges" else "files"
    raise InputFileError(path, f"cannot read {kind} with suffix {suffix!r}; known suffixes: {_SUFFIXES}")


def _from_sparse(path: Path, matrix: sp.csr_array, as_graph: bool | None) -> LoadedInput:
    if as_graph or (as_graph is None and matrix.shape[0] == matrix.shape[1]):
        return LoadedInput(graph=as_distances(path, matrix))
    return LoadedInput(features=densify(path, matrix))


def _from_parquet(path: Path, as_graph: bool) -> LoadedInput:
    columns = read_columns(path)
    if not as_graph:
        table, names = split_names(path, columns)
        return LoadedInput(features=as_features(path, table), names=names)
    if len(columns) != 3:
        raise InputFileError(path, f"an edge list has 3 columns (i, j, distance), found {len(columns)}")
    i, j, lengths = columns.values()
    if lengths.dtype.kind == "U":
        raise InputFileError(path, f"column {list(columns)[2]!r} must hold distances, it holds text")
    if len(i) == 0:
        raise InputFileError(path, "the file holds no edges")
    if "U" in (i.dtype.kind, j.dtype.kind):
        if i.dtype.kind != j.dtype.kind:
            raise InputFileError(path, "columns i and j must both hold names or both hold row numbers")
        interleaved = np.column_stack((i, j)).ravel().tolist()
        number_of = {name: number for number, name in enumerate(dict.fromkeys(interleaved))}
        numbers = np.array([number_of[name] for name in interleaved]).reshape(-1, 2)
        return LoadedInput(
            graph=graph_from_edges(path, numbers[:, 0], numbers[:, 1], lengths), names=tuple(number_of)
        )
    ids = np.column_stack((i, j))
    bad = ~((ids >= 0) & (ids < 2**31) & (ids == np.floor(ids)))
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise InputFileError(
            path, f"vertex {ids[row, column]} in row {row} is not a row number: integers are counted from 0"
        )
    ids = ids.astype(np.int64)
    return LoadedInput(graph=graph_from_edges(path, ids[:, 0], ids[:, 1], lengths))
