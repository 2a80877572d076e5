"""The paper's recursion against a dense version of itself."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from isoweave.energy import build_laplacian
from isoweave.optimise import alternate
from reference_graphs import random_rotations
from reference_operators import divergence_loop, energy_loop, inner_matrix
from reference_problems import make_problem

CASES = pytest.mark.parametrize(
    ("kind", "n_components"), [("edge", 2), ("hub", 2), ("paper", 1), ("paper", 2), ("paper", 3)]
)


def sweep_dense(problem, alignments):
    """Poisson problem by a pseudo-inverse, then the best rotations by SVD."""
    graph = problem.graph
    flux = np.zeros_like(problem.frames.rows)
    for i in range(graph.n_vertices):
        at = slice(graph.indptr[i], graph.indptr[i + 1])
        flux[at] = inner_matrix(graph, problem.inner, i) @ problem.frames.rows[at] @ alignments[i]
    laplacian = build_laplacian(graph, problem.inner).toarray()
    coordinates = np.linalg.pinv(laplacian, rcond=1e-12, hermitian=True) @ divergence_loop(graph, flux)
    energies, rotations, _ = energy_loop(graph, problem.frames, problem.inner, coordinates)
    return coordinates, energies.sum(), rotations


@CASES
def test_first_sweeps_agree_with_dense_algebra(kind, n_components):
    problem, rng = make_problem(kind, n_components)
    alignments = random_rotations(50, n_components, rng)
    result = alternate(problem, alignments, tol=1e-12, max_iter=3)
    for record in result.history:
        coordinates, energy, rotations = sweep_dense(problem, alignments)
        assert record.energy == pytest.approx(energy, rel=1e-8)
        turns = np.einsum("irk,irc->ikc", alignments, rotations) - np.eye(n_components)
        error = np.sqrt(np.mean([np.linalg.norm(turn, 2) ** 2 for turn in turns]))
        assert record.gradient_norm == pytest.approx(error, rel=1e-5, abs=1e-6)
        alignments = rotations
    np.testing.assert_allclose(result.coordinates, coordinates, atol=1e-7 * np.abs(coordinates).max())


@CASES
def test_energy_never_rises_and_the_end_is_a_fixed_point(kind, n_components):
    problem, _ = make_problem(kind, n_components)
    result = alternate(problem, np.tile(np.eye(n_components), (50, 1, 1)), tol=1e-8, max_iter=30_000)
    energies = [record.energy for record in result.history]
    assert all(later <= earlier for earlier, later in pairwise(energies))
    assert result.status in ("converged", "stalled")
    again = problem.integrate(result.alignments)
    again -= again.mean(axis=0)
    np.testing.assert_allclose(again, result.coordinates, atol=1e-4 * np.abs(again).max())


def test_stops_by_the_papers_rule():
    problem, _ = make_problem("edge", 2)
    start = np.tile(np.eye(2), (50, 1, 1))
    result = alternate(problem, start, tol=1e-3, max_iter=10_000)
    assert result.status == "converged"
    assert result.history[-1].gradient_norm < 1e-3
    assert all(record.gradient_norm >= 1e-3 for record in result.history[:-1])


def test_limit_and_callback():
    problem, rng = make_problem("paper", 2)
    start = random_rotations(50, 2, rng)
    result = alternate(problem, start, tol=1e-14, max_iter=4)
    assert result.status == "max_iter"
    assert result.n_iter == 4
    seen = []

    def stop(state):
        seen.append((state.stage, state.iteration))
        return state.iteration == 2

    stopped = alternate(problem, start, tol=1e-14, callback=stop)
    assert stopped.status == "stopped"
    assert seen == [("recursion", 1), ("recursion", 2)]
    assert stopped.energy == result.history[2].energy
