"""The energy: loops, finite differences, and the identities of its two half steps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from isoweave._parallel import ThreadTeam
from isoweave.energy import build_laplacian, edge_inner_product
from isoweave.geometry import local_frames
from isoweave.optimise import build_problem
from reference_graphs import knn_of, random_rotations
from reference_operators import energy_loop
from reference_problems import make_problem

TEAM = ThreadTeam(1)


CASES = pytest.mark.parametrize(
    ("kind", "n_components"),
    [
        ("edge", 1),
        ("edge", 2),
        ("edge", 3),
        ("edge", 5),
        ("hub", 2),
        ("paper", 1),
        ("paper", 2),
        ("paper", 3),
    ],
)


@CASES
def test_agrees_with_the_loop(kind, n_components):
    problem, rng = make_problem(kind, n_components)
    coordinates = rng.normal(size=(50, n_components))
    here = problem.evaluate(coordinates)
    energies, rotations, half_gradient = energy_loop(
        problem.graph, problem.frames, problem.inner, coordinates
    )
    np.testing.assert_allclose(here.energies, energies, rtol=1e-10)
    assert here.energy == pytest.approx(energies.sum(), rel=1e-12)
    np.testing.assert_allclose(here.half_gradient, half_gradient, atol=1e-10 * np.abs(half_gradient).max())
    np.testing.assert_allclose(
        np.einsum("irk,irc->ikc", here.alignments, here.alignments),
        np.eye(n_components) + 0 * rotations,
        atol=1e-12,
    )


@CASES
def test_alignments_are_the_best_ones(kind, n_components):
    """No other rotations have less energy; those next to the best have more."""
    problem, rng = make_problem(kind, n_components)
    coordinates = rng.normal(size=(50, n_components))
    here = problem.evaluate(coordinates)
    parts = problem.graph, problem.frames, problem.inner, coordinates
    np.testing.assert_allclose(energy_loop(*parts, here.alignments)[0], here.energies, rtol=1e-10)
    for _ in range(5):
        others = random_rotations(50, n_components, rng)
        assert np.all(energy_loop(*parts, others)[0] >= here.energies * (1 - 1e-12))


@CASES
def test_gradient_against_finite_differences(kind, n_components):
    problem, rng = make_problem(kind, n_components)
    coordinates = rng.normal(size=(50, n_components))
    gradient = 2.0 * problem.evaluate(coordinates).half_gradient
    # Central differences of a smooth function: the error is of the order h^2 plus rounding over h.
    h = 1e-5
    for _ in range(6):
        direction = rng.normal(size=coordinates.shape)
        up = problem.evaluate(coordinates + h * direction).energy
        down = problem.evaluate(coordinates - h * direction).energy
        assert (up - down) / (2 * h) == pytest.approx(np.sum(gradient * direction), rel=1e-6, abs=1e-6)
    for i, c in ((0, 0), (9, n_components - 1), (33, 0)):
        step = np.zeros_like(coordinates)
        step[i, c] = h
        up, down = problem.evaluate(coordinates + step).energy, problem.evaluate(coordinates - step).energy
        assert (up - down) / (2 * h) == pytest.approx(gradient[i, c], rel=1e-5, abs=1e-5)


@CASES
def test_gradient_is_that_of_the_quadratic_form_at_the_best_rotations(kind, n_components):
    """Half gradient = L phi - div(W E Q), hence zero at the integral of its own alignments."""
    problem, rng = make_problem(kind, n_components)
    alignments = random_rotations(50, n_components, rng)
    coordinates = problem.integrate(alignments)
    _, _, half_gradient = energy_loop(problem.graph, problem.frames, problem.inner, coordinates, alignments)
    scale = np.abs(build_laplacian(problem.graph, problem.inner) @ coordinates).max()
    np.testing.assert_allclose(half_gradient, 0.0, atol=1e-9 * scale)
    np.testing.assert_allclose(coordinates.mean(axis=0), 0.0, atol=1e-12)


@CASES
def test_integration_minimises_over_the_coordinates(kind, n_components):
    problem, rng = make_problem(kind, n_components)
    alignments = random_rotations(50, n_components, rng)
    coordinates = problem.integrate(alignments)
    parts = problem.graph, problem.frames, problem.inner
    least = energy_loop(*parts, coordinates, alignments)[0].sum()
    for size in (1e-3, 1e-1):
        moved = coordinates + size * rng.normal(size=coordinates.shape)
        assert energy_loop(*parts, moved, alignments)[0].sum() > least


@CASES
def test_after_an_exact_solve_no_common_rotation_is_left(kind, n_components):
    """The sum of the turned B_i is phi^T L phi: symmetric and positive semi-definite (Q_0 = I)."""
    problem, rng = make_problem(kind, n_components)
    graph, frames = problem.graph, problem.frames
    for alignments in (np.tile(np.eye(n_components), (50, 1, 1)), random_rotations(50, n_components, rng)):
        coordinates = problem.integrate(alignments)
        total = np.zeros((n_components, n_components))
        for i in range(50):
            at = slice(graph.indptr[i], graph.indptr[i + 1])
            steps = coordinates[graph.indices[at]] - coordinates[i]
            if kind == "paper":
                p = problem.inner.inverse[at]
                b = (p.T @ frames.rows[at]).T @ (p.T @ steps)
            else:
                b = frames.rows[at].T @ (problem.inner.weights[at, None] * steps)
            total += alignments[i].T @ b
        scale = np.abs(total).max()
        expected = coordinates.T @ (build_laplacian(graph, problem.inner) @ coordinates)
        np.testing.assert_allclose(total, expected, atol=1e-9 * scale)
        np.testing.assert_allclose(total, total.T, atol=1e-9 * scale)
        assert np.linalg.eigvalsh(0.5 * (total + total.T))[0] >= -1e-9 * scale


@CASES
def test_energy_does_not_see_rigid_motions(kind, n_components):
    problem, rng = make_problem(kind, n_components)
    coordinates = rng.normal(size=(50, n_components))
    here = problem.evaluate(coordinates)
    turn = random_rotations(1, n_components, rng)[0]
    there = problem.evaluate(coordinates @ turn + 3.0)
    assert there.energy == pytest.approx(here.energy, rel=1e-11)
    np.testing.assert_allclose(there.alignments, here.alignments @ turn, atol=1e-8)


@CASES
def test_energy_does_not_see_the_gauge_of_the_frames(kind, n_components):
    """Axes of a frame are arbitrary: rows times an orthogonal matrix per vertex."""
    problem, rng = make_problem(kind, n_components)
    turns = random_rotations(50, n_components, rng)
    rows = np.einsum("er,erc->ec", problem.frames.rows, turns[problem.graph.sources])
    turned = replace(problem, frames=replace(problem.frames, rows=rows))
    coordinates = rng.normal(size=(50, n_components))
    here, there = problem.evaluate(coordinates), turned.evaluate(coordinates)
    np.testing.assert_allclose(there.energies, here.energies, rtol=1e-9)
    np.testing.assert_allclose(there.half_gradient, here.half_gradient, atol=1e-9)


@CASES
def test_mass_is_the_energy_of_the_collapsed_map(kind, n_components):
    problem, _ = make_problem(kind, n_components)
    expected = 0.0
    for e in range(len(problem.graph.indices)):
        if kind != "paper":
            expected += problem.inner.weights[e] * np.sum(problem.frames.rows[e] ** 2)
    if kind == "paper":
        zero = np.zeros((50, n_components))
        expected = energy_loop(problem.graph, problem.frames, problem.inner, zero)[0].sum()
    assert problem.mass == pytest.approx(expected, rel=1e-11)


def test_tiny_energies_keep_their_digits():
    """Summed from residuals, not from a difference of norms: exact data reach rounding squared."""
    points = np.random.default_rng(409).normal(size=(25, 2))
    graph = knn_of(points, 24)
    frames = local_frames(graph, 2, team=TEAM)
    problem = build_problem(graph, frames, edge_inner_product(graph, frames), team=TEAM)
    assert problem.evaluate(points).energy < 1e-25 * problem.mass
