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
from isoweave.io._edges import read_edge_list, read_matrix_market
from isoweave.io._isolated import read_h5ad, read_parquet
from isoweave.io._source import InputFileError, quoted, reading
from isoweave.io._sparse import as_distances, as_features, densify, graph_from_square, matrix_from_npz
from isoweave.io._text import DELIMITERS, read_table

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
    r"""Read features or a distance graph; the file's suffix determines the format.

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
        found, names = _read_matrix(path, path.suffix.lower(), as_graph)
        is_square = sp.issparse(found) and found.shape[0] == found.shape[1]
        if as_graph is None:
            as_graph = is_square and path.suffix.lower() in (".npz", ".mtx", ".edges")
        if as_graph:
            graph = graph_from_square(path, found) if isinstance(found, np.ndarray) else found
            return LoadedInput(graph=as_distances(path, graph), names=names)
        dense = found if isinstance(found, np.ndarray) else densify(path, found)
        return LoadedInput(features=as_features(path, dense), names=names)


def _read_matrix(
    path: Path, suffix: str, as_graph: bool | None
) -> tuple[AnyArray | sp.csr_array, tuple[str, ...] | None]:
    """The matrix of a file in whatever form it has there, and the names of its rows."""
    if suffix == ".npy":
        return read_npy(path), None
    if suffix == ".npz":
        return matrix_from_npz(path, read_npz(path)), None
    if suffix == ".mtx":
        return read_matrix_market(path), None
    if suffix == ".parquet":
        return read_parquet(path, bool(as_graph))
    if suffix == ".h5ad":
        return read_h5ad(path, bool(as_graph))
    if suffix in DELIMITERS and not as_graph:
        return read_table(path, DELIMITERS[suffix])
    if suffix in DELIMITERS or (suffix == ".edges" and as_graph is not False):
        return read_edge_list(path, DELIMITERS.get(suffix))
    kind = "features" if suffix == ".edges" else "files"
    what = f"cannot read {kind} with suffix {quoted(suffix)}"
    raise InputFileError(path, f"{what}; known suffixes: {_SUFFIXES}")
