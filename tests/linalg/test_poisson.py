"""factor and PoissonState: known answers, nullspace, ladder, determinism, errors."""

from __future__ import annotations

import sys
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial import cKDTree

from isoweave._parallel import ThreadTeam, thread_team
from isoweave.linalg import _state, factor, prepare_laplacian
from isoweave.linalg._laplacian import PreparationError

SOLVERS = ("direct", "amg", "ic", "jacobi")
TEAM = ThreadTeam(1)


def neighbor_pairs(points: np.ndarray, k: int) -> np.ndarray:
    near = cKDTree(points).query(points, k + 1)[1]
    pairs = np.column_stack([np.repeat(near[:, 0], k), near[:, 1:].ravel()])
    return np.unique(np.sort(pairs, axis=1), axis=0)


@cache
def edge_laplacian(n: int, dim: int = 2, k: int = 8, seed: int = 11, shift: float = 0.0) -> sp.csr_array:
    """Weighted graph Laplacian of a neighbourhood graph, weights 1/d^2; two far clouds if ``shift``."""
    points = np.random.default_rng(seed).random((n, dim))
    points[n // 3 :, 0] += shift
    i, j = neighbor_pairs(points, k).T
    weights = 1.0 / np.sum((points[i] - points[j]) ** 2, axis=1)
    adjacency = sp.coo_array((weights, (i, j)), shape=(n, n)).tocsr()
    adjacency = adjacency + adjacency.T
    return sp.csr_array(sp.diags_array(adjacency.sum(axis=1)) - adjacency)


def paper_laplacian(n: int, dim: int = 2, k: int = 8, seed: int = 12, shift: float = 0.0) -> sp.csr_array:
    """d^T d of least-squares gradients: pattern of A^2, positive off-diagonals."""
    points = np.random.default_rng(seed).random((n, dim))
    points[n // 3 :, 0] += shift
    pairs = neighbor_pairs(points, k)
    neighbors: list[list[int]] = [[] for _ in range(n)]
    for i, j in pairs:
        neighbors[i].append(j)
        neighbors[j].append(i)
    total = sp.csr_array((n, n))
    gradients = [sp.lil_array((n, n)) for _ in range(dim)]
    for i, near in enumerate(neighbors):
        inverse = np.linalg.pinv(points[near] - points[i])
        for axis, gradient in enumerate(gradients):
            gradient[i, near] = inverse[axis]
            gradient[i, i] = -inverse[axis].sum()
    for gradient in gradients:
        d = sp.csr_array(gradient)
        total = total + d.T @ d
    return sp.csr_array((total + total.T) / 2)


CASES = {
    "edge-2d": edge_laplacian(700),
    "edge-5d": edge_laplacian(400, dim=5, k=12),
    "edge-parts": edge_laplacian(500, shift=50.0),
    "paper-2d": paper_laplacian(400),
    "paper-parts": paper_laplacian(300, shift=50.0),
}


def center(lap: sp.csr_array, block: np.ndarray) -> np.ndarray:
    """Slow twin of Laplacian.project."""
    labels = sp.csgraph.connected_components(lap)[1]
    out = np.array(block, dtype=float)
    for part in range(labels.max() + 1):
        out[labels == part] -= out[labels == part].mean(axis=0)
    return out


def test_cases_are_what_they_claim():
    for name, lap in CASES.items():
        values = np.linalg.eigvalsh(lap.toarray())
        n_parts = sp.csgraph.connected_components(lap)[0]
        assert n_parts == (1 if "parts" not in name else n_parts)
        assert (n_parts > 1) == ("parts" in name)
        assert np.all(np.abs(values[:n_parts]) < 1e-9 * values[-1])
        assert values[n_parts] > 1e-9 * values[-1]
        off_diagonal = lap - sp.diags_array(lap.diagonal())
        assert (off_diagonal.max() > 0) == name.startswith("paper")


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_known_solution_is_recovered(solver, case, dtype):
    lap = CASES[case]
    truth = center(lap, np.random.default_rng(5).normal(size=(lap.shape[0], 3)))
    rhs = (lap @ truth).astype(dtype)
    state = factor(lap, solver=solver, n_components=3, team=TEAM, tol=1e-11)
    result = state.solve(rhs)
    assert result.status == "converged"
    assert result.solver == solver
    assert state.notes == []
    # tol bounds the residual; the error may be larger by the condition number.
    atol = 1e-6 if dtype == np.float64 else 2e-3
    np.testing.assert_allclose(result.value, truth, atol=atol * np.abs(truth).max())


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("case", ["edge-parts", "paper-2d"])
def test_agrees_with_dense_pseudo_inverse(solver, case):
    lap = CASES[case]
    rhs = np.random.default_rng(6).normal(size=(lap.shape[0], 2))  # means not zero
    result = factor(lap, solver=solver, n_components=2, team=TEAM, tol=1e-12).solve(rhs)
    expected = np.linalg.pinv(lap.toarray(), rcond=1e-10, hermitian=True) @ rhs
    np.testing.assert_allclose(result.value, expected, atol=1e-7 * np.abs(expected).max())
    np.testing.assert_allclose(center(lap, result.value), result.value, atol=1e-10 * np.abs(expected).max())
    true = np.linalg.norm(lap @ result.value - center(lap, rhs), axis=0)
    assert result.residual == pytest.approx(
        np.max(true / np.linalg.norm(center(lap, rhs), axis=0)), rel=0.1, abs=1e-14
    )


@pytest.mark.parametrize("solver", SOLVERS)
def test_zero_and_constant_columns_give_zero(solver):
    lap = CASES["edge-2d"]
    rhs = np.zeros((lap.shape[0], 3))
    rhs[:, 1] = 7.0
    rhs[:, 2] = lap @ np.arange(lap.shape[0])
    result = factor(lap, solver=solver, n_components=3, team=TEAM).solve(rhs)
    assert result.status == "converged"
    np.testing.assert_allclose(result.value[:, :2], 0.0, atol=1e-12)
    assert np.abs(result.value[:, 2]).max() > 1.0


@pytest.mark.parametrize("solver", SOLVERS)
def test_two_vertices_and_isolated_vertices(solver):
    pair = sp.csr_array(np.array([[2.0, -2.0], [-2.0, 2.0]]))
    result = factor(pair, solver=solver, n_components=1, team=TEAM).solve(np.array([[1.0], [-1.0]]))
    np.testing.assert_allclose(result.value, [[0.25], [-0.25]])
    lonely = sp.block_diag([pair, sp.csr_array((2, 2))], format="csr")
    rhs = np.array([[1.0], [-1.0], [5.0], [0.0]])
    result = factor(lonely, solver=solver, n_components=1, team=TEAM).solve(rhs)
    np.testing.assert_allclose(result.value, [[0.25], [-0.25], [0.0], [0.0]], atol=1e-14)
    single = factor(sp.csr_array((1, 1)), solver=solver, n_components=1, team=TEAM)
    assert single.solve(np.array([[3.0]])).value == 0.0


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("width", [1, 2, 3, 5])
def test_same_bits_for_any_number_of_threads(solver, width):
    # Large enough for every kernel to be shared out; a loose tolerance, for this is about bits.
    lap = edge_laplacian(20_000, dim=2 if solver == "direct" else 5, seed=21)
    rhs = np.random.default_rng(7).normal(size=(20_000, width))
    values = []
    for n_jobs in (1, 2, 3):
        with thread_team(n_jobs) as team:
            state = factor(lap, solver=solver, n_components=2, team=team, tol=0.1)
            values.append(state.solve(rhs).value)
    assert np.array_equal(values[0], values[1])
    assert np.array_equal(values[0], values[2])


@pytest.mark.parametrize("solver", ["amg", "ic", "jacobi"])
def test_columns_do_not_influence_each_other(solver):
    lap = CASES["edge-2d"]
    rhs = np.random.default_rng(8).normal(size=(lap.shape[0], 4))
    rhs[:, 1] = lap @ rhs[:, 1]  # converges after another number of iterations
    state = factor(lap, solver=solver, n_components=2, team=TEAM)
    together = state.solve(rhs).value
    for k in range(4):
        alone = state.solve(rhs[:, k : k + 1]).value
        # Both meet the tolerance, by sums in another order.
        np.testing.assert_allclose(together[:, k : k + 1], alone, atol=1e-8 * np.abs(alone).max())


@pytest.mark.parametrize("solver", ["amg", "ic", "jacobi"])
def test_warm_start_saves_iterations(solver):
    lap = CASES["edge-2d"]
    rhs = np.random.default_rng(9).normal(size=(lap.shape[0], 2))
    state = factor(lap, solver=solver, n_components=2, team=TEAM)
    cold = state.solve(rhs)
    assert state.solve(rhs, tol=1e-3).iterations < cold.iterations


def test_numpy_random_state_is_left_alone_and_does_not_matter():
    lap = CASES["edge-2d"]
    rhs = np.random.default_rng(9).normal(size=(lap.shape[0], 1))
    saved = np.random.get_state()  # noqa: NPY002
    try:
        values = []
        for seed in (3, 4):
            np.random.seed(seed)  # noqa: NPY002
            expected = np.random.RandomState(seed).random_sample(3)
            values.append(factor(lap, solver="amg", n_components=2, team=TEAM).solve(rhs).value)
            assert np.array_equal(np.random.random_sample(3), expected)  # noqa: NPY002
        assert np.array_equal(values[0], values[1])
    finally:
        np.random.set_state(saved)  # noqa: NPY002


class Useless:
    """A preconditioner that is anything but positive definite."""

    def __init__(self, name: str, fill: float) -> None:
        self.name, self._fill = name, fill

    def apply(self, residual, out):
        out[:] = self._fill * residual


@pytest.mark.parametrize("fill", [-1.0, 0.0, np.nan])
@pytest.mark.parametrize("solver", ["amg", "ic"])
def test_stalled_preconditioner_falls_back_to_jacobi(monkeypatch, solver, fill):
    def build(laplacian, team):
        return _state.ConjugateGradient(laplacian, Useless(solver, fill), team, max_iter=50)

    monkeypatch.setitem(_state._BUILDERS, solver, build)
    lap = CASES["edge-2d"]
    rhs = lap @ np.random.default_rng(3).normal(size=(lap.shape[0], 2))
    state = factor(lap, solver=solver, n_components=2, team=TEAM)
    assert state.solver == solver
    result = state.solve(rhs)
    assert (result.solver, result.status, state.solver) == ("jacobi", "converged", "jacobi")
    assert len(state.notes) == 1
    assert state.notes[0].startswith(f"{solver} stalled")
    # The replacement stays: later solves do not stall first.
    assert state.solve(rhs).solver == "jacobi"
    assert len(state.notes) == 1


def test_the_whole_ladder_ends_at_the_direct_solver(monkeypatch):
    def short(laplacian, team):
        return _state.ConjugateGradient(laplacian, _state.Jacobi(laplacian, team), team, max_iter=2)

    def refuse(laplacian, team):
        raise PreparationError("no room")

    monkeypatch.setitem(_state._BUILDERS, "amg", refuse)
    monkeypatch.setitem(_state._BUILDERS, "jacobi", short)
    lap = CASES["paper-2d"]
    rhs = lap @ np.random.default_rng(3).normal(size=(lap.shape[0], 2))
    state = factor(lap, solver="amg", n_components=2, team=TEAM)
    assert state.solver == "jacobi"
    assert state.notes == ["amg could not be prepared: no room"]
    result = state.solve(rhs)
    assert (result.solver, result.status) == ("direct", "converged")
    assert "went on with direct" in state.notes[1]


def test_an_exhausted_ladder_returns_the_best_and_says_so(monkeypatch):
    def short(laplacian, team):
        return _state.ConjugateGradient(laplacian, _state.Jacobi(laplacian, team), team, max_iter=2)

    def refuse(laplacian, team):
        raise PreparationError("not positive definite")

    monkeypatch.setitem(_state._BUILDERS, "jacobi", short)
    monkeypatch.setitem(_state._BUILDERS, "direct", refuse)
    lap = CASES["edge-2d"]
    rhs = lap @ np.random.default_rng(3).normal(size=(lap.shape[0], 2))
    state = factor(lap, solver="direct", n_components=2, team=TEAM)
    result = state.solve(rhs)
    assert (result.solver, result.status, result.iterations) == ("jacobi", "stalled", 2)
    assert 1e-10 < result.residual < 1.0
    assert np.isfinite(result.value).all()
    monkeypatch.setitem(_state._BUILDERS, "jacobi", refuse)
    with pytest.raises(RuntimeError, match=r"No solver could be prepared: .*not positive definite"):
        factor(lap, solver="direct", n_components=2, team=TEAM)


def test_direct_solver_hands_over_a_larger_kernel(monkeypatch):
    # Two vertices joined only through a difference of differences: the kernel holds more than constants.
    d = sp.csr_array(np.array([[1.0, -2.0, 1.0, 0.0], [0.0, 1.0, -2.0, 1.0]]))
    lap = sp.csr_array(d.T @ d)
    rhs = lap @ np.array([[1.0], [0.0], [0.0], [2.0]])
    state = factor(lap, solver="direct", n_components=1, team=TEAM)
    result = state.solve(rhs)
    assert result.solver == "jacobi"
    assert result.status == "converged"
    assert "not positive definite" in state.notes[0]


def test_factor_too_large_is_refused(monkeypatch):
    from isoweave.linalg import _direct

    monkeypatch.setattr(_direct, "MAX_FILL", 100)
    state = factor(CASES["edge-2d"], solver="direct", n_components=2, team=TEAM)
    assert state.solver == "jacobi"
    assert "more than 100 entries" in state.notes[0]


def test_cholmod_agrees_or_names_the_extra(monkeypatch):
    lap = CASES["edge-parts"]
    rhs = np.random.default_rng(6).normal(size=(lap.shape[0], 2))
    expected = factor(lap, solver="direct", n_components=2, team=TEAM).solve(rhs).value
    try:
        import sksparse.cholmod  # noqa: F401
    except ImportError:
        pass
    else:
        result = factor(lap, solver="cholmod", n_components=2, team=TEAM).solve(rhs)
        assert result.solver == "cholmod"
        np.testing.assert_allclose(result.value, expected, atol=1e-9 * np.abs(expected).max())
    monkeypatch.setitem(sys.modules, "sksparse", None)
    with pytest.raises(ImportError, match=r"isoweave\[cholmod\]"):
        factor(lap, solver="cholmod", n_components=2, team=TEAM)


def test_stored_zeros_do_not_join_components():
    lap = sp.block_diag([[[1.0, -1.0], [-1.0, 1.0]]] * 2, format="coo")
    data = np.concatenate([lap.data, [0.0, 0.0]])
    rows, columns = np.concatenate([lap.row, [1, 2]]), np.concatenate([lap.col, [2, 1]])
    prepared = prepare_laplacian(sp.coo_array((data, (rows, columns)), shape=(4, 4)))
    assert list(prepared.sizes) == [2.0, 2.0]
    assert len(prepared.data) == 8


def test_input_is_not_changed_and_formats_agree():
    lap = CASES["edge-2d"]
    rhs = np.random.default_rng(6).normal(size=(lap.shape[0], 2))
    expected = factor(lap, n_components=2, team=TEAM).solve(rhs).value
    frozen = [a.copy() for a in (lap.data, lap.indices, lap.indptr)]
    for other in (lap.tocsc(), lap.tocoo(), sp.csr_matrix(lap)):
        value = factor(other, n_components=2, team=TEAM).solve(np.asfortranarray(rhs)).value
        np.testing.assert_array_equal(value, expected)
    for before, after in zip(frozen, (lap.data, lap.indices, lap.indptr), strict=True):
        np.testing.assert_array_equal(before, after)


def test_errors():
    lap = CASES["edge-2d"]
    n = lap.shape[0]
    with pytest.raises(ValueError, match=r"solver must be one of 'auto', .*got 'lu'"):
        factor(lap, solver="lu", n_components=2, team=TEAM)
    with pytest.raises(ValueError, match=r"tol must lie between 0 and 1, got 0"):
        factor(lap, n_components=2, team=TEAM, tol=0)
    with pytest.raises(TypeError, match="scipy sparse matrix, got ndarray"):
        factor(lap.toarray(), n_components=2, team=TEAM)
    with pytest.raises(ValueError, match=r"square and not empty, got shape \(2, 3\)"):
        factor(sp.csr_array((2, 3)), n_components=2, team=TEAM)
    with pytest.raises(ValueError, match="row 0 sums to 1"):
        factor(sp.csr_array(np.eye(3)), n_components=2, team=TEAM)
    with pytest.raises(ValueError, match=r"symmetric, but entry \(0, 1\)"):
        factor(sp.csr_array(np.array([[1.0, -1], [-2, 2]])), n_components=1, team=TEAM)
    broken = sp.csr_array(np.array([[1.0, -1], [-1, np.nan]]))
    with pytest.raises(ValueError, match="not finite, the first in row 1, column 1: nan"):
        factor(broken, n_components=1, team=TEAM)
    state = factor(lap, n_components=2, team=TEAM)
    with pytest.raises(ValueError, match=rf"rhs must have shape \({n}, N\), got \({n},\)"):
        state.solve(np.zeros(n))
    bad = np.zeros((n, 2))
    bad[4, 1] = np.inf
    with pytest.raises(ValueError, match="rhs must be finite, but row 4, column 1 is inf"):
        state.solve(bad)


def test_direct_solution_is_refined_once(monkeypatch):
    from isoweave.linalg import _direct

    exact = _direct.substitute
    monkeypatch.setattr(_direct, "substitute", lambda *args: (1 + 1e-7) * exact(*args))
    lap = CASES["edge-2d"]
    rhs = np.random.default_rng(6).normal(size=(lap.shape[0], 2))
    state = factor(lap, solver="direct", n_components=2, team=TEAM)
    assert state.solve(rhs, tol=1e-6).iterations == 0
    result = state.solve(rhs, tol=1e-10)
    assert (result.iterations, result.status, result.solver) == (1, "converged", "direct")
    # 1e-14 by the refinement, 1e-12 by rounding: close points have weights far above the rest.
    assert result.residual < 1e-11
    assert state.notes == []


def test_residuals_at_rounding_level_count_as_converged():
    n = 20_000
    path = sp.diags_array(
        [-np.ones(n - 1), np.r_[1, np.full(n - 2, 2.0), 1], -np.ones(n - 1)], offsets=[-1, 0, 1]
    )
    rhs = np.cos(np.pi * (np.arange(n) + 0.5) / n)[:, None]  # the smoothest mode: ||x|| is 4e7 ||b||
    state = factor(path.tocsr(), solver="direct", n_components=1, team=TEAM)
    result = state.solve(rhs)
    assert result.residual > 1e-10
    assert result.status == "converged"
    assert state.notes == []
    eigenvalue = 4 * np.sin(np.pi / (2 * n)) ** 2
    np.testing.assert_allclose(result.value, rhs / eigenvalue, rtol=0, atol=1e-6 / eigenvalue)
