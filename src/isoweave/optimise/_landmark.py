"""Landmark start: classical scaling of a few far-apart vertices, the others by triangulation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse.csgraph import dijkstra

from isoweave._parallel import ONE_THREAD, ThreadTeam
from isoweave._typing import FloatArray, IntArray
from isoweave.graph import NeighborGraph, sums_of_lengths

N_LANDMARKS = 50


@dataclass(frozen=True, eq=False)
class Landmarks:
    """Far-apart vertices with the distances from each to all, and the start they give."""

    vertices: IntArray
    distances: FloatArray
    start: FloatArray


def find_landmarks(graph: NeighborGraph, n_components: int, *, team: ThreadTeam = ONE_THREAD) -> Landmarks:
    """Landmark start of a connected graph (eq. 13)."""
    vertices, distances = farthest_landmarks(graph, max(N_LANDMARKS, 2 * n_components + 2), team=team)
    return Landmarks(vertices, distances, landmark_start(vertices, distances, n_components))


def farthest_landmarks(
    graph: NeighborGraph, n_landmarks: int, *, team: ThreadTeam = ONE_THREAD
) -> tuple[IntArray, FloatArray]:
    """Vertices far from each other, and the shortest-path distances from each of them to all.

    The first landmark is the vertex farthest from the one with the most crowded neighbourhood, a
    property of the graph and not of its numbering; each next one is farthest from those before.

    Returns
    -------
    landmarks : int32 array of shape (l,)
    distances : float64 array of shape (l, n)
    """
    n = graph.n_vertices
    n_landmarks = min(n_landmarks, n)
    matrix = graph.to_matrix()
    if graph.lengths.min() == 0.0:
        raise ValueError("Landmarks need positive lengths: merge duplicates first.")
    crowded = _most_crowded(graph, team)
    nearest = dijkstra(matrix, directed=True, indices=crowded)
    distances = np.empty((n_landmarks, n))
    landmarks = np.empty(n_landmarks, dtype=np.int32)
    for a in range(n_landmarks):
        landmarks[a] = np.argmax(nearest)
        distances[a] = dijkstra(matrix, directed=True, indices=landmarks[a])
        nearest = distances[a] if a == 0 else np.minimum(nearest, distances[a])
        if a + 1 < n_landmarks and nearest.max() <= 0.0:
            return landmarks[: a + 1], distances[: a + 1]
    return landmarks, distances


def _most_crowded(graph: NeighborGraph, team: ThreadTeam) -> int:
    """Vertex with the smallest mean length of its edges, whatever the numbering."""
    means = sums_of_lengths(graph, team) / np.maximum(graph.degrees, 1)
    return int(np.argmin(np.where(graph.degrees > 0, means, np.inf)))


def classical_scaling(squared: FloatArray, n_components: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Coordinates from squared distances among landmarks, and what triangulation needs.

    Returns
    -------
    coordinates : (l, N), zero mean; directions with no positive eigenvalue are zero
    projector : (l, N), ``V S^(-1/2)``
    means : (l,), row means of the squared distances
    """
    means = squared.mean(axis=1)
    gram = -0.5 * (squared - means[:, None] - means[None, :] + means.mean())
    values, vectors = np.linalg.eigh(gram)
    values, vectors = values[::-1][:n_components], vectors[:, ::-1][:, :n_components]
    keep = values > 1e-12 * max(values[0], 0.0)
    roots = np.sqrt(np.where(keep, values, 1.0))
    coordinates = np.zeros((len(squared), n_components))
    projector = np.zeros((len(squared), n_components))
    coordinates[:, : len(values)] = vectors * np.where(keep, roots, 0.0)
    projector[:, : len(values)] = vectors * np.where(keep, 1.0 / roots, 0.0)
    return coordinates, projector, means


def landmark_start(landmarks: IntArray, distances: FloatArray, n_components: int) -> FloatArray:
    """Coordinates of all vertices from their distances to the landmarks, shape (n, N)."""
    squared = distances[:, landmarks] ** 2
    _, projector, means = classical_scaling(0.5 * (squared + squared.T), n_components)
    return -0.5 * (distances**2 - means[:, None]).T @ projector
