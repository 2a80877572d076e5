from __future__ import annotations

import importlib.util

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist, pdist, squareform
from sklearn.metrics import pairwise_distances

from isoweave.graph import _knn as module
from isoweave.graph import (
    choose_knn_search,
    connected_components,
    knn_from_distances,
    knn_graph,
    merge_duplicates,
)

HAS_FAISS = importlib.util.find_spec("faiss") is not None
needs_faiss = pytest.mark.skipif(not HAS_FAISS, reason="needs the extra knn")


def twin(distances, k):
    """Max-symmetrised kNN graph of distinct points, row by row, as a dense matrix (nan: no edge)."""
    n = len(distances)
    result = np.full((n, n), np.nan)
    for i in range(n):
        order = [j for j in np.argsort(distances[i], kind="stable") if j != i]
        for j in order[:k]:
            result[i, j] = result[j, i] = max(distances[i, j], distances[j, i])
    return result


def as_dense(graph):
    dense = np.full((graph.n_vertices,) * 2, np.nan)
    dense[graph.sources, graph.indices] = graph.lengths
    return dense


def assert_same_graph(a, b):
    np.testing.assert_array_equal(a.indptr, b.indptr)
    np.testing.assert_array_equal(a.indices, b.indices)
    np.testing.assert_array_equal(a.lengths, b.lengths)


def assert_permuted(graph, permuted, shuffle):
    """``permuted`` is the graph of the points taken in the order ``shuffle``."""
    np.testing.assert_array_equal(as_dense(graph)[np.ix_(shuffle, shuffle)], as_dense(permuted))


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
    original = module._k_smallest

    def record(start, stop, scores, *rest):
        seen.append(scores.dtype)
        original(start, stop, scores, *rest)

    monkeypatch.setattr(module, "_k_smallest", record)
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
    monkeypatch.setattr(module, "EXACT_SAMPLES", 1000)
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
    monkeypatch.setattr(module, "EXACT_SAMPLES", 50)
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: None)
    X = np.random.default_rng(59).normal(size=(80, 15))
    np.testing.assert_allclose(as_dense(knn_graph(X, 4)), twin(cdist(X, X), 4), rtol=1e-13)
    with pytest.raises(ImportError, match=r"pip install 'isoweave\[knn\]'"):
        knn_graph(X, 4, method="approximate")


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
    monkeypatch.setattr(module, "_FUNCTION_SAMPLES", 50)
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


@pytest.mark.parametrize("dense_entries", [0, module._DENSE_ENTRIES])
@pytest.mark.parametrize("metric", ["euclidean", "manhattan", "cosine"])
@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
def test_sparse_features(form, metric, dense_entries, monkeypatch):
    monkeypatch.setattr(module, "_DENSE_ENTRIES", dense_entries)
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
    monkeypatch.setattr(module, "_DENSE_ENTRIES", 0)
    rng = np.random.default_rng(97)
    X = np.repeat(rng.normal(size=(5, 20)), 20, axis=0) + 1e-6 * rng.normal(size=(100, 20))
    graph = knn_graph(sp.csr_array(X), 10)
    np.testing.assert_allclose(graph.lengths, cdist(X, X)[graph.sources, graph.indices], rtol=1e-9)


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
        (np.eye(5), {"metric": lambda x, y: -1.0}, ValueError, "gives -1.0 between samples"),
    ],
)
def test_bad_input(X, options, error, text):
    with pytest.raises(error, match=text):
        knn_graph(X, **({"n_neighbors": 1} | options))


def test_bad_value_in_sparse_features(monkeypatch):
    monkeypatch.setattr(module, "_DENSE_ENTRIES", 0)
    X = sp.csr_array(np.diag([1.0, 2.0, np.nan, 4.0]))
    with pytest.raises(ValueError, match=r"X\[2, 2\] is nan"):
        knn_graph(X, 1)


def test_pairs_without_a_distance():
    X = np.full((4, 12), np.nan)
    X[:3, 0] = [0.0, 1.0, 2.5]
    X[3, 1] = 1.0
    with pytest.raises(ValueError, match="Sample 3 has only 0 distinct others at a finite distance"):
        knn_graph(X, 1, metric="nan_euclidean")


def test_input_features_are_not_changed():
    X = np.random.default_rng(101).normal(size=(30, 15)).astype(np.float32)
    X.flags.writeable = False
    graph = knn_graph(X, 3)
    np.testing.assert_allclose(as_dense(graph), twin(cdist(X, X), 3), rtol=1e-13)


