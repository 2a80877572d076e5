"""Slow versions of the metrics, straight from their definitions."""

import numpy as np
from scipy.sparse.csgraph import floyd_warshall
from scipy.spatial.distance import cdist

from reference_graphs import edges_of, knn_of, rows_of


def local_distance_loop(graph, y):
    median = np.median([d for _, _, d in edges_of(graph)])
    errors = [abs(np.linalg.norm(y[i] - y[j]) - d) / d for i, j, d in edges_of(graph) if d > 1e-9 * median]
    return np.mean(errors)


def grams(graph, y):
    """Gram matrices of every vertex's neighbours, by geodesics and in the map."""
    distances = floyd_warshall(graph.to_matrix())
    for i, row in enumerate(rows_of(graph)):
        around = [j for _, j, _ in row]
        arms, rays = distances[i, around], y[around] - y[i]
        gram = (arms[:, None] ** 2 + arms**2 - distances[np.ix_(around, around)] ** 2) / 2.0
        yield gram, rays @ rays.T


def local_angle_loop(graph, y):
    errors = []
    for pair in grams(graph, y):
        for a in range(len(pair[0])):
            for b in range(a):
                arms = [np.sqrt(gram[a, a] * gram[b, b]) for gram in pair]
                if min(arms) > 0.0:
                    cosines = [gram[a, b] / arm for gram, arm in zip(pair, arms, strict=True)]
                    errors.append(abs(np.subtract(*np.arccos(np.clip(cosines, -1.0, 1.0)))))
    return np.degrees(np.mean(errors))


def local_metric_loop(graph, y):
    ratios = [np.sum((ours - gram) ** 2) / np.sum(gram**2) for gram, ours in grams(graph, y) if gram.any()]
    return np.sqrt(np.mean(ratios))


def neighborhood_loop(graph, y, k):
    found, given = ({(i, j) for i, j, _ in edges_of(g)} for g in (knn_of(y, k), graph))
    precision, recall = len(found & given) / len(found), len(found & given) / len(given)
    return precision, recall, 2 * precision * recall / (precision + recall)


def pairs_loop(distances, y):
    pairs = [(i, j) for i in range(len(y)) for j in range(i) if np.isfinite(distances[i, j])]
    return np.array([(distances[i, j], np.linalg.norm(y[i] - y[j])) for i, j in pairs]).T


def rank_loop(nearest_by, ranked_by, k):
    """Trustworthiness or continuity, by which matrix of distances ranks."""
    n = len(ranked_by)
    total = 0.0
    for i in range(n):
        others = [j for j in range(n) if j != i]
        rank = {j: r for r, j in enumerate(sorted(others, key=lambda j: ranked_by[i, j]), start=1)}
        total += sum(max(0, rank[j] - k) for j in sorted(others, key=lambda j: nearest_by[i, j])[:k])
    return 1.0 - 2.0 * total / (n * k * (2 * n - 3 * k - 1))


def vote_loop(labels, y, k):
    distances = cdist(y, y) + np.diag(np.full(len(y), np.inf))
    order = np.argsort(distances, axis=1)[:, :k]
    near = np.take_along_axis(distances, order, axis=1)
    weights = 1.0 / (1.0 + np.exp(near / near.mean()))
    return np.array([np.bincount(labels[o], w).argmax() for o, w in zip(order, weights, strict=True)])
