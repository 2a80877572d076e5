"""Intrinsic dimension of features and of graphs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from isoweave.graph import _index, intrinsic_dimension, intrinsic_dimension_graph, knn_graph
from reference_graphs import path_graph


@pytest.mark.parametrize("dimension", [1, 2, 5])
def test_uniform_points_in_a_wider_space(dimension):
    rng = np.random.default_rng(191)
    X = rng.uniform(size=(4000, dimension)) @ np.linalg.qr(rng.normal(size=(12, dimension)))[0].T
    # Statistical error about d / sqrt(n), and a bias of the border that grows with d.
    assert intrinsic_dimension(X) == pytest.approx(dimension, rel=0.08)


def test_slow_twin():
    X = np.random.default_rng(193).normal(size=(120, 3))
    nearest = np.sort(cdist(X, X), axis=1)
    x = [np.log(mu) for mu in sorted(nearest[:, 2] / nearest[:, 1])[:108]]
    y = [-np.log(1 - (i + 1) / 120) for i in range(108)]
    slope = sum(a * b for a, b in zip(x, y, strict=True)) / sum(a * a for a in x)
    assert intrinsic_dimension(X) == pytest.approx(slope, rel=1e-10)


@pytest.mark.parametrize(("n_features", "metric"), [(3, "euclidean"), (14, "euclidean"), (4, "manhattan")])
def test_graph_and_features_agree(n_features, metric):
    """Neither duplicates nor the order of the rows nor their scale matter."""
    rng = np.random.default_rng(197)
    X = rng.normal(size=(300, n_features))
    expected = intrinsic_dimension(X, metric=metric)
    repeated = np.vstack([X, X[:50], X[:50]])[rng.permutation(400)]
    assert intrinsic_dimension(repeated, metric=metric) == expected
    for rows in (X, repeated):
        found = intrinsic_dimension_graph(knn_graph(rows, 6, metric=metric))
        assert found == pytest.approx(expected, rel=1e-12)
    assert intrinsic_dimension(1e6 * X, metric=metric) == pytest.approx(expected, rel=1e-9)
    assert metric == "euclidean" or expected != pytest.approx(intrinsic_dimension(X), rel=1e-3)


def test_sample_of_many_points(monkeypatch):
    X = np.random.default_rng(211).uniform(size=(3000, 2))
    whole = intrinsic_dimension(X)
    monkeypatch.setattr(_index, "_MAX_SAMPLES", 1000)
    sampled = intrinsic_dimension(X)
    assert sampled != whole
    assert sampled == pytest.approx(2, rel=0.15)
    assert sampled == intrinsic_dimension(X[::-1])


@pytest.mark.parametrize(
    ("estimate", "text"),
    [
        (lambda: intrinsic_dimension([[0.0], [1.0], [0.0], [1.0]]), "3 distinct points, got 2 among 4"),
        (
            lambda: intrinsic_dimension_graph(path_graph(3)),
            "vertices with two or more edges, got 1 among 3",
        ),
        (lambda: intrinsic_dimension(np.argwhere(np.ones((5, 5)))), "equally far"),
        (lambda: intrinsic_dimension(np.eye(4), metric=lambda x, y: 0.0), "equally far"),
    ],
)
def test_too_little_to_estimate_from(estimate, text):
    with pytest.raises(ValueError, match=text):
        estimate()
