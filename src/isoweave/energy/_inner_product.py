"""Inner products of 1-forms: how much a mismatch on each edge counts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from isoweave._typing import FloatArray
from isoweave.geometry._frames import LocalFrames
from isoweave.graph._graph import NeighborGraph

EDGE_WEIGHTS = ("uniform", "inverse", "inverse-square")


@dataclass(frozen=True, eq=False)
class EdgeInnerProduct:
    """Diagonal and positive: ``W_i = diag(weights)``. Zero where a frame has no row.

    Attributes
    ----------
    weights : float64 array of shape (m,)
    """

    weights: FloatArray


@dataclass(frozen=True, eq=False)
class RankInnerProduct:
    """The paper's: ``W_i = P_i P_i^T``, of rank N.

    Attributes
    ----------
    inverse : float64 array of shape (m, N)
        Rows of P_i, the volume's root included (eq. 4).
    """

    inverse: FloatArray


InnerProduct = EdgeInnerProduct | RankInnerProduct


def edge_inner_product(
    graph: NeighborGraph,
    frames: LocalFrames,
    weights: str = "uniform",
    confidence: FloatArray | None = None,
) -> EdgeInnerProduct:
    """One weight per edge: 1, 1/d or 1/d^2, relative to the median length.

    ``confidence``, positive of shape (m,), multiplies it (eq. 18).
    """
    if weights not in EDGE_WEIGHTS:
        raise ValueError(f"edge weights must be one of {EDGE_WEIGHTS}, got {weights!r}.")
    power = EDGE_WEIGHTS.index(weights)
    if power == 0 or len(graph.lengths) == 0:
        values = np.ones(len(graph.lengths))
    else:
        typical = np.median(graph.lengths)
        # Lengths far under the median (near duplicates) must not outweigh everything else.
        values = (typical / np.maximum(graph.lengths, 1e-3 * typical)) ** power
    if confidence is not None:
        values = values * confidence
    return EdgeInnerProduct(weights=np.where(frames.included, values, 0.0))


def rank_inner_product(frames: LocalFrames, volumes: FloatArray, graph: NeighborGraph) -> RankInnerProduct:
    """The paper's inner product from the inverse frames and the volumes of the neighbourhoods."""
    if frames.inverse is None:
        raise ValueError("The paper's inner product needs frames made with with_inverse=True.")
    return RankInnerProduct(inverse=np.sqrt(volumes)[graph.sources, None] * frames.inverse)
