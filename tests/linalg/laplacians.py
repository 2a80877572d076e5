"""Laplacians of neighbourhood graphs for the tests of the solvers."""

from __future__ import annotations

from functools import cache

import numpy as np
import scipy.sparse as sp
from scipy.spatial import cKDTree

from isoweave._parallel import ONE_THREAD
from isoweave.linalg import factor

TEAM = ONE_THREAD


def factored(lap, solver="auto", *, tol=1e-10):
    """The state of a solver for three columns, in one thread."""
    return factor(lap, solver=solver, n_components=3, tol=tol)


def random_block(n, width, seed):
    return np.random.default_rng(seed).normal(size=(n, width))


def neighbors(n, dim, k, seed, shift):
    """Random points, those beyond the first third ``shift`` away, and their kNN pairs."""
    points = np.random.default_rng(seed).random((n, dim))
    points[n // 3 :, 0] += shift
    near = cKDTree(points).query(points, k + 1)[1]
    pairs = np.column_stack([np.repeat(near[:, 0], k), near[:, 1:].ravel()])
    return points, np.unique(np.sort(pairs, axis=1), axis=0).T


@cache
def edge_laplacian(n, dim=2, k=8, seed=11, shift=0.0, power=-2.0):
    """Graph Laplacian with weights ``d^power``; two far clouds if ``shift``."""
    points, (i, j) = neighbors(n, dim, k, seed, shift)
    weights = np.linalg.norm(points[i] - points[j], axis=1) ** power
    adjacency = sp.coo_array((weights, (i, j)), shape=(n, n)).tocsr()
    adjacency = adjacency + adjacency.T
    return sp.csr_array(sp.diags_array(adjacency.sum(axis=1)) - adjacency)


@cache
def paper_laplacian(n, dim=2, k=8, seed=12, shift=0.0):
    """d^T d of least-squares gradients: pattern of A^2, positive off-diagonals."""
    points, pairs = neighbors(n, dim, k, seed, shift)
    gradients = np.zeros((dim, n, n))
    for i in range(n):
        near = np.concatenate([pairs[1][pairs[0] == i], pairs[0][pairs[1] == i]])
        inverse = np.linalg.pinv(points[near] - points[i])
        gradients[:, i, near] = inverse
        gradients[:, i, i] = -inverse.sum(axis=1)
    total = sum(sp.csr_array(d).T @ sp.csr_array(d) for d in gradients)
    return sp.csr_array((total + total.T) / 2)
