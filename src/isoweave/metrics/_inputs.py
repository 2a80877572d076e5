"""Checks of what the metrics are given."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from sklearn.neighbors import NearestNeighbors

from isoweave._typing import AnyArray, FloatArray
from isoweave.graph._graph import NeighborGraph

GraphLike: TypeAlias = NeighborGraph | sp.sparray | sp.spmatrix


def as_graph(graph: GraphLike) -> NeighborGraph:
    """A checked :class:`NeighborGraph`: symmetric, finite, sorted, without self edges.

    Explicit zeros are edges. Rounding differences between the two directions of an edge are accepted.
    """
    if isinstance(graph, NeighborGraph):
        return graph
    if not sp.issparse(graph):
        raise TypeError(
            f"graph must be a NeighborGraph or a scipy sparse matrix, got {type(graph).__name__}."
        )
    if graph.ndim != 2 or graph.shape[0] != graph.shape[1]:
        raise ValueError(f"graph must be square, got shape {graph.shape}.")
    if np.issubdtype(graph.dtype, np.complexfloating):
        raise ValueError(f"graph must hold real distances, got dtype {graph.dtype}.")
    n = graph.shape[0]
    coo = sp.coo_array(graph)
    row, col = coo.row, coo.col
    off = row != col
    csr = sp.csr_array((coo.data[off].astype(np.float64), (row[off], col[off])), shape=(n, n))
    csr.sum_duplicates()
    rows = np.repeat(np.arange(n), np.diff(csr.indptr))
    bad = np.flatnonzero(~(np.isfinite(csr.data) & (csr.data >= 0.0)))
    if len(bad):
        raise ValueError(
            f"graph must hold finite distances >= 0, got {csr.data[bad[0]]} at "
            f"({rows[bad[0]]}, {csr.indices[bad[0]]}) and {len(bad) - 1} more such entries."
        )
    # csr -> csc is a counting sort that keeps explicit zeros; its arrays are those of the transpose.
    mirror = csr.tocsc()
    mirror.sort_indices()
    same = np.array_equal(csr.indptr, mirror.indptr) and np.array_equal(csr.indices, mirror.indices)
    if not same or not np.allclose(csr.data, mirror.data, rtol=1e-6, atol=0.0):
        raise ValueError(
            "graph must be symmetric, got edges whose two directions differ; symmetrise it first "
            "(for a kNN graph: keep an edge when either end has it)."
        )
    return NeighborGraph(csr.indptr.astype(np.int32), csr.indices.astype(np.int32), csr.data)


def as_points(points: Any, name: str, n: int | None = None) -> FloatArray:
    """A finite float64 array of shape (n, N); a 1-D array is read as one column."""
    array = np.asarray(points)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or array.shape[1] == 0 or not np.can_cast(array.dtype, np.float64, "same_kind"):
        raise ValueError(
            f"{name} must be a real array of shape (n, N), "
            f"got shape {np.shape(points)} and dtype {array.dtype}."
        )
    if n is not None and len(array) != n:
        raise ValueError(f"{name} must have one row per vertex: expected {n} rows, got {len(array)}.")
    array = np.ascontiguousarray(array, dtype=np.float64)
    bad = np.flatnonzero(~np.isfinite(array).all(axis=1))
    if len(bad):
        raise ValueError(
            f"{name} must be finite, got {array[bad[0]]} in row {bad[0]} and {len(bad) - 1} more such rows."
        )
    return array


def check_n_neighbors(n_neighbors: int, n: int) -> int:
    """An integer between 1 and n - 1."""
    if isinstance(n_neighbors, bool) or not isinstance(n_neighbors, (int, np.integer)):
        raise TypeError(f"n_neighbors must be an integer, got {n_neighbors!r}.")
    if not 1 <= n_neighbors < n:
        raise ValueError(f"n_neighbors must be between 1 and n - 1 = {n - 1}, got {n_neighbors}.")
    return int(n_neighbors)


def default_n_neighbors(graph: NeighborGraph) -> int:
    """The graph's smallest degree, which is k for a max-symmetrised kNN graph; at least 1."""
    return max(1, int(graph.degrees.min())) if graph.n_vertices > 1 else 1


def nearest(points: FloatArray, n_neighbors: int) -> tuple[FloatArray, AnyArray]:
    """Distances and indices, each (n, k), of every point's nearest others."""
    # Brute-force search expands |x - y|^2, so an offset would cost digits.
    centred = points - points.mean(axis=0)
    search = NearestNeighbors(n_neighbors=n_neighbors, n_jobs=-1).fit(centred)
    distances, indices = search.kneighbors()
    return distances, indices
