from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.spatial.distance import cdist

from isoweave.graph import (
    NeighborGraph,
    bridge_components,
    connected_components,
    graph_from_matrix,
    knn_graph,
    pack_components,
    subgraph,
)


def graph_of(entries, n):
    rows, cols, values = zip(*entries, strict=True)
    return graph_from_matrix(sp.coo_array((np.array(values, float), (rows, cols)), shape=(n, n)))


def edge_set(graph: NeighborGraph) -> set[tuple[int, int]]:
    return {(int(i), int(j)) for i, j in zip(graph.sources, graph.indices, strict=True) if i < j}


def test_labels_by_size_then_by_smallest_vertex():
    graph = graph_of([(1, 6, 1.0), (6, 4, 0.0), (0, 5, 1.0), (2, 7, 2.0)], 9)
    n_components, labels = connected_components(graph)
    assert n_components == 5
    assert labels.dtype == np.int32
    assert labels.tolist() == [1, 0, 2, 3, 0, 1, 0, 2, 4]


def test_zero_length_edges_connect():
    assert connected_components(graph_of([(0, 1, 0.0), (1, 2, 0.0)], 3))[0] == 1


def test_subgraph_is_induced():
    X = np.random.default_rng(131).normal(size=(50, 3))
    graph = knn_graph(X, 5)
    vertices = np.flatnonzero(X[:, 0] > 0)
    part = subgraph(graph, vertices)
    expected = graph.to_matrix().toarray()[np.ix_(vertices, vertices)]
    np.testing.assert_array_equal(part.to_matrix().toarray(), expected)
    assert part.indptr.dtype == part.indices.dtype == np.int32
    whole = subgraph(graph, np.arange(50))
    np.testing.assert_array_equal(whole.indices, graph.indices)
    zero = subgraph(graph_of([(0, 2, 0.0), (1, 2, 1.0)], 3), np.array([0, 2]))
    assert zero.n_edges == 1


@pytest.mark.parametrize("vertices", [[1, 0], [0, 0], [-1, 0], [0, 3]])
def test_subgraph_of_wrong_vertices(vertices):
    with pytest.raises(ValueError, match=r"sorted, distinct and within 0 .. 2"):
        subgraph(graph_of([(0, 1, 1.0)], 3), np.array(vertices))


def clusters(seed, n_clusters, n_features=2, size=20):
    rng = np.random.default_rng(seed)
    sizes = size + np.arange(n_clusters)
    centres = 30 * rng.normal(size=(n_clusters, n_features))
    X = np.repeat(centres, sizes, axis=0) + rng.normal(size=(sizes.sum(), n_features))
    return X[rng.permutation(len(X))]


@pytest.mark.parametrize("n_features", [2, 20])
@pytest.mark.parametrize("n_clusters", [2, 3, 9])
def test_bridges_are_a_minimum_spanning_tree(n_clusters, n_features):
    X = clusters(137, n_clusters, n_features)
    graph = knn_graph(X, 4)
    n_components, labels = connected_components(graph)
    assert n_components >= n_clusters
    bridged = bridge_components(graph, X, n_bridges=1)
    assert connected_components(bridged)[0] == 1
    added = edge_set(bridged) - edge_set(graph)
    assert edge_set(graph) < edge_set(bridged)
    assert len(added) == n_components - 1
    D = cdist(X, X)
    gaps = np.array(
        [
            [D[np.ix_(labels == a, labels == b)].min() for b in range(n_components)]
            for a in range(n_components)
        ]
    )
    assert sum(D[i, j] for i, j in added) == pytest.approx(minimum_spanning_tree(gaps).sum(), rel=1e-12)


def test_several_bridges_have_different_ends_and_true_lengths():
    X = clusters(139, 2)
    graph = knn_graph(X, 8)
    labels = connected_components(graph)[1]
    bridged = bridge_components(graph, X, n_bridges=4)
    added = sorted(edge_set(bridged) - edge_set(graph))
    assert len(added) == 4
    assert len({v for edge in added for v in edge}) == 8
    assert all(labels[i] != labels[j] for i, j in added)
    D = cdist(X, X)
    lengths = bridged.to_matrix()
    for i, j in added:
        assert lengths[i, j] == lengths[j, i] == pytest.approx(D[i, j], rel=1e-14)
    shortest = D[np.ix_(labels == 0, labels == 1)].min()
    assert min(D[i, j] for i, j in added) == pytest.approx(shortest, rel=1e-14)


def test_a_single_point_is_tied_to_several():
    rng = np.random.default_rng(149)
    X = np.vstack([rng.normal(size=(30, 2)), [[50.0, 0.0]]])
    graph = knn_graph(X[:30], 5)
    alone = NeighborGraph(np.append(graph.indptr, graph.indptr[-1]), graph.indices, graph.lengths)
    bridged = bridge_components(alone, X, n_bridges=3)
    ends = [i for i, j in edge_set(bridged) if j == 30]
    assert sorted(ends) == sorted(np.argsort(cdist(X[:30], X[30:])[:, 0])[:3].tolist())


