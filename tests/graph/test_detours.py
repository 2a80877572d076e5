"""Ways round edges of little confidence."""

from __future__ import annotations

import numpy as np
import pytest
from isoweave.graph._detours import TRUSTED_MORE

from isoweave.graph import bypass_doubtful
from reference_graphs import knn_of, random_sparse


def random_weights(graph, rng):
    weights = 10.0 ** rng.uniform(-3.0, 0.0, size=len(graph.indices))
    return np.maximum(weights, weights[graph.reverse])


def bypass_loop(graph, weights):
    """Every edge, every common neighbour."""
    at = {
        (i, j): e for e, (i, j) in enumerate(zip(graph.sources.tolist(), graph.indices.tolist(), strict=True))
    }
    lengths = graph.lengths.copy()
    for (i, j), e in at.items():
        ways = [
            graph.lengths[at[i, k]] + graph.lengths[at[j, k]]
            for k in range(graph.n_vertices)
            if (i, k) in at
            and (j, k) in at
            and min(weights[at[i, k]], weights[at[j, k]]) >= TRUSTED_MORE * weights[e]
        ]
        if ways:
            lengths[e] = min(ways)
    return lengths


@pytest.mark.parametrize("at_once", [1, 50, 1 << 20])
def test_agrees_with_the_loop(at_once, monkeypatch):
    monkeypatch.setattr("isoweave.graph._detours._PAIRS_AT_ONCE", at_once)
    rng = np.random.default_rng(31)
    for graph in (knn_of(rng.normal(size=(60, 2)), 7), random_sparse(40, 120, rng)):
        weights = random_weights(graph, rng)
        found = bypass_doubtful(graph, weights)
        expected = bypass_loop(graph, weights)
        assert (expected != graph.lengths).any()
        np.testing.assert_array_equal(found.lengths, expected)
        np.testing.assert_array_equal(found.lengths, found.lengths[graph.reverse])
        assert found.indices is graph.indices


def test_nothing_doubtful_is_the_same_object():
    rng = np.random.default_rng(32)
    points = rng.normal(size=(80, 2))
    graph = knn_of(points, 8)
    assert bypass_doubtful(graph, np.ones(len(graph.indices))) is graph
    assert bypass_doubtful(graph, rng.uniform(0.2, 1.0) * np.ones(len(graph.indices))) is graph
    # Inverse squares of true distances never make an edge doubtful.
    assert bypass_doubtful(graph, graph.lengths**-2.0) is graph


def test_an_edge_without_trusted_neighbours_keeps_its_length():
    graph = random_sparse(30, 0, np.random.default_rng(33))
    weights = np.where((graph.sources == 0) | (graph.indices == 0), 1e-3, 1.0)
    assert bypass_doubtful(graph, weights) is graph
