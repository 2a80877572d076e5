"""Weights and anchors through the estimator: the same as the function, stored, cloned, routed."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from isoweave import IsometricEmbedding, embed_graph
from isoweave.datasets import s_curve, sensor_network

NET = sensor_network(200, radius=0.17, n_anchors=6, noise=0.05, random_state=8)
AT = NET.truth[NET.anchors]


def test_agrees_with_the_function():
    weights = NET.graph.copy()
    weights.data = 1.0 / NET.graph.data**2
    known = {
        "edge_weights": weights,
        "vertex_weights": np.linspace(0.5, 1.0, 200),
        "anchors": NET.anchors,
        "anchor_positions": AT,
        "anchor_weight": 2.0,
    }
    model = IsometricEmbedding(metric="precomputed", refine="distances")
    found = model.fit_transform(NET.graph, **known)
    expected = embed_graph(NET.graph, refine="distances", **known)
    np.testing.assert_array_equal(found, expected.coordinates)
    assert model.energy_ == expected.energy
    assert clone(model).refine == "distances"


def test_dimension_comes_from_the_anchors():
    model = IsometricEmbedding("auto", metric="precomputed")
    model.fit(NET.graph, anchors=NET.anchors, anchor_positions=AT)
    assert model.n_components_ == 2
    np.testing.assert_array_equal(model.embedding_[NET.anchors], AT)


def test_features_with_anchors_and_new_points():
    sheet = s_curve(500, random_state=2)
    chosen = np.arange(0, 400, 40)
    model = IsometricEmbedding(n_neighbors=10)
    model.fit(sheet.data[:400], anchors=chosen, anchor_positions=sheet.truth[chosen])
    # New points are in the anchors' coordinates too.
    error = np.linalg.norm(model.transform(sheet.data[400:]) - sheet.truth[400:], axis=1)
    assert np.median(error) < 0.1
    with pytest.raises(ValueError, match="edge_weights are for metric='precomputed'"):
        model.fit(sheet.data, edge_weights=sp.eye_array(500))


def test_stored_models_keep_their_places(tmp_path):
    model = IsometricEmbedding(metric="precomputed", refine="distances")
    model.fit(NET.graph, anchors=NET.anchors, anchor_positions=AT)
    model.save(tmp_path / "model")
    loaded = IsometricEmbedding.load(tmp_path / "model")
    assert loaded.refine == "distances"
    np.testing.assert_array_equal(loaded.embedding_, model.embedding_)


def test_updates_stay_in_the_anchors_coordinates():
    model = IsometricEmbedding(metric="precomputed")
    model.fit(NET.graph, anchors=NET.anchors, anchor_positions=AT)
    before = model.embedding_.copy()
    model.update_graph(NET.graph)
    assert np.abs(model.embedding_ - before).max() < 0.1


def test_unknown_refinement():
    with pytest.raises(ValueError, match=r"refine must be one of .* Did you mean 'distances'"):
        IsometricEmbedding(refine="distance").fit(np.zeros((5, 2)))
