"""The estimator: parameters, fitted attributes, features, parts, and its place in scikit-learn."""

import pickle
from dataclasses import fields

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from isoweave import Anchors, IsometricEmbedding, Weights, embed_graph
from isoweave.datasets import s_curve, sensor_network
from isoweave.graph import knn_graph
from isoweave.metrics import procrustes_error
from isoweave.options import FitOptions, SearchOptions
from reference_graphs import distance_gap

SHEET = s_curve(250, random_state=281)


def blobs(sizes=(40, 25, 10), seed=283):
    """Planar blobs far apart, rows shuffled: points and blob of each."""
    rng = np.random.default_rng(seed)
    label = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    return rng.normal(size=(len(label), 2)) + 100.0 * label[:, None], label


def test_parameters_and_fitted_attributes():
    model = IsometricEmbedding(n_neighbors=8, refine="none")
    declared = [*fields(SearchOptions), *fields(FitOptions)]
    assert IsometricEmbedding().get_params() == {"n_components": 2} | {f.name: f.default for f in declared}
    assert model.fit(SHEET.data) is model
    assert model.embedding_.shape == (250, 2)
    assert isinstance(model.graph_, sp.csr_array)
    assert (model.graph_ != knn_graph(SHEET.data, 8).to_matrix()).nnz == 0
    assert model.alignments_.shape == (250, 2, 2)
    assert model.energy_ == pytest.approx(model.history_[-1].energy)
    assert (model.n_iter_, model.status_) == (model.history_[-1].iteration, "converged")
    assert model.component_labels_.tolist() == [0] * 250
    assert (model.stretch_.shape, model.dropped_edges_.shape) == ((250, 2), (0, 2))
    assert (model.n_components_, model.n_neighbors_, model.n_features_in_) == (2, 8, 3)
    assert procrustes_error(SHEET.truth, model.embedding_) < 0.01


def test_features_graphs_and_all_distances_agree():
    model = IsometricEmbedding(n_neighbors=8)
    expected = model.fit(SHEET.data).embedding_
    np.testing.assert_array_equal(model.fit_transform(SHEET.data), expected)
    np.testing.assert_array_equal(embed_graph(model.graph_).coordinates, expected)
    sparse = IsometricEmbedding(metric="precomputed").fit(knn_graph(SHEET.data, 8).to_matrix())
    np.testing.assert_array_equal(sparse.embedding_, expected)
    assert (sparse.n_neighbors_, sparse.n_features_in_) == (None, 250)
    # Of all distances the nearest are taken.
    dense = IsometricEmbedding(metric="precomputed", n_neighbors=8).fit(cdist(SHEET.data, SHEET.data))
    assert dense.n_neighbors_ == 8
    assert dense.graph_.nnz == model.graph_.nnz
    assert distance_gap(expected, dense.embedding_) < 1e-6


def cubic(a, b):
    return np.sum(np.abs(a - b) ** 3) ** (1.0 / 3.0)


def test_metrics():
    few = SHEET.data[:100]
    named = IsometricEmbedding(n_neighbors=8, metric="minkowski", metric_params={"p": 3}).fit(few)
    function = IsometricEmbedding(n_neighbors=8, metric=cubic).fit(few)
    assert distance_gap(named.embedding_, function.embedding_) < 1e-6


def test_dimension_is_estimated():
    model = IsometricEmbedding("auto", n_neighbors=8).fit(s_curve(500, random_state=293).data)
    assert model.n_components_ == 2
    assert model.embedding_.shape == (500, 2)
    from_graph = IsometricEmbedding("auto", metric="precomputed").fit(model.graph_)
    assert from_graph.embedding_.shape[1] == from_graph.n_components_ == 2
    # Never more than the points span.
    few = np.random.default_rng(307).normal(size=(6, 40))
    assert 1 <= IsometricEmbedding("auto", n_neighbors=5).fit(few).n_components_ <= 5
    # Nor than columns do, whatever few points seem to say.
    seven = np.random.default_rng(17).random((4, 2))[[0, 1, 2, 0, 1, 2, 3]]
    assert IsometricEmbedding("auto", n_neighbors=6).fit(seven).n_components_ == 2
    with pytest.raises(ValueError, match="n_components='auto' finds no dimension: .*3 distinct .*a number"):
        IsometricEmbedding("auto", n_neighbors=1).fit(seven[:2])


def test_numbers_of_neighbours():
    text = "n_neighbors=10 is not smaller than n_samples=7; 6 neighbours are used"
    with pytest.warns(UserWarning, match=text) as seen:
        model = IsometricEmbedding().fit(SHEET.data[:7])
    assert (len(seen), seen[0].filename, model.n_neighbors_) == (1, __file__, 6)
    for wrong, error in ((0, ValueError), (2.5, TypeError)):
        with pytest.raises(error, match=f"n_neighbors must be an integer.* got {wrong}"):
            IsometricEmbedding(n_neighbors=wrong).fit(SHEET.data)


def test_separate_parts_and_the_largest():
    points, label = blobs()
    for components, text in (
        ("separate", r"3 connected .* \(sizes 40, 25, 10\)"),
        ("largest", "Only the largest"),
    ):
        with pytest.warns(UserWarning, match=text) as caught:
            model = IsometricEmbedding(n_neighbors=6, components=components).fit(points)
        assert len(caught) == 1
        np.testing.assert_array_equal(model.component_labels_, label)
        placed = label == 0 if components == "largest" else label >= 0
        np.testing.assert_array_equal(np.isfinite(model.embedding_).all(axis=1), placed)
        assert procrustes_error(points[label == 0], model.embedding_[label == 0]) < 0.2


