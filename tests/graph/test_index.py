"""Neighbours of points and of new rows: against all pairs, alone and in batches, in every kind of search."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from sklearn.metrics import pairwise_distances

from isoweave._parallel import ThreadTeam, thread_team
from isoweave.graph import build_index, knn_graph, merge_duplicates
from reference_knn import as_dense, twin

TEAM = ThreadTeam(1)


def normal(n, d, seed):
    return np.random.default_rng(seed).normal(size=(n, d))


def cubic(a, b, weight=1.0):
    return weight * np.sum(np.abs(a - b) ** 3) ** (1.0 / 3.0)


METRICS = [
    ("euclidean", {}, 3, "tree"),
    ("euclidean", {}, 30, "brute"),
    ("l2", {}, 12, "brute"),
    ("sqeuclidean", {}, 4, "tree"),
    ("sqeuclidean", {}, 12, "brute"),
    ("manhattan", {}, 5, "tree"),
    ("cityblock", {}, 12, "pairwise"),
    ("minkowski", {"p": 3}, 5, "tree"),
    ("minkowski", {"p": 3}, 12, "pairwise"),
    ("minkowski", {"p": np.inf}, 2, "tree"),
    ("minkowski", {"p": 2, "w": np.linspace(1, 2, 12)}, 12, "pairwise"),
    ("minkowski", {"p": 3, "w": np.array([1.0, 2.0, 3.0])}, 3, "pairwise"),
    ("chebyshev", {}, 3, "tree"),
    ("chebyshev", {}, 30, "pairwise"),
    ("canberra", {}, 4, "tree"),
    ("canberra", {}, 12, "pairwise"),
    ("seuclidean", {}, 4, "tree"),
    ("seuclidean", {}, 12, "pairwise"),
    ("mahalanobis", {}, 4, "tree"),
    ("mahalanobis", {}, 12, "pairwise"),
    ("braycurtis", {}, 2, "pairwise"),
    ("correlation", {}, 12, "pairwise"),
    ("cosine", {}, 2, "tree"),
    ("cosine", {}, 12, "brute"),
    (cubic, {}, 3, "pairwise"),
    (cubic, {"weight": 2.5}, 12, "pairwise"),
    ("haversine", {}, 2, "tree"),
]


def sample(metric, n, d, seed):
    return normal(n, d, seed) * 0.4 if metric == "haversine" else normal(n, d, seed) + 0.5


def all_pairs(a, b, metric, params, fitted):
    """Distances by scikit-learn, with what the metric takes from the fitted data."""
    if metric == "seuclidean":
        params = {"V": np.var(fitted, axis=0, ddof=1)}
    elif metric == "mahalanobis":
        params = {"VI": np.linalg.inv(np.cov(fitted.T))}
    elif params.get("p") == np.inf:
        metric, params = "chebyshev", {}
    return pairwise_distances(a, b, metric={"l2": "euclidean"}.get(metric, metric), **params)


@pytest.mark.parametrize(("metric", "params", "d", "search"), METRICS)
def test_points_and_new_rows_find_their_nearest(metric, params, d, search):
    """Alone, in a batch and on several threads a new row finds the same bits."""
    fitted, new = sample(metric, 150, d, 523), sample(metric, 70, d, 541)
    index = build_index(fitted, metric, params, team=TEAM)
    assert index.search == search
    graph = knn_graph(fitted, 4, metric=metric, metric_params=params or None)
    expected = twin(all_pairs(fitted, fitted, metric, params, fitted), 4)
    # scikit-learn's own cosine and Euclidean distances are good to the square root of rounding.
    np.testing.assert_allclose(as_dense(graph), expected, rtol=1e-6, atol=1e-12)

    found, distances = index.neighbors(new, 7, team=TEAM)
    expected = all_pairs(new, fitted, metric, params, fitted)
    np.testing.assert_array_equal(found, np.argsort(expected, axis=1)[:, :7])
    np.testing.assert_allclose(distances, np.sort(expected, axis=1)[:, :7], rtol=1e-7, atol=1e-12)
    with thread_team(3) as team:
        threaded = index.neighbors(new, 7, team=team)
    np.testing.assert_array_equal(threaded, (found, distances))
    for i in (0, 33, 69):
        alone = index.neighbors(new[i : i + 1], 7, team=TEAM)
        np.testing.assert_array_equal(alone, (found[i : i + 1], distances[i : i + 1]))


@pytest.mark.parametrize(("d", "search"), [(2, "tree"), (11, "pairwise")])
def test_functions_of_many_points(d, search, monkeypatch):
    monkeypatch.setattr("isoweave.graph._index._FUNCTION_SAMPLES", 50)
    X = normal(70, d, 62)
    assert build_index(X, cubic, team=TEAM).search == search
    graph = knn_graph(X, 4, metric=cubic, metric_params={"weight": 2.0})
    np.testing.assert_allclose(as_dense(graph), twin(2 * cdist(X, X, "minkowski", p=3), 4), rtol=1e-13)


def test_a_different_metric_gives_a_different_graph():
    X = normal(70, 4, 67)
    wrong = as_dense(knn_graph(X, 4, metric="manhattan"))
    assert not np.array_equal(np.isnan(wrong), np.isnan(as_dense(knn_graph(X, 4))))


def test_great_circle_distances_of_near_points():
    close = np.array([0.7, -2.0]) + 1e-9 * normal(30, 2, 71)
    D = pairwise_distances(close, metric="haversine")
    graph = knn_graph(close, 29, metric="haversine")
    np.testing.assert_allclose(graph.lengths, D[graph.sources, graph.indices], rtol=1e-7)


@pytest.mark.parametrize("metric", ["jaccard", "dice", "hamming"])
def test_binary_metrics(metric):
    rng = np.random.default_rng(73)
    X, new = rng.integers(0, 2, size=(60, 40)), rng.integers(0, 2, size=(9, 40))
    flags = (lambda x: x) if metric == "hamming" else (lambda x: x.astype(bool))
    D = pairwise_distances(flags(X), metric=metric)
    graph = knn_graph(X, 5, metric=metric)
    np.testing.assert_allclose(graph.lengths, D[graph.sources, graph.indices], rtol=1e-12)
    dense = np.where(np.isnan(as_dense(graph)), np.inf, as_dense(graph))
    nearest = np.sort(D + np.diag(np.full(60, np.inf)), axis=1)[:, :5]
    np.testing.assert_allclose(np.sort(dense, axis=1)[:, :5], nearest, rtol=1e-12)
    _, distances = build_index(X, metric, team=TEAM).neighbors(new, 4, team=TEAM)
    expected = np.sort(pairwise_distances(flags(new), flags(X), metric=metric), axis=1)[:, :4]
    np.testing.assert_allclose(distances, expected, atol=1e-12)


def test_cosine_of_zero_rows_and_of_parallel_rows():
    X = np.random.default_rng(79).uniform(0.1, 1, size=(30, 5))
    parallel = knn_graph(np.vstack([X, 3.7 * X[:2]]), 3, metric="cosine")
    assert as_dense(parallel)[0, 30] == as_dense(parallel)[1, 31] == 0
    index = build_index(X, "cosine", team=TEAM)
    with pytest.raises(ValueError, match="Row 1 of X has length 0 and no direction"):
        index.neighbors(np.vstack([X[0], np.zeros(5)]), 3, team=TEAM)
    X[4] = 0
    D = pairwise_distances(X, metric="cosine")
    graph = knn_graph(X, 3, metric="cosine")
    np.testing.assert_allclose(graph.lengths, D[graph.sources, graph.indices], atol=1e-14)


def test_missing_values_with_the_metric_for_them():
    X = normal(40, 6, 83)
    X[::3, 2] = np.nan
    D = pairwise_distances(X, metric="nan_euclidean")
    np.testing.assert_allclose(as_dense(knn_graph(X, 4, metric="nan_euclidean")), twin(D, 4), rtol=1e-7)
    with pytest.raises(ValueError, match=r"X\[0, 2\] is nan.*metric='nan_euclidean'"):
        knn_graph(X, 4)


@pytest.mark.parametrize("dense_entries", [0, 2**25])
@pytest.mark.parametrize("metric", ["euclidean", "manhattan", "cosine"])
@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
def test_sparse_features(form, metric, dense_entries, monkeypatch):
    """Also those too large to be made dense."""
    monkeypatch.setattr("isoweave.graph._features._DENSE_ENTRIES", dense_entries)
    rng = np.random.default_rng(89)
    X = sp.csr_array(rng.uniform(size=(90, 30)) * (rng.uniform(size=(90, 30)) < 0.3))
    X = sp.vstack([X, X[:4]]).asformat(form)
    graph = knn_graph(X, 5, metric=metric)
    dense = knn_graph(X.toarray(), 5, metric=metric)
    assert np.count_nonzero(graph.lengths == 0) == 8
    a, b = merge_duplicates(graph)[0], merge_duplicates(dense)[0]
    np.testing.assert_array_equal(a.indices, b.indices)
    np.testing.assert_allclose(a.lengths, b.lengths, rtol=1e-8)
    fitted, new = X.tocsr()[:60], X.tocsr()[50:]
    expected = build_index(fitted.toarray(), metric, team=TEAM).neighbors(new.toarray(), 5, team=TEAM)
    index = build_index(fitted, metric, team=TEAM)
    assert index.search == ("brute" if dense_entries and metric != "manhattan" else "pairwise")
    found = index.neighbors(new, 5, team=TEAM)
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-8, atol=1e-12)


def test_sparse_euclidean_distances_are_accurate(monkeypatch):
    monkeypatch.setattr("isoweave.graph._features._DENSE_ENTRIES", 0)
    X = np.repeat(normal(5, 20, 97), 20, axis=0) + 1e-6 * normal(100, 20, 98)
    graph = knn_graph(sp.csr_array(X), 10)
    np.testing.assert_allclose(graph.lengths, cdist(X, X)[graph.sources, graph.indices], rtol=1e-9)
    own = build_index(sp.csr_array(X), team=TEAM).neighbors(sp.csr_array(X), 2, team=TEAM)[1]
    assert (own[:, 0] == 0).all()


@pytest.mark.parametrize("d", [3, 25])
def test_points_of_the_index_are_found_once_at_distance_zero(d):
    fitted = normal(80, d, 587)
    index = build_index(np.vstack([fitted, np.repeat(fitted[:1], 30, axis=0)]), team=TEAM)
    found, distances = index.neighbors(fitted, 4, team=TEAM)
    np.testing.assert_array_equal(found[:, 0], np.arange(80))
    assert (distances[:, 0] == 0).all()
    assert (distances[:, 1] > 0).all()
    plain = build_index(fitted, team=TEAM).neighbors(fitted, 4, team=TEAM)
    np.testing.assert_array_equal((found, distances), plain)


def test_fewer_points_than_neighbours():
    found, distances = build_index(normal(4, 2, 599), team=TEAM).neighbors(normal(3, 2, 601), 10, team=TEAM)
    assert found.shape == distances.shape == (3, 4)


def test_metrics_that_fail_are_named():
    X = np.full((4, 12), np.nan)
    X[:3, 0] = [0.0, 1.0, 2.5]
    X[3, 1] = 1.0
    with pytest.raises(ValueError, match="Sample 3 has only 0 distinct others at a finite distance"):
        knn_graph(X, 1, metric="nan_euclidean")
    with pytest.raises(ValueError, match="gives -1.0 between sample"):
        knn_graph(np.eye(5), 1, metric=lambda x, y: -1.0)
    index = build_index(normal(30, 3, 631), lambda a, b: float(np.sum(a - b)) if a[0] > 5 else 1.0, team=TEAM)
    with pytest.raises(ValueError, match="The metric gives -?[0-9.]+ between row 0 of X and sample"):
        index.neighbors(np.array([[6.0, -20.0, -20.0]]), 3, team=TEAM)


def test_threads_do_not_share_the_buffer_of_the_mahalanobis_metric():
    points = normal(6000, 4, 643)
    with thread_team(4) as team:
        index = build_index(points, "mahalanobis", team=team)
        found = index.neighbors(points, 6, team=team)
    np.testing.assert_array_equal(found, index.neighbors(points, 6, team=TEAM))


INTERRUPTED = """
import os, signal, threading, time
import numpy as np
from isoweave.graph import knn_graph

X = np.random.default_rng(641).normal(size=(15_000, 9))
knn_graph(X[:300], 5)
threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    knn_graph(X, 10, n_jobs=2)
except KeyboardInterrupt:
    junk = [np.ones(100_000) for _ in range(200)]
    time.sleep(0.5)
    print("interrupted")
"""


def test_the_process_survives_an_interrupted_search():
    """Threads that cKDTree starts itself go on writing into arrays that are freed by then."""
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, "interrupted"), done.stderr
