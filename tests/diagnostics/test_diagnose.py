"""Verdicts on shapes of known kind, and what they must not depend on."""

import json
import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial import Delaunay
from sklearn.manifold import Isomap

from isoweave import Diagnosis, IsometricEmbedding, as_embedding, diagnose, embed_graph
from isoweave.datasets import swiss_roll
from isoweave.diagnostics import Verdict, scale_sentence
from isoweave.diagnostics._facts import dimension_facts
from isoweave.graph import graph_from_matrix, knn_graph, renumber
from isoweave.io import InputFileError
from isoweave.metrics import procrustes_error
from reference_graphs import complete_of
from reference_shapes import (
    annulus_graph,
    flat_torus_graph,
    grid_graph,
    hull_mesh,
    path_graph,
    plane_graph,
    road_graph,
    sphere_graph,
    strip_graph,
    tree_graph,
)

QUIET = {"isometric", "approximate", "flat", "uncertain", "dimension_too_high", "shortcuts_dropped"}


def roll_graph(n=500, k=10, seed=81):
    return knn_graph(swiss_roll(n, random_state=seed).data, k)


def cube_graph(n, d, k, seed):
    return knn_graph(np.random.default_rng(seed).uniform(size=(n, d)), k)


def two_squares():
    points = np.random.default_rng(89).uniform(size=(450, 2))
    points[300:] += 5.0
    return knn_graph(points, 10)


def solved(graph, n_components=2, **options):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The graph has|The optimiser stopped")
        return embed_graph(graph, n_components, n_jobs=1, **options)


def of_graph(graph, **options):
    return diagnose(graph, n_jobs=1, **options)


def of_map(graph, n_components=2, **options):
    return diagnose(solved(graph, n_components, **options), n_jobs=1)


def of_points(points, graph, **options):
    return diagnose(points, graph=graph, **{"n_jobs": 1, **options})


@pytest.fixture(scope="module")
def hemisphere():
    _, graph = sphere_graph(400, 10, 97, lowest=0.0)
    points = solved(graph).coordinates
    return graph, points, of_points(points, graph)


SHAPES = {
    "cylinder": (lambda: strip_graph(350, 10, 82, twisted=False, length=6.0, width=4.0)[1], "closed"),
    "moebius": (lambda: strip_graph(500, 10, 83, twisted=True)[1], "non_orientable"),
    "torus": (lambda: flat_torus_graph(350, 10, 84), "closed"),
    "sphere": (lambda: sphere_graph(350, 10, 85)[1], "curved"),
    "hemisphere": (lambda: sphere_graph(350, 10, 86, lowest=0.0)[1], "curved"),
    "cube": (lambda: cube_graph(300, 3, 10, 87), "dimension_too_low"),
    "tree": (lambda: tree_graph(150, 88), "graph_too_sparse"),
    "path": (lambda: path_graph(200), "graph_too_sparse"),
    "grid": (lambda: grid_graph(20), "graph_too_sparse"),
    "components": (two_squares, "components"),
}


@pytest.mark.parametrize("name", SHAPES)
def test_known_shapes(name):
    make, wanted = SHAPES[name]
    graph = make()
    before, after = of_graph(graph), of_map(graph)
    others = {"closed", "non_orientable", "curved"} - {wanted}
    for found in (before, after):
        assert wanted in found.codes, found
        assert not others & set(found.codes), found
        verdict = next(v for v in found.verdicts if v.code == wanted)
        assert verdict.severity != "info"
        assert verdict.numbers
        assert wanted in str(found)
    assert before.map is None
    assert after.map is not None
    if name == "torus":
        # With room it is worth knowing but no problem.
        severity = {v.code: v.severity for v in of_map(graph, 4).verdicts}
        assert severity["closed"] == "info"
        assert "isometric" in severity


@pytest.mark.parametrize(
    "make",
    [
        roll_graph,
        lambda: plane_graph(300, 8, 90)[1],
        lambda: annulus_graph(450, 10, 91),
        lambda: cube_graph(200, 1, 12, 92),
    ],
    ids=["roll", "square", "annulus", "interval in N = 2"],
)
def test_no_alarm_on_flat_data(make):
    graph = make()
    before, after = of_graph(graph), of_map(graph)
    assert set(before.codes) | set(after.codes) <= QUIET, f"{before}\n{after}"
    assert "flat" in before.codes
    assert "isometric" in after.codes
    assert after.map.edge_error < 0.05


