"""Where to begin when a graph has grown, and how the new map is laid on the old one."""

from __future__ import annotations

import numpy as np
import pytest

from isoweave._parallel import ThreadTeam
from isoweave.geometry import rigid_motion
from isoweave.place import settle_on, warm_start
from reference_graphs import edges_of, graph_of, knn_of, path_graph, random_rotations

TEAM = ThreadTeam(1)


def no_rest(graph):
    raise AssertionError("everything can be reached")


def test_known_places_stay_and_gaps_are_filled():
    rng = np.random.default_rng(641)
    points = rng.uniform(size=(300, 2)) * 10.0
    known = points.copy()
    known[rng.choice(300, size=60, replace=False)] = np.nan
    start = warm_start(knn_of(points, 8), known, team=TEAM, embed_rest=no_rest)
    old = ~np.isnan(known[:, 0])
    np.testing.assert_array_equal(start[old], points[old])
    error = np.linalg.norm(start[~old] - points[~old], axis=1)
    # Median distance of neighbours is about 0.7.
    assert np.median(error) < 0.1
    assert error.max() < 1.0


def test_a_patch_is_filled_from_its_rim():
    """A disc of new points, most of which have no old neighbour."""
    rng = np.random.default_rng(643)
    points = rng.uniform(size=(500, 2)) * 10.0
    known = points.copy()
    known[np.linalg.norm(points - 5.0, axis=1) < 2.0] = np.nan
    start = warm_start(knn_of(points, 8), known, team=TEAM, embed_rest=no_rest)
    error = np.linalg.norm(start - points, axis=1)
    assert error.max() < 1.5


def test_chains_are_followed_to_their_end():
    graph = path_graph(30)
    known = np.full((30, 2), np.nan)
    known[:3] = np.column_stack([[0.0, 1.0, 2.1], np.zeros(3)])
    start = warm_start(graph, known, team=TEAM, embed_rest=no_rest)
    expected = np.concatenate([[0.0], np.cumsum([d for _, _, d in edges_of(graph)])])
    # Each is seen opposite to where its neighbour came from: a straight line.
    np.testing.assert_allclose(start[:, 0], expected, rtol=1e-6)
    np.testing.assert_allclose(start[:, 1], 0.0, atol=1e-6)


