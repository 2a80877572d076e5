"""Differences, divergence and Laplacian on the graph.

Signs are stated once: ``differences`` sends f to f_j - f_i on edge (i, j), the divergence is its adjoint
(``sum_i f_i div(z)_i = sum_ij z_ij (f_j - f_i)``), and a Laplacian is the divergence of weighted differences.
All are integrated quantities (no division by volumes).
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from isoweave._parallel import ONE_THREAD, ThreadTeam
from isoweave._typing import FloatArray
from isoweave.engines import plain
from isoweave.graph import NeighborGraph

_ROWS_AT_ONCE = 2**13


def differences(graph: NeighborGraph, values: FloatArray) -> FloatArray:
    """``f_j - f_i`` for every stored edge; values of shape (n, ...) give (m, ...)."""
    return values[graph.indices] - values[graph.sources]


def divergence(graph: NeighborGraph, flux: FloatArray, team: ThreadTeam) -> FloatArray:
    """Adjoint of :func:`differences`: shape (m, c) to (n, c) (eq. 7)."""
    out = np.empty((graph.n_vertices, flux.shape[1]))
    if len(flux) <= plain.FEW:
        plain.divergence(graph.sources, graph.reverse, flux, out)
        return out
    from isoweave.engines import alignment as kernels

    team.run(kernels.divergence, graph.n_vertices, graph.indptr, graph.reverse, flux, out)
    return out


def edge_laplacian(graph: NeighborGraph, weights: FloatArray, team: ThreadTeam = ONE_THREAD) -> sp.csr_array:
    """Weighted graph Laplacian, CSR of shape (n, n), with the pattern of the graph (eq. 8): an M-matrix.

    ``weights`` (m,) belong to the stored directions; an edge has the sum of its two.
    """
    n, bounds = graph.n_vertices, graph.indptr
    # Made here if nobody has asked before: in the ranges every thread would make its own.
    sources, reverse = graph.sources, graph.reverse
    both, sizes = np.empty_like(weights), np.zeros(n + 1, dtype=np.int32)

    def weigh(start: int, stop: int) -> None:
        edges = slice(bounds[start], bounds[stop])
        np.add(weights[edges], weights[reverse[edges]], out=both[edges])
        degrees = np.bincount(sources[edges][both[edges] > 0] - start, minlength=stop - start)
        sizes[start + 1 : stop + 1] = degrees + (degrees > 0)

    team.run(weigh, n, grain=_ROWS_AT_ONCE)
    indptr = np.cumsum(sizes, dtype=np.int32)
    indices, data = np.empty(indptr[-1], dtype=np.int32), np.empty(indptr[-1])

    def fill(start: int, stop: int) -> None:
        edges, rows = slice(bounds[start], bounds[stop]), slice(indptr[start], indptr[stop])
        keep = both[edges] > 0
        i, j, values = sources[edges][keep], graph.indices[edges][keep], both[edges][keep]
        if len(values) == 0:
            return
        first = np.ones(len(i), dtype=bool)
        first[1:] = i[1:] != i[:-1]
        firsts = np.flatnonzero(first)
        # Entries stand in order, those of the diagonal where room is left between them.
        place = np.arange(len(i)) + np.cumsum(first) - 1 + (j > i)
        own = np.ones(len(i) + len(firsts), dtype=bool)
        own[place] = False
        indices[rows][place], data[rows][place] = j, -values
        indices[rows][own], data[rows][own] = i[firsts], np.add.reduceat(values, firsts)

    team.run(fill, n, grain=_ROWS_AT_ONCE)
    return sp.csr_array((data, indices, indptr), shape=(n, n))


def paper_differential(graph: NeighborGraph, inverse: FloatArray) -> sp.csr_array:
    """The paper's differential as one sparse matrix d of shape (n N, n) (eq. 6).

    Row ``i * N + k`` holds ``P_i[j, k]`` at j and minus their sum at i, so that ``d f`` are the N components
    of the differential of f at every vertex. ``d 1 = 0``.
    """
    n, n_components = graph.n_vertices, inverse.shape[1]
    rows = (graph.sources[:, None].astype(np.int64) * n_components + np.arange(n_components)).ravel()
    off = sp.csr_array(
        (inverse.ravel(), (rows, np.repeat(graph.indices, n_components))), shape=(n * n_components, n)
    )
    centre = (-off.sum(axis=1), np.repeat(np.arange(n), n_components), np.arange(n * n_components + 1))
    return sp.csr_array(off + sp.csr_array(centre, shape=off.shape))
