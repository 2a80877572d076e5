"""Spectral methods on graphs: geodesics take the place of feature vectors.

The local methods build a sparse positive semi-definite matrix from neighbourhoods and embed by its smallest
eigenvectors. scikit-learn's versions take feature vectors only; the formulas here are theirs, read from Gram
matrices of geodesics.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.linalg import eigsh
from sklearn.utils import check_random_state

from isoweave._typing import AnyArray, FloatArray
from isoweave.graph import NeighborGraph, geodesics

_DENSE_UP_TO = 2000
# scikit-learn's: a multiple of the trace added to a local Gram matrix's diagonal.
_LLE_REGULARISATION = 1e-3


def all_geodesics(graph: NeighborGraph) -> FloatArray:
    """Shortest-path distances between all vertices of a connected graph, shape (n, n), symmetric."""
    distances = geodesics(graph)
    # A path summed from its other end may differ in the last bit.
    np.minimum(distances, distances.T, out=distances)
    return distances


def isomap(graph: NeighborGraph, n_components: int, *, n_jobs: int | None = None) -> FloatArray:
    """scikit-learn's Isomap on the edges of the graph: classical MDS of its shortest paths."""
    from sklearn.manifold import Isomap
    from sklearn.neighbors import sort_graph_by_row_values

    # Zero lengths are raised a little, lest a stored zero be read as no edge.
    positive = graph.lengths[graph.lengths > 0.0]
    least = 1e-9 * float(np.median(positive)) if len(positive) else 1.0
    matrix = sp.csr_matrix(graph.to_matrix().copy())
    matrix.data = np.maximum(matrix.data, least)
    matrix = sort_graph_by_row_values(matrix, copy=True, warn_when_not_sorted=False)
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
    distances = all_geodesics(graph)
    n = len(distances)
    width = float(np.median(distances[np.triu_indices(n, k=1)])) or 1.0
    kernel = np.exp(-0.5 * (distances / width) ** 2)
    density = kernel.sum(axis=1)
    kernel /= density[:, None] * density
    degree = np.sqrt(kernel.sum(axis=1))
    kernel /= degree[:, None] * degree
    values, vectors = scipy.linalg.eigh(kernel, subset_by_index=(n - 1 - n_components, n - 1))
    right = (vectors / degree[:, None])[:, ::-1]
    # The first one is constant; dividing by it makes the scale that of the stationary distribution.
    coordinates = right[:, 1:] / right[:, :1]
    signs = np.sign(np.sum(_oriented(coordinates) * coordinates, axis=0))
    result: FloatArray = coordinates * signs * values[::-1][1:]
    return result


def lle(graph: NeighborGraph, n_components: int, *, random_state: Any = None) -> FloatArray:
    """Locally linear embedding: every point as the weighted mean of its neighbours.

    Weights solve ``G_i w = 1`` with ``G_i`` the regularised Gram matrix of the geodesics seen from i, by the
    law of cosines.
    """
    distances = all_geodesics(graph)
    n = graph.n_vertices
    weights, columns, counts = [], [], np.empty(n, dtype=np.intp)
    for i, members in neighborhoods(graph, distances, n_components + 1):
        to_i = distances[i, members] ** 2
        among = distances[np.ix_(members, members)] ** 2
        values, vectors = np.linalg.eigh(0.5 * (to_i[:, None] + to_i - among))
        # Grams of shortest paths have negative eigenvalues; weights need a positive definite matrix.
        values = np.maximum(values, 0.0)
        values += _LLE_REGULARISATION * values.sum() if values[-1] > 0.0 else 1.0
        solved = vectors @ ((vectors.T @ np.ones(len(members))) / values)
        weights.append(solved / solved.sum())
        columns.append(members)
        counts[i] = len(members)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    mean = sp.csr_array((np.concatenate(weights), np.concatenate(columns), indptr), shape=(n, n))
    residual = sp.csr_array(sp.eye_array(n) - mean)
    return smallest_eigenvectors(sp.csr_array(residual.T @ residual), n_components, random_state)


def ltsa(graph: NeighborGraph, n_components: int, *, random_state: Any = None) -> FloatArray:
    """Local tangent space alignment: what an affine function of tangent coordinates leaves, summed."""
    distances = all_geodesics(graph)
    blocks = []
    for i, others in neighborhoods(graph, distances, n_components + 2):
        members = np.append(others, i)
        tangent = _tangent_coordinates(members, distances, n_components)
        basis = np.column_stack([np.full(len(members), len(members) ** -0.5), tangent])
        blocks.append((members, np.eye(len(members)) - basis @ basis.T))
    return smallest_eigenvectors(_assemble(blocks, graph.n_vertices), n_components, random_state)


