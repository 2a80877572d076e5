"""factor and PoissonState: known answers, nullspace, ladder, determinism, errors."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from isoweave._parallel import thread_team
from isoweave.linalg import _direct, _state, factor, prepare_laplacian
from isoweave.linalg._laplacian import PreparationError
from laplacians import TEAM, edge_laplacian, factored, paper_laplacian, random_block

SOLVERS = ("direct", "amg", "ic", "jacobi")
CASES = {
    "edge-2d": edge_laplacian(700),
    "edge-5d": edge_laplacian(400, dim=5, k=12),
    "edge-parts": edge_laplacian(500, shift=50.0),
    "paper-2d": paper_laplacian(400),
    "paper-parts": paper_laplacian(300, shift=50.0),
}
PLAIN = CASES["edge-2d"]
each_solver = pytest.mark.parametrize("solver", SOLVERS)
each_preconditioner = pytest.mark.parametrize("solver", SOLVERS[1:])


def center(lap, block):
    """Slow twin of Laplacian.project."""
    labels = connected_components(lap)[1]
    out = np.array(block, dtype=float)
    for part in range(labels.max() + 1):
        out[labels == part] -= out[labels == part].mean(axis=0)
    return out


@each_solver
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_known_solution_is_recovered(solver, case, dtype):
    """With means that are not zero, and columns that are nothing but a mean."""
    lap = CASES[case]
    truth = center(lap, random_block(lap.shape[0], 3, seed=5)) * [1.0, 0.0, 0.0]
    rhs = (lap @ truth + [0.5, 0.0, 7.0]).astype(dtype)
    state = factored(lap, solver, tol=1e-11)
    result = state.solve(rhs)
    assert (result.status, result.solver, state.notes) == ("converged", solver, [])
    # tol bounds the residual; the error may be larger by the condition number.
    atol = 1e-6 if dtype == np.float64 else 2e-3
    np.testing.assert_allclose(result.value, truth, atol=atol * np.abs(truth).max())
    np.testing.assert_allclose(center(lap, result.value), result.value, atol=1e-10 * np.abs(truth).max())
    wanted = center(lap, rhs)[:, 0]
    residual = np.linalg.norm(lap @ result.value[:, 0] - wanted) / np.linalg.norm(wanted)
    assert result.residual == pytest.approx(residual, rel=0.1, abs=1e-13)


@each_solver
def test_two_vertices_and_isolated_vertices(solver):
    pair = sp.csr_array(np.array([[2.0, -2.0], [-2.0, 2.0]]))
    lonely = sp.block_diag([pair, sp.csr_array((2, 2))], format="csr")
    for lap, rhs, expected in (
        (pair, [1.0, -1.0], [0.25, -0.25]),
        (lonely, [1.0, -1.0, 5.0, 0.0], [0.25, -0.25, 0.0, 0.0]),
        (sp.csr_array((1, 1)), [3.0], [0.0]),
    ):
        value = factored(lap, solver).solve(np.array(rhs)[:, None]).value
        np.testing.assert_allclose(value.ravel(), expected, atol=1e-14)


@each_solver
@pytest.mark.parametrize("width", [1, 2, 3, 5])
def test_same_bits_for_any_number_of_threads(solver, width):
    # Large enough for every kernel to be shared out; a loose tolerance, for this is about bits.
    lap = edge_laplacian(20_000, dim=2 if solver == "direct" else 5, seed=21)
    values = []
    for n_jobs in (1, 2, 3):
        with thread_team(n_jobs) as team:
            state = factor(lap, solver=solver, n_components=2, team=team, tol=0.1)
            values.append(state.solve(random_block(20_000, width, seed=7)).value)
    np.testing.assert_array_equal(values[0], values[1])
    np.testing.assert_array_equal(values[0], values[2])


@each_preconditioner
def test_columns_do_not_influence_each_other(solver):
    rhs = random_block(PLAIN.shape[0], 4, seed=8)
    rhs[:, 1] = PLAIN @ rhs[:, 1]  # converges after another number of iterations
    state = factored(PLAIN, solver)
    together = state.solve(rhs)
    for k in range(4):
        alone = state.solve(rhs[:, k : k + 1]).value
        # Both meet the tolerance, by sums in another order.
        np.testing.assert_allclose(together.value[:, k : k + 1], alone, atol=1e-8 * np.abs(alone).max())
    assert state.solve(rhs, tol=1e-3).iterations < together.iterations


def test_numpy_random_state_is_left_alone_and_does_not_matter():
    saved = np.random.get_state()  # noqa: NPY002
    try:
        values = []
        for seed in (3, 4):
            np.random.seed(seed)  # noqa: NPY002
            expected = np.random.RandomState(seed).random_sample(3)
            values.append(factored(PLAIN, "amg").solve(random_block(PLAIN.shape[0], 1, seed=9)).value)
            np.testing.assert_array_equal(np.random.random_sample(3), expected)  # noqa: NPY002
        np.testing.assert_array_equal(values[0], values[1])
    finally:
        np.random.set_state(saved)  # noqa: NPY002


class Useless:
    """A preconditioner that is anything but positive definite."""

    def __init__(self, name, fill):
        self.name, self._fill = name, fill

    def apply(self, residual, out):
        out[:] = self._fill * residual


@pytest.fixture
def replace(monkeypatch):
    """Put another builder in the place of a method's; None is one that cannot be prepared."""

    def refuse(laplacian, team):
        raise PreparationError("no room")

    return lambda name, build: monkeypatch.setitem(_state._BUILDERS, name, build or refuse)


