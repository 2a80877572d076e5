"""Frames carried around loops."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from isoweave._parallel import ThreadTeam, thread_team
from isoweave.diagnostics import loop_holonomy
from isoweave.diagnostics._shape import WEAKEST, ball_curvature, nearest_along
from isoweave.geometry import calibrate_frames, local_frames
from isoweave.optimise import frame_transitions
from reference_graphs import complete_of
from reference_loops import transition_loop
from reference_shapes import nearest_loop, plane_graph, sphere_graph, strip_graph

TEAM = ThreadTeam(1)


def angle_of(holonomy):
    """Angle of a rotation of the plane, in radians."""
    return np.arctan2(holonomy[1, 0] - holonomy[0, 1], holonomy[0, 0] + holonomy[1, 1])


def ring(radius, n, *height):
    """Points of a circle around the origin, in the plane or at a height."""
    t = np.linspace(0.0, 2.0 * np.pi, n, endpoint=False)
    return np.column_stack((radius * np.cos(t), radius * np.sin(t), *(np.full(n, h) for h in height)))


def test_identity_on_flat_data():
    graph = complete_of(np.random.default_rng(61).normal(size=(20, 3)))
    assert np.abs(loop_holonomy(graph, [0, 7, 3, 11, 19], 3) - np.eye(3)).max() < 1e-6
    # Errors of transitions add up along a loop; many neighbours keep them small.
    points, graph = plane_graph(800, 30, 62)
    holonomy = loop_holonomy(graph, nearest_loop(graph, points, 0.5 + ring(0.3, 12)))
    assert np.linalg.det(holonomy) > 0.0
    assert abs(angle_of(holonomy)) < 0.12


@pytest.mark.parametrize("colatitude", [50.0, pytest.param(20.0, marks=pytest.mark.slow)])
def test_angle_on_a_sphere_is_the_enclosed_area(colatitude):
    points, graph = sphere_graph(1200, 30, 63, lowest=0.3)
    s = np.radians(colatitude)
    loop = nearest_loop(graph, points, ring(np.sin(s), 16, np.cos(s)))
    # The area of a spherical polygon around the north pole is the sum of the triangles to the pole.
    a, b, pole = points[loop], points[np.roll(loop, -1)], np.array([0.0, 0.0, 1.0])
    sides = 1.0 + np.sum(a * b, axis=1) + a @ pole + b @ pole
    area = np.sum(2.0 * np.arctan2(np.cross(a, b) @ pole, sides))
    assert area == pytest.approx(2.0 * np.pi * (1.0 - np.cos(s)), rel=0.15)
    # Angles beyond pi come back from the other side.
    assert abs(angle_of(loop_holonomy(graph, loop))) == pytest.approx(min(area, 2.0 * np.pi - area), abs=0.15)


@pytest.mark.parametrize("twisted", [False, True])
def test_a_twisted_strip_reflects_and_a_cylinder_does_not(twisted):
    places, graph = strip_graph(900, 12, 64, twisted=twisted)
    loop = nearest_loop(graph, places, [(u, 0.0) for u in np.arange(0.0, 12.0, 1.5)])
    holonomy = loop_holonomy(graph, loop)
    assert np.linalg.det(holonomy) == pytest.approx(-1.0 if twisted else 1.0)
    assert np.abs(holonomy @ holonomy.T - np.eye(2)).max() < 1e-9


def test_equals_transitions_from_dense_procrustes():
    _, graph = plane_graph(100, 8, 65)
    frames = calibrate_frames(graph, local_frames(graph, 2, team=TEAM), "rows")
    near = [set(graph.indices[graph.indptr[v] : graph.indptr[v + 1]].tolist()) for v in range(100)]
    i, j = 40, min(near[40])
    k = min(near[i] & near[j])
    expected = np.eye(2)
    for a, b in ((i, j), (j, k), (k, i)):
        expected = transition_loop(graph, frames, a, b)[0].T @ expected
    assert np.abs(loop_holonomy(graph, [i, j, k]) - expected).max() < 1e-8


def test_the_way_back_is_the_inverse_and_the_start_does_not_matter():
    points, graph = sphere_graph(600, 12, 66, lowest=0.2)
    loop = nearest_loop(graph, points, ring(np.sin(0.6), 9, np.cos(0.6)))
    loops = (loop, [loop[0], *loop[:0:-1]], loop[3:] + loop[:3])
    there, back, shifted = (loop_holonomy(graph, each) for each in loops)
    assert np.abs(there @ back - np.eye(2)).max() < 1e-9
    assert abs(angle_of(there)) > 0.3, "nothing is rotated: nothing tested"
    assert np.trace(shifted) == pytest.approx(np.trace(there), abs=1e-9)


def curvature_of(graph, team=TEAM):
    companion = nearest_along(graph, 16, team=team)
    frames = calibrate_frames(companion, local_frames(companion, 2, team=team, frame_size=1.5), "rows")
    transitions, weights = frame_transitions(companion, frames, team)
    weights = np.minimum(weights, weights[companion.reverse])
    return ball_curvature(companion, frames, transitions, weights >= WEAKEST, team)


def test_curvature_of_spheres_and_of_a_plane():
    _, graph = sphere_graph(1000, 12, 67, radius=3.0)
    found = curvature_of(graph)
    # Transitions average over neighbourhoods, which flattens a little.
    assert np.nanmedian(found) * 3.0**2 == pytest.approx(0.9, abs=0.15)
    with thread_team(3) as team:
        assert np.array_equal(found, curvature_of(graph, team), equal_nan=True)
    _, graph = plane_graph(1000, 12, 68)
    # Times the area of a ball: an angle in radians, 1.5 on a sphere with as many points.
    assert abs(np.nanmedian(curvature_of(graph))) * 0.12 < 0.4


@pytest.mark.parametrize(
    ("loop", "message"),
    [
        ([0, 1], "at least 3"),
        ([[0, 1, 2]], "at least 3"),
        ([0.0, 1.0, 2.0], "integers"),
        ([900, 0, 1], "vertex 900"),
        ([0, 1, 900], "from 1 to 900"),
        ([0, -1, 2], "not neighbours|vertex -1"),
        ([0, 4, 1], "from 0 to 4"),
    ],
)
def test_bad_loops(loop, message):
    # Of points on a line, 0 and 4 are too far apart to be neighbours.
    points = np.arange(6.0)[:, None]
    near = complete_of(points).to_matrix().toarray()
    with pytest.raises(ValueError, match=message):
        loop_holonomy(sp.csr_array(np.where(near < 3.0, near, 0.0)), loop)
