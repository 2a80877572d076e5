"""Differential, divergence and Laplacian on the graph.

Signs are stated once: ``differences`` sends f to f_j - f_i on edge (i, j), the divergence is its adjoint
(``sum_i f_i div(z)_i = sum_ij z_ij (f_j - f_i)``), and the Laplacian is divergence of weighted differences:
positive semi-definite, symmetric, with the constants of each connected component as kernel. All are
integrated quantities (no division by volumes).
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from isoweave._parallel import ThreadTeam
from isoweave._typing import FloatArray
from isoweave.energy._inner_product import EdgeInnerProduct, InnerProduct, RankInnerProduct
from isoweave.graph._graph import NeighborGraph


def differences(graph: NeighborGraph, values: FloatArray) -> FloatArray:
    """``f_j - f_i`` for every stored edge; values of shape (n, ...) give (m, ...)."""
    return values[graph.indices] - values[graph.sources]


def build_differential(graph: NeighborGraph, inner: RankInnerProduct) -> sp.csr_array:
    """The paper's differential as one sparse matrix d of shape (n N, n) (eq. 6).

    Row ``i * N + k`` holds ``P_i[j, k]`` at j and minus their sum at i, so that ``d f`` are the N components
    of the differential of f at every vertex. ``d 1 = 0``.
    """
    n, n_components = graph.n_vertices, inner.inverse.shape[1]
    columns = np.arange(n_components)
    rows = (graph.sources[:, None].astype(np.int64) * n_components + columns).ravel()
    cols = np.repeat(graph.indices, n_components)
    off = sp.csr_array((inner.inverse.ravel(), (rows, cols)), shape=(n * n_components, n))
    centre = sp.csr_array(
        (-off.sum(axis=1), (np.arange(n * n_components), np.repeat(np.arange(n), n_components))),
        shape=off.shape,
    )
    return sp.csr_array(off + centre)


def build_laplacian(graph: NeighborGraph, inner: InnerProduct) -> sp.csr_array:
    """Assembled Laplacian, CSR of shape (n, n) (eq. 8).

    Edge inner product: the weighted graph Laplacian with weights ``w_ij + w_ji`` and the pattern of
    the graph, an M-matrix. Paper's inner product: ``d^T d``, pattern of the squared graph.
    """
    n = graph.n_vertices
    if isinstance(inner, RankInnerProduct):
        d = build_differential(graph, inner)
        laplacian = sp.csr_array(d.T @ d)
        laplacian.sort_indices()
        return laplacian
    weights = inner.weights + inner.weights[graph.reverse]
    keep = weights > 0
    off = sp.csr_array((-weights[keep], (graph.sources[keep], graph.indices[keep])), shape=(n, n))
    laplacian = sp.csr_array(off + sp.diags_array(-off.sum(axis=1)))
    laplacian.sort_indices()
    return laplacian


def apply_laplacian(
    graph: NeighborGraph, inner: InnerProduct, values: FloatArray, team: ThreadTeam
) -> FloatArray:
    """``L f`` without assembling L; values of shape (n, c)."""
    steps = differences(graph, values)
    if isinstance(inner, EdgeInnerProduct):
        flux = inner.weights[:, None] * steps
    else:
        n_components = inner.inverse.shape[1]
        flux = np.empty_like(steps)
        # d f at every vertex, one direction k at a time: sums over the edges of each row.
        for c in range(values.shape[1]):
            at_vertex = np.zeros((graph.n_vertices, n_components))
            np.add.at(at_vertex, graph.sources, inner.inverse * steps[:, c : c + 1])
            flux[:, c] = np.einsum("ek,ek->e", inner.inverse, at_vertex[graph.sources])
    return divergence(graph, flux, team)


def divergence(graph: NeighborGraph, flux: FloatArray, team: ThreadTeam) -> FloatArray:
    """Adjoint of :func:`differences`: shape (m, c) to (n, c) (eq. 7)."""
    from isoweave.engines import alignment as kernels

    out = np.empty((graph.n_vertices, flux.shape[1]))
    team.run(kernels.divergence, graph.n_vertices, graph.indptr, graph.reverse, flux, out)
    return out
