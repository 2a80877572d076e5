"""Slow loop versions of the metrics, straight from their definitions."""

from __future__ import annotations

import numpy as np

from reference_graphs import edges_of, rows_of


def floyd_warshall(graph):
    n = graph.n_vertices
    distances = np.full((n, n), np.inf)
    np.fill_diagonal(distances, 0.0)
    for i, j, length in edges_of(graph):
        distances[i, j] = distances[j, i] = length
    for k in range(n):
        distances = np.minimum(distances, distances[:, k : k + 1] + distances[k : k + 1, :])
    return distances


def neighbors_of(graph):
    return [[j for _, j, _ in row] for row in rows_of(graph)]


def local_distance_loop(graph, y):
    median = np.median([d for _, _, d in edges_of(graph)])
    errors = [abs(np.linalg.norm(y[i] - y[j]) - d) / d for i, j, d in edges_of(graph) if d > 1e-9 * median]
    return np.mean(errors)


def local_angle_loop(graph, y):
    distances = floyd_warshall(graph)
    errors = []
    for i, around in enumerate(neighbors_of(graph)):
        for a, j in enumerate(around):
            for k in around[a + 1 :]:
                arms = distances[i, j], distances[i, k]
                rays = y[j] - y[i], y[k] - y[i]
                norms = [np.linalg.norm(ray) for ray in rays]
                if min(*arms, *norms) == 0.0:
                    continue
                gram = (arms[0] ** 2 + arms[1] ** 2 - distances[j, k] ** 2) / 2.0
                theirs = np.arccos(np.clip(gram / (arms[0] * arms[1]), -1.0, 1.0))
                ours = np.arccos(np.clip(rays[0] @ rays[1] / (norms[0] * norms[1]), -1.0, 1.0))
                errors.append(abs(ours - theirs))
    return np.degrees(np.mean(errors))


def local_metric_loop(graph, y):
    distances = floyd_warshall(graph)
    ratios = []
    for i, around in enumerate(neighbors_of(graph)):
        arms = distances[i, around]
        gram = (arms[:, None] ** 2 + arms[None, :] ** 2 - distances[np.ix_(around, around)] ** 2) / 2.0
        rays = y[around] - y[i]
        if np.sum(gram**2) > 0.0:
            ratios.append(np.sum((rays @ rays.T - gram) ** 2) / np.sum(gram**2))
    return np.sqrt(np.mean(ratios))


def neighborhood_loop(graph, y, k):
    n = len(y)
    found = set()
    for i in range(n):
        order = sorted((np.linalg.norm(y[i] - y[j]), j) for j in range(n) if j != i)
        found.update(frozenset((i, j)) for _, j in order[:k])
    given = {frozenset((i, j)) for i, j, _ in edges_of(graph)}
    common = len(found & given)
    precision, recall = common / len(found), common / len(given)
    return precision, recall, 2 * precision * recall / (precision + recall)


def pairs_loop(distances, y):
    d, e = [], []
    for i in range(len(y)):
        for j in range(i):
            if np.isfinite(distances[i, j]):
                d.append(distances[i, j])
                e.append(np.linalg.norm(y[i] - y[j]))
    return np.array(d), np.array(e)


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
    n = len(y)
    distances = np.array([[np.linalg.norm(a - b) for b in y] for a in y])
    np.fill_diagonal(distances, np.inf)
    order = np.argsort(distances, axis=1)[:, :k]
    mean = np.mean([distances[i, j] for i in range(n) for j in order[i]])
    voted = []
    for i in range(n):
        votes = {}
        for j in order[i]:
            votes[labels[j]] = votes.get(labels[j], 0.0) + 1.0 / (1.0 + np.exp(distances[i, j] / mean))
        voted.append(max(sorted(votes), key=lambda label: votes[label]))
    return np.array(voted)
