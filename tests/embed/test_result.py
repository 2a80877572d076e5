"""A finished map: what it says of itself, and any other map in its clothes."""

import matplotlib.axes
import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.exceptions import NotFittedError
from sklearn.manifold import Isomap

import isoweave
from isoweave import Embedding, IsometricEmbedding, embed_graph
from isoweave.datasets import s_curve
from isoweave.graph import edge_keys, knn_graph
from isoweave.metrics import evaluate
from isoweave.result import as_embedding

DATA = s_curve(200, random_state=131).data
MATRIX = knn_graph(DATA, 8).to_matrix()


@pytest.fixture(scope="module")
def found():
    return embed_graph(MATRIX)


def test_sizes_and_distances(found):
    assert (found.n_points, found.n_components) == (200, 2)
    assert found.n_iter == found.history[-1].iteration > 0
    assert found.is_placed.all()
    between = cdist(found.coordinates, found.coordinates)
    np.testing.assert_array_equal(found.distances(), between)
    np.testing.assert_array_equal(found.distances(3, [1, 2]), between[[3]][:, [1, 2]])
    np.testing.assert_array_equal(found.distances(columns=7), between[:, [7]])
    partial = Embedding(np.array([[0.0, 1.0], [np.nan, np.nan]]))
    found = (partial.is_placed.tolist(), partial.n_iter, partial.status, partial.dropped_edges.shape)
    assert found == ([True, False], 0, None, (0, 2))


def test_what_a_user_would_try(found, tmp_path):
    """Each is the function of the same name, given the map."""
    assert found.evaluate() == evaluate(found.graph, found.coordinates)
    assert str(found.diagnose()) == str(isoweave.diagnose(found))
    page = found.report(tmp_path / "map.html")
    assert page.stat().st_size > 1000
    assert isinstance(found.plot(), matplotlib.axes.Axes)
    found.save(tmp_path / "map.isoweave")
    np.testing.assert_array_equal(as_embedding(tmp_path / "map.isoweave").stretch, found.stretch)
    frame = found.to_frame()
    assert list(frame) == ["x1", "x2", "component", "largest_stretch", "smallest_stretch"]
    np.testing.assert_array_equal(frame[["x1", "x2"]], found.coordinates)
    named = Embedding(np.eye(2), names=("a", "b")).to_frame()
    assert (list(named), named.index.name) == (["x1", "x2"], "vertex")
    assert named.loc["b"].tolist() == [0.0, 1.0]


def test_dropped_edges_are_measured_but_not_kept(found):
    assert found.kept_graph("stretch") is found.graph
    dropped = np.array([[0, int(MATRIX.indices[0])]], dtype=np.int32)
    less = Embedding(found.coordinates, found.graph, dropped_edges=dropped)
    assert less.measured_graph("stretch").n_edges == found.graph.n_edges
    kept = less.kept_graph("stretch")
    assert kept.n_edges == found.graph.n_edges - 1
    assert dropped[0, 0] * 200 + dropped[0, 1] not in edge_keys(kept)
    for call in (less.__class__(less.coordinates).evaluate, lambda: as_embedding(np.eye(3)).kept_graph("x")):
        with pytest.raises(TypeError, match="needs the measured distances: .* together with graph="):
            call()


def test_any_map_as_an_embedding(found):
    assert as_embedding(found) is found
    model = IsometricEmbedding(n_neighbors=8).fit(DATA)
    ours = as_embedding(model)
    np.testing.assert_array_equal(ours.coordinates, found.coordinates)
    np.testing.assert_array_equal(ours.alignments, found.alignments)
    np.testing.assert_array_equal(ours.graph.lengths, found.graph.lengths)
    assert (ours.energy, ours.status, ours.history) == (found.energy, found.status, found.history)
    assert (ours.features is model._fit_X, ours.parameters["n_neighbors"]) == (True, 8)
    assert "callback" not in ours.parameters
    theirs = as_embedding(Isomap(n_neighbors=8).fit(DATA), graph=MATRIX)
    assert theirs.coordinates.dtype == np.float64
    assert theirs.evaluate().keys() == found.evaluate().keys()
    plain = as_embedding([[0, 1], [2, 3]])
    assert plain.coordinates.dtype == np.float64
    assert plain.graph is plain.stretch is plain.energy is None
    # What was measured against another graph does not hold for this one.
    assert as_embedding(found, graph=knn_graph(DATA, 5)).stretch is None


NO_MAPS = [
    (None, TypeError, "Expected an Embedding, a fitted estimator, .* got NoneType"),
    (b"map", TypeError, "got bytes"),
    ({"x": 1}, TypeError, "got dict"),
    ([["a", "b"]], TypeError, "of dtype <U1"),
    (np.ones(3), ValueError, r"got an array of shape \(3,\)"),
    (np.ones((0, 2)), ValueError, r"got an array of shape \(0, 2\)"),
    ([[0.0, 1.0], [np.inf, 0.0]], ValueError, r"must not be infinite, but entry \(1, 0\) is"),
    (np.eye(3), ValueError, "The map has 3 rows, but the graph has 200 vertices"),
    (IsometricEmbedding(), NotFittedError, "This IsometricEmbedding instance is not fitted yet"),
]


def test_what_is_no_map():
    for source, error, text in NO_MAPS:
        with pytest.raises(error, match=text):
            as_embedding(source, graph=MATRIX)
