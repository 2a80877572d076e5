"""Graphs of networkx and igraph, and roads of geopandas, as distance matrices."""

import numpy as np
import pytest
import scipy.sparse as sp

from isoweave import IsometricEmbedding, embed_graph, from_igraph, from_networkx
from isoweave.graph import knn_graph
from isoweave.interop import distances_of, from_geopandas
from isoweave.metrics import procrustes_error

nx = pytest.importorskip("networkx")

TOWNS = np.random.default_rng(811).uniform(size=(60, 2))


def town_graph(kind=nx.Graph):
    """Towns named "t0" .. "t59", each joined to its eight nearest; added in an order of their own."""
    matrix = sp.triu(knn_graph(TOWNS, 8).to_matrix()).tocoo()
    G = kind()
    G.add_nodes_from(f"t{i}" for i in np.random.default_rng(812).permutation(60))
    G.add_weighted_edges_from(
        (f"t{i}", f"t{j}", d) for i, j, d in zip(matrix.row, matrix.col, matrix.data, strict=True)
    )
    return G


def order_of(names):
    return [int(name[1:]) for name in names]


@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph])
def test_every_kind_of_graph_gives_the_same_distances(kind):
    distances, names = from_networkx(town_graph(kind))
    order = order_of(names)
    assert sorted(order) == list(range(60)) != order
    expected = knn_graph(TOWNS, 8).to_matrix()[order][:, order]
    assert (distances.nnz, (distances != expected).nnz) == (expected.nnz, 0)


def test_fit_takes_the_graph_itself():
    G = town_graph()
    model = IsometricEmbedding(metric="precomputed").fit(G)
    np.testing.assert_array_equal(model.embedding_, embed_graph(from_networkx(G).distances).coordinates)
    assert procrustes_error(TOWNS[order_of(G.nodes)], model.embedding_) < 0.01
    smaller = G.copy()
    smaller.remove_node(list(G.nodes)[-1])
    assert model.update_graph(smaller, kept=np.arange(59)).embedding_.shape == (59, 2)


def test_features_are_not_taken_for_graphs():
    assert distances_of(TOWNS) is TOWNS
    matrix = sp.eye_array(3)
    assert distances_of(matrix) is matrix
    with pytest.raises((TypeError, ValueError)):
        IsometricEmbedding().fit(town_graph())


def test_lengths_of_edges():
    G = nx.Graph()
    G.add_edge("a", "b", miles=2, weight=99.0)
    G.add_edge("b", "c", miles=np.float32(3.5), weight=99.0)
    assert from_networkx(G, "miles").distances.toarray().tolist() == [[0, 2, 0], [2, 0, 3.5], [0, 3.5, 0]]
    doubled = from_networkx(G, lambda u, v, data: 2 * data["miles"] + (u == "a")).distances
    assert doubled.toarray()[0].tolist() == [0, 5, 0]
    assert from_networkx(G, None).distances.data.tolist() == [1.0] * 4
    # Zero lengths and isolated nodes stay, loops go.
    G = nx.Graph()
    G.add_weighted_edges_from([(0, 1, 0.0), (1, 2, 1.0), (2, 2, 7.0)])
    G.add_node("alone")
    distances, names = from_networkx(G)
    assert names == (0, 1, 2, "alone")
    assert (distances.nnz, distances.shape) == (4, (4, 4))
    assert not distances.diagonal().any()
    # Two lengths of one edge are settled as asked.
    G = nx.DiGraph()
    G.add_weighted_edges_from([("a", "b", 2.0), ("b", "a", 4.0)])
    roads = nx.MultiGraph([("a", "b", {"weight": 2.0}), ("a", "b", {"weight": 4.0})])
    for graph in (G, roads):
        with pytest.raises(ValueError, match=r"disagree.*order of the graph's vertices"):
            from_networkx(graph)
        for rule, length in (("min", 2.0), ("max", 4.0), ("mean", 3.0)):
            assert from_networkx(graph, asymmetry=rule).distances.data.tolist() == [length] * 2


