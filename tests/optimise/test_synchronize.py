"""Transitions between frames, the connection Laplacian and its lowest eigenvectors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from isoweave._parallel import ThreadTeam, thread_team
from isoweave.energy import edge_inner_product
from isoweave.engines.transitions import frame_transitions
from isoweave.geometry import calibrate_frames, local_frames
from isoweave.linalg import lowest_eigenvectors
from isoweave.metrics import procrustes_error
from isoweave.optimise import (
    build_problem,
    connection_laplacian,
    find_landmarks,
    synchronized_alignments,
    synchronized_start,
)
from reference_graphs import (
    dumbbell,
    edges_of,
    graph_of,
    knn_of,
    path_graph,
    random_sparse,
    row_of,
    with_hubs,
)
from reference_problems import exact_frames
from reference_starts import connection_loop, transition_loop

TEAM = ThreadTeam(1)


def case(name, n_components):
    rng = np.random.default_rng(439 + n_components)
    points = rng.normal(size=(40, n_components + 1))
    graph = {
        "knn": lambda: knn_of(points, 2 * n_components + 4),
        "sparse": lambda: random_sparse(40, 30, rng),
        "hub": lambda: with_hubs(points, 2 * n_components + 4, [3], rng),
    }[name]()
    frames = local_frames(graph, n_components, team=TEAM, frame_size=6)
    if name == "hub":
        # Leave out rows of the hub, as large ones do.
        included = frames.included & ~((graph.sources == 3) & (graph.indices % 2 == 0))
        rows = np.where(included[:, None], frames.rows, 0.0)
        frames = replace(frames, included=included, rows=rows)
    return graph, frames


@pytest.mark.parametrize("name", ["knn", "sparse", "hub"])
@pytest.mark.parametrize("n_components", [1, 2, 3])
def test_transitions_agree_with_the_loop(name, n_components):
    graph, frames = case(name, n_components)
    m = len(graph.indices)
    transitions, weights = np.full((m, n_components, n_components), np.nan), np.full(m, np.nan)
    frame_transitions(0, 40, graph.indptr, graph.indices, frames.rows, frames.included, transitions, weights)
    squares = (transitions @ transitions.transpose(0, 2, 1))[weights != 1e-3]
    assert len(squares) > m // 4 or name == "sparse"
    np.testing.assert_allclose(squares, np.broadcast_to(np.eye(n_components), squares.shape), atol=1e-12)
    assert np.linalg.norm(transitions, ord=2, axis=(1, 2)).max() <= 1.0 + 1e-12
    for i in range(40):
        for e, j, _ in row_of(graph, i):
            expected, weight = transition_loop(graph, frames, i, j)
            assert weights[e] == pytest.approx(weight, rel=1e-9, abs=1e-12)
            if _spans(graph, frames, i, j):
                np.testing.assert_allclose(transitions[e], expected, atol=1e-8)
    assert (weights >= 0.0).all()
    assert (weights <= 1.0 + 1e-12).all()


def _spans(graph, frames, i, j):
    """Whether the vertices that i and j both see span the space: only then is the map between them unique."""

    def seen(v):
        rows = {w: frames.rows[e] for e, w, _ in row_of(graph, v) if frames.included[e]}
        return rows | {v: np.zeros(frames.n_components)}

    at_i, at_j = seen(i), seen(j)
    common = sorted(set(at_i) & set(at_j))
    x, y = (np.array([at[v] for v in common]) for at in (at_i, at_j))
    values = np.linalg.svd((x - x.mean(axis=0)).T @ (y - y.mean(axis=0)), compute_uv=False)
    return len(common) > frames.n_components and values[-1] > 1e-6 * values[0]


@pytest.mark.parametrize("name", ["knn", "hub"])
@pytest.mark.parametrize("n_components", [1, 2, 3])
def test_connection_laplacian_agrees_with_the_loop(name, n_components):
    graph, frames = case(name, n_components)
    found = connection_laplacian(graph, frames, TEAM).toarray()
    expected = connection_loop(graph, frames)
    for i, j, _ in edges_of(graph):
        if not (_spans(graph, frames, i, j) and _spans(graph, frames, j, i)):
            # Any of several maps will do; its weight says how little it counts.
            here, there = (slice(v * n_components, (v + 1) * n_components) for v in (i, j))
            assert np.linalg.norm(found[here, there], 2) <= 1.0
            for matrix in (found, expected):
                matrix[here, there] = matrix[there, here] = 0.0
    np.testing.assert_allclose(found, expected, atol=1e-8)
    found = connection_laplacian(graph, frames, TEAM).toarray()
    np.testing.assert_allclose(found, found.T, atol=1e-12)
    assert np.linalg.eigvalsh(found)[0] > -1e-10


@pytest.mark.parametrize("n_components", [1, 2, 3, 4])
def test_flat_data_have_an_n_fold_zero_and_all_copies_are_found(n_components):
    rng = np.random.default_rng(443 + n_components)
    points = rng.uniform(size=(120, n_components))
    graph = knn_of(points, 8 * n_components + 12)
    # The ends of every edge see enough common vertices to fix the map between their frames.
    around = [{i, *(v for _, v, _ in row_of(graph, i))} for i in range(120)]
    assert min(len(around[i] & around[j]) for i, j, _ in edges_of(graph)) > n_components
    frames, turns = exact_frames(graph, points, rng)
    laplacian = connection_laplacian(graph, frames, TEAM)
    values = np.linalg.eigvalsh(laplacian.toarray())
    assert np.abs(values[:n_components]).max() < 1e-10
    assert values[n_components] > 1e-3
    found, vectors = lowest_eigenvectors(laplacian, n_components)
    np.testing.assert_allclose(found, 0.0, atol=1e-9)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(n_components), atol=1e-10)
    np.testing.assert_allclose(laplacian @ vectors, 0.0, atol=1e-6)
    # The kernel is the turns themselves: Q_i = R_i, up to one common map.
    kernel = turns.reshape(-1, n_components) / np.sqrt(120)
    np.testing.assert_allclose(kernel.T @ kernel, np.eye(n_components), atol=1e-10)
    np.testing.assert_allclose(np.linalg.svd(kernel.T @ vectors, compute_uv=False), 1.0, atol=1e-8)
    alignments = synchronized_alignments(graph, frames, TEAM)
    common = turns.transpose(0, 2, 1) @ alignments
    np.testing.assert_allclose(common, np.tile(common[0], (120, 1, 1)), atol=1e-6)


@pytest.mark.parametrize(
    "values",
    [
        np.r_[0.0, 0.0, 0.0, np.linspace(1.0, 5.0, 47)],
        np.r_[0.1, 0.1, 0.1, 0.1, np.linspace(1.0, 5.0, 46)],
        np.r_[1e-6, 2e-6, 0.5, np.linspace(1.0, 5.0, 47)],
        np.full(50, 2.0),
    ],
)
def test_lowest_eigenvectors_against_lapack(values):
    q, _ = np.linalg.qr(np.random.default_rng(449).normal(size=(50, 50)))
    matrix = sp.csr_array((q * values) @ q.T)
    found, vectors = lowest_eigenvectors(matrix, 3)
    np.testing.assert_allclose(found, np.sort(values)[:3], atol=1e-5)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(3), atol=1e-10)
    np.testing.assert_allclose(matrix @ vectors, vectors * found, atol=1e-5)


def test_more_eigenvectors_wanted_than_there_are():
    values, vectors = lowest_eigenvectors(sp.csr_array(np.diag([3.0, 1.0])), 2)
    np.testing.assert_allclose(values, [1.0, 3.0], atol=1e-6)
    assert vectors.shape == (2, 2)


def test_synchronised_start_of_a_bent_region():
    """A C-shaped region, around which shortest paths must walk: landmarks bend it, rotations do not."""
    points = np.random.default_rng(457).uniform(-1.0, 1.0, size=(900, 2))
    points = points[~((np.abs(points[:, 1]) < 0.6) & (points[:, 0] > -0.5))]
    graph = knn_of(points, 10)
    start = synchronized_start(graph, 2, team=TEAM, tol=0.03)
    assert procrustes_error(points, start) < 0.02
    assert procrustes_error(points, find_landmarks(graph, 2).start) > 0.05


@pytest.mark.parametrize("n_components", [1, 3])
def test_synchronised_start_of_a_cube(n_components):
    rng = np.random.default_rng(458)
    points = rng.uniform(size=(600, n_components))
    if n_components == 1:
        points = np.arange(600.0)[:, None] + 0.8 * points
    start = synchronized_start(knn_of(points, 12), n_components, team=TEAM, tol=0.03)
    assert procrustes_error(points, start) < (0.02 if n_components > 1 else 1e-10)


def test_dumbbell_keeps_its_handle():
    """Vertices of the two ends are no geodesic neighbours; the start joins them all the same."""
    points, graph = dumbbell(40, 6, 15.0, np.random.default_rng(461))
    start = synchronized_start(graph, 2, team=TEAM, tol=0.03)
    apart = np.linalg.norm(start[:40].mean(axis=0) - start[40:].mean(axis=0))
    true = np.linalg.norm(points[:40].mean(axis=0) - points[40:].mean(axis=0))
    assert apart == pytest.approx(true, rel=0.3)


@pytest.mark.parametrize("n_components", [1, 2, 3])
@pytest.mark.parametrize("graph", [path_graph(6), graph_of([(0, 1, 1.0)], 2), knn_of(np.eye(8), 3)])
def test_degenerate_graphs_are_finite(graph, n_components):
    frames = calibrate_frames(graph, local_frames(graph, n_components, team=TEAM))
    alignments = synchronized_alignments(graph, frames, TEAM)
    eye = np.tile(np.eye(n_components), (graph.n_vertices, 1, 1))
    np.testing.assert_allclose(alignments @ alignments.transpose(0, 2, 1), eye, atol=1e-10)
    problem = build_problem(graph, frames, edge_inner_product(graph, frames), team=TEAM)
    assert np.isfinite(problem.integrate(alignments)).all()


def test_threads_do_not_change_the_bits():
    graph = knn_of(np.random.default_rng(463).normal(size=(600, 2)), 6)
    frames = local_frames(graph, 2, team=TEAM)
    with thread_team(2) as team:
        together = connection_laplacian(graph, frames, team)
    assert (together != connection_laplacian(graph, frames, TEAM)).nnz == 0
