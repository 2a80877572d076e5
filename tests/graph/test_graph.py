"""Edges among pairs, their lengths in a map, neighbours along the graph, intrinsic dimension."""

import numpy as np
import pytest
from scipy.sparse.csgraph import dijkstra
from scipy.spatial.distance import cdist

import reference_graphs as ref
from isoweave._parallel import ThreadTeam, thread_team
from isoweave.graph import (
    NeighborGraph,
    _graph,
    _index,
    connected_components,
    edge_distortion,
    geodesics_from,
    intrinsic_dimension,
    intrinsic_dimension_graph,
    is_edge,
    join_along,
    knn_graph,
    local_order,
    renumber,
)
from isoweave.graph._assembly import merge_entries, sort_entries
from reference_graphs import assert_same_graph

TEAM = ThreadTeam(1)
RNG = np.random.default_rng(509)
GRAPHS = {
    "knn": ref.knn_of(RNG.normal(size=(80, 2)), 5),
    "sparse": ref.random_sparse(70, 40, RNG),
    "tree": ref.random_tree(60, RNG),
    "hub": ref.with_hubs(RNG.normal(size=(60, 2)), 5, [11], RNG),
    "complete": ref.complete_of(RNG.normal(size=(15, 2))),
    "parts": ref.graph_of([(0, 1, 1.0), (1, 2, 2.0), (3, 4, 1.5)], 6),
    # Each end has more vertices than neighbours are asked for: nothing may fall apart.
    "dumbbell": ref.dumbbell(30, 5, 20.0, RNG)[1],
}


@pytest.mark.parametrize("asymmetry", ["max", "min", "mean", "error"])
def test_rows_are_the_same_by_sorting_all_entries(asymmetry):
    """Repeated entries in both directions, some of which disagree, and a hub too long for insertion."""
    rng = np.random.default_rng(3)
    rows, cols = rng.integers(0, 400, (2, 3000))
    rows[:300], cols[:300] = 7, np.arange(50, 350)
    rows, cols = np.concatenate((rows, cols[:1500])), np.concatenate((cols, rows[:1500]))
    rows, cols = rows[rows != cols], cols[rows != cols]
    lengths = (1 + (rows + cols) % 5) * (1.0 + 1e-3 * rng.integers(0, 2, len(rows)) * (rows % 2))
    if asymmetry == "error":
        assert merge_entries(400, rows, cols, lengths, asymmetry, 1e-6, TEAM) is None
        asymmetry, lengths = "error", 1.0 + (rows + cols) % 5
    expected = sort_entries(400, rows, cols, lengths, asymmetry, 1e-6)
    for n_jobs in (1, 2):
        with thread_team(n_jobs) as team:
            found = merge_entries(400, rows, cols, lengths, asymmetry, 1e-6, team)
        for one, other in zip(found, expected, strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)
    graph = NeighborGraph(*expected)
    np.testing.assert_array_equal(graph.sources[graph.reverse], graph.indices)
    np.testing.assert_array_equal(graph.indices[graph.reverse], graph.sources)
    order = rng.permutation(400)
    matrix, moved = graph.to_matrix()[order][:, order], renumber(graph, order)
    matrix.sort_indices()
    assert_same_graph(moved, NeighborGraph(matrix.indptr, matrix.indices, matrix.data))


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
@pytest.mark.parametrize("n_neighbors", [1, 4, 200])
def test_geodesic_neighbours_agree_with_scipy(graph, n_neighbors):
    distances = dijkstra(graph.to_matrix())
    expected = {}
    for i, row in enumerate(distances):
        reached = [int(j) for j in np.argsort(row, kind="stable") if j != i and np.isfinite(row[j])]
        expected |= {(min(i, j), max(i, j)): row[j] for j in reached[:n_neighbors]}
    dense = join_along(graph, n_neighbors, team=TEAM)
    found = {(i, j): d for i, j, d in ref.edges_of(dense)}
    own = {(i, j): d for i, j, d in ref.edges_of(graph)}
    for edge, d in found.items():
        # An edge longer than its detour (a hub's, here) stays as it was measured.
        assert d == pytest.approx(distances[edge] if edge in expected else own[edge], rel=1e-12)
    # Nothing but the nearest and the graph's own edges, which keep it in one piece.
    assert set(found) == set(expected) | set(own)
    assert connected_components(dense)[0] == connected_components(graph)[0]
    np.testing.assert_allclose(dijkstra(dense.to_matrix()), distances, rtol=1e-12)


def test_searching_from_several_sources_together_has_the_same_bits(monkeypatch):
    """On graphs of few and of many hops, connected or not."""
    points = np.random.default_rng(524).normal(size=(400, 6))
    ring = knn_graph(np.column_stack((np.cos(np.arange(300) / 48), np.sin(np.arange(300) / 48))), 2)
    for graph in (knn_graph(points, 8), knn_graph(np.vstack((points, points + 50.0)), 8), ring):
        sources = np.arange(0, graph.n_vertices, 21, dtype=np.int32)
        alone = geodesics_from(graph, sources)
        np.testing.assert_allclose(alone, dijkstra(graph.to_matrix(), indices=sources), rtol=1e-12)
        monkeypatch.setattr(_graph, "_MANY_GEODESICS", 0)
        with thread_team(2) as team:
            np.testing.assert_array_equal(geodesics_from(graph, sources, team=team), alone)
        monkeypatch.undo()


