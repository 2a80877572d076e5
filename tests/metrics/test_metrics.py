"""Metrics against slow loops, scikit-learn, scipy and known values."""

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
import scipy.stats
from scipy.sparse.csgraph import floyd_warshall
from scipy.spatial.distance import cdist
from sklearn.linear_model import LinearRegression
from sklearn.manifold import trustworthiness as sklearn_trustworthiness
from sklearn.metrics import accuracy_score, adjusted_rand_score, normalized_mutual_info_score

import reference_metrics as loops
from isoweave import metrics
from isoweave.datasets import flat_torus, swiss_roll
from isoweave.graph import graph_from_matrix, subgraph
from isoweave.metrics import global_stress, kendall, pearson, procrustes_error, spearman, trustworthiness
from reference_graphs import complete_of, edges_of, graph_of, knn_of, permuted

GLOBAL = [global_stress, pearson, spearman, kendall]
LOCAL = (metrics.local_distance, metrics.local_angle, metrics.local_metric)
PAIR = sp.csr_array([[0.0, 1.0], [1.0, 0.0]])
TRUTH = ("parameter_error", "procrustes_error", "accuracy", "nmi", "ari")
ALWAYS = ["n_neighbors", "n_rows", *(name for name in metrics.METRIC_MEANINGS if name not in TRUTH)]


@pytest.fixture(scope="module")
def roll():
    data = swiss_roll(150, random_state=41)
    return knn_of(data.data, 6), data


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
    d, e = loops.pairs_loop(floyd_warshall(graph.to_matrix()), y)
    assert global_stress(graph, y) == pytest.approx(np.sqrt(np.sum((e - d) ** 2) / np.sum(d**2)), rel=1e-12)
    assert pearson(graph, y) == pytest.approx(scipy.stats.pearsonr(d, e).statistic, rel=1e-10)
    assert spearman(graph, y) == pytest.approx(scipy.stats.spearmanr(d, e).statistic, rel=1e-10)
    assert kendall(graph, y) == pytest.approx(scipy.stats.kendalltau(d, e).statistic, rel=1e-12)


@pytest.mark.parametrize("metric", GLOBAL)
def test_references_agree_and_samples_are_close(metric, torus):
    graph, y = torus
    rows = metrics.geodesic_rows(graph)
    full = metric(graph, y)
    assert metric(rows, y) == metric(rows.distances, y) == full
    first, again, other = (metrics.geodesic_rows(graph, n_rows=30, random_state=r) for r in (11, 11, 12))
    assert full != metric(first, y) == pytest.approx(full, abs=0.08)
    assert metric(again, y) == metric(first, y) != metric(other, y)
    fixed = [metric(metrics.geodesic_rows(graph, n_rows=30), y) for _ in range(2)]
    assert fixed[0] == fixed[1]  # None is a fixed seed
    # Correlations of constants, and anything of no pairs.
    assert np.isnan(metric(sp.csr_array((3, 3)), np.arange(3.0)))
    assert metric is global_stress or np.isnan(metric(graph, np.zeros((90, 2))))


def test_sampled_pairs_are_listed_once_and_blocks_do_not_matter(torus, monkeypatch):
    graph, y = torus
    rows, distances = np.array([2, 5, 40]), floyd_warshall(graph.to_matrix())
    d, _ = metrics.distance_pairs(metrics.GeodesicRows(rows, distances[rows]), y)
    expected = [distances[i, j] for i in rows for j in range(90) if i != j and not (j in rows and j > i)]
    np.testing.assert_allclose(np.sort(d), np.sort(expected), rtol=1e-12)
    scores = lambda: [m(graph, y) for m in GLOBAL] + [trustworthiness(graph, y, n_neighbors=5)]  # noqa: E731
    expected = scores()
    monkeypatch.setattr(metrics._global, "_BLOCK_ENTRIES", 90 * 7)
    np.testing.assert_allclose(scores(), expected, rtol=1e-12)
    monkeypatch.setattr(metrics._global, "_KENDALL_PAIRS", 2000)
    # Stated standard error at most sqrt(2 / pairs) = 0.032.
    assert expected[3] != kendall(graph, y) == pytest.approx(expected[3], abs=0.1)


