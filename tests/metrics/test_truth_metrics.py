from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
from sklearn.linear_model import LinearRegression
from sklearn.metrics import accuracy_score, adjusted_rand_score, normalized_mutual_info_score

from isoweave.metrics import label_scores, parameter_error, procrustes_error
from reference_metrics import vote_loop


def _rotation(n, seed):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(n, n)))[0]


@pytest.mark.parametrize("dim", range(1, 11))
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_procrustes_sees_through_rigid_motions(dim, sign):
    truth = np.random.default_rng(dim).normal(size=(200, dim)) * np.geomspace(1.0, 30.0, dim)
    rotation = _rotation(dim, 30 + dim)
    rotation[:, 0] *= sign
    assert procrustes_error(truth, truth @ rotation + 3.0) < 1e-28
    assert procrustes_error(1e-150 * truth, 1e-150 * truth @ rotation) < 1e-28


@pytest.mark.parametrize("size", [1e-12, 1e-9, 1e-3])
def test_procrustes_of_known_perturbations(size):
    # The classical formula ||T||^2 + ||Y||^2 - 2 sum(s) cannot go below 1e-16.
    rng = np.random.default_rng(31)
    truth = rng.normal(size=(4000, 3))
    moved = truth @ _rotation(3, 32) + size * rng.normal(size=(4000, 3))
    assert procrustes_error(truth, moved) == pytest.approx(size**2, rel=0.05)


def test_procrustes_against_scipy():
    rng = np.random.default_rng(33)
    truth, y = rng.normal(size=(50, 3)), rng.normal(size=(50, 3))
    t, z = truth - truth.mean(axis=0), y - y.mean(axis=0)
    rotation, _ = scipy.linalg.orthogonal_procrustes(z, t)
    expected = np.sum((z @ rotation - t) ** 2) / np.sum(t**2)
    assert procrustes_error(truth, y) == pytest.approx(expected, rel=1e-12)


def test_procrustes_has_no_scale_and_pads():
    truth = np.random.default_rng(34).normal(size=(60, 2))
    assert procrustes_error(truth, 1.5 * truth) == pytest.approx(0.25)
    raised = np.column_stack([truth, np.zeros(60)]) @ _rotation(3, 35)
    assert procrustes_error(truth, raised) < 1e-28
    assert procrustes_error(raised, truth) < 1e-28
    assert procrustes_error(truth, np.zeros((60, 1))) == pytest.approx(1.0)


def test_parameter_error_is_affine():
    rng = np.random.default_rng(36)
    p = rng.normal(size=(80, 2))
    y = p @ rng.normal(size=(2, 3)) + rng.normal(size=3)
    assert parameter_error(p, y) < 1e-25
    noisy = y + rng.normal(size=y.shape)
    fit = LinearRegression().fit(noisy, p)
    expected = np.sum((fit.predict(noisy) - p) ** 2) / np.sum((p - p.mean(axis=0)) ** 2)
    assert 0.05 < expected < 0.95
    assert parameter_error(p, noisy) == pytest.approx(expected, rel=1e-10)


def test_parameter_error_of_degenerate_embeddings():
    rng = np.random.default_rng(37)
    p = rng.normal(size=(40, 2))
    assert parameter_error(p, np.full((40, 2), 3.7)) == pytest.approx(1.0)
    line = p[:, :1] @ np.array([[1.0, 2.0, 3.0]])  # rank 1
    assert parameter_error(p[:, 0], line) < 1e-25
    assert parameter_error(p, line) == pytest.approx(parameter_error(p, p[:, 0]))


@pytest.mark.parametrize("metric", [parameter_error, procrustes_error])
@pytest.mark.parametrize(
    ("truth", "embedding", "match"),
    [
        (np.ones((5, 2)), np.eye(5), "must not be constant: all 5 rows are equal"),
        (np.eye(5), np.eye(4), "expected 4 rows, got 5"),
        (np.eye(5), np.diag([1.0, 2.0, np.nan, 4.0, 5.0]), "must be finite, got .* in row 2"),
    ],
)
def test_alignment_errors(metric, truth, embedding, match):
    with pytest.raises(ValueError, match=match):
        metric(truth, embedding)


@pytest.mark.parametrize("k", [1, 4, 12])
def test_vote_twin(k):
    rng = np.random.default_rng(38)
    labels = rng.integers(0, 4, size=90)
    y = rng.normal(size=(90, 3)) + 1.2 * labels[:, None]
    voted = vote_loop(labels, y, k)
    expected = (
        accuracy_score(labels, voted),
        normalized_mutual_info_score(labels, voted),
        adjusted_rand_score(labels, voted),
    )
    assert 0.3 < expected[0] < 0.95
    assert label_scores(labels, y, n_neighbors=k) == pytest.approx(expected, rel=1e-12)
    names = np.array(["b", "a", "d", "c"])[labels]
    assert label_scores(names, y, n_neighbors=k) == pytest.approx(expected, abs=0.03)  # ties may differ


def test_nearer_neighbors_weigh_more():
    # Point 0 has one neighbour of its label very near and two of the other label far off.
    y = np.array([0.0, 0.001, 10.0, 10.5, 11.0])
    labels = np.array([0, 0, 1, 1, 1])
    assert label_scores(labels, y, n_neighbors=2) == (1.0, 1.0, 1.0)


def test_collapsed_embedding_votes_by_count():
    labels = np.repeat([0, 1], 10)
    assert 0.0 <= label_scores(labels, np.zeros((20, 2)), n_neighbors=3).accuracy <= 1.0


@pytest.mark.parametrize(
    ("labels", "k", "match"),
    [
        ([0, 1, 2], 2, r"shape \(4,\), one per vertex, got \(3,\)"),
        ([0.0, np.nan, 1.0, 2.0], 2, "labels must be known, got nan at 1"),
        ([0, 1, 2, 3], 4, "from 1 to 3, got 4"),
    ],
)
def test_label_errors(labels, k, match):
    with pytest.raises(ValueError, match=match):
        label_scores(labels, np.eye(4), n_neighbors=k)
