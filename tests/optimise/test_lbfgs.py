"""L-BFGS on the reduced energy: never rises, one plain step is one sweep, statuses, callbacks."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from isoweave.optimise import IterationState, alternate, minimize_energy
from isoweave.optimise import _lbfgs as module
from reference_graphs import distance_gap, random_rotations
from reference_problems import make_problem

CASES = pytest.mark.parametrize(
    ("kind", "n_components"), [("edge", 1), ("edge", 2), ("edge", 4), ("hub", 2), ("paper", 2), ("paper", 3)]
)


@CASES
@pytest.mark.parametrize("scale", [0.01, 1.0, 100.0])
def test_energy_never_rises(kind, n_components, scale):
    """From bad starts too: far too small, random, far too large."""
    problem, rng = make_problem(kind, n_components)
    start = scale * rng.normal(size=(50, n_components))
    result = minimize_energy(problem, start, tol=1e-6, max_iter=200)
    energies = [record.energy for record in result.history]
    assert all(later <= earlier for earlier, later in pairwise(energies))
    assert energies[-1] < energies[0]
    assert result.energy == energies[-1]
    assert [record.iteration for record in result.history] == sorted({r.iteration for r in result.history})


@CASES
def test_a_step_without_memory_is_one_sweep_of_the_recursion(kind, n_components):
    problem, rng = make_problem(kind, n_components)
    start = rng.normal(size=(50, n_components))
    step = minimize_energy(problem, start, tol=1e-9, max_iter=1)
    assert step.history[1].step == 1.0
    sweep = problem.integrate(problem.evaluate(start).alignments)
    np.testing.assert_allclose(step.coordinates, sweep, atol=1e-9 * np.abs(sweep).max())


@CASES
def test_ends_where_the_recursion_ends(kind, n_components):
    problem, _ = make_problem(kind, n_components)
    start = problem.integrate(np.tile(np.eye(n_components), (50, 1, 1)))
    # A first descent to the neighbourhood of a minimum, so that both go to the same one.
    near = minimize_energy(problem, start, tol=1e-3).coordinates
    fast = minimize_energy(problem, near, tol=1e-7, max_iter=2000)
    slow = alternate(problem, problem.evaluate(near).alignments, tol=1e-9, max_iter=20_000)
    assert fast.status == "converged"
    assert fast.energy == pytest.approx(slow.energy, rel=1e-5)
    # The recursion makes its first sweep before it counts.
    assert fast.n_iter <= slow.n_iter + 1


@CASES
def test_stationary_at_the_end(kind, n_components):
    problem, rng = make_problem(kind, n_components)
    result = minimize_energy(problem, rng.normal(size=(50, n_components)), tol=1e-6, max_iter=3000)
    assert result.status == "converged"
    here = problem.evaluate(result.coordinates)
    step = problem.poisson.solve(here.half_gradient).value
    size = np.sqrt(np.sum(step * here.half_gradient) / problem.mass)
    assert size <= 1e-6 * np.sqrt(here.energy / problem.mass) * (1 + 1e-6)
    assert result.history[-1].gradient_norm == pytest.approx(size, rel=1e-6)
    np.testing.assert_allclose(result.coordinates.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(result.alignments, here.alignments, atol=1e-8)


@CASES
def test_gauge_of_the_frames_changes_nothing(kind, n_components):
    problem, rng = make_problem(kind, n_components)
    turns = random_rotations(50, n_components, rng)
    rows = np.einsum("er,erc->ec", problem.frames.rows, turns[problem.graph.sources])
    turned = replace(problem, frames=replace(problem.frames, rows=rows))
    start = minimize_energy(problem, rng.normal(size=(50, n_components)), tol=1e-2).coordinates
    first, second = (minimize_energy(p, start, tol=1e-6, max_iter=1000) for p in (problem, turned))
    assert first.energy == pytest.approx(second.energy, rel=1e-9)
    assert distance_gap(first.coordinates, second.coordinates) < 1e-5
    # Alignments follow the gauge: rows times them are the same.
    turned_back = np.einsum("irk,irc->ikc", turns, first.alignments)
    for i in np.flatnonzero(problem.graph.degrees > n_components):
        at = slice(problem.graph.indptr[i], problem.graph.indptr[i + 1])
        np.testing.assert_allclose(rows[at] @ second.alignments[i], rows[at] @ turned_back[i], atol=1e-4)


def test_memory_takes_fewer_steps(monkeypatch):
    problem, rng = make_problem("edge", 2, n=120)
    start = rng.normal(size=(120, 2))
    fast = minimize_energy(problem, start, tol=1e-4, max_iter=3000)
    monkeypatch.setattr(module, "_MEMORY", 0)
    slow = minimize_energy(problem, start, tol=1e-4, max_iter=3000)
    assert fast.n_iter < 0.5 * slow.n_iter


def test_stops_at_the_limit():
    problem, rng = make_problem("edge", 2)
    result = minimize_energy(problem, rng.normal(size=(50, 2)), tol=1e-9, max_iter=3)
    assert result.status == "max_iter"
    assert result.n_iter == 3
    assert len(result.history) == 4


def test_callback_sees_every_step_and_can_stop():
    problem, rng = make_problem("edge", 2)
    seen = []

    def look(state):
        assert isinstance(state, IterationState)
        seen.append((state.stage, state.iteration, state.energy, state.gradient_norm))
        assert problem.evaluate(state.coordinates).energy == pytest.approx(state.energy, rel=1e-12)
        return len(seen) == 4

    result = minimize_energy(problem, rng.normal(size=(50, 2)), tol=1e-9, callback=look, stage="there")
    assert result.status == "stopped"
    assert [(s, i) for s, i, _, _ in seen] == [("there", i) for i in (1, 2, 3, 4)]
    assert [(e, g) for _, _, e, g in seen] == [(r.energy, r.gradient_norm) for r in result.history[1:]]
    assert result.energy == seen[-1][2]


def test_only_true_stops():
    problem, rng = make_problem("edge", 2)
    result = minimize_energy(problem, rng.normal(size=(50, 2)), tol=1e-3, callback=lambda state: None)
    assert result.status == "converged"


def test_start_at_the_minimum_is_recognised():
    problem, rng = make_problem("edge", 2)
    first = minimize_energy(problem, rng.normal(size=(50, 2)), tol=1e-6, max_iter=1000)
    again = minimize_energy(problem, first.coordinates + 5.0, tol=1e-5)
    assert again.status == "converged"
    assert again.n_iter == 0
    np.testing.assert_allclose(again.coordinates, first.coordinates, atol=1e-12)


def test_asking_for_the_impossible_ends():
    """A tolerance below rounding: stalls or converges to rounding, and does not loop to the limit."""
    problem, rng = make_problem("edge", 2)
    result = minimize_energy(problem, rng.normal(size=(50, 2)), tol=1e-300, max_iter=100_000)
    assert result.status in ("converged", "stalled")
    assert result.n_iter < 5000


def test_start_is_not_changed():
    problem, rng = make_problem("edge", 2)
    start = rng.normal(size=(50, 2))
    kept = start.copy()
    minimize_energy(problem, start, tol=1e-2)
    np.testing.assert_array_equal(start, kept)