BAD_LENGTHS = [
    ({}, ValueError, "has no attribute 'weight'.*weight=None"),
    ({"weight": None}, ValueError, "has no attribute 'weight'"),
    ({"weight": "3"}, TypeError, "has the length '3' of type str"),
    ({"weight": True}, TypeError, "has the length True of type bool"),
    ({"weight": -1.0}, ValueError, "has the length -1.0; lengths must be finite"),
    ({"weight": np.nan}, ValueError, "has the length nan"),
    ({"weight": np.inf}, ValueError, "has the length inf"),
]


def test_bad_lengths_are_refused_by_the_names_of_their_ends_and_what_is_no_graph():
    for data, error, message in BAD_LENGTHS:
        G = nx.Graph()
        G.add_edge("c", "d", weight=1.0)
        G.add_edge("a", "b", **data)
        with pytest.raises(error, match=rf"Edge \('a', 'b'\) {message}"):
            from_networkx(G)
    with pytest.raises(TypeError, match="Expected a networkx graph, got ndarray"):
        from_networkx(TOWNS)
    with pytest.raises(TypeError, match="Expected an igraph graph, got Graph"):
        from_igraph(nx.Graph())
    with pytest.raises(TypeError, match="Expected a GeoDataFrame or GeoSeries, got ndarray"):
        from_geopandas(np.eye(3))
    with pytest.raises(ValueError, match="at least 2 vertices"):
        from_networkx(nx.empty_graph(1))


def test_igraph():
    library = pytest.importorskip("igraph")
    G = town_graph()
    other = library.Graph.from_networkx(G)
    other.vs["name"] = other.vs["_nx_name"]
    expected, names = from_networkx(G)
    found, found_names = from_igraph(other)
    assert found_names == names
    assert (found != expected).nnz == 0
    model = IsometricEmbedding(metric="precomputed").fit(other)
    np.testing.assert_array_equal(model.embedding_, embed_graph(expected).coordinates)
    G = library.Graph(n=3, edges=[(0, 1), (1, 2), (1, 2), (2, 2)])
    with pytest.raises(ValueError, match=r"Edge \(0, 1\) has no attribute 'weight'"):
        from_igraph(G)
    assert from_igraph(G, None).names == (0, 1, 2)
    G.es["miles"] = [1.0, 2, 5, 1]
    assert from_igraph(G, "miles", asymmetry="max").distances.data.tolist() == [1, 1, 5, 5]
    twice = from_igraph(G, lambda edge: edge["miles"] * 2, asymmetry="min")
    assert twice.distances.data.tolist() == [2, 2, 4, 4]


@pytest.fixture(scope="module")
def roads():
    geopandas = pytest.importorskip("geopandas")
    from shapely.geometry import LineString, MultiLineString

    bent = LineString([(0, 0), (0, 3), (4, 3)])
    lines = [bent, LineString([(0, 0), (4, 3)]), MultiLineString([[(4, 3), (8, 3)], [(8, 3), (8, 0)]])]
    return geopandas.GeoDataFrame({"metres": [7.5, 5.5, 4.0]}, geometry=lines, crs="EPSG:3857")


def test_roads_meet_at_their_ends(roads):
    distances, names = from_geopandas(roads)
    assert names == ((0, 0), (4, 3), (8, 3), (8, 0))
    # Of the two ways between the first two the shorter counts.
    expected = np.zeros((4, 4))
    expected[0, 1], expected[1, 2], expected[2, 3] = 5.0, 4.0, 3.0
    np.testing.assert_allclose(distances.toarray(), expected + expected.T)
    assert from_geopandas(roads, length="metres").distances[0, 1] == 5.5
    assert embed_graph(distances).coordinates.shape == (4, 2)


def test_roads_that_are_refused(roads):
    with pytest.raises(ValueError, match="degrees"):
        from_geopandas(roads.to_crs("EPSG:4326"))
    with pytest.raises(ValueError, match="there is a Point"):
        from_geopandas(roads.set_geometry(roads.geometry.centroid))
