"""One entry point for every file the command line can embed."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import scipy.sparse as sp

from isoweave._typing import AnyArray
from isoweave.io._arrays import read_npy, read_npz
from isoweave.io._edges import graph_from_edges, read_edge_list
from isoweave.io._errors import InputFileError, quoted
from isoweave.io._features import as_features, features_from_npz, graph_from_square
from isoweave.io._h5ad import read_h5ad
from isoweave.io._matrix_market import read_matrix_market
from isoweave.io._open import reading
from isoweave.io._parquet import read_edges, read_features
from isoweave.io._sparse import as_distances, densify, is_sparse_npz, sparse_from_arrays
from isoweave.io._text import read_table

_DELIMITERS = {".csv": ",", ".tsv": "\t", ".txt": None}
_SUFFIXES = ".npy .npz .csv .tsv .txt .parquet .h5ad .mtx .edges"


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
    .h5ad                   obsm["X_pca"], else X                        obsp["distances"]
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
        The file is missing, damaged, or not what was asked for; names the file, the line or byte where it
        is known, and the reason. Whatever the file holds, nothing else is raised.
    ImportError
        A .parquet or .h5ad file without the extra that reads it.

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
    with reading(path):
        return _read(path, path.suffix.lower(), as_graph)


def _read(path: Path, suffix: str, as_graph: bool | None) -> LoadedInput:
    if suffix == ".npy":
        array = read_npy(path)
        if as_graph:
            return LoadedInput(graph=graph_from_square(path, array))
        return LoadedInput(features=as_features(path, array))
    if suffix == ".npz":
        arrays = read_npz(path)
        if is_sparse_npz(arrays):
            return _from_sparse(path, sparse_from_arrays(path, arrays, path.stat().st_size), as_graph)
        features = features_from_npz(path, arrays)
        if as_graph:
            return LoadedInput(graph=graph_from_square(path, features))
        return LoadedInput(features=features)
    if suffix == ".mtx":
        return _from_sparse(path, read_matrix_market(path), as_graph)
    if suffix == ".parquet":
        if as_graph:
            i, j, lengths, names = read_edges(path)
            return LoadedInput(graph=graph_from_edges(path, i, j, lengths), names=names)
        features, names = read_features(path)
        return LoadedInput(features=as_features(path, features), names=names)
    if suffix == ".h5ad":
        found, names = read_h5ad(path, bool(as_graph))
        if as_graph:
            return LoadedInput(graph=as_distances(path, found), names=names)
        features = found if isinstance(found, np.ndarray) else densify(path, found, path.stat().st_size)
        return LoadedInput(features=as_features(path, features), names=names)
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
    raise InputFileError(
        path, f"cannot read {kind} with suffix {quoted(suffix)}; known suffixes: {_SUFFIXES}"
    )


def _from_sparse(path: Path, matrix: sp.csr_array, as_graph: bool | None) -> LoadedInput:
    if as_graph or (as_graph is None and matrix.shape[0] == matrix.shape[1]):
        return LoadedInput(graph=as_distances(path, matrix))
    return LoadedInput(features=as_features(path, densify(path, matrix, path.stat().st_size)))