def test_a_closed_mesh_is_pressed_flat_in_the_plane():
    """Told by its border, of which a flat sheet of as many vertices has more."""
    points, mesh = hull_mesh(500, 117)
    for found in (of_graph(mesh), of_points(points[:, :2], mesh)):
        verdict = found.verdicts[0]
        assert (verdict.code, verdict.severity, found.graph.border) == ("closed", "problem", 0)
        assert "pressed flat" in verdict.text
        assert "curved" not in found.codes
        assert found.options == {"n_components": 3}
    flat, kept = of_map(mesh), of_map(mesh, 3)
    assert {v.code: v.severity for v in kept.verdicts}["closed"] == "info"
    assert kept.map.edge_error < 0.5 * flat.map.edge_error
    sheet = plane_graph(400, 10, 118)[1]
    assert of_graph(sheet).graph.border is None
    places = plane_graph(400, 10, 118)[0]
    corners = Delaunay(places).simplices[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2)
    i, j = np.unique(np.sort(corners, axis=1), axis=0).T
    lengths = np.linalg.norm(places[i] - places[j], axis=1)
    found = of_graph(sp.csr_array((lengths, (i, j)), shape=(400, 400))).graph
    assert 0.8 < found.border / found.sheet_border < 2.0


@pytest.mark.parametrize(
    ("make", "by", "expected"),
    [
        (lambda: grid_graph(24), "growth of balls", 2),
        (lambda: path_graph(600), "growth of balls", 1),
        (lambda: cube_graph(500, 5, 12, 119), "nearest distances", 5),
        (lambda: grid_graph(12), "nothing", None),
    ],
    ids=["grid", "path", "cube", "small grid"],
)
def test_dimension_is_told_by_what_the_graph_is(make, by, expected):
    found = of_graph(make()).dimension
    assert found.by == by
    assert found.estimate is None if expected is None else abs(found.estimate - expected) < 0.35 * expected


def test_what_is_right_with_a_map_is_said():
    """A road network whose map has its shape, but not every edge, and a map of other places."""
    places, roads = road_graph(400, 120, 0.5)
    good, bad = of_points(places, roads), of_points(np.random.default_rng(121).uniform(size=(400, 2)), roads)
    assert good.map.paths > 0.95 > 0.5 > bad.map.paths
    severity = {v.code: v.severity for v in good.verdicts}
    assert (severity["shape_kept"], severity["graph_too_sparse"]) == ("info", "warn")
    assert f"{good.map.paths:.4f}" in str(good)
    assert {v.code: v.severity for v in bad.verdicts}["graph_too_sparse"] == "problem"
    assert "shape_kept" not in bad.codes


def test_advice_for_features_names_their_neighbours():
    roll = swiss_roll(400, random_state=122).data
    found = diagnose(IsometricEmbedding(n_neighbors=4, n_jobs=1).fit(roll), n_jobs=1)
    assert found.options["n_neighbors"] == 8
    assert found.next_step() == "IsometricEmbedding(n_components=2, n_neighbors=8).fit(X)"
    assert found.next_step("x.csv") == "isoweave embed x.csv -o map.npz --n-components 2 --n-neighbors 8"
    assert of_graph(knn_graph(roll, 4), n_neighbors=4).options == {"n_neighbors": 8}
    fine = of_graph(plane_graph(300, 8, 90)[1])
    assert (fine.options, fine.next_step()) == ({}, "")


def test_shortcuts_are_reported():
    roll = roll_graph(800)
    matrix = roll.to_matrix().tolil()
    for i, j in np.random.default_rng(94).choice(800, (2, 8), replace=False).T:
        matrix[i, j] = matrix[j, i] = np.median(roll.lengths)
    graph = sp.csr_array(matrix)
    for found in (of_graph(graph), of_map(graph)):
        verdict = next(v for v in found.verdicts if v.code == "shortcuts_dropped")
        assert found.graph.n_dropped == verdict.numbers["dropped"] >= 5
    assert of_graph(graph, shortcuts="keep").graph.n_dropped == 0


def test_a_poor_minimum_is_not_taken_for_a_poor_shape():
    graph = roll_graph()
    result = solved(graph)
    default = diagnose(result, n_jobs=1).map.energy.total
    # With long distances even this start comes near.
    stuck = of_map(graph, start="identity", global_weight=0)
    blown_up = of_points(1.5 * result.coordinates, graph)
    for found in (stuck, blown_up):
        verdict = next(v for v in found.verdicts if v.code == "poor_minimum")
        assert verdict.numbers["better"] == found.map.better
        # What the advised fit has, to the bit, because it was made.
        assert found.map.better == pytest.approx(default, rel=1e-9)
        assert found.options["start"] == "auto"
        assert found.map.energy.total > 2.0 * found.map.better
    assert blown_up.map.edge_median == pytest.approx(0.5, abs=0.05)
    early = of_map(graph, max_iter=1, start="landmark")
    assert early.map.status == "max_iter"
    assert "not_converged" in early.codes


