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
from isoweave.graph import NeighborGraph, row_starts


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
    n, both = graph.n_vertices, weights + team.take(weights, graph.reverse)
    keep = both > 0
    values, starts = both[keep], row_starts(graph.sources[keep], n)
    filled = np.diff(starts) > 0
    diagonal = np.zeros(n)
    diagonal[filled] = np.add.reduceat(values, starts[:-1][filled])
    off = sp.csr_array((values, graph.indices[keep], starts), shape=(n, n))
    return sp.csr_array(sp.diags_array(diagonal) - off)


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
