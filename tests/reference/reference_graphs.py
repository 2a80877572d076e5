"""Small graphs to try every stage on, comparison of graphs, and of maps up to a rigid motion."""

from functools import lru_cache
from itertools import pairwise

import numpy as np
import scipy.sparse as sp
from scipy.spatial.distance import cdist

from isoweave.graph import graph_from_matrix


def graph_of(edges, n):
    """Graph of (i, j, length) triples."""
    i, j, lengths = zip(*edges, strict=True)
    return graph_from_matrix(sp.coo_array((np.array(lengths, float), (i, j)), shape=(n, n)))


def nearest(distances, k):
    """Every vertex is joined to the k nearest by a dense matrix of distances."""
    # Before others that are as near as itself: duplicates.
    order = np.argsort(distances - np.eye(len(distances)), axis=1)[:, 1 : k + 1]
    rows = np.repeat(np.arange(len(distances)), order.shape[1])
    return graph_of(zip(rows, order.ravel(), distances[rows, order.ravel()], strict=True), len(distances))


def knn_of(points, k):
    return nearest(cdist(points, points), k)


def complete_of(points):
    return knn_of(points, len(points) - 1)


def random_tree(n, rng):
    return graph_of([(i, int(rng.integers(i)), rng.uniform(0.5, 2.0)) for i in range(1, n)], n)


def random_sparse(n, extra, rng):
    """A random tree and some more edges; lengths obey no triangle inequality."""
    edges = {(int(rng.integers(i)), i) for i in range(1, n)}
    while len(edges) < n - 1 + extra:
        i, j = sorted(rng.choice(n, size=2, replace=False).tolist())
        edges.add((i, j))
    return graph_of([(i, j, rng.uniform(0.5, 2.0)) for i, j in sorted(edges)], n)


def with_hubs(points, k, hubs, rng):
    """A kNN graph in which some vertices are joined to most others, at random lengths."""
    graph = knn_of(points, k)
    edges = {(i, j): d for i, j, d in edges_of(graph)}
    for hub in hubs:
        for j in rng.choice(len(points), size=len(points) * 3 // 4, replace=False).tolist():
            if j != hub:
                edges.setdefault((min(hub, j), max(hub, j)), float(rng.uniform(1.0, 4.0)))
    return graph_of([(i, j, d) for (i, j), d in sorted(edges.items())], len(points))


def with_twin(matrix, of, *more):
    """The matrix with one more vertex at distance zero of another, and further (column, value) of its row."""
    coo, n = sp.coo_array(matrix), matrix.shape[0]
    columns, values = zip((of, 0.0), *more, strict=True)
    data, rows = np.r_[coo.data, values], np.r_[coo.row, np.full(len(values), n)]
    return sp.coo_array((data, (rows, np.r_[coo.col, columns])), shape=(n + 1, n + 1))


def path_graph(n):
    return graph_of([(i, i + 1, 1.0 + 0.1 * (i % 3)) for i in range(n - 1)], n)


def cycle_graph(n):
    return graph_of([(i, (i + 1) % n, 1.0 + 0.1 * (i % 3)) for i in range(n)], n)


def star_graph(n):
    return graph_of([(0, i, 1.0 + 0.1 * (i % 3)) for i in range(1, n)], n)


def dumbbell(n_each, k, gap, rng):
    """Two blobs in the plane joined by their three shortest bridges: points and graph."""
    points = np.vstack([rng.normal(size=(n_each, 2)), rng.normal(size=(n_each, 2)) + np.array([gap, 0.0])])
    near = edges_of(knn_of(points, k))
    across = cdist(points[:n_each], points[n_each:])
    rows, cols = np.unravel_index(np.argsort(across, axis=None)[:3], across.shape)
    bridges = [(int(i), int(j) + n_each, across[i, j]) for i, j in zip(rows, cols, strict=True)]
    assert all((i < n_each) == (j < n_each) for i, j, _ in near)
    return points, graph_of(near + bridges, 2 * n_each)


def edges_of(graph):
    """(i, j, length) of every undirected edge, i < j."""
    arrays = (graph.sources.tolist(), graph.indices.tolist(), graph.lengths.tolist())
    return [(i, j, d) for i, j, d in zip(*arrays, strict=True) if i < j]


def row_of(graph, i):
    """(edge number, neighbour, length) along the row of i."""
    return rows_of(graph)[i]


@lru_cache(maxsize=4)
def rows_of(graph):
    """All rows as lists, which loops read faster than arrays."""
    numbers = range(len(graph.indices))
    triples = list(zip(numbers, graph.indices.tolist(), graph.lengths.tolist(), strict=True))
    return [triples[lo:hi] for lo, hi in pairwise(graph.indptr.tolist())]


def permuted(graph, order):
    """The graph whose vertex a is vertex ``order[a]`` of the given one."""
    number = np.argsort(order)
    return graph_of([(number[i], number[j], d) for i, j, d in edges_of(graph)], graph.n_vertices)


def distance_gap(a, b):
    """Largest difference of pairwise distances of two maps over the size of the first: 0 up to a motion."""
    first, second = cdist(a, a), cdist(b, b)
    return float(np.abs(first - second).max() / first.max())


def random_rotations(n, n_components, rng):
    """Orthogonal matrices, reflections among them, shape (n, N, N)."""
    q, r = np.linalg.qr(rng.normal(size=(n, n_components, n_components)))
    return q * np.sign(np.einsum("ikk->ik", r))[:, None, :]


def twin(distances, k):
    """Max-symmetrised kNN graph of distinct points, row by row, as a dense matrix (nan: no edge)."""
    n = len(distances)
    result = np.full((n, n), np.nan)
    for i in range(n):
        order = [j for j in np.argsort(distances[i], kind="stable") if j != i]
        for j in order[:k]:
            result[i, j] = result[j, i] = max(distances[i, j], distances[j, i])
    return result


def as_dense(graph):
    dense = np.full((graph.n_vertices,) * 2, np.nan)
    dense[graph.sources, graph.indices] = graph.lengths
    return dense


def assert_same_graph(a, b):
    np.testing.assert_array_equal(a.indptr, b.indptr)
    np.testing.assert_array_equal(a.indices, b.indices)
    np.testing.assert_array_equal(a.lengths, b.lengths)


def assert_permuted(graph, permuted, shuffle):
    """``permuted`` is the graph of the points taken in the order ``shuffle``."""
    np.testing.assert_array_equal(as_dense(graph)[np.ix_(shuffle, shuffle)], as_dense(permuted))
