from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from isoweave.graph import (
    choose_n_components,
    graph_from_matrix,
    intrinsic_dimension,
    intrinsic_dimension_graph,
    knn_graph,
)
from isoweave.graph._dimension import _fit


@pytest.mark.parametrize("dimension", [1, 2, 5])
def test_uniform_points_in_a_wider_space(dimension):
    rng = np.random.default_rng(191)
    X = rng.uniform(size=(4000, dimension)) @ np.linalg.qr(rng.normal(size=(12, dimension)))[0].T
    # Statistical error about d / sqrt(n), and a bias of the border that grows with d.
    assert intrinsic_dimension(X) == pytest.approx(dimension, rel=0.08)


def test_fit_recovers_the_exact_law():
    # Ratios at the quantiles of F(mu) = 1 - mu^-d lie on the line exactly.
    n, d = 500, 3.7
    ratios = (1 - np.arange(1, n) / n) ** (-1 / d)
    r1 = np.full(n, 2.0)
    r2 = 2.0 * np.append(ratios, 10 * ratios[-1])
    for discard in (0.0, 0.1, 0.5):
        assert _fit(r1, r2, discard) == pytest.approx(d, rel=1e-12)


def test_slow_twin():
    X = np.random.default_rng(193).normal(size=(120, 3))
    ratios = []
    for x in X:
        r = np.sort(np.linalg.norm(X - x, axis=1))
        ratios.append(r[2] / r[1])
    ratios.sort()
    x = [np.log(mu) for mu in ratios[:108]]
    y = [-np.log(1 - (i + 1) / 120) for i in range(108)]
    slope = sum(a * b for a, b in zip(x, y, strict=True)) / sum(a * a for a in x)
    assert intrinsic_dimension(X) == pytest.approx(slope, rel=1e-10)


@pytest.mark.parametrize("n_features", [3, 14])
def test_graph_and_features_agree(n_features):
    X = np.random.default_rng(197).normal(size=(300, n_features))
    expected = intrinsic_dimension(X)
    graph = knn_graph(X, 5)
    assert intrinsic_dimension_graph(graph) == pytest.approx(expected, rel=1e-12)
    assert intrinsic_dimension_graph(graph, discard_fraction=0.3) == pytest.approx(
        intrinsic_dimension(X, discard_fraction=0.3), rel=1e-12
    )


def test_duplicates_order_and_scale_do_not_matter():
    rng = np.random.default_rng(199)
    X = rng.normal(size=(200, 3))
    expected = intrinsic_dimension(X)
    repeated = np.vstack([X, X[:50], X[:50]])
    assert intrinsic_dimension(repeated[rng.permutation(300)]) == expected
    assert intrinsic_dimension_graph(knn_graph(repeated, 6)) == pytest.approx(expected, rel=1e-12)
    assert intrinsic_dimension(1e6 * X) == pytest.approx(expected, rel=1e-9)


def test_sample_of_many_points():
    X = np.random.default_rng(211).uniform(size=(3000, 2))
    sampled = intrinsic_dimension(X, max_samples=1000)
    assert sampled != intrinsic_dimension(X)
    assert sampled == pytest.approx(2, rel=0.15)
    assert sampled == intrinsic_dimension(X[::-1], max_samples=1000)


def test_metric_is_used():
    X = np.random.default_rng(223).normal(size=(300, 4))
    expected = intrinsic_dimension_graph(knn_graph(X, 3, metric="manhattan"))
    assert intrinsic_dimension(X, metric="manhattan") == pytest.approx(expected, rel=1e-12)
    assert expected != pytest.approx(intrinsic_dimension(X), rel=1e-3)


def test_rounding_to_a_number_of_components():
    assert [choose_n_components(value) for value in (0.2, 1.4, 13.6)] == [1, 1, 14]
    with pytest.raises(ValueError, match="dimension must be a finite number"):
        choose_n_components(np.nan)


def test_too_little_to_estimate_from():
    with pytest.raises(ValueError, match="3 distinct points, got 2 among 4 samples"):
        intrinsic_dimension([[0.0], [1.0], [0.0], [1.0]])
    path = graph_from_matrix(sp.coo_array(([1.0, 2.0], ([0, 1], [1, 2])), shape=(3, 3)))
    with pytest.raises(ValueError, match="3 distinct vertices with two or more edges, got 1 among 3"):
        intrinsic_dimension_graph(path)
    grid = np.stack(np.meshgrid(np.arange(5.0), np.arange(5.0)), axis=-1).reshape(-1, 2)
    with pytest.raises(ValueError, match="equally far"):
        intrinsic_dimension(grid)
    with pytest.raises(ValueError, match=r"Too few points .* discard_fraction = 0.9 leaves none"):
        intrinsic_dimension(np.array([[0.0], [1.0], [3.0]]), discard_fraction=0.9)


def test_wrong_arguments():
    with pytest.raises(ValueError, match="discard_fraction must be .* < 1"):
        intrinsic_dimension(np.eye(3), discard_fraction=1)
