from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import reference_metrics as loops
from isoweave.datasets import flat_torus, s_curve
from isoweave.graph import graph_from_matrix
from isoweave.metrics import local_angle, local_distance, local_metric, neighborhood_scores
from reference_graphs import complete_of, edges_of, graph_of, knn_of

LOCAL = (local_distance, local_angle, local_metric)
PAIR = sp.csr_array([[0.0, 1.0], [1.0, 0.0]])


def case(name):
    rng = np.random.default_rng(17)
    if name == "knn":
        return knn_of(flat_torus(60, random_state=3).data, 5), rng.normal(size=(60, 3))
    if name == "non-metric":
        # Edges longer than the path around them: angles must follow the path.
        edges = edges_of(knn_of(flat_torus(50, random_state=4).data, 5))
        edges = [(i, j, d * (rng.uniform(1.0, 6.0) if rng.uniform() < 0.3 else 1.0)) for i, j, d in edges]
        return graph_of(edges, 50), rng.normal(size=(50, 2))
    if name == "duplicates":
        points = flat_torus(40, random_state=5).data
        points[[7, 20]] = points[3]
        y = rng.normal(size=(40, 2))
        y[11] = y[12]
        graph = knn_of(points, 4)
        assert graph.lengths.min() == 0.0
        return graph, y
    assert name == "disconnected"
    parts = [knn_of(rng.normal(size=(n, 2)), 3).to_matrix() for n in (15, 12)]
    whole = sp.block_diag([*parts, sp.csr_array((1, 1))], format="csr")
    return graph_from_matrix(whole), rng.normal(size=(28, 2))


CASES = ("knn", "non-metric", "duplicates", "disconnected")


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("metric", LOCAL)
def test_loop_twins(name, metric):
    graph, y = case(name)
    expected = getattr(loops, f"{metric.__name__}_loop")(graph, y)
    assert expected > 0.05
    # Angles near 0 and 180 degrees lose half of the digits in arccos.
    assert metric(graph, y) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("k", [3, None])
def test_neighborhood_twin(name, k):
    graph, y = case(name)
    y[11] += 1e-3  # ties have no right answer
    used = k or max(1, graph.degrees.min())
    expected = loops.neighborhood_loop(graph, y, used)
    assert neighborhood_scores(graph, y, n_neighbors=k) == pytest.approx(expected)


def test_exact_on_complete_flat_graph():
    y = np.random.default_rng(5).normal(size=(9, 3))
    graph = complete_of(y)
    moved = y @ np.linalg.qr(np.random.default_rng(6).normal(size=(3, 3)))[0] + 4.0
    assert local_distance(graph, moved) < 1e-14
    assert local_metric(graph, moved) < 1e-14
    assert local_angle(graph, moved) < 1e-5  # degrees; arccos loses half of the digits
    assert neighborhood_scores(graph, moved) == (1.0, 1.0, 1.0)


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


def test_scale_of_embedding_shows():
    curve = s_curve(300, random_state=8)
    graph = knn_of(curve.data, 8)
    small, large = local_distance(graph, curve.truth), local_distance(graph, 1.5 * curve.truth)
    assert small < 0.1 < 0.4 < large
    assert local_metric(graph, curve.truth) < 0.3 < 1.0 < local_metric(graph, 1.5 * curve.truth)
    # Angles and neighbours do not see it.
    assert local_angle(graph, 1.5 * curve.truth) == pytest.approx(local_angle(graph, curve.truth))
    assert neighborhood_scores(graph, 1.5 * curve.truth) == neighborhood_scores(graph, curve.truth)


@pytest.mark.parametrize("metric", [local_angle, local_metric])
def test_threads_give_the_same_bits(metric):
    graph = knn_of(flat_torus(900, random_state=9).data, 8)
    y = np.random.default_rng(10).normal(size=(900, 3))
    assert metric(graph, y, n_jobs=1) == metric(graph, y, n_jobs=3)


def test_nothing_to_compare_is_nan():
    empty, y = sp.csr_array((4, 4)), np.eye(4)
    assert np.isnan([metric(empty, y) for metric in LOCAL]).all()
    assert neighborhood_scores(empty, y).f1 == 0.0


def test_graph_formats_agree():
    graph, y = case("duplicates")
    matrix = graph.to_matrix()
    expected = local_metric(graph, y), local_distance(graph, y), neighborhood_scores(graph, y)
    upper = matrix.tocoo()
    once = upper.row < upper.col
    # An edge stored in one direction counts in both, as in embed_graph.
    upper = sp.coo_array((upper.data[once], (upper.row[once], upper.col[once])), shape=upper.shape)
    for other in (matrix, matrix.tocoo(), matrix.tocsc(), sp.csr_matrix(matrix), upper):
        assert (local_metric(other, y), local_distance(other, y), neighborhood_scores(other, y)) == expected


@pytest.mark.parametrize(
    ("graph", "error", "match"),
    [
        (np.eye(3), TypeError, "scipy sparse matrix of distances, got ndarray"),
        (sp.csr_array((3, 4)), ValueError, r"square matrix, got shape \(3, 4\)"),
        (sp.csr_array([[0, 1j], [1j, 0]]), ValueError, "dtype complex128; distances must be real"),
        (sp.csr_array([[0.0, -1.0], [-1.0, 0.0]]), ValueError, r"Entry \(0, 1\) is -1.0: negative"),
        (sp.csr_array([[0.0, np.nan], [np.nan, 0.0]]), ValueError, r"Entry \(0, 1\) is nan"),
        (sp.csr_array([[0.0, 1.0], [1.1, 0.0]]), ValueError, "distances of one edge disagree"),
    ],
)
def test_bad_graphs(graph, error, match):
    with pytest.raises(error, match=match):
        local_distance(graph, np.zeros((3, 2)))


@pytest.mark.parametrize(
    ("embedding", "match"),
    [
        (np.zeros((3, 2)), "expected 2 rows, got 3"),
        (np.zeros((2, 2, 2)), r"shape \(n, N\), got shape \(2, 2, 2\)"),
        (np.zeros((2, 0)), r"got shape \(2, 0\)"),
        (np.array([["a"], ["b"]]), "dtype <U1"),
        (np.array([[0.0], [np.inf]]), r"got \[inf\] in row 1 and 0 more"),
    ],
)
def test_bad_embeddings(embedding, match):
    with pytest.raises(ValueError, match=match):
        local_distance(PAIR, embedding)


@pytest.mark.parametrize(
    ("k", "error"), [(0, ValueError), (2, ValueError), (1.5, TypeError), (True, TypeError)]
)
def test_bad_n_neighbors(k, error):
    with pytest.raises(error, match="n_neighbors must be"):
        neighborhood_scores(PAIR, np.zeros((2, 1)), n_neighbors=k)
