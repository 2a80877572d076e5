"""Where to begin when a graph has grown, and how the new map is laid on the old one."""

from __future__ import annotations

import numpy as np
import pytest

from isoweave._parallel import ThreadTeam
from isoweave.geometry import rigid_motion
from isoweave.place import settle_on, warm_start
from reference_graphs import edges_of, graph_of, knn_of, path_graph, random_rotations

TEAM = ThreadTeam(1)


def start_of(graph, known):
    def no_rest(part):
        raise AssertionError("everything can be reached")

    return warm_start(graph, known, team=TEAM, embed_rest=no_rest)


@pytest.mark.parametrize(("hole", "n", "typical", "largest"), [(False, 300, 0.1, 1.0), (True, 500, 0.5, 1.5)])
def test_known_places_stay_and_gaps_are_filled(hole, n, typical, largest):
    """Scattered new points, or a disc of them, most of which have no old neighbour: from its rim inwards."""
    rng = np.random.default_rng(641)
    points = rng.uniform(size=(n, 2)) * 10.0
    known = points.copy()
    new = np.linalg.norm(points - 5.0, axis=1) < 2.0 if hole else rng.choice(n, size=60, replace=False)
    known[new] = np.nan
    start = start_of(knn_of(points, 8), known)
    old = ~np.isnan(known[:, 0])
    np.testing.assert_array_equal(start[old], points[old])
    error = np.linalg.norm(start[~old] - points[~old], axis=1)
    # Median distance of neighbours is about 0.7.
    assert np.median(error) < typical
    assert error.max() < largest


def test_chains_are_followed_to_their_end():
    graph = path_graph(30)
    known = np.full((30, 2), np.nan)
    known[:3] = np.column_stack([[0.0, 1.0, 2.1], np.zeros(3)])
    start = start_of(graph, known)
    expected = np.concatenate([[0.0], np.cumsum([d for _, _, d in edges_of(graph)])])
    # Each is seen opposite to where its neighbour came from: a straight line.
    np.testing.assert_allclose(start[:, 0], expected, rtol=1e-6)
    np.testing.assert_allclose(start[:, 1], 0.0, atol=1e-6)


def test_those_with_the_most_neighbours_come_first():
    """Vertex 4 has one old neighbour, vertex 3 two; placed after 3, vertex 4 keeps its distance to it."""
    points = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, -1.0], [0.5, 1.0], [1.4, 0.9]])
    pairs = np.array([(0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (1, 4), (3, 4)])
    lengths = np.linalg.norm(points[pairs[:, 0]] - points[pairs[:, 1]], axis=1)
    known = points.copy()
    known[3:] = np.nan
    start = start_of(graph_of(np.column_stack([pairs, lengths]).tolist(), 5), known)
    found = np.linalg.norm(start[pairs[:, 0]] - start[pairs[:, 1]], axis=1)
    np.testing.assert_allclose(found, lengths, rtol=0.1)


def test_duplicates_of_known_points():
    points = np.random.default_rng(647).uniform(size=(40, 2))
    graph = graph_of([*edges_of(knn_of(points, 6)), (0, 40, 0.0), (40, 41, 0.0)], 42)
    known = np.vstack([points, np.full((2, 2), np.nan)])
    np.testing.assert_array_equal(start_of(graph, known)[40:], points[[0, 0]])
    known[[0, 41]] = known[[41, 0]]
    np.testing.assert_array_equal(start_of(graph, known)[:41:40], points[[0, 0]])


def test_what_cannot_be_reached_is_embedded_afresh():
    points = np.random.default_rng(653).normal(size=(30, 2))
    edges = edges_of(knn_of(points, 6))
    edges += [(i + 30, j + 30, d) for i, j, d in edges] + [(60, 61, 1.5)]
    known = np.full((63, 2), np.nan)
    known[:30] = points
    asked = []

    def embed_rest(part):
        asked.append(part.n_vertices)
        return points + 50.0

    start = warm_start(graph_of(edges, 63), known, team=TEAM, embed_rest=embed_rest)
    assert asked == [30]
    np.testing.assert_array_equal(start[30:60], points + 50.0)
    # Two vertices span no plane: they keep their distance all the same. One is put anywhere.
    assert np.linalg.norm(start[60] - start[61]) == pytest.approx(1.5)
    assert np.isfinite(start[62]).all()


def test_rigid_motion_rotates_no_more_than_it_must():
    rng = np.random.default_rng(659)
    points, rotation, shift = rng.normal(size=(20, 5)), random_rotations(1, 5, rng)[0], rng.normal(size=5)
    q, t = rigid_motion(points, points @ rotation + shift)
    np.testing.assert_allclose(q, rotation, atol=1e-8)
    np.testing.assert_allclose(t, shift, atol=1e-8)
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
    rotations = random_rotations(3, 2, rng)[labels]
    moved = np.einsum("ij,ijk->ik", previous, rotations) + np.array([[3.0, 0], [0, 7], [-40, 0]])[labels]
    alignments = random_rotations(50, 2, rng)
    known = previous.copy()
    known[[3, 25]] = np.nan
    known[40:] = np.nan
    coordinates, rotated = settle_on(known, moved, alignments, labels)
    np.testing.assert_allclose(coordinates[:40], previous[:40], atol=1e-8)
    # Alignments rotate with the map: phi_j - phi_i = E_ij Q_i stays true.
    np.testing.assert_allclose(rotated[:40], alignments[:40] @ rotations[:40].transpose(0, 2, 1), atol=1e-7)
    # The part that is new keeps its shape and lies clear of the others.
    np.testing.assert_allclose(np.diff(coordinates[40:], axis=0), np.diff(moved[40:], axis=0), atol=1e-10)
    assert coordinates[40:, 0].min() > coordinates[:40, 0].max()
    # If all is new, it stays; parts without coordinates have nothing to move.
    found = settle_on(np.full((50, 2), np.nan), moved, alignments, labels)
    np.testing.assert_array_equal(found[0], moved)
    np.testing.assert_array_equal(found[1], alignments)
    moved[20:] = np.nan
    coordinates, _ = settle_on(previous, moved, alignments, labels)
    np.testing.assert_allclose(coordinates[:20], previous[:20], atol=1e-8)
    assert np.isnan(coordinates[20:]).all()
