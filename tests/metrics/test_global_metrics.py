from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.stats
from sklearn.manifold import Isomap
from sklearn.manifold import trustworthiness as sklearn_trustworthiness

from isoweave.datasets import flat_torus, s_curve
from isoweave.metrics import (
    GeodesicRows,
    _global,
    continuity,
    default_n_rows,
    geodesic_rows,
    global_stress,
    kendall,
    pearson,
    spearman,
    trustworthiness,
)
from reference_metrics import edges_of, floyd_warshall, graph_from_edges, knn_graph, pairs_loop

GLOBAL = [global_stress, pearson, spearman, kendall]


@pytest.fixture(scope="module")
def torus():
    graph = knn_graph(flat_torus(90, random_state=3).data, 6)
    return graph, np.random.default_rng(4).normal(size=(90, 3)) + flat_torus(90, random_state=3).data[:, :3]


@pytest.fixture(scope="module")
def two_parts():
    rng = np.random.default_rng(6)
    graph = sp.csr_array(sp.block_diag([knn_graph(rng.normal(size=(n, 2)), 4) for n in (30, 25)]))
    return graph, rng.normal(size=(55, 2))


@pytest.mark.parametrize("case", ["torus", "two_parts"])
def test_pairs_against_loops_and_scipy(case, request):
    graph, y = request.getfixturevalue(case)
    d, e = pairs_loop(floyd_warshall(graph), y)
    assert global_stress(graph, y) == pytest.approx(np.sqrt(np.sum((e - d) ** 2) / np.sum(d**2)), rel=1e-12)
    assert pearson(graph, y) == pytest.approx(scipy.stats.pearsonr(d, e).statistic, rel=1e-10)
    assert spearman(graph, y) == pytest.approx(scipy.stats.spearmanr(d, e).statistic, rel=1e-10)
    assert kendall(graph, y) == pytest.approx(scipy.stats.kendalltau(d, e).statistic, rel=1e-12)


def test_zero_edges_carry_paths():
    # 0 -1- 1 -0- 2 -1- 3: without the explicit zero the graph would fall apart.
    edges = {(0, 1): 1.0, (1, 2): 0.0, (2, 3): 1.0}
    edges |= {(j, i): d for (i, j), d in edges.items()}
    graph = graph_from_edges(edges, 4)
    assert edges_of(graph)[1, 2] == 0.0
    np.testing.assert_array_equal(geodesic_rows(graph).distances[0], [0.0, 1.0, 1.0, 2.0])
    assert global_stress(graph, np.array([0.0, 1.0, 1.0, 2.0])) == 0.0


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
    d, _ = _global.distance_pairs(GeodesicRows(rows, distances[rows]), y)
    expected = [distances[i, j] for i in rows for j in range(90) if i != j and not (j in rows and j > i)]
    assert len(d) == 3 * 89 - 3
    np.testing.assert_allclose(np.sort(d), np.sort(expected), rtol=1e-12)


def test_blocks_do_not_matter(torus, monkeypatch):
    graph, y = torus
    expected = [metric(graph, y) for metric in GLOBAL] + [trustworthiness(graph, y, n_neighbors=5)]
    monkeypatch.setattr(_global, "_BLOCK_ENTRIES", 90 * 7)
    blocked = [metric(graph, y) for metric in GLOBAL] + [trustworthiness(graph, y, n_neighbors=5)]
    np.testing.assert_allclose(blocked, expected, rtol=1e-12)


def test_kendall_sample(torus, monkeypatch):
    graph, y = torus
    full = kendall(graph, y)
    monkeypatch.setattr(_global, "_KENDALL_PAIRS", 2000)
    # Stated standard error at most sqrt(2 / pairs) = 0.032.
    assert full != kendall(graph, y, random_state=5) == pytest.approx(full, abs=0.1)


def test_number_of_rows():
    assert [default_n_rows(n) for n in (7, 5000, 5001, 100_000, 10_000_000)] == [7, 5000, 500, 250, 50]


