"""Local spectral methods on graphs: geodesics among neighbours in place of feature vectors.

Each builds a sparse positive semi-definite matrix from neighbourhoods and embeds by its smallest
eigenvectors. scikit-learn's versions take feature vectors only; the formulas here are theirs, read from Gram
matrices.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from isoweave._typing import AnyArray, FloatArray
from isoweave.baselines._eigen import smallest_eigenvectors
from isoweave.baselines._geodesics import all_geodesics, gram_about, neighborhoods, tangent_coordinates
from isoweave.graph import NeighborGraph

# scikit-learn's: a multiple of the trace added to a local Gram matrix's diagonal.
_LLE_REGULARISATION = 1e-3


def lle(graph: NeighborGraph, n_components: int, *, random_state: Any = None) -> FloatArray:
    """Locally linear embedding: every point as the weighted mean of its neighbours.

    Weights solve ``G_i w = 1`` with ``G_i`` the regularised Gram matrix of the geodesics seen from i.
    """
    geodesics = all_geodesics(graph)
    n = graph.n_vertices
    weights, columns, counts = [], [], np.empty(n, dtype=np.intp)
    for i, members in neighborhoods(graph, geodesics, n_components + 1):
        values, vectors = np.linalg.eigh(gram_about(i, members, geodesics))
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
    geodesics = all_geodesics(graph)
    blocks = []
    for i, others in neighborhoods(graph, geodesics, n_components + 2):
        members = np.append(others, i)
        tangent = tangent_coordinates(members, geodesics, n_components)
        basis = np.column_stack([np.full(len(members), len(members) ** -0.5), tangent])
        blocks.append((members, np.eye(len(members)) - basis @ basis.T))
    return smallest_eigenvectors(_assemble(blocks, graph.n_vertices), n_components, random_state)


def hessian_lle(graph: NeighborGraph, n_components: int, *, random_state: Any = None) -> FloatArray:
    """Hessian eigenmaps: second derivatives in tangent coordinates, squared and summed.

    A neighbourhood needs more than ``N (N + 3) / 2`` neighbours and is filled up to that number.
    """
    geodesics = all_geodesics(graph)
    pairs = np.triu_indices(n_components)
    n_affine = 1 + n_components
    blocks = []
    for _, members in neighborhoods(graph, geodesics, n_affine + len(pairs[0])):
        tangent = tangent_coordinates(members, geodesics, n_components)
        design = np.column_stack(
            [np.ones(len(members)), tangent, tangent[:, pairs[0]] * tangent[:, pairs[1]]]
        )
        hessian = np.linalg.qr(design)[0][:, n_affine:]
        sums = hessian.sum(axis=0)
        hessian = hessian / np.where(np.abs(sums) < 1e-4, 1.0, sums)
        blocks.append((members, hessian @ hessian.T))
    return smallest_eigenvectors(_assemble(blocks, graph.n_vertices), n_components, random_state)


def _assemble(blocks: list[tuple[AnyArray, FloatArray]], n: int) -> sp.csr_array:
    """Sum of dense blocks, each on its own rows and columns."""
    rows = np.concatenate([np.repeat(members, len(members)) for members, _ in blocks])
    cols = np.concatenate([np.tile(members, len(members)) for members, _ in blocks])
    values = np.concatenate([block.ravel() for _, block in blocks])
    total = sp.csr_array((values, (rows, cols)), shape=(n, n))
    total.sum_duplicates()
    return sp.csr_array(0.5 * (total + total.T))
