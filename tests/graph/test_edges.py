"""Edges among pairs, and their lengths in a map."""

from __future__ import annotations

import numpy as np

from isoweave.graph import edge_distortion, is_edge, knn_graph


def test_edges_among_pairs_in_either_direction():
    graph = knn_graph(np.random.default_rng(421).normal(size=(40, 2)), 4)
    pairs = np.array([(7, graph.indices[graph.indptr[7]]), (0, 39), (graph.indices[graph.indptr[20]], 20)])
    wanted = {frozenset(map(int, pair)) for pair in pairs}
    expected = [
        frozenset((int(i), int(j))) in wanted for i, j in zip(graph.sources, graph.indices, strict=True)
    ]
    np.testing.assert_array_equal(is_edge(graph, pairs), expected)
    assert sum(expected) >= 4


def test_distortion_of_ordinary_edges_duplicates_and_missing_ends():
    points = np.array([[0.0, 0.0], [3.0, 4.0], [3.0, 4.0], [np.nan, 0.0], [1e300, 0.0]])
    edges = np.array([(0, 1), (1, 2), (0, 1), (0, 3), (0, 3), (0, 4)])
    lengths = np.array([10.0, 0.0, 0.0, 1.0, 0.0, 5e299])
    expected = [-0.5, 0.0, np.inf, np.nan, np.nan, 1.0]
    np.testing.assert_allclose(edge_distortion(edges, lengths, points), expected)
