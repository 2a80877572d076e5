from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from isoweave.datasets import flat_torus, s_curve
from isoweave.metrics import local_angle, local_distance, local_metric, neighborhood_scores
from isoweave.metrics._inputs import as_graph, as_points
from isoweave.metrics._shape import shape_errors
from reference_metrics import (
    edges_of,
    graph_from_edges,
    knn_graph,
    local_angle_loop,
    local_distance_loop,
    local_metric_loop,
    neighborhood_loop,
)


def _case(name):
    rng = np.random.default_rng(17)
    if name == "knn":
        points = flat_torus(60, random_state=3).data
        return knn_graph(points, 5), rng.normal(size=(60, 3))
    if name == "non-metric":
        # Edges longer than the path around them: angles must follow the path.
        graph = knn_graph(flat_torus(50, random_state=4).data, 5)
        edges = edges_of(graph)
        for (i, j), d in list(edges.items()):
            if i < j and rng.uniform() < 0.3:
                edges[i, j] = edges[j, i] = d * rng.uniform(1.0, 6.0)
        return graph_from_edges(edges, 50), rng.normal(size=(50, 2))
    if name == "duplicates":
        points = flat_torus(40, random_state=5).data
        points[7] = points[3]
        points[20] = points[3]
        y = rng.normal(size=(40, 2))
        y[11] = y[12]
        graph = knn_graph(points, 4)
        assert min(edges_of(graph).values()) == 0.0
        return graph, y
    assert name == "disconnected"
    parts = [knn_graph(rng.normal(size=(n, 2)), 3) for n in (15, 12)]
    return sp.csr_array(sp.block_diag([*parts, sp.csr_array((1, 1))])), rng.normal(size=(28, 2))


CASES = ("knn", "non-metric", "duplicates", "disconnected")
LOOPS = [
    (local_distance, local_distance_loop),
    (local_angle, local_angle_loop),
    (local_metric, local_metric_loop),
]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("metric", "loop"), LOOPS)
def test_loop_twins(case, metric, loop):
    graph, y = _case(case)
    expected = loop(graph, y)
    assert expected > 0.05
    # Angles near 0 and 180 degrees lose half of the digits in arccos.
    assert metric(graph, y) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("k", [3, None])
def test_neighborhood_twin(case, k):
    graph, y = _case(case)
    y[11] += 1e-3  # ties have no right answer
    used = k or max(1, np.diff(graph.indptr).min())
    assert neighborhood_scores(graph, y, n_neighbors=k) == pytest.approx(neighborhood_loop(graph, y, used))


def test_exact_on_complete_flat_graph():
    y = np.random.default_rng(5).normal(size=(9, 3))
    graph = sp.csr_array(np.linalg.norm(y[:, None] - y[None, :], axis=2))
    turned = y @ np.linalg.qr(np.random.default_rng(6).normal(size=(3, 3)))[0] + 4.0
    assert local_distance(graph, turned) < 1e-14
    assert local_metric(graph, turned) < 1e-14
    assert local_angle(graph, turned) < 1e-5  # degrees; arccos loses half of the digits
    assert neighborhood_scores(graph, turned) == (1.0, 1.0, 1.0)


def test_known_values():
    # A right angle drawn straight; the third side measured only through the corner, which reads 180 degrees.
    graph = sp.csr_array(np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]]))
    corner = np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]])
    assert local_angle(graph, corner) == pytest.approx(90.0)
    assert local_distance(graph, 2.0 * corner) == pytest.approx(1.0)
    # G = [[1, -1], [-1, 1]] at the middle against the identity; the ends have 1 x 1 matrices without error.
    assert local_metric(graph, corner) == pytest.approx(np.sqrt((2.0 / 4.0) / 3.0))


def test_scale_of_embedding_shows():
    curve = s_curve(300, random_state=8)
    graph = knn_graph(curve.data, 8)
    small, large = local_distance(graph, curve.truth), local_distance(graph, 1.5 * curve.truth)
    assert small < 0.1 < 0.4 < large
    assert local_metric(graph, curve.truth) < 0.3 < 1.0 < local_metric(graph, 1.5 * curve.truth)
    # Angles and neighbours do not see it.
    assert local_angle(graph, 1.5 * curve.truth) == pytest.approx(local_angle(graph, curve.truth))
    assert neighborhood_scores(graph, 1.5 * curve.truth) == neighborhood_scores(graph, curve.truth)


def test_negligible_edges_do_not_count():
    edges = {(0, 1): 1.0, (1, 2): 2.0, (2, 3): 1e-12, (3, 4): 0.0}
    edges |= {(j, i): d for (i, j), d in edges.items()}
    graph = graph_from_edges(edges, 5)
    assert local_distance(graph, np.array([0.0, 1.0, 2.0, 9.0, 20.0])) == pytest.approx(0.25)


def test_threads_give_the_same_bits():
    graph = as_graph(knn_graph(flat_torus(900, random_state=9).data, 8))
    y = as_points(np.random.default_rng(10).normal(size=(900, 3)), "embedding")
    assert shape_errors(graph, y, n_jobs=1) == shape_errors(graph, y, n_jobs=3)


def test_nothing_to_compare_is_nan():
    empty = sp.csr_array((4, 4))
    y = np.eye(4)
    for metric in (local_distance, local_angle, local_metric):
        assert np.isnan(metric(empty, y))
    assert neighborhood_scores(empty, y).f1 == 0.0


def test_graph_formats_agree():
    graph, y = _case("duplicates")
    expected = local_metric(graph, y), local_distance(graph, y), neighborhood_scores(graph, y)
    for other in (graph.tocoo(), graph.tocsc(), sp.csr_matrix(graph), as_graph(graph)):
        assert (local_metric(other, y), local_distance(other, y), neighborhood_scores(other, y)) == expected
    with_diagonal = sp.csr_array(graph + sp.eye_array(40))
    assert with_diagonal.nnz < graph.nnz + 40  # scipy's sum drops explicit zeros, the reason for our own care
    assert as_graph(sp.coo_array(graph)).n_edges == graph.nnz // 2


@pytest.mark.parametrize(
    ("graph", "error", "match"),
    [
        (np.eye(3), TypeError, "scipy sparse matrix, got ndarray"),
        (sp.csr_array((3, 4)), ValueError, r"square, got shape \(3, 4\)"),
        (sp.csr_array([[0, 1j], [1j, 0]]), ValueError, "real distances, got dtype complex"),
        (sp.csr_array([[0.0, -1.0], [-1.0, 0.0]]), ValueError, r"got -1.0 at \(0, 1\) and 1 more"),
        (sp.csr_array([[0.0, np.nan], [np.nan, 0.0]]), ValueError, r"got nan at \(0, 1\)"),
        (sp.csr_array([[0.0, 1.0], [0.0, 0.0]]), ValueError, "must be symmetric"),
        (sp.csr_array([[0.0, 1.0], [1.1, 0.0]]), ValueError, "must be symmetric"),
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
        local_distance(sp.csr_array([[0.0, 1.0], [1.0, 0.0]]), embedding)


@pytest.mark.parametrize(
    ("k", "error"), [(0, ValueError), (2, ValueError), (1.5, TypeError), (True, TypeError)]
)
def test_bad_n_neighbors(k, error):
    with pytest.raises(error, match="n_neighbors must be"):
        neighborhood_scores(sp.csr_array([[0.0, 1.0], [1.0, 0.0]]), np.zeros((2, 1)), n_neighbors=k)
