from __future__ import annotations

import importlib.util

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from isoweave.graph import (
    _euclidean,
    _index,
    choose_knn_search,
    connected_components,
    knn_graph,
    merge_duplicates,
)
from reference_knn import as_dense, assert_permuted, assert_same_graph, twin

HAS_FAISS = importlib.util.find_spec("faiss") is not None
needs_faiss = pytest.mark.skipif(not HAS_FAISS, reason="needs the extra knn")


@pytest.mark.parametrize(("n_features", "search"), [(1, "tree"), (3, "tree"), (11, "brute"), (60, "brute")])
@pytest.mark.parametrize("k", [1, 7, 30])
def test_euclidean_agrees_with_loop_twin(n_features, search, k):
    X = np.random.default_rng(17).normal(size=(160, n_features)) + 3
    assert choose_knn_search(160, n_features) == search
    expected = twin(cdist(X, X), k)
    np.testing.assert_allclose(as_dense(knn_graph(X, k)), expected, rtol=1e-13)


@pytest.mark.parametrize("spread", [1e-3, 1e-6, 1e-9, 1e-12])
def test_brute_search_is_exact_where_products_lose_all_digits(spread):
    # Clusters far smaller than their distances: at 1e-6 single precision sees nothing inside them, at
    # 1e-9 double precision neither.
    rng = np.random.default_rng(23)
    X = np.repeat(rng.normal(size=(6, 20)), 40, axis=0) + spread * rng.normal(size=(240, 20))
    expected = twin(cdist(X, X), 5)
    np.testing.assert_allclose(as_dense(knn_graph(X, 5, method="exact")), expected, rtol=1e-12)


def test_brute_search_goes_through_all_its_stages(monkeypatch):
    seen = []
    original = _euclidean.k_smallest

    def record(start, stop, scores, *rest):
        seen.append(scores.dtype)
        original(start, stop, scores, *rest)

    monkeypatch.setattr(_euclidean, "k_smallest", record)
    rng = np.random.default_rng(29)
    centres = np.repeat(rng.normal(size=(6, 20)), 40, axis=0)
    noise = rng.normal(size=(240, 20))
    knn_graph(centres + noise, 5, n_jobs=1)
    assert set(seen) == {np.dtype(np.float32)}
    seen.clear()
    knn_graph(centres + 1e-5 * noise, 5, n_jobs=1)
    assert seen == [np.float32, np.float64]
    seen.clear()
    knn_graph(centres + 1e-11 * noise, 5, n_jobs=1)
    assert seen == [np.float32, np.float64, np.float64]


@pytest.mark.parametrize("n_features", [4, 30])
@pytest.mark.parametrize("exponent", [-300, 0, 300])
def test_scale_of_features_only_scales_lengths(n_features, exponent):
    X = np.random.default_rng(37).normal(size=(80, n_features))
    plain, scaled = knn_graph(X, 6), knn_graph(np.ldexp(X, 3 * exponent), 6)
    np.testing.assert_array_equal(plain.indices, scaled.indices)
    np.testing.assert_allclose(np.ldexp(scaled.lengths, -3 * exponent), plain.lengths, rtol=1e-12)


@pytest.mark.parametrize("n_features", [2, 12])
def test_more_duplicates_than_neighbors(n_features):
    rng = np.random.default_rng(41)
    X = rng.normal(size=(60, n_features))
    X[10:40] = X[10]
    graph = knn_graph(X, 5)
    assert np.all(graph.degrees >= 5)
    assert np.all(graph.sources != graph.indices)
    np.testing.assert_array_equal(graph.lengths == 0, np.all(X[graph.sources] == X[graph.indices], axis=1))
    assert graph.degrees.max() < 25
    reduced, representative = merge_duplicates(graph)
    assert reduced.n_vertices == 31
    assert len(set(representative[10:40])) == 1
    # What remains is the kNN graph of the distinct points.
    distinct = np.delete(X, np.arange(11, 40), axis=0)
    np.testing.assert_allclose(as_dense(reduced), twin(cdist(distinct, distinct), 5), rtol=1e-13)
    assert connected_components(reduced)[0] == connected_components(graph)[0] == 1


@pytest.mark.parametrize("n_features", [1, 11])
def test_all_points_equal(n_features):
    graph = knn_graph(np.full((20, n_features), 0.3), 4)
    assert np.all(graph.degrees >= 4)
    assert not graph.lengths.any()
    assert connected_components(graph)[0] == 1


def test_negative_zero_is_zero():
    graph = knn_graph([[0.0, 1.0], [-0.0, 1.0], [5.0, 1.0]], 1)
    assert graph.lengths[0] == 0


@settings(deadline=None, max_examples=60)
@given(
    points=st.lists(st.tuples(*[st.integers(0, 3)] * 2), min_size=3, max_size=25),
    k=st.integers(1, 6),
    wide=st.booleans(),
    seed=st.integers(0, 2**20),
)
def test_integer_points_with_ties_and_duplicates(points, k, wide, seed):
    X = np.array(points, dtype=float)
    if wide:
        X = np.hstack([X, np.zeros((len(X), 10))])
    k = min(k, len(X) - 1)
    graph = knn_graph(X, k)
    shuffle = np.random.default_rng(seed).permutation(len(X))
    reduced, representative = merge_duplicates(graph)
    distinct = np.unique(X, axis=0)
    assert reduced.n_vertices == len(distinct)
    # Each vertex has its k nearest distinct points: which of several tied ones is free, how far is not.
    all_distances = cdist(X, distinct)
    for i in range(len(X)):
        v = representative[i]
        row = reduced.lengths[reduced.indptr[v] : reduced.indptr[v + 1]]
        nearest = np.sort(all_distances[i])[1 : k + 1]
        np.testing.assert_allclose(np.sort(row)[: len(nearest)], nearest, rtol=1e-12)
    # And which one is chosen does not depend on the numbering.
    other, other_representative = merge_duplicates(knn_graph(X[shuffle], k))
    match = np.empty(reduced.n_vertices, dtype=int)
    match[other_representative] = representative[shuffle]
    np.testing.assert_array_equal(as_dense(reduced)[np.ix_(match, match)], as_dense(other))


