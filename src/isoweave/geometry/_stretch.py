"""How much the map stretches every neighbourhood."""

from __future__ import annotations

import numpy as np

from isoweave._parallel import ONE_THREAD, ThreadTeam
from isoweave._typing import FloatArray
from isoweave.geometry._frames import LocalFrames
from isoweave.graph import NeighborGraph


def local_stretch(
    graph: NeighborGraph, frames: LocalFrames, coordinates: FloatArray, *, team: ThreadTeam = ONE_THREAD
) -> FloatArray:
    """Singular values of the local differential, shape (n, N), largest first (eq. 17).

    The differential M_i is the least-squares fit ``E_i M_i = dphi_i``; an isometry has all values 1.
    Directions that a neighbourhood does not have carry no information and are given the value 1.
    """
    from isoweave.engines import alignment as kernels

    n, n_components = coordinates.shape
    gram = np.empty((n, n_components, n_components))
    cross = np.empty_like(gram)
    arrays = (graph.indptr, graph.indices, frames.included, frames.rows, np.ascontiguousarray(coordinates))
    team.run(kernels.normal_equations, n, *arrays, gram, cross)
    values, vectors = np.linalg.eigh(gram)
    present = values > 1e-10 * np.maximum(values[:, -1:], np.finfo(float).tiny)
    inverse = np.where(present, 1.0 / np.where(present, values, 1.0), 0.0)
    fit = (vectors * inverse[:, None, :]) @ (vectors.transpose(0, 2, 1) @ cross)
    stretch = np.linalg.svd(fit, compute_uv=False)
    # Absent directions come out as the smallest singular values, zero; they are the last ones.
    return np.where(np.arange(n_components) < present.sum(axis=1)[:, None], stretch, 1.0)
