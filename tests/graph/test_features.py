from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from sklearn.metrics import pairwise_distances

from isoweave.graph import _features, _index, choose_knn_search, knn_graph, merge_duplicates
from reference_knn import as_dense, twin


def weighted_city_block(x, y, weight=1.0):
    return weight * np.abs(x - y).sum()


@pytest.mark.parametrize("n_features", [2, 12])
@pytest.mark.parametrize(
    ("metric", "params"),
    [
        ("manhattan", None),
        ("cityblock", {}),
        ("l2", None),
        ("chebyshev", None),
        ("minkowski", {"p": 3}),
        ("minkowski", {"p": np.inf}),
        ("minkowski", {"p": 2, "w": 2.0}),
        ("cosine", None),
        ("correlation", None),
        ("sqeuclidean", None),
        ("canberra", None),
        ("braycurtis", None),
        ("seuclidean", None),
        ("mahalanobis", None),
        (weighted_city_block, None),
        (weighted_city_block, {"weight": 2.5}),
    ],
)
def test_metrics_agree_with_pairwise_distances(metric, params, n_features):
    if metric == "correlation" and n_features == 2:
        pytest.skip("all correlations of two features are 1 or -1")
    X = np.random.default_rng(61).normal(size=(70, n_features)) + 0.5
    params = dict(params or {})
    if "w" in params:
        params["w"] = np.linspace(1, 2, n_features)
    if params.get("p") == np.inf:
        D = cdist(X, X, "chebyshev")
    else:
        name = {"l2": "euclidean"}.get(metric, metric) if isinstance(metric, str) else metric
        D = pairwise_distances(X, metric=name, **params)
    graph = knn_graph(X, 4, metric=metric, metric_params=params or None)
    # scikit-learn's own cosine and Euclidean distances are good to the square root of rounding.
    np.testing.assert_allclose(as_dense(graph), twin(D, 4), rtol=1e-6, atol=1e-12)
    np.testing.assert_array_equal(np.isnan(as_dense(graph)), np.isnan(twin(D, 4)))


@pytest.mark.parametrize("n_features", [2, 11])
def test_functions_of_many_points(n_features, monkeypatch):
    monkeypatch.setattr(_index, "_FUNCTION_SAMPLES", 50)
    X = np.random.default_rng(62).normal(size=(70, n_features))
    search = choose_knn_search(*X.shape, weighted_city_block)
    assert search == ("tree" if n_features == 2 else "pairwise")
    graph = knn_graph(X, 4, metric=weighted_city_block, metric_params={"weight": 2.0})
    np.testing.assert_allclose(as_dense(graph), twin(2 * cdist(X, X, "cityblock"), 4), rtol=1e-13)


def test_a_different_metric_gives_a_different_graph():
    X = np.random.default_rng(67).normal(size=(70, 4))
    wrong = as_dense(knn_graph(X, 4, metric="manhattan"))
    assert not np.array_equal(np.isnan(wrong), np.isnan(as_dense(knn_graph(X, 4))))


def test_great_circle_distances():
    rng = np.random.default_rng(71)
    X = np.column_stack([rng.uniform(-1.5, 1.5, 90), rng.uniform(-3, 3, 90)])
    D = pairwise_distances(X, metric="haversine")
    np.testing.assert_allclose(as_dense(knn_graph(X, 5, metric="haversine")), twin(D, 5), rtol=1e-9)
    close = np.array([0.7, -2.0]) + 1e-9 * rng.normal(size=(30, 2))
    D = pairwise_distances(close, metric="haversine")
    graph = knn_graph(close, 29, metric="haversine")
    np.testing.assert_allclose(graph.lengths, D[graph.sources, graph.indices], rtol=1e-7)


