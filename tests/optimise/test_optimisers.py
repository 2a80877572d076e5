"""L-BFGS and the paper's recursion: monotone, dense algebra, statuses, callbacks, anchors, exact frames."""

from itertools import pairwise

import numpy as np
import pytest

from isoweave.energy import AnchorEnergy, PaperEnergy, edge_energy
from isoweave.graph import connected_components
from isoweave.metrics import procrustes_error
from isoweave.optimise import IterationState, build_problem
from isoweave.optimise._starts import synchronized_alignments
from reference_graphs import knn_of, random_rotations
from reference_loops import energy_loop
from reference_problems import TEAM, descend, exact_frames, make_problem, recur


def never_rises(result):
    energies = [record.energy for record in result.history]
    assert result.energy == energies[-1]
    return all(later <= earlier for earlier, later in pairwise(energies))


def test_half_of_the_digits_of_earlier_steps_lead_to_the_same_minimum(monkeypatch):
    """In as many steps; those that are too large keep all digits."""
    problem, rng = make_problem("edge", 3)
    start = rng.normal(size=(50, 3))
    expected = descend(problem, start, tol=1e-6)
    monkeypatch.setattr("isoweave.optimise._problem.MANY_NUMBERS", 149)
    found = descend(problem, start, tol=1e-6)
    assert (found.coordinates != expected.coordinates).any()
    assert found.energy == pytest.approx(expected.energy, rel=1e-9)
    assert abs(len(found.history) - len(expected.history)) <= 2
    assert problem.remembered(start).dtype == np.float32
    large = 1e50 * start
    assert problem.remembered(large) is large


