"""Neighbours of new features: against all pairs, alone and in batches, in every kind of search."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import pairwise_distances

from isoweave._parallel import ThreadTeam, thread_team
from isoweave.graph import build_index
from isoweave.graph._euclidean import ProductSearch

TEAM = ThreadTeam(1)


def data(n, d, seed):
    return np.random.default_rng(seed).normal(size=(n, d))


def _cubic(a, b):
    return np.sum(np.abs(a - b) ** 3) ** (1.0 / 3.0)


METRICS = [
    ("euclidean", None, 3, "tree"),
    ("euclidean", None, 30, "brute"),
    ("sqeuclidean", None, 4, "tree"),
    ("manhattan", None, 5, "tree"),
    ("minkowski", {"p": 3}, 5, "tree"),
    ("minkowski", {"p": 3, "w": [1.0, 2.0, 3.0]}, 3, "pairwise"),
    ("chebyshev", None, 30, "pairwise"),
    ("canberra", None, 4, "tree"),
    ("seuclidean", None, 4, "tree"),
    ("mahalanobis", None, 4, "tree"),
    ("correlation", None, 12, "pairwise"),
    ("cosine", None, 12, "brute"),
    (_cubic, None, 3, "pairwise"),
]


@pytest.mark.parametrize(("metric", "params", "d", "search"), METRICS)
def test_against_all_pairs(metric, params, d, search):
    fitted, new = data(150, d, 523), data(20, d, 541)
    index = build_index(fitted, metric, params, team=TEAM)
    assert index.search == search
    found, distances = index.neighbors(new, 7, team=TEAM)
    keywords = dict(params or {})
    if metric == "seuclidean":
        keywords = {"V": np.var(fitted, axis=0, ddof=1)}
    elif metric == "mahalanobis":
        keywords = {"VI": np.linalg.inv(np.cov(fitted.T))}
    expected = pairwise_distances(new, fitted, metric=metric, **keywords)
    np.testing.assert_array_equal(found, np.argsort(expected, axis=1)[:, :7])
    np.testing.assert_allclose(distances, np.sort(expected, axis=1)[:, :7], rtol=1e-7, atol=1e-12)


def test_haversine():
    rng = np.random.default_rng(547)
    places = np.column_stack([np.arcsin(rng.uniform(-1, 1, 90)), rng.uniform(-np.pi, np.pi, 90)])
    index = build_index(places[:80], "haversine", team=TEAM)
    found, distances = index.neighbors(places[80:], 5, team=TEAM)
    expected = pairwise_distances(places[80:], places[:80], metric="haversine")
    np.testing.assert_array_equal(found, np.argsort(expected, axis=1)[:, :5])
    np.testing.assert_allclose(distances, np.sort(expected, axis=1)[:, :5], rtol=1e-9)


def test_boolean_features():
    rng = np.random.default_rng(557)
    flags = rng.permutation(np.unique(rng.uniform(size=(70, 12)) < 0.4, axis=0))
    index = build_index(flags[10:].astype(float), "jaccard", team=TEAM)
    _, distances = index.neighbors(flags[:10].astype(float), 4, team=TEAM)
    expected = np.sort(pairwise_distances(flags[:10], flags[10:], metric="jaccard"), axis=1)[:, :4]
    np.testing.assert_allclose(distances, expected, atol=1e-12)


@pytest.mark.parametrize(("metric", "params", "d", "search"), METRICS)
def test_bits_do_not_depend_on_the_batch(metric, params, d, search):
    fitted, new = data(300, d, 563), data(70, d, 569)
    index = build_index(fitted, metric, params, team=TEAM)
    found, distances = index.neighbors(new, 6, team=TEAM)
    with thread_team(3) as team:
        threaded = index.neighbors(new, 6, team=team)
    np.testing.assert_array_equal(threaded[0], found)
    np.testing.assert_array_equal(threaded[1], distances)
    for i in (0, 33, 69):
        alone = index.neighbors(new[i : i + 1], 6, team=TEAM)
        np.testing.assert_array_equal(alone[0][0], found[i])
        np.testing.assert_array_equal(alone[1][0], distances[i])


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
        alone = index.neighbors(new[i : i + 1], 5, team=TEAM)
        np.testing.assert_array_equal(alone[0][0], found[i])


def test_queries_far_away():
    """Where single precision fails or would overflow, all points are compared."""
    fitted = data(100, 20, 577)
    index = build_index(fitted, team=TEAM)
    new = np.vstack([fitted[:1] + 1e6, fitted[1:2] * 1e30])
    found, distances = index.neighbors(new, 3, team=TEAM)
    expected = np.sqrt(((new[:, None] - fitted) ** 2).sum(axis=2))
    np.testing.assert_allclose(distances, np.sort(expected, axis=1)[:, :3], rtol=1e-12)
    np.testing.assert_array_equal(found[0], np.argsort(expected[0])[:3])


@pytest.mark.parametrize("d", [3, 25])
def test_points_of_the_fit_are_found_at_distance_zero(d):
    fitted = data(80, d, 587)
    found, distances = build_index(fitted, team=TEAM).neighbors(fitted, 4, team=TEAM)
    np.testing.assert_array_equal(found[:, 0], np.arange(80))
    assert (distances[:, 0] == 0).all()
    assert (distances[:, 1] > 0).all()


@pytest.mark.parametrize("d", [3, 25])
def test_duplicates_take_one_place(d):
    fitted = data(40, d, 593)
    doubled = np.vstack([fitted, np.repeat(fitted[:1], 30, axis=0)])
    new = fitted[:1] + 0.01
    found, distances = build_index(doubled, team=TEAM).neighbors(new, 5, team=TEAM)
    plain = build_index(fitted, team=TEAM).neighbors(new, 5, team=TEAM)
    np.testing.assert_array_equal(found, plain[0])
    np.testing.assert_array_equal(distances, plain[1])


def test_fewer_points_than_neighbours():
    fitted = data(4, 2, 599)
    found, distances = build_index(fitted, team=TEAM).neighbors(data(3, 2, 601), 10, team=TEAM)
    assert found.shape == distances.shape == (3, 4)


def test_sparse_features(monkeypatch):
    rng = np.random.default_rng(607)
    dense = np.where(rng.uniform(size=(60, 40)) < 0.2, rng.normal(size=(60, 40)), 0.0)
    expected = build_index(dense[:50], team=TEAM).neighbors(dense[50:], 5, team=TEAM)
    small = build_index(sp.csr_array(dense[:50]), team=TEAM)
    np.testing.assert_array_equal(small.neighbors(sp.csr_array(dense[50:]), 5, team=TEAM)[0], expected[0])
    # Too large to be made dense.
    monkeypatch.setattr("isoweave.graph._features._DENSE_ENTRIES", 10)
    large = build_index(sp.csr_array(dense[:50]), team=TEAM)
    assert large.search == "pairwise"
    found, distances = large.neighbors(sp.csr_array(dense[50:]), 5, team=TEAM)
    np.testing.assert_array_equal(found, expected[0])
    np.testing.assert_allclose(distances, expected[1], rtol=1e-12)
    own = large.neighbors(sp.csr_array(dense[:50]), 2, team=TEAM)[1]
    assert (own[:, 0] == 0).all()


def test_approximate_search(monkeypatch):
    pytest.importorskip("faiss")
    fitted, new = data(2000, 16, 613), data(100, 16, 617)
    monkeypatch.setattr("isoweave.graph._index.EXACT_SAMPLES", 1000)
    index = build_index(fitted, team=TEAM)
    assert index.search == "approximate"
    found, distances = index.neighbors(new, 8, team=TEAM)
    exact = ProductSearch(fitted)(new, None, 8, TEAM)
    hits = np.mean([len(set(a) & set(b)) / 8 for a, b in zip(found, exact[0], strict=True)])
    assert hits > 0.95
    for i in (0, 99):
        alone = index.neighbors(new[i : i + 1], 8, team=TEAM)
        np.testing.assert_array_equal(alone[0][0], found[i])
        np.testing.assert_array_equal(alone[1][0], distances[i])
    assert (index.neighbors(fitted[:50], 3, team=TEAM)[1][:, 0] == 0).all()


def test_rows_without_direction_are_named():
    fitted = data(30, 4, 619)
    index = build_index(fitted, "cosine", team=TEAM)
    with pytest.raises(ValueError, match="Row 1 of X has length 0 and no direction"):
        index.neighbors(np.array([[1.0, 0, 0, 0], [0, 0, 0, 0]]), 3, team=TEAM)


def test_metrics_that_fail_are_named():
    index = build_index(data(30, 3, 631), lambda a, b: float(np.sum(a - b)) if a[0] > 5 else 1.0, team=TEAM)
    with pytest.raises(ValueError, match="The metric gives -?[0-9.]+ between row 0 of X and sample"):
        index.neighbors(np.array([[6.0, -20.0, -20.0]]), 3, team=TEAM)


INTERRUPTED = """
import os, signal, threading, time
import numpy as np
from isoweave.graph import knn_graph

X = np.random.default_rng(641).normal(size=(30_000, 8))
knn_graph(X[:300], 5)
threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
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


def test_threads_do_not_share_the_buffer_of_the_mahalanobis_metric():
    points = data(6000, 4, 643)
    with thread_team(4) as team:
        index = build_index(points, "mahalanobis", team=team)
        found = index.neighbors(points, 6, team=team)
    alone = index.neighbors(points, 6, team=TEAM)
    np.testing.assert_array_equal(found[0], alone[0])
    np.testing.assert_array_equal(found[1], alone[1])
