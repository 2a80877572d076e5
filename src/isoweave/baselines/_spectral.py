"""Isomap, Laplacian eigenmaps and diffusion maps."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from isoweave._typing import FloatArray
from isoweave.baselines._eigen import oriented
from isoweave.baselines._geodesics import all_geodesics
from isoweave.graph import NeighborGraph


def isomap(graph: NeighborGraph, n_components: int, *, n_jobs: int | None = None) -> FloatArray:
    """scikit-learn's Isomap on the edges of the graph: classical MDS of its shortest paths."""
    from sklearn.manifold import Isomap
    from sklearn.neighbors import sort_graph_by_row_values

    matrix = sort_graph_by_row_values(_positive(graph), copy=True, warn_when_not_sorted=False)
    # An infinite radius takes every stored edge, however many a vertex has.
    model = Isomap(
        n_neighbors=None, radius=np.inf, n_components=n_components, metric="precomputed", n_jobs=n_jobs
    )
    embedding: FloatArray = model.fit_transform(matrix)
    return embedding


def laplacian_eigenmaps(graph: NeighborGraph, n_components: int, *, random_state: Any = None) -> FloatArray:
    """scikit-learn's spectral embedding; affinity ``exp(-d^2 / (2 s^2))``, s the median edge length."""
    from sklearn.manifold import SpectralEmbedding

    width = float(np.median(graph.lengths)) or 1.0
    affinity = sp.csr_matrix(graph.to_matrix().copy())
    affinity.data = np.exp(-0.5 * (affinity.data / width) ** 2)
    # An edge far longer than the rest would underflow and cut the graph.
    affinity.data = np.maximum(affinity.data, 1e-12)
    model = SpectralEmbedding(
        n_components=n_components, affinity="precomputed", eigen_solver="arpack", random_state=random_state
    )
    vectors: FloatArray = model.fit_transform(affinity)
    return vectors / np.sqrt(np.mean(vectors**2, axis=0))


def diffusion_maps(graph: NeighborGraph, n_components: int) -> FloatArray:
    """Diffusion maps, one step, of a Gaussian kernel of all geodesics.

    The kernel's width is the median geodesic; the density of the sampling is divided out (alpha = 1).
    Coordinates are right eigenvectors of the transition matrix times their eigenvalues.
    """
    geodesics = all_geodesics(graph)
    n = len(geodesics)
    width = float(np.median(geodesics[np.triu_indices(n, k=1)])) or 1.0
    kernel = np.exp(-0.5 * (geodesics / width) ** 2)
    density = kernel.sum(axis=1)
    kernel /= density[:, None] * density
    degree = np.sqrt(kernel.sum(axis=1))
    kernel /= degree[:, None] * degree
    values, vectors = scipy.linalg.eigh(kernel, subset_by_index=(n - 1 - n_components, n - 1))
    right = (vectors / degree[:, None])[:, ::-1]
    # The first one is constant; dividing by it makes the scale that of the stationary distribution.
    coordinates = right[:, 1:] / right[:, :1]
    signs = np.sign(np.sum(oriented(coordinates) * coordinates, axis=0))
    result: FloatArray = coordinates * signs * values[::-1][1:]
    return result


def _positive(graph: NeighborGraph) -> sp.csr_matrix:
    """The graph's matrix with zero lengths raised a little, lest a stored zero be read as no edge."""
    positive = graph.lengths[graph.lengths > 0.0]
    least = 1e-9 * float(np.median(positive)) if len(positive) else 1.0
    matrix = sp.csr_matrix(graph.to_matrix().copy())
    matrix.data = np.maximum(matrix.data, least)
    return matrix
