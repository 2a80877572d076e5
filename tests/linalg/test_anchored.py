"""Poisson problems with held and pulled vertices against dense linear algebra."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from isoweave._parallel import ThreadTeam
from isoweave.linalg import factor, factor_anchored
from reference_graphs import random_sparse

TEAM = ThreadTeam(1)
NONE = np.array([], dtype=int)


def weighted_laplacian(n=60, extra=90, seed=11):
    rng = np.random.default_rng(seed)
    graph = random_sparse(n, extra, rng)
    off = sp.csr_array(graph.to_matrix())
    return sp.csr_array(sp.diags_array(off.sum(axis=1)) - off), rng


def dense_solution(laplacian, held, pulled, pull, rhs):
    matrix = laplacian.toarray()
    matrix[pulled, pulled] += pull
    free = np.setdiff1d(np.arange(len(matrix)), held)
    value = np.zeros_like(rhs)
    value[free] = np.linalg.solve(matrix[np.ix_(free, free)], rhs[free])
    return value


@pytest.mark.parametrize("solver", ["direct", "jacobi", "amg", "ic"])
@pytest.mark.parametrize(
    ("held", "pulled"),
    [([7], []), ([7, 8, 30, 51], []), ([], [3]), ([], [3, 20, 21]), ([0, 59], [5, 6, 40])],
)
def test_agrees_with_dense_elimination(solver, held, pulled):
    laplacian, rng = weighted_laplacian()
    held, pulled = np.array(held, dtype=int), np.array(pulled, dtype=int)
    pull = rng.uniform(0.1, 5.0, size=len(pulled))
    rhs = rng.normal(size=(60, 3))
    state = factor_anchored(laplacian, held, pulled, pull, solver=solver, n_components=3, team=TEAM)
    result = state.solve(rhs)
    expected = dense_solution(laplacian, held, pulled, pull, rhs)
    assert result.status == "converged"
    np.testing.assert_allclose(result.value, expected, atol=1e-7 * np.abs(expected).max())
    assert np.all(result.value[held] == 0.0)


def test_rows_of_held_vertices_do_not_count():
    laplacian, rng = weighted_laplacian()
    state = factor_anchored(laplacian, np.array([4, 9]), NONE, np.array([]), n_components=2, team=TEAM)
    rhs = rng.normal(size=(60, 2))
    changed = rhs.copy()
    changed[[4, 9]] = 1e3
    np.testing.assert_array_equal(state.solve(rhs).value, state.solve(changed).value)


def test_one_held_vertex_is_a_shift_of_the_free_problem():
    laplacian, rng = weighted_laplacian()
    rhs = rng.normal(size=(60, 2))
    rhs -= rhs.mean(axis=0)
    held = factor_anchored(laplacian, np.array([17]), NONE, np.array([]), n_components=2, team=TEAM)
    free = factor(laplacian, n_components=2, team=TEAM).solve(rhs).value
    np.testing.assert_allclose(held.solve(rhs).value, free - free[17], atol=1e-9)


def test_a_huge_pull_holds():
    laplacian, rng = weighted_laplacian()
    at, rhs = np.array([2, 44]), rng.normal(size=(60, 2))
    held = factor_anchored(laplacian, at, NONE, np.array([]), n_components=2, team=TEAM).solve(rhs).value
    pull = np.full(2, 1e9)
    pulled = factor_anchored(laplacian, NONE, at, pull, n_components=2, team=TEAM).solve(rhs).value
    np.testing.assert_allclose(pulled, held, atol=1e-6)


def test_everything_held():
    laplacian, rng = weighted_laplacian()
    state = factor_anchored(laplacian, np.arange(60), NONE, np.array([]), n_components=2, team=TEAM)
    assert not state.solve(rng.normal(size=(60, 2))).value.any()
    assert state.solver == state.choice.solver == "none"
    assert state.notes == []


def test_nothing_held():
    laplacian, _ = weighted_laplacian()
    with pytest.raises(ValueError, match="At least one vertex must be held or pulled"):
        factor_anchored(laplacian, NONE, NONE, np.array([]), n_components=2, team=TEAM)
