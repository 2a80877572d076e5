"""Edges among pairs, their lengths in a map, neighbours along the graph."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse.csgraph import dijkstra

from isoweave._parallel import ThreadTeam, thread_team
from isoweave.graph import connected_components, edge_distortion, geodesic_neighbors, is_edge, knn_graph
from reference_graphs import (
    complete_of,
    dumbbell,
    graph_of,
    knn_of,
    path_graph,
    random_sparse,
    random_tree,
    row_of,
    with_hubs,
)

TEAM = ThreadTeam(1)


def cases():
    rng = np.random.default_rng(509)
    return {
        "knn": knn_of(rng.normal(size=(80, 2)), 5),
        "sparse": random_sparse(70, 40, rng),
        "tree": random_tree(60, rng),
        "hub": with_hubs(rng.normal(size=(60, 2)), 5, [11], rng),
        "complete": complete_of(rng.normal(size=(15, 2))),
        "parts": graph_of([(0, 1, 1.0), (1, 2, 2.0), (3, 4, 1.5)], 6),
    }


@pytest.mark.parametrize("name", cases())
@pytest.mark.parametrize("n_neighbors", [1, 4, 12, 200])
def test_agrees_with_scipy(name, n_neighbors):
    graph = cases()[name]
    distances = dijkstra(graph.to_matrix())
    expected = {}
    for i in range(graph.n_vertices):
        reached = [
            j for j in np.argsort(distances[i], kind="stable") if j != i and np.isfinite(distances[i, j])
        ]
        for j in reached[:n_neighbors]:
            expected[min(i, j), max(i, j)] = distances[i, j]
    dense = geodesic_neighbors(graph, n_neighbors, team=TEAM)
    found = {(i, j): d for i in range(dense.n_vertices) for _, j, d in row_of(dense, i) if i < j}
    assert set(found) >= set(expected)
    own = {(i, j): d for i in range(graph.n_vertices) for _, j, d in row_of(graph, i) if i < j}
    for edge, d in found.items():
        # An edge longer than the way round it (a hub's, here) stays as it was measured.
        assert d == pytest.approx(distances[edge] if edge in expected else own[edge], rel=1e-12)
    # Nothing but the nearest, and what keeps the graph in one piece.
    assert len(found) <= len(expected) + graph.n_edges


@pytest.mark.parametrize("name", ["knn", "sparse", "tree", "hub", "complete"])
def test_shortest_paths_keep_their_lengths(name):
    graph = cases()[name]
    dense = geodesic_neighbors(graph, 12, team=TEAM)
    np.testing.assert_allclose(dijkstra(dense.to_matrix()), dijkstra(graph.to_matrix()), rtol=1e-12)


def test_nothing_falls_apart():
    """Each end of a dumbbell has more vertices than neighbours are asked for."""
    _, graph = dumbbell(30, 5, 20.0, np.random.default_rng(521))
    dense = geodesic_neighbors(graph, 10, team=TEAM)
    assert connected_components(dense)[0] == 1
    np.testing.assert_allclose(dijkstra(dense.to_matrix()), dijkstra(graph.to_matrix()), rtol=1e-12)


def test_edges_longer_than_the_way_round_get_its_length():
    dense = geodesic_neighbors(graph_of([(0, 1, 1.0), (1, 2, 1.0), (0, 2, 5.0)], 3), 2, team=TEAM)
    np.testing.assert_array_equal(dense.to_matrix().toarray(), [[0, 1, 2], [1, 0, 1], [2, 1, 0]])


def test_degrees_of_a_path():
    dense = geodesic_neighbors(path_graph(9), 2, team=TEAM)
    assert dense.degrees.min() >= 2
    assert dense.n_vertices == 9


def test_threads_do_not_change_the_bits():
    graph = knn_of(np.random.default_rng(523).normal(size=(600, 2)), 5)
    alone = geodesic_neighbors(graph, 15, team=TEAM)
    with thread_team(2) as team:
        together = geodesic_neighbors(graph, 15, team=team)
    np.testing.assert_array_equal(alone.indices, together.indices)
    np.testing.assert_array_equal(alone.lengths, together.lengths)


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