def test_bridged_parts():
    """Bridges measure the gaps: the map has one part and roughly the true distances between the blobs."""
    points, label = blobs()
    model = IsometricEmbedding(n_neighbors=6, components="bridge").fit(points)
    assert np.isfinite(model.embedding_).all()
    assert model.component_labels_.tolist() == [0] * 75
    assert model.graph_.nnz > knn_graph(points, 6).to_matrix().nnz
    centres = [[y[label == blob].mean(axis=0) for blob in range(3)] for y in (points, model.embedding_)]
    for a, b in ((0, 1), (1, 2)):
        true, found = (np.linalg.norm(c[a] - c[b]) for c in centres)
        assert found == pytest.approx(true, rel=0.1)
    with pytest.raises(ValueError, match="3 connected components .*Raise n_neighbors"):
        IsometricEmbedding(n_neighbors=6, components="error").fit(points)
    with pytest.raises(ValueError, match="components='bridge' needs features"):
        IsometricEmbedding(metric="precomputed", components="bridge").fit(knn_graph(points, 6).to_matrix())
    # Where nothing is apart, nothing is bridged.
    plain, bridged = (
        IsometricEmbedding(n_neighbors=8, components=components).fit_transform(SHEET.data)
        for components in ("separate", "bridge")
    )
    np.testing.assert_array_equal(bridged, plain)


def test_callback_and_kinds_of_seeds():
    model = IsometricEmbedding(n_neighbors=8, callback=lambda state: state.iteration >= 2).fit(SHEET.data)
    assert (model.status_, model.n_iter_) == ("stopped", 2)
    expected = IsometricEmbedding(n_neighbors=8).fit_transform(SHEET.data)
    for random_state in (5, np.int64(5), np.random.RandomState(5)):
        model = IsometricEmbedding(n_neighbors=8, random_state=random_state)
        np.testing.assert_array_equal(model.fit_transform(SHEET.data), expected)


def test_parameters_are_stored_untouched_and_refitting_forgets():
    start = np.zeros((250, 2))
    model = IsometricEmbedding(n_neighbors=8, start=start, calibrate=True, shortcuts=False).fit(SHEET.data)
    assert model.start is start
    assert (model.calibrate, model.shortcuts) == (True, False)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.embedding_, model.embedding_)
    assert again.history_ == model.history_
    assert not [name for name in vars(clone(model)) if name.endswith("_")]
    model.set_params(n_components=3, start="auto").fit(SHEET.data[:100])
    assert (model.embedding_.shape, model.alignments_.shape) == ((100, 3), (100, 3, 3))


NET = sensor_network(200, radius=0.17, n_anchors=6, noise=0.05, random_state=8)
AT = NET.truth[NET.anchors]


def test_weights_and_anchors_agree_with_the_function_and_are_kept(tmp_path):
    edges = NET.graph.copy()
    edges.data = 1.0 / NET.graph.data**2
    given = {"weights": Weights(edges, np.linspace(0.5, 1.0, 200)), "anchors": Anchors(NET.anchors, AT)}
    # The dimension comes from the anchors.
    model = IsometricEmbedding("auto", metric="precomputed", refine="distances").fit(NET.graph, **given)
    expected = embed_graph(NET.graph, refine="distances", **given)
    np.testing.assert_array_equal(model.embedding_, expected.coordinates)
    assert (model.energy_, model.n_components_) == (expected.energy, 2)
    model.save(tmp_path / "model")
    loaded = IsometricEmbedding.load(tmp_path / "model")
    assert loaded.refine == "distances"
    np.testing.assert_array_equal(loaded.embedding_[NET.anchors], AT)
    loaded.update_graph(NET.graph)
    assert np.median(np.abs(loaded.embedding_ - model.embedding_)) < 0.01


def test_features_with_anchors_and_new_points():
    sheet = s_curve(500, random_state=2)
    chosen = np.arange(0, 400, 40)
    model = IsometricEmbedding(n_neighbors=10)
    model.fit(sheet.data[:400], anchors=Anchors(chosen, sheet.truth[chosen]))
    # New points are in the anchors' coordinates too.
    error = np.linalg.norm(model.transform(sheet.data[400:]) - sheet.truth[400:], axis=1)
    assert np.median(error) < 0.1
    for weights in (sp.eye_array(500), Weights(edges=np.eye(500))):
        with pytest.raises(ValueError, match="edge weights need metric='precomputed'"):
            model.fit(sheet.data, weights=weights)


# The checks fit tiny data sets with the default parameters: clipped neighbours and parts are announced there.
@pytest.mark.filterwarnings("ignore:n_neighbors=10 is not smaller:UserWarning")
@pytest.mark.filterwarnings("ignore:The graph has .* connected components:UserWarning")
@parametrize_with_checks([IsometricEmbedding(), IsometricEmbedding(metric="precomputed")])
def test_scikit_learn_check(estimator, check):
    """All pass, none is expected to fail."""
    check(estimator)


def test_sizes_that_are_surely_mistaken_are_warned_of():
    with pytest.warns(UserWarning, match="n_neighbors=120 joins each of 250 points .* 10 to 30 are usual"):
        IsometricEmbedding(n_neighbors=120, max_iter=500).fit(SHEET.data)
    with pytest.warns(UserWarning, match="n_components=4, but the features have 3 columns"):
        IsometricEmbedding(n_components=4, n_neighbors=12).fit(SHEET.data[:60])