def short(laplacian, team):
    """Two iterations, which are never enough."""
    return _state.ConjugateGradient(laplacian, _state.Jacobi(laplacian, team), team, max_iter=2)


@pytest.mark.parametrize("fill", [-1.0, 0.0, np.nan])
@pytest.mark.parametrize("solver", ["amg", "ic"])
def test_stalled_preconditioner_falls_back_to_jacobi(replace, solver, fill):
    replace(solver, lambda lap, team: _state.ConjugateGradient(lap, Useless(solver, fill), team, max_iter=50))
    rhs = PLAIN @ random_block(PLAIN.shape[0], 2, seed=3)
    state = factored(PLAIN, solver)
    assert state.solver == solver
    result = state.solve(rhs)
    assert (result.solver, result.status, state.solver) == ("jacobi", "converged", "jacobi")
    # The replacement stays: later solves do not stall first.
    assert state.solve(rhs).solver == "jacobi"
    assert len(state.notes) == 1
    assert state.notes[0].startswith(f"{solver} stalled")


def test_the_next_method_starts_where_the_last_one_stalled(replace):
    rhs = random_block(PLAIN.shape[0], 2, seed=9)
    cold = factored(PLAIN, "jacobi").solve(rhs).iterations
    build = _state.ConjugateGradient
    half = lambda lap, team: build(lap, _state.IncompleteCholesky(lap, team), team, max_iter=15)  # noqa: E731
    replace("ic", half)
    assert 0 < factored(PLAIN, "ic").solve(rhs).iterations < cold


def test_the_whole_ladder_ends_at_the_direct_solver(replace):
    replace("amg", None)
    replace("jacobi", short)
    lap = CASES["paper-2d"]
    state = factored(lap, "amg")
    assert state.solver == "jacobi"
    assert state.notes == ["amg could not be prepared: no room"]
    result = state.solve(lap @ random_block(lap.shape[0], 2, seed=3))
    assert (result.solver, result.status) == ("direct", "converged")
    assert "went on with direct" in state.notes[1]


def test_an_exhausted_ladder_returns_the_best_and_says_so(replace):
    replace("direct", None)
    replace("jacobi", short)
    result = factored(PLAIN, "direct").solve(PLAIN @ random_block(PLAIN.shape[0], 2, seed=3))
    assert (result.solver, result.status, result.iterations) == ("jacobi", "stalled", 2)
    assert 1e-10 < result.residual < 1.0
    assert np.isfinite(result.value).all()
    replace("jacobi", None)
    with pytest.raises(RuntimeError, match=r"No solver could be prepared: .*no room"):
        factored(PLAIN, "direct")


def test_a_state_moves_to_where_another_stood(replace):
    replace("amg", None)
    moved, notes = factored(PLAIN, "amg"), ["amg could not be prepared: no room"]
    other = factored(PLAIN, "jacobi")
    other.move_to(moved.ladder, moved.notes)
    assert (other.solver, other.ladder, other.notes) == ("jacobi", ("jacobi", "direct"), notes)
    other.move_to(("direct",), [])
    assert (other.solver, other.ladder, other.notes) == ("direct", ("direct",), [])
    for wrong in ((), ("jacobi", "lu")):
        with pytest.raises(ValueError, match=r"ladder must hold names of direct, .*got \("):
            other.move_to(wrong, [])


def test_direct_solver_hands_over_a_larger_kernel():
    # Two vertices joined only through a difference of differences: the kernel holds more than constants.
    d = sp.csr_array(np.array([[1.0, -2.0, 1.0, 0.0], [0.0, 1.0, -2.0, 1.0]]))
    lap = sp.csr_array(d.T @ d)
    state = factored(lap, "direct")
    result = state.solve(lap @ np.array([[1.0], [0.0], [0.0], [2.0]]))
    assert (result.solver, result.status) == ("jacobi", "converged")
    assert "not positive definite" in state.notes[0]


def test_factor_too_large_is_refused(monkeypatch):
    monkeypatch.setattr(_direct, "MAX_FILL", 100)
    state = factored(PLAIN, "direct")
    assert state.solver == "jacobi"
    assert "more than 100 entries" in state.notes[0]


