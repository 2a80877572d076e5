"""choose_solver and the preconditioners alone."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from isoweave._parallel import thread_team
from isoweave.engines.sparse import gauss_seidel
from isoweave.linalg import choose_solver, factor, prepare_laplacian
from isoweave.linalg._iterative import IncompleteCholesky, Jacobi, Multigrid
from isoweave.linalg._laplacian import PreparationError
from laplacians import TEAM, edge_laplacian, random_block


def laplacian(n, dim, k):
    return edge_laplacian(n, dim, k, seed=31, power=0.0)


@pytest.mark.parametrize(
    ("n", "dim", "n_components", "solver"),
    [
        (500, 8, 8, "direct"),  # small
        (8000, 2, 2, "direct"),  # little fill
        (8000, 2, 12, "direct"),  # what counts is the graph, not the dimension asked for
        (6000, 9, 5, "amg"),
        (6000, 9, 8, "jacobi"),
    ],
)
def test_choice(n, dim, n_components, solver):
    lap = laplacian(n, dim, 12)
    choice = choose_solver(lap, n_components)
    assert choice.solver == solver
    assert choice.reason
    if n > 3000:
        assert (choice.predicted_fill <= 50 * lap.nnz) == (solver == "direct")
    state = factor(lap, n_components=n_components, team=TEAM)
    assert (state.choice, state.solver) == (choice, solver)


def test_predicted_fill_is_the_size_of_the_factor():
    lap = laplacian(3100, 2, 8)
    order = prepare_laplacian(lap).elimination.order
    # Grounded, so definite; a dense factor has exact zeros where the sparse one has none.
    dense = np.linalg.cholesky(lap.toarray()[np.ix_(order, order)])
    assert choose_solver(lap, 2).predicted_fill == pytest.approx(np.count_nonzero(dense), rel=1e-3)


@pytest.mark.parametrize("kind", [Jacobi, IncompleteCholesky, Multigrid])
def test_preconditioners_are_symmetric_and_positive(kind):
    lap = prepare_laplacian(laplacian(900, 2, 8))
    block = lap.project(random_block(900, 6, seed=13))
    applied = np.empty_like(block)
    kind(lap, TEAM).apply(block, applied)
    gram = block.T @ applied
    np.testing.assert_allclose(gram, gram.T, atol=1e-10 * np.abs(gram).max())
    assert np.linalg.eigvalsh(gram).min() > 0


@pytest.mark.parametrize("width", [1, 2, 3, 4, 7])
def test_multigrid_takes_every_column_alone(width):
    """Threads share the columns, however many there are of either: the bits must not tell."""
    lap = prepare_laplacian(laplacian(900, 2, 8))
    block = lap.project(random_block(900, width, seed=14))
    expected, column = np.empty_like(block), np.empty((900, 1))
    alone = Multigrid(lap, TEAM)
    for k in range(width):
        alone.apply(np.ascontiguousarray(block[:, k : k + 1]), column)
        expected[:, k] = column[:, 0]
    for n_jobs in (1, 2, 4):
        with thread_team(n_jobs) as team:
            applied = np.full_like(block, np.nan)
            Multigrid(lap, team).apply(block, applied)
        np.testing.assert_array_equal(applied, expected)


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("width", [1, 2, 3, 5])
def test_a_sweep_equals_plain_loops(width, backward):
    matrix = sp.csr_array(laplacian(60, 2, 5) + sp.eye_array(60))
    rhs, x = random_block(60, width, seed=15), random_block(60, width, seed=16)
    expected, dense = x.copy(), matrix.toarray()
    for i in reversed(range(60)) if backward else range(60):
        expected[i] += (rhs[i] - dense[i] @ expected) / dense[i, i]
    arrays = (matrix.indptr.astype(np.int32), matrix.indices.astype(np.int32), matrix.data)
    gauss_seidel(*arrays, 1.0 / matrix.diagonal(), rhs, x, backward)
    np.testing.assert_allclose(x, expected, rtol=1e-12, atol=1e-14)


def test_incomplete_factor_with_nothing_dropped_is_exact():
    lap = prepare_laplacian(laplacian(30, 2, 4))
    pre = IncompleteCholesky(lap, TEAM, drop_tol=0.0)
    matrix = lap.to_matrix().toarray()
    matrix[lap.ground, lap.ground] *= 2.0
    ptr, rows, values, failed = pre._factor
    assert (failed, pre.shift) == (-1, 0.0)
    found = sp.csc_array((values, rows, ptr), shape=(30, 30)).toarray()
    np.testing.assert_allclose(found, np.linalg.cholesky(matrix), atol=1e-12)
    block = random_block(30, 2, seed=3)
    out = np.empty_like(block)
    pre.apply(block, out)
    np.testing.assert_allclose(out, np.linalg.solve(matrix, block), rtol=1e-9)


def test_incomplete_factor_raises_the_diagonal_until_pivots_are_positive():
    # Positive off-diagonals make a bad incomplete factor: d^T d of second differences on a cycle.
    d = sp.csr_array(2 * np.eye(40) - np.roll(np.eye(40), 1, axis=0) - np.roll(np.eye(40), -1, axis=0))
    assert IncompleteCholesky(prepare_laplacian(d @ d @ d @ d), TEAM, drop_tol=0.2).shift > 0.0


def test_preconditioners_give_up_on_an_indefinite_matrix():
    lap = prepare_laplacian(sp.csr_array(np.array([[1.0, -4, 3], [-4, 2, 2], [3, 2, -5]])))
    with pytest.raises(PreparationError, match="pivot of vertex"):
        IncompleteCholesky(lap, TEAM)
    with pytest.raises(PreparationError, match="not positive at 1 vertices, the first is 2"):
        Jacobi(lap, TEAM)
