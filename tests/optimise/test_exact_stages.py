"""Exact frames give back the points: every stage by hand, N = 1 .. 10."""

from __future__ import annotations

import numpy as np
import pytest

from isoweave._parallel import ThreadTeam
from isoweave.energy import RankInnerProduct, edge_inner_product
from isoweave.graph import connected_components
from isoweave.metrics import procrustes_error
from isoweave.optimise import alternate, build_problem, minimize_energy, synchronized_alignments
from reference_graphs import knn_of
from reference_problems import exact_frames

TEAM = ThreadTeam(1)


def exact_problem(n_components, kind):
    """Sparse kNN graph, frames from the true positions in random axes per vertex."""
    rng = np.random.default_rng(491 + n_components)
    points = rng.uniform(size=(120, n_components))
    if n_components == 1:
        # Random points of a line leave gaps no neighbourhood reaches across.
        points = (np.arange(120.0)[:, None] + 0.8 * points) / 120.0
    graph = knn_of(points, max(5, 2 * n_components + 2))
    assert connected_components(graph)[0] == 1
    frames, turns = exact_frames(graph, points, rng, with_inverse=True)
    inner = edge_inner_product(graph, frames) if kind == "edge" else RankInnerProduct(frames.inverse)
    return points, turns, build_problem(graph, frames, inner, team=TEAM, solver="direct")


@pytest.mark.parametrize("n_components", range(1, 11))
@pytest.mark.parametrize("kind", ["edge", "paper"])
def test_synchronised_rotations_integrate_to_the_points(n_components, kind):
    points, turns, problem = exact_problem(n_components, kind)
    true = problem.integrate(np.ascontiguousarray(turns))
    assert procrustes_error(points, true) <= 1e-20
    alignments = synchronized_alignments(problem.graph, problem.frames, TEAM)
    result = minimize_energy(problem, problem.integrate(alignments))
    assert procrustes_error(points, result.coordinates) <= 1e-20
    assert result.energy <= 1e-20 * problem.mass
    assert result.status in ("converged", "stalled")


@pytest.mark.parametrize("n_components", range(1, 11))
@pytest.mark.parametrize("kind", ["edge", "paper"])
def test_from_a_distorted_start(n_components, kind):
    """Within the basin of the truth the default tolerance runs on to rounding."""
    points, _, problem = exact_problem(n_components, kind)
    noise = np.random.default_rng(499).normal(size=points.shape)
    result = minimize_energy(problem, points + 0.05 * problem.graph.lengths.min() * noise)
    assert procrustes_error(points, result.coordinates) <= 1e-20


@pytest.mark.parametrize("n_components", [1, 2, 3])
def test_the_recursion_gets_there_too(n_components):
    points, _, problem = exact_problem(n_components, "paper")
    noise = np.random.default_rng(503).normal(size=points.shape)
    alignments = problem.evaluate(points + 0.05 * problem.graph.lengths.min() * noise).alignments
    result = alternate(problem, alignments, tol=1e-12, max_iter=20_000)
    assert procrustes_error(points, result.coordinates) <= 1e-18


@pytest.mark.parametrize("n_components", [2, 3])
def test_wrong_frames_are_not_recovered(n_components):
    """Frames one percent too long in places: the error is seen, so the tests above can fail."""
    points, _, problem = exact_problem(n_components, "edge")
    problem.frames.rows[::7] *= 1.01
    result = minimize_energy(problem, points)
    assert procrustes_error(points, result.coordinates) > 1e-10
