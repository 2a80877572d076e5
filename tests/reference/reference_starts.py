"""Landmark scaling, transitions and the connection Laplacian by loops and dense algebra."""

from __future__ import annotations

import numpy as np

from reference_frames import dijkstra_loop
from reference_graphs import row_of
from reference_operators import best_rotation


def all_distances(graph):
    every = range(graph.n_vertices)
    found = [dijkstra_loop(graph, i) for i in every]
    return np.array([[distances.get(j, np.inf) for j in every] for distances in found])


def landmarks_loop(graph, n_landmarks):
    """Farthest points, the first one farthest from the vertex with the shortest mean edge."""
    distances = all_distances(graph)
    means = [np.mean([d for _, _, d in row_of(graph, i)]) for i in range(graph.n_vertices)]
    chosen = [int(np.argmax(distances[int(np.argmin(means))]))]
    while len(chosen) < n_landmarks:
        chosen.append(int(np.argmax([min(distances[a, v] for a in chosen) for v in range(graph.n_vertices)])))
    return chosen, distances[chosen]


def landmark_start_loop(chosen, distances, n_components):
    """Landmark MDS (de Silva and Tenenbaum): scaling of the landmarks, the rest by distances to them."""
    squared = distances[:, chosen] ** 2
    centring = np.eye(len(chosen)) - 1.0 / len(chosen)
    values, vectors = np.linalg.eigh(-0.5 * centring @ squared @ centring)
    order = np.argsort(values)[::-1][:n_components]
    deviations = distances.T**2 - squared.mean(axis=0)
    return -0.5 * deviations @ vectors[:, order] / np.sqrt(values[order])


def transition_loop(graph, frames, i, j):
    """Orthogonal map from the frame of j to that of i over what both see, and the part it explains.

    Over too few vertices to tell: the normalised cross product, at little weight.
    """

    def positions(v):
        seen = {w: frames.rows[e] for e, w, _ in row_of(graph, v) if frames.included[e]}
        seen[v] = np.zeros(frames.n_components)
        return seen

    at_i, at_j = positions(i), positions(j)
    common = sorted(set(at_i) & set(at_j))
    if not common:
        return np.eye(frames.n_components), 0.0
    x = np.array([at_i[v] for v in common])
    y = np.array([at_j[v] for v in common])
    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    size = np.linalg.norm(x) * np.linalg.norm(y)
    if len(common) <= frames.n_components:
        return x.T @ y / (size or 1.0), 1e-3
    o = best_rotation(x.T @ y)
    return o, np.trace(o.T @ x.T @ y) / size


def connection_loop(graph, frames):
    """Dense matrix of the form sum over stored edges of w |Q_i - O Q_j|^2 / 2, both directions averaged."""
    n, size = graph.n_vertices, frames.n_components
    result = np.zeros((n, size, n, size))
    for i in range(n):
        for _, j, _ in row_of(graph, i):
            o, w = transition_loop(graph, frames, i, j)
            back, w_back = transition_loop(graph, frames, j, i)
            weight = 0.5 * (w + w_back)
            result[i, :, i] += weight * np.eye(size)
            result[i, :, j] -= weight * 0.5 * (o + back.T)
    return result.reshape(n * size, n * size)
