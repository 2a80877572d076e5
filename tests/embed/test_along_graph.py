"""Neighbours along the graph: for roads, whose neighbours are hardly ever neighbours of each other."""

from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.csgraph import dijkstra

import isoweave.graph._shortcuts as shortcuts
from isoweave import IsometricEmbedding, diagnose, embed_graph, estimate_resources, geodesic_neighbors
from isoweave._parallel import ThreadTeam
from isoweave.graph import drop_shortcuts, graph_from_matrix, join_along
from reference_graphs import assert_same_graph, with_twin
from reference_shapes import road_graph

TEAM = ThreadTeam(1)
PLACES, ROADS = road_graph(600, 611)


@cache
def map_of_roads(along=None):
    return embed_graph(ROADS, along_graph=along, n_jobs=1)


def shape_error(places, coordinates):
    """Part of the variance that no motion and no scaling explains."""
    p, y = (x - x.mean(axis=0) for x in (places, coordinates))
    p, y = p / np.linalg.norm(p), y / np.linalg.norm(y)
    return 1.0 - np.linalg.svd(p.T @ y)[1].sum() ** 2


def size_of(points):
    return np.linalg.norm(points - points.mean(axis=0))


@pytest.mark.parametrize("make", [sp.csr_array, sp.coo_array, sp.csc_matrix, graph_from_matrix])
def test_any_sparse_matrix_with_or_without_duplicates(make):
    found = geodesic_neighbors(make(ROADS), 6, n_jobs=1)
    assert type(found) is sp.csr_array
    assert_same_graph(graph_from_matrix(found), join_along(graph_from_matrix(ROADS), 6))
    # A vertex on top of another changes nothing for the rest.
    n, wider = len(PLACES), geodesic_neighbors(make(with_twin(ROADS, 5)), 6)
    assert wider[5, n] == wider[n, 5] == 0.0
    assert wider.nnz == found.nnz + 2
    np.testing.assert_array_equal(wider[:n][:, :n].toarray(), found.toarray())


def test_paths_are_no_shortcuts(monkeypatch):
    """By hand, too: the filter tells such a graph by its edges."""
    roads = road_graph(600, 612, 0.45)[1]
    wide = geodesic_neighbors(roads, 8)
    for graph in (roads, wide, wide.astype(np.float32).astype(np.float64)):
        graph = graph_from_matrix(graph)
        left, dropped = drop_shortcuts(graph, team=TEAM)
        assert left is graph
        assert len(dropped) == 0
    monkeypatch.setattr(shortcuts, "_MOST_ALONG", 1.0)
    _, dropped = drop_shortcuts(graph_from_matrix(wide), team=TEAM)
    # Roads of which there is no other: what made maps worse than those of the raw graph.
    assert (roads + roads.T)[dropped[:, 0], dropped[:, 1]].any()


def test_roads_get_a_better_map_of_the_right_size():
    raw, along = map_of_roads(), map_of_roads(12)
    assert shape_error(PLACES, along.coordinates) < shape_error(PLACES, raw.coordinates) < 0.01
    # The graph is the one that was measured, and gives the size; its paths are longer than straight lines.
    assert_same_graph(along.graph, graph_from_matrix(ROADS))
    by_hand = embed_graph(geodesic_neighbors(ROADS, 12), n_jobs=1).coordinates
    np.testing.assert_allclose(by_hand * size_of(along.coordinates) / size_of(by_hand), along.coordinates)
    assert size_of(PLACES) < size_of(along.coordinates) < 0.95 * size_of(by_hand)
    model = IsometricEmbedding(metric="precomputed", along_graph=12, n_jobs=1).fit(ROADS)
    assert np.array_equal(model.embedding_, along.coordinates)
    assert model.graph_.nnz == 2 * along.graph.n_edges


def test_diagnosis_follows_and_prints_the_line_to_type():
    for found in (diagnose(ROADS, n_jobs=1), diagnose(map_of_roads(), n_jobs=1)):
        assert "graph_too_sparse" in found.codes
        assert found.options == {"along_graph": 8}
        assert found.next_step() in str(found)
        assert found.next_step() == "embed_graph(A, n_components=2, along_graph=8)"
        assert found.next_step("r.mtx") == "isoweave embed r.mtx -o map.npz --n-components 2 --along-graph 8"
    of_graph, of_map = diagnose(ROADS, along_graph=8, n_jobs=1), diagnose(map_of_roads(8), n_jobs=1)
    for found in (of_graph, of_map):
        assert "graph_too_sparse" not in found.codes
        assert "along_graph" not in found.options
    assert len(of_map.edges) == ROADS.nnz


def test_components_duplicates_and_what_does_not_go_together():
    pair = sp.block_diag([ROADS, ROADS], format="csr")
    with pytest.warns(UserWarning, match="2 connected components"):
        two = embed_graph(pair, along_graph=8, n_jobs=1).coordinates
    one = map_of_roads(8).coordinates
    for part in (two[: len(one)], two[len(one) :]):
        np.testing.assert_allclose(part - part.mean(axis=0), one - one.mean(axis=0), atol=1e-9)
    with pytest.raises(ValueError, match="edge weights and along_graph"):
        embed_graph(ROADS, along_graph=8, weights=ROADS)
    with pytest.raises(ValueError, match="along_graph must be an integer >= 1, got 0"):
        embed_graph(ROADS, along_graph=0)
    assert estimate_resources(ROADS, along_graph=8).growth_bytes > estimate_resources(ROADS).growth_bytes
    assert np.isfinite(dijkstra(geodesic_neighbors(ROADS, 1))).all()