@pytest.mark.parametrize("method", ["exact", pytest.param("approximate", marks=needs_faiss)])
@pytest.mark.parametrize("n_features", [3, 25])
def test_neither_row_order_nor_threads_matter(n_features, method):
    rng = np.random.default_rng(43)
    X = rng.normal(size=(700, n_features))
    graph = knn_graph(X, 8, method=method, n_jobs=1)
    assert_same_graph(graph, knn_graph(X, 8, method=method, n_jobs=2))
    shuffle = rng.permutation(len(X))
    assert_permuted(graph, knn_graph(X[shuffle], 8, method=method), shuffle)


@needs_faiss
def test_approximate_search_finds_nearly_all_and_measures_exactly(monkeypatch):
    X = np.random.default_rng(47).normal(size=(3000, 12)) @ np.random.default_rng(48).normal(size=(12, 40))
    monkeypatch.setattr(_index, "EXACT_SAMPLES", 1000)
    assert choose_knn_search(*X.shape) == "approximate"
    exact, found = as_dense(knn_graph(X, 10, method="exact")), as_dense(knn_graph(X, 10))
    shared = np.isfinite(exact) & np.isfinite(found)
    np.testing.assert_array_equal(exact[shared], found[shared])
    assert shared.sum() > 0.99 * np.isfinite(exact).sum()
    assert np.all(np.isfinite(found).sum(axis=1) >= 10)


@needs_faiss
def test_seed_of_the_approximate_search():
    X = np.random.default_rng(53).normal(size=(2000, 64))
    graphs = [knn_graph(X, 5, method="approximate", random_state=seed) for seed in (None, None, 3, 3)]
    assert_same_graph(graphs[0], graphs[1])
    assert_same_graph(graphs[2], graphs[3])


def test_without_faiss_large_searches_stay_exact(monkeypatch):
    monkeypatch.setattr(_index, "EXACT_SAMPLES", 50)
    monkeypatch.setattr(_index.importlib.util, "find_spec", lambda name: None)
    X = np.random.default_rng(59).normal(size=(80, 15))
    np.testing.assert_allclose(as_dense(knn_graph(X, 4)), twin(cdist(X, X), 4), rtol=1e-13)
    with pytest.raises(ImportError, match=r"pip install 'isoweave\[knn\]'"):
        knn_graph(X, 4, method="approximate")


@pytest.mark.parametrize(
    ("X", "options", "error", "text"),
    [
        (np.eye(5), {"n_neighbors": 5}, ValueError, "less than the number of samples, got 5 for 5"),
        (np.eye(5), {"n_neighbors": 0}, ValueError, "n_neighbors must be an integer >= 1"),
        (np.eye(5), {"n_neighbors": 2.0}, TypeError, "n_neighbors must be an integer"),
        (np.eye(5), {"metric": "euclidian"}, ValueError, "Did you mean 'euclidean'"),
        (np.eye(5), {"metric": "precomputed"}, ValueError, "knn_from_distances"),
        (np.eye(5), {"metric": 3}, TypeError, "metric must be one of"),
        (np.eye(5), {"metric_params": 3}, TypeError, "metric_params must be a dict"),
        (np.eye(5), {"metric": "minkowski", "metric_params": {"p": 0.5}}, ValueError, "'p'.*>= 1"),
        (
            np.ones((5, 2)),
            {"metric": "mahalanobis"},
            ValueError,
            "the 2 features, which is singular",
        ),
        (np.eye(5), {"metric": "haversine"}, ValueError, "two features, latitude and longitude.*got 5"),
        (np.eye(5), {"method": "fast"}, ValueError, "method must be one of 'auto'"),
        (np.eye(5), {"method": "approximate", "metric": "manhattan"}, ValueError, "got metric='manhattan'"),
        (np.array([[1.0], [np.inf], [0.0]]), {}, ValueError, r"X\[1, 0\] is inf"),
        (np.array([["a"], ["b"]]), {}, ValueError, "could not convert|dtype"),
        (np.eye(5) * 1j, {}, ValueError, "Complex data not supported"),
        (np.zeros((1, 3)), {}, ValueError, "minimum of 2"),
        (np.zeros(5), {}, ValueError, "1D array"),
        (np.eye(5), {"metric": lambda x, y: -1.0}, ValueError, "gives -1.0 between sample"),
    ],
)
def test_bad_input(X, options, error, text):
    with pytest.raises(error, match=text):
        knn_graph(X, **({"n_neighbors": 1} | options))


def test_input_features_are_not_changed():
    X = np.random.default_rng(101).normal(size=(30, 15)).astype(np.float32)
    X.flags.writeable = False
    graph = knn_graph(X, 3)
    np.testing.assert_allclose(as_dense(graph), twin(cdist(X, X), 3), rtol=1e-13)
