"""The sparse Cholesky factor: order, counts and structure against elimination in loops, solutions, pivots."""

import numpy as np
import pytest
import scipy.sparse as sp

from isoweave._parallel import ONE_THREAD as TEAM, thread_team
from isoweave.engines.cholesky import MAX_WIDTH
from isoweave.linalg._cholesky import analyse, elimination_order, factorise, plan_elimination, substitute


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
    return sp.csr_array(off + np.diag(0.1 - off.sum(axis=1)))


def grid(n):
    line = sp.diags_array([-np.ones(n - 1), 2 * np.ones(n), -np.ones(n - 1)], offsets=[-1, 0, 1])
    return csr(sp.kron(line, sp.eye_array(n)) + sp.kron(sp.eye_array(n), line))


MATRICES = {
    "diagonal": random_spd(5, 0.0, 1),
    "one": random_spd(1, 0.0, 1),
    "forest": random_spd(60, 0.01, 2),
    "sparse": random_spd(200, 0.02, 3),
    "grid": grid(30),
    "dense": random_spd(3 * MAX_WIDTH + 7, 0.9, 4),  # several supernodes in a chain, several row blocks
}


def plan_of(matrix, order=None):
    order = elimination_order(matrix.indptr, matrix.indices) if order is None else order
    return plan_elimination(matrix.indptr, matrix.indices, order)


def solution(matrix, rhs, order=None):
    """By the factor in the given order, or the best one; the number of a vertex without a pivot."""
    s = analyse(plan_of(matrix, order))
    values, failed = factorise(s, matrix.indptr, matrix.indices, matrix.data)
    return substitute(s, values, rhs, TEAM) if failed < 0 else failed


def elimination_twin(matrix, order):
    """Pattern of the factor by eliminating vertices one after another, in loops."""
    pattern = matrix.toarray()[np.ix_(order, order)] != 0
    for j in range(len(order)):
        below = np.flatnonzero(pattern[j + 1 :, j]) + j + 1
        pattern[np.ix_(below, below)] = True
    return np.tril(pattern)


@pytest.mark.parametrize("name", MATRICES)
def test_counts_structure_and_solutions(name):
    """Against elimination in loops, and dense algebra."""
    matrix = MATRICES[name]
    order = elimination_order(matrix.indptr, matrix.indices)
    plan = plan_of(matrix, order)
    for numbers in (order, plan.order):
        assert sorted(numbers) == list(range(matrix.shape[0]))
    twin = elimination_twin(matrix, plan.order)
    np.testing.assert_array_equal(plan.counts, twin.sum(axis=0))
    # The new order is equivalent: it fills as much as the one asked for.
    assert plan.fill == twin.sum() == elimination_twin(matrix, order).sum()
    s = analyse(plan)
    for node in range(len(s.starts) - 1):
        rows = s.rows[s.row_ptr[node] : s.row_ptr[node + 1]]
        assert np.all(np.diff(rows) > 0)
        assert s.starts[node + 1] - s.starts[node] <= MAX_WIDTH
        for j in range(s.starts[node], s.starts[node + 1]):
            assert set(np.flatnonzero(twin[:, j])) <= set(rows)
    for n_columns in (1, 2, 7):
        rhs = np.random.default_rng(5).standard_normal((matrix.shape[0], n_columns))
        expected = np.linalg.solve(matrix.toarray(), rhs)
        np.testing.assert_allclose(solution(matrix, rhs), expected, rtol=1e-9, atol=1e-9)


def test_columns_are_shared_out_with_the_same_bits():
    matrix, found = grid(60), []
    s, rhs = analyse(plan_of(matrix)), np.random.default_rng(6).standard_normal((3600, 5))
    values, _ = factorise(s, matrix.indptr, matrix.indices, matrix.data)
    for n_threads in (1, 2):
        with thread_team(n_threads) as team:
            found.append(substitute(s, values, rhs, team))
    np.testing.assert_array_equal(*found)
    np.testing.assert_allclose(matrix @ found[0], rhs, atol=1e-9)


def test_vertices_without_a_pivot_are_named():
    every = np.arange(MATRICES["dense"].shape[0], dtype=np.int32)
    for broken in (0, 250):
        matrix = MATRICES["dense"].copy()
        matrix.setdiag(np.where(every == broken, -1.0, matrix.diagonal()))
        assert solution(matrix, None, every) == broken


def test_minimum_degree_beats_the_natural_order_and_copes_with_hubs():
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
    assert plan_of(csr(rays + rays.T), np.arange(n, dtype=np.int32)).fill == n * (n + 1) // 2
