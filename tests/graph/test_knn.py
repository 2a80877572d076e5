from __future__ import annotations

import importlib.util

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from isoweave.graph import connected_components, knn_graph, merge_duplicates
from reference_knn import as_dense, assert_permuted, assert_same_graph, twin

needs_faiss = pytest.mark.skipif(importlib.util.find_spec("faiss") is None, reason="needs the extra knn")


@pytest.mark.parametrize("n_features", [1, 3, 11, 60])
@pytest.mark.parametrize("k", [1, 7, 30])
def test_euclidean_agrees_with_loop_twin(n_features, k):
    X = np.random.default_rng(17).normal(size=(160, n_features)) + 3
    expected = twin(cdist(X, X), k)
    np.testing.assert_allclose(as_dense(knn_graph(X, k)), expected, rtol=1e-13)


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
        (sp.csr_array(np.diag([1.0, 2.0, np.nan, 4.0])), {}, ValueError, r"X\[2, 2\] is nan"),
    ],
)
def test_bad_input(X, options, error, text, monkeypatch):
    monkeypatch.setattr("isoweave.graph._features._DENSE_ENTRIES", 0)
    with pytest.raises(error, match=text):
        knn_graph(X, **({"n_neighbors": 1} | options))


def test_input_features_are_not_changed():
    X = np.random.default_rng(101).normal(size=(30, 15)).astype(np.float32)
    X.flags.writeable = False
    graph = knn_graph(X, 3)
    np.testing.assert_allclose(as_dense(graph), twin(cdist(X, X), 3), rtol=1e-13)