def test_shortcuts_that_the_filter_leaves_are_not_curvature():
    """Random edges of ordinary length: some are left, and the advised fit gives them no weight."""
    roll, rng = swiss_roll(1000, random_state=83), np.random.default_rng(84)
    matrix = knn_graph(roll.data, 10).to_matrix().tocoo()
    i, j = rng.choice(1000, 40, replace=False).reshape(2, 20)
    lengths = np.median(matrix.data) * rng.uniform(0.5, 1.5, 20)
    stored = (np.concatenate(parts) for parts in ((matrix.row, i), (matrix.col, j)))
    joined = sp.coo_array((np.concatenate((matrix.data, lengths)), tuple(stored)), shape=(1000, 1000))
    graph = graph_from_matrix(joined, asymmetry="min")
    result = solved(graph)
    for found in (of_graph(graph), diagnose(result, n_jobs=1)):
        assert "shortcuts_left" in found.codes, found
        assert not {"curved", "closed", "non_orientable"} & set(found.codes), found
        assert found.options == {"loss": "robust"}
    robust = solved(graph, **found.options)
    before, after = (procrustes_error(roll.truth, each.coordinates) for each in (result, robust))
    assert after < 0.1 * before


@pytest.mark.parametrize("share", [0.03, 0.3])
def test_distances_ten_times_too_long_are_named(share):
    rng = np.random.default_rng(108)
    matrix = sp.triu(plane_graph(400, 10, 109)[1].to_matrix(), format="coo")
    wrong = rng.uniform(size=matrix.nnz) < share
    planted = set(zip(matrix.row[wrong].tolist(), matrix.col[wrong].tolist(), strict=True))
    matrix.data[wrong] *= 10.0
    graph = sp.csr_array(matrix + matrix.T)
    for found in (of_graph(graph), of_map(graph)):
        assert found.codes[0] == "outlying_distances", found
        # No better map is promised, since none was found.
        assert not {"flat", "poor_minimum", "isometric"} & set(found.codes), found
        named = set(map(tuple, found.outlying.tolist()))
        assert named <= planted
        assert len(named) == found.graph.n_outlying > 0.8 * len(planted)
        i, j, ratio = found.graph.outlying[0]
        assert (i, j) == tuple(found.outlying[0])
        assert ratio > 3.0
        assert f"{i}-{j}" in str(found)


def test_duplicates_in_half_and_clusters_on_a_path_are_no_poor_minima():
    rng = np.random.default_rng(123)
    points, ends = rng.random((150, 2)), rng.random((150, 2))
    path = np.column_stack((np.linspace(1.2, 8.8, 20), np.full(20, 0.5)))
    for places in (np.vstack((points, points)), np.vstack((points, path, ends + np.array([9.0, 0.0])))):
        found = of_map(knn_graph(places, 8))
        assert found.codes == ("isometric",), found


def test_a_map_that_loses_edges_is_not_called_isometric():
    """A fan of hairs on every point of a line, all in the point: frames of the line fit to the last digit."""
    line = np.column_stack((np.arange(30.0), np.zeros(30)))
    graph = sp.lil_array((60, 60))
    for i in range(30):
        graph[i, 30 + i] = 1.0
        for j in range(i + 1, min(i + 4, 30)):
            graph[i, j] = j - i
    found = of_points(np.vstack((line, line)), sp.csr_array(graph + graph.T))
    assert not {"isometric", "flat"} & set(found.codes), found
    assert found.map.edge_error > 0.2


