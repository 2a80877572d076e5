"""Neighbours of points and of new rows: against all pairs, alone and in batches, in every kind of search."""

import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings, strategies as st
from scipy.spatial.distance import cdist
from sklearn.metrics import pairwise_distances

from isoweave._parallel import ThreadTeam, thread_team
from isoweave.graph import (
    _cells,
    _euclidean,
    _index,
    build_index,
    connected_components,
    knn_graph,
    merge_duplicates,
)
from isoweave.graph._cells import CellSearch, project
from isoweave.graph._euclidean import ProductSearch, nearest_by_scores
from reference_graphs import as_dense, assert_permuted, assert_same_graph, twin

TEAM = ThreadTeam(1)


def normal(n, d, seed):
    return np.random.default_rng(seed).normal(size=(n, d))


def cubic(a, b, weight=1.0):
    return weight * np.sum(np.abs(a - b) ** 3) ** (1.0 / 3.0)


METRICS = [
    ("euclidean", {}, {1: "tree", 3: "tree", 30: "brute"}),
    ("l2", {}, {12: "brute"}),
    ("sqeuclidean", {}, {4: "tree", 12: "brute"}),
    ("manhattan", {}, {5: "tree"}),
    ("cityblock", {}, {12: "pairwise"}),
    ("minkowski", {"p": 3}, {5: "tree", 12: "pairwise"}),
    ("minkowski", {"p": np.inf}, {2: "tree"}),
    ("minkowski", {"p": 2, "w": np.linspace(1, 2, 12)}, {12: "pairwise"}),
    ("minkowski", {"p": 3, "w": np.array([1.0, 2.0, 3.0])}, {3: "pairwise"}),
    ("chebyshev", {}, {3: "tree", 30: "pairwise"}),
    *((metric, {}, {4: "tree", 12: "pairwise"}) for metric in ("canberra", "seuclidean", "mahalanobis")),
    ("braycurtis", {}, {2: "pairwise"}),
    ("correlation", {}, {12: "pairwise"}),
    ("cosine", {}, {2: "tree", 12: "brute"}),
    (cubic, {}, {2: "tree"}),
    (cubic, {"weight": 2.5}, {12: "pairwise"}),
    ("haversine", {}, {2: "tree"}),
]


def all_pairs(a, b, metric, params, fitted):
    """Distances by scikit-learn, with what the metric takes from the fitted data."""
    if metric == "seuclidean":
        params = {"V": np.var(fitted, axis=0, ddof=1)}
    elif metric == "mahalanobis":
        params = {"VI": np.linalg.inv(np.cov(fitted.T))}
    elif params.get("p") == np.inf:
        metric, params = "chebyshev", {}
    return pairwise_distances(a, b, metric={"l2": "euclidean"}.get(metric, metric), **params)


@pytest.mark.parametrize(
    ("metric", "params", "d", "search"), [(*row[:2], *by) for row in METRICS for by in row[2].items()]
)
def test_points_and_new_rows_find_their_nearest(metric, params, d, search, monkeypatch):
    """Alone, in a batch and on several threads a new row finds the same bits."""
    monkeypatch.setattr(_index, "_FUNCTION_SAMPLES", 50)
    scale, shift = (0.4, 0.0) if metric == "haversine" else (1.0, 0.5)
    n = 60 if callable(metric) else 150
    fitted, new = scale * normal(n, d, 523) + shift, scale * normal(20, d, 541) + shift
    index = build_index(fitted, metric, params, team=TEAM)
    assert index.search == search
    graph = as_dense(knn_graph(fitted, 4, metric=metric, metric_params=params or None))
    # scikit-learn's own cosine and Euclidean distances are good to the square root of rounding.
    expected = twin(all_pairs(fitted, fitted, metric, params, fitted), 4)
    np.testing.assert_allclose(graph, expected, rtol=1e-6, atol=1e-12)
    if metric == "euclidean":
        np.testing.assert_allclose(graph, twin(cdist(fitted, fitted), 4), rtol=1e-13)
        single = fitted.astype(np.float32)
        expected = twin(cdist(single, single), 4)
        np.testing.assert_allclose(as_dense(knn_graph(single, 4)), expected, rtol=1e-13)
    found, distances = index.neighbors(new, 7, team=TEAM)
    expected = all_pairs(new, fitted, metric, params, fitted)
    np.testing.assert_array_equal(found, np.argsort(expected, axis=1)[:, :7])
    np.testing.assert_allclose(distances, np.sort(expected, axis=1)[:, :7], rtol=1e-7, atol=1e-12)
    with thread_team(3) as team:
        np.testing.assert_array_equal(index.neighbors(new, 7, team=team), (found, distances))
    for i in (0, 13, 19):
        alone = index.neighbors(new[i : i + 1], 7, team=TEAM)
        np.testing.assert_array_equal(alone, (found[i : i + 1], distances[i : i + 1]))


