"""The split of the energy."""

from __future__ import annotations

import numpy as np
import pytest

from isoweave._parallel import ThreadTeam
from isoweave.diagnostics._cells import build_cells
from isoweave.diagnostics._hodge import measure_misfit, split_misfit, without_curl
from isoweave.energy import edge_inner_product
from isoweave.geometry import calibrate_frames, local_frames
from isoweave.optimise import build_problem
from reference_cells import incidence, split_dense
from reference_graphs import complete_of
from reference_operators import energy_loop
from reference_shapes import plane_graph, strip_graph

TEAM = ThreadTeam(1)


def problem_of(graph, n_components=2):
    frames = calibrate_frames(graph, local_frames(graph, n_components, team=TEAM), "rows")
    return build_problem(graph, frames, edge_inner_product(graph, frames), team=TEAM)


def random_turns(n, seed):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(n, 2, 2)))[0]


@pytest.fixture(scope="module")
def case():
    """A problem, turns and coordinates that fit nothing in particular."""
    _, graph = plane_graph(120, 6, 51)
    return problem_of(graph), random_turns(120, 52), np.random.default_rng(53).normal(size=(120, 2))


def test_parts_are_those_of_dense_least_squares(case):
    problem, turns, coordinates = case
    graph = problem.graph
    cells = build_cells(graph, team=TEAM)
    misfit = measure_misfit(problem, turns, coordinates)
    split = split_misfit(misfit, cells)
    weights = problem.inner.weights
    energy = energy_loop(graph, problem.frames, problem.inner, coordinates, turns)[0].sum()
    dense = split_dense(graph, problem.frames, weights, turns, coordinates, cells.boundary)
    assert misfit.total == pytest.approx(energy, rel=1e-10)
    assert split.removable * misfit.mass == pytest.approx(dense[0], rel=1e-8)
    assert split.disagreement * misfit.mass == pytest.approx(dense[1], rel=1e-8)
    # The projection on curls is regularised.
    assert split.curl * misfit.mass == pytest.approx(dense[2], rel=1e-4)
    assert split.loops * misfit.mass == pytest.approx(dense[3], rel=1e-3, abs=1e-6 * energy)


def test_parts_sum_up(case):
    split = split_misfit(measure_misfit(*case), build_cells(case[0].graph, team=TEAM))
    assert split.total == pytest.approx(split.removable + split.disagreement + split.irremovable, rel=1e-12)
    assert split.irremovable == pytest.approx(split.curl + split.loops, rel=1e-12)
    assert min(split.removable, split.disagreement, split.curl) > 1e-3, "a part is missing: nothing tested"


def test_parts_are_orthogonal(case):
    problem, turns, coordinates = case
    cells = build_cells(problem.graph, team=TEAM)
    misfit = measure_misfit(problem, turns, coordinates)
    root = np.sqrt(misfit.weights)[:, None]
    gradient = root * incidence(problem.graph, cells.edges)
    scale = np.abs(misfit.form).max()
    # Nothing exact is left in the irremovable part, nor any curl in its harmonic part.
    assert np.abs(gradient.T @ misfit.form).max() < 1e-8 * scale
    harmonic = without_curl(misfit.form, cells.boundary, misfit.weights)
    curl = misfit.form - harmonic
    assert np.abs(cells.boundary @ (harmonic / root)).max() < 1e-5 * scale
    assert abs(np.sum(curl * harmonic)) < 1e-5 * np.sum(misfit.form**2)


def test_energy_is_that_of_the_optimiser():
    points, graph = plane_graph(150, 8, 54)
    problem = problem_of(graph)
    at = problem.evaluate(points)
    misfit = measure_misfit(problem, at.alignments, points)
    assert misfit.total == pytest.approx(at.energy, rel=1e-10)
    assert misfit.mass == pytest.approx(problem.mass, rel=1e-10)


def test_an_exact_map_has_nothing_left():
    points = np.random.default_rng(55).normal(size=(25, 2))
    graph = complete_of(points)
    problem = problem_of(graph)
    split = split_misfit(
        measure_misfit(problem, problem.evaluate(points).alignments, points), build_cells(graph, team=TEAM)
    )
    assert split.total < 1e-12
    assert split.irremovable < 1e-12


def test_a_doubled_map_is_removable():
    """Stretching a map changes no frame and no turn: all of the new energy is exact."""
    points = np.random.default_rng(56).normal(size=(25, 2))
    problem = problem_of(complete_of(points))
    turns = problem.evaluate(points).alignments
    split = split_misfit(measure_misfit(problem, turns, 2.0 * points), None)
    assert split.removable == pytest.approx(split.total, rel=1e-9)
    assert split.total == pytest.approx(1.0, rel=1e-9)
    assert split.curl is None


def test_what_a_cylinder_leaves_is_harmonic():
    """Turns that agree everywhere on a cylinder leave a form whose small loops all close."""
    places, graph = strip_graph(400, 12, 57, twisted=False)
    problem = problem_of(graph)
    # The true differences, going the short way round, as frames see them.
    step = places[graph.indices] - places[graph.sources]
    step[:, 0] -= 12.0 * np.round(step[:, 0] / 12.0)
    turns = np.empty((400, 2, 2))
    for i in range(400):
        row = slice(graph.indptr[i], graph.indptr[i + 1])
        u, _, vt = np.linalg.svd(problem.frames.rows[row].T @ step[row])
        turns[i] = u @ vt
    split = split_misfit(
        measure_misfit(problem, turns, problem.integrate(turns)), build_cells(graph, team=TEAM)
    )
    assert split.loops > 0.3
    assert split.curl < 0.02
    assert split.removable < 1e-9