def test_known_values():
    line = sp.csr_array(np.diag(np.ones(3), 1) + np.diag(np.ones(3), -1))
    assert global_stress(line, np.arange(4.0)) == 0.0
    assert global_stress(line, 1.5 * np.arange(4.0)) == pytest.approx(0.5)
    for metric in (pearson, spearman, kendall):
        assert metric(line, 1.5 * np.arange(4.0)) == pytest.approx(1.0)


@pytest.mark.parametrize("metric", GLOBAL[1:])
def test_correlation_of_constants_is_nan(metric, torus):
    graph, _ = torus
    assert np.isnan(metric(graph, np.zeros((90, 2))))


@pytest.mark.parametrize("metric", GLOBAL)
def test_no_pairs_is_nan(metric):
    assert np.isnan(metric(sp.csr_array((3, 3)), np.arange(3.0)))


@pytest.mark.parametrize("k", [1, 5, 20])
def test_trustworthiness_and_continuity_match_sklearn(torus, k):
    graph, y = torus
    distances = floyd_warshall(graph)
    embedded = np.linalg.norm(y[:, None] - y[None, :], axis=2)
    trust = sklearn_trustworthiness(distances, y, n_neighbors=k, metric="precomputed")
    assert trust < 0.95
    assert trustworthiness(graph, y, n_neighbors=k) == pytest.approx(trust, rel=1e-12)
    # sklearn has no continuity; exchanging the roles needs coordinates with the graph's distances.
    swapped = _rank_loop(distances, embedded, k)
    assert continuity(graph, y, n_neighbors=k) == pytest.approx(swapped, rel=1e-12)
    assert trust == pytest.approx(_rank_loop(embedded, distances, k), rel=1e-12)


def _rank_loop(nearest_by, ranked_by, k):
    n = len(ranked_by)
    total = 0.0
    for i in range(n):
        others = [j for j in range(n) if j != i]
        rank = {j: r for r, j in enumerate(sorted(others, key=lambda j: ranked_by[i, j]), start=1)}
        total += sum(max(0, rank[j] - k) for j in sorted(others, key=lambda j: nearest_by[i, j])[:k])
    return 1.0 - 2.0 * total / (n * k * (2 * n - 3 * k - 1))


def test_ranks_within_components(two_parts):
    graph, y = two_parts
    parts = [(graph[:30, :30], y[:30], 30), (graph[30:, 30:], y[30:], 25)]
    expected = sum(n * trustworthiness(part, z, n_neighbors=4) for part, z, n in parts) / 55
    assert trustworthiness(graph, y, n_neighbors=4) == pytest.approx(expected, rel=1e-12)
    # Only the larger part has more than 2 k = 26 vertices.
    assert trustworthiness(graph, y, n_neighbors=13) == pytest.approx(
        trustworthiness(graph[:30, :30], y[:30], n_neighbors=13), rel=1e-12
    )
    assert np.isnan(continuity(graph, y, n_neighbors=20))


def test_isomap_minimises_what_we_measure():
    curve = s_curve(300, random_state=21)
    graph = knn_graph(curve.data, 8)
    isomap = Isomap(n_neighbors=8, n_components=2).fit(curve.data)
    np.testing.assert_allclose(geodesic_rows(graph).distances, isomap.dist_matrix_, rtol=1e-12)
    assert global_stress(graph, isomap.embedding_) < 0.1 < 0.3 < global_stress(graph, 0.6 * isomap.embedding_)
    assert pearson(graph, isomap.embedding_) > 0.99 > 0.9 > pearson(graph, curve.data)


def test_errors(torus):
    graph, y = torus
    with pytest.raises(ValueError, match=r"shape \(n, n\), got \(2, 3\)"):
        pearson(np.zeros((2, 3)), y)
    with pytest.raises(ValueError, match=r">= 0, got nan at \(0, 1\)"):
        pearson(np.array([[0.0, np.nan], [1.0, 0.0]]), y[:2])
    with pytest.raises(ValueError, match="expected 90 rows, got 89"):
        global_stress(graph, y[:-1])
    with pytest.raises(ValueError, match="between 1 and the number of vertices 90, got 91"):
        global_stress(graph, y, n_rows=91)
    with pytest.raises(ValueError, match="below n / 2 = 45 .* got 45"):
        trustworthiness(graph, y, n_neighbors=45)
