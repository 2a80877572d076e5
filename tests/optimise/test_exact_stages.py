"""Exact frames give back the points: every stage by hand, N = 1 .. 10."""

from __future__ import annotations

import numpy as np
import pytest

from isoweave.energy import PaperEnergy, edge_energy
from isoweave.graph import connected_components
from isoweave.metrics import procrustes_error
from isoweave.optimise import build_problem
from isoweave.optimise._starts import synchronized_alignments
from reference_graphs import knn_of
from reference_problems import TEAM, descend, exact_frames, recur

KINDS = pytest.mark.parametrize("kind", ["edge", "paper"])


def exact_problem(n_components, kind):
    """Sparse kNN graph, frames from the true positions in random axes per vertex; points near the truth."""
    rng = np.random.default_rng(491 + n_components)
    points = rng.uniform(size=(120, n_components))
    if n_components == 1:
        # Random points of a line leave gaps no neighbourhood reaches across.
        points = (np.arange(120.0)[:, None] + 0.8 * points) / 120.0
    graph = knn_of(points, max(5, 2 * n_components + 2))
    assert connected_components(graph)[0] == 1
    frames, turns = exact_frames(graph, points, rng, with_inverse=True)
    edges = edge_energy(graph, frames, team=TEAM)
    energy = edges if kind == "edge" else PaperEnergy(graph, frames, frames.inverse, TEAM)
    near = points + 0.05 * graph.lengths.min() * np.random.default_rng(499).normal(size=points.shape)
    return points, near, turns, build_problem(energy, solver="direct")


@pytest.mark.parametrize("n_components", range(1, 11))
@KINDS
def test_synchronized_rotations_integrate_to_the_points(n_components, kind):
    points, _, turns, problem = exact_problem(n_components, kind)
    assert procrustes_error(points, problem.integrate(np.ascontiguousarray(turns))) <= 1e-20
    alignments = synchronized_alignments(problem.graph, problem.frames.frames, TEAM)
    result = descend(problem, problem.integrate(alignments))
    assert procrustes_error(points, result.coordinates) <= 1e-20
    assert result.energy <= 1e-20 * problem.mass
    assert result.status in ("converged", "stalled")


@pytest.mark.parametrize("n_components", range(1, 11))
@KINDS
def test_from_a_distorted_start(n_components, kind):
    """Within the basin of the truth the default tolerance runs on to rounding."""
    points, near, _, problem = exact_problem(n_components, kind)
    assert procrustes_error(points, descend(problem, near).coordinates) <= 1e-20
    if kind == "paper" and n_components <= 3:
        recursion = recur(problem, near, tol=1e-12, max_iter=20_000)
        assert procrustes_error(points, recursion.coordinates) <= 1e-18


@pytest.mark.parametrize("n_components", [2, 3])
def test_wrong_frames_are_not_recovered(n_components):
    """Frames one percent too long in places: the error is seen, so the tests above can fail."""
    points, _, _, problem = exact_problem(n_components, "edge")
    problem.frames.frames.rows[::7] *= 1.01
    assert procrustes_error(points, descend(problem, points).coordinates) > 1e-10
