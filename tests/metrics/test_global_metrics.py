from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.stats
from scipy.spatial.distance import cdist
from sklearn.manifold import Isomap
from sklearn.manifold import trustworthiness as sklearn_trustworthiness

from isoweave.datasets import flat_torus, s_curve
from isoweave.graph import graph_from_matrix, subgraph
from isoweave.metrics import (
    GeodesicRows,
    _global,
    continuity,
    default_n_rows,
    distance_pairs,
    geodesic_rows,
    global_stress,
    kendall,
    pearson,
    spearman,
    trustworthiness,
)
from reference_graphs import graph_of, knn_of
from reference_metrics import floyd_warshall, pairs_loop, rank_loop

GLOBAL = [global_stress, pearson, spearman, kendall]


@pytest.fixture(scope="module")
def torus():
    data = flat_torus(90, random_state=3).data
    return knn_of(data, 6), np.random.default_rng(4).normal(size=(90, 3)) + data[:, :3]


@pytest.fixture(scope="module")
def two_parts():
    rng = np.random.default_rng(6)
    parts = [knn_of(rng.normal(size=(n, 2)), 4).to_matrix() for n in (30, 25)]
    return graph_from_matrix(sp.block_diag(parts, format="csr")), rng.normal(size=(55, 2))


@pytest.mark.parametrize("case", ["torus", "two_parts"])
def test_pairs_against_loops_and_scipy(case, request):
    graph, y = request.getfixturevalue(case)
    d, e = pairs_loop(floyd_warshall(graph), y)
    assert global_stress(graph, y) == pytest.approx(np.sqrt(np.sum((e - d) ** 2) / np.sum(d**2)), rel=1e-12)
    assert pearson(graph, y) == pytest.approx(scipy.stats.pearsonr(d, e).statistic, rel=1e-10)
    assert spearman(graph, y) == pytest.approx(scipy.stats.spearmanr(d, e).statistic, rel=1e-10)
    assert kendall(graph, y) == pytest.approx(scipy.stats.kendalltau(d, e).statistic, rel=1e-12)


def test_zero_edges_carry_paths():
    # Without the explicit zero the graph would fall apart.
    graph = graph_of([(0, 1, 1.0), (1, 2, 0.0), (2, 3, 1.0)], 4)
    np.testing.assert_array_equal(geodesic_rows(graph).distances[0], [0.0, 1.0, 1.0, 2.0])
    assert global_stress(graph.to_matrix(), np.array([0.0, 1.0, 1.0, 2.0])) == 0.0


@pytest.mark.parametrize("metric", GLOBAL)
def test_references_agree(metric, torus):
    graph, y = torus
    rows = geodesic_rows(graph)
    assert metric(rows, y) == metric(rows.distances, y) == metric(graph, y)


@pytest.mark.parametrize("metric", GLOBAL)
def test_sampled_rows_are_close_and_seeded(metric, torus):
    graph, y = torus
    full = metric(graph, y)
    sampled = metric(graph, y, n_rows=30, random_state=11)
    assert sampled != full
    assert sampled == pytest.approx(full, abs=0.08)
    assert metric(graph, y, n_rows=30, random_state=11) == sampled
    assert metric(graph, y, n_rows=30, random_state=12) != sampled
    assert metric(graph, y, n_rows=30) == metric(graph, y, n_rows=30)  # None is a fixed seed


def test_sampled_pairs_are_listed_once(torus):
    graph, y = torus
    rows = np.array([2, 5, 40])
    distances = floyd_warshall(graph)
    d, _ = distance_pairs(GeodesicRows(rows, distances[rows]), y)
    expected = [distances[i, j] for i in rows for j in range(90) if i != j and not (j in rows and j > i)]
    assert len(d) == 3 * 89 - 3
    np.testing.assert_allclose(np.sort(d), np.sort(expected), rtol=1e-12)


def test_blocks_do_not_matter(torus, monkeypatch):
    graph, y = torus
    scores = lambda: [m(graph, y) for m in GLOBAL] + [trustworthiness(graph, y, n_neighbors=5)]  # noqa: E731
    expected = scores()
    monkeypatch.setattr(_global, "_BLOCK_ENTRIES", 90 * 7)
    np.testing.assert_allclose(scores(), expected, rtol=1e-12)


