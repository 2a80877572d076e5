"""New points by their distances, and where to begin when a graph has grown."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from isoweave._parallel import ThreadTeam, thread_team
from isoweave.graph import NeighborGraph
from isoweave.place import finished_map, place_points, settle_on, warm_start
from reference_graphs import complete_of, edges_of, graph_of, knn_of, path_graph, random_rotations
from reference_placing import place_one

TEAM = ThreadTeam(1)


def rows_of_nearest(new, points, k):
    """``indptr, indices, distances`` of the k nearest points of every new one."""
    distances = cdist(new, points)
    nearest = np.argsort(distances, axis=1, kind="stable")[:, :k]
    return np.arange(len(new) + 1) * k, nearest.ravel(), np.take_along_axis(distances, nearest, 1).ravel()


def curved(n, seed):
    """Points on a quarter of a cylinder, their flat coordinates a little wrong: a map as maps are."""
    rng = np.random.default_rng(seed)
    flat = rng.uniform(size=(n, 2)) * np.array([3.0, 2.0])
    bent = np.column_stack([np.sin(flat[:, 0] / 2), np.cos(flat[:, 0] / 2), flat[:, 1] / 2]) * 2
    return bent, flat + rng.normal(scale=0.02, size=flat.shape)


def noisy(n, seed):
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(n, 9))
    return points, points[:, :6] + rng.normal(scale=0.1, size=(n, 6))


def map_of(points, coordinates, k=8):
    return finished_map(knn_of(points, k), coordinates, team=TEAM)


CURVE, FLAT = curved(60, 457)
CURVED = map_of(CURVE, FLAT)


def twice(points, k):
    """Edges of two copies of a graph."""
    edges = edges_of(knn_of(points, k))
    return [(i + s, j + s, d) for s in (0, len(points)) for i, j, d in edges]


@pytest.mark.parametrize("n_components", [1, 2, 3, 10])
def test_exact_distances_give_the_exact_place(n_components):
    """From all distances anywhere, from those of the nearest amid the points."""
    rng = np.random.default_rng(401 + n_components)
    points = rng.normal(size=(60, n_components))
    placed = finished_map(complete_of(points), points, team=TEAM)
    new = np.vstack([0.5 * rng.normal(size=(20, n_components)), 4.0 * rng.normal(size=(10, n_components))])
    found = place_points(placed, *rows_of_nearest(new, points, 60))
    np.testing.assert_allclose(found.coordinates, new, atol=1e-9)
    assert found.residual.max() < 1e-9
    assert (found.n_used == 60).all()
    found = place_points(placed, *rows_of_nearest(new[:20], points, 2 * n_components + 4))
    np.testing.assert_allclose(found.coordinates, new[:20], atol=1e-7)
    assert found.residual.max() < 1e-4
    # Points on a line stay on it.
    line = np.column_stack([np.linspace(0, 10, 41), np.zeros(41)])
    new = np.array([[4.1, 0.0], [7.33, 0.0]])
    found = place_points(map_of(line, line, k=4), *rows_of_nearest(new, line, 4))
    np.testing.assert_allclose(found.coordinates, new, atol=1e-6)


@pytest.mark.parametrize(
    ("make", "k", "m", "atol"), [*((curved, k, 10, 1e-6) for k in (1, 2, 10)), (noisy, 9, 2, 1e-5)]
)
def test_agrees_with_the_slow_twin(make, k, m, atol):
    points, coordinates = make(120 + m, 409)
    graph = knn_of(points[:120], 8)
    indptr, indices, distances = rows_of_nearest(points[120:], points[:120], k)
    placed = finished_map(graph, coordinates[:120], team=TEAM)
    found = place_points(placed, indptr, indices, distances)
    for i in range(m):
        part, lengths = slice(indptr[i], indptr[i + 1]), graph.to_matrix().toarray()
        y, residual, n_used = place_one(lengths, coordinates[:120], indices[part], distances[part])
        np.testing.assert_allclose(found.coordinates[i], y, atol=atol)
        assert found.residual[i] == pytest.approx(residual, rel=10 * atol, abs=1e-8)
        assert found.n_used[i] == n_used


def test_bits_do_not_depend_on_batch_order_threads_or_unit():
    indptr, indices, distances = rows_of_nearest(curved(300, 439)[0], CURVE, 8)
    whole = place_points(CURVED, indptr, indices, distances)
    with thread_team(3) as team:
        threaded = place_points(CURVED, indptr, indices, distances, team=team)
    np.testing.assert_array_equal(whole.coordinates, threaded.coordinates)
    np.testing.assert_array_equal(whole.residual, threaded.residual)
    for i in (0, 299):
        part = slice(indptr[i], indptr[i + 1])
        # Nor on the order in which the neighbours are named.
        for step in (1, -1):
            alone = place_points(CURVED, [0, 8], indices[part][::step], distances[part][::step])
            np.testing.assert_array_equal(alone.coordinates[0], whole.coordinates[i])
    graph = knn_of(CURVE, 8)
    for exponent in (-900, 800):
        scaled = NeighborGraph(graph.indptr, graph.indices, np.ldexp(graph.lengths, exponent))
        placed = finished_map(scaled, np.ldexp(FLAT, exponent), team=TEAM)
        found = place_points(placed, indptr, indices, np.ldexp(distances, exponent))
        np.testing.assert_array_equal(np.ldexp(found.coordinates, -exponent), whole.coordinates)
        np.testing.assert_array_equal(found.residual, whole.residual)
    # A rigid motion of the map moves new points with it.
    rotation, shift = random_rotations(1, 2, np.random.default_rng(433))[0], np.array([5.0, -3.0])
    moved = place_points(map_of(CURVE, FLAT @ rotation + shift), indptr, indices, distances)
    np.testing.assert_allclose(moved.coordinates, whole.coordinates @ rotation + shift, atol=1e-7)


def test_coincident_points_are_copied_and_close_ones_come_near():
    found = place_points(CURVED, *rows_of_nearest(CURVE, CURVE, 8))
    np.testing.assert_array_equal(found.coordinates, FLAT)
    assert (set(found.residual), set(found.n_used)) == ({0.0}, {1})
    for step in (1e-2, 1e-6):
        close = place_points(CURVED, *rows_of_nearest(CURVE[:1] + step / np.sqrt(3), CURVE, 8))
        assert np.linalg.norm(close.coordinates[0] - FLAT[0]) < 5 * step
    # So are those at distances whose squares vanish.
    for distance in (1e-165, 5e-324):
        found = place_points(CURVED, [0, 3], [7, 8, 9], [distance, 0.3, 0.4])
        np.testing.assert_array_equal(found.coordinates[0], FLAT[7])
        assert found.residual[0] == 0


def test_duplicates_count_once_and_far_neighbours_not_at_all():
    """Zero edges merge vertices; naming all of them, or one twice, changes nothing."""
    graph = graph_of([*edges_of(knn_of(CURVE, 8)), (0, 60, 0.0), (60, 61, 0.0)], 62)
    placed = finished_map(graph, np.vstack([FLAT, FLAT[[0, 0]]]), team=TEAM)
    near = cdist(CURVE[:1] + 0.1, CURVE[:5])[0]
    once = place_points(placed, [0, 5], [0, 1, 2, 3, 4], near)
    again = [*near, near[0] * 1.5, near[0], near[3] * 2.0]
    more = place_points(placed, [0, 8], [60, 1, 2, 3, 4, 0, 61, 3], again)
    np.testing.assert_array_equal(once.coordinates, more.coordinates)
    assert once.n_given[0] == more.n_given[0] == 5
    points = np.random.default_rng(499).normal(size=(200, 2))
    _, indices, distances = rows_of_nearest(np.array([[0.1, 0.2]]), points, 200)
    placed = map_of(points, points)
    whole, cut = (place_points(placed, [0, k], indices[:k], distances[:k]) for k in (200, 128))
    assert whole.n_given[0] == 128
    np.testing.assert_array_equal(whole.coordinates, cut.coordinates)


def test_one_sheet_is_used():
    """Two sheets near each other in space and far apart in the map; the majority decides, near or far."""
    points = np.random.default_rng(467).uniform(size=(60, 2))
    coordinates = np.vstack([points, points + np.array([30.0, 0.0])])
    placed = finished_map(graph_of([*twice(points, 8), (0, 60, 0.3)], 120), coordinates, team=TEAM)
    _, near, d = rows_of_nearest(np.array([[0.5, 0.5]]), points, 6)
    clean = place_points(placed, [0, 6], near, d)
    mixed = place_points(placed, [0, 10], np.append(near, near[:4] + 60), np.append(d, d[:4] + 0.4))
    np.testing.assert_array_equal(mixed.coordinates, clean.coordinates)
    assert (mixed.n_used[0], mixed.n_given[0]) == (6, 10)
    other = place_points(placed, [0, 8], np.append(near[:2], near + 60), np.append(d[:2], d + 0.1))
    assert other.n_used[0] == 6
    assert other.coordinates[0, 0] > 20.0
    # Neighbours far from each other belong together if their distances to the new point say so.
    points = 20.0 * points
    new, corners = np.array([[9.0, 11.0]]), np.array([[0, 0], [0, 20], [20, 0], [20, 20]])
    beacons = np.argmin(cdist(corners, points), axis=1)
    found = place_points(map_of(points, points), [0, 4], beacons, cdist(new, points[beacons])[0])
    assert found.n_used[0] == 4
    assert np.linalg.norm(found.coordinates[0] - new[0]) < 2.0


def test_components():
    """The component of most neighbours; where it has no coordinates, none. Each has its own size."""
    points, new = np.random.default_rng(487).normal(size=(30, 2)), np.array([[0.1, -0.2]])
    graph, labels = graph_of(twice(points, 29), 60), np.repeat([0, 1], 30).astype(np.int32)
    # Side by side, as near as a component's own points.
    coordinates = np.vstack([points, points + 0.1])
    placed = finished_map(graph, coordinates, team=TEAM, labels=labels)
    d = np.linspace(0.5, 1.0, 7)
    assert place_points(placed, [0, 7], [0, 31, 32, 33, 34, 1, 2], d).n_used[0] == 4
    coordinates[30:] = np.nan
    placed = finished_map(graph, coordinates, team=TEAM, labels=labels)
    found = place_points(placed, [0, 7, 14], [0, 31, 32, 33, 34, 1, 2, 30, 1, 2, 3, 4, 5, 31], np.tile(d, 2))
    assert np.isnan(found.coordinates[0]).all()
    assert np.isnan(found.residual[0])
    assert np.isfinite(found.coordinates[1]).all()
    assert found.n_used.tolist() == [4, 5]
    # Also where the components are not given.
    other = place_points(finished_map(graph, coordinates, team=TEAM), [0, 4], [0, 1, 2, 31], d[:4])
    assert np.isfinite(other.coordinates).all()
    assert other.n_used[0] == 3
    coordinates = np.vstack([1.5 * points, 0.5 * points + 100.0])
    _, indices, distances = rows_of_nearest(new, points, 7)
    rows = [0, 7, 14], np.append(indices, indices + 30), np.tile(distances, 2)
    placed = finished_map(graph, coordinates, team=TEAM, labels=labels, keeps_lengths=False)
    expected = [1.5 * new[0], 0.5 * new[0] + 100.0]
    np.testing.assert_allclose(place_points(placed, *rows).coordinates, expected, atol=1e-8)
    # Otherwise the distances count as they are, and cannot fit.
    plain = finished_map(graph, coordinates, team=TEAM, labels=labels)
    assert place_points(plain, *rows).residual.min() > 0.1


def test_too_few_neighbours_are_flagged():
    one = place_points(CURVED, [0, 1], [3], [0.2])
    assert one.residual[0] == np.inf
    assert np.linalg.norm(one.coordinates[0] - FLAT[3]) == pytest.approx(0.2, rel=1e-6)
    in_space = map_of(CURVE, np.column_stack([FLAT, np.zeros(60)]))
    assert place_points(in_space, [0, 2], [3, 4], [0.5, 0.6]).residual[0] == np.inf
    assert np.isfinite(place_points(CURVED, [0, 2], [3, 4], [0.5, 0.6]).residual[0])
    # A vertex without neighbours sees nothing: the new point is put on it.
    alone = np.array([[0.0, 0.0], [1.0, 0.0], [5.0, 5.0]])
    found = place_points(finished_map(graph_of([(0, 1, 1.0)], 3), alone, team=TEAM), [0, 1], [2], [0.7])
    np.testing.assert_array_equal(found.coordinates, [[5.0, 5.0]])
    assert found.residual[0] == np.inf


BAD_ROWS = [
    ([0, 1, 1, 2], [0, 1], [1.0, 1.0], "row 1 of the new distances has none"),
    ([0, 1], [0], [np.nan], "new point 0 to point 0 of the map is nan"),
    ([0, 1, 2], [0, 7], [1.0, -0.5], "new point 1 to point 7 of the map is -0.5"),
    ([0, 1], [0], [np.inf], "is inf; it must be finite"),
    ([0, 1], [0], [1e200], "at most"),
    ([0, 1], [60], [1.0], "a distance to point 60, but the map has the points 0 .. 59"),
    ([0, 1], [-1], [1.0], "point -1"),
    ([0, 2], [0], [1.0], "indptr must rise from 0"),
    ([0, 2, 1], [0], [1.0], "indptr must rise from 0"),
]


def test_bad_rows_are_named():
    for indptr, indices, distances, message in BAD_ROWS:
        with pytest.raises(ValueError, match=message):
            place_points(CURVED, indptr, indices, np.array(distances))
    with pytest.raises(ValueError, match="one row for each of the 60 vertices"):
        map_of(CURVE, FLAT[:50])


def start_of(graph, known):
    def no_rest(part):
        raise AssertionError("everything can be reached")

    return warm_start(graph, known, team=TEAM, embed_rest=no_rest)


@pytest.mark.parametrize(("hole", "n", "typical", "largest"), [(False, 300, 0.1, 1.0), (True, 500, 0.5, 1.5)])
def test_known_places_stay_and_gaps_are_filled(hole, n, typical, largest):
    """Scattered new points, or a disc of them, most of which have no old neighbour: from its rim inwards."""
    rng = np.random.default_rng(641)
    points = rng.uniform(size=(n, 2)) * 10.0
    known, disc = points.copy(), np.linalg.norm(points - 5.0, axis=1) < 2.0
    known[disc if hole else rng.choice(n, size=60, replace=False)] = np.nan
    start = start_of(knn_of(points, 8), known)
    old = ~np.isnan(known[:, 0])
    np.testing.assert_array_equal(start[old], points[old])
    error = np.linalg.norm(start[~old] - points[~old], axis=1)
    # Median distance of neighbours is about 0.7.
    assert np.median(error) < typical
    assert error.max() < largest


def test_starts_of_chains_and_duplicates_and_those_with_most_neighbours_first():
    graph, known = path_graph(30), np.full((30, 2), np.nan)
    known[:3] = np.column_stack([[0.0, 1.0, 2.1], np.zeros(3)])
    expected = np.concatenate([[0.0], np.cumsum([d for _, _, d in edges_of(graph)])])
    # Each is seen opposite to where its neighbour came from: a straight line.
    straight = np.column_stack([expected, np.zeros(30)])
    np.testing.assert_allclose(start_of(graph, known), straight, rtol=1e-6, atol=1e-6)
    # Vertex 4 has one old neighbour, vertex 3 two; placed after 3, vertex 4 keeps its distance to it.
    points = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, -1.0], [0.5, 1.0], [1.4, 0.9]])
    pairs = np.array([(0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (1, 4), (3, 4)])
    lengths = np.linalg.norm(points[pairs[:, 0]] - points[pairs[:, 1]], axis=1)
    known = np.where(np.arange(5)[:, None] < 3, points, np.nan)
    start = start_of(graph_of(np.column_stack([pairs, lengths]).tolist(), 5), known)
    found = np.linalg.norm(start[pairs[:, 0]] - start[pairs[:, 1]], axis=1)
    np.testing.assert_allclose(found, lengths, rtol=0.1)
    graph = graph_of([*edges_of(knn_of(CURVE, 6)), (0, 60, 0.0), (60, 61, 0.0)], 62)
    known = np.vstack([FLAT, np.full((2, 2), np.nan)])
    np.testing.assert_array_equal(start_of(graph, known)[60:], FLAT[[0, 0]])
    known[[0, 61]] = known[[61, 0]]
    np.testing.assert_array_equal(start_of(graph, known)[:61:60], FLAT[[0, 0]])


def test_what_cannot_be_reached_is_embedded_afresh():
    points = np.random.default_rng(653).normal(size=(30, 2))
    known = np.vstack([points, np.full((33, 2), np.nan)])
    asked = []

    def embed_rest(part):
        asked.append(part.n_vertices)
        return points + 50.0

    graph = graph_of([*twice(points, 6), (60, 61, 1.5)], 63)
    start = warm_start(graph, known, team=TEAM, embed_rest=embed_rest)
    assert asked == [30]
    np.testing.assert_array_equal(start[30:60], points + 50.0)
    # Two vertices span no plane: they keep their distance all the same. One is put anywhere.
    assert np.linalg.norm(start[60] - start[61]) == pytest.approx(1.5)
    assert np.isfinite(start[62]).all()


def test_parts_settle_where_they_were():
    rng = np.random.default_rng(661)
    previous = rng.normal(size=(50, 2))
    previous[20:] += 10.0
    labels = np.repeat([0, 1, 2], [20, 20, 10])
    rotations, alignments = random_rotations(3, 2, rng)[labels], random_rotations(50, 2, rng)
    moved = np.einsum("ij,ijk->ik", previous, rotations) + np.array([[3.0, 0], [0, 7], [-40, 0]])[labels]
    known = previous.copy()
    known[[3, 25, *range(40, 50)]] = np.nan
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