FLAGS = np.random.default_rng(73).integers(0, 2, size=(60, 40))
ODD_DATA = [
    *((metric, FLAGS, 5) for metric in ("jaccard", "dice", "hamming")),
    ("haversine", np.array([0.7, -2.0]) + 1e-9 * normal(30, 2, 71), 29),
    ("nan_euclidean", np.where(np.arange(240).reshape(40, 6) % 18 == 2, np.nan, normal(40, 6, 83)), 4),
    ("cosine", np.abs(normal(30, 5, 79)) * (np.arange(30) != 4)[:, None], 3),
]


@pytest.mark.parametrize(("metric", "X", "k"), ODD_DATA)
def test_metrics_with_odd_data(metric, X, k):
    """Flags, points of the globe next to each other, missing values, a row without a direction."""
    D = pairwise_distances(X.astype(bool) if metric in ("jaccard", "dice") else X, metric=metric)
    graph = knn_graph(X, k, metric=metric)
    np.testing.assert_allclose(graph.lengths, D[graph.sources, graph.indices], rtol=1e-7, atol=1e-14)
    dense = np.where(np.isnan(as_dense(graph)), np.inf, as_dense(graph))
    nearest = np.sort(D + np.diag(np.full(len(X), np.inf)), axis=1)[:, :k]
    np.testing.assert_allclose(np.sort(dense, axis=1)[:, :k], nearest, rtol=1e-7, atol=1e-14)
    own = build_index(X, metric, team=TEAM).neighbors(X[:4], 1, team=TEAM)[1]
    np.testing.assert_allclose(own[:, 0], D[:4].min(axis=1), atol=1e-7)


def test_parallel_rows_and_new_rows_without_a_direction_or_a_distance():
    X = np.random.default_rng(79).uniform(0.1, 1, size=(30, 5))
    parallel = knn_graph(np.vstack([X, 3.7 * X[:2]]), 3, metric="cosine")
    assert as_dense(parallel)[0, 30] == as_dense(parallel)[1, 31] == 0
    with pytest.raises(ValueError, match="Row 1 of X has length 0 and no direction"):
        build_index(X, "cosine", team=TEAM).neighbors(X[:2] * [[1], [0]], 3, team=TEAM)
    index = build_index(X, lambda a, b: float(np.sum(a - b)) if a[0] > 5 else 1.0, team=TEAM)
    with pytest.raises(ValueError, match="Neighbour 1 of row 0 of X is sample [0-9]+, at distance -[0-9.]+"):
        index.neighbors(np.array([[6.0, -20.0, -20.0, 0.0, 0.0]]), 3, team=TEAM)