def test_known_values():
    sizes = (7, 5000, 5001, 100_000, 10_000_000)
    assert [metrics.default_n_rows(n) for n in sizes] == [7, 5000, 500, 250, 50]
    line = graph_of([(i, i + 1, 1.0) for i in range(3)], 4)
    found = [metric(line, 1.5 * np.arange(4.0)) for metric in GLOBAL]
    assert found == pytest.approx([0.5, 1.0, 1.0, 1.0])
    # Without the explicit zero the graph would fall apart.
    graph = graph_of([(0, 1, 1.0), (1, 2, 0.0), (2, 3, 1.0)], 4)
    assert metrics.geodesic_rows(graph.to_matrix()).distances[0].tolist() == [0.0, 1.0, 1.0, 2.0]
    # A right angle drawn straight; the third side measured only through the corner, which reads 180 degrees.
    graph = graph_of([(0, 1, 1.0), (1, 2, 1.0)], 3)
    corner = np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]])
    assert metrics.local_angle(graph, corner) == pytest.approx(90.0)
    assert metrics.local_distance(graph, 2.0 * corner) == pytest.approx(1.0)
    # G = [[1, -1], [-1, 1]] at the middle against the identity; the ends have 1 x 1 matrices without error.
    assert metrics.local_metric(graph, corner) == pytest.approx(np.sqrt((2.0 / 4.0) / 3.0))
    # Negligible edges do not count.
    graph = graph_of([(0, 1, 1.0), (1, 2, 2.0), (2, 3, 1e-12), (3, 4, 0.0)], 5)
    assert metrics.local_distance(graph, np.array([0.0, 1.0, 2.0, 9.0, 20.0])) == pytest.approx(0.25)
    empty = sp.csr_array((4, 4))
    assert np.isnan([metric(empty, np.eye(4)) for metric in LOCAL]).all()
    assert np.isnan(metrics.local_angle(PAIR, np.zeros((2, 1))))
    assert metrics.neighborhood_scores(empty, np.eye(4)).f1 == 0.0
    # Votes: point 0 has one neighbour of its label very near and two of the other label far off.
    y = np.array([0.0, 0.001, 10.0, 10.5, 11.0])
    assert metrics.label_scores([0, 0, 1, 1, 1], y, n_neighbors=2) == (1.0, 1.0, 1.0)
    # A collapsed embedding votes by count.
    collapsed = metrics.label_scores(np.repeat([0, 1], 10), np.zeros((20, 2)), n_neighbors=3)
    assert 0.0 <= collapsed.accuracy <= 1.0
    # Small and broken graphs give numbers or NaN.
    y = np.random.default_rng(43).normal(size=(5, 2))
    scores = metrics.evaluate(complete_of(y), y)
    assert (scores["n_neighbors"], scores["f1"]) == (4, 1.0)
    assert np.isnan(scores["trustworthiness"])
    assert scores["global_stress"] < 1e-12
    apart = metrics.evaluate(sp.csr_array((3, 3)), np.eye(3))
    assert (apart["n_neighbors"], np.isnan(apart["global_stress"])) == (1, True)


@pytest.mark.parametrize("k", [1, 5, 20])
def test_trustworthiness_and_continuity_match_sklearn(torus, k):
    graph, y = torus
    distances = floyd_warshall(graph.to_matrix())
    trust = sklearn_trustworthiness(distances, y, n_neighbors=k, metric="precomputed")
    assert trust < 0.95
    assert trustworthiness(graph, y, n_neighbors=k) == pytest.approx(trust, rel=1e-12)
    # sklearn has no continuity: the roles are exchanged.
    swapped = loops.rank_loop(distances, cdist(y, y), k)
    assert metrics.continuity(graph, y, n_neighbors=k) == pytest.approx(swapped, rel=1e-12)


def test_ranks_within_components(two_parts):
    graph, y = two_parts
    first, second = (subgraph(graph, np.arange(*span)) for span in ((0, 30), (30, 55)))
    parts = [trustworthiness(first, y[:30], n_neighbors=4), trustworthiness(second, y[30:], n_neighbors=4)]
    expected = np.average(parts, weights=[30, 25])
    assert trustworthiness(graph, y, n_neighbors=4) == pytest.approx(expected, rel=1e-12)
    # Only the larger part has more than 2 k = 26 vertices.
    expected = trustworthiness(first, y[:30], n_neighbors=13)
    assert trustworthiness(graph, y, n_neighbors=13) == pytest.approx(expected, rel=1e-12)
    assert np.isnan(metrics.continuity(graph, y, n_neighbors=20))