def test_those_with_the_most_neighbours_come_first():
    """Vertex 4 has one old neighbour, vertex 3 two; placed after 3, vertex 4 keeps its distance to it."""
    points = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, -1.0], [0.5, 1.0], [1.4, 0.9]])
    edges = [(0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (1, 4), (3, 4)]
    graph = graph_of([(i, j, np.linalg.norm(points[i] - points[j])) for i, j in edges], 5)
    known = points.copy()
    known[3:] = np.nan
    start = warm_start(graph, known, team=TEAM, embed_rest=no_rest)
    for i, j in edges:
        assert np.linalg.norm(start[i] - start[j]) == pytest.approx(
            np.linalg.norm(points[i] - points[j]), rel=0.1
        )


def test_duplicates_of_known_points():
    rng = np.random.default_rng(647)
    points = rng.uniform(size=(40, 2))
    graph = graph_of([*edges_of(knn_of(points, 6)), (0, 40, 0.0), (40, 41, 0.0)], 42)
    known = np.vstack([points, np.full((2, 2), np.nan)])
    start = warm_start(graph, known, team=TEAM, embed_rest=no_rest)
    np.testing.assert_array_equal(start[40:], points[[0, 0]])
    known[0] = np.nan
    known[41] = points[0]
    np.testing.assert_array_equal(
        warm_start(graph, known, team=TEAM, embed_rest=no_rest)[:41:40], points[[0, 0]]
    )


def test_what_cannot_be_reached_is_embedded_afresh():
    rng = np.random.default_rng(653)
    points = rng.normal(size=(30, 2))
    edges = edges_of(knn_of(points, 6))
    edges += [(i + 30, j + 30, d) for i, j, d in edges] + [(60, 61, 1.5)]
    graph = graph_of(edges, 63)
    known = np.full((63, 2), np.nan)
    known[:30] = points
    asked = []

    def embed_rest(part):
        asked.append(part.n_vertices)
        return points + 50.0

    start = warm_start(graph, known, team=TEAM, embed_rest=embed_rest)
    assert asked == [30]
    np.testing.assert_array_equal(start[30:60], points + 50.0)
    # Two vertices span no plane: they keep their distance all the same. One is put anywhere.
    assert np.linalg.norm(start[60] - start[61]) == pytest.approx(1.5)
    assert np.isfinite(start[62]).all()


@pytest.mark.parametrize("n_components", [1, 2, 5])
def test_rigid_motion_is_found(n_components):
    rng = np.random.default_rng(659)
    points = rng.normal(size=(20, n_components))
    turn = random_rotations(1, n_components, rng)[0]
    shift = rng.normal(size=n_components)
    q, t = rigid_motion(points, points @ turn + shift)
    np.testing.assert_allclose(q, turn, atol=1e-8)
    np.testing.assert_allclose(points @ q + t, points @ turn + shift, atol=1e-8)


def test_rigid_motion_turns_no_more_than_it_must():
    one = np.array([[3.0, 4.0, 5.0]])
    q, t = rigid_motion(one, one + 1.0)
    np.testing.assert_allclose(q, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(t, np.ones(3))
    # Two points fix one direction; the others stay.
    two = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    q, _ = rigid_motion(two, two[::-1])
    np.testing.assert_allclose(q, np.diag([-1.0, 1.0, 1.0]), atol=1e-8)


def test_parts_settle_where_they_were():
    rng = np.random.default_rng(661)
    previous = rng.normal(size=(50, 2))
    previous[20:] += 10.0
    labels = np.repeat([0, 1, 2], [20, 20, 10])
    turns = random_rotations(3, 2, rng)[labels]
    moved = np.einsum("ij,ijk->ik", previous, turns) + np.array([[3.0, 0], [0, 7], [-40, 0]])[labels]
    alignments = random_rotations(50, 2, rng)
    known = previous.copy()
    known[[3, 25]] = np.nan
    known[40:] = np.nan
    coordinates, turned = settle_on(known, moved, alignments, labels)
    np.testing.assert_allclose(coordinates[:40], previous[:40], atol=1e-8)
    # Alignments turn with the map: phi_j - phi_i = E_ij Q_i stays true.
    np.testing.assert_allclose(turned[:40], alignments[:40] @ turns[:40].transpose(0, 2, 1), atol=1e-7)
    # The part that is new keeps its shape and lies clear of the others.
    np.testing.assert_allclose(np.diff(coordinates[40:], axis=0), np.diff(moved[40:], axis=0), atol=1e-10)
    assert coordinates[40:, 0].min() > coordinates[:40, 0].max()


def test_all_new_stays_as_it_is():
    rng = np.random.default_rng(673)
    points = rng.normal(size=(10, 2))
    alignments = random_rotations(10, 2, rng)
    found = settle_on(np.full((10, 2), np.nan), points, alignments, np.zeros(10, dtype=np.int32))
    np.testing.assert_array_equal(found[0], points)
    np.testing.assert_array_equal(found[1], alignments)


def test_parts_without_coordinates():
    """Outside the largest component there is nothing to move."""
    points = np.random.default_rng(677).normal(size=(10, 2))
    moved = points + 5.0
    moved[6:] = np.nan
    labels = np.repeat([0, 1], [6, 4])
    alignments = np.broadcast_to(np.eye(2), (10, 2, 2))
    coordinates, _ = settle_on(points, moved, alignments, labels)
    np.testing.assert_allclose(coordinates[:6], points[:6], atol=1e-9)
    assert np.isnan(coordinates[6:]).all()