def test_bridges_between_single_points():
    X = np.array([[0.0], [1.0], [3.0], [3.0], [10.0]])
    empty = graph_from_matrix(sp.csr_array((5, 5)))
    bridged = bridge_components(empty, X, n_bridges=2)
    assert connected_components(bridged)[0] == 1
    assert sorted(bridged.lengths.tolist()) == [0, 0, 1, 1, 2, 2, 7, 7]


@pytest.mark.parametrize("metric", ["manhattan", "sqeuclidean", "cosine"])
def test_bridges_in_other_metrics(metric):
    X = clusters(151, 3, n_features=3)
    graph = knn_graph(X, 4, metric=metric)
    bridged = bridge_components(graph, X, metric=metric)
    assert connected_components(bridged)[0] == 1
    D = cdist(X, X, {"manhattan": "cityblock"}.get(metric, metric))
    np.testing.assert_allclose(bridged.lengths, D[bridged.sources, bridged.indices], rtol=1e-7, atol=1e-15)


def test_bridges_from_sparse_features():
    X = clusters(157, 3, n_features=15)
    graph = knn_graph(X, 4)
    a, b = bridge_components(graph, X), bridge_components(graph, sp.csr_array(X))
    np.testing.assert_array_equal(a.indices, b.indices)


def test_bridging_does_not_depend_on_threads_or_on_being_needed():
    X = clusters(163, 4, n_features=15)
    graph = knn_graph(X, 4)
    a, b = (bridge_components(graph, X, n_jobs=n_jobs) for n_jobs in (1, 2))
    np.testing.assert_array_equal(a.indices, b.indices)
    np.testing.assert_array_equal(a.lengths, b.lengths)
    assert bridge_components(a, None) is a


def test_bridging_needs_features():
    graph = graph_of([(0, 1, 1.0), (2, 3, 1.0)], 4)
    with pytest.raises(ValueError, match=r"2 components and no features.*components='separate'"):
        bridge_components(graph, None)
    with pytest.raises(ValueError, match="X has 3 rows, but the graph has 4 vertices"):
        bridge_components(graph, np.eye(3))
    with pytest.raises(ValueError, match="n_bridges must be an integer >= 1"):
        bridge_components(graph, np.eye(4), n_bridges=0)


def boxes_of(parts, shifts):
    return [((c + s).min(axis=0), (c + s).max(axis=0)) for c, s in zip(parts, shifts, strict=True)]


def assert_apart(parts, shifts):
    found = boxes_of(parts, shifts)
    lows, highs = (np.array([box[side] for box in found]) for side in (0, 1))
    for c in range(len(parts)):
        others = np.arange(len(parts)) != c
        separated = np.any((lows[others] > highs[c]) | (highs[others] < lows[c]), axis=1)
        assert separated.all()


@pytest.mark.parametrize("n_components", [1, 2, 3, 5])
@pytest.mark.parametrize("n_parts", [1, 2, 3, 7, 40])
def test_packed_components_do_not_overlap(n_parts, n_components):
    rng = np.random.default_rng(167)
    parts = [
        rng.normal(size=(rng.integers(1, 60), n_components)) * rng.exponential(size=n_components) + 100 * c
        for c in range(n_parts)
    ]
    shifts = pack_components(parts, 0.2)
    assert_apart(parts, shifts)
    placed = np.vstack([c + s for c, s in zip(parts, shifts, strict=True)])
    np.testing.assert_allclose(placed.mean(axis=0), 0, atol=1e-9)
    again = pack_components(parts, 0.2)
    np.testing.assert_array_equal(shifts, again)


def test_three_like_parts_lie_side_by_side():
    part = np.random.default_rng(173).uniform(size=(200, 3))
    found = boxes_of([part] * 3, pack_components([part] * 3, 0.25))
    extent = part.max(axis=0) - part.min(axis=0)
    for (low, high), (next_low, _) in itertools.pairwise(found):
        gap = next_low[0] - high[0]
        assert gap == pytest.approx(0.25 * extent.max(), rel=1e-9)
        np.testing.assert_allclose(low[1:], next_low[1:], atol=1e-12)


def test_largest_part_comes_first():
    rng = np.random.default_rng(179)
    small, large = rng.uniform(size=(50, 2)), 10 * rng.uniform(size=(50, 2))
    shifts = pack_components([small, large], 0.1)
    assert (large + shifts[1]).max(axis=0)[0] < (small + shifts[0]).min(axis=0)[0]


def test_a_thousand_single_points_make_no_line():
    singles = [np.zeros((1, 2))] * 1000
    shifts = pack_components(singles, 0.2)
    assert_apart(singles, shifts)
    width, height = np.ptp(np.array(shifts), axis=0)
    assert width < 6 * height
    giant = np.random.default_rng(181).uniform(size=(5000, 2))
    shifts = pack_components([giant, *singles], 0.2)
    assert_apart([giant, *singles], shifts)
    placed = np.vstack([giant + shifts[0], *shifts[1:]])
    assert np.all(np.ptp(placed, axis=0) < 3)


def test_packing_single_points_in_one_dimension_and_nothing_at_all():
    shifts = np.sort(np.concatenate(pack_components([np.zeros((1, 1))] * 5)))
    assert np.all(np.diff(shifts) > 0.1)
    assert pack_components([]) == []
    with pytest.raises(ValueError, match="gap_ratio must be a finite number >= 0"):
        pack_components([np.zeros((1, 2))], -1)
