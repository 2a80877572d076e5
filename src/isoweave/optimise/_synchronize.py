"""Synchronized start: rotations that agree along as many edges as possible."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from isoweave._parallel import ThreadTeam
from isoweave._typing import FloatArray
from isoweave.geometry import LocalFrames
from isoweave.graph import NeighborGraph
from isoweave.linalg import lowest_eigenvectors


def frame_transitions(
    graph: NeighborGraph, frames: LocalFrames, team: ThreadTeam
) -> tuple[FloatArray, FloatArray]:
    """Orthogonal maps between the frames at the ends of every edge, and how much they explain (eq. 14)."""
    from isoweave.engines import alignment as kernels

    n_components, m = frames.n_components, len(graph.indices)
    transitions, weights = np.empty((m, n_components, n_components)), np.empty(m)
    arrays = (graph.indptr, graph.indices, frames.rows, frames.included)
    team.run(kernels.frame_transitions, graph.n_vertices, *arrays, transitions, weights)
    return transitions, weights


def connection_laplacian(graph: NeighborGraph, frames: LocalFrames, team: ThreadTeam) -> sp.csr_array:
    """Quadratic form ``sum_ij w_ij |Q_i - O_ij Q_j|^2`` as a sparse matrix of shape (n N, n N) (eq. 15).

    Symmetric positive semi-definite; its kernel has dimension N exactly when the transitions O_ij are
    consistent around every loop, as they are on flat data.
    """
    n, n_components = graph.n_vertices, frames.n_components
    transitions, weights = frame_transitions(graph, frames, team)
    # Frames of hubs hold only some of their neighbours, so the two directions may see different overlaps.
    weights = 0.5 * (weights + weights[graph.reverse])
    agreed = 0.5 * (transitions + transitions[graph.reverse].transpose(0, 2, 1))
    blocks = -weights[:, None, None] * agreed
    off = sp.bsr_array((blocks, graph.indices, graph.indptr), shape=(n * n_components, n * n_components))
    degree = np.bincount(graph.sources, weights=weights, minlength=n)
    return sp.csr_array(sp.csr_array(off) + sp.diags_array(np.repeat(degree, n_components)))


def synchronized_alignments(graph: NeighborGraph, frames: LocalFrames, team: ThreadTeam) -> FloatArray:
    """Orthogonal Q_i, shape (n, N, N): eigenvectors of the connection Laplacian, projected (eq. 16).

    Each vertex's block of the eigenvectors is projected to O(N) on its own.
    """
    n, n_components = graph.n_vertices, frames.n_components
    _, vectors = lowest_eigenvectors(connection_laplacian(graph, frames, team), n_components)
    blocks = vectors.reshape(n, n_components, n_components)
    u, _, vt = np.linalg.svd(blocks)
    return u @ vt
