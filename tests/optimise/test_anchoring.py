"""Anchors in the energy, and the energy of the distances: loops, dense algebra, finite differences."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from isoweave.energy import build_laplacian, edge_inner_product
from isoweave.optimise import Anchoring, build_problem, distance_problem, minimize_energy, rigid_motion
from reference_graphs import edges_of, knn_of, random_rotations
from reference_operators import energy_loop
from reference_problems import TEAM, exact_frames, make_problem


def anchored(kind, n_components, hard=(3, 20), soft=(5, 33, 41)):
    free, rng = make_problem(kind, n_components)
    vertices = np.array([*hard, *soft])
    weights = np.concatenate([np.full(len(hard), np.inf), rng.uniform(0.5, 3.0, size=len(soft))])
    anchoring = Anchoring(vertices, rng.normal(size=(len(vertices), n_components)), weights)
    problem = build_problem(
        free.graph, free.frames, free.inner, team=TEAM, solver="direct", anchoring=anchoring
    )
    return free, problem, anchoring, rng


CASES = pytest.mark.parametrize(
    ("kind", "n_components"), [("edge", 1), ("edge", 2), ("edge", 3), ("paper", 2)]
)


@CASES
def test_energy_is_that_of_the_frames_and_the_pulls(kind, n_components):
    free, problem, anchors, rng = anchored(kind, n_components)
    x = problem.settle(rng.normal(size=(50, n_components)))
    energies, _, _ = energy_loop(free.graph, free.frames, free.inner, x)
    pulls = sum(
        w * np.sum((x[v] - p) ** 2)
        for v, p, w in zip(anchors.vertices, anchors.places, anchors.weights, strict=True)
        if np.isfinite(w)
    )
    here = problem.evaluate(x)
    assert here.energy == pytest.approx(energies.sum() + pulls, rel=1e-12)
    np.testing.assert_array_equal(x[anchors.held], anchors.places[:2])
    assert problem.mass == free.mass


@CASES
def test_gradient_against_finite_differences(kind, n_components):
    _, problem, anchors, rng = anchored(kind, n_components)
    x = problem.settle(rng.normal(size=(50, n_components)))
    gradient = 2.0 * problem.evaluate(x).half_gradient
    assert np.all(gradient[anchors.held] == 0.0)
    h = 1e-5
    for _ in range(6):
        direction = rng.normal(size=x.shape)
        direction[anchors.held] = 0.0
        up, down = problem.evaluate(x + h * direction).energy, problem.evaluate(x - h * direction).energy
        assert (up - down) / (2 * h) == pytest.approx(np.sum(gradient * direction), rel=1e-6, abs=1e-6)


@CASES
def test_integration_solves_the_constrained_problem(kind, n_components):
    """Dense elimination of the hard anchors, the soft ones on the diagonal (eqs. 20, 21)."""
    free, problem, anchors, rng = anchored(kind, n_components)
    turns = random_rotations(50, n_components, rng)
    laplacian = build_laplacian(free.graph, free.inner).toarray()
    # The gradient at zero with these turns is minus the right-hand side.
    rhs = -energy_loop(free.graph, free.frames, free.inner, np.zeros((50, n_components)), turns)[2]
    soft = ~anchors.is_hard
    laplacian[anchors.pulled, anchors.pulled] += anchors.pull
    rhs[anchors.pulled] += anchors.pull[:, None] * anchors.places[soft]
    others = np.setdiff1d(np.arange(50), anchors.held)
    expected = np.zeros((50, n_components))
    expected[anchors.held] = anchors.places[~soft]
    rhs -= laplacian @ expected
    expected[others] = np.linalg.solve(laplacian[np.ix_(others, others)], rhs[others])
    np.testing.assert_allclose(problem.integrate(turns), expected, atol=1e-8)


@pytest.mark.parametrize("n_components", [1, 2, 3])
def test_minimum_with_exact_frames_is_the_truth(n_components):
    rng = np.random.default_rng(5)
    points = rng.normal(size=(60, n_components))
    graph = knn_of(points, n_components + 5)
    frames, _ = exact_frames(graph, points, rng)
    inner = edge_inner_product(graph, frames)
    vertices = np.array([2, 9, 17, 30, 44])
    weights = np.array([np.inf, np.inf, np.inf, 2.0, np.inf])
    anchoring = Anchoring(vertices, points[vertices], weights)
    problem = build_problem(graph, frames, inner, team=TEAM, anchoring=anchoring)
    start = points + 0.1 * rng.normal(size=points.shape)
    result = minimize_energy(problem, start, tol=1e-9)
    np.testing.assert_allclose(result.coordinates, points, atol=1e-6)
    np.testing.assert_array_equal(result.coordinates[vertices[:3]], points[vertices[:3]])


def test_energy_never_rises_with_anchors():
    _, problem, anchors, rng = anchored("edge", 2)
    result = minimize_energy(problem, rng.normal(size=(50, 2)), tol=1e-6)
    energies = [record.energy for record in result.history]
    assert all(b <= a for a, b in pairwise(energies))
    assert result.status == "converged"
    # Stationary in every free coordinate.
    half = problem.evaluate(result.coordinates).half_gradient
    assert np.abs(half).max() < 1e-4 * np.sqrt(problem.mass)
    np.testing.assert_array_equal(result.coordinates[anchors.held], anchors.places[:2])


@pytest.mark.parametrize("n_components", [1, 2, 3])
def test_laying_on_finds_motions_and_reflections(n_components):
    rng = np.random.default_rng(8)
    points = rng.normal(size=(20, n_components))
    turn = random_rotations(1, n_components, rng)[0]
    moved = points @ turn + 3.0
    vertices = np.arange(0, 20, 3)
    anchoring = Anchoring(vertices, moved[vertices], np.where(vertices % 2, np.inf, 0.5))
    np.testing.assert_allclose(anchoring.lay_on(points), moved, atol=1e-9)


def test_weighted_motion_prefers_heavy_points():
    rng = np.random.default_rng(9)
    points = rng.normal(size=(6, 2))
    target = points.copy()
    target[5] += 1.0
    weights = np.array([1e6] * 5 + [1.0])
    rotation, shift = rigid_motion(points, target, weights)
    np.testing.assert_allclose((points @ rotation + shift)[:5], target[:5], atol=1e-4)
    same, _ = rigid_motion(points, target, np.full(6, 3.0))
    np.testing.assert_allclose(same, rigid_motion(points, target)[0], atol=1e-12)


@pytest.mark.parametrize("n_components", [1, 2, 3])
def test_distances_against_loop_and_differences(n_components):
    free, rng = make_problem("edge", n_components)
    problem = distance_problem(free)
    x = rng.normal(size=(50, n_components))
    weight = dict(
        zip(
            zip(free.graph.sources.tolist(), free.graph.indices.tolist(), strict=True),
            free.inner.weights,
            strict=True,
        )
    )
    expected = sum(
        (weight[i, j] + weight[j, i]) * (np.linalg.norm(x[i] - x[j]) - d) ** 2
        for i, j, d in edges_of(free.graph)
    )
    here = problem.evaluate(x)
    assert here.energy == pytest.approx(expected, rel=1e-12)
    assert here.energies.sum() == pytest.approx(expected, rel=1e-12)
    h = 1e-6
    for _ in range(6):
        direction = rng.normal(size=x.shape)
        slope = (problem.evaluate(x + h * direction).energy - problem.evaluate(x - h * direction).energy) / (
            2 * h
        )
        assert slope == pytest.approx(2.0 * np.sum(here.half_gradient * direction), rel=1e-5, abs=1e-5)


def test_distances_of_the_truth_cost_nothing():
    rng = np.random.default_rng(12)
    points = rng.normal(size=(60, 2))
    graph = knn_of(points, 8)
    frames, _ = exact_frames(graph, points, rng)
    problem = distance_problem(build_problem(graph, frames, edge_inner_product(graph, frames), team=TEAM))
    assert problem.evaluate(points).energy < 1e-25
    result = minimize_energy(problem, points + 0.05 * rng.normal(size=points.shape), tol=1e-10)
    assert result.energy < 1e-16 * problem.mass


def test_ends_in_one_place_do_not_divide_by_zero():
    free, rng = make_problem("edge", 2)
    problem = distance_problem(free)
    x = rng.normal(size=(50, 2))
    j = free.graph.indices[free.graph.indptr[7]]
    x[7] = x[j]
    here = problem.evaluate(x)
    assert np.isfinite(here.half_gradient).all()
    assert problem.mass == pytest.approx(np.sum(free.inner.weights * free.graph.lengths**2))


def test_distances_need_a_weight_per_edge():
    free, _ = make_problem("paper", 2)
    with pytest.raises(ValueError, match="edge inner product"):
        distance_problem(free)