def test_cholmod_agrees_or_names_the_extra(monkeypatch):
    lap = CASES["edge-parts"]
    rhs = random_block(lap.shape[0], 2, seed=6)
    expected = factored(lap, "direct").solve(rhs).value
    try:
        import sksparse.cholmod  # noqa: F401
    except ImportError:
        pass
    else:
        result = factored(lap, "cholmod").solve(rhs)
        assert result.solver == "cholmod"
        np.testing.assert_allclose(result.value, expected, atol=1e-9 * np.abs(expected).max())
    monkeypatch.setitem(sys.modules, "sksparse", None)
    with pytest.raises(ImportError, match=r"isoweave\[cholmod\]"):
        factored(lap, "cholmod")


def test_stored_zeros_do_not_join_components():
    lap = sp.block_diag([[[1.0, -1.0], [-1.0, 1.0]]] * 2, format="coo")
    data = np.concatenate([lap.data, [0.0, 0.0]])
    rows, columns = np.concatenate([lap.row, [1, 2]]), np.concatenate([lap.col, [2, 1]])
    prepared = prepare_laplacian(sp.coo_array((data, (rows, columns)), shape=(4, 4)))
    assert list(prepared.sizes) == [2.0, 2.0]
    assert len(prepared.data) == 8


def test_input_is_not_changed_and_formats_agree():
    rhs = random_block(PLAIN.shape[0], 2, seed=6)
    expected = factored(PLAIN).solve(rhs).value
    frozen = PLAIN.copy()
    for other in (PLAIN.tocsc(), PLAIN.tocoo(), sp.csr_matrix(PLAIN)):
        np.testing.assert_array_equal(factored(other).solve(np.asfortranarray(rhs)).value, expected)
    for name in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(PLAIN, name), getattr(frozen, name))


@pytest.mark.parametrize(
    ("laplacian", "error", "message"),
    [
        (PLAIN.toarray(), TypeError, "scipy sparse matrix, got ndarray"),
        (sp.csr_array((2, 3)), ValueError, r"square and not empty, got shape \(2, 3\)"),
        (sp.csr_array(np.eye(3)), ValueError, "row 0 sums to 1"),
        (sp.csr_array(np.array([[1.0, -1], [-2, 2]])), ValueError, r"symmetric, but entry \(0, 1\)"),
        (
            sp.csr_array(np.array([[1.0, -1], [-1, np.nan]])),
            ValueError,
            "not finite, the first in row 1, column 1: nan",
        ),
    ],
)
def test_what_is_no_laplacian(laplacian, error, message):
    with pytest.raises(error, match=message):
        factored(laplacian)


def test_wrong_settings_and_blocks():
    with pytest.raises(ValueError, match=r"solver must be one of 'auto', .*got 'lu'"):
        factored(PLAIN, "lu")
    with pytest.raises(ValueError, match=r"tol must lie between 0 and 1, got 0"):
        factor(PLAIN, n_components=2, team=TEAM, tol=0)
    n = PLAIN.shape[0]
    state, bad = factored(PLAIN), np.zeros((n, 2))
    bad[4, 1] = np.inf
    with pytest.raises(ValueError, match=rf"rhs must have shape \({n}, N\), got \({n},\)"):
        state.solve(np.zeros(n))
    with pytest.raises(ValueError, match="rhs must be finite, but row 4, column 1 is inf"):
        state.solve(bad)


def test_direct_solution_is_refined_once(monkeypatch):
    exact = _direct.substitute
    monkeypatch.setattr(_direct, "substitute", lambda *args: (1 + 1e-7) * exact(*args))
    rhs = random_block(PLAIN.shape[0], 2, seed=6)
    state = factored(PLAIN, "direct")
    assert state.solve(rhs, tol=1e-6).iterations == 0
    result = state.solve(rhs, tol=1e-10)
    assert (result.iterations, result.status, result.solver) == (1, "converged", "direct")
    # 1e-14 by the refinement, 1e-12 by rounding: close points have weights far above the rest.
    assert result.residual < 1e-11
    assert state.notes == []


def test_residuals_at_rounding_level_count_as_converged():
    n = 20_000
    ones = -np.ones(n - 1)
    path = sp.diags_array([ones, np.r_[1, np.full(n - 2, 2.0), 1], ones], offsets=[-1, 0, 1])
    rhs = np.cos(np.pi * (np.arange(n) + 0.5) / n)[:, None]  # the smoothest mode: ||x|| is 4e7 ||b||
    state = factored(path.tocsr(), "direct")
    result = state.solve(rhs)
    assert result.residual > 1e-10
    assert (result.status, state.notes) == ("converged", [])
    eigenvalue = 4 * np.sin(np.pi / (2 * n)) ** 2
    np.testing.assert_allclose(result.value, rhs / eigenvalue, rtol=0, atol=1e-6 / eigenvalue)
