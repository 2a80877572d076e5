from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist

from isoweave import metrics
from isoweave.datasets import swiss_roll
from reference_graphs import complete_of, knn_of, permuted

WITHOUT_TRUTH = [
    name
    for name in metrics.METRIC_MEANINGS
    if name not in ("accuracy", "nmi", "ari") and "_error" not in name
]
ALWAYS = ["n_neighbors", "n_rows", *WITHOUT_TRUTH]


@pytest.fixture(scope="module")
def roll():
    data = swiss_roll(150, random_state=41)
    return knn_of(data.data, 6), data


def test_equals_the_single_metrics(roll):
    graph, data = roll
    y = data.truth + np.random.default_rng(42).normal(size=data.truth.shape)
    labels = (data.truth[:, 0] > np.median(data.truth[:, 0])).astype(int)
    scores = metrics.evaluate(graph, y, truth=data.truth, labels=labels)
    assert len(WITHOUT_TRUTH) == 12
    expected = {"n_neighbors": 6, "n_rows": 150}
    expected |= metrics.neighborhood_scores(graph, y)._asdict()
    expected |= metrics.label_scores(labels, y, n_neighbors=6)._asdict()
    for name in ("trustworthiness", "continuity"):
        expected[name] = getattr(metrics, name)(graph, y, n_neighbors=6)
    for name in ("procrustes_error", "parameter_error"):
        expected[name] = getattr(metrics, name)(data.truth, y)
    for name in set(WITHOUT_TRUTH) - set(expected):
        expected[name] = getattr(metrics, name)(graph, y)
    assert scores == expected


def test_keys_follow_what_is_given(roll):
    graph, data = roll
    assert list(metrics.evaluate(graph, data.data)) == ALWAYS
    with_parameters = metrics.evaluate(graph, data.data, parameters=data.parameters)
    assert list(with_parameters) == [*ALWAYS, "parameter_error"]
    both = metrics.evaluate(graph, data.data, parameters=data.parameters[:, :1], truth=data.truth)
    assert list(both) == [*ALWAYS, "parameter_error", "procrustes_error"]
    assert both["parameter_error"] == metrics.parameter_error(data.parameters[:, :1], data.data)


def test_options_reach_their_metrics(roll):
    graph, data = roll
    scores = metrics.evaluate(graph, data.data, n_neighbors=9, n_rows=20, random_state=5, n_jobs=1)
    assert (scores["n_neighbors"], scores["n_rows"]) == (9, 20)
    assert scores["f1"] == metrics.neighborhood_scores(graph, data.data, n_neighbors=9).f1
    assert scores["pearson"] == metrics.pearson(graph, data.data, n_rows=20, random_state=5)
    true_distances = cdist(data.truth, data.truth)
    against_truth = metrics.evaluate(graph, data.data, geodesics=true_distances, ranks=False)
    assert set(ALWAYS) - set(against_truth) == {"trustworthiness", "continuity", "spearman"}
    assert against_truth["kendall"] == metrics.kendall(true_distances, data.data)
    assert against_truth["local_angle"] == scores["local_angle"]


def test_small_and_broken_graphs_give_numbers_or_nan():
    y = np.random.default_rng(43).normal(size=(5, 2))
    scores = metrics.evaluate(complete_of(y), y)
    assert scores["n_neighbors"] == 4
    assert np.isnan(scores["trustworthiness"])
    assert scores["f1"] == 1.0
    assert scores["global_stress"] < 1e-12
    pair = metrics.evaluate(sp.csr_array([[0.0, 2.0], [2.0, 0.0]]), [0.0, 1.0])
    assert pair["local_distance"] == 0.5
    assert np.isnan(pair["local_angle"])
    apart = metrics.evaluate(sp.csr_array((3, 3)), np.eye(3))
    assert apart["n_neighbors"] == 1
    assert np.isnan(apart["global_stress"])


def test_renumbering_changes_nothing(roll):
    graph, data = roll
    order = np.random.default_rng(44).permutation(150)
    moved = metrics.evaluate(permuted(graph, order), data.data[order], truth=data.truth[order])
    expected = metrics.evaluate(graph, data.data, truth=data.truth)
    assert moved == pytest.approx(expected, rel=1e-9)