def hessian_lle(graph: NeighborGraph, n_components: int, *, random_state: Any = None) -> FloatArray:
    """Hessian eigenmaps: second derivatives in tangent coordinates, squared and summed.

    A neighbourhood needs more than ``N (N + 3) / 2`` neighbours and is filled up to that number.
    """
    distances = all_geodesics(graph)
    first, second = np.triu_indices(n_components)
    n_affine = 1 + n_components
    blocks = []
    for _, members in neighborhoods(graph, distances, n_affine + len(first)):
        tangent = _tangent_coordinates(members, distances, n_components)
        design = np.column_stack([np.ones(len(members)), tangent, tangent[:, first] * tangent[:, second]])
        hessian = np.linalg.qr(design)[0][:, n_affine:]
        sums = hessian.sum(axis=0)
        hessian = hessian / np.where(np.abs(sums) < 1e-4, 1.0, sums)
        blocks.append((members, hessian @ hessian.T))
    return smallest_eigenvectors(_assemble(blocks, graph.n_vertices), n_components, random_state)


def neighborhoods(
    graph: NeighborGraph, distances: FloatArray, n_least: int
) -> Iterator[tuple[int, AnyArray]]:
    """Every vertex with its neighbours, filled up to ``n_least`` by the vertices nearest along the graph.

    The methods were made for k nearest neighbours with k free; given a graph, k is what it is, and some of
    them have no answer below a number that grows with N.
    """
    n_least = min(n_least, graph.n_vertices - 1)
    for i in range(graph.n_vertices):
        members = graph.indices[graph.indptr[i] : graph.indptr[i + 1]]
        if len(members) < n_least:
            away = distances[i].copy()
            away[i] = -1.0
            away[members] = -1.0  # stay in, whatever is nearer
            order = np.argsort(away, kind="stable")
            members = np.setdiff1d(order[: n_least + 1], [i])
        yield i, members


def _tangent_coordinates(members: AnyArray, distances: FloatArray, n_components: int) -> FloatArray:
    """Leading eigenvectors (d, N) of the members' centred Gram matrix: classical MDS, columns orthonormal."""
    squared = distances[np.ix_(members, members)] ** 2
    means = squared.mean(axis=0)
    gram = -0.5 * (squared - means - means[:, None] + means.mean())
    _, vectors = np.linalg.eigh(gram)
    leading: FloatArray = vectors[:, ::-1][:, :n_components]
    return leading


def _assemble(blocks: list[tuple[AnyArray, FloatArray]], n: int) -> sp.csr_array:
    """Sum of dense blocks, each on its own rows and columns."""
    rows = np.concatenate([np.repeat(members, len(members)) for members, _ in blocks])
    cols = np.concatenate([np.tile(members, len(members)) for members, _ in blocks])
    values = np.concatenate([block.ravel() for _, block in blocks])
    total = sp.csr_array((values, (rows, cols)), shape=(n, n))
    total.sum_duplicates()
    return sp.csr_array(0.5 * (total + total.T))


def smallest_eigenvectors(matrix: sp.csr_array, n_vectors: int, random_state: Any = None) -> FloatArray:
    """Eigenvectors (n, n_vectors) of the smallest eigenvalues of a matrix whose kernel holds the constants.

    The constant is left out; columns are orthogonal, of mean square 1, their largest entry positive.
    """
    n = matrix.shape[0]
    if n <= _DENSE_UP_TO or n_vectors + 1 >= n // 2:
        _, vectors = scipy.linalg.eigh(matrix.toarray(), subset_by_index=(0, n_vectors))
    else:
        # A shift just below zero: the matrix itself is singular.
        shift = -1e-10 * float(matrix.diagonal().mean())
        v0 = check_random_state(random_state).uniform(-1.0, 1.0, n)
        values, vectors = eigsh(sp.csc_array(matrix), n_vectors + 1, sigma=shift, v0=v0)
        vectors = vectors[:, np.argsort(values)]
    # Where the kernel is larger than the constants they are mixed with the rest of it: take them out first.
    constant = np.full((n, 1), n**-0.5)
    overlap = vectors.T @ constant
    rotation, _ = np.linalg.qr(np.hstack([overlap, np.eye(n_vectors + 1)]))
    return _oriented(vectors @ rotation[:, 1:]) if abs(overlap[0, 0]) < 0.999 else _oriented(vectors[:, 1:])


def _oriented(vectors: FloatArray) -> FloatArray:
    """Columns scaled to mean square 1, their largest entry positive."""
    largest = np.abs(vectors).argmax(axis=0)
    signs = np.where(vectors[largest, np.arange(vectors.shape[1])] < 0, -1.0, 1.0)
    scaled: FloatArray = vectors * (signs * np.sqrt(len(vectors)))
    return scaled
