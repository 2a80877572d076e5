"""The dial from local to global: its energy against a dense twin, and what it does to embeddings."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.csgraph import dijkstra
from scipy.spatial.distance import cdist
from scipy.stats import pearsonr, spearmanr

from isoweave import Anchors, IsometricEmbedding, _engine, embed_graph
from isoweave._parallel import thread_team
from isoweave.datasets import flat_torus, klein_bottle
from isoweave.energy import GlobalEnergy
from isoweave.experiments.baselines import run_baseline
from isoweave.graph import geodesics, geodesics_from, knn_graph
from isoweave.metrics import geodesic_rows, local_distance, neighborhood_scores, pearson, procrustes_error
from isoweave.optimise import (
    balanced_weight,
    energy_over_stress,
    global_energy,
    mean_degree,
    minimise,
    mixed_part,
    n_far_landmarks,
    openness,
)
from isoweave.optimise._starts import landmark_start
from reference_problems import TEAM, assert_gradient, make_problem


def far_of(n_components, n=1100, seed=3, weight=2.5, team=TEAM):
    """More vertices than two blocks hold."""
    rng = np.random.default_rng(seed)
    landmarks = rng.choice(n, 7, replace=False).astype(np.int32)
    return GlobalEnergy(landmarks, rng.uniform(0.5, 4.0, size=(n, 7)), weight, team), rng


def stress(far, x):
    """S from all distances at once."""
    d, g = cdist(x, x[far.landmarks]), far.geodesics
    return 1.0 - np.sum(d * g) ** 2 / (np.sum(d * d) * np.sum(g * g))


@pytest.mark.parametrize("n_components", [1, 2, 5])
def test_energy_gradient_and_invariance(n_components):
    far, rng = far_of(n_components)
    x = rng.normal(size=(1100, n_components))
    here = far.evaluate(x)
    assert here.energy == pytest.approx(2.5 * stress(far, x), rel=1e-12)
    assert here.energies.sum() == pytest.approx(here.energy, rel=1e-12)
    assert_gradient(lambda y: 2.5 * stress(far, y), here.half_gradient, x, rng, abs=1e-9)
    rotation = np.linalg.qr(rng.normal(size=(n_components, n_components)))[0]
    moved = far.evaluate(3.7 * x @ rotation + 11.0)
    assert moved.energy == pytest.approx(here.energy, rel=1e-10)
    np.testing.assert_allclose(3.7 * moved.half_gradient, here.half_gradient @ rotation, atol=1e-12)
    # Neither translation nor scale is a direction of descent.
    np.testing.assert_allclose(here.half_gradient.sum(axis=0), 0.0, atol=1e-12)
    assert np.sum(here.half_gradient * x) == pytest.approx(0.0, abs=1e-12)


def test_exact_distances_have_no_stress():
    far, rng = far_of(2)
    x = rng.normal(size=(1100, 2))
    exact = replace(far, geodesics=np.ascontiguousarray(cdist(x, x[far.landmarks])))
    assert exact.evaluate(5.0 * x).energy == pytest.approx(0.0, abs=1e-14)
    np.testing.assert_allclose(exact.evaluate(5.0 * x).half_gradient, 0.0, atol=1e-14)


def test_springs_are_the_diagonal_of_the_quadratic_part():
    far, rng = far_of(2, n=40)
    x = rng.normal(size=(40, 2))
    d, g = cdist(x, x[far.landmarks]), far.geodesics
    spring = 2.5 * (np.sum(d * g) / np.sum(d * d)) ** 2 / np.sum(g * g)
    bipartite = np.zeros((40, 40))
    for a in far.landmarks:
        for i in range(40):
            bipartite[i, i] += spring
            bipartite[a, a] += spring
            bipartite[i, a] -= spring
            bipartite[a, i] -= spring
    # A landmark's edge to itself is no edge; the springs count it at both ends.
    expected = np.diag(bipartite) + 2.0 * spring * np.isin(np.arange(40), far.landmarks)
    np.testing.assert_allclose(far.springs(x), expected, rtol=1e-12)


def test_same_bits_on_any_number_of_threads():
    far, rng = far_of(3, n=3000)
    x, found = rng.normal(size=(3000, 3)), []
    graph = knn_graph(x, 8)
    for n_jobs in (1, 2, 3):
        with thread_team(n_jobs) as team:
            here = replace(far, team=team).evaluate(x)
            paths = geodesics_from(graph, far.landmarks, team=team)
            found.append((here.energy, here.half_gradient.tobytes(), paths.tobytes()))
    assert found[0] == found[1] == found[2]
    np.testing.assert_array_equal(paths, dijkstra(graph.to_matrix(), indices=far.landmarks))


def test_points_in_one_place():
    far, _ = far_of(2)
    here = far.evaluate(np.zeros((1100, 2)))
    assert here.energy == 2.5
    assert not here.half_gradient.any()


def test_landmarks_of_an_embedding():
    problem, rng = make_problem("edge", 2)
    x = rng.normal(size=(50, 2))
    x[7] = x[9]
    far = global_energy(problem.frames, x, "auto")
    assert far.weight == problem.mass
    # 50 are wanted, and of two in one place only one is taken.
    assert sorted([*far.landmarks, *{7, 9} - set(far.landmarks.tolist())]) == list(range(50))
    np.testing.assert_array_equal(far.geodesics.T, dijkstra(problem.graph.to_matrix(), indices=far.landmarks))


def test_the_more_they_count_the_more_landmarks():
    assert [n_far_landmarks(1500, 3, w) for w in ("auto", 0.3, 1.0, 10.0, 1e300)] == [60, 60, 60, 600, 1500]
    # As far as memory goes, and never fewer than "auto" takes.
    assert (n_far_landmarks(8_000, 3, 100.0), n_far_landmarks(10**6, 3, 100.0)) == (500, 20)
    assert n_far_landmarks(10**6, 3, "auto") == 20
    # What classical scaling leaves is asked of the first of them: it is the same for all weights.
    x = np.random.default_rng(2).random((200, 2))
    frames = SimpleNamespace(graph=knn_graph(x, 8), mass=1.0, team=TEAM)
    few, many = global_energy(frames, x, "auto"), global_energy(frames, x, 100.0)
    assert (len(few.landmarks), len(many.landmarks)) == (50, 200)
    assert energy_over_stress(0.04, many, 2) == energy_over_stress(0.04, few, 2)


@pytest.mark.parametrize(("make", "k"), [(flat_torus, 10), (klein_bottle, 8)])
def test_at_a_hundred_a_map_is_ahead_of_isomap_in_everything(make, k):
    graph = knn_graph(make(600, random_state=1033).data, k)
    paths = geodesics(graph)
    scores = []
    for y in (
        embed_graph(graph.to_matrix(), 3, global_weight=100).coordinates,
        run_baseline("isomap", graph, 3, n_neighbors=k),
    ):
        d = cdist(y, y)
        stress = 1.0 - np.sum(d * paths) ** 2 / (np.sum(d * d) * np.sum(paths * paths))
        far = [pearsonr(d.ravel(), paths.ravel())[0], spearmanr(d.ravel(), paths.ravel())[0], -stress]
        scores.append([neighborhood_scores(graph, y, n_neighbors=k).f1, -local_distance(graph, y), *far])
    assert (np.array(scores[0]) > scores[1]).all(), scores


def test_what_auto_goes_by():
    graph = knn_graph(np.random.default_rng(0).random((300, 2)), 8)
    shares = np.linspace(0.0, 0.1, 2001)
    opened = np.array([openness(mean_degree(graph), 2, share) for share in shares])
    assert opened[shares <= 0.0269].max() == 0.0
    assert opened[shares >= 0.0351].min() == 1.0
    # No jump anywhere: a smooth step of width 0.008.
    assert np.abs(np.diff(opened)).max() < 1.6 * (shares[1] - shares[0]) / 0.008
    # Roads: neighbourhoods so small that they fit any frame.
    chain = knn_graph(np.arange(300.0)[:, None], 2)
    assert openness(mean_degree(chain), 2, 0.02) > 0.9
    # The energy of the frames over the stress of classical scaling decides the rest.
    places = np.random.default_rng(1).normal(size=(50, 2))
    far = global_energy(make_problem("edge", 2)[0].frames, places, "auto")
    scaled = landmark_start(far.landmarks, np.ascontiguousarray(far.geodesics.T), 2)
    assert energy_over_stress(0.04, far, 2) == pytest.approx(0.04 / stress(far, scaled))
    assert (balanced_weight(2.5), balanced_weight(100.0)) == (pytest.approx(0.25), 1.2)
    parts = np.array([mixed_part(ratio, 1.0) for ratio in np.linspace(0.0, 10.0, 1001)])
    assert (parts[300], parts[-1]) == (0.0, pytest.approx(0.7))
    assert 0.0 <= np.diff(parts).min() <= np.diff(parts).max() < 1.6 * 0.7 * 0.01 / 5.0
    # Edges of a tree can all be met.
    assert mixed_part(0.0, 0.0) == pytest.approx(0.7)


def size(x):
    return np.linalg.norm(x - x.mean(axis=0))


def outlines(rng, n=600):
    u = rng.random((8 * n, 2))
    angle, radius = np.pi * (0.15 + 1.7 * u[:, 0]), 1.0 + 0.5 * u[:, 1]
    square = 2.0 * u - 1.0
    across, up = u.T
    # Two long arms that a short bend joins.
    t = 2.4 * up - 1.2
    normal = np.column_stack([-1.0 / np.cos(t) ** 2, np.ones_like(t)])
    normal /= np.linalg.norm(normal, axis=1, keepdims=True)
    tangent = np.column_stack([t, np.tan(t)]) + (across[:, None] - 0.5) * normal
    walls = (np.abs(across - 0.33) < 0.04) & (up < 0.7) | (np.abs(across - 0.66) < 0.04) & (up > 0.3)
    return {
        "strip": np.c_[radius * np.cos(angle), radius * np.sin(angle)][:n],
        "hole": square[np.abs(square).max(axis=1) > 0.6][:n],
        "maze": u[~walls][:n],
        "tangent": tangent[:n],
    }


@pytest.mark.parametrize(("name", "k"), [("strip", 8), ("hole", 12), ("maze", 15), ("tangent", 10)])
def test_flat_data_of_any_outline_are_left_alone(name, k):
    """Geodesics walk around bays and holes: there they are wrong, and the frames are right."""
    points = outlines(np.random.default_rng(12))[name]
    matrix = knn_graph(points, k).to_matrix()
    found, local = embed_graph(matrix, 2), embed_graph(matrix, 2, global_weight=0)
    assert found.global_weight == 0.0
    np.testing.assert_array_equal(found.coordinates, local.coordinates)
    assert procrustes_error(points, found.coordinates) < 5e-3
    forced = embed_graph(matrix, 2, global_weight=1.0)
    assert procrustes_error(points, forced.coordinates) > procrustes_error(points, found.coordinates)


@pytest.mark.filterwarnings("ignore:The (optimiser stopped|graph has 3)")
@pytest.mark.parametrize("n", [60, 30])  # alone, and with other small components
def test_the_weight_is_that_of_the_map_that_was_kept(n):
    """Lengths over 20 orders of magnitude: long distances would ruin the map, and the local one is kept."""
    rng = np.random.default_rng(0)
    pattern = sp.coo_array(np.triu((rng.random((n, n)) < 0.1) | np.eye(n, k=1, dtype=bool), k=1))
    lengths = 10.0 ** rng.uniform(-10.0, 10.0, pattern.nnz)
    half = sp.coo_array((lengths, (pattern.row, pattern.col)), shape=(n, n))
    graph = sp.csr_array(sp.block_diag([half + half.T] * (1 if n > 50 else 3)))
    found, local = embed_graph(graph, 2), embed_graph(graph, 2, global_weight=0)
    np.testing.assert_array_equal(found.coordinates, local.coordinates)
    assert found.global_weight == 0.0


def test_the_dial_on_a_torus():
    """Much weight: better long distances, fewer of the neighbours, more energy of the frames."""
    data = flat_torus(400, random_state=1021).data
    graph = knn_graph(data, 10)
    geodesics = geodesic_rows(graph)
    dial = {w: embed_graph(graph.to_matrix(), 3, global_weight=w) for w in (0.0, 0.3, 3.0, "auto")}
    far = {w: pearson(geodesics, r.coordinates) for w, r in dial.items()}
    near = {w: neighborhood_scores(graph, r.coordinates, n_neighbors=10).f1 for w, r in dial.items()}
    assert far[0.0] < far[0.3] < far[3.0]
    assert min(near[0.0], near[0.3]) > near[3.0]
    assert 0.05 < dial["auto"].global_weight < 1.0
    assert far["auto"] > far[0.0] + 0.01
    assert near["auto"] > near[0.0] - 0.03
    assert max(dial[0.0].relative_energy, dial[0.3].relative_energy) <= dial[3.0].relative_energy < 0.2


def test_measured_distances_beside_the_frames():
    """On a Klein bottle part of the frames gives way to distances: better near, and not worse far."""
    graph = knn_graph(klein_bottle(500, random_state=1031).data, 8)
    geodesics, scores = geodesic_rows(graph), {}
    for refine in ("none", "auto"):
        found = embed_graph(graph.to_matrix(), 3, refine=refine)
        near = neighborhood_scores(graph, found.coordinates, n_neighbors=8).f1
        error = local_distance(graph, found.coordinates)
        scores[refine] = np.array([near, -error, pearson(geodesics, found.coordinates)])
        # Distances alone would crumple it, and more than double this.
        assert found.relative_energy < 0.06
    assert (scores["auto"] - scores["none"] > [0.001, 0.005, -1e-4]).all()


def test_coming_from_above_ends_no_higher(monkeypatch):
    matrix = knn_graph(flat_torus(400, random_state=12).data, 10).to_matrix()
    ends = []
    found = embed_graph(matrix, 3, global_weight=0.25, n_jobs=1)

    def kept(optimiser, problem, start, **options):
        ends.append(minimise(optimiser, problem, start, **options))
        return ends[-1]

    monkeypatch.setattr(_engine, "minimise", kept)
    embed_graph(matrix, 3, global_weight=0.25, n_jobs=1)
    direct, _, again, _, from_farther = ends[-5:]
    lowest = min(direct, again, from_farther, key=lambda end: end.energy)
    assert len({end.energy for end in (direct, again, from_farther)}) == 3
    factor = size(lowest.coordinates) / size(found.coordinates)
    assert procrustes_error(lowest.coordinates, factor * found.coordinates) < 1e-12
    # Above so many vertices only the direct way is taken.
    monkeypatch.setattr(_engine, "SYNCHRONIZED_LIMIT", 0)
    alone = embed_graph(matrix, 3, global_weight=0.25, n_jobs=1).coordinates
    factor = size(direct.coordinates) / size(alone)
    assert procrustes_error(direct.coordinates, factor * alone) < 1e-12


def test_with_anchors_the_weight_must_be_asked_for():
    data = klein_bottle(250, random_state=5).data
    graph = knn_graph(data, 8)
    free = embed_graph(graph.to_matrix(), 3)
    assert free.global_weight > 0
    anchors = Anchors(np.arange(0, 250, 50), free.coordinates[::50])
    assert embed_graph(graph.to_matrix(), 3, anchors=anchors).global_weight == 0.0
    asked = embed_graph(graph.to_matrix(), 3, anchors=anchors, global_weight=1.0)
    np.testing.assert_allclose(asked.coordinates[::50], free.coordinates[::50], atol=1e-9)
    assert asked.global_weight == 1.0


def test_estimator_paper_and_errors():
    data = klein_bottle(300, random_state=6).data
    model = IsometricEmbedding(3, n_neighbors=8).fit(data)
    assert 0 < model.global_weight_ <= 1.2
    assert IsometricEmbedding(3, n_neighbors=8, preset="paper", tol=1e-2).fit(data).global_weight_ == 0.0
    for wrong in (-1.0, np.nan, "much"):
        with pytest.raises((ValueError, TypeError), match="global_weight"):
            IsometricEmbedding(3, global_weight=wrong).fit(data)