def test_kendall_sample(torus, monkeypatch):
    graph, y = torus
    full = kendall(graph, y)
    monkeypatch.setattr(_global, "_KENDALL_PAIRS", 2000)
    # Stated standard error at most sqrt(2 / pairs) = 0.032.
    assert full != kendall(graph, y, random_state=5) == pytest.approx(full, abs=0.1)


def test_number_of_rows():
    assert [default_n_rows(n) for n in (7, 5000, 5001, 100_000, 10_000_000)] == [7, 5000, 500, 250, 50]


def test_known_values():
    line = graph_of([(i, i + 1, 1.0) for i in range(3)], 4)
    assert global_stress(line, np.arange(4.0)) == 0.0
    assert global_stress(line, 1.5 * np.arange(4.0)) == pytest.approx(0.5)
    for metric in (pearson, spearman, kendall):
        assert metric(line, 1.5 * np.arange(4.0)) == pytest.approx(1.0)


@pytest.mark.parametrize("metric", GLOBAL)
def test_undefined_is_nan(metric, torus):
    """Correlations of constants, and anything of no pairs."""
    assert np.isnan(metric(sp.csr_array((3, 3)), np.arange(3.0)))
    assert metric is global_stress or np.isnan(metric(torus[0], np.zeros((90, 2))))


@pytest.mark.parametrize("k", [1, 5, 20])
def test_trustworthiness_and_continuity_match_sklearn(torus, k):
    graph, y = torus
    distances = floyd_warshall(graph)
    trust = sklearn_trustworthiness(distances, y, n_neighbors=k, metric="precomputed")
    assert trust < 0.95
    assert trustworthiness(graph, y, n_neighbors=k) == pytest.approx(trust, rel=1e-12)
    assert trust == pytest.approx(rank_loop(cdist(y, y), distances, k), rel=1e-12)
    # sklearn has no continuity; exchanging the roles needs coordinates with the graph's distances.
    swapped = rank_loop(distances, cdist(y, y), k)
    assert continuity(graph, y, n_neighbors=k) == pytest.approx(swapped, rel=1e-12)


def test_ranks_within_components(two_parts):
    graph, y = two_parts
    first, second = (subgraph(graph, np.arange(*span)) for span in ((0, 30), (30, 55)))
    expected = 30 * trustworthiness(first, y[:30], n_neighbors=4)
    expected += 25 * trustworthiness(second, y[30:], n_neighbors=4)
    assert trustworthiness(graph, y, n_neighbors=4) == pytest.approx(expected / 55, rel=1e-12)
    # Only the larger part has more than 2 k = 26 vertices.
    expected = trustworthiness(first, y[:30], n_neighbors=13)
    assert trustworthiness(graph, y, n_neighbors=13) == pytest.approx(expected, rel=1e-12)
    assert np.isnan(continuity(graph, y, n_neighbors=20))


def test_isomap_minimises_what_we_measure():
    curve = s_curve(300, random_state=21)
    graph = knn_of(curve.data, 8)
    isomap = Isomap(n_neighbors=8, n_components=2).fit(curve.data)
    np.testing.assert_allclose(geodesic_rows(graph).distances, isomap.dist_matrix_, rtol=1e-12)
    assert global_stress(graph, isomap.embedding_) < 0.1 < 0.3 < global_stress(graph, 0.6 * isomap.embedding_)
    assert pearson(graph, isomap.embedding_) > 0.99 > 0.9 > pearson(graph, curve.data)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda g, y: pearson(np.zeros((2, 3)), y), r"shape \(n, n\), got \(2, 3\)"),
        (lambda g, y: pearson(np.array([[0.0, np.nan], [1.0, 0.0]]), y[:2]), r">= 0, got nan at \(0, 1\)"),
        (lambda g, y: global_stress(g, y[:-1]), "expected 90 rows, got 89"),
        (lambda g, y: global_stress(g, y, n_rows=91), "1 and the number of vertices 90, got 91"),
        (lambda g, y: trustworthiness(g, y, n_neighbors=45), "below n / 2 = 45 .* got 45"),
    ],
)
def test_errors(call, match, torus):
    with pytest.raises(ValueError, match=match):
        call(*torus)
