"""Dense, loop-based differential, divergence, Laplacian and energy."""

from __future__ import annotations

import numpy as np

from reference_graphs import row_of


def inner_matrix(graph, inner, i):
    """W_i as a dense matrix over the neighbours of i; ``inner`` has weights per edge or inverse frames."""
    lo, hi = graph.indptr[i], graph.indptr[i + 1]
    if hasattr(inner, "weights"):
        return np.diag(inner.weights[lo:hi])
    return inner.inverse[lo:hi] @ inner.inverse[lo:hi].T


def differences_at(graph, i, values):
    """Matrix of f_j - f_i over the neighbours of i."""
    return np.array([values[j] - values[i] for _, j, _ in row_of(graph, i)])


def laplacian_loop(graph, inner):
    """Sum over vertices of delta^T W delta, from its definition."""
    n = graph.n_vertices
    deltas = [differences_at(graph, i, np.eye(n)) for i in range(n)]
    return sum(delta.T @ inner_matrix(graph, inner, i) @ delta for i, delta in enumerate(deltas))


def inverse_matrices(graph, inner):
    """The paper's FrmInv: one dense n x n matrix per direction."""
    matrices = np.zeros((inner.inverse.shape[1], graph.n_vertices, graph.n_vertices))
    for i in range(graph.n_vertices):
        for e, j, _ in row_of(graph, i):
            matrices[:, i, j] = inner.inverse[e]
    return matrices


def laplacian_printed(graph, inner):
    """The paper's formula for the Laplacian (eq_lplc).

    In the last term the row sums multiply the rows of F and the columns of F^T, as the entry-wise form of the
    appendix (eqApp_lplc) has it; rows of both, as printed, would not be symmetric.
    """
    total = 0.0
    for f in inverse_matrices(graph, inner):
        sums = f.sum(axis=1)
        total = total + f.T @ f + np.diag(sums**2) - (sums[:, None] * f + f.T * sums[None, :])
    return total


def laplacian_appendix(graph, inner):
    """The entry-wise form of the paper's appendix (eqApp_lplc)."""
    f = inverse_matrices(graph, inner)
    n, sums = graph.n_vertices, f.sum(axis=2)
    result = np.zeros((n, n))
    for i in range(n):
        for k in range(n):
            result[i, k] = sum(f[:, j, i] @ f[:, j, k] for j in range(n))
            result[i, k] += (sums[:, i] @ sums[:, i]) * (i == k)
            result[i, k] -= f[:, k, i] @ sums[:, k] + f[:, i, k] @ sums[:, i]
    return result


def divergence_loop(graph, flux):
    """Adjoint of the differences: every edge gives to its end and takes from its source."""
    out = np.zeros((graph.n_vertices, flux.shape[1]))
    for i in range(graph.n_vertices):
        for e, j, _ in row_of(graph, i):
            out[j] += flux[e]
            out[i] -= flux[e]
    return out


def best_rotation(matrix):
    u, _, vt = np.linalg.svd(matrix)
    return u @ vt


def energy_loop(graph, frames, inner, coordinates, alignments=None):
    """Energies per vertex, alignments (the best ones unless given) and half the gradient."""
    n, n_components = coordinates.shape
    energies, rotations = np.zeros(n), np.zeros((n, n_components, n_components))
    flux = np.zeros((len(graph.indices), n_components))
    for i in range(n):
        at = slice(graph.indptr[i], graph.indptr[i + 1])
        w, e, steps = inner_matrix(graph, inner, i), frames.rows[at], differences_at(graph, i, coordinates)
        rotations[i] = best_rotation(e.T @ w @ steps) if alignments is None else alignments[i]
        residual = steps - e @ rotations[i]
        flux[at] = w @ residual
        energies[i] = np.sum(residual * flux[at])
    return energies, rotations, divergence_loop(graph, flux)
