"""The coarse start: the sample, its geodesics, the way back to all vertices."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse.csgraph import dijkstra

from isoweave._parallel import ThreadTeam, thread_team
from isoweave.datasets import swiss_roll
from isoweave.graph import knn_graph
from isoweave.metrics import procrustes_error
from isoweave.optimise import _coarse as module
from isoweave.optimise._coarse import coarsen, prolong, sample_vertices
from isoweave.optimise._starts import coarse_start
from reference_graphs import cycle_graph, dumbbell, edges_of, knn_of, path_graph, permuted, with_hubs

TEAM = ThreadTeam(1)


def case(name):
    rng = np.random.default_rng(821)
    return {
        "sheet": lambda: knn_of(rng.uniform(size=(400, 2)), 8),
        "hub": lambda: with_hubs(rng.uniform(size=(120, 2)), 6, [5], rng),
        "dumbbell": lambda: dumbbell(60, 6, 15.0, rng)[1],
    }[name]()


@pytest.mark.parametrize("name", ["sheet", "hub", "dumbbell"])
def test_edges_and_anchors_have_geodesic_lengths(name):
    graph = case(name)
    level = coarsen(graph, team=TEAM)
    n = graph.n_vertices
    assert len(level.sample) == n // module.THINNING
    assert sorted(set(level.sample.tolist())) == level.sample.tolist()
    distances = dijkstra(graph.to_matrix())
    for i, j, d in edges_of(level.graph):
        assert d == pytest.approx(distances[level.sample[i], level.sample[j]], rel=1e-12)
    for v in range(n):
        count = int(level.filled[v])
        own = level.distances[v, :count]
        assert np.all(np.diff(own) >= 0)
        np.testing.assert_allclose(own, distances[v, level.sample[level.anchors[v, :count]]], rtol=1e-12)
        assert len(set(level.anchors[v, :count].tolist())) == count


def test_nearest_samples_are_neighbours():
    """Where no ball is cut, every sampled vertex has an edge to each of its nearest few."""
    graph = case("sheet")
    level = coarsen(graph, team=TEAM)
    between = dijkstra(graph.to_matrix(), indices=level.sample)[:, level.sample]
    joined = {(i, j) for i, j, _ in edges_of(level.graph)}
    for i in range(len(level.sample)):
        for j in np.argsort(between[i])[1 : module._SAMPLE_NEIGHBORS + 1].tolist():
            assert (min(i, j), max(i, j)) in joined


def test_sample_does_not_depend_on_the_numbering():
    graph = case("sheet")
    order = np.random.default_rng(823).permutation(400)
    here = sample_vertices(graph, 50, team=TEAM)
    there = sample_vertices(permuted(graph, order), 50, team=TEAM)
    assert sorted(order[there].tolist()) == here.tolist()


def test_sample_does_not_depend_on_the_unit():
    graph = case("sheet")
    here = sample_vertices(graph, 50, team=TEAM)
    for unit in (0.7, 3.3, 100.0):
        scaled = type(graph)(graph.indptr, graph.indices, unit * graph.lengths)
        there = sample_vertices(scaled, 50, team=TEAM)
        # Rounding may exchange one vertex at the margin.
        assert len(set(here.tolist()) & set(there.tolist())) >= 49


def test_prolongation_of_exact_places_is_near_them():
    """Places of the sample taken from the truth: the others land near theirs, within the spacing."""
    points = np.random.default_rng(827).uniform(size=(800, 2))
    graph = knn_of(points, 10)
    level = coarsen(graph, team=TEAM)
    found = prolong(graph, level, points[level.sample], team=TEAM)
    assert found.shape == (800, 2)
    inner = np.all((points > 0.1) & (points < 0.9), axis=1)
    assert np.median(np.linalg.norm(found - points, axis=1)[inner]) < np.median(graph.lengths)


def test_vertices_no_ball_reaches_get_a_place(monkeypatch):
    """A long path with small balls: far vertices have no anchor and go where the nearest with one is."""
    monkeypatch.setattr(module, "_SAMPLE_NEIGHBORS", 1)
    monkeypatch.setattr(module, "_BALL_SLACK", 1)
    graph = path_graph(200)
    level = coarsen(graph, team=TEAM)
    assert (level.filled == 0).any()
    found = prolong(graph, level, np.arange(float(len(level.sample)))[:, None], team=TEAM)
    assert np.isfinite(found).all()


@pytest.mark.parametrize("n", [5, 16, 40])
def test_small_graphs_have_no_coarse_start_or_a_finite_one(n):
    for graph in (path_graph(n), cycle_graph(n)):
        start = coarse_start(graph, 2, team=TEAM, tol=0.03)
        assert start is None or (start.shape == (n, 2) and np.isfinite(start).all())


def test_start_of_a_roll_is_close():
    roll = swiss_roll(3000, random_state=829)
    start = coarse_start(knn_graph(roll.data, 8), 2, team=TEAM, tol=0.03)
    assert procrustes_error(roll.truth, start) < 0.02


def test_threads_do_not_change_the_bits():
    graph = knn_of(np.random.default_rng(839).uniform(size=(900, 2)), 7)
    alone = coarse_start(graph, 2, team=TEAM, tol=0.03)
    with thread_team(2) as team:
        np.testing.assert_array_equal(coarse_start(graph, 2, team=team, tol=0.03), alone)
