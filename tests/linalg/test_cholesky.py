"""Cholesky factors: order, counts, entries and solutions against loops and dense algebra, pivots, bands."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.csgraph import laplacian

from isoweave._parallel import ONE_THREAD as TEAM, thread_team
from isoweave.linalg import PoissonState, _cholesky, _methods
from isoweave.linalg._banded import BandedCholesky, PreparationError, banded_factor
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


RNG = np.random.default_rng(8021)


def sheet(n_rows, n_columns):
    """Laplacian of a grid in a random numbering, with weights of three orders of magnitude."""
    number = RNG.permutation(n_rows * n_columns).reshape(n_rows, n_columns)
    pairs = [(number[1:], number[:-1]), (number[:, 1:], number[:, :-1])]
    i, j = (np.concatenate([pair[side].ravel() for pair in pairs]) for side in (0, 1))
    half = sp.coo_array((10.0 ** RNG.uniform(0, 3, len(i)), (i, j)), shape=(number.size,) * 2)
    return csr(laplacian(half + half.T))


def is_banded(state):
    return isinstance(state._method.factor, BandedCholesky)


def test_bands_and_the_other_factor_have_the_same_solutions(monkeypatch):
    lap, rhs = sheet(25, 30), RNG.normal(size=(750, 3))
    banded = PoissonState(lap, solver="direct")
    monkeypatch.setattr(_methods, "banded_factor", lambda *_: None)
    sparse = PoissonState(lap, solver="direct")
    assert [is_banded(state) for state in (banded, sparse)] == [True, False]
    one, other = (state.solve(rhs) for state in (banded, sparse))
    assert one.residual < 1e-10
    assert one.solver == "direct"
    np.testing.assert_allclose(one.value, other.value, atol=1e-9 * np.abs(other.value).max())


def crowd():
    """Hardly an order in which all neighbours are near."""
    half = np.triu(np.where(RNG.random((900, 900)) < 0.02, RNG.random((900, 900)), 0.0), k=1)
    half[np.arange(899), np.arange(1, 900)] += 1.0
    return csr(laplacian(half + half.T))


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: sheet(20, 26), True),
        (lambda: sheet(20, 25), False),  # as small as those that are embedded together
        (lambda: sheet(40, 70), False),  # too many vertices
        (lambda: csr(sp.block_diag([sheet(20, 20)] * 2)), False),  # two components
        (crowd, False),
    ],
    ids=["sheet", "small", "large", "two", "crowd"],
)
def test_only_connected_graphs_of_some_sizes_have_bands(make, expected):
    assert is_banded(PoissonState(make(), solver="direct")) == expected


def in_bands(matrix):
    return banded_factor(matrix, np.array([0]))


def by_columns(matrix):
    return factorise(plan_of(matrix, np.arange(1, matrix.shape[0], dtype=np.int32)), matrix.data)


@pytest.mark.parametrize("make", [in_bands, by_columns])
def test_vertices_without_a_pivot_are_named(make):
    """Negative ones, and those that are rounding."""
    at = np.where(np.arange(600) == 77, -1e4, 0.0)
    with pytest.raises(PreparationError, match="not positive definite at vertex 77$"):
        make(csr(sheet(20, 30) + sp.diags_array(at)))
    # Of two paths, one held by 1e-15: its pivots are 1 in all arithmetic but the last.
    ends = np.where(np.isin(np.arange(400), [0, 399]), 1.0, 2.0)
    path = sp.diags_array([ends, -np.ones(399), -np.ones(399)], offsets=[0, 1, -1])
    held = path + sp.diags_array(np.where(ends == 1.0, 1e-15, 0.0))
    with pytest.raises(PreparationError, match=r"not positive definite at vertex [4-7]\d\d$"):
        make(csr(sp.block_diag([path, held])))
