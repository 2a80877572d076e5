"""Weights and anchors through the estimator: the same as the function, stored, cloned, updated."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from isoweave import Anchors, IsometricEmbedding, Weights, embed_graph
from isoweave.datasets import s_curve, sensor_network

NET = sensor_network(200, radius=0.17, n_anchors=6, noise=0.05, random_state=8)
AT = NET.truth[NET.anchors]


def test_agrees_with_the_function():
    edges = NET.graph.copy()
    edges.data = 1.0 / NET.graph.data**2
    weights = Weights(edges, np.linspace(0.5, 1.0, 200))
    given = {"weights": weights, "anchors": Anchors(NET.anchors, AT, 2.0)}
    model = IsometricEmbedding(metric="precomputed", refine="distances")
    found = model.fit_transform(NET.graph, **given)
    expected = embed_graph(NET.graph, refine="distances", **given)
    np.testing.assert_array_equal(found, expected.coordinates)
    assert model.energy_ == expected.energy
    assert clone(model).refine == "distances"


def test_positions_are_kept_by_models_and_updates(tmp_path):
    model = IsometricEmbedding("auto", metric="precomputed", refine="distances")
    model.fit(NET.graph, anchors=Anchors(NET.anchors, AT))
    # The dimension comes from the anchors.
    assert model.n_components_ == 2
    np.testing.assert_array_equal(model.embedding_[NET.anchors], AT)
    model.save(tmp_path / "model")
    loaded = IsometricEmbedding.load(tmp_path / "model")
    assert loaded.refine == "distances"
    np.testing.assert_array_equal(loaded.embedding_, model.embedding_)
    loaded.update_graph(NET.graph)
    assert np.abs(loaded.embedding_ - model.embedding_).max() < 0.1


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