@pytest.mark.parametrize("dense_entries", [0, 2**25])
@pytest.mark.parametrize("metric", ["euclidean", "manhattan", "cosine"])
def test_sparse_features(metric, dense_entries, monkeypatch):
    """Also those too large to be made dense; their Euclidean distances are accurate all the same."""
    monkeypatch.setattr("isoweave.graph._features._DENSE_ENTRIES", dense_entries)
    X = sp.csr_array(normal(90, 30, 89) ** 2 * (normal(90, 30, 90) < -0.5))
    X = sp.vstack([X, X[:4]]).tocsr()
    graph = knn_graph(X, 5, metric=metric)
    assert np.count_nonzero(graph.lengths == 0) == 8
    assert_same_graph(graph, knn_graph(X.tocoo(), 5, metric=metric))
    backwards = knn_graph(X[:90][::-1], 5, metric=metric)
    assert_permuted(knn_graph(X[:90], 5, metric=metric), backwards, np.arange(90)[::-1])
    a, b = (merge_duplicates(g)[0] for g in (graph, knn_graph(X.toarray(), 5, metric=metric)))
    np.testing.assert_array_equal(a.indices, b.indices)
    np.testing.assert_allclose(a.lengths, b.lengths, rtol=1e-8)
    expected = build_index(X[:60].toarray(), metric, team=TEAM).neighbors(X[50:].toarray(), 5, team=TEAM)
    index = build_index(X[:60], metric, team=TEAM)
    assert index.search == ("brute" if dense_entries and metric != "manhattan" else "pairwise")
    found = index.neighbors(X[50:], 5, team=TEAM)
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-8, atol=1e-12)
    if metric == "euclidean":
        near = np.repeat(normal(5, 20, 97), 20, axis=0) + 1e-6 * normal(100, 20, 98)
        graph = knn_graph(sp.csr_array(near), 10)
        np.testing.assert_allclose(graph.lengths, cdist(near, near)[graph.sources, graph.indices], rtol=1e-9)


@pytest.mark.parametrize("n_features", [2, 12])
def test_duplicates_and_scale(n_features):
    """More duplicates than neighbours; features so large or small that their squares are no numbers."""
    X = normal(60, n_features, 41)
    X[10:40] = X[10]
    graph = knn_graph(X, 5)
    for exponent in (-900, 900):
        scaled = knn_graph(np.ldexp(X, exponent), 5)
        np.testing.assert_array_equal(graph.indices, scaled.indices)
        np.testing.assert_allclose(np.ldexp(scaled.lengths, -exponent), graph.lengths, rtol=1e-12)
    assert 5 <= graph.degrees.min() <= graph.degrees.max() < 25
    np.testing.assert_array_equal(graph.lengths == 0, np.all(X[graph.sources] == X[graph.indices], axis=1))
    reduced, representative = merge_duplicates(graph)
    assert len(set(representative[10:40])) == 1
    # What remains is the kNN graph of the distinct points.
    kept = np.delete(np.arange(60), np.arange(11, 40))
    np.testing.assert_allclose(as_dense(reduced), twin(cdist(X[kept], X[kept]), 5), rtol=1e-13)
    assert connected_components(reduced)[0] == connected_components(graph)[0] == 1
    equal = knn_graph(np.full((20, n_features), 0.3), 4)
    assert np.all(equal.degrees >= 4)
    assert not equal.lengths.any()
    assert connected_components(equal)[0] == 1
    assert knn_graph([[0.0, 1.0], [-0.0, 1.0], [5.0, 1.0]], 1).lengths[0] == 0
    # A point of the index is found once, at distance zero; no more points than there are.
    found, distances = build_index(X, team=TEAM).neighbors(X[kept], 4, team=TEAM)
    np.testing.assert_array_equal(found[:, 0], kept)
    assert (distances[:, 0] == 0).all()
    assert (distances[:, 1] > 0).all()
    assert build_index(X[:4], team=TEAM).neighbors(X, 10, team=TEAM)[0].shape == (60, 4)