def random_rotation(n, seed):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(n, n)))[0]


def test_procrustes():
    for dim in (1, 2, 3, 10):
        truth = np.random.default_rng(dim).normal(size=(200, dim)) * np.geomspace(1.0, 30.0, dim)
        for sign in (1.0, -1.0):
            rotation = random_rotation(dim, 30 + dim) * np.r_[sign, np.ones(dim - 1)]
            assert procrustes_error(truth, truth @ rotation + 3.0) < 1e-28
            assert procrustes_error(1e-150 * truth, 1e-150 * truth @ rotation) < 1e-28
    # The classical formula ||T||^2 + ||Y||^2 - 2 sum(s) cannot go below 1e-16.
    truth, noise = np.random.default_rng(31).normal(size=(2, 4000, 3))
    for size in (1e-12, 1e-3):
        moved = truth @ random_rotation(3, 32) + size * noise
        assert procrustes_error(truth, moved) == pytest.approx(size**2, rel=0.05)
    # Scaling is not free; the smaller dimension is padded.
    t, z = (points - points.mean(axis=0) for points in np.random.default_rng(33).normal(size=(2, 60, 2)))
    rotation, _ = scipy.linalg.orthogonal_procrustes(z, t)
    expected = np.sum((z @ rotation - t) ** 2) / np.sum(t**2)
    assert procrustes_error(t + 1.0, z - 1.0) == pytest.approx(expected, rel=1e-12)
    assert procrustes_error(t, 1.5 * t) == pytest.approx(0.25)
    raised = np.column_stack([t, np.zeros(60)]) @ random_rotation(3, 35)
    assert max(procrustes_error(t, raised), procrustes_error(raised, t)) < 1e-28
    assert procrustes_error(t, np.zeros((60, 1))) == pytest.approx(1.0)


def test_parameter_error_is_affine():
    rng = np.random.default_rng(36)
    p = rng.normal(size=(80, 2))
    y = p @ rng.normal(size=(2, 3)) + rng.normal(size=3)
    assert metrics.parameter_error(p, y) < 1e-25
    noisy = y + rng.normal(size=y.shape)
    fit = LinearRegression().fit(noisy, p)
    expected = np.sum((fit.predict(noisy) - p) ** 2) / np.sum((p - p.mean(axis=0)) ** 2)
    assert 0.05 < expected < 0.95
    assert metrics.parameter_error(p, noisy) == pytest.approx(expected, rel=1e-10)
    # Degenerate embeddings: a point, and a line.
    assert metrics.parameter_error(p, np.full((80, 2), 3.7)) == pytest.approx(1.0)
    line = p[:, :1] @ np.array([[1.0, 2.0, 3.0]])
    assert metrics.parameter_error(p[:, 0], line) < 1e-25
    assert metrics.parameter_error(p, line) == pytest.approx(metrics.parameter_error(p, p[:, 0]))


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda g, y: pearson(np.zeros((2, 3)), y), r"shape \(n, n\), got \(2, 3\)"),
        (lambda g, y: pearson(np.array([[0.0, np.nan], [1.0, 0.0]]), y[:2]), r">= 0, got nan at \(0, 1\)"),
        (lambda g, y: global_stress(g, y[:-1]), "expected 90 rows, got 89"),
        (lambda g, y: metrics.geodesic_rows(g, n_rows=91), "n_rows must be an integer from 1 to 90, got 91"),
        (lambda g, y: trustworthiness(g, y, n_neighbors=45), "below n / 2 = 45 .* got 45"),
        (lambda g, y: metrics.parameter_error(np.ones((90, 2)), y), "parameters must not be constant"),
        (lambda g, y: procrustes_error(np.ones((90, 2)), y), "truth must not be constant: all 90 rows"),
        (lambda g, y: metrics.parameter_error(y, y[:-1]), "expected 89 rows, got 90"),
        (lambda g, y: procrustes_error(y, np.nan * y), "must be finite, got .* in row 0"),
        (lambda g, y: metrics.evaluate(g, y + 1e160), r"embedding must not exceed 1e\+150"),
    ],
)
def test_errors(call, match, torus):
    with pytest.raises(ValueError, match=match):
        call(*torus)


