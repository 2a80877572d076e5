"""Volumes of neighbourhoods: known shapes, and Kubota's formula in high dimension."""

from __future__ import annotations

from itertools import product
from math import gamma, pi

import numpy as np
import pytest

from isoweave.geometry import LocalFrames, neighborhood_volumes
from isoweave.geometry._volumes import _hull_volume
from reference_graphs import graph_of


def stars(shapes):
    """Graph of disjoint stars whose frames are the given shapes; the leaves have frames of rank one."""
    edges, rows, n = [], {}, 0
    dimension = shapes[0].shape[1]
    for shape in shapes:
        centre = n
        for a, position in enumerate(shape):
            edges.append((centre, centre + 1 + a, 1.0))
            rows[centre, centre + 1 + a] = position
        n += 1 + len(shape)
    graph = graph_of(edges, n)
    table = np.array(
        [
            rows.get((int(i), int(j)), np.zeros(dimension))
            for i, j in zip(graph.sources, graph.indices, strict=True)
        ]
    )
    centres = np.flatnonzero(graph.degrees > 1)
    return graph, LocalFrames(table, np.ones(len(table), bool), np.ones((n, dimension)), np.ones(n)), centres


def cube(dimension, side):
    return side * (np.array(list(product([0.0, 1.0], repeat=dimension)))[1:] - 0.5)


def simplex(dimension, side):
    return side * np.eye(dimension)


def sphere_points(dimension, radius, n, seed):
    points = np.random.default_rng(seed).normal(size=(n, dimension))
    return radius * points / np.linalg.norm(points, axis=1, keepdims=True)


def test_equal_and_unknown_modes():
    graph, frames, _ = stars([cube(2, 1.0)])
    np.testing.assert_array_equal(neighborhood_volumes(graph, frames), np.ones(graph.n_vertices))
    with pytest.raises(ValueError, match=r"volumes must be one of .*'hull'.* got 'sphere'"):
        neighborhood_volumes(graph, frames, "sphere")
    # Nothing but flat neighbourhoods.
    graph, frames, _ = stars([np.array([[1.0, 1.0], [2.0, 2.0], [-1.0, -1.0]])])
    np.testing.assert_array_equal(neighborhood_volumes(graph, frames, "hull"), np.ones(4))


@pytest.mark.parametrize("dimension", [1, 2, 3, 4, 6])
def test_ratios_of_known_shapes(dimension):
    """Simplices with a corner at the vertex: side^N / N!."""
    sides = np.array([1.0, 2.0, 0.5])
    graph, frames, centres = stars(
        [np.vstack([simplex(dimension, s), simplex(dimension, s) / 2]) for s in sides]
    )
    volumes = neighborhood_volumes(graph, frames, "hull")
    assert volumes.mean() == pytest.approx(1.0)
    np.testing.assert_allclose(volumes[centres] / volumes[centres[0]], sides**dimension, rtol=1e-9)
    # Leaves see one neighbour: no volume, so the smallest there is.
    others = np.setdiff1d(np.arange(graph.n_vertices), centres)
    expected = volumes[centres].min() if dimension > 1 else volumes[others]
    np.testing.assert_allclose(volumes[others], expected, rtol=1e-12)
    assert (volumes > 0).all()


@pytest.mark.parametrize("dimension", [2, 3, 5])
def test_volume_of_a_cube_and_a_simplex(dimension):
    assert _hull_volume(np.vstack([np.zeros(dimension), cube(dimension, 3.0)])) < 3.0**dimension + 1e-9
    corners = 3.0 * np.array(list(product([0.0, 1.0], repeat=dimension)))
    assert _hull_volume(corners) == pytest.approx(3.0**dimension)
    corner = np.vstack([np.zeros(dimension), simplex(dimension, 2.0)])
    assert _hull_volume(corner) == pytest.approx(2.0**dimension / gamma(dimension + 1))


def test_volumes_of_a_ball_and_of_flat_or_few_points():
    assert _hull_volume(sphere_points(3, 2.0, 800, 271)) == pytest.approx(4.0 / 3.0 * pi * 8.0, rel=0.03)
    assert _hull_volume(np.zeros((1, 2))) == 0.0
    assert _hull_volume(np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0], [3.0, 3.0]])) == 0.0
    assert _hull_volume(np.array([[1.0], [4.0], [2.0]])) == 3.0


@pytest.mark.parametrize("dimension", [8, 10])
def test_kubota_for_balls(dimension):
    """All projections of a ball are balls: volumes of two go as the N-th power of their radii."""
    radii = np.array([1.0, 1.5, 3.0])
    graph, frames, centres = stars([sphere_points(dimension, r, 40, 277) for r in radii])
    volumes = neighborhood_volumes(graph, frames, "hull")[centres]
    np.testing.assert_allclose(volumes / volumes[0], radii**dimension, rtol=1e-6)


def test_kubota_does_not_see_an_orthogonal_map_much():
    """Few random projections estimate a mean; turning the points changes it by that error only."""
    points = sphere_points(9, 1.0, 60, 281)
    turn, _ = np.linalg.qr(np.random.default_rng(283).normal(size=(9, 9)))
    graph, frames, centres = stars([points, points @ turn])
    first, second = neighborhood_volumes(graph, frames, "hull")[centres]
    assert first / second == pytest.approx(1.0, rel=0.3)


def test_kubota_is_seeded():
    graph, frames, _ = stars([sphere_points(8, r, 25, 293 + a) for a, r in enumerate((1.0, 1.1, 0.9))])
    first, again, other = (neighborhood_volumes(graph, frames, "hull", seed=s) for s in (11, 11, 12))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    np.testing.assert_allclose(first, other, rtol=0.5)