@settings(max_examples=25)
@given(
    points=st.lists(st.tuples(*[st.integers(0, 3)] * 2), min_size=3, max_size=25),
    k=st.integers(1, 6),
    wide=st.booleans(),
    seed=st.integers(0, 2**20),
)
def test_integer_points_with_ties_and_duplicates(points, k, wide, seed):
    X = np.hstack([np.array(points, dtype=float), np.zeros((len(points), 10 * wide))])
    k = min(k, len(X) - 1)
    reduced, representative = merge_duplicates(knn_graph(X, k))
    distinct = np.unique(X, axis=0)
    assert reduced.n_vertices == len(distinct)
    # Each vertex has its k nearest distinct points: which of several tied ones is free, how far is not.
    for v, distances in zip(representative, np.sort(cdist(X, distinct), axis=1)[:, 1 : k + 1], strict=True):
        row = reduced.lengths[reduced.indptr[v] : reduced.indptr[v + 1]]
        np.testing.assert_allclose(np.sort(row)[: len(distances)], distances, rtol=1e-12)
    # And which one is chosen does not depend on the numbering.
    shuffle = np.random.default_rng(seed).permutation(len(X))
    other, other_representative = merge_duplicates(knn_graph(X[shuffle], k))
    match = np.empty(reduced.n_vertices, dtype=int)
    match[other_representative] = representative[shuffle]
    np.testing.assert_array_equal(as_dense(reduced)[np.ix_(match, match)], as_dense(other))


@pytest.mark.parametrize("largest_exact", [50_000, 500])
@pytest.mark.parametrize("n_features", [3, 25])
def test_neither_row_order_nor_threads_matter(n_features, largest_exact, monkeypatch):
    monkeypatch.setattr(_index, "EXACT_SAMPLES", largest_exact)
    X = normal(700, n_features, 43)
    graph = knn_graph(X, 8, n_jobs=1)
    assert_same_graph(graph, knn_graph(X, 8, n_jobs=2))
    shuffle = np.random.default_rng(44).permutation(len(X))
    assert_permuted(graph, knn_graph(X[shuffle], 8), shuffle)


APART = [[0.0, np.nan], [1.0, np.nan], [2.5, np.nan], [np.nan, 1.0]]
BAD_INPUT = [
    (np.eye(5), {"n_neighbors": 5}, ValueError, "less than the number of samples, got 5 for 5"),
    (np.eye(5), {"n_neighbors": 0}, ValueError, "n_neighbors must be an integer >= 1"),
    (np.eye(5), {"n_neighbors": 2.0}, TypeError, "n_neighbors must be an integer"),
    (np.eye(5), {"metric": "euclidian"}, ValueError, "Did you mean 'euclidean'"),
    (np.eye(5), {"metric": "precomputed"}, ValueError, "knn_from_distances"),
    (np.eye(5), {"metric": 3}, TypeError, "metric must be one of"),
    (np.eye(5), {"metric_params": 3}, TypeError, "metric_params must be a dict"),
    (np.eye(5), {"metric_params": {"p": 3}}, TypeError, "metric_params .p. do not fit metric='euclidean'"),
    (np.eye(5), {"metric": "seuclidean", "metric_params": {"V": [1.0]}}, ValueError, "metric_params .V."),
    (np.eye(5), {"metric": "minkowski", "metric_params": {"p": 0.5}}, ValueError, "'p'.*>= 1"),
    (np.ones((5, 2)), {"metric": "mahalanobis"}, ValueError, "the 2 features, which is singular"),
    (np.eye(5), {"metric": "haversine"}, ValueError, "latitude and longitude.*got 5 features"),
    (np.array([[1.0], [np.inf], [0.0]]), {}, ValueError, r"X\[1, 0\] is inf"),
    (ODD_DATA[4][1], {}, ValueError, r"X\[0, 2\] is nan.*metric='nan_euclidean'"),
    (np.array([["a"], ["b"]]), {}, ValueError, "could not convert|dtype"),
    (np.eye(5) * 1j, {}, ValueError, "Complex data not supported"),
    (np.zeros((1, 3)), {}, ValueError, "minimum of 2"),
    (np.zeros(5), {}, ValueError, "1D array"),
    (sp.csr_array(np.diag([1.0, 2.0, np.nan, 4.0])), {}, ValueError, r"X\[2, 2\] is nan"),
    (np.eye(5), {"metric": lambda x, y: -1.0}, ValueError, "of sample . is sample ., at distance -1.0"),
    (APART, {"metric": "nan_euclidean"}, ValueError, "of sample 3 is none, at distance inf; .* lower n_ne"),
]


