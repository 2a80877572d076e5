"""choose_solver and the preconditioners by themselves."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial import cKDTree

from isoweave._parallel import ThreadTeam, thread_team
from isoweave.engines.sparse import gauss_seidel
from isoweave.linalg import choose_solver, factor
from isoweave.linalg._iterative import IncompleteCholesky, Jacobi, Multigrid
from isoweave.linalg._laplacian import PreparationError, prepare_laplacian


def laplacian(n: int, dim: int, k: int) -> sp.csr_array:
    points = np.random.default_rng(31).random((n, dim))
    near = cKDTree(points).query(points, k + 1)[1]
    adjacency = sp.coo_array((np.ones(n * k), (np.repeat(near[:, 0], k), near[:, 1:].ravel())), shape=(n, n))
    adjacency = adjacency.tocsr()
    adjacency = adjacency.maximum(adjacency.T)
    return sp.csr_array(sp.diags_array(adjacency.sum(axis=1)) - adjacency)


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
    state = factor(lap, n_components=n_components, team=ThreadTeam(1))
    assert state.choice == choice
    assert state.solver == solver


def test_predicted_fill_is_the_size_of_the_factor():
    lap = laplacian(3100, 2, 8)
    plan = prepare_laplacian(lap).elimination
    order = plan.order
    matrix = lap.toarray()[np.ix_(order, order)]
    # Grounded, so definite; a dense factor has exact zeros where the sparse one has none.
    dense = np.linalg.cholesky(matrix)
    assert choose_solver(lap, 2).predicted_fill == pytest.approx(
        np.count_nonzero(np.abs(dense) > 0), rel=1e-3
    )


@pytest.mark.parametrize("kind", [Jacobi, IncompleteCholesky, Multigrid])
def test_preconditioners_are_symmetric_and_positive(kind):
    lap = prepare_laplacian(laplacian(900, 2, 8))
    pre = kind(lap, ThreadTeam(1))
    rng = np.random.default_rng(13)
    block = lap.project(rng.normal(size=(900, 6)))
    applied = np.empty_like(block)
    pre.apply(block, applied)
    gram = block.T @ applied
    np.testing.assert_allclose(gram, gram.T, atol=1e-10 * np.abs(gram).max())
    assert np.linalg.eigvalsh(gram).min() > 0


@pytest.mark.parametrize("width", [1, 2, 3, 4, 7])
def test_multigrid_takes_every_column_alone(width):
    """Threads share the columns, however many there are of either: the bits must not tell."""
    lap = prepare_laplacian(laplacian(900, 2, 8))
    block = lap.project(np.random.default_rng(14).normal(size=(900, width)))
    expected = np.empty_like(block)
    alone = Multigrid(lap, ThreadTeam(1))
    for k in range(width):
        column = np.empty((900, 1))
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
    rng = np.random.default_rng(15)
    rhs, x = rng.normal(size=(60, width)), rng.normal(size=(60, width))
    expected, dense = x.copy(), matrix.toarray()
    for i in reversed(range(60)) if backward else range(60):
        expected[i] += (rhs[i] - dense[i] @ expected) / dense[i, i]
    arrays = (matrix.indptr.astype(np.int32), matrix.indices.astype(np.int32), matrix.data)
    gauss_seidel(*arrays, 1.0 / matrix.diagonal(), rhs, x, backward)
    np.testing.assert_allclose(x, expected, rtol=1e-12, atol=1e-14)


def test_incomplete_factor_with_nothing_dropped_is_exact():
    lap = prepare_laplacian(laplacian(30, 2, 4))
    pre = IncompleteCholesky(lap, ThreadTeam(1), drop_tol=0.0)
    matrix = lap.to_matrix().toarray()
    matrix[lap.ground, lap.ground] *= 2.0
    ptr, rows, values, failed = pre._factor
    factor = sp.csc_array((values, rows, ptr), shape=(30, 30)).toarray()
    assert failed == -1
    assert pre.shift == 0.0
    np.testing.assert_allclose(factor @ factor.T, matrix, atol=1e-12)
    np.testing.assert_allclose(factor, np.linalg.cholesky(matrix), atol=1e-12)
    block = np.random.default_rng(3).normal(size=(30, 2))
    out = np.empty_like(block)
    pre.apply(block, out)
    np.testing.assert_allclose(out, np.linalg.solve(matrix, block), rtol=1e-9)


def test_incomplete_factor_raises_the_diagonal_until_pivots_are_positive():
    # Positive off-diagonals make a bad incomplete factor: d^T d of second differences on a cycle.
    n = 40
    eye = sp.eye_array(n, format="csr")
    shift = sp.csr_array((np.ones(n), (np.arange(n), (np.arange(n) + 1) % n)), shape=(n, n))
    d = sp.csr_array(2 * eye - shift - shift.T)
    lap = prepare_laplacian(sp.csr_array(d @ d @ d @ d))
    pre = IncompleteCholesky(lap, ThreadTeam(1), drop_tol=0.2)
    assert pre.shift > 0.0


def test_incomplete_factor_gives_up_on_an_indefinite_matrix():
    lap = prepare_laplacian(sp.csr_array(np.array([[1.0, -4, 3], [-4, 2, 2], [3, 2, -5]])))
    with pytest.raises(PreparationError, match="pivot of vertex"):
        IncompleteCholesky(lap, ThreadTeam(1))
    with pytest.raises(PreparationError, match="not positive at 1 vertices, the first is 2"):
        Jacobi(lap, ThreadTeam(1))