def test_equals_the_single_metrics(roll):
    graph, data = roll
    y = data.truth + np.random.default_rng(42).normal(size=data.truth.shape)
    labels = (data.truth[:, 0] > np.median(data.truth[:, 0])).astype(int)
    expected = {"n_neighbors": 6, "n_rows": 150}
    expected |= metrics.neighborhood_scores(graph, y)._asdict()
    expected |= metrics.label_scores(labels, y, n_neighbors=6)._asdict()
    for name in ("trustworthiness", "continuity"):
        expected[name] = getattr(metrics, name)(graph, y, n_neighbors=6)
    for name in TRUTH[:2]:
        expected[name] = getattr(metrics, name)(data.truth, y)
    for name in set(ALWAYS) - set(expected):
        expected[name] = getattr(metrics, name)(graph, y)
    assert metrics.evaluate(graph, y, truth=data.truth, labels=labels) == expected


def test_options_reach_their_metrics_and_renumbering_changes_nothing(roll):
    graph, data = roll
    scores = metrics.evaluate(graph, data.data, n_neighbors=9, n_rows=20, random_state=5, n_jobs=1)
    assert list(scores) == ALWAYS
    f1 = metrics.neighborhood_scores(graph, data.data, n_neighbors=9).f1
    assert [scores[name] for name in ("n_neighbors", "n_rows", "f1")] == [9, 20, f1]
    sample = metrics.geodesic_rows(graph, n_rows=20, random_state=5)
    assert scores["pearson"] == metrics.pearson(sample, data.data)
    true_distances = cdist(data.truth, data.truth)
    known = {"parameters": data.parameters[:, :1], "truth": data.truth}
    other = metrics.evaluate(graph, data.data, geodesics=true_distances, ranks=False, **known)
    assert set(ALWAYS) - set(other) == {"trustworthiness", "continuity", "spearman"}
    assert other["kendall"] == metrics.kendall(true_distances, data.data)
    assert other["local_angle"] == scores["local_angle"]
    assert list(other)[-2:] == ["parameter_error", "procrustes_error"]
    assert other["parameter_error"] == metrics.parameter_error(data.parameters[:, :1], data.data)
    order = np.random.default_rng(44).permutation(150)
    moved = metrics.evaluate(permuted(graph, order), data.data[order], truth=data.truth[order])
    assert moved == pytest.approx(metrics.evaluate(graph, data.data, truth=data.truth), rel=1e-9)


def case(name):
    rng = np.random.default_rng(17)
    torus = flat_torus(50, random_state=4).data
    if name == "disconnected":
        parts = [knn_of(rng.normal(size=(n, 2)), 3).to_matrix() for n in (15, 12)]
        whole = sp.block_diag([*parts, sp.csr_array((1, 1))], format="csr")
        return graph_from_matrix(whole), rng.normal(size=(28, 2))
    y = rng.normal(size=(50, 3 if name == "knn" else 2))
    if name == "non-metric":
        # Edges longer than the path around them: angles must follow the path.
        edges = edges_of(knn_of(torus, 5))
        edges = [(i, j, d * (rng.uniform(1.0, 6.0) if rng.uniform() < 0.3 else 1.0)) for i, j, d in edges]
        return graph_of(edges, 50), y
    if name == "duplicates":
        torus[[7, 20]], y[11] = torus[3], y[12]
    return knn_of(torus, 5), y


@pytest.mark.parametrize("name", ["knn", "non-metric", "duplicates", "disconnected"])
def test_loop_twins(name):
    graph, y = case(name)
    for metric in LOCAL:
        expected = getattr(loops, f"{metric.__name__}_loop")(graph, y)
        assert expected > 0.05
        # Angles near 0 and 180 degrees lose half of the digits in arccos.
        assert metric(graph, y) == pytest.approx(expected, rel=1e-8)
    y[11] += 1e-3  # ties have no right answer
    for k in (3, None):
        expected = loops.neighborhood_loop(graph, y, k or max(1, graph.degrees.min()))
        assert metrics.neighborhood_scores(graph, y, n_neighbors=k) == pytest.approx(expected)