# Dense distance matrices


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_distance_matrix_agrees_with_features(dtype):
    X = np.random.default_rng(103).normal(size=(120, 5))
    D = cdist(X, X).astype(dtype)
    D.flags.writeable = False
    graph = knn_from_distances(D, 6)
    np.testing.assert_allclose(as_dense(graph), as_dense(knn_graph(X, 6)), rtol=4 * np.finfo(dtype).eps)


def test_distance_matrix_in_blocks(monkeypatch):
    monkeypatch.setattr(module, "_block_rows", lambda n: 7)
    X = np.random.default_rng(107).normal(size=(50, 3))
    graph = knn_from_distances(cdist(X, X), 6)
    np.testing.assert_array_equal(as_dense(graph), twin(cdist(X, X), 6))
    D = cdist(X, X)
    D[31, 40] = -1
    with pytest.raises(ValueError, match=r"Entry \(31, 40\) of the distance matrix is -1.0"):
        knn_from_distances(D, 6)


def test_distance_matrix_with_duplicates():
    X = np.random.default_rng(109).normal(size=(40, 3))
    X[5:20] = X[5]
    graph = knn_from_distances(cdist(X, X), 4)
    assert np.all(graph.degrees >= 4)
    reduced, _ = merge_duplicates(graph)
    distinct = np.delete(X, np.arange(6, 20), axis=0)
    np.testing.assert_allclose(as_dense(reduced), twin(cdist(distinct, distinct), 4), rtol=1e-13)
    everything = knn_from_distances(np.zeros((9, 9)), 3)
    assert np.all(everything.degrees >= 3)
    assert connected_components(everything)[0] == 1


def test_ties_in_a_distance_matrix_do_not_follow_the_numbering():
    rng = np.random.default_rng(113)
    D = squareform(np.round(pdist(rng.uniform(0, 40, size=(60, 2)))) + 1)  # whole miles tie often
    graph = knn_from_distances(D, 5)
    shuffle = rng.permutation(60)
    assert_permuted(graph, knn_from_distances(D[np.ix_(shuffle, shuffle)], 5), shuffle)


def test_rounding_in_a_distance_matrix_is_forgiven():
    X = np.random.default_rng(127).normal(size=(30, 4))
    D = cdist(X, X)
    noisy = D * (1 + 1e-12 * np.random.default_rng(128).normal(size=D.shape))
    noisy[np.diag_indices(30)] = 1e-9
    noisy[3, 7] = noisy[7, 3] = -1e-17
    graph = knn_from_distances(noisy, 4)
    assert as_dense(graph)[3, 7] == 0
    D[3, 7] = D[7, 3] = 0
    np.testing.assert_allclose(as_dense(graph), as_dense(knn_from_distances(D, 4)), rtol=1e-11)


def changed(i, j, value, both=True):
    D = squareform(pdist(np.arange(6.0)[:, None]))
    D[i, j] = value
    if both:
        D[j, i] = value
    return D


@pytest.mark.parametrize(
    ("D", "error", "text"),
    [
        (changed(1, 2, np.nan), ValueError, r"Entry \(1, 2\) .* is nan; distances must be finite"),
        (changed(1, 2, np.inf), ValueError, r"Entry \(1, 2\) .* is inf; distances must be finite"),
        (changed(4, 2, -1.0), ValueError, r"Entry \(2, 4\) .* is -1.0; Negative values in data: distances must not be"),
        (changed(3, 3, 0.5), ValueError, r"Entry \(3, 3\) .* is 0.5; the diagonal must be zero"),
        (changed(1, 4, 2.0, both=False), ValueError, r"Entry \(1, 4\) .* is 2.0; entry \(4, 1\) is 3.0"),
        (np.zeros((3, 4)), ValueError, r"must be square, got shape \(3, 4\)"),
        (np.zeros((1, 1)), ValueError, "at least 2 points"),
        (np.zeros((3, 3)) * 1j, ValueError, "Complex data not supported"),
        (np.zeros((3, 3), dtype=bool), TypeError, "dtype bool"),
        (np.array([["a", "b"], ["c", "d"]]), TypeError, "real numbers"),
        (sp.csr_array((3, 3)), TypeError, "graph_from_matrix"),
        (np.zeros((2, 2)), ValueError, "less than the number of points, got 2 for 2"),
    ],
)
def test_bad_distance_matrices(D, error, text):
    with pytest.raises(error, match=text):
        knn_from_distances(D, 2)
