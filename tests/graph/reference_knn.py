"""Slow loop version of a kNN graph, and comparisons of graphs."""

from __future__ import annotations

import numpy as np


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
