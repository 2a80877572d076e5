"""Measures of the openproblems board against their definitions, and UMAP's own radii."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from scipy.stats import pearsonr, spearmanr

from isoweave.metrics import BOARD_MEANINGS, _board, board_scores

N, K = 130, 30
RNG = np.random.default_rng(17)
X = RNG.normal(size=(N, 6)) + 3.0 * RNG.integers(0, 3, size=(N, 1))
Y = X[:, :2] + 0.7 * RNG.normal(size=(N, 2))
LABELS = RNG.integers(0, 4, N)


@pytest.fixture(scope="module")
def scores():
    return board_scores(X, Y, labels=LABELS)


def centroids(points):
    return np.array([points[label == LABELS].mean(axis=0) for label in range(4)])


def coranking(x, y):
    """The matrix itself: entry (k, l) counts pairs of rank k in the data and l in the map."""
    found = np.zeros((len(x) - 1, len(x) - 1), dtype=int)
    for i in range(len(x)):
        ranks = []
        for points in (x, y):
            others = [j for j in range(len(x)) if j != i]
            near = sorted(others, key=lambda j: np.linalg.norm(points[i] - points[j]))
            ranks.append({j: r for r, j in enumerate(near)})
        for j in ranks[0]:
            found[ranks[0][j], ranks[1][j]] += 1
    return found


def test_correlations_of_distances(scores):
    pairs = {
        "waypoint": (cdist(X, X), cdist(Y, Y)),
        "centroid": (cdist(X, centroids(X)), cdist(Y, centroids(Y))),
        "label": (cdist(centroids(X), centroids(X)), cdist(centroids(Y), centroids(Y))),
    }
    for name, (high, low) in pairs.items():
        expected = spearmanr(high, low, axis=None).statistic
        assert scores[f"{name}_distance_correlation"] == pytest.approx(expected, rel=1e-6)


def test_ranks(scores):
    matrix = coranking(X, Y)
    kept = np.array([matrix[:k, :k].sum() / (k * N) for k in range(1, N)])
    lcmc = kept - np.arange(1, N) / (N - 1)
    best = int(np.argmax(lcmc)) + 1
    far = np.arange(1, N) - K
    worst = N * K * (2 * N - 3 * K - 1)
    expected = {
        "qnx_at_k30": kept[K - 1],
        "lcmc_at_k30": lcmc[K - 1],
        "qnx_auc": kept.mean(),
        "qlocal": kept[:best].mean(),
        "qglobal": kept[best:].mean(),
        "trustworthiness_at_k30": 1 - 2 / worst * (far[K:, None] * matrix[K:, :K]).sum(),
        "continuity_at_k30": 1 - 2 / worst * (far[K:] * matrix[:K, K:]).sum(),
    }
    assert {name: scores[name] for name in expected} == pytest.approx(expected, rel=1e-12)


def radii_loop(points):
    """One neighbourhood at a time; a width so that log2(k) neighbours count, by bisection."""
    distances = cdist(points, points)
    strength, length = np.zeros((N, N)), np.zeros((N, N))
    for i in range(N):
        near = [j for j in np.argsort(distances[i], kind="stable") if j != i][: K - 1]
        d = distances[i, near]
        beyond = np.maximum(d - min(x for x in d if x > 0), 0)
        low, high = 0.0, 1e6
        for _ in range(200):
            middle = (low + high) / 2
            low, high = (low, middle) if np.exp(-beyond / middle).sum() > np.log2(K) else (middle, high)
        strength[i, near], length[i, near] = np.exp(-beyond / middle), d
    both = strength + strength.T - strength * strength.T
    return np.log(1e-8 + (both * np.maximum(length, length.T)).sum(axis=1) / both.sum(axis=1))


def test_density(scores):
    high, low = radii_loop(X), radii_loop(Y)
    assert scores["density_preservation"] == pytest.approx(pearsonr(high, low).statistic, abs=1e-6)
    np.testing.assert_allclose(_board._log_radii(X, None), high, atol=1e-6)


@pytest.mark.slow  # it compiles for long
def test_radii_are_those_of_umap():
    umap = pytest.importorskip("umap.umap_")
    index, distances = (
        np.argsort(cdist(X, X), axis=1, kind="stable")[:, :K],
        np.sort(cdist(X, X), axis=1)[:, :K],
    )
    fuzzy, _, _, lengths = umap.fuzzy_simplicial_set(
        X, K, 0, "euclidean", {}, index, distances.astype(np.float32), return_dists=True
    )
    fuzzy, lengths = fuzzy.toarray(), lengths.toarray()
    expected = np.log(1e-8 + (fuzzy * lengths).sum(axis=1) / fuzzy.sum(axis=1))
    np.testing.assert_allclose(_board._log_radii(X, None), expected, atol=1e-4)


def test_what_is_always_there_and_what_cannot_be(scores, monkeypatch):
    assert list(scores) == list(BOARD_MEANINGS)
    without = board_scores(sp.csr_array(X), Y)
    assert without == pytest.approx({name: scores[name] for name in without}, rel=1e-6)
    assert "label_distance_correlation" not in without
    with monkeypatch.context() as patch:  # blocks do not matter, but for ties of distances
        patch.setattr(_board, "_BLOCK_ENTRIES", 5000)
        by_blocks = board_scores(X, Y, labels=LABELS)
        ties = by_blocks.pop("waypoint_distance_correlation")
        assert ties == pytest.approx(scores["waypoint_distance_correlation"], abs=1e-5)
        assert by_blocks == pytest.approx({name: scores[name] for name in by_blocks}, rel=1e-12)
    few = board_scores(X, Y, labels=LABELS, n_waypoints=60)
    assert few == board_scores(X, Y, labels=LABELS, n_waypoints=60) != scores
    twice = np.concatenate([X, X])
    assert np.isfinite(list(board_scores(twice, twice[:, :2]).values())).all()
    tiny = board_scores(X[:5], Y[:5])
    assert np.isnan(tiny["qnx_at_k30"])
    assert np.isnan(tiny["density_preservation"])
    assert 0 <= tiny["qnx_auc"] <= 1
    perfect = board_scores(X, 5.0 * X + 1.0, labels=LABELS)
    assert perfect == pytest.approx(dict.fromkeys(perfect, 1.0) | {"lcmc_at_k30": 1 - K / (N - 1)}, abs=1e-3)
    with pytest.raises(ValueError, match=r"labels must have shape \(130,\)"):
        board_scores(X, Y, labels=LABELS[:-1])
