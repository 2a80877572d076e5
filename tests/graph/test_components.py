"""Duplicates merged, components found, cut out, bridged and packed."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings, strategies as st
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.spatial.distance import cdist

from isoweave import graph as graphs
from isoweave._parallel import ThreadTeam
from isoweave.graph import _features
from reference_graphs import assert_same_graph, edges_of, graph_of


def edge_set(graph):
    return {(i, j) for i, j, _ in edges_of(graph)}


def test_labels_by_size_then_by_smallest_vertex():
    """Zero-length edges connect like any other."""
    graph = graph_of([(1, 6, 1.0), (6, 4, 0.0), (0, 5, 1.0), (2, 7, 2.0)], 9)
    n_components, labels = graphs.connected_components(graph)
    assert (n_components, labels.dtype) == (5, np.int32)
    assert labels.tolist() == [1, 0, 2, 3, 0, 1, 0, 2, 4]


def test_subgraph_is_induced():
    X = np.random.default_rng(131).normal(size=(50, 3))
    graph, vertices = graphs.knn_graph(X, 5), np.flatnonzero(X[:, 0] > 0)
    part = graphs.subgraph(graph, vertices)
    expected = graph.to_matrix().toarray()[np.ix_(vertices, vertices)]
    np.testing.assert_array_equal(part.to_matrix().toarray(), expected)
    assert part.indptr.dtype == part.indices.dtype == np.int32
    assert_same_graph(graphs.subgraph(graph, np.arange(50)), graph)
    assert graphs.subgraph(graph_of([(0, 2, 0.0), (1, 2, 1.0)], 3), np.array([0, 2])).n_edges == 1


def merge_loop(graph):
    """Merge by repeated relabelling and dictionaries."""
    triples = list(zip(graph.sources.tolist(), graph.indices.tolist(), graph.lengths.tolist(), strict=True))
    smallest = list(range(graph.n_vertices))
    for _ in smallest:
        for i, j, d in triples:
            if d == 0:
                smallest[i] = smallest[j] = min(smallest[i], smallest[j])
    representative = [sorted(set(smallest)).index(v) for v in smallest]
    edges: dict[tuple[int, int], float] = {}
    for i, j, d in triples:
        a, b = representative[i], representative[j]
        if a < b:
            edges[a, b] = min(d, edges.get((a, b), np.inf))
    return edges, representative


ENTRY = st.tuples(st.integers(0, 7), st.integers(0, 7), st.sampled_from([0.0, 0.0, 1.0, 2.0, 2.5]))


@settings(max_examples=50)
@given(st.lists(ENTRY.filter(lambda e: e[0] < e[1]), max_size=20, unique_by=lambda e: e[:2]))
def test_merge_agrees_with_the_loop(entries):
    graph = graph_of(entries, 8) if entries else graphs.graph_from_matrix(sp.coo_array((8, 8)))
    reduced, representative = graphs.merge_duplicates(graph)
    edges, expected = merge_loop(graph)
    assert representative.dtype == np.int32
    assert representative.tolist() == expected
    assert reduced.n_vertices == max(expected) + 1
    assert {(i, j): d for i, j, d in edges_of(reduced)} == edges
    assert np.all(reduced.lengths > 0)
    assert (reduced is graph) == (len(set(expected)) == 8)


def test_rows_with_one_hash_stay_different(monkeypatch):
    monkeypatch.setattr(_features, "_hashes", lambda features, team: np.full(4, 7, dtype=np.uint64))
    for form in (np.asarray, sp.csr_array):
        groups = _features.group_equal_rows(form(np.array([[1.0], [1.0], [2.0], [3.0]])), ThreadTeam(1))
        assert (groups.members.tolist(), groups.starts.tolist()) == ([0, 1, 2, 3], [0, 2, 3, 4])


def clusters(seed, n_clusters, n_features=2, size=20):
    rng = np.random.default_rng(seed)
    sizes = size + np.arange(n_clusters)
    centres = 30 * rng.normal(size=(n_clusters, n_features))
    X = np.repeat(centres, sizes, axis=0) + rng.normal(size=(sizes.sum(), n_features))
    return X[rng.permutation(len(X))]


@pytest.mark.parametrize(("n_clusters", "n_features"), [(2, 2), (3, 20), (9, 2)])
def test_bridges_are_a_minimum_spanning_tree(n_clusters, n_features):
    X = clusters(137, n_clusters, n_features)
    graph = graphs.knn_graph(X, 4)
    n_components, labels = graphs.connected_components(graph)
    assert n_components >= n_clusters
    bridged = graphs.bridge_components(graph, X, n_bridges=1, n_jobs=1)
    assert graphs.connected_components(bridged)[0] == 1
    added = edge_set(bridged) - edge_set(graph)
    assert edge_set(graph) < edge_set(bridged)
    assert len(added) == n_components - 1
    D = cdist(X, X)
    parts = [labels == c for c in range(n_components)]
    gaps = np.array([[D[np.ix_(a, b)].min() for b in parts] for a in parts])
    assert sum(D[i, j] for i, j in added) == pytest.approx(minimum_spanning_tree(gaps).sum(), rel=1e-12)
    # Neither threads nor sparsity matter, nor features where nothing is to be bridged.
    assert_same_graph(bridged, graphs.bridge_components(graph, X, n_bridges=1, n_jobs=2))
    assert_same_graph(bridged, graphs.bridge_components(graph, sp.csr_array(X), n_bridges=1))
    assert graphs.bridge_components(bridged, None) is bridged


def test_several_bridges_have_different_ends_and_single_points_several():
    X = clusters(139, 2)
    graph = graphs.knn_graph(X, 8)
    labels = graphs.connected_components(graph)[1]
    added = edge_set(graphs.bridge_components(graph, X, n_bridges=4)) - edge_set(graph)
    assert len(added) == 4
    assert len({v for edge in added for v in edge}) == 8
    assert all(labels[i] != labels[j] for i, j in added)
    D = cdist(X, X)
    shortest = D[np.ix_(labels == 0, labels == 1)].min()
    assert min(D[i, j] for i, j in added) == pytest.approx(shortest, rel=1e-14)
    X = np.vstack([np.random.default_rng(149).normal(size=(30, 2)), [[50.0, 0.0]]])
    graph = graphs.knn_graph(X[:30], 5)
    alone = graphs.NeighborGraph(np.append(graph.indptr, graph.indptr[-1]), graph.indices, graph.lengths)
    ends = [i for i, j in edge_set(graphs.bridge_components(alone, X, n_bridges=3)) if j == 30]
    assert sorted(ends) == sorted(np.argsort(cdist(X[:30], X[30:])[:, 0])[:3].tolist())
    empty = graphs.graph_from_matrix(sp.csr_array((5, 5)))
    bridged = graphs.bridge_components(empty, np.array([[0.0], [1.0], [3.0], [3.0], [10.0]]), n_bridges=2)
    assert graphs.connected_components(bridged)[0] == 1
    assert sorted(bridged.lengths.tolist()) == [0, 0, 1, 1, 2, 2, 7, 7]


@pytest.mark.parametrize("metric", ["euclidean", "cityblock", "sqeuclidean", "cosine"])
def test_bridges_have_their_true_lengths(metric):
    X = clusters(151, 3, n_features=3)
    bridged = graphs.bridge_components(graphs.knn_graph(X, 4, metric=metric), X, metric=metric)
    assert graphs.connected_components(bridged)[0] == 1
    expected = cdist(X, X, metric)[bridged.sources, bridged.indices]
    np.testing.assert_allclose(bridged.lengths, expected, rtol=1e-7, atol=1e-15)


def test_what_cannot_be_bridged():
    graph = graph_of([(0, 1, 1.0), (2, 3, 1.0)], 4)
    with pytest.raises(ValueError, match="X has 3 rows, but the graph has 4 vertices"):
        graphs.bridge_components(graph, np.eye(3))
    with pytest.raises(ValueError, match="n_bridges must be an integer >= 1"):
        graphs.bridge_components(graph, np.eye(4), n_bridges=0)
    X = np.repeat([[0.0], [9.0]], 4, axis=0) + np.tile(np.arange(4.0), 2)[:, None] / 4

    def metric(a, b):
        return abs(a - b)[0] if abs(a - b)[0] < 2 else np.inf

    with pytest.raises(ValueError, match="found no finite distance between components"):
        graphs.bridge_components(graphs.knn_graph(X, 2, metric=metric), X, metric=metric)


def placed_apart(parts):
    """The parts where they were packed; no two boxes overlap."""
    placed = [part + shift for part, shift in zip(parts, graphs.pack_components(parts), strict=True)]
    lows, highs = (np.array([getattr(p, side)(axis=0) for p in placed]) for side in ("min", "max"))
    for c in range(len(parts)):
        separated = np.any((lows > highs[c]) | (highs < lows[c]), axis=1)
        assert np.delete(separated, c).all()
    return placed


def test_packed_components():
    """Never overlapping and about the origin; like ones side by side, larger ones first, many in no line."""
    rng = np.random.default_rng(167)
    for n_components, n_parts in itertools.product((1, 2, 3, 5), (1, 2, 7, 40)):
        sizes = rng.integers(1, 60, size=n_parts)
        parts = [rng.normal(size=(n, n_components)) * rng.exponential(size=n_components) + n for n in sizes]
        np.testing.assert_allclose(np.vstack(placed_apart(parts)).mean(axis=0), 0, atol=1e-9)
    part = np.random.default_rng(173).uniform(size=(200, 3))
    extent = np.ptp(part, axis=0).max()
    for here, following in itertools.pairwise(placed_apart([part] * 3)):
        assert following.min(axis=0)[0] - here.max(axis=0)[0] == pytest.approx(0.2 * extent, rel=1e-9)
        np.testing.assert_allclose(here.min(axis=0)[1:], following.min(axis=0)[1:], atol=1e-12)
    small, large = placed_apart([part[:, :2], 10 * part[:, :2]])
    assert large[:, 0].max() < small[:, 0].min()
    singles = [np.zeros((1, 2))] * 500
    width, height = np.ptp(np.vstack(placed_apart(singles)), axis=0)
    assert width < 6 * height
    giant = np.random.default_rng(181).uniform(size=(5000, 2))
    assert np.all(np.ptp(np.vstack(placed_apart([giant, *singles])), axis=0) < 3)
    assert np.all(np.diff(np.sort(np.concatenate(graphs.pack_components([np.zeros((1, 1))] * 5)))) > 0.1)