@pytest.mark.parametrize(("kind", "n_components"), [("edge", 1), ("edge", 3), ("hub", 2), ("paper", 2)])
def test_descents_never_rise_and_end_where_the_recursion_does(kind, n_components):
    """A step without memory is one sweep; from bad starts too: far too small, random, far too large."""
    problem, rng = make_problem(kind, n_components)
    start = rng.normal(size=(50, n_components))
    step = descend(problem, start, tol=1e-9, max_iter=1)
    assert step.history[1].step == 1.0
    sweep = problem.integrate(problem.evaluate(start).alignments)
    np.testing.assert_allclose(step.coordinates, sweep, atol=1e-9 * np.abs(sweep).max())
    for scale in (0.01, 1.0, 100.0):
        problem, rng = make_problem(kind, n_components)
        result = descend(problem, scale * rng.normal(size=(50, n_components)), tol=1e-6, max_iter=3000)
        assert never_rises(result)
        steps = [record.iteration for record in result.history]
        assert steps == sorted(set(steps))
    assert result.status == "converged"
    here = problem.evaluate(result.coordinates)
    size = np.sqrt(np.sum(problem.solve(here.half_gradient) * here.half_gradient) / problem.mass)
    assert size <= 1e-6 * np.sqrt(here.energy / problem.mass) * (1 + 1e-6)
    assert result.history[-1].gradient_norm == pytest.approx(size, rel=1e-6)
    np.testing.assert_allclose(result.coordinates.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(result.alignments, here.alignments, atol=1e-8)
    # A first descent to the neighbourhood of a minimum, so that both go to the same one.
    start = problem.integrate(np.tile(np.eye(n_components), (50, 1, 1)))
    near = descend(problem, start, tol=1e-3).coordinates
    fast = descend(problem, near, tol=1e-7, max_iter=2000)
    slow = recur(problem, near, tol=1e-9, max_iter=20_000)
    assert fast.energy == pytest.approx(slow.energy, rel=1e-5)
    # The recursion makes its first sweep before it counts.
    assert fast.n_iter <= slow.n_iter + 1


def right_hand_side(energy, rotations):
    """Minus half the gradient at zero with these rotations."""
    return -energy_loop(energy.graph, energy.frames, energy, np.zeros(rotations.shape[:2]), rotations)[2]


def sweep_dense(problem, rotations):
    """Poisson problem by a pseudo-inverse, then the best rotations by SVD."""
    energy, inverse = problem.frames, np.linalg.pinv(problem.frames.laplacian().toarray(), 1e-12, True)
    x = inverse @ right_hand_side(energy, rotations)
    energies, best, _ = energy_loop(energy.graph, energy.frames, energy, x)
    return x, energies.sum(), best


@pytest.mark.parametrize(("kind", "n_components"), [("hub", 2), ("paper", 1), ("paper", 3)])
def test_the_recursion_agrees_with_dense_algebra_and_ends_in_a_fixed_point(kind, n_components):
    problem, rng = make_problem(kind, n_components)
    start = rng.normal(size=(50, n_components))
    rotations = problem.evaluate(start).alignments
    result = recur(problem, start, tol=1e-12, max_iter=3)
    # On a line the rotations are signs, which soon stand still.
    assert len(result.history) == 4 or n_components == 1
    for record in result.history:
        x, energy, best = sweep_dense(problem, rotations)
        assert record.energy == pytest.approx(energy, rel=1e-8)
        turns = rotations.transpose(0, 2, 1) @ best - np.eye(n_components)
        error = np.sqrt(np.mean([np.linalg.norm(turn, 2) ** 2 for turn in turns]))
        assert record.gradient_norm == pytest.approx(error, rel=1e-5, abs=1e-6)
        rotations = best
    np.testing.assert_allclose(result.coordinates, x, atol=1e-7 * np.abs(x).max())
    start = problem.integrate(np.tile(np.eye(n_components), (50, 1, 1)))
    result = recur(problem, start, tol=1e-6, max_iter=30_000)
    assert never_rises(result)
    assert result.status in ("converged", "stalled")
    # The paper's rule.
    assert [record.gradient_norm < 1e-6 for record in result.history][:-1] == [False] * result.n_iter
    again = problem.integrate(result.alignments)
    again -= again.mean(axis=0)
    np.testing.assert_allclose(again, result.coordinates, atol=1e-3 * np.abs(again).max())


@pytest.mark.parametrize(("run", "stage"), [(descend, "optimise"), (recur, "recursion")])
def test_limit_and_callback(run, stage):
    problem, rng = make_problem("edge", 2)
    start = rng.normal(size=(50, 2))
    kept = start.copy()
    limited = run(problem, start, tol=1e-14, max_iter=4)
    assert (limited.status, limited.n_iter, len(limited.history)) == ("max_iter", 4, 5)
    seen = []

    def look(state):
        assert isinstance(state, IterationState)
        assert problem.evaluate(state.coordinates).energy == pytest.approx(state.energy, rel=1e-12)
        seen.append(state)
        return state.iteration == 3

    stopped = run(problem, start, tol=1e-14, callback=look)
    assert stopped.status == "stopped"
    assert [(state.stage, state.iteration) for state in seen] == [(stage, i) for i in (1, 2, 3)]
    told = [(state.energy, state.gradient_norm) for state in seen]
    assert told == [(r.energy, r.gradient_norm) for r in stopped.history[1:]]
    assert stopped.history == limited.history[:4]
    # Only True stops.
    assert run(problem, start, tol=1e-2, max_iter=5000, callback=lambda state: None).status == "converged"
    np.testing.assert_array_equal(start, kept)


def test_tolerances_that_are_met_at_once_or_never():
    problem, rng = make_problem("edge", 2)
    first = descend(problem, rng.normal(size=(50, 2)), tol=1e-6, max_iter=1000)
    again = descend(problem, first.coordinates + 5.0, tol=1e-5)
    assert (again.status, again.n_iter) == ("converged", 0)
    np.testing.assert_allclose(again.coordinates, first.coordinates, atol=1e-12)
    # Below rounding: it does not go on to the limit.
    result = descend(problem, rng.normal(size=(50, 2)), tol=1e-300, max_iter=100_000)
    assert result.status in ("converged", "stalled")
    assert result.n_iter < 5000


@pytest.mark.parametrize(("kind", "n_components"), [("edge", 1), ("edge", 3), ("paper", 2)])
def test_anchors_hold_pull_and_are_eliminated(kind, n_components):
    """Frames and pulls; held vertices stay, and the gradient has nothing to say about them.

    Dense elimination of the hard anchors, the soft ones on the diagonal (eqs. 20, 21).
    """
    free, rng = make_problem(kind, n_components)
    weights = np.array([np.inf, np.inf, *rng.uniform(0.5, 3.0, size=3)])
    anchors = AnchorEnergy(np.array([3, 20, 5, 33, 41]), rng.normal(size=(5, n_components)), weights, 50)
    problem = build_problem(free.frames, solver="direct", anchors=anchors)
    x = problem.settle(rng.normal(size=(50, n_components)))
    energies, _, _ = energy_loop(problem.graph, problem.frames.frames, problem.frames, x)
    pulls = np.sum(anchors.pull[:, None] * (x[anchors.pulled] - anchors.positions[2:]) ** 2)
    here = problem.evaluate(x)
    assert here.energy == pytest.approx(energies.sum() + pulls, rel=1e-12)
    np.testing.assert_array_equal(x[anchors.held], anchors.positions[:2])
    assert np.all(here.half_gradient[anchors.held] == 0.0)
    assert problem.mass == problem.frames.mass
    energy, rotations = problem.frames, random_rotations(50, n_components, rng)
    laplacian = energy.laplacian().toarray()
    rhs = right_hand_side(energy, rotations)
    laplacian[anchors.pulled, anchors.pulled] += anchors.pull
    rhs[anchors.pulled] += anchors.pull[:, None] * anchors.positions[2:]
    others = np.setdiff1d(np.arange(50), anchors.held)
    expected = np.zeros((50, n_components))
    expected[anchors.held] = anchors.positions[:2]
    rhs -= laplacian @ expected
    expected[others] = np.linalg.solve(laplacian[np.ix_(others, others)], rhs[others])
    np.testing.assert_allclose(problem.integrate(rotations), expected, atol=1e-8)
    result = descend(problem, rng.normal(size=(50, n_components)), tol=1e-6, max_iter=2000)
    assert never_rises(result)
    # Stationary in every free coordinate.
    half_gradient = problem.evaluate(result.coordinates).half_gradient
    assert np.abs(half_gradient).max() < 1e-4 * np.sqrt(problem.mass)
    np.testing.assert_array_equal(result.coordinates[anchors.held], anchors.positions[:2])


@pytest.mark.parametrize("n_components", [1, 2, 3])
def test_anchored_minimum_of_exact_frames_is_the_truth(n_components):
    rng = np.random.default_rng(5)
    points = rng.normal(size=(60, n_components))
    graph = knn_of(points, n_components + 5)
    vertices, weights = np.array([2, 9, 17, 30, 44]), np.array([np.inf, np.inf, np.inf, 2.0, np.inf])
    problem = build_problem(
        edge_energy(graph, exact_frames(graph, points, rng)[0], team=TEAM),
        anchors=AnchorEnergy(vertices, points[vertices], weights, 60),
    )
    result = descend(problem, points + 0.1 * rng.normal(size=points.shape), tol=1e-9)
    np.testing.assert_allclose(result.coordinates, points, atol=1e-6)
    np.testing.assert_array_equal(result.coordinates[vertices[:3]], points[vertices[:3]])
    # Without them, a motion or reflection lays the map on the anchors.
    moved = points @ random_rotations(1, n_components, rng)[0] + 3.0
    np.testing.assert_allclose(problem.anchors.lay_on(moved), points, atol=1e-9)


def exact_problem(n_components, kind):
    """Sparse kNN graph, frames from the true positions in random axes per vertex; points near the truth."""
    rng = np.random.default_rng(491 + n_components)
    points = rng.uniform(size=(90, n_components))
    if n_components == 1:
        # Random points of a line leave gaps no neighbourhood reaches across.
        points = (np.arange(90.0)[:, None] + 0.8 * points) / 90.0
    graph = knn_of(points, max(5, 2 * n_components + 2))
    assert connected_components(graph)[0] == 1
    frames, turns = exact_frames(graph, points, rng, with_inverse=True)
    edges = edge_energy(graph, frames, team=TEAM)
    energy = edges if kind == "edge" else PaperEnergy(graph, frames, frames.inverse, TEAM)
    near = points + 0.05 * graph.lengths.min() * np.random.default_rng(499).normal(size=points.shape)
    return points, near, turns, build_problem(energy, solver="direct")


@pytest.mark.parametrize("n_components", [1, 2, 3, 10])
@pytest.mark.parametrize("kind", ["edge", "paper"])
def test_exact_frames_give_back_the_points(n_components, kind):
    """From their own rotations, from synchronized ones, and from a distorted start."""
    points, near, turns, problem = exact_problem(n_components, kind)
    assert procrustes_error(points, problem.integrate(np.ascontiguousarray(turns))) <= 1e-20
    alignments = synchronized_alignments(problem.graph, problem.frames.frames, TEAM)
    result = descend(problem, problem.integrate(alignments))
    assert procrustes_error(points, result.coordinates) <= 1e-20
    assert result.energy <= 1e-20 * problem.mass
    assert result.status in ("converged", "stalled")
    assert procrustes_error(points, descend(problem, near).coordinates) <= 1e-20
    if kind == "paper" and n_components <= 3:
        recursion = recur(problem, near, tol=1e-12, max_iter=20_000)
        assert procrustes_error(points, recursion.coordinates) <= 1e-18
    # One percent too long in places: the error is seen, so the comparison can fail.
    problem.frames.frames.rows[::7] *= 1.01
    if kind == "edge" and n_components > 1:
        assert procrustes_error(points, descend(problem, points).coordinates) > 1e-10
