"""The distance graph every later stage reads, and parts of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from isoweave._lazy import computed_once
from isoweave._typing import AnyArray, BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class NeighborGraph:
    """An undirected graph whose edges carry distances, in compressed sparse rows.

    Both directions of every edge are stored with the same length; there are no self edges;
    column indices are sorted within each row. Arrays are C-contiguous ``int32`` / ``float64`` and
    must not be edited. Made by :func:`isoweave.graph.graph_from_matrix`, which checks its input; the
    constructor does not.

    Attributes
    ----------
    indptr : int32 array of shape (n + 1,)
    indices : int32 array of shape (m,)
    lengths : float64 array of shape (m,)
        Finite and non-negative. Zero lengths (duplicates) are edges like any other here.
    """

    indptr: IntArray
    indices: IntArray
    lengths: FloatArray

    @property
    def n_vertices(self) -> int:
        return len(self.indptr) - 1

    @property
    def n_edges(self) -> int:
        """Number of undirected edges."""
        return len(self.indices) // 2

    @computed_once
    def degrees(self) -> IntArray:
        return np.diff(self.indptr)

    @computed_once
    def sources(self) -> IntArray:
        """Row of every stored edge, shape (m,)."""
        return np.repeat(np.arange(self.n_vertices, dtype=np.int32), self.degrees)

    @computed_once
    def reverse(self) -> IntArray:
        """Position of the opposite edge (j, i) for every stored edge (i, j), shape (m,).

        Rows and columns are sorted, so listing the edges by (column, row) visits the opposite edges in
        storage order: a stable sort of the columns is the whole computation.
        """
        return np.argsort(self.indices, kind="stable").astype(np.int32)

    def to_matrix(self) -> sp.csr_array:
        """The graph as a scipy sparse array that shares its memory; zero lengths stay explicit."""
        n = self.n_vertices
        return sp.csr_array((self.lengths, self.indices, self.indptr), shape=(n, n))


def keep_edges(graph: NeighborGraph, mask: BoolArray) -> NeighborGraph:
    """The graph with the stored edges where ``mask`` is true; the mask is the same for both directions."""
    return NeighborGraph(
        row_starts(graph.sources[mask], graph.n_vertices), graph.indices[mask], graph.lengths[mask]
    )


def subgraph(graph: NeighborGraph, vertices: AnyArray) -> NeighborGraph:
    """Subgraph induced by sorted, distinct vertices: vertex i of it is ``vertices[i]`` of ``graph``."""
    vertices = np.asarray(vertices)
    n = graph.n_vertices
    if len(vertices) and (vertices[0] < 0 or vertices[-1] >= n or np.any(np.diff(vertices) <= 0)):
        raise ValueError(f"vertices must be sorted, distinct and within 0 .. {n - 1}.")
    number = np.full(n, -1, dtype=np.int32)
    number[vertices] = np.arange(len(vertices), dtype=np.int32)
    rows, cols = number[graph.sources], number[graph.indices]
    keep = (rows >= 0) & (cols >= 0)
    return NeighborGraph(row_starts(rows[keep], len(vertices)), cols[keep], graph.lengths[keep])


def row_starts(rows: AnyArray, n: int) -> IntArray:
    """Where each of n rows begins, and where the last ends, if entries are listed row by row."""
    starts = np.zeros(n + 1, dtype=np.int32)
    np.cumsum(np.bincount(rows, minlength=n), out=starts[1:])
    return starts


def is_edge(graph: NeighborGraph, pairs: AnyArray) -> BoolArray:
    """Stored edges that are among the given pairs, in either direction, shape (m,)."""
    n = graph.n_vertices
    ends = np.asarray(pairs, dtype=np.int64).reshape(-1, 2)
    both = np.concatenate((ends, ends[:, ::-1]))
    return np.isin(edge_keys(graph), both[:, 0] * n + both[:, 1])


def edge_keys(graph: NeighborGraph) -> AnyArray:
    """One number per stored edge, rising."""
    return graph.sources.astype(np.int64) * graph.n_vertices + graph.indices


def positions_of(sorted_keys: AnyArray, keys: AnyArray) -> IntArray:
    """Where each key stands among the sorted ones, -1 where it does not."""
    at = np.searchsorted(sorted_keys, keys)
    inside = at < len(sorted_keys)
    hit = np.zeros(len(keys), dtype=np.bool_)
    hit[inside] = sorted_keys[at[inside]] == keys[inside]
    return np.where(hit, at, -1)


def edge_distortion(edges: AnyArray, lengths: FloatArray, points: FloatArray) -> FloatArray:
    """Length in a map over given length, minus 1, of edges (E, 2), shape (E,).

    0 for duplicates that coincide, infinite for duplicates that do not, NaN where an end has no coordinates.
    """
    steps = points[edges[:, 1]] - points[edges[:, 0]]
    # Divided first: squares of very large or small coordinates are no numbers.
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.linalg.norm(steps / lengths[:, None], axis=1)
    apart = np.where((steps == 0.0).all(axis=1), 0.0, np.inf)
    apart[np.isnan(steps).any(axis=1)] = np.nan
    return np.where(lengths == 0.0, apart, ratio - 1.0)
