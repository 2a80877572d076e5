"""The hierarchy of multigrid against dense algebra and plain loops, on any number of threads."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.csgraph import laplacian, shortest_path

from isoweave._parallel import ONE_THREAD as TEAM, thread_team
from isoweave.graph import knn_graph
from isoweave.linalg import _multigrid, factor, prepare_laplacian
from isoweave.linalg._banded import PreparationError
from isoweave.linalg._multigrid import SWEEPS, Csr, Multigrid, aggregate


def weighted(n, dim, k=8, seed=5, power=-2.0):
    """Laplacian of random points, weights a power of the distance."""
    graph = knn_graph(np.random.default_rng(seed).random((n, dim)), k).to_matrix()
    graph.data **= power
    return sp.csr_array(laplacian(graph))


def with_hub(n):
    graph = sp.lil_array(weighted(n, 2, power=0.0) != 0, dtype=float)
    graph[7, ::5] = graph[::5, 7] = 1.0
    graph.setdiag(0.0)
    return sp.csr_array(laplacian(sp.csr_array(graph)))


CASES = {"sheet": weighted(900, 2), "box": weighted(900, 3), "hub": with_hub(900)}


def dense(matrix, n_columns):
    return sp.csr_array(matrix[::-1], shape=(matrix.n, n_columns)).toarray()


def levels_of(lap):
    made = Multigrid(prepare_laplacian(lap), TEAM)
    sizes = [level.matrix.n for level in made._levels] + [made._coarsest.n]
    return made, sizes


@pytest.mark.parametrize("name", CASES)
def test_aggregates_are_around_vertices_three_steps_apart(name):
    lap = CASES[name]
    near = _multigrid._without_hubs(Csr(lap.indptr, lap.indices, lap.data))
    found, n_coarse = aggregate(near, TEAM)
    steps = shortest_path(sp.csr_array(dense(near, near.n)) != 0, unweighted=True, directed=False)
    tickets = _multigrid._tickets(near.n)
    # In the order of their tickets, each that is three steps from all before: one after the other.
    roots = []
    for i in np.argsort(tickets)[::-1]:
        if all(steps[i, root] > 2 for root in roots):
            roots.append(i)
    assert n_coarse == len(roots) < near.n / 6
    np.testing.assert_array_equal(found[np.sort(roots)], np.arange(n_coarse))
    own = np.sort(roots)[found]
    assert (steps[np.arange(near.n), own] <= 2).all()


@pytest.mark.parametrize("name", CASES)
def test_levels_and_the_cycle_against_dense_algebra(name, monkeypatch):
    monkeypatch.setattr(_multigrid, "COARSEST", 20)
    lap = CASES[name]
    made, sizes = levels_of(lap)
    assert len(sizes) > 2
    matrix = lap.toarray()
    down = []
    for level, n, n_coarse in zip(made._levels, sizes, sizes[1:], strict=False):
        scale = np.abs(matrix).max()
        np.testing.assert_allclose(dense(level.matrix, n), matrix, atol=1e-12 * scale)
        prolong = dense(level.prolong, n_coarse)
        np.testing.assert_array_equal(dense(level.restrict, n), prolong.T)
        # Constants stay constants.
        np.testing.assert_allclose(prolong.sum(axis=1), 1.0, atol=1e-10)
        down.append((matrix, prolong, level.scales))
        matrix = prolong.T @ matrix @ prolong
    values, vectors = np.linalg.eigh(matrix)
    cycle = (vectors * np.where(values > 1e-9, 1.0 / values, 0.0)) @ vectors.T
    for matrix, prolong, scales in reversed(down):
        eye, before = np.eye(len(matrix)), np.zeros_like(matrix)
        for scale in scales:
            before += scale[:, None] * (eye - matrix @ before)
        cycle = before + prolong @ cycle @ prolong.T @ (eye - matrix @ before)
        for scale in scales:
            cycle += scale[:, None] * (eye - matrix @ cycle)
    block = made._laplacian.project(np.random.default_rng(2).normal(size=(len(cycle), 4)), TEAM)
    out = np.empty_like(block)
    made.apply(block, out)
    np.testing.assert_allclose(out, cycle @ block, atol=1e-9 * np.abs(out).max())
    np.testing.assert_allclose(cycle, cycle.T, atol=1e-9 * np.abs(cycle).max())


def test_sweeps_damp_what_the_next_level_does_not_see():
    """Over the upper four fifths of the spectrum, by the best polynomial of their degree."""
    x = np.linspace(0.2, 1.0, 201)
    damped = np.prod([1.0 - 2.0 * part * x for part in SWEEPS], axis=0)
    # Chebyshev's: 1 / T_2 at the middle of the interval.
    best = 1.0 / (2.0 * (1.2 / 0.8) ** 2 - 1.0)
    assert np.abs(damped).max() == pytest.approx(best, rel=1e-3)


def test_iterations_hardly_grow_with_the_number_of_vertices():
    iterations = []
    for n in (4_000, 32_000):
        rhs = np.random.default_rng(3).normal(size=(n, 2))
        iterations.append(factor(weighted(n, 2, power=0.0), solver="amg").solve(rhs, tol=1e-8).iterations)
    assert iterations[1] < 1.6 * iterations[0] < 40


def test_same_levels_on_any_number_of_threads(monkeypatch):
    lap, found = weighted(12_000, 2), []
    for n_threads in (1, 2):
        with thread_team(n_threads) as team:
            made = Multigrid(prepare_laplacian(lap), team)
            out = np.empty((12_000, 3))
            made.apply(np.random.default_rng(2).normal(size=(12_000, 3)), out)
            found.append(
                [array for level in made._levels for array in (*level.matrix, *level.prolong)] + [out]
            )
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(one, two)


def test_graphs_that_do_not_coarsen_are_left_to_the_next_solver():
    star = np.zeros((2500, 2500))
    star[0, 1:] = star[1:, 0] = 1.0
    lap = sp.csr_array(laplacian(sp.csr_array(star)))
    with pytest.raises(PreparationError, match="coarsening ends at 2500 vertices"):
        Multigrid(prepare_laplacian(lap), TEAM)
    state = factor(lap, solver="amg")
    assert (state.solver, len(state.notes)) == ("jacobi", 1)
