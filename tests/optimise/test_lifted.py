"""The lifted start: its matrix and steps against dense twins, mirrored pieces, chains, sparse rolls."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import pdist, squareform

from isoweave import _component, embed_graph
from isoweave.datasets import swiss_roll
from isoweave.graph import graph_from_matrix, knn_graph
from isoweave.linalg import BlockCholesky
from isoweave.metrics import local_distance, procrustes_error
from isoweave.optimise import LiftedFit, is_met, mended, misfit, rebuilt, seems_exact
from reference_problems import TEAM


def chain(n, seed):
    """Atoms of a backbone: bonds of 1.5, angles of 112 degrees, every third torsion near 180."""
    rng = np.random.default_rng(seed)
    places = np.array([[0.0, 0.0, 0.0], [1.5, 0.0, 0.0], [2.1, 1.4, 0.0]])
    for k in range(3, n):
        torsion = np.radians(
            rng.normal(178, 4) if k % 3 == 0 else rng.choice([-60, -120, 130, 60]) + 10 * rng.normal()
        )
        along, before = places[-1] - places[-2], places[-2] - places[-3]
        along = along / np.linalg.norm(along)
        normal = np.cross(before, along)
        normal = normal / np.linalg.norm(normal)
        angle = np.radians(112)
        turn = np.cos(torsion) * np.cross(normal, along) + np.sin(torsion) * normal
        places = np.vstack([places, places[-1] + 1.5 * (-np.cos(angle) * along + np.sin(angle) * turn)])
    return places


def within(places, radius):
    """The graph of all distances up to a radius."""
    distances = squareform(pdist(places))
    return graph_from_matrix(sp.csr_array(np.where(distances < radius, distances, 0.0)))


@pytest.fixture(scope="module")
def graph():
    return knn_graph(np.random.default_rng(3).normal(size=(30, 3)), 5)


def dense(fit, x, pull):
    solver, size = BlockCholesky(fit.graph.indptr, fit.graph.indices, fit.n_all), x.size
    return sp.csr_array((fit.matrix(x, pull), solver.indices, solver.indptr), shape=(size, size)).toarray()


def differences(function, x, h=1e-6):
    """Of a vector function along every coordinate, one column each."""
    columns = []
    for k in range(x.size):
        step = np.zeros(x.size)
        step[k] = h
        step = step.reshape(x.shape)
        columns.append((function(x + step) - function(x - step)) / (2 * h))
    return np.column_stack(columns)


def test_gradient_and_matrix(graph):
    fit, pull = LiftedFit(graph, 2, 4, TEAM), 0.7
    x = np.random.default_rng(4).normal(size=(30, 4))
    value, half_gradient = fit.evaluate(x, pull)
    numeric = differences(lambda y: np.array([fit.evaluate(y, pull)[0]]), x)
    np.testing.assert_allclose(2 * half_gradient.ravel(), numeric[0], atol=1e-6 * value)
    assert value == pytest.approx(np.sum(fit.energy.evaluate(x).energies) + pull * np.sum(x[:, 2:] ** 2))
    # Where all edges are too long this is the second derivative, where all are too short the squared first.
    long, short = 100 * x, 1e-3 * x
    hessian = differences(lambda y: fit.evaluate(y, pull)[1].ravel(), long)
    np.testing.assert_allclose(dense(fit, long, pull), hessian, atol=1e-6)

    def residuals(y):
        return np.linalg.norm(y[graph.indices] - y[graph.sources], axis=1) - graph.lengths

    first = differences(residuals, short, 1e-9)
    wanted = first.T @ first + np.diag(np.tile([0.0, 0.0, pull, pull], 30))
    np.testing.assert_allclose(dense(fit, short, pull), wanted, atol=1e-4)


def test_solves(graph):
    fit, rng = LiftedFit(graph, 2, 4, TEAM), np.random.default_rng(5)
    x, rhs = rng.normal(size=(2, 30, 4))
    matrix, solver = dense(fit, x, 0.1), BlockCholesky(graph.indptr, graph.indices, 4)
    found = solver.solve(fit.matrix(x, 0.1), 0.5, rhs, TEAM)
    np.testing.assert_allclose((matrix + 0.5 * np.eye(120)) @ found.ravel(), rhs.ravel(), atol=1e-10)
    assert solver.solve(fit.matrix(x, 0.1), -100.0, rhs, TEAM) is None


def test_a_mirrored_piece_is_found():
    """Its edges are all met but for a few at the seam, and no small step leads out."""
    truth = chain(60, 1)
    graph = within(truth, 5.0)
    assert is_met(graph, truth)
    centre, (_, _, axes) = truth[33:36].mean(axis=0), np.linalg.svd(truth[30:36] - truth[30:36].mean(axis=0))
    x = truth.copy()
    x[34:] -= 2.0 * ((x[34:] - centre) @ axes[-1])[:, None] * axes[-1]
    flat = LiftedFit(graph, 3, 3, TEAM)
    stuck = flat.descend(x, 0.0, steps=200, gain=1e-6, damping=1e-3)
    assert misfit(graph, stuck) > 1e-4
    assert is_met(
        graph, flat.descend(rebuilt(graph, stuck, 0, team=TEAM), 0.0, steps=50, gain=1e-4, damping=1e-6)
    )


def test_chains_are_exact_whatever_the_threads():
    """The ordinary starts leave some of them folded."""
    folded = []
    for seed in range(2):
        graph = within(chain(50, seed), 5.0).to_matrix()
        plain = embed_graph(graph, 3, shortcuts="keep")
        one = embed_graph(graph, 3, start="lifted", shortcuts="keep", n_jobs=1)
        assert local_distance(graph, one.coordinates) < 1e-7
        folded.append(local_distance(graph, plain.coordinates) > 1e-4)
    assert any(folded)
    assert (one.start, one.status) == ("lifted", "converged")
    two = embed_graph(graph, 3, start="lifted", shortcuts="keep", n_jobs=2)
    np.testing.assert_array_equal(one.coordinates, two.coordinates)


def test_stuck_maps_of_exact_distances_are_mended(monkeypatch):
    """A fold in a C strip costs next to no energy, and an arm of the strip leans."""
    u = np.random.default_rng(12).random((600, 2))
    angle, radius = np.pi * (0.15 + 1.7 * u[:, 0]), 1.0 + 0.5 * u[:, 1]
    strip = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
    graph = knn_graph(strip, 8)
    one, two = (embed_graph(graph.to_matrix(), 2, n_jobs=n_jobs) for n_jobs in (1, 2))
    assert (one.global_weight, one.status) == (0.0, "converged")
    assert procrustes_error(strip, one.coordinates) < 1e-20
    np.testing.assert_array_equal(one.coordinates, two.coordinates)
    monkeypatch.setattr(_component, "mended", lambda *_: None)
    assert procrustes_error(strip, embed_graph(graph.to_matrix(), 2).coordinates) > 1e-3
    # Chords of a surface in space are exact, too: errors everywhere, and nothing is rolled up again.
    roll = swiss_roll(200, random_state=3)
    sheet = np.column_stack([roll.truth, np.zeros(200)])
    assert mended(knn_graph(roll.data, 10), sheet, TEAM) is None
    # Nor is a wrong length an error of the map.
    wrong = graph.to_matrix().tolil()
    there = wrong.rows[7][0]
    wrong[7, there] = wrong[there, 7] = 3.0
    assert mended(graph_from_matrix(wrong.tocsr()), strip, TEAM) is None


def test_what_seems_exact():
    square = np.random.default_rng(8).uniform(size=(300, 2))
    exact = knn_graph(square, 8)
    roll = knn_graph(swiss_roll(600, random_state=0).data, 8)
    errors = np.random.default_rng(9).uniform(-0.5, 0.5, size=len(exact.lengths))

    def with_error(size):
        lengths = exact.lengths * (1.0 + size * (errors + errors[exact.reverse]))
        return graph_from_matrix(sp.csr_array((lengths, exact.indices, exact.indptr)))

    # As far as six decimals tell; a shallow bowl, all of whose lengths are exact in space, is known for one.
    rounded, noisy = with_error(3e-8), with_error(1e-3)
    bowl = knn_graph(np.column_stack([square, 0.1 * np.sum(square**2, axis=1)]), 8)
    graphs = (exact, rounded, roll, noisy, bowl)
    assert [seems_exact(graph, 2) for graph in graphs] == [True, True, False, False, False]
    assert seems_exact(exact, 3)
    assert not seems_exact(exact, 1)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_sparse_rolls(seed):
    """Where distances are not exact, lifting is a start like the others."""
    roll = swiss_roll(600, random_state=seed)
    found = embed_graph(knn_graph(roll.data, 5).to_matrix(), 2, start="lifted")
    assert found.start == "lifted"
    assert procrustes_error(found.coordinates, roll.truth) < 0.02
