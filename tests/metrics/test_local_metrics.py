from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import accuracy_score, adjusted_rand_score, normalized_mutual_info_score

import reference_metrics as loops
from isoweave.datasets import flat_torus
from isoweave.graph import graph_from_matrix
from isoweave.metrics import label_scores, local_angle, local_distance, local_metric, neighborhood_scores
from reference_graphs import complete_of, edges_of, graph_of, knn_of

LOCAL = (local_distance, local_angle, local_metric)
PAIR = sp.csr_array([[0.0, 1.0], [1.0, 0.0]])


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
        assert neighborhood_scores(graph, y, n_neighbors=k) == pytest.approx(expected)


def test_exact_on_complete_flat_graph():
    y = np.random.default_rng(5).normal(size=(9, 3))
    graph = complete_of(y)
    moved = y @ np.linalg.qr(np.random.default_rng(6).normal(size=(3, 3)))[0] + 4.0
    assert local_distance(graph, moved) < 1e-14
    assert local_metric(graph, moved) < 1e-14
    assert local_angle(graph, moved) < 1e-5  # degrees; arccos loses half of the digits
    assert neighborhood_scores(graph, moved) == (1.0, 1.0, 1.0)
    # Lengths and Gram matrices see the scale, angles and neighbours do not.
    assert local_distance(graph, 1.5 * moved) == pytest.approx(0.5)
    assert local_metric(graph, 1.5 * moved) == pytest.approx(1.25)
    assert local_angle(graph, 1.5 * moved) < 1e-5
    assert neighborhood_scores(graph, 1.5 * moved).f1 == 1.0


def test_known_values():
    # A right angle drawn straight; the third side measured only through the corner, which reads 180 degrees.
    graph = graph_of([(0, 1, 1.0), (1, 2, 1.0)], 3)
    corner = np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]])
    assert local_angle(graph, corner) == pytest.approx(90.0)
    assert local_distance(graph, 2.0 * corner) == pytest.approx(1.0)
    # G = [[1, -1], [-1, 1]] at the middle against the identity; the ends have 1 x 1 matrices without error.
    assert local_metric(graph, corner) == pytest.approx(np.sqrt((2.0 / 4.0) / 3.0))
    # Negligible edges do not count.
    graph = graph_of([(0, 1, 1.0), (1, 2, 2.0), (2, 3, 1e-12), (3, 4, 0.0)], 5)
    assert local_distance(graph, np.array([0.0, 1.0, 2.0, 9.0, 20.0])) == pytest.approx(0.25)
    empty = sp.csr_array((4, 4))
    assert np.isnan([metric(empty, np.eye(4)) for metric in LOCAL]).all()
    assert np.isnan(local_angle(PAIR, np.zeros((2, 1))))
    assert neighborhood_scores(empty, np.eye(4)).f1 == 0.0
    # Votes: point 0 has one neighbour of its label very near and two of the other label far off.
    y = np.array([0.0, 0.001, 10.0, 10.5, 11.0])
    assert label_scores([0, 0, 1, 1, 1], y, n_neighbors=2) == (1.0, 1.0, 1.0)
    # A collapsed embedding votes by count.
    assert 0.0 <= label_scores(np.repeat([0, 1], 10), np.zeros((20, 2)), n_neighbors=3).accuracy <= 1.0


def test_threads_and_graph_formats_agree():
    torus = flat_torus(900, random_state=9).data
    graph = knn_of(torus, 8)
    for metric in (local_angle, local_metric):
        assert metric(graph, torus[:, :3], n_jobs=1) == metric(graph, torus[:, :3], n_jobs=3)
    graph, y = case("duplicates")
    matrix = graph.to_matrix()
    # An edge stored in one direction counts in both, as in embed_graph.
    i, j, lengths = (np.array(part) for part in zip(*edges_of(graph), strict=True))
    upper = sp.coo_array((lengths, (i, j)), shape=matrix.shape)
    for score in (local_metric, local_distance, neighborhood_scores):
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
    assert label_scores(labels, y, n_neighbors=k) == pytest.approx(expected, rel=1e-12)
    names = np.array(["b", "a", "d", "c"])[labels]
    assert label_scores(names, y, n_neighbors=k) == pytest.approx(expected, abs=0.03)  # ties may differ


@pytest.mark.parametrize(
    ("graph", "embedding", "k", "error", "match"),
    [
        # What makes a graph is checked by the room of graphs.
        (np.eye(3), np.zeros((3, 2)), 1, TypeError, "scipy sparse matrix of distances, got ndarray"),
        (-PAIR, np.zeros((2, 2)), 1, ValueError, r"Entry \(0, 1\) is -1.0: negative"),
        (PAIR, np.zeros((3, 2)), 1, ValueError, "expected 2 rows, got 3"),
        (PAIR, np.zeros((2, 2, 2)), 1, ValueError, r"shape \(n, N\), got shape \(2, 2, 2\)"),
        (PAIR, np.zeros((2, 0)), 1, ValueError, r"got shape \(2, 0\)"),
        (PAIR, np.array([["a"], ["b"]]), 1, ValueError, "dtype <U1"),
        (PAIR, np.array([[0.0], [np.inf]]), 1, ValueError, r"got \[inf\] in row 1 and 0 more"),
        (PAIR, np.zeros((2, 1)), 0, ValueError, "n_neighbors must be"),
        (PAIR, np.zeros((2, 1)), 2, ValueError, "n_neighbors must be"),
        (PAIR, np.zeros((2, 1)), 1.5, TypeError, "n_neighbors must be"),
        (PAIR, np.zeros((2, 1)), True, TypeError, "n_neighbors must be"),
        # Labels in place of a graph.
        ([0, 1, 2], np.eye(4), 2, ValueError, r"shape \(4,\), one per vertex, got \(3,\)"),
        ([0.0, np.nan, 1.0, 2.0], np.eye(4), 2, ValueError, "labels must be known, got nan at 1"),
        ([0, 1, 2, 3], np.eye(4), 4, ValueError, "from 1 to 3, got 4"),
    ],
)
def test_errors(graph, embedding, k, error, match):
    score = label_scores if isinstance(graph, list) else neighborhood_scores
    with pytest.raises(error, match=match):
        score(graph, embedding, n_neighbors=k)
