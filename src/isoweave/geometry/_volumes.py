"""Volumes of neighbourhoods, the weights of the paper's inner product."""

from __future__ import annotations

from math import lgamma, pi

import numpy as np
from scipy.spatial import ConvexHull, QhullError

from isoweave._typing import FloatArray
from isoweave.geometry._frames import LocalFrames
from isoweave.graph import NeighborGraph

VOLUMES = ("equal", "hull")

# From this dimension on hulls are computed of projections only: their cost grows exponentially.
KUBOTA_DIMENSION = 7
_KUBOTA_PROJECTIONS = 8


def neighborhood_volumes(
    graph: NeighborGraph, frames: LocalFrames, mode: str = "equal", *, seed: int = 20240
) -> FloatArray:
    """Weight of every vertex in the paper's inner product, with mean one.

    Parameters
    ----------
    graph : NeighborGraph
    frames : LocalFrames
    mode : {"equal", "hull"}
        "hull": volume of the convex hull of the vertex and its neighbours in the local frame.
        For N >= 7 the mean volume of projections to 7 dimensions, turned into an N-volume as Kubota's
        formula does for a ball.
    seed : int
        Of the projections' directions.

    Notes
    -----
    Hull volumes span many orders of magnitude in high dimension. They are divided by their mean, and a
    flat neighbourhood, which has volume zero, gets the smallest positive one: with weight zero its vertex
    would be invisible.
    """
    n = graph.n_vertices
    if mode == "equal":
        return np.ones(n)
    if mode != "hull":
        raise ValueError(f"volumes must be one of {VOLUMES}, got {mode!r}.")
    dimension = frames.n_components
    target = min(dimension, KUBOTA_DIMENSION)
    projections = [np.eye(dimension)]
    if dimension >= KUBOTA_DIMENSION and dimension > target:
        rng = np.random.default_rng(seed)
        projections = [
            np.linalg.qr(rng.standard_normal((dimension, target)))[0] for _ in range(_KUBOTA_PROJECTIONS)
        ]
    volumes = np.zeros(n)
    for i in range(n):
        rows = frames.rows[graph.indptr[i] : graph.indptr[i + 1]]
        points = np.vstack((np.zeros(dimension), rows))
        volumes[i] = np.mean([_hull_volume(points @ p) for p in projections])
    if target < dimension:
        # A ball of radius r has projections of volume k_t r^t: r gives the N-volume k_N r^N.
        log_radius = np.log(np.maximum(volumes, 1e-300)) - _log_unit_ball(target)
        volumes = np.where(
            volumes > 0, np.exp(_log_unit_ball(dimension) + log_radius * dimension / target), 0.0
        )
    positive = volumes[volumes > 0]
    if positive.size == 0:
        return np.ones(n)
    volumes = np.maximum(volumes, positive.min())
    return volumes / volumes.mean()


def _log_unit_ball(dimension: int) -> float:
    """Logarithm of the volume of the unit ball."""
    return 0.5 * dimension * np.log(pi) - lgamma(0.5 * dimension + 1.0)


def _hull_volume(points: FloatArray) -> float:
    """Volume of the convex hull; zero when the points lie in a hyperplane or are too few."""
    n_points, dimension = points.shape
    if n_points <= dimension:
        return 0.0
    if dimension == 1:
        return float(np.ptp(points))
    try:
        return float(ConvexHull(points).volume)
    except QhullError:
        return 0.0
