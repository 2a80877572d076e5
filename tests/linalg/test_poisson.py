"""Poisson problems: known answers, ladder, bits, errors, anchors, choice, preconditioners."""

from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components, laplacian as laplacian_of

from isoweave._parallel import ONE_THREAD as TEAM, thread_team
from isoweave.energy import edge_laplacian, paper_energy
from isoweave.geometry import local_frames
from isoweave.graph import knn_graph
from isoweave.linalg import (
    _cholesky,
    _laplacian,
    _methods,
    _state,
    choose_solver,
    factor,
    factor_anchored,
    prepare_laplacian,
)
from isoweave.linalg._methods import IncompleteCholesky, Jacobi, PreparationError
from isoweave.linalg._multigrid import Multigrid


def factored(lap, solver="auto", **options):
    return factor(lap, **{"solver": solver, **options})


def random_block(n, width, seed):
    return np.random.default_rng(seed).normal(size=(n, width))


def neighbors(n, dim, k, seed, shift):
    """Random points, those beyond the first third ``shift`` away, joined to their nearest."""
    points = np.random.default_rng(seed).random((n, dim))
    points[n // 3 :, 0] += shift
    return knn_graph(points, k)


def edge_matrix(n, dim=2, k=8, seed=11, shift=0.0, power=-2.0):
    """Graph Laplacian with weights ``d^power``; two far clouds if ``shift``."""
    graph = neighbors(n, dim, k, seed, shift)
    return edge_laplacian(graph, 0.5 * graph.lengths**power)


def paper_matrix(n, shift=0.0):
    """d^T d: pattern of A^2, positive off-diagonals."""
    graph = neighbors(n, 2, 8, 12, shift)
    return paper_energy(graph, local_frames(graph, 2, with_inverse=True), np.ones(n)).laplacian()


SOLVERS = ("direct", "amg", "ic", "jacobi")
CASES = {
    "edge-2d": edge_matrix(700),
    "edge-5d": edge_matrix(400, dim=5, k=12),
    "edge-parts": edge_matrix(500, shift=50.0),
    "paper-2d": paper_matrix(400),
    "paper-parts": paper_matrix(300, shift=50.0),
}
PLAIN = CASES["edge-2d"]
N = PLAIN.shape[0]
each_solver = pytest.mark.parametrize("solver", SOLVERS)


def matrix(*rows):
    return sp.csr_array(np.array(rows, dtype=float))


def center(lap, block):
    """Slow twin of Laplacian.project."""
    labels = connected_components(lap)[1]
    out = np.array(block, dtype=float)
    for part in range(labels.max() + 1):
        out[labels == part] -= out[labels == part].mean(axis=0)
    return out


@each_solver
@pytest.mark.parametrize("case", CASES)
def test_known_solution_is_recovered(solver, case):
    """With means that are not zero, and columns that are nothing but a mean."""
    lap = CASES[case]
    truth = center(lap, random_block(lap.shape[0], 3, seed=5)) * [1.0, 0.0, 0.0]
    state = factored(lap, solver, tol=1e-11)
    # tol bounds the residual; the error may be larger by the condition number.
    for dtype, atol in ((np.float32, 2e-3), (np.float64, 1e-6)):
        rhs = (lap @ truth + [0.5, 0.0, 7.0]).astype(dtype)
        result = state.solve(rhs)
        assert (result.status, result.solver, state.notes) == ("converged", solver, [])
        np.testing.assert_allclose(result.value, truth, atol=atol * np.abs(truth).max())
        np.testing.assert_allclose(center(lap, result.value), result.value, atol=1e-10 * np.abs(truth).max())
        wanted = center(lap, rhs)[:, 0]
        residual = np.linalg.norm(lap @ result.value[:, 0] - wanted) / np.linalg.norm(wanted)
        assert result.residual == pytest.approx(residual, rel=0.1, abs=1e-13)


@each_solver
def test_isolated_vertices_and_columns_that_do_not_influence_each_other(solver):
    pair = matrix([2, -2], [-2, 2])
    for lap, given, expected in (
        (sp.block_diag([pair, sp.csr_array((2, 2))]), [1.0, -1.0, 5.0, 0.0], [0.25, -0.25, 0.0, 0.0]),
        (sp.csr_array((1, 1)), [3.0], [0.0]),
    ):
        value = factored(lap, solver).solve(np.array(given)[:, None]).value
        np.testing.assert_allclose(value.ravel(), expected, atol=1e-14)
    rhs = random_block(N, 4, seed=8)
    rhs[:, 1] = PLAIN @ rhs[:, 1]  # converges after another number of iterations
    state = factored(PLAIN, solver)
    together = state.solve(rhs)
    for k in range(4):
        alone = state.solve(rhs[:, k : k + 1]).value
        # Both meet the tolerance, by sums in another order.
        np.testing.assert_allclose(together.value[:, k : k + 1], alone, atol=1e-8 * np.abs(alone).max())
    assert solver == "direct" or state.solve(rhs, tol=1e-3).iterations < together.iterations


@each_solver
def test_same_bits_for_any_number_of_threads(solver):
    # Large enough for every kernel to be shared out; a loose tolerance, for this is about bits.
    n, values = 20_000 if solver == "jacobi" else 4000, {}
    lap = edge_matrix(n, dim=2 if solver == "direct" else 5, seed=21)
    for n_jobs in (1, 3):
        with thread_team(n_jobs) as team:
            state = factored(lap, solver, team=team, tol=0.1)
            values[n_jobs] = [state.solve(random_block(n, width, seed=7)).value for width in (2, 5)]
    for one, three in zip(*values.values(), strict=True):
        np.testing.assert_array_equal(one, three)


@pytest.fixture
def replace(monkeypatch):
    """Give a method other attributes; without any it cannot be prepared."""

    def refuse(laplacian, team):
        raise PreparationError("no room")

    def put(name, **attributes):
        other = type("Other", (_state._METHODS[name],), attributes) if attributes else refuse
        monkeypatch.setitem(_state._METHODS, name, other)

    return put


@pytest.mark.parametrize(("solver", "fill"), [("amg", -1.0), ("ic", 0.0), ("amg", np.nan)])
def test_stalled_preconditioner_falls_back_to_jacobi(replace, solver, fill):
    """One that is anything but positive definite."""
    replace(solver, max_iter=50, apply=lambda self, residual, out: np.multiply(fill, residual, out=out))
    state = factored(PLAIN, solver)
    assert state.solver == solver
    for _ in range(2):
        result = state.solve(PLAIN @ random_block(N, 2, seed=3))
        assert (result.solver, result.status, state.solver) == ("jacobi", "converged", "jacobi")
    # The replacement stays: later solves do not stall first.
    assert [note.partition(" at ")[0] for note in state.notes] == [f"{solver} stalled"]


def test_the_whole_ladder(replace):
    """It ends at the direct solver; exhausted, it returns the best and says so, or cannot begin."""
    rhs = random_block(N, 2, seed=9)
    cold = factored(PLAIN, "jacobi").solve(rhs).iterations
    replace("ic", max_iter=15)
    # The next method starts where the last one stalled.
    assert 0 < factored(PLAIN, "ic").solve(rhs).iterations < cold
    replace("amg")
    replace("jacobi", max_iter=2)
    lap, notes = CASES["paper-2d"], ["amg could not be prepared: no room"]
    state, other = factored(lap, "amg"), factored(lap, "direct")
    assert (state.solver, state.notes) == ("jacobi", notes)
    # Another state moves to where this one stands, and back.
    other.move_to(state.ladder, state.notes)
    assert (other.solver, other.ladder, other.notes) == ("jacobi", ("jacobi", "direct"), notes)
    other.move_to(("direct",), [])
    assert (other.solver, other.ladder, other.notes) == ("direct", ("direct",), [])
    for wrong in ((), ("jacobi", "lu")):
        with pytest.raises(ValueError, match=r"ladder must hold names of direct, .*got \("):
            other.move_to(wrong, [])
    result = state.solve(lap @ random_block(lap.shape[0], 2, seed=3))
    assert (result.solver, result.status) == ("direct", "converged")
    assert "went on with direct" in state.notes[1]
    replace("direct")
    result = factored(PLAIN, "direct").solve(PLAIN @ random_block(N, 2, seed=3))
    assert (result.solver, result.status, result.iterations) == ("jacobi", "stalled", 2)
    assert 1e-10 < result.residual < 1.0
    assert np.isfinite(result.value).all()
    replace("jacobi")
    with pytest.raises(RuntimeError, match=r"No solver could be prepared: .*no room"):
        factored(PLAIN, "direct")


def test_what_the_direct_solver_hands_over(monkeypatch):
    # Two vertices joined only through a difference of differences: the kernel holds more than constants.
    d = matrix([1, -2, 1, 0], [0, 1, -2, 1])
    lap = sp.csr_array(d.T @ d)
    state = factored(lap, "direct")
    result = state.solve(lap @ np.array([[1.0], [0.0], [0.0], [2.0]]))
    assert (result.solver, result.status) == ("jacobi", "converged")
    assert "not positive definite" in state.notes[0]
    monkeypatch.setattr(_methods, "banded_factor", lambda *_: None)
    monkeypatch.setattr(_cholesky, "MAX_FILL", 100)
    assert "more than 100 entries" in factored(PLAIN, "direct").notes[0]


def test_input_is_not_changed_formats_agree_and_stored_zeros_do_not_join():
    rhs = random_block(N, 2, seed=6)
    expected = factored(PLAIN).solve(rhs).value
    frozen = PLAIN.copy()
    for other in (PLAIN.tocsc(), PLAIN.tocoo(), sp.csr_matrix(PLAIN)):
        np.testing.assert_array_equal(factored(other).solve(np.asfortranarray(rhs)).value, expected)
    assert (frozen != PLAIN).nnz == 0
    lap = sp.block_diag([matrix([1, -1], [-1, 1])] * 2, format="coo")
    data, places = np.append(lap.data, [0.0, 0.0]), np.hstack([(lap.row, lap.col), [(1, 2), (2, 1)]])
    assert list(prepare_laplacian(sp.coo_array((data, places), shape=(4, 4))).sizes) == [2.0, 2.0]


WRONG = [
    (PLAIN.toarray(), {}, "scipy sparse matrix, got ndarray"),
    (sp.csr_array((2, 3)), {}, r"square and not empty, got shape \(2, 3\)"),
    (matrix([1, 0], [0, 1]), {}, "row 0 sums to 1"),
    (matrix([1, -1], [-2, 2]), {}, r"symmetric, but entry \(0, 1\)"),
    (matrix([1, -1], [-1, np.nan]), {}, "not finite, the first in row 1, column 1: nan"),
    (matrix([1, -1], [-1, np.inf]), {}, "not finite, the first in row 1, column 1: inf"),
    (matrix([1, -1, 0], [0, 1, -1], [-1, 0, 1]), {}, r"symmetric, but entry \(0, 1\)"),
    (PLAIN, {"solver": "lu"}, r"solver must be one of 'auto', .*got 'lu'"),
    (PLAIN, {"tol": 0}, r"tol must lie between 0 and 1, got 0"),
]


@pytest.mark.parametrize("many", [0, 10**6])
def test_wrong_matrices(monkeypatch, many):
    """By compiled code and without, which find the same where nothing is wrong."""
    monkeypatch.setattr(_laplacian, "_MANY", many)
    for laplacian, options, message in WRONG:
        with pytest.raises((TypeError, ValueError), match=message):
            factored(laplacian, **options)
    for lap in CASES.values():
        found = prepare_laplacian(lap)
        assert found.norm == (abs(sp.csr_array(lap)) @ np.ones(lap.shape[0])).max()
        np.testing.assert_array_equal(found.diagonal, lap.diagonal())


def test_wrong_blocks():
    state, bad = factored(PLAIN), np.zeros((N, 2))
    bad[4, 1] = np.inf
    with pytest.raises(ValueError, match=rf"rhs must have shape \({N}, N\), got \({N},\)"):
        state.solve(np.zeros(N))
    with pytest.raises(ValueError, match="rhs must be finite, but row 4, column 1 is inf"):
        state.solve(bad)


def test_direct_solution_is_refined_once(monkeypatch):
    exact = _cholesky.Factor.solve
    monkeypatch.setattr(_methods, "banded_factor", lambda *_: None)
    monkeypatch.setattr(_cholesky.Factor, "solve", lambda *args: (1 + 1e-7) * exact(*args))
    rhs = random_block(N, 2, seed=6)
    state = factored(PLAIN, "direct")
    assert state.solve(rhs, tol=1e-6).iterations == 0
    result = state.solve(rhs, tol=1e-10)
    assert (result.iterations, result.status, result.solver) == (1, "converged", "direct")
    # 1e-14 by the refinement, 1e-12 by rounding: close points have weights far above the rest.
    assert result.residual < 1e-11
    assert state.notes == []
    monkeypatch.undo()
    # Residuals at rounding level count as converged.
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


LAP = edge_matrix(60, dim=3, k=4, power=1.0)
RHS = random_block(60, 3, seed=11)


def anchored(held, pulled=(), pull=(), solver="auto"):
    held, pulled = np.array(held, dtype=int), np.array(pulled, dtype=int)
    return factor_anchored(LAP, held, pulled, np.array(pull, dtype=float), solver=solver)


@each_solver
@pytest.mark.parametrize(("held", "pulled"), [([7, 8, 30, 51], []), ([], [3, 20, 21]), ([0, 59], [5, 6, 40])])
def test_anchors_agree_with_dense_elimination(solver, held, pulled):
    pull = np.random.default_rng(12).uniform(0.1, 5.0, size=len(pulled))
    result = anchored(held, pulled, pull, solver).solve(RHS)
    dense = LAP.toarray()
    dense[pulled, pulled] += pull
    free = np.setdiff1d(np.arange(60), held)
    expected = np.zeros_like(RHS)
    expected[free] = np.linalg.solve(dense[np.ix_(free, free)], RHS[free])
    assert result.status == "converged"
    np.testing.assert_allclose(result.value, expected, atol=1e-7 * np.abs(expected).max())
    assert np.all(result.value[held] == 0.0)


def test_held_vertices():
    """Their rows do not count; all of them are zero; there must be some."""
    changed = RHS.copy()
    changed[[4, 9]] = 1e3
    state = anchored([4, 9])
    np.testing.assert_array_equal(state.solve(RHS).value, state.solve(changed).value)
    for solver in SOLVERS:
        everything = anchored(range(60), solver=solver)
        assert not everything.solve(RHS).value.any()
        assert everything.notes == []
    with pytest.raises(ValueError, match="At least one vertex must be held or pulled"):
        anchored([])


@cache
def uniform(n, dim, k):
    return edge_matrix(n, dim, k, seed=31, power=0.0)


def sheet_with_hub(n):
    graph = neighbors(n, 2, 8, 31, 0.0).to_matrix().tolil()
    graph[0, 5::5] = graph[5::5, 0] = 1.0
    return sp.csr_array(laplacian_of((sp.csr_array(graph) != 0).astype(float)))


@pytest.mark.parametrize(
    ("make", "solver"),
    [
        (lambda: uniform(500, 8, 12), "direct"),
        (lambda: uniform(1500, 2, 12), "direct"),
        (lambda: uniform(1500, 9, 12), "jacobi"),
        (lambda: uniform(6000, 2, 12), "amg"),
        (lambda: sheet_with_hub(6000), "amg"),
        (lambda: uniform(6000, 9, 12), "jacobi"),
    ],
    ids=["tiny", "small", "small of many", "surface", "surface with a hub", "many dimensions"],
)
def test_choice(make, solver):
    """By the size, then by how many edges the vertices are apart, but not through hubs."""
    lap = make()
    choice, state = choose_solver(lap), factored(lap)
    assert (choice.solver, bool(choice.reason)) == (solver, True)
    assert (state.choice, state.solver) == (choice, solver)
    result = state.solve(random_block(lap.shape[0], 2, seed=4), tol=1e-6)
    assert (result.solver, result.status) == (solver, "converged")
    assert result.iterations < 60


@pytest.mark.parametrize("kind", [Jacobi, IncompleteCholesky, Multigrid])
def test_preconditioners_are_symmetric_and_positive(kind):
    lap = prepare_laplacian(uniform(900, 2, 8))
    block = lap.project(random_block(900, 6, seed=13), TEAM)
    applied = np.empty_like(block)
    kind(lap, TEAM).apply(block, applied)
    gram = block.T @ applied
    np.testing.assert_allclose(gram, gram.T, atol=1e-10 * np.abs(gram).max())
    assert np.linalg.eigvalsh(gram).min() > 0


def test_incomplete_factor(monkeypatch):
    """Exact with nothing dropped; a larger diagonal where pivots fail, and an end to that."""
    monkeypatch.setattr(IncompleteCholesky, "drop_tol", 0.0)
    lap = prepare_laplacian(uniform(30, 2, 4))
    pre, dense = IncompleteCholesky(lap, TEAM), lap.to_matrix().toarray()
    dense[lap.ground, lap.ground] *= 2.0
    assert pre.shift == 0.0
    block, out = random_block(30, 2, seed=3), np.empty((30, 2))
    pre.apply(block, out)
    np.testing.assert_allclose(out, np.linalg.solve(dense, block), rtol=1e-9)
    # There is not room for all, though nothing is small enough to be dropped.
    assert IncompleteCholesky(prepare_laplacian(uniform(300, 2, 8)), TEAM).shift == 0.0
    # Positive off-diagonals make a bad incomplete factor: d^T d of second differences on a cycle.
    monkeypatch.setattr(IncompleteCholesky, "drop_tol", 0.2)
    d = sp.csr_array(2 * np.eye(40) - np.roll(np.eye(40), 1, axis=0) - np.roll(np.eye(40), -1, axis=0))
    assert IncompleteCholesky(prepare_laplacian(d @ d @ d @ d), TEAM).shift > 0.0
    indefinite = prepare_laplacian(matrix([1, -4, 3], [-4, 2, 2], [3, 2, -5]))
    with pytest.raises(PreparationError, match="pivot of vertex"):
        IncompleteCholesky(indefinite, TEAM)
    with pytest.raises(PreparationError, match="not positive at 1 vertices, the first is 2"):
        Jacobi(indefinite, TEAM)
