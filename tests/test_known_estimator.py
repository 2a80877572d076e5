"""Weights and anchors through the estimator: the same as the function, stored, cloned, routed."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from isoweave import IsometricEmbedding, embed_graph
from isoweave.datasets import sensor_network, swiss_roll

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
    roll = swiss_roll(400, random_state=2)
    chosen = np.arange(0, 300, 30)
    model = IsometricEmbedding(n_neighbors=10)
    model.fit(roll.data[:300], anchors=chosen, anchor_positions=roll.truth[chosen])
    # New points are in the anchors' coordinates too.
    error = np.linalg.norm(model.transform(roll.data[300:]) - roll.truth[300:], axis=1)
    assert np.median(error) < 2.0
    with pytest.raises(ValueError, match="edge_weights are for metric='precomputed'"):
        model.fit(roll.data, edge_weights=sp.eye_array(400))


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