@pytest.mark.parametrize(("X", "options", "error", "text"), BAD_INPUT)
def test_bad_input(X, options, error, text, monkeypatch):
    monkeypatch.setattr("isoweave.graph._features._DENSE_ENTRIES", 0)
    with pytest.raises(error, match=text):
        knn_graph(X, **({"n_neighbors": 1} | options))


def test_threads_do_not_share_the_buffer_of_the_mahalanobis_metric():
    points = normal(2000, 4, 643)
    with thread_team(4) as team:
        index = build_index(points, "mahalanobis", team=team)
        found = index.neighbors(points, 6, team=team)
    np.testing.assert_array_equal(found, index.neighbors(points, 6, team=TEAM))


INTERRUPTED = """
import os, signal, threading, time
import numpy as np
from isoweave.graph import knn_graph

X = np.random.default_rng(641).normal(size=(8_000, 9))
knn_graph(X[:300], 5)
# Background jobs of a shell begin with SIGINT ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    # Again, so that a fast machine is interrupted inside a search too.
    for _ in range(100):
        knn_graph(X, 10, n_jobs=2)
except KeyboardInterrupt:
    junk = [np.ones(100_000) for _ in range(200)]
    time.sleep(0.5)
    print("interrupted")
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_the_process_survives_an_interrupted_search(name):
    """Threads that cKDTree starts itself go on writing into arrays that are freed by then."""
    program = INTERRUPTED.replace("signal.SIGINT", f"signal.{name}")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, "interrupted"), done.stderr


def clusters(spread):
    """Clusters far smaller than their distances."""
    return np.repeat(normal(6, 20, 23), 40, axis=0) + spread * normal(240, 20, 24)


# At 1e-6 single precision sees nothing inside the clusters, at 1e-9 double precision neither.
@pytest.mark.parametrize(("spread", "stages"), [(1.0, "f"), (1e-5, "fd"), (1e-9, "fdd"), (1e-12, "fdd")])
def test_exact_where_products_lose_all_digits(spread, stages, monkeypatch):
    seen = []
    kernels = _euclidean.kernels
    original = kernels.k_smallest

    def record(start, stop, scores, *rest):
        seen.append(scores.dtype.char)
        original(start, stop, scores, *rest)

    monkeypatch.setattr(
        _euclidean, "kernels", SimpleNamespace(k_smallest=record, measure_rows=kernels.measure_rows)
    )
    X = clusters(spread)
    graph = knn_graph(X, 5, n_jobs=1)
    assert "".join(seen) == stages
    np.testing.assert_allclose(as_dense(graph), twin(cdist(X, X), 5), rtol=1e-12)


def test_queries_near_and_far_and_many_equal_distances():
    """Where single precision fails or would overflow, all points are compared.

    On a lattice in many dimensions hundreds of points tie for the last place; still the same alone.
    """
    X = clusters(1e-9)
    new = np.vstack([X[5:6] * 1e30, X[:3], X[1:2] + 1e6, X[7:8] + 1e-9])
    found, distances = build_index(X, team=TEAM).neighbors(new, 3, team=TEAM)
    expected = np.sqrt(((new[:, None] - X) ** 2).sum(axis=2))
    np.testing.assert_allclose(distances, np.sort(expected, axis=1)[:, :3], rtol=1e-12)
    np.testing.assert_array_equal(found[1:4, 0], [0, 1, 2])
    np.testing.assert_array_equal(found[5], np.argsort(expected[5])[:3])
    fitted, new = ((normal(n, 14, n) > 0).astype(float) for n in (400, 15))
    index = build_index(fitted, team=TEAM)
    found, distances = index.neighbors(new, 5, team=TEAM)
    exact = pairwise_distances(new, fitted[index.space.groups.first], metric="sqeuclidean").round()
    np.testing.assert_allclose(distances**2, np.sort(exact, axis=1)[:, :5], atol=1e-12)
    for i in range(15):
        np.testing.assert_array_equal(index.neighbors(new[i : i + 1], 5, team=TEAM)[0][0], found[i])


def low_rank(n, n_features, n_directions, noise, seed):
    """Points that spread in few directions of many features, centred."""
    points = normal(n, n_directions, seed) @ normal(n_directions, n_features, seed + 1)
    points += noise * normal(n, n_features, seed + 2)
    return points - points.mean(axis=0)


@pytest.mark.parametrize(("rank", "n_features", "n_directions"), [(20, 300, 32), (60, 400, 64), (40, 40, 40)])
def test_points_are_projected_if_nothing_is_lost(rank, n_features, n_directions):
    points = low_rank(1500, n_features, rank, 0.0, 401).astype(np.float32)
    sample = np.arange(0, 1500, 7, dtype=np.int32)
    wanted = nearest_by_scores(points, sample, 8, TEAM)
    projected = project(points, sample, wanted, TEAM, np.random.default_rng(7))
    assert projected.shape == (1500, n_directions)
    differences = np.linalg.norm(projected[1:] - projected[0], axis=1)
    np.testing.assert_allclose(differences, np.linalg.norm(points[1:] - points[0], axis=1), rtol=1e-4)


@pytest.mark.parametrize(("rank", "n_features"), [(12, 200), (12, 40), (16, 16)])
def test_cells_hold_nearly_all_neighbours_which_are_measured_in_all_features(rank, n_features, monkeypatch):
    points = low_rank(3000, n_features, rank, 0.05, 409)
    every, nobody = np.arange(3000, dtype=np.int32), np.full(100, -1, dtype=np.int32)
    search, products = CellSearch(points, 5, TEAM), ProductSearch(points, TEAM)
    exact = products(points, every, 10, TEAM)
    with thread_team(2) as team:
        neighbors, distances = search(points, every, 10, team)
    np.testing.assert_array_equal(search(points, every, 10, TEAM), (neighbors, distances))
    assert (neighbors[:, :, None] == exact[0][:, None, :]).any(axis=2).mean() > 0.98
    measured = np.linalg.norm(points[:, None] - points[neighbors], axis=2)
    np.testing.assert_allclose(distances, measured, rtol=1e-12)
    # New rows and parts of the points are searched exactly.
    new = points[:100] + 0.1
    np.testing.assert_array_equal(search(new, nobody, 10, TEAM), products(new, nobody, 10, TEAM))
    some = search(points[::3], every[::3], 10, TEAM)
    np.testing.assert_array_equal(some[0], exact[0][::3])
    # Large graphs are approximate, and the same for the same seed.
    exact = knn_graph(points, 10)
    monkeypatch.setattr(_index, "EXACT_SAMPLES", 1000)
    assert build_index(points, team=TEAM).search == "approximate"
    found = knn_graph(points, 10, random_state=3)
    assert_same_graph(found, knn_graph(points, 10, random_state=3))
    assert (exact.to_matrix() != found.to_matrix()).nnz < 0.05 * len(exact.indices)


def test_cells_with_too_few_points_are_searched_exactly(monkeypatch):
    """Clusters far apart and smaller than the number of neighbours."""
    monkeypatch.setattr(_cells, "_CELL", 4)
    points = np.repeat(100.0 * normal(100, 12, 411), 5, axis=0) + normal(500, 12, 412)
    every = np.arange(500, dtype=np.int32)
    neighbors, distances = CellSearch(points, None, TEAM)(points, every, 12, TEAM)
    assert (neighbors >= 0).all()
    assert np.isfinite(distances).all()
    assert all(len(set(row)) == 12 for row in neighbors.tolist())