def test_exact_on_complete_flat_graph():
    """Lengths and Gram matrices see the scale, angles and neighbours do not."""
    y = np.random.default_rng(5).normal(size=(9, 3))
    graph, moved = complete_of(y), y @ random_rotation(3, 6) + 4.0
    for scale, errors in ((1.0, (0.0, 0.0, 0.0)), (1.5, (0.5, 0.0, 1.25))):
        # Degrees: arccos loses half of the digits.
        assert [metric(graph, scale * moved) for metric in LOCAL] == pytest.approx(errors, abs=1e-5)
        assert metrics.neighborhood_scores(graph, scale * moved) == (1.0, 1.0, 1.0)


def test_threads_and_graph_formats_agree():
    torus = flat_torus(900, random_state=9).data
    graph = knn_of(torus, 8)
    for metric in (metrics.local_angle, metrics.local_metric):
        assert metric(graph, torus[:, :3], n_jobs=1) == metric(graph, torus[:, :3], n_jobs=3)
    graph, y = case("duplicates")
    matrix = graph.to_matrix()
    # An edge stored in one direction counts in both, as in embed_graph.
    i, j, lengths = (np.array(part) for part in zip(*edges_of(graph), strict=True))
    upper = sp.coo_array((lengths, (i, j)), shape=matrix.shape)
    for score in (metrics.local_metric, metrics.local_distance, metrics.neighborhood_scores):
        for other in (matrix, matrix.tocsc(), sp.csr_matrix(matrix), upper):
            assert score(other, y) == score(graph, y)


@pytest.mark.parametrize("k", [1, 4, 12])
def test_vote_twin(k):
    rng = np.random.default_rng(38)
    labels = rng.integers(0, 4, size=90)
    y = rng.normal(size=(90, 3)) + 1.2 * labels[:, None]
    measures = (accuracy_score, normalized_mutual_info_score, adjusted_rand_score)
    expected = tuple(measure(labels, loops.vote_loop(labels, y, k)) for measure in measures)
    assert 0.3 < expected[0] < 0.95
    assert metrics.label_scores(labels, y, n_neighbors=k) == pytest.approx(expected, rel=1e-12)
    named = metrics.label_scores(np.array(["b", "a", "d", "c"])[labels], y, n_neighbors=k)
    assert named == pytest.approx(expected, abs=0.03)  # ties may differ


LOCAL_ERRORS = [
    # What makes a graph is checked by the room of graphs.
    (np.eye(3), np.zeros((3, 2)), 1, TypeError, "scipy sparse matrix of distances, got ndarray"),
    (PAIR, np.zeros((3, 2)), 1, ValueError, "expected 2 rows, got 3"),
    (PAIR, np.zeros((2, 2, 2)), 1, ValueError, r"shape \(n, N\), got shape \(2, 2, 2\)"),
    (PAIR, np.zeros((2, 0)), 1, ValueError, r"got shape \(2, 0\)"),
    (PAIR, np.array([["a"], ["b"]]), 1, ValueError, "dtype <U1"),
    (PAIR, np.array([[0.0], [np.inf]]), 1, ValueError, r"got \[inf\] in row 1 and 0 more"),
    (PAIR, np.zeros((2, 1)), 2, ValueError, "n_neighbors must be"),
    (PAIR, np.zeros((2, 1)), 1.5, TypeError, "n_neighbors must be"),
    # Labels in place of a graph.
    ([0, 1, 2], np.eye(4), 2, ValueError, r"shape \(4,\), one per vertex, got \(3,\)"),
    ([0.0, np.nan, 1.0, 2.0], np.eye(4), 2, ValueError, "labels must be known, got nan at 1"),
    ([0, 1, 2, 3], np.eye(4), 4, ValueError, "from 1 to 3, got 4"),
]


@pytest.mark.parametrize(("graph", "embedding", "k", "error", "match"), LOCAL_ERRORS)
def test_local_errors(graph, embedding, k, error, match):
    score = metrics.label_scores if isinstance(graph, list) else metrics.neighborhood_scores
    with pytest.raises(error, match=match):
        score(graph, embedding, n_neighbors=k)
