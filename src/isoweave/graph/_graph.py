"""The distance graph every later stage reads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from isoweave._lazy import computed_once
from isoweave._typing import FloatArray, IntArray


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
