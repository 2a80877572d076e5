"""Singular values of the local differential."""

from __future__ import annotations

import numpy as np
import pytest

from isoweave.geometry import calibrate_frames, local_frames, local_stretch, rigid_motion
from reference_graphs import complete_of, knn_of, random_rotations, with_hubs
from reference_problems import TEAM, exact_frames


@pytest.mark.parametrize("n_components", [1, 2, 3])
def test_agrees_with_least_squares(n_components):
    rng = np.random.default_rng(467)
    graph = with_hubs(rng.normal(size=(50, 3)), 7, [6], rng)
    frames = calibrate_frames(graph, local_frames(graph, n_components, team=TEAM, frame_size=5))
    coordinates = rng.normal(size=(50, n_components))
    found = local_stretch(graph, frames, coordinates)
    for i in range(50):
        at = np.arange(graph.indptr[i], graph.indptr[i + 1])
        at = at[frames.included[at]]
        steps = coordinates[graph.indices[at]] - coordinates[i]
        fit = np.linalg.lstsq(frames.rows[at], steps, rcond=None)[0]
        np.testing.assert_allclose(found[i], np.linalg.svd(fit, compute_uv=False), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("n_components", [1, 2, 4])
def test_linear_maps_of_exact_frames(n_components):
    rng = np.random.default_rng(479)
    points = rng.normal(size=(30, n_components))
    graph = complete_of(points)
    frames, _ = exact_frames(graph, points, rng)
    turn = random_rotations(1, n_components, rng)[0]
    np.testing.assert_allclose(local_stretch(graph, frames, points @ turn + 2.0), 1.0, atol=1e-10)
    factors = np.linspace(3.0, 0.5, n_components)
    np.testing.assert_allclose(
        local_stretch(graph, frames, (points * factors) @ turn), np.tile(factors, (30, 1)), rtol=1e-9
    )
    np.testing.assert_allclose(local_stretch(graph, frames, 0.0 * points), 0.0, atol=1e-12)


def test_missing_directions_have_the_value_one():
    """Points on a line in two components: one direction is stretched, the other says nothing."""
    line = np.sort(np.random.default_rng(487).uniform(size=20))
    graph = knn_of(line[:, None], 5)
    frames = local_frames(graph, 2, team=TEAM)
    found = local_stretch(graph, frames, np.column_stack([2.0 * line, 0.0 * line]))
    np.testing.assert_allclose(found, np.tile([2.0, 1.0], (20, 1)), rtol=1e-6)


def test_weighted_motion_prefers_heavy_points():
    rng = np.random.default_rng(9)
    points = rng.normal(size=(6, 2))
    target = points.copy()
    target[5] += 1.0
    rotation, shift = rigid_motion(points, target, np.array([1e6] * 5 + [1.0]))
    np.testing.assert_allclose((points @ rotation + shift)[:5], target[:5], atol=1e-4)
    same, _ = rigid_motion(points, target, np.full(6, 3.0))
    np.testing.assert_allclose(same, rigid_motion(points, target)[0], atol=1e-12)