@pytest.mark.parametrize("metric", ["jaccard", "dice", "hamming"])
def test_binary_metrics(metric):
    X = np.random.default_rng(73).integers(0, 2, size=(60, 40))
    D = pairwise_distances(X.astype(bool) if metric != "hamming" else X, metric=metric)
    graph = knn_graph(X, 5, metric=metric)
    np.testing.assert_allclose(graph.lengths, D[graph.sources, graph.indices], rtol=1e-12)
    dense = np.where(np.isnan(as_dense(graph)), np.inf, as_dense(graph))
    nearest = np.sort(D + np.diag(np.full(60, np.inf)), axis=1)[:, :5]
    np.testing.assert_allclose(np.sort(dense, axis=1)[:, :5], nearest, rtol=1e-12)


def test_cosine_of_zero_rows_and_of_parallel_rows():
    X = np.random.default_rng(79).uniform(0.1, 1, size=(30, 5))
    parallel = knn_graph(np.vstack([X, 3.7 * X[:2]]), 3, metric="cosine")
    assert as_dense(parallel)[0, 30] == as_dense(parallel)[1, 31] == 0
    X[4] = 0
    D = pairwise_distances(X, metric="cosine")
    graph = knn_graph(X, 3, metric="cosine")
    np.testing.assert_allclose(graph.lengths, D[graph.sources, graph.indices], atol=1e-14)


def test_missing_values_with_the_metric_for_them():
    X = np.random.default_rng(83).normal(size=(40, 6))
    X[::3, 2] = np.nan
    D = pairwise_distances(X, metric="nan_euclidean")
    np.testing.assert_allclose(as_dense(knn_graph(X, 4, metric="nan_euclidean")), twin(D, 4), rtol=1e-7)
    with pytest.raises(ValueError, match=r"X\[0, 2\] is nan.*metric='nan_euclidean'"):
        knn_graph(X, 4)


@pytest.mark.parametrize("dense_entries", [0, _features._DENSE_ENTRIES])
@pytest.mark.parametrize("metric", ["euclidean", "manhattan", "cosine"])
@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
def test_sparse_features(form, metric, dense_entries, monkeypatch):
    monkeypatch.setattr(_features, "_DENSE_ENTRIES", dense_entries)
    rng = np.random.default_rng(89)
    X = sp.csr_array(rng.uniform(size=(90, 30)) * (rng.uniform(size=(90, 30)) < 0.3))
    X = sp.vstack([X, X[:4]]).asformat(form)
    graph = knn_graph(X, 5, metric=metric)
    dense = knn_graph(X.toarray(), 5, metric=metric)
    assert np.count_nonzero(graph.lengths == 0) == 8
    a, b = merge_duplicates(graph)[0], merge_duplicates(dense)[0]
    np.testing.assert_array_equal(a.indices, b.indices)
    np.testing.assert_allclose(a.lengths, b.lengths, rtol=1e-8)


def test_sparse_euclidean_distances_are_accurate(monkeypatch):
    monkeypatch.setattr(_features, "_DENSE_ENTRIES", 0)
    rng = np.random.default_rng(97)
    X = np.repeat(rng.normal(size=(5, 20)), 20, axis=0) + 1e-6 * rng.normal(size=(100, 20))
    graph = knn_graph(sp.csr_array(X), 10)
    np.testing.assert_allclose(graph.lengths, cdist(X, X)[graph.sources, graph.indices], rtol=1e-9)


def test_bad_value_in_sparse_features(monkeypatch):
    monkeypatch.setattr(_features, "_DENSE_ENTRIES", 0)
    X = sp.csr_array(np.diag([1.0, 2.0, np.nan, 4.0]))
    with pytest.raises(ValueError, match=r"X\[2, 2\] is nan"):
        knn_graph(X, 1)


def test_pairs_without_a_distance():
    X = np.full((4, 12), np.nan)
    X[:3, 0] = [0.0, 1.0, 2.5]
    X[3, 1] = 1.0
    with pytest.raises(ValueError, match="Sample 3 has only 0 distinct others at a finite distance"):
        knn_graph(X, 1, metric="nan_euclidean")