@pytest.mark.parametrize(("seed", "n_components"), [(3, 2), (27, 3), (0, 1)])
def test_small_dense_graphs(seed, n_components):
    """Half of all pairs joined, hop counts: frames are incoherent, and there may be no patches to compare."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(50, 121))
    half = np.triu(rng.random((n, n)) < 0.5, 1).astype(float)
    assert of_graph(sp.csr_array(half + half.T), n_components=n_components).codes


def test_edges_and_stretch_equal_plain_loops_and_all_ways_in_agree():
    model = IsometricEmbedding(n_neighbors=10, n_jobs=1).fit(swiss_roll(300, random_state=81).data)
    graph, found = graph_from_matrix(model.graph_), diagnose(model, n_jobs=1)
    matrix = model.graph_.toarray()
    assert len(found.edges) == graph.n_edges
    for (i, j), distortion in zip(found.edges, found.edge_distortion, strict=True):
        assert i < j
        length = np.linalg.norm(model.embedding_[i] - model.embedding_[j])
        assert distortion == pytest.approx(length / matrix[i, j] - 1.0, abs=1e-12)
    assert np.array_equal(found.stretch, model.stretch_)
    assert found.map.edge_error == pytest.approx(np.abs(found.edge_distortion).mean())
    # The final size, that of the edges, costs a little of the energy.
    assert 1.0 <= found.map.energy.total / model.relative_energy_ < 1.05
    # The result is plain data.
    assert isinstance(found, Diagnosis)
    assert json.loads(json.dumps(found.to_dict())) == found.to_dict()
    for verdict in found.verdicts:
        assert verdict.text in str(found)
        assert verdict.advice in str(found)
        assert verdict.severity in ("info", "warn", "problem")
    with pytest.raises(AttributeError):
        found.n_vertices = 3
    assert found.to_dict() == of_map(graph).to_dict()
    of_coordinates = of_points(model.embedding_, graph)
    assert np.abs(of_coordinates.stretch - model.stretch_).max() < 1e-6
    assert of_coordinates.map.status is None
    assert of_coordinates.codes == found.codes
    assert of_coordinates.map.energy.total == pytest.approx(found.map.energy.total, rel=1e-12)
    assert of_graph(graph).to_dict()["shapes"] == found.to_dict()["shapes"]


@pytest.mark.parametrize("change", ["motion", "unit", "huge unit", "order", "threads"])
def test_what_changes_nothing(change, hemisphere):
    graph, points, at = hemisphere
    rotation, _ = np.linalg.qr(np.random.default_rng(96).normal(size=(2, 2)))
    order = np.random.default_rng(99).permutation(400).astype(np.int32)
    factor = {"unit": 4.0, "huge unit": 1e200}.get(change, 1.0)
    if change == "motion":
        other = of_points(points @ rotation + np.array([30.0, -7.0]), graph)
    elif change == "order":
        other = of_points(points[order], renumber(graph, order))
    else:
        other = of_points(factor * points, factor * graph.to_matrix(), n_jobs=3 if change == "threads" else 1)
    assert other.codes == at.codes == ("curved", "distorted", "shape_kept")
    for a, b in zip(other.verdicts, at.verdicts, strict=True):
        a, b = ({k: v for k, v in verdict.numbers.items() if k != "curvature"} for verdict in (a, b))
        assert a == pytest.approx(b, rel=1e-2 if change == "order" else 1e-6, abs=1e-9)
    rows = order if change == "order" else slice(None)
    for name in ("stretch", "misfit"):
        np.testing.assert_allclose(getattr(other, name), getattr(at, name)[rows], rtol=0, atol=1e-6)
    np.testing.assert_allclose(np.sort(other.edge_distortion), np.sort(at.edge_distortion), atol=1e-9)
    if change == "unit":
        np.testing.assert_allclose(other.curvature * factor**2, at.curvature, rtol=1e-12)
        assert other.shapes[0].curvature * factor**2 == pytest.approx(at.shapes[0].curvature)
    if change == "threads":
        assert other.to_dict() == at.to_dict()
        assert np.array_equal(other.curvature, at.curvature, equal_nan=True)


def test_large_graphs_are_sampled():
    found = of_graph(plane_graph(5500, 8, 101)[1])
    assert found.shapes[0].n_used <= 2000 < found.shapes[0].n_vertices
    assert found.codes == ("flat",)
    assert np.isnan(found.curvature).all()
    curved = of_graph(sphere_graph(2200, 8, 108)[1])
    assert curved.shapes[0].kind == "curved"
    assert np.isfinite(curved.curvature).mean() > 0.9


def test_duplicates_and_rows_that_were_not_embedded():
    points = np.random.default_rng(102).uniform(size=(200, 2))
    points = np.vstack((points, points[:20], np.random.default_rng(103).uniform(size=(60, 2)) + 9.0))
    graph = knn_graph(points, 8)
    found = diagnose(solved(graph, components="largest"), n_jobs=1)
    assert "components" in found.codes
    assert found.graph.n_distinct == 260
    assert np.isnan(found.edge_distortion).any()
    assert found.map.edge_error < 0.05
    assert found.stretch.shape == (280, 2)


@pytest.mark.parametrize(
    ("factor", "verdict", "said"),
    [
        (1.02, ("isometric", "info"), "Isometric map: distances are to scale (edges 2.0% off on average)"),
        (1.02, ("closed", "info"), "Isometric map: distances are to scale (edges 2.0% off on average)"),
        (1.02, ("closed", "warn"), "long distances are not: the data close up on themselves"),
        (1.02, ("graph_too_sparse", "problem"), "other maps keep them as well"),
        (1.1, ("approximate", "info"), "Roughly to scale: edges are 10.0% off on average"),
        (1.6, ("distorted", "problem"), "Not to scale: edges are 60% off on average, 100% torn or folded"),
        (1.6, ("shape_kept", "info"), "The large shape is right; neighbourhoods are not to scale"),
    ],
)
def test_whether_a_picture_is_to_scale_is_said_as_the_verdict_has_it(factor, verdict, said):
    points = np.random.default_rng(104).uniform(size=(60, 2))
    source = as_embedding(factor * points, knn_graph(points, 6))
    assert said in scale_sentence(source, [Verdict(*verdict, "", "")])
    assert "unknown whether it is to scale" in scale_sentence(points)
    two = replace(source, component_labels=np.arange(60) // 40)
    assert scale_sentence(two).endswith("; distances between components mean nothing")


def test_tiny_graphs_and_dimension_of_the_neighbourhoods():
    for n in (2, 3, 6, 20):
        n_components = min(2, n - 1)
        graph = complete_of(np.random.default_rng(104).normal(size=(n, n_components)))
        assert of_graph(graph, n_components=n_components).codes == ("uncertain",)
        assert set(of_map(graph, n_components).codes) in ({"uncertain", "isometric"}, {"isometric"})
    spectra = np.array([[4.0, 2.0, 0.1, 0.0, 0.0], [4.0, 2.4, 0.2, 0.0, 0.0], [4.0, 2.2, 0.3, 0.0, 0.0]])
    found = dimension_facts(roll_graph(200), spectra)
    assert found.local == 2
    assert found.beyond == pytest.approx((0.55, 0.2 / 6.4, 0.0, 0.0))


SQUARE = plane_graph(40, 6, 105)[1]


@pytest.mark.parametrize(
    ("source", "options", "error", "message"),
    [
        (None, {}, TypeError, "NoneType"),
        ("map.npz", {}, InputFileError, "map.npz"),
        (np.zeros((5, 2)), {}, TypeError, "diagnose needs the measured distances"),
        (np.full((40, 2), 1e308), {"graph": SQUARE}, ValueError, r"times the median distance, over 1e\+75"),
        (np.zeros((40, 2)), {"graph": SQUARE, "n_components": 3}, ValueError, "has 2 columns"),
        (np.zeros((40, 2)), {"graph": SQUARE, "shortcuts": "dropp"}, ValueError, "Did you mean 'drop'"),
        (SQUARE, {"graph": SQUARE}, TypeError, "two graphs"),
        (SQUARE, {"n_components": 0}, ValueError, "n_components"),
        (SQUARE, {"n_components": 40}, ValueError, "39 dimensions"),
        (-SQUARE.to_matrix(), {}, ValueError, "negative"),
    ],
)
def test_bad_input(source, options, error, message):
    with pytest.raises(error, match=message):
        diagnose(source, **options)


def test_other_estimators_need_a_graph():
    """Also those with a ``graph_``: UMAP's holds weights."""
    estimator = Isomap().fit(np.random.default_rng(107).normal(size=(60, 3)))
    graph = knn_graph(np.random.default_rng(107).normal(size=(60, 3)), 8)
    estimator.graph_ = graph.to_matrix()
    with pytest.raises(TypeError, match="diagnose needs the measured distances"):
        diagnose(estimator)
    assert of_points(estimator, graph).to_dict() == of_points(estimator.embedding_, graph).to_dict()


def test_a_winding_street_is_no_wrong_distance():
    """Streets in blocks, one of which is cut by a street that takes three times the way around its corner."""
    streets = sp.lil_array((144, 144))
    for v in range(144):
        for w in ([v + 1] if v % 12 < 11 else []) + ([v + 12] if v < 132 else []):
            streets[v, w] = 1.0
    streets[60, 73] = 6.0
    found = of_graph(sp.csr_array(streets + streets.T))
    assert {"along_graph": 8, "loss": "robust"}.items() <= found.options.items()
    (winding,) = (v for v in found.verdicts if v.code == "outlying_distances")
    assert "alone would do harm" in winding.advice
    assert not winding.options
