"""Cells of a graph and the split of the energy over them; frames carried around loops."""

import numpy as np
import pytest

from isoweave._parallel import ThreadTeam, thread_team
from isoweave.diagnostics._hodge import cell_boundaries, list_triangles, measure_misfit, split_misfit
from isoweave.diagnostics._shape import WEAKEST, ball_curvature, nearest_along
from isoweave.energy import edge_energy
from isoweave.geometry import calibrate_frames, local_frames
from isoweave.graph import connected_components
from isoweave.optimise import build_problem, frame_transitions
from reference_cells import split_dense, triangles_loop
from reference_graphs import complete_of, random_rotations
from reference_loops import energy_loop
from reference_shapes import (
    annulus_graph,
    flat_torus_graph,
    plane_graph,
    sphere_graph,
    strip_graph,
    tree_graph,
)

TEAM = ThreadTeam(1)


def upward(graph):
    """Stored edges i < j, which number the undirected ones."""
    return np.flatnonzero(graph.sources < graph.indices)


def test_triangles_equal_the_loop():
    _, graph = plane_graph(80, 7, 31)
    # Stored edges (i, j), (j, k), (i, k) of i < j < k.
    first, second, third = list_triangles(graph).T
    assert np.array_equal(graph.indices[first], graph.sources[second])
    assert np.array_equal(graph.sources[first], graph.sources[third])
    assert np.array_equal(graph.indices[second], graph.indices[third])
    found = sorted(zip(graph.sources[first], graph.indices[first], graph.indices[second], strict=True))
    assert found == triangles_loop(graph)
    assert len(found) > 100


@pytest.mark.parametrize(
    ("make", "ball", "expected"),
    [
        (lambda: plane_graph(150, 8, 41)[1], 150, 0),
        (lambda: annulus_graph(200, 7, 41), 60, 1),
        (lambda: flat_torus_graph(200, 12, 43), 60, 2),
    ],
    ids=["square", "annulus", "torus"],
)
def test_cells_fill_all_loops_but_those_of_the_shape(make, ball, expected):
    """The first Betti number: independent loops that no sum of cells within a ball fills."""
    graph = make()
    boundary, edges = cell_boundaries(graph, team=TEAM, ball=ball), upward(graph)
    rank = np.linalg.matrix_rank((boundary.T @ boundary).toarray(), tol=1e-8, hermitian=True)
    # Independent cycles of a connected graph.
    assert connected_components(graph)[0] == 1
    assert len(edges) - graph.n_vertices + 1 - rank == expected


def test_curl_of_a_gradient_is_zero_and_threads_agree():
    _, graph = plane_graph(150, 5, 33)
    boundary, edges = cell_boundaries(graph, team=TEAM), upward(graph)
    assert boundary.shape[0] > len(list_triangles(graph)), "triangles only: no loop was tested"
    f = np.random.default_rng(34).normal(size=(graph.n_vertices, 3))
    assert np.abs(boundary @ (f[graph.indices[edges]] - f[graph.sources[edges]])).max() < 1e-12
    assert np.abs(boundary @ np.ones(len(edges))).max() > 0.5
    assert cell_boundaries(tree_graph(60, 35), team=TEAM).shape == (0, 59)
    _, graph = plane_graph(900, 6, 36)
    alone = cell_boundaries(graph, team=TEAM)
    with thread_team(3) as team:
        shared = cell_boundaries(graph, team=team)
    assert np.array_equal(alone.indices, shared.indices)
    assert np.array_equal(alone.data, shared.data)


def problem_of(graph):
    frames = calibrate_frames(graph, local_frames(graph, 2, team=TEAM), "rows")
    return build_problem(edge_energy(graph, frames, team=TEAM))


@pytest.fixture(scope="module")
def case():
    """A problem, rotations and coordinates that fit nothing in particular, their misfit, and the cells."""
    rng = np.random.default_rng(53)
    _, graph = plane_graph(120, 6, 51)
    problem, rotations = problem_of(graph), random_rotations(120, 2, rng)
    coordinates = rng.normal(size=(120, 2))
    misfit = measure_misfit(problem, rotations, coordinates)
    return problem, rotations, coordinates, misfit, cell_boundaries(graph, team=TEAM)


def test_parts_are_those_of_dense_least_squares(case):
    problem, rotations, coordinates, misfit, boundary = case
    split, mass = split_misfit(misfit, boundary), misfit.mass
    graph, frames, weights = problem.graph, problem.frames.frames, problem.frames.weights
    energy = energy_loop(graph, frames, problem.frames, coordinates, rotations)[0].sum()
    dense = split_dense(graph, frames, weights, rotations, coordinates, boundary)
    assert split.total * mass == pytest.approx(energy, rel=1e-10)
    assert split.removable * mass == pytest.approx(dense[0], rel=1e-8)
    assert split.disagreement * mass == pytest.approx(dense[1], rel=1e-8)
    # The projection on curls is regularised.
    assert split.curl * mass == pytest.approx(dense[2], rel=1e-4)
    assert split.loops * mass == pytest.approx(dense[3], rel=1e-3, abs=1e-6 * energy)
    assert split.total == pytest.approx(split.removable + split.disagreement + split.irremovable, rel=1e-12)
    assert split.irremovable == pytest.approx(split.curl + split.loops, rel=1e-12)
    assert min(split.removable, split.disagreement, split.curl) > 1e-3, "a part is missing: nothing tested"


def test_an_exact_map_and_its_double():
    """Nothing is left of the first; stretching changes no rotation, so all of the second is exact."""
    points = np.random.default_rng(55).normal(size=(25, 2))
    graph = complete_of(points)
    problem = problem_of(graph)
    at = problem.evaluate(points)
    misfit = measure_misfit(problem, at.alignments, points)
    assert misfit.mass == pytest.approx(problem.mass, rel=1e-10)
    split = split_misfit(misfit, cell_boundaries(graph, team=TEAM))
    assert split.total == pytest.approx(at.energy / problem.mass, abs=1e-12)
    assert max(split.total, split.irremovable) < 1e-12
    doubled = measure_misfit(problem, at.alignments, 2.0 * points).split
    assert doubled.removable == pytest.approx(doubled.total, rel=1e-9)
    assert doubled.total == pytest.approx(1.0, rel=1e-9)
    assert doubled.curl is None


def test_what_a_cylinder_leaves_is_harmonic():
    """Rotations that agree everywhere on a cylinder leave a form whose small loops all close."""
    places, graph = strip_graph(400, 12, 57, twisted=False)
    problem = problem_of(graph)
    # The true differences, by the shorter of the two directions, as frames see them.
    step = places[graph.indices] - places[graph.sources]
    step[:, 0] -= 12.0 * np.round(step[:, 0] / 12.0)
    rotations = np.empty((400, 2, 2))
    for i in range(400):
        row = slice(graph.indptr[i], graph.indptr[i + 1])
        u, _, vt = np.linalg.svd(problem.frames.frames.rows[row].T @ step[row])
        rotations[i] = u @ vt
    misfit = measure_misfit(problem, rotations, problem.integrate(rotations))
    split = split_misfit(misfit, cell_boundaries(graph, team=TEAM))
    assert split.loops > 0.3
    assert split.curl < 0.02
    assert split.removable < 1e-9


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
