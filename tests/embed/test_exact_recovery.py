"""Complete graphs of points of R^N through the public interface give back the points, N = 1 .. 10."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist

from isoweave import IsometricEmbedding, embed_graph
from isoweave.metrics import procrustes_error


def case(n_components, n=40):
    points = np.random.default_rng(811 + n_components).normal(size=(n, n_components))
    return points, sp.csr_array(cdist(points, points))


@pytest.mark.parametrize("n_components", range(1, 11))
def test_embed_graph(n_components):
    points, matrix = case(n_components)
    result = embed_graph(matrix, n_components=n_components)
    assert procrustes_error(points, result.coordinates) <= 1e-20
    assert result.relative_energy <= 1e-20
    np.testing.assert_allclose(result.stretch, 1.0, atol=1e-9)


@pytest.mark.parametrize("n_components", range(1, 11))
def test_estimator(n_components):
    points, matrix = case(n_components, n=n_components + 2)
    embedding = IsometricEmbedding(n_components=n_components, metric="precomputed").fit_transform(matrix)
    assert procrustes_error(points, embedding) <= 1e-20


@pytest.mark.parametrize("n_components", [1, 2, 3, 6, 10])
@pytest.mark.parametrize("inner_product", ["edge", "paper"])
@pytest.mark.parametrize("frame_size", ["all", 1.0])
def test_other_settings(n_components, inner_product, frame_size):
    points, matrix = case(n_components)
    result = embed_graph(matrix, n_components, inner_product=inner_product, frame_size=frame_size)
    assert procrustes_error(points, result.coordinates) <= 1e-20


@pytest.mark.parametrize("n_components", [2, 3])
def test_anisotropic_points(n_components):
    """A long thin cloud: the last direction is a thousandth of the first."""
    points, _ = case(n_components)
    points = points * np.geomspace(1.0, 1e-3, n_components)
    result = embed_graph(sp.csr_array(cdist(points, points)), n_components)
    assert procrustes_error(points, result.coordinates) <= 1e-20


def test_too_few_dimensions_are_not_exact():
    points, matrix = case(4)
    result = embed_graph(matrix, n_components=3)
    assert procrustes_error(points, result.coordinates) > 1e-3
    assert result.relative_energy > 1e-4