def test_edges_longer_than_their_detour_get_its_length_whatever_the_threads():
    dense = join_along(ref.graph_of([(0, 1, 1.0), (1, 2, 1.0), (0, 2, 5.0)], 3), 2, team=TEAM)
    np.testing.assert_array_equal(dense.to_matrix().toarray(), [[0, 1, 2], [1, 0, 1], [2, 1, 0]])
    graph = knn_graph(np.random.default_rng(523).normal(size=(600, 2)), 5)
    with thread_team(2) as team:
        assert_same_graph(join_along(graph, 15, team=team), join_along(graph, 15, team=TEAM))


def test_edges_among_pairs_in_either_direction():
    graph = knn_graph(np.random.default_rng(421).normal(size=(40, 2)), 4)
    pairs = np.array([(7, graph.indices[graph.indptr[7]]), (0, 39), (graph.indices[graph.indptr[20]], 20)])
    wanted = {frozenset(pair) for pair in pairs.tolist()}
    ends = np.column_stack((graph.sources, graph.indices)).tolist()
    expected = [frozenset(pair) in wanted for pair in ends]
    np.testing.assert_array_equal(is_edge(graph, pairs), expected)
    assert sum(expected) >= 4


def test_distortion_of_ordinary_edges_duplicates_and_missing_ends():
    points = np.array([[0.0, 0.0], [3.0, 4.0], [3.0, 4.0], [np.nan, 0.0], [1e300, 0.0]])
    edges = np.array([(0, 1), (1, 2), (0, 1), (0, 3), (0, 3), (0, 4)])
    lengths = np.array([10.0, 0.0, 0.0, 1.0, 0.0, 5e299])
    expected = [-0.5, 0.0, np.inf, np.nan, np.nan, 1.0]
    np.testing.assert_allclose(edge_distortion(edges, lengths, points), expected)


@pytest.mark.parametrize("dimension", [1, 2, 5])
def test_dimension_of_uniform_points_in_a_wider_space(dimension, monkeypatch):
    rng = np.random.default_rng(191)
    X = rng.uniform(size=(2000, dimension)) @ np.linalg.qr(rng.normal(size=(12, dimension)))[0].T
    # Statistical error about d / sqrt(n), and a bias of the border that grows with d.
    whole = intrinsic_dimension(X)
    assert whole == pytest.approx(dimension, rel=0.1)
    # Of many points a sample is enough, the same in any order of the rows.
    monkeypatch.setattr(_index, "_MAX_SAMPLES", 1000)
    sampled = intrinsic_dimension(X)
    assert sampled == intrinsic_dimension(X[::-1]) != whole
    assert sampled == pytest.approx(dimension, rel=0.15)


@pytest.mark.parametrize(("n_features", "metric"), [(3, "euclidean"), (14, "euclidean"), (4, "cityblock")])
def test_dimension_of_graph_and_features_agree_with_the_loop(n_features, metric):
    """Neither duplicates nor the order of the rows nor their scale matter."""
    rng = np.random.default_rng(197)
    X = rng.normal(size=(300, n_features))
    nearest = np.sort(cdist(X, X, metric), axis=1)
    x = [np.log(mu) for mu in sorted(nearest[:, 2] / nearest[:, 1])[:270]]
    y = [-np.log(1 - (i + 1) / 300) for i in range(270)]
    slope = sum(a * b for a, b in zip(x, y, strict=True)) / sum(a * a for a in x)
    repeated = np.vstack([X, X[:50], X[:50]])[rng.permutation(400)]
    for rows in (X, repeated, 1e6 * X):
        assert intrinsic_dimension(rows, metric=metric) == pytest.approx(slope, rel=1e-9)
        found = intrinsic_dimension_graph(knn_graph(rows, 6, metric=metric))
        assert found == pytest.approx(slope, rel=1e-9)


TOO_LITTLE = [
    (lambda: intrinsic_dimension([[0.0], [1.0], [0.0], [1.0]]), "3 distinct points, got 2 among 4"),
    (lambda: intrinsic_dimension_graph(ref.path_graph(3)), "vertices with two or more edges, got 1 among 3"),
    (lambda: intrinsic_dimension(np.argwhere(np.ones((5, 5)))), "equally far"),
    (lambda: intrinsic_dimension(np.eye(4), metric=lambda x, y: 0.0), "equally far"),
]


def test_dimension_of_a_graph_where_distant_points_chose_most_vertices():
    """More than nine in ten have a neighbour that is not among their own nearest ten."""
    X = np.random.default_rng(1).standard_t(2, size=(1000, 8))
    graph = knn_graph(X, 10)
    assert np.percentile(graph.degrees, 10) > 10
    assert intrinsic_dimension_graph(graph) == pytest.approx(intrinsic_dimension(X), rel=1e-9)


def test_too_little_to_estimate_the_dimension_from():
    for estimate, text in TOO_LITTLE:
        with pytest.raises(ValueError, match=text):
            estimate()


def test_other_lengths_keep_what_only_the_pattern_tells():
    graph = knn_graph(np.random.default_rng(3).random((30_000, 2)), 6)
    whole = renumber(graph, local_order(graph))
    assert whole.is_connected == (connected_components(graph)[0] == 1)
    vars(graph)["on_device"] = object()
    other = graph.with_lengths(2.0 * graph.lengths)
    # Whatever has lengths of its own stays behind.
    assert "on_device" not in vars(other)
    fresh = NeighborGraph(graph.indptr, graph.indices, 2.0 * graph.lengths)
    for name in ("degrees", "sources", "reverse", "search_order", "is_connected"):
        assert np.array_equal(getattr(other, name), getattr(fresh, name))
