"""New points placed in plain numpy, one at a time, as docs/new_points.md says."""

import numpy as np
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import cdist

FAR, LENGTH_WEIGHT, EXACT_WEIGHT = 3.0, 16.0, 1e10


def place_one(graph, coordinates, neighbors, distances):
    """Place, residual and used neighbours of one new point; ``graph`` a dense matrix of lengths."""
    order = np.lexsort((neighbors, distances))
    neighbors, d, n = neighbors[order], distances[order], coordinates.shape[1]
    # The largest set linked by the triangle inequality; groups are numbered by their nearest members.
    linked = cdist(coordinates[neighbors], coordinates[neighbors]) <= FAR * np.add.outer(d, d)
    group = connected_components(linked, directed=False)[1]
    kept = group == np.argmax(np.bincount(group))
    neighbors, d = neighbors[kept], d[kept]
    # Measured distances to the neighbours, paths over one edge to theirs.
    edges = np.where(graph[neighbors] > 0, graph[neighbors], np.inf)
    far = np.min(d[:, None] + edges, axis=0)
    far[neighbors] = d
    anchors, weight = coordinates[neighbors], LENGTH_WEIGHT
    seen = anchors + [direction(graph[j], coordinates, j, d[a], far) for a, j in enumerate(neighbors)]
    y = settle(anchors, d, seen, np.sum(seen / d[:, None], axis=0) / np.sum(1 / d), weight)
    turned, stretched = energies(y, anchors, d, seen)
    if len(d) > n:
        other = settle(anchors, d, seen, y, EXACT_WEIGHT)
        if energies(other, anchors, d, seen)[1] <= 1e-4 * stretched:
            y, weight = other, EXACT_WEIGHT
            turned, stretched = energies(y, anchors, d, seen)
    residual = np.sqrt((turned + weight * stretched) / ((1 + weight) * d.sum()))
    return y, residual if len(d) >= max(n, 2) else np.inf, len(d)


def direction(row, coordinates, j, own, far):
    """Where j sees the new point: ridge regression of the scalar products, brought to length ``own``."""
    near, n = np.flatnonzero(row), coordinates.shape[1]
    near = near[np.linalg.norm(coordinates[near] - coordinates[j], axis=1) <= FAR * row[near]]
    if len(near) == 0:
        return np.zeros(n)
    x, g = coordinates[near] - coordinates[j], 0.5 * (own**2 + row[near] ** 2 - far[near] ** 2)
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
