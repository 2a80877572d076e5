"""The sparse Cholesky factor: order, counts and entries against elimination in loops, solutions, pivots."""

import numpy as np
import pytest
import scipy.sparse as sp

from isoweave._parallel import ONE_THREAD as TEAM, thread_team
from isoweave.linalg import _cholesky
from isoweave.linalg._banded import PreparationError
from isoweave.linalg._cholesky import elimination_order, factorise, plan_elimination


def csr(matrix):
    """CSR with int32 numbers, as all kernels have it."""
    matrix = sp.csr_array(matrix)
    arrays = (matrix.data, matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32))
    return sp.csr_array(arrays, shape=matrix.shape)


def random_spd(n, density, seed):
    rng = np.random.default_rng(seed)
    half = np.where(rng.random((n, n)) < density, -rng.random((n, n)), 0.0)
    off = half + half.T
    np.fill_diagonal(off, 0.0)
    return csr(off + np.diag(0.1 - off.sum(axis=1)))


def grid(n):
    line = sp.diags_array([-np.ones(n - 1), 2 * np.ones(n), -np.ones(n - 1)], offsets=[-1, 0, 1])
    return csr(sp.kron(line, sp.eye_array(n)) + sp.kron(sp.eye_array(n), line))


MATRICES = {
    "diagonal": random_spd(5, 0.0, 1),
    "one": random_spd(1, 0.0, 1),
    "forest": random_spd(60, 0.01, 2),
    "sparse": random_spd(200, 0.02, 3),
    "grid": grid(30),
    "dense": random_spd(150, 0.9, 4),
}


def plan_of(matrix, order=None):
    order = elimination_order(matrix.indptr, matrix.indices) if order is None else order
    return plan_elimination(matrix.indptr, matrix.indices, order)


def elimination_twin(matrix, order):
    """Pattern of the factor by eliminating vertices one after another, in loops."""
    pattern = matrix.toarray()[np.ix_(order, order)] != 0
    for j in range(len(order)):
        below = np.flatnonzero(pattern[j + 1 :, j]) + j + 1
        pattern[np.ix_(below, below)] = True
    return np.tril(pattern)


@pytest.mark.parametrize("name", MATRICES)
def test_counts_factors_and_solutions(name):
    """Against elimination in loops, and dense algebra."""
    matrix = MATRICES[name]
    plan = plan_of(matrix)
    assert sorted(plan.order) == list(range(matrix.shape[0]))
    twin = elimination_twin(matrix, plan.order)
    assert plan.fill == twin.sum()
    found = factorise(plan, matrix.data)
    lower = sp.csc_array((found.values, found.rows, found.starts), shape=matrix.shape).toarray()
    np.testing.assert_array_equal(lower != 0, twin)
    np.testing.assert_allclose(lower @ lower.T, matrix.toarray()[np.ix_(plan.order, plan.order)], atol=1e-12)
    for n_columns in (1, 2, 7):
        rhs = np.random.default_rng(5).standard_normal((matrix.shape[0], n_columns))
        expected = np.linalg.solve(matrix.toarray(), rhs)
        np.testing.assert_allclose(found.solve(rhs, TEAM), expected, rtol=1e-9, atol=1e-9)


def test_columns_are_shared_out_with_the_same_bits():
    matrix, found = grid(60), []
    factor, rhs = factorise(plan_of(matrix), matrix.data), np.random.default_rng(6).standard_normal((3600, 5))
    for n_threads in (1, 2):
        with thread_team(n_threads) as team:
            found.append(factor.solve(rhs, team))
    np.testing.assert_array_equal(*found)
    np.testing.assert_allclose(matrix @ found[0], rhs, atol=1e-9)


def test_vertices_without_a_pivot_are_named():
    every = np.arange(MATRICES["dense"].shape[0], dtype=np.int32)
    for broken in (0, 120):
        matrix = MATRICES["dense"].copy()
        matrix.setdiag(np.where(every == broken, -1.0, matrix.diagonal()))
        with pytest.raises(PreparationError, match=f"not positive definite at vertex {broken}$"):
            factorise(plan_of(matrix, every), matrix.data)


def test_minimum_degree_beats_the_natural_order_and_copes_with_hubs(monkeypatch):
    matrix = grid(60)
    ordered = plan_of(matrix).fill
    assert ordered < 0.4 * plan_of(matrix, np.arange(3600, dtype=np.int32)).fill
    hub = sp.lil_array(matrix)
    hub[1000, :] = hub[:, 1000] = -1.0
    hub = csr(hub)
    order = elimination_order(hub.indptr, hub.indices)
    assert order[-1] == 1000
    assert sorted(order) == list(range(3600))
    assert plan_of(hub, order).fill <= ordered * 1.5 + 3600
    # A star with its hub first fills in completely: 2e9 entries, which counting must not walk through.
    n = 65_000
    rays = sp.coo_array((np.ones(n - 1), (np.zeros(n - 1, int), np.arange(1, n))), shape=(n, n))
    monkeypatch.setattr(_cholesky, "MAX_FILL", 100_000)
    star = plan_of(csr(rays + rays.T), np.arange(n, dtype=np.int32))
    assert 100_000 < star.fill < 100_000 + n
    with pytest.raises(PreparationError, match="more than 100,000 entries"):
        factorise(star, np.empty(0))
