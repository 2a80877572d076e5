"""Neighbour searches by trees and pair by pair, and the blocks in which all pairs are gone through.

Each search returns the k nearest other points of the given rows and their distances, nearest first.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.spatial import cKDTree
from sklearn.metrics import pairwise_distances
from sklearn.neighbors import BallTree

from isoweave._parallel import ThreadTeam
from isoweave._typing import AnyArray, FloatArray, IntArray
from isoweave.engines.neighbors import k_smallest
from isoweave.graph._features import MINKOWSKI_P, FeatureSpace

Found = tuple[IntArray, FloatArray]


def search_tree(space: FeatureSpace, k: int, rows: IntArray, team: ThreadTeam) -> Found:
    """Neighbours from a k-d tree where the metric allows one, otherwise from a ball tree."""
    points = space.points
    if space.metric == "haversine":
        # The order of great-circle distances is that of chords, for which there is a faster tree.
        neighbors, _ = _search_kd_tree(_on_sphere(points), k, rows, team, 2.0)
        return neighbors, _great_circle(points[rows][:, None, :], points[neighbors])
    if isinstance(space.metric, str) and (space.metric in MINKOWSKI_P or space.metric == "minkowski"):
        p = MINKOWSKI_P.get(space.metric) or float(space.params["p"])
        return _search_kd_tree(points, k, rows, team, p)
    ball_tree = BallTree(points, metric=space.metric, **space.params)
    neighbors, distances = np.empty((len(rows), k + 1), dtype=np.int32), np.empty((len(rows), k + 1))

    def query(lo: int, hi: int) -> None:
        distances[lo:hi], neighbors[lo:hi] = ball_tree.query(points[rows[lo:hi]], k + 1)

    over_blocks(team, len(rows), len(points), query)
    return _without_self(neighbors, distances, rows)


def _search_kd_tree(points: FloatArray, k: int, rows: IntArray, team: ThreadTeam, p: float) -> Found:
    tree = cKDTree(points)
    if len(rows) < len(points):
        distances, neighbors = tree.query(points[rows], k + 1, p=p, workers=team.n_threads)
        return _without_self(neighbors, distances, rows)
    # In the order of the leaves: successive queries then touch the same part of the tree.
    order = tree.indices
    neighbors, distances = np.empty((len(rows), k + 1), dtype=np.int32), np.empty((len(rows), k + 1))
    distances[order], neighbors[order] = tree.query(points[order], k + 1, p=p, workers=team.n_threads)
    return _without_self(neighbors, distances, rows)


def _on_sphere(points: FloatArray) -> FloatArray:
    """Unit vectors of (latitude, longitude) in radians."""
    if points.shape[1] != 2:
        raise ValueError(
            "metric='haversine' is for two features, latitude and longitude in radians, "
            f"got {points.shape[1]}."
        )
    latitude, longitude = points.T
    across = np.cos(latitude)
    return np.column_stack([across * np.cos(longitude), across * np.sin(longitude), np.sin(latitude)])


def _great_circle(a: FloatArray, b: FloatArray) -> FloatArray:
    """Angle between points (latitude, longitude), accurate however near they are."""
    sines = np.sin(0.5 * (a - b)) ** 2
    chord = sines[..., 0] + np.cos(a[..., 0]) * np.cos(b[..., 0]) * sines[..., 1]
    return 2 * np.arcsin(np.sqrt(np.minimum(chord, 1.0)))


def _without_self(neighbors: AnyArray, distances: FloatArray, rows: IntArray) -> Found:
    """Drop each row's own entry, or the last one where it is missing."""
    drop = neighbors == rows[:, None]
    drop[~drop.any(axis=1), -1] = True
    shape = (len(rows), neighbors.shape[1] - 1)
    return neighbors[~drop].reshape(shape).astype(np.int32), distances[~drop].reshape(shape)


def search_pairwise(space: FeatureSpace, k: int, rows: IntArray, team: ThreadTeam) -> Found:
    """Neighbours in any metric of scikit-learn, from the distances of all pairs."""
    points = space.points
    n = points.shape[0]
    # scikit-learn's Euclidean distances lose digits; only sparse features too large to be made dense come
    # here with them, and then a few candidates more are fetched and measured again.
    inexact = space.metric == "euclidean" and not space.params
    width = n_candidates(k, n) if inexact else k
    neighbors, distances = np.empty((len(rows), width), dtype=np.int32), np.empty((len(rows), width))

    def search(lo: int, hi: int) -> None:
        block = pairwise_distances(points[rows[lo:hi]], points, metric=space.metric, **space.params)
        block = np.ascontiguousarray(block, dtype=np.float64)
        k_smallest(0, hi - lo, block, rows[lo:hi], neighbors[lo:hi], distances[lo:hi])
        if inexact:
            difference = points[np.repeat(rows[lo:hi], width)] - points[neighbors[lo:hi].reshape(-1)]
            squares = np.asarray(difference.multiply(difference).sum(axis=1))
            distances[lo:hi] = np.sqrt(squares).reshape(hi - lo, width)

    over_blocks(team, len(rows), n, search)
    if inexact:
        order = np.lexsort((neighbors, distances))[:, :k]
        return np.take_along_axis(neighbors, order, axis=1), np.take_along_axis(distances, order, axis=1)
    return neighbors, distances


def n_candidates(k: int, n: int) -> int:
    """How many points to fetch for ``k`` neighbours where the order is not exact."""
    return min(n - 1, k + max(8, k // 2))


def over_blocks(team: ThreadTeam, n_rows: int, n_points: int, task: Callable[[int, int], None]) -> None:
    """Call ``task(lo, hi)`` for blocks of rows that do not depend on the number of threads."""
    step = block_rows(n_points)

    def work(start: int, stop: int) -> None:
        for block in range(start, stop):
            task(block * step, min((block + 1) * step, n_rows))

    team.run(work, -(-n_rows // step), grain=1)


def block_rows(n_points: int) -> int:
    """How many rows of distances to all points to hold at once."""
    # A block of all distances of so many rows takes 128 to 256 MiB at most.
    return min(256, max(8, 2**25 // n_points))
