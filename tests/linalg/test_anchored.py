"""Poisson problems with held and pulled vertices against dense linear algebra."""

from __future__ import annotations

import numpy as np
import pytest

from isoweave.linalg import factor_anchored
from laplacians import TEAM, edge_laplacian, factored, random_block

LAP = edge_laplacian(60, dim=3, k=4, power=1.0)
RHS = random_block(60, 3, seed=11)


def anchored(held, pulled=(), pull=(), solver="auto"):
    held, pulled = np.array(held, dtype=int), np.array(pulled, dtype=int)
    return factor_anchored(
        LAP, held, pulled, np.array(pull, dtype=float), solver=solver, n_components=3, team=TEAM
    )


@pytest.mark.parametrize("solver", ["direct", "jacobi", "amg", "ic"])
@pytest.mark.parametrize(
    ("held", "pulled"),
    [([7], []), ([7, 8, 30, 51], []), ([], [3]), ([], [3, 20, 21]), ([0, 59], [5, 6, 40])],
)
def test_agrees_with_dense_elimination(solver, held, pulled):
    pull = np.random.default_rng(12).uniform(0.1, 5.0, size=len(pulled))
    result = anchored(held, pulled, pull, solver).solve(RHS)
    matrix = LAP.toarray()
    matrix[pulled, pulled] += pull
    free = np.setdiff1d(np.arange(60), held)
    expected = np.zeros_like(RHS)
    expected[free] = np.linalg.solve(matrix[np.ix_(free, free)], RHS[free])
    assert result.status == "converged"
    np.testing.assert_allclose(result.value, expected, atol=1e-7 * np.abs(expected).max())
    assert np.all(result.value[held] == 0.0)


def test_rows_of_held_vertices_do_not_count():
    changed = RHS.copy()
    changed[[4, 9]] = 1e3
    state = anchored([4, 9])
    np.testing.assert_array_equal(state.solve(RHS).value, state.solve(changed).value)


def test_one_held_vertex_is_a_shift_of_the_free_problem():
    rhs = RHS - RHS.mean(axis=0)
    free = factored(LAP).solve(rhs).value
    np.testing.assert_allclose(anchored([17]).solve(rhs).value, free - free[17], atol=1e-9)


def test_a_huge_pull_holds():
    held, pulled = (
        state.solve(RHS).value for state in (anchored([2, 44]), anchored([], [2, 44], [1e9, 1e9]))
    )
    # Rounding beside the pull.
    np.testing.assert_allclose(pulled, held, atol=1e-6 * np.abs(held).max())


def test_everything_held():
    state = anchored(range(60))
    assert not state.solve(RHS).value.any()
    assert state.solver == state.choice.solver == "none"
    assert (state.notes, state.ladder) == ([], ())


def test_nothing_held():
    with pytest.raises(ValueError, match="At least one vertex must be held or pulled"):
        anchored([])
