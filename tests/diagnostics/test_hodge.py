"""Cells of a graph, and the split of the energy over them."""

from __future__ import annotations

import numpy as np
import pytest

from isoweave._parallel import ThreadTeam, thread_team
from isoweave.diagnostics._cells import build_cells, count_triangles, list_triangles
from isoweave.diagnostics._hodge import measure_misfit, split_misfit, without_curl
from isoweave.energy import edge_energy
from isoweave.geometry import calibrate_frames, local_frames
from isoweave.optimise import build_problem
from reference_cells import incidence, split_dense, triangles_loop
from reference_graphs import complete_of, random_rotations
from reference_operators import energy_loop
from reference_shapes import annulus_graph, flat_torus_graph, plane_graph, strip_graph, tree_graph

TEAM = ThreadTeam(1)


@pytest.mark.parametrize("seed", [31, 32])
def test_triangles_equal_the_loop(seed):
    _, graph = plane_graph(80, 7, seed)
    # Stored edges (i, j), (j, k), (i, k) of i < j < k.
    first, second, third = list_triangles(graph, team=TEAM).T
    assert np.array_equal(graph.indices[first], graph.sources[second])
    assert np.array_equal(graph.sources[first], graph.sources[third])
    assert np.array_equal(graph.indices[second], graph.indices[third])
    found = sorted(zip(graph.sources[first], graph.indices[first], graph.indices[second], strict=True))
    assert found == triangles_loop(graph)
    assert count_triangles(graph, team=TEAM).sum() == len(found) > 100


def test_curl_of_a_gradient_is_zero():
    _, graph = plane_graph(150, 5, 33)
    cells = build_cells(graph, team=TEAM)
    assert cells.boundary.shape[0] > len(cells.triangles), "triangles only: no loop was tested"
    f = np.random.default_rng(34).normal(size=(graph.n_vertices, 3))
    differences = f[graph.indices[cells.edges]] - f[graph.sources[cells.edges]]
    assert np.abs(cells.boundary @ differences).max() < 1e-12
    assert np.abs(cells.boundary @ np.ones(len(cells.edges))).max() > 0.5


@pytest.mark.parametrize("seed", [41, 43])
@pytest.mark.parametrize(
    ("make", "ball", "expected"),
    [
        (lambda seed: plane_graph(200, 8, seed)[1], 200, 0),
        (lambda seed: annulus_graph(200, 7, seed), 60, 1),
        (lambda seed: flat_torus_graph(250, 12, seed), 60, 2),
    ],
    ids=["square", "annulus", "torus"],
)
def test_cells_fill_all_loops_but_those_of_the_shape(make, ball, expected, seed):
    """The first Betti number: independent loops that no sum of cells within a ball fills."""
    graph = make(seed)
    cells = build_cells(graph, team=TEAM, ball=ball)
    rank = np.linalg.matrix_rank((cells.boundary.T @ cells.boundary).toarray(), tol=1e-8)
    cycles = len(cells.edges) - np.linalg.matrix_rank(incidence(graph, cells.edges))
    assert cycles - rank == expected


def test_a_tree_has_no_cells():
    assert build_cells(tree_graph(60, 35), team=TEAM).boundary.shape == (0, 59)


def test_cells_do_not_depend_on_threads():
    _, graph = plane_graph(900, 6, 36)
    alone = build_cells(graph, team=TEAM)
    with thread_team(3) as team:
        shared = build_cells(graph, team=team)
    assert np.array_equal(alone.triangles, shared.triangles)
    assert np.array_equal(alone.boundary.indices, shared.boundary.indices)
    assert np.array_equal(alone.boundary.data, shared.boundary.data)


def problem_of(graph):
    frames = calibrate_frames(graph, local_frames(graph, 2, team=TEAM), "rows")
    return build_problem(edge_energy(graph, frames, team=TEAM))


@pytest.fixture(scope="module")
def case():
    """A problem, rotations and coordinates that fit nothing in particular, and the cells."""
    rng = np.random.default_rng(53)
    _, graph = plane_graph(120, 6, 51)
    return (
        problem_of(graph),
        random_rotations(120, 2, rng),
        rng.normal(size=(120, 2)),
        build_cells(graph, team=TEAM),
    )


def test_parts_are_those_of_dense_least_squares(case):
    problem, rotations, coordinates, cells = case
    misfit = measure_misfit(problem, rotations, coordinates)
    split = split_misfit(misfit, cells)
    graph, frames, weights = problem.graph, problem.frames.frames, problem.frames.weights
    energy = energy_loop(graph, frames, problem.frames, coordinates, rotations)[0].sum()
    dense = split_dense(graph, frames, weights, rotations, coordinates, cells.boundary)
    assert misfit.total == pytest.approx(energy, rel=1e-10)
    assert split.removable * misfit.mass == pytest.approx(dense[0], rel=1e-8)
    assert split.disagreement * misfit.mass == pytest.approx(dense[1], rel=1e-8)
    # The projection on curls is regularised.
    assert split.curl * misfit.mass == pytest.approx(dense[2], rel=1e-4)
    assert split.loops * misfit.mass == pytest.approx(dense[3], rel=1e-3, abs=1e-6 * energy)
    assert split.total == pytest.approx(split.removable + split.disagreement + split.irremovable, rel=1e-12)
    assert split.irremovable == pytest.approx(split.curl + split.loops, rel=1e-12)
    assert min(split.removable, split.disagreement, split.curl) > 1e-3, "a part is missing: nothing tested"


def test_parts_are_orthogonal(case):
    problem, rotations, coordinates, cells = case
    misfit = measure_misfit(problem, rotations, coordinates)
    root = np.sqrt(misfit.weights)[:, None]
    gradient = root * incidence(problem.graph, cells.edges)
    scale = np.abs(misfit.form).max()
    # Nothing exact is left in the irremovable part, nor any curl in its harmonic part.
    assert np.abs(gradient.T @ misfit.form).max() < 1e-8 * scale
    harmonic = without_curl(misfit.form, cells.boundary, misfit.weights)
    assert np.abs(cells.boundary @ (harmonic / root)).max() < 1e-5 * scale
    assert abs(np.sum((misfit.form - harmonic) * harmonic)) < 1e-5 * np.sum(misfit.form**2)


def test_energy_is_that_of_the_optimiser():
    points, graph = plane_graph(150, 8, 54)
    problem = problem_of(graph)
    at = problem.evaluate(points)
    misfit = measure_misfit(problem, at.alignments, points)
    assert misfit.total == pytest.approx(at.energy, rel=1e-10)
    assert misfit.mass == pytest.approx(problem.mass, rel=1e-10)


def test_an_exact_map_and_its_double():
    """Nothing is left of the first; stretching changes no rotation, so all of the second is exact."""
    points = np.random.default_rng(55).normal(size=(25, 2))
    graph = complete_of(points)
    problem = problem_of(graph)
    rotations = problem.evaluate(points).alignments
    split = split_misfit(measure_misfit(problem, rotations, points), build_cells(graph, team=TEAM))
    assert split.total < 1e-12
    assert split.irremovable < 1e-12
    doubled = split_misfit(measure_misfit(problem, rotations, 2.0 * points), None)
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
    split = split_misfit(misfit, build_cells(graph, team=TEAM))
    assert split.loops > 0.3
    assert split.curl < 0.02
    assert split.removable < 1e-9
