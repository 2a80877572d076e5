"""Projection of the points before an approximate search, and what it finds."""

from __future__ import annotations

import numpy as np
import pytest

from isoweave._parallel import ThreadTeam, thread_team
from isoweave.graph import _euclidean as approximate
from isoweave.graph._euclidean import GraphSearch, ProductSearch, project


def low_rank(n, n_features, n_directions, noise, seed):
    """Points that spread in few directions of many features, centred."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(n, n_directions)) @ rng.normal(size=(n_directions, n_features))
    points += noise * rng.normal(size=points.shape)
    return points - points.mean(axis=0)


def test_points_in_few_directions_are_projected_without_loss():
    points = low_rank(1500, 300, 20, 0.0, 401)
    projected = project(points.astype(np.float32), 8, 24, ThreadTeam(1), seed=7)
    assert projected.shape == (1500, 32)
    differences = np.linalg.norm(projected[1:] - projected[0], axis=1)
    np.testing.assert_allclose(differences, np.linalg.norm(points[1:] - points[0], axis=1), rtol=1e-4)


def test_more_directions_are_taken_where_needed():
    points = low_rank(1500, 400, 60, 0.0, 403)
    assert project(points.astype(np.float32), 8, 24, ThreadTeam(1), seed=7).shape == (1500, 64)


@pytest.mark.parametrize("n_features", [50, 90, 500])
def test_points_that_fill_all_directions_are_not_projected(n_features):
    points = np.random.default_rng(405).normal(size=(1200, n_features)).astype(np.float32)
    assert project(points, 8, 24, ThreadTeam(1), seed=7) is None


def test_nearest_are_the_nearest():
    points = np.random.default_rng(407).normal(size=(300, 6)).astype(np.float32)
    queries = np.array([0, 7, 299])
    distances = np.linalg.norm(points[queries, None] - points, axis=2)
    expected = np.sort(np.argsort(distances, axis=1)[:, 1:6], axis=1)
    np.testing.assert_array_equal(
        np.sort(approximate._nearest(points, queries, 5, ThreadTeam(1)), axis=1), expected
    )


def test_projected_search_finds_nearly_all_and_measures_in_all_features():
    pytest.importorskip("faiss")
    points = low_rank(3000, 200, 12, 0.05, 409)
    assert project(points.astype(np.float32), 10, 40, ThreadTeam(1), seed=5) is not None
    rows = np.arange(0, 3000, 3, dtype=np.int32)
    found = {}
    with thread_team(1) as one, thread_team(2) as two:
        exact = ProductSearch(points)(points[rows], rows, 10, two)
        for name, team in (("one", one), ("two", two)):
            found[name] = GraphSearch(points, 5)(points[rows], rows, 10, team)
    neighbors, distances = found["two"]
    np.testing.assert_array_equal(found["one"][0], neighbors)
    np.testing.assert_array_equal(found["one"][1], distances)
    assert (neighbors[:, :, None] == exact[0][:, None, :]).any(axis=2).mean() > 0.99
    measured = np.linalg.norm(points[rows, None] - points[neighbors], axis=2)
    np.testing.assert_allclose(distances, measured, rtol=1e-12)
