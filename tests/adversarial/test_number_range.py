"""Stages at the ends of the number range, each met first as a failure of the random graphs; and the energy.

It never rises, and is what it is said to be: on random graphs of 8 to 24 vertices, both optimisers, both
inner products and all solvers, with a tolerance that only rounding ends. Every step's energy is compared with
the one before, and every fiftieth with the energy that plain numpy finds at the coordinates of the step.
"""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from adversarial_graphs import SMALLEST, cycle, path, plane, with_lengths
from isoweave import embed_graph
from isoweave._parallel import ONE_THREAD, thread_team
from isoweave.energy import edge_energy, paper_energy
from isoweave.geometry import calibrate_frames, local_frames
from isoweave.linalg import _state, factor
from isoweave.optimise import LBFGS, Alternating, Run, UnsolvedError, build_problem, minimise
from reference_graphs import distance_gap, knn_of, random_sparse
from reference_loops import energy_loop


def test_lengths_whose_sums_or_squares_are_no_numbers():
    """Two middle lengths whose sum overflows, a map or a start larger than any number, the energy of both."""
    expected = embed_graph(cycle(4), 2)
    for length in (1e308, 1.7e308, np.finfo(float).max):
        result = embed_graph(cycle(4, length), 2)
        # Every bit of the length takes part, and a square may be turned.
        assert distance_gap(expected.coordinates, result.coordinates / length) < 1e-6
        assert result.relative_energy == pytest.approx(expected.relative_energy)
    text = r"median near 9e\+307\) extends beyond the largest number, 1.8e\+308"
    with pytest.raises(ValueError, match=text):
        embed_graph(path(9, 1e308), 1)
    assert embed_graph(path(9, 1e307), 1).relative_energy < 1e-20
    with pytest.raises(ValueError, match="start has coordinates of inf times the median distance"):
        embed_graph(cycle(16, SMALLEST), 2, start=np.ones((16, 2)))
    small, one, large = (embed_graph(cycle(16, length), 2) for length in (1e-200, 1.0, 1e200))
    assert small.energy == 0.0
    assert large.energy == np.inf
    assert small.relative_energy == pytest.approx(one.relative_energy)
    assert large.relative_energy == pytest.approx(one.relative_energy)


def test_a_solution_that_is_nan_never_wins_and_one_whose_norm_overflows_has_not_converged(monkeypatch):
    """The ladder's next method fails worse than the one before: what there was is kept."""
    laplacian = sp.csr_array(np.array([[2.0, -1.0, -1.0], [-1.0, 1.0, 0.0], [-1.0, 0.0, 1.0]]))
    rhs, original = np.array([[1.0], [-1.0], [0.0]]), _state.PoissonState._attempt

    def attempt(self, method, *args):
        result, residual = original(self, method, *args), 1e-3 if method.name == "jacobi" else np.nan
        return replace(result, value=result.value + residual, residual=residual, status="stalled")

    with monkeypatch.context() as patch:
        patch.setattr(_state.PoissonState, "_attempt", attempt)
        result = factor(laplacian, solver="jacobi").solve(rhs)
        assert np.isfinite(result.value).all()
        assert result.residual == 1e-3
    state = factor(laplacian, solver="direct")
    huge = 1e200 * np.array([[1.0], [-2.0], [1.0]])
    monkeypatch.setattr(type(state._method), "attempt", lambda self, rhs, guess, goal: (huge, 0))
    assert state._attempt(state._method, rhs, None, np.array([np.sqrt(2.0)]), 1e-10).status == "stalled"


def test_lengths_too_far_apart_for_the_papers_weights():
    """No solver can be prepared, or none leaves a digit; the edge inner product has no such limit."""
    matrix = with_lengths(plane(40, 6, 19), np.logspace(-30, 30, 7))
    with pytest.raises(UnsolvedError, match=r"factors up to 1.0e\+60; use inner_product='edge'"):
        embed_graph(matrix, 2, preset="paper")
    assert np.isfinite(embed_graph(matrix, 2).coordinates).all()


def one_run(rng, gaps):
    """Energies of a run; ``gaps`` gets the differences between logged and recomputed ones."""
    n, n_components = int(rng.integers(8, 25)), int(rng.integers(1, 5))
    graph = random_sparse(n, int(rng.integers(2 * n)), rng)
    # All alike, of some four orders, or from a metric.
    graph = replace(graph, lengths=graph.lengths ** rng.choice([0.0, 6.0]))
    if rng.random() < 0.3:
        graph = knn_of(rng.normal(size=(n, int(rng.integers(1, 5)))), n // 2)
    raw = local_frames(graph, n_components, team=ONE_THREAD, with_inverse=True)
    if rng.random() < 0.4:
        energy = paper_energy(graph, raw, rng.uniform(0.5, 2.0, n), team=ONE_THREAD)
    else:
        confidence = graph.lengths ** rng.choice([0.0, -1.0, -2.0])
        energy = edge_energy(graph, calibrate_frames(graph, raw), confidence=confidence, team=ONE_THREAD)
    solver = str(rng.choice(["direct", "jacobi", "ic", "amg"], p=[0.7, 0.1, 0.1, 0.1]))
    problem = build_problem(energy, solver=solver)

    def watch(state):
        # Edges without a row in a frame are distances, of which the loop knows nothing.
        if state.iteration % 50 == 1 and not getattr(energy, "free", np.empty(0)).size:
            recomputed = energy_loop(graph, energy.frames, energy, state.coordinates)[0].sum()
            gaps.append(abs(recomputed - state.energy) / problem.mass)

    optimiser = (Alternating if rng.random() < 0.6 else LBFGS)(1e-300, 400)
    result = minimise(optimiser, problem, rng.normal(size=(n, n_components)), run=Run(callback=watch))
    assert np.isfinite(result.coordinates).all()
    return np.array([record.energy for record in result.history])


@pytest.mark.parametrize("n_steps", [3_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_energy_never_rises(n_steps):
    rng, gaps, done = np.random.default_rng(79), [], 0
    with thread_team(1):
        while done < n_steps:
            energies = one_run(rng, gaps)
            assert (np.diff(energies) <= 0).all()
            done += len(energies) - 1
    assert len(gaps) > n_steps / 100
    # The recomputed energy is summed in another order.
    assert max(gaps) < 1e-9
