"""New points placed in plain numpy, one at a time, as docs/new_points.md says."""

from __future__ import annotations

import numpy as np
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import cdist

FAR = 3.0
LENGTH_WEIGHT = 16.0


def place_one(graph, coordinates, neighbors, distances):
    """Place, residual and used neighbours of one new point; ``graph`` a dict of dicts of lengths."""
    order = sorted(range(len(neighbors)), key=lambda a: (distances[a], neighbors[a]))
    neighbors, distances = [int(neighbors[a]) for a in order], [float(distances[a]) for a in order]
    if distances[0] == 0.0:
        return coordinates[neighbors[0]].copy(), 0.0, [neighbors[0]]
    kept = same_sheet(coordinates, neighbors, distances)
    neighbors, d = [neighbors[a] for a in kept], np.array([distances[a] for a in kept])
    far = path_lengths(graph, neighbors, d)
    anchors, n_components, weight = coordinates[neighbors], coordinates.shape[1], LENGTH_WEIGHT
    directions = [direction(graph, coordinates, j, own, far) for j, own in zip(neighbors, d, strict=True)]
    seen = anchors + np.array(directions)
    y = settle(anchors, d, seen, np.sum(seen / d[:, None], axis=0) / np.sum(1 / d), weight)
    turned, stretched = energies(y, anchors, d, seen)
    if len(d) > n_components:
        other = settle(anchors, d, seen, y, 1e10)
        if energies(other, anchors, d, seen)[1] <= 1e-4 * stretched:
            y, weight = other, 1e10
            turned, stretched = energies(y, anchors, d, seen)
    residual = np.sqrt((turned + weight * stretched) / ((1 + weight) * d.sum()))
    return y, residual if len(d) >= max(n_components, 2) else np.inf, neighbors


def same_sheet(coordinates, neighbors, distances):
    """Positions of the largest set linked by the triangle inequality."""
    reach = FAR * np.add.outer(distances, distances)
    linked = cdist(coordinates[neighbors], coordinates[neighbors]) <= reach
    _, group = connected_components(linked, directed=False)
    sizes = np.bincount(group)
    # Groups are numbered in the order of their first members, and the nearest comes first.
    return np.flatnonzero(group == np.argmax(sizes)).tolist()


def path_lengths(graph, neighbors, distances):
    """Measured distances to the neighbours, paths over one edge to theirs."""
    far = dict(zip(neighbors, distances.tolist(), strict=True))
    paths = {}
    for j, own in zip(neighbors, distances.tolist(), strict=True):
        for v, length in graph[j].items():
            if v not in far:
                paths[v] = min(paths.get(v, np.inf), own + length)
    return far | paths


def direction(graph, coordinates, j, own, far):
    """Where j sees the new point: ridge regression of the scalar products, brought to length ``own``."""
    rows, products = [], []
    for v, length in graph[j].items():
        row = coordinates[v] - coordinates[j]
        if np.linalg.norm(row) <= FAR * length:
            rows.append(row)
            products.append(0.5 * (own**2 + length**2 - far[v] ** 2))
    n = coordinates.shape[1]
    if not rows:
        return np.zeros(n)
    x, g = np.array(rows), np.array(products)
    mean = np.trace(x.T @ x) / n
    ridge = 1e-2 * mean
    while True:
        found = np.linalg.solve(x.T @ x + ridge * np.eye(n), x.T @ g)
        noise = np.sum((g - x @ found) ** 2) / max(len(g) - n, 1)
        wanted = max(n * noise / own**2, 1e-9 * mean)
        if wanted > 0.25 * ridge:
            break
        ridge = wanted
    if ridge <= 1e-6 * mean:
        found = found + np.linalg.solve(x.T @ x + ridge * np.eye(n), x.T @ (g - x @ found))
    size = np.linalg.norm(found)
    return found * own / size if size > 1e-6 * own else np.zeros(n)


def energies(y, anchors, d, seen):
    turned = np.sum(np.sum((y - seen) ** 2, axis=1) / d)
    stretched = np.sum((np.linalg.norm(y - anchors, axis=1) - d) ** 2 / d)
    return turned, stretched


def settle(anchors, d, seen, y, weight):
    """Majorisation until nothing moves: slow, and never uphill."""
    w = (1.0 / d)[:, None]
    for _ in range(20_000):
        apart = y - anchors
        length = np.linalg.norm(apart, axis=1)[:, None]
        pull = anchors + d[:, None] * apart / np.maximum(length, 1e-300)
        new = np.sum(w * (seen + weight * pull), axis=0) / (w.sum() * (1 + weight))
        moved = np.linalg.norm(new - y)
        y = new
        if moved <= 1e-13 * d.mean():
            break
    return y
