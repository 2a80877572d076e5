"""Geodesic neighbours against Dijkstra's algorithm of scipy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse.csgraph import dijkstra

from isoweave._parallel import ThreadTeam, thread_team
from isoweave.graph import connected_components, geodesic_neighbors
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
