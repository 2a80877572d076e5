"""Factors of LAPACK, as bands, for small graphs: which ones have them, what they solve, where they fail."""

import numpy as np
import pytest
import scipy.sparse as sp

from isoweave.linalg import PoissonState, _banded, _methods

RNG = np.random.default_rng(8021)


def sheet(n_rows, n_columns):
    """Laplacian of a grid in a random numbering, with weights of three orders of magnitude."""
    number = RNG.permutation(n_rows * n_columns).reshape(n_rows, n_columns)
    pairs = [(number[1:], number[:-1]), (number[:, 1:], number[:, :-1])]
    i, j = (np.concatenate([pair[side].ravel() for pair in pairs]) for side in (0, 1))
    weights = 10.0 ** RNG.uniform(0, 3, len(i))
    half = sp.coo_array((weights, (i, j)), shape=(number.size,) * 2)
    both = sp.csr_array(half + half.T)
    return sp.csr_array(sp.diags_array(both.sum(axis=1)) - both)


def is_banded(state):
    return isinstance(state._method.factor, _banded.BandedCholesky)


def test_solutions_are_those_of_the_other_factor(monkeypatch):
    laplacian, rhs = sheet(25, 30), RNG.normal(size=(750, 3))
    banded = PoissonState(laplacian, solver="direct")
    monkeypatch.setattr(_methods, "banded_factor", lambda *_: None)
    sparse = PoissonState(laplacian, solver="direct")
    assert [is_banded(state) for state in (banded, sparse)] == [True, False]
    one, other = (state.solve(rhs) for state in (banded, sparse))
    assert one.residual < 1e-10
    assert one.solver == "direct"
    np.testing.assert_allclose(one.value, other.value, atol=1e-9 * np.abs(other.value).max())


@pytest.mark.parametrize(
    ("laplacian", "expected"),
    [
        (sheet(20, 26), True),
        (sheet(20, 25), False),  # as small as those that are embedded together
        (sheet(40, 70), False),  # too many vertices
        (sp.csr_array(sp.block_diag([sheet(20, 20)] * 2)), False),  # two components
    ],
)
def test_only_connected_graphs_of_some_sizes_have_one(laplacian, expected):
    assert is_banded(PoissonState(laplacian, solver="direct")) == expected


def test_no_band_that_is_too_wide():
    n = 900
    half = sp.csr_array(np.triu(np.where(RNG.random((n, n)) < 0.02, RNG.random((n, n)), 0.0), k=1))
    both = sp.csr_array(half + half.T + sp.diags_array([np.ones(n - 1)] * 2, offsets=[-1, 1]))
    laplacian = sp.csr_array(sp.diags_array(both.sum(axis=1)) - both)
    ground = np.array([0])
    assert _banded.banded_factor(laplacian, ground) is None
    assert _banded.banded_factor(sheet(30, 30), ground) is not None


def test_a_negative_entry_is_refused_by_name():
    at = np.where(np.arange(600) == 77, -1e4, 0.0)
    with pytest.raises(_banded.PreparationError, match="not positive definite at vertex 77"):
        _banded.banded_factor(sp.csr_array(sheet(20, 30) + sp.diags_array(at)), np.array([0]))


def test_pivots_that_are_rounding_are_refused():
    """Of two paths, one held by 1e-15: its pivots are 1 in all arithmetic but the last."""
    ends = np.where(np.isin(np.arange(400), [0, 399]), 1.0, 2.0)
    path = sp.diags_array([ends, -np.ones(399), -np.ones(399)], offsets=[0, 1, -1])
    held = path + sp.diags_array(np.where(ends == 1.0, 1e-15, 0.0))
    with pytest.raises(_banded.PreparationError, match="not positive definite at vertex"):
        _banded.banded_factor(sp.csr_array(sp.block_diag([path, held])), np.array([0]))
