"""How much the map stretches every neighbourhood."""

from __future__ import annotations

import numpy as np

from isoweave._typing import FloatArray
from isoweave.frames._frames import LocalFrames
from isoweave.graph._graph import NeighborGraph
from isoweave.operators import differences

_BLOCK = 65_536


def local_stretch(graph: NeighborGraph, frames: LocalFrames, coordinates: FloatArray) -> FloatArray:
    """Singular values of the local differential, shape (n, N), largest first (eq. 17).

    The differential M_i is the least-squares fit ``E_i M_i = dphi_i``; an isometry has all values 1.
    Directions that a neighbourhood does not have carry no information and are given the value 1.
    """
    n, n_components = coordinates.shape
    steps = np.where(frames.included[:, None], differences(graph, coordinates), 0.0)
    result = np.ones((n, n_components))
    for lo in range(0, n, _BLOCK):
        hi = min(lo + _BLOCK, n)
        a, b = graph.indptr[lo], graph.indptr[hi]
        if a == b:
            continue
        local = graph.sources[a:b] - lo
        gram = np.zeros((hi - lo, n_components, n_components))
        cross = np.zeros_like(gram)
        np.add.at(gram, local, frames.rows[a:b, :, None] * frames.rows[a:b, None, :])
        np.add.at(cross, local, frames.rows[a:b, :, None] * steps[a:b, None, :])
        values, vectors = np.linalg.eigh(gram)
        present = values > 1e-10 * np.maximum(values[:, -1:], np.finfo(float).tiny)
        inverse = np.where(present, 1.0 / np.where(present, values, 1.0), 0.0)
        fit = np.einsum("iak,ik,ibk,ibc->iac", vectors, inverse, vectors, cross)
        stretch = np.linalg.svd(fit, compute_uv=False)
        # Absent directions come out as the smallest singular values, zero; they are the last ones.
        rank = present.sum(axis=1)
        result[lo:hi] = np.where(np.arange(n_components) < rank[:, None], stretch, 1.0)
    return result
