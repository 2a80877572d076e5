"""Triangles and loops around holes."""

from __future__ import annotations

import numpy as np
import pytest

from isoweave._parallel import ThreadTeam, thread_team
from isoweave.diagnostics._cells import build_cells, count_triangles, list_triangles
from reference_cells import incidence, triangles_loop
from reference_shapes import annulus_graph, flat_torus_graph, plane_graph, tree_graph

TEAM = ThreadTeam(1)


def vertices_of(graph, triangles):
    """Triples i < j < k from the stored edges (i, j), (j, k), (i, k)."""
    first, second, third = triangles.T
    assert np.array_equal(graph.indices[first], graph.sources[second])
    assert np.array_equal(graph.sources[first], graph.sources[third])
    assert np.array_equal(graph.indices[second], graph.indices[third])
    return list(zip(graph.sources[first], graph.indices[first], graph.indices[second], strict=True))


@pytest.mark.parametrize("seed", [31, 32])
def test_triangles_equal_the_loop(seed):
    _, graph = plane_graph(80, 7, seed)
    found = vertices_of(graph, list_triangles(graph, team=TEAM))
    assert sorted(found) == triangles_loop(graph)
    assert count_triangles(graph, team=TEAM).sum() == len(found) > 100


def test_curl_of_a_gradient_is_zero():
    _, graph = plane_graph(150, 5, 33)
    cells = build_cells(graph, team=TEAM)
    assert cells.boundary.shape[0] > len(cells.triangles), "triangles only: no loop was tested"
    f = np.random.default_rng(34).normal(size=(graph.n_vertices, 3))
    differences = f[graph.indices[cells.edges]] - f[graph.sources[cells.edges]]
    assert np.abs(cells.boundary @ differences).max() < 1e-12
    assert np.abs(cells.boundary @ np.ones(len(cells.edges))).max() > 0.5


def first_betti_number(graph, ball):
    """Independent loops that no sum of cells fills; what fits in a ball of so many vertices is filled."""
    cells = build_cells(graph, team=TEAM, ball=ball)
    rank = np.linalg.matrix_rank((cells.boundary.T @ cells.boundary).toarray(), tol=1e-8)
    cycles = len(cells.edges) - np.linalg.matrix_rank(incidence(graph, cells.edges))
    return cycles - rank


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
    assert first_betti_number(make(seed), ball) == expected


def test_a_tree_has_no_cells():
    graph = tree_graph(60, 35)
    assert build_cells(graph, team=TEAM).boundary.shape == (0, 59)


def test_cells_do_not_depend_on_threads():
    _, graph = plane_graph(900, 6, 36)
    alone = build_cells(graph, team=TEAM)
    with thread_team(3) as team:
        shared = build_cells(graph, team=team)
    assert np.array_equal(alone.triangles, shared.triangles)
    assert np.array_equal(alone.boundary.indices, shared.boundary.indices)
    assert np.array_equal(alone.boundary.data, shared.boundary.data)
