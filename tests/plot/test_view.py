"""Views: t-SNE held in place by the order of distances."""

import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.csgraph import dijkstra
from scipy.spatial.distance import cdist
from sklearn.manifold import trustworthiness

from isoweave import IsometricEmbedding, as_embedding
from isoweave.graph import knn_graph
from isoweave.plot import view
from isoweave.plot._view import _nearest, _weighed

# Five clusters on a line in six dimensions, far ones far apart.
LABELS = np.repeat(np.arange(5), 30)
CLOUD = np.random.default_rng(19).normal(size=(150, 6)) + 4.0 * np.outer(LABELS, [1, 1, 0, 0, 0, 0])


def test_clusters_apart_in_their_places():
    pytest.importorskip("openTSNE")
    model = IsometricEmbedding(n_components=6, n_neighbors=10).fit(CLOUD)
    free, held = model.view(pull=0.0), as_embedding(model).view()
    points = model.embedding_
    for found in (free, held):
        expected = trustworthiness(points, found.coordinates, n_neighbors=15)
        assert found.kept["trust"] == pytest.approx(expected, abs=1e-6)
        assert found.kept["trust"] > 0.9
    assert held.kept["spearman"] > free.kept["spearman"] + 0.01
    assert held.kept["spearman"] > 0.85
    # Neighbouring clusters on the line are nearest in the picture.
    middles = np.array([held.coordinates[k == LABELS].mean(axis=0) for k in range(5)])
    gaps = np.linalg.norm(middles[:, None] - middles, axis=2)
    assert np.argsort(gaps[0]).tolist() == [0, 1, 2, 3, 4]
    assert repr(held).startswith(
        "<view of a 6-dimensional map (t-SNE held by the order of its distances; not to scale)"
    )
    ax = held.plot(LABELS)
    assert "not to scale" in ax.get_xlabel()
    plt.close("all")


def test_neighbours_are_the_nearest_along_the_graph():
    points = CLOUD.copy()
    points[1] = points[0]  # a duplicate
    graph = knn_graph(points, 10)
    matrix = graph.to_matrix()
    matrix.data = np.maximum(matrix.data, 1e-300)  # scipy takes a stored zero for no edge
    paths = dijkstra(matrix)
    near, distances = _nearest(points, graph, 12)
    np.testing.assert_allclose(distances, np.sort(paths, axis=1)[:, 1:13], atol=1e-12)
    np.testing.assert_allclose(np.take_along_axis(paths, near, axis=1), distances, atol=1e-12)
    assert not (near == np.arange(150)[:, None]).any()
    # In several parts some vertices have fewer: the map's neighbours take their place.
    apart = _nearest(points, knn_graph(points + 100.0 * LABELS[:, None], 5), 40)
    straight = np.sort(cdist(points, points), axis=1)[:, 1:41]
    for _, distances in (apart, _nearest(points, None, 40)):
        np.testing.assert_allclose(distances, straight, atol=1e-7)


def test_neighbours_that_share_neighbours_attract_each_other_more():
    """Two groups that are joined by a single pair."""
    near = np.array([[1, 2], [0, 2], [0, 1], [4, 5], [3, 5], [3, 4]])
    ends = np.array([[0, 1, 2, 3, 3, 4, 2], [1, 2, 0, 4, 5, 5, 3]])
    half = sp.coo_array((np.ones(7), ends), shape=(6, 6))
    found = _weighed(half + half.T, near).toarray()
    np.testing.assert_allclose(found, found.T)
    assert found.sum() == pytest.approx(1.0)
    assert found[2, 3] > 0.0
    assert found[2, 3] < 0.05 * found[2, 1]
    assert np.count_nonzero(found) == 14


def test_coordinates_alone_and_rows_without():
    pytest.importorskip("openTSNE")
    points = CLOUD.copy()
    points[3] = np.nan
    found = view(points, pull=1.0, perplexity=5)
    assert np.isnan(found.coordinates[3]).all()
    assert np.isfinite(np.delete(found.coordinates, 3, axis=0)).all()
    placed = np.delete(points, 3, axis=0) - np.nanmean(points, axis=0)
    flat = placed @ np.linalg.svd(placed, full_matrices=False)[2][:2].T
    seen = np.delete(found.coordinates, 3, axis=0)
    assert np.corrcoef(flat[:, 0], seen[:, 0])[0, 1] ** 2 > 0.99


def test_bad_input(monkeypatch):
    pytest.importorskip("openTSNE")
    with pytest.raises(ValueError, match="at least 4 points"):
        view(np.zeros((3, 2)))
    with pytest.raises(ValueError, match="pull"):
        view(CLOUD, pull=2.0)
    monkeypatch.setitem(sys.modules, "openTSNE", None)
    with pytest.raises(ImportError, match=r"isoweave\[view\]"):
        view(CLOUD)
