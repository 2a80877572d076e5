"""The landmark, synchronized and coarse starts: against loops, where they are exact, and what they bend."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.csgraph import dijkstra

import reference_graphs as ref
import reference_loops as loops
from isoweave import embed_graph, optimise
from isoweave._parallel import thread_team
from isoweave.datasets import swiss_roll
from isoweave.energy import edge_energy
from isoweave.geometry import calibrate_frames, local_frames, typical_degree
from isoweave.graph import (
    connected_components,
    graph_from_matrix,
    join_along,
    knn_graph,
    sums_of_lengths,
)
from isoweave.linalg import lowest_eigenvectors
from isoweave.metrics import procrustes_error
from isoweave.optimise import _starts as module
from isoweave.optimise._rotations import rotations_agree
from isoweave.optimise._starts import farthest_landmarks, landmark_start, synchronized_alignments
from reference_problems import TEAM, exact_frames


def start_of(name, graph, n_components=2, team=TEAM):
    """Coordinates to start from, or None."""
    problem = optimise.build_problem(module.sample_energy(graph, n_components, team=team))
    return module._STARTS[name](problem, 0.03, optimise.ALONE)


def landmark_graphs():
    rng = np.random.default_rng(419)
    points = rng.normal(size=(60, 2))
    return [ref.knn_of(points, 6), ref.random_sparse(50, 30, rng), ref.complete_of(rng.normal(size=(20, 3)))]


@pytest.mark.parametrize("graph", landmark_graphs())
def test_landmarks_agree_with_the_loop(graph):
    for n_landmarks in (2, 7, 15):
        vertices, distances = farthest_landmarks(graph, n_landmarks)
        chosen, expected = loops.landmarks_loop(graph, n_landmarks)
        assert vertices.tolist() == chosen
        np.testing.assert_allclose(distances, expected, rtol=1e-12)
    for n_components in (1, 2, 3):
        found = landmark_start(vertices, distances, n_components)
        start = loops.landmark_start_loop(chosen, distances, n_components)
        # Eigenvectors have no sign.
        signs = np.sign(np.sum(found * start, axis=0))
        np.testing.assert_allclose(found, start * signs, atol=1e-9 * np.abs(start).max())


def test_landmarks_that_are_exact_few_or_impossible():
    for n_components in (1, 2, 5):
        points = np.random.default_rng(421).normal(size=(80, n_components))
        start = optimise.find_landmarks(ref.complete_of(points), n_components).start
        assert procrustes_error(points, start) < 1e-22
    # Directions that landmarks do not have are zero.
    vertices, distances = farthest_landmarks(ref.path_graph(6), 50)
    assert sorted(vertices.tolist()) == list(range(6))
    np.testing.assert_allclose(landmark_start(vertices, distances, 3)[:, 1:], 0.0, atol=1e-7)
    # More components than landmarks, and no positive eigenvalue at all.
    two = np.array([0, 1])
    wide = landmark_start(two, np.array([[0.0, 2.0], [2.0, 0.0]]), 3)
    np.testing.assert_allclose(np.abs(wide), [[1.0, 0.0, 0.0]] * 2, atol=1e-12)
    assert np.all(landmark_start(two, np.zeros((2, 2)), 2) == 0.0)
    rng = np.random.default_rng(433)
    graph, order = ref.knn_of(rng.normal(size=(80, 2)), 6), rng.permutation(80)
    here, there = optimise.find_landmarks(graph, 2), optimise.find_landmarks(ref.permuted(graph, order), 2)
    assert order[there.vertices].tolist() == here.vertices.tolist()
    assert ref.distance_gap(here.start[order], there.start) < 1e-10
    with pytest.raises(ValueError, match="positive lengths: merge duplicates first"):
        farthest_landmarks(ref.graph_of([(0, 1, 0.0), (1, 2, 1.0)], 3), 2)


def framed(name, n_components):
    """A graph of 40 vertices with frames; a hub leaves out some rows."""
    rng = np.random.default_rng(439 + n_components)
    if name == "sparse":
        graph = ref.random_sparse(40, 30, rng)
    else:
        graph = ref.with_hubs(rng.normal(size=(40, n_components + 1)), 2 * n_components + 4, [3], rng)
    frames = local_frames(graph, n_components, team=TEAM, frame_size=6)
    included = frames.included & ~((graph.sources == 3) & (graph.indices % 2 == 0))
    return graph, replace(frames, included=included, rows=np.where(included[:, None], frames.rows, 0.0))


def spans(graph, frames, i, j):
    """Whether the vertices that i and j both see span the space: only then is the map between them unique."""
    x, y = loops.seen_by_both(graph, frames, i, j)
    values = np.linalg.svd(x.T @ y, compute_uv=False)
    return len(x) > frames.n_components and values[-1] > 1e-6 * values[0]


@pytest.mark.parametrize("name", ["sparse", "hub"])
@pytest.mark.parametrize("n_components", [1, 3])
def test_transitions_and_connection_laplacian_agree_with_the_loop(name, n_components):
    graph, frames = framed(name, n_components)
    transitions, weights = optimise.frame_transitions(graph, frames, TEAM)
    squares = (transitions @ transitions.transpose(0, 2, 1))[weights != 1e-3]
    assert len(squares) > len(weights) // 4 or name == "sparse"
    np.testing.assert_allclose(squares, np.broadcast_to(np.eye(n_components), squares.shape), atol=1e-12)
    assert np.linalg.norm(transitions, ord=2, axis=(1, 2)).max() <= 1.0 + 1e-12
    assert 0.0 <= weights.min() <= weights.max() <= 1.0 + 1e-12
    found = optimise.connection_laplacian(graph, frames, TEAM).toarray()
    assert np.linalg.eigvalsh(found)[0] > -1e-10
    expected = loops.connection_loop(graph, frames)
    for i, j, _ in ref.edges_of(graph):
        if not (spans(graph, frames, i, j) and spans(graph, frames, j, i)):
            # Any of several maps will do; its weight says how little it counts.
            here, there = (slice(v * n_components, (v + 1) * n_components) for v in (i, j))
            assert np.linalg.norm(found[here, there], 2) <= 1.0
            for matrix in (found, expected):
                matrix[here, there] = matrix[there, here] = 0.0
    np.testing.assert_allclose(found, expected, atol=1e-8)


@pytest.mark.parametrize("n_components", [1, 2, 4])
def test_flat_data_have_an_n_fold_zero_and_all_copies_are_found(n_components):
    rng = np.random.default_rng(443 + n_components)
    points = rng.uniform(size=(120, n_components))
    graph = ref.knn_of(points, 8 * n_components + 12)
    # The ends of every edge see enough common vertices to fix the map between their frames.
    around = [{i, *(v for _, v, _ in ref.row_of(graph, i))} for i in range(120)]
    assert min(len(around[i] & around[j]) for i, j, _ in ref.edges_of(graph)) > n_components
    frames, turns = exact_frames(graph, points, rng)
    laplacian = optimise.connection_laplacian(graph, frames, TEAM)
    values = np.linalg.eigvalsh(laplacian.toarray())
    assert np.abs(values[:n_components]).max() < 1e-10
    assert values[n_components] > 1e-3
    found, vectors = lowest_eigenvectors(laplacian, n_components)
    np.testing.assert_allclose(found, 0.0, atol=1e-9)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(n_components), atol=1e-10)
    np.testing.assert_allclose(laplacian @ vectors, 0.0, atol=1e-6)
    # The kernel is the rotations themselves: Q_i = R_i, up to one common map.
    kernel = turns.reshape(-1, n_components) / np.sqrt(120)
    np.testing.assert_allclose(np.linalg.svd(kernel.T @ vectors, compute_uv=False), 1.0, atol=1e-8)
    common = turns.transpose(0, 2, 1) @ synchronized_alignments(graph, frames, TEAM)
    np.testing.assert_allclose(common, np.tile(common[0], (120, 1, 1)), atol=1e-6)


@pytest.mark.parametrize("values", [[0.0] * 3, [0.1] * 4, [1e-6, 2e-6, 0.5], [2.0] * 50, [3.0, 1.0, 2.0]])
def test_lowest_eigenvectors_against_lapack(values):
    values = np.array(values) if values[0] >= 2.0 else np.append(values, np.linspace(1.0, 5.0, 46))
    n = len(values)
    q, _ = np.linalg.qr(np.random.default_rng(449).normal(size=(n, n)))
    matrix = sp.csr_array((q * values) @ q.T)
    found, vectors = lowest_eigenvectors(matrix, 3)
    np.testing.assert_allclose(found, np.sort(values)[:3], atol=1e-5)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(3), atol=1e-10)
    np.testing.assert_allclose(matrix @ vectors, vectors * found, atol=1e-5)


def test_companions_of_dense_graphs_have_few_edges():
    """Frames and factor cost the cube of the degree: minutes for some hundred vertices. A bipartite graph."""
    joined = np.zeros((200, 200))
    joined[:100, 100:] = 1.0
    graph = graph_from_matrix(sp.csr_array(joined))
    width, thinned = optimise.companion_width(typical_degree(graph.degrees), 2)
    companion = join_along(graph, width, thinned=thinned, team=TEAM)
    assert len(companion.indices) <= 84 * 200 < 0.9 * len(graph.indices)
    assert connected_components(companion)[0] == 1


def cloud(kind):
    """Flat points, among them a C-shaped region, around which shortest paths must walk, and their graph."""
    rng = np.random.default_rng(457)
    if kind == "bent":
        points = rng.uniform(-1.0, 1.0, size=(900, 2))
        points = points[~((np.abs(points[:, 1]) < 0.6) & (points[:, 0] > -0.5))]
    elif kind == "line":
        points = np.arange(600.0)[:, None] + 0.8 * rng.uniform(size=(600, 1))
    else:
        points = rng.uniform(size=(600, 3)) if kind == "cube" else rng.random((250, 2)) * [3.0, 1.0]
    return points, ref.knn_of(points, 100 if kind == "dense" else 11)


@pytest.mark.parametrize(
    ("kind", "bound"), [("dense", 1e-3), ("bent", 0.02), ("line", 1e-10), ("cube", 0.02)]
)
def test_synchronized_starts_of_flat_clouds(kind, bound):
    points, graph = cloud(kind)
    assert (np.percentile(graph.degrees, 25) > 80) == (kind == "dense")
    assert procrustes_error(points, start_of("synchronized", graph, points.shape[1])) < bound
    # Landmarks bend the C, rotations do not.
    assert kind != "bent" or procrustes_error(points, optimise.find_landmarks(graph, 2).start) > 0.05


def test_dumbbell_keeps_its_handle():
    """Vertices of the two ends are no geodesic neighbours; the start joins them all the same."""
    points, graph = ref.dumbbell(40, 6, 15.0, np.random.default_rng(461))
    start = start_of("synchronized", graph)
    true, found = (np.linalg.norm(p[:40].mean(axis=0) - p[40:].mean(axis=0)) for p in (points, start))
    assert found == pytest.approx(true, rel=0.3)


@pytest.mark.parametrize("n_components", [1, 2, 3])
@pytest.mark.parametrize(
    "graph", [ref.path_graph(6), ref.graph_of([(0, 1, 1.0)], 2), ref.knn_of(np.eye(8), 3)]
)
def test_rotations_of_degenerate_graphs_are_finite(graph, n_components):
    frames = calibrate_frames(graph, local_frames(graph, n_components, team=TEAM))
    alignments = synchronized_alignments(graph, frames, TEAM)
    eye = np.tile(np.eye(n_components), (graph.n_vertices, 1, 1))
    np.testing.assert_allclose(alignments @ alignments.transpose(0, 2, 1), eye, atol=1e-10)
    problem = optimise.build_problem(edge_energy(graph, frames, team=TEAM))
    assert np.isfinite(problem.integrate(alignments)).all()


RNG = np.random.default_rng(821)
SHEET = ref.knn_of(RNG.uniform(size=(400, 2)), 8)
SAMPLED = [SHEET, ref.with_hubs(RNG.uniform(size=(120, 2)), 6, [5], RNG), ref.dumbbell(60, 6, 15.0, RNG)[1]]


@pytest.mark.parametrize("graph", SAMPLED)
def test_edges_and_anchors_of_the_sample_have_geodesic_lengths(graph):
    level = optimise.coarsen(graph, team=TEAM)
    n = graph.n_vertices
    assert len(level.sample) == n // module.THINNING
    assert sorted(set(level.sample.tolist())) == level.sample.tolist()
    distances = dijkstra(graph.to_matrix())
    for i, j, d in ref.edges_of(level.graph):
        assert d == pytest.approx(distances[level.sample[i], level.sample[j]], rel=1e-12)
    for v in range(n):
        count = int(level.filled[v])
        own = level.distances[v, :count]
        assert np.all(np.diff(own) >= 0)
        np.testing.assert_allclose(own, distances[v, level.sample[level.anchors[v, :count]]], rtol=1e-12)
        assert len(set(level.anchors[v, :count].tolist())) == count
    if graph is SHEET:
        # No ball is cut: every sampled vertex has an edge to each of its nearest few.
        between = distances[np.ix_(level.sample, level.sample)]
        joined = {(i, j) for i, j, _ in ref.edges_of(level.graph)}
        for i in range(len(level.sample)):
            for j in np.argsort(between[i])[1 : module._SAMPLE_NEIGHBORS + 1].tolist():
                assert (min(i, j), max(i, j)) in joined


def test_sample_is_the_first_of_all_in_order():
    """Slow twin: all vertices sorted by their scrambles, equal ones (of a grid, nearly all) at random."""
    for graph in (SHEET, replace(SHEET, lengths=np.ones(len(SHEET.lengths)))):
        sums = sums_of_lengths(graph, TEAM)
        scramble = np.modf(sums / np.median(sums) * (1e6 * np.sqrt(2.0)))[0]
        ties = np.random.default_rng(11).permutation(graph.n_vertices)
        first = np.sort(np.lexsort((ties, scramble))[:50])
        np.testing.assert_array_equal(optimise.sample_vertices(graph, 50, team=TEAM), first)


def test_sample_depends_on_neither_numbering_nor_unit():
    order = np.random.default_rng(823).permutation(400)
    here = optimise.sample_vertices(SHEET, 50, team=TEAM)
    there = optimise.sample_vertices(ref.permuted(SHEET, order), 50, team=TEAM)
    assert sorted(order[there].tolist()) == here.tolist()
    for unit in (0.7, 3.3, 100.0):
        scaled = optimise.sample_vertices(replace(SHEET, lengths=unit * SHEET.lengths), 50, team=TEAM)
        # Rounding may exchange one vertex at the margin.
        assert len(set(here.tolist()) & set(scaled.tolist())) >= 49


def test_prolongation(monkeypatch):
    """Places of the sample taken from the truth: the others land near theirs, within the spacing.

    A long path with small balls: far vertices have no anchor and go where the nearest with one is.
    """
    points = np.random.default_rng(827).uniform(size=(800, 2))
    graph = ref.knn_of(points, 10)
    level = optimise.coarsen(graph, team=TEAM)
    found = module.prolong(graph, level, points[level.sample], team=TEAM)
    inner = np.all((points > 0.1) & (points < 0.9), axis=1)
    assert np.median(np.linalg.norm(found - points, axis=1)[inner]) < np.median(graph.lengths)
    monkeypatch.setattr(module, "_SAMPLE_NEIGHBORS", 1)
    monkeypatch.setattr(module, "_BALL_SLACK", 1)
    graph = ref.path_graph(200)
    level = optimise.coarsen(graph, team=TEAM)
    assert (level.filled == 0).any()
    places = np.arange(float(len(level.sample)))[:, None]
    assert np.isfinite(module.prolong(graph, level, places, team=TEAM)).all()


def test_coarse_starts_are_close_none_of_small_graphs_and_the_same_for_any_threads():
    roll = swiss_roll(3000, random_state=829)
    graph = knn_graph(roll.data, 8)
    start, frames = start_of("coarse", graph), local_frames(graph, 2, team=TEAM)
    assert procrustes_error(roll.truth, start) < 0.02
    for n in (5, 16, 40):
        for small in (ref.path_graph(n), ref.cycle_graph(n)):
            found = start_of("coarse", small)
            assert found is None or (found.shape == (n, 2) and np.isfinite(found).all())
    with thread_team(2) as team:
        np.testing.assert_array_equal(start_of("coarse", graph, team=team), start)
        laplacian = optimise.connection_laplacian(graph, frames, team)
    assert (laplacian != optimise.connection_laplacian(graph, frames, TEAM)).nnz == 0


def test_rotations_agree_unless_mirrored_or_untold():
    rng = np.random.default_rng(449)
    points = (np.argwhere(np.ones((8, 5))) + 0.3 * rng.random((40, 2))) / 8
    folded = np.where(points[:, :1] < 0.5, points, [1.0, 0.0] + points * [-1.0, 1.0])
    sheet = module.sample_energy(ref.knn_of(points, 8), 2, team=TEAM)
    chain = module.sample_energy(ref.path_graph(6), 2, team=TEAM)
    line = np.column_stack((np.arange(6.0), np.zeros(6)))
    for energy, x, agree in ((sheet, points, True), (sheet, folded, False), (chain, line, False)):
        assert rotations_agree(energy, energy.evaluate(x).alignments).tolist() == [agree]
    both = ref.knn_of(np.vstack((points, points + 10.0)), 8)
    twice, starts = module.sample_energy(both, 2, team=TEAM), np.array([0, 40, 80])
    alignments = twice.evaluate(np.vstack((points, folded))).alignments
    assert rotations_agree(twice, alignments, starts).tolist() == [True, False]


def flat_points(kind):
    """A roll, a C whose arms landmarks fold over, and a strip narrower than its neighbourhoods."""
    if kind == "roll":
        return swiss_roll(1000, random_state=17).data
    along, across = np.random.default_rng(463).random((2, 400))
    if kind == "strip":
        return np.column_stack((300.0 * along, across))
    angle, radius = 5.2 * along, 0.7 + 0.3 * across
    return np.column_stack((radius * np.cos(angle), radius * np.sin(angle)))


@pytest.mark.parametrize(
    ("kind", "fits", "winner"),
    [("roll", True, "landmark"), ("C", False, "synchronized"), ("strip", False, "synchronized")],
)
def test_another_start_is_tried_unless_all_neighbourhoods_fit(kind, fits, winner, monkeypatch):
    tried, synchronized = [], module._STARTS["synchronized"]
    monkeypatch.setitem(
        module._STARTS, "synchronized", lambda *given: tried.append(kind) or synchronized(*given)
    )
    graph = knn_graph(flat_points(kind), 10).to_matrix()
    result = embed_graph(graph, 2, refine="none", n_jobs=1)
    assert (not tried, result.start) == (fits, winner)
    if kind != "roll":
        folded = embed_graph(graph, 2, refine="none", n_jobs=1, start="landmark")
        assert result.energy < 0.75 * folded.energy
