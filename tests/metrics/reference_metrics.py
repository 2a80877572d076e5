"""Slow loop versions of the metrics, straight from their definitions, and graphs to try them on."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from sklearn.neighbors import kneighbors_graph


def knn_graph(points, k):
    """Max-symmetrised kNN graph; explicit zeros (duplicates) are kept."""
    directed = kneighbors_graph(points, k, mode="distance").tocoo()
    edges = {}
    for i, j, length in zip(directed.row, directed.col, directed.data, strict=True):
        edges[i, j] = edges[j, i] = length
    return graph_from_edges(edges, len(points))


def graph_from_edges(edges, n):
    keys = np.array(list(edges))
    return sp.csr_array((np.array(list(edges.values())), (keys[:, 0], keys[:, 1])), shape=(n, n))


def edges_of(graph):
    coo = graph.tocoo()
    return {(int(i), int(j)): float(d) for i, j, d in zip(coo.row, coo.col, coo.data, strict=True)}


def floyd_warshall(graph):
    n = graph.shape[0]
    distances = np.full((n, n), np.inf)
    np.fill_diagonal(distances, 0.0)
    for (i, j), length in edges_of(graph).items():
        distances[i, j] = min(distances[i, j], length)
    for k in range(n):
        distances = np.minimum(distances, distances[:, k : k + 1] + distances[k : k + 1, :])
    return distances


def neighbors_of(graph):
    neighbors = [[] for _ in range(graph.shape[0])]
    for i, j in sorted(edges_of(graph)):
        neighbors[i].append(j)
    return neighbors


def local_distance_loop(graph, y):
    edges = {key: d for key, d in edges_of(graph).items() if key[0] < key[1]}
    median = np.median(list(edges.values()))
    errors = [abs(np.linalg.norm(y[i] - y[j]) - d) / d for (i, j), d in edges.items() if d > 1e-9 * median]
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
    given = {frozenset(key) for key in edges_of(graph)}
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
