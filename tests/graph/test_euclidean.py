"""Euclidean searches: exact where products round, approximate with nearly all neighbours."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.metrics import pairwise_distances

from isoweave._parallel import ThreadTeam, thread_team
from isoweave.graph import _euclidean, _index, build_index, knn_graph
from isoweave.graph._euclidean import GraphSearch, ProductSearch, project
from reference_knn import as_dense, assert_same_graph, twin

TEAM = ThreadTeam(1)
needs_faiss = pytest.mark.skipif(importlib.util.find_spec("faiss") is None, reason="needs the extra knn")


def clusters(spread):
    """Clusters far smaller than their distances."""
    rng = np.random.default_rng(23)
    return np.repeat(rng.normal(size=(6, 20)), 40, axis=0) + spread * rng.normal(size=(240, 20))


@pytest.mark.parametrize(
    ("spread", "stages"),
    [
        (1.0, [np.float32]),
        (1e-5, [np.float32, np.float64]),
        # At 1e-6 single precision sees nothing inside the clusters, at 1e-9 double precision neither.
        (1e-9, [np.float32, np.float64, np.float64]),
        (1e-12, [np.float32, np.float64, np.float64]),
    ],
)
def test_exact_where_products_lose_all_digits(spread, stages, monkeypatch):
    seen = []
    original = _euclidean.k_smallest

    def record(start, stop, scores, *rest):
        seen.append(scores.dtype)
        original(start, stop, scores, *rest)

    monkeypatch.setattr(_euclidean, "k_smallest", record)
    X = clusters(spread)
    graph = knn_graph(X, 5, method="exact", n_jobs=1)
    assert seen == stages
    np.testing.assert_allclose(as_dense(graph), twin(cdist(X, X), 5), rtol=1e-12)


def test_queries_near_and_far():
    """Where single precision fails or would overflow, all points are compared."""
    X = clusters(1e-9)
    new = np.vstack([X[5:6] * 1e30, X[:3], X[1:2] + 1e6, X[7:8] + 1e-9])
    found, distances = build_index(X, team=TEAM).neighbors(new, 3, team=TEAM)
    expected = np.sqrt(((new[:, None] - X) ** 2).sum(axis=2))
    np.testing.assert_allclose(distances, np.sort(expected, axis=1)[:, :3], rtol=1e-12)
    np.testing.assert_array_equal(found[1:4, 0], [0, 1, 2])
    np.testing.assert_array_equal(found[5], np.argsort(expected[5])[:3])


def test_many_equal_distances():
    """On a lattice in many dimensions hundreds of points tie for the last place; still the same alone."""
    rng = np.random.default_rng(571)
    fitted = rng.integers(0, 2, size=(400, 14)).astype(float)
    new = rng.integers(0, 2, size=(40, 14)).astype(float)
    index = build_index(fitted, team=TEAM)
    assert index.search == "brute"
    found, distances = index.neighbors(new, 5, team=TEAM)
    exact = pairwise_distances(new, fitted[index.space.groups.first], metric="sqeuclidean").round()
    np.testing.assert_allclose(distances**2, np.sort(exact, axis=1)[:, :5], atol=1e-12)
    for i in range(40):
        np.testing.assert_array_equal(index.neighbors(new[i : i + 1], 5, team=TEAM)[0][0], found[i])


def low_rank(n, n_features, n_directions, noise, seed):
    """Points that spread in few directions of many features, centred."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(n, n_directions)) @ rng.normal(size=(n_directions, n_features))
    points += noise * rng.normal(size=points.shape)
    return points - points.mean(axis=0)


@pytest.mark.parametrize(("rank", "n_features", "n_directions"), [(20, 300, 32), (60, 400, 64)])
def test_points_in_few_directions_are_projected_without_loss(rank, n_features, n_directions):
    points = low_rank(1500, n_features, rank, 0.0, 401)
    projected = project(points.astype(np.float32), 8, 24, TEAM, seed=7)
    assert projected.shape == (1500, n_directions)
    differences = np.linalg.norm(projected[1:] - projected[0], axis=1)
    np.testing.assert_allclose(differences, np.linalg.norm(points[1:] - points[0], axis=1), rtol=1e-4)


@pytest.mark.parametrize("n_features", [50, 90, 500])
def test_points_that_fill_all_directions_are_not_projected(n_features):
    points = np.random.default_rng(405).normal(size=(1200, n_features)).astype(np.float32)
    assert project(points, 8, 24, TEAM, seed=7) is None


@needs_faiss
@pytest.mark.parametrize(("rank", "n_features"), [(12, 200), (12, 40), (16, 16)])
def test_approximate_search_finds_nearly_all_and_measures_in_all_features(rank, n_features):
    points = low_rank(3000, n_features, rank, 0.05, 409)
    new = points[:100] + 0.1
    rows = np.arange(0, 3000, 3, dtype=np.int32)
    search = GraphSearch(points, seed=5)
    with thread_team(2) as team:
        for queries, own in ((points[rows], rows), (new, None)):
            exact = ProductSearch(points)(queries, own, 10, team)
            neighbors, distances = search(queries, own, 10, team)
            np.testing.assert_array_equal(search(queries, own, 10, TEAM), (neighbors, distances))
            assert (neighbors[:, :, None] == exact[0][:, None, :]).any(axis=2).mean() > 0.98
            measured = np.linalg.norm(queries[:, None] - points[neighbors], axis=2)
            np.testing.assert_allclose(distances, measured, rtol=1e-12)
    alone = search(new[99:], None, 10, TEAM)
    np.testing.assert_array_equal(alone[1][0], distances[99])
    assert (search(points[:50], None, 3, TEAM)[1][:, 0] == 0).all()


@needs_faiss
def test_approximate_graph_and_its_seed(monkeypatch):
    X = low_rank(3000, 40, 12, 0.0, 47)
    monkeypatch.setattr(_index, "EXACT_SAMPLES", 1000)
    assert build_index(X, team=TEAM).search == "approximate"
    exact, found = as_dense(knn_graph(X, 10, method="exact")), as_dense(knn_graph(X, 10))
    shared = np.isfinite(exact) & np.isfinite(found)
    np.testing.assert_array_equal(exact[shared], found[shared])
    assert shared.sum() > 0.99 * np.isfinite(exact).sum()
    assert np.all(np.isfinite(found).sum(axis=1) >= 10)
    for seed in (None, 3):
        assert_same_graph(*(knn_graph(X[:2000], 5, random_state=seed) for _ in range(2)))


def test_without_faiss_large_searches_stay_exact(monkeypatch):
    monkeypatch.setattr(_index, "EXACT_SAMPLES", 50)
    monkeypatch.setattr(_index.importlib.util, "find_spec", lambda name: None)
    X = np.random.default_rng(59).normal(size=(80, 15))
    np.testing.assert_allclose(as_dense(knn_graph(X, 4)), twin(cdist(X, X), 4), rtol=1e-13)
    with pytest.raises(ImportError, match=r"pip install 'isoweave\[knn\]'"):
        knn_graph(X, 4, method="approximate")
