"""Fitted estimators: ``transform`` and ``place``, more samples, changed graphs."""

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from isoweave import IsometricEmbedding
from isoweave.datasets import s_curve
from isoweave.geometry import rigid_motion
from isoweave.graph import knn_graph
from isoweave.metrics import procrustes_error
from reference_graphs import distance_gap

SHEET = s_curve(300, random_state=691)
OLD, NEW = SHEET.data[:240], SHEET.data[240:]
WHOLE = knn_graph(SHEET.data, 8).to_matrix()


def fitted(points=OLD, **options):
    return IsometricEmbedding(n_neighbors=8, **options).fit(points)


def fitted_graph(matrix, **options):
    return IsometricEmbedding(metric="precomputed", **options).fit(matrix)


@pytest.fixture(scope="module")
def model():
    return fitted()


@pytest.fixture(scope="module")
def whole():
    return fitted_graph(WHOLE, refine="none")


@pytest.fixture(scope="module")
def plane():
    """Flat points, and their map from all their distances: exact."""
    points = np.random.default_rng(701).normal(size=(50, 2))
    return points, fitted_graph(cdist(points, points), n_neighbors=49)


def test_as_good_as_the_fit(model):
    """Held out points end as near to the truth as those of the fit."""
    q, t = rigid_motion(model.embedding_, SHEET.truth[:240])
    own = np.linalg.norm(model.embedding_ @ q + t - SHEET.truth[:240], axis=1)
    placement = model.place(NEW)
    placed = np.linalg.norm(placement.coordinates @ q + t - SHEET.truth[240:], axis=1)
    assert np.sqrt(np.mean(placed**2)) < 1.2 * np.sqrt(np.mean(own**2)) + 0.05 * np.median(model.graph_.data)
    np.testing.assert_array_equal(placement.coordinates, model.transform(NEW))
    assert placement.residual.shape == placement.n_iter.shape == (60,)
    assert (placement.n_used <= 8).all()
    assert (placement.n_given == 8).all()
    # Far away from the sheet nothing fits.
    far = model.place(NEW + np.array([0.0, 0.0, 3.0]))
    assert np.median(far.residual) > 3 * np.median(placement.residual)


@pytest.mark.parametrize("width", [3, 30])
def test_the_batch_does_not_matter(width):
    """Also where neighbours come from matrix products, whose rounding depends on the batch."""
    turn = np.eye(3) if width == 3 else np.random.default_rng(727).normal(size=(3, width))
    old, new = OLD @ turn, NEW @ turn
    model = fitted(old)
    whole = model.transform(new)
    order = np.random.default_rng(719).permutation(60)
    np.testing.assert_array_equal(model.transform(new[order]), whole[order])
    for i in (0, 41, 59):
        np.testing.assert_array_equal(model.transform(new[i : i + 1])[0], whole[i])
    np.testing.assert_array_equal(fitted(old, n_jobs=1).transform(new), whole)
    # Points of the fit get their own places.
    np.testing.assert_array_equal(model.transform(old), model.embedding_)
    np.testing.assert_array_equal(clone(model).fit_transform(old), model.embedding_)


def test_features_and_distances_agree(model):
    distances = cdist(NEW, OLD)
    dense = fitted_graph(cdist(OLD, OLD), n_neighbors=8)
    q, t = rigid_motion(dense.embedding_, model.embedding_)
    # The two maps differ by the rounding of their distances.
    np.testing.assert_allclose(dense.transform(distances) @ q + t, model.transform(NEW), atol=1e-5)
    near = np.where(distances <= np.sort(distances, axis=1)[:, 7:8], distances, 0.0)
    np.testing.assert_array_equal(dense.transform(sp.csr_array(near)), dense.transform(distances))
    from_graph = fitted_graph(model.graph_)
    np.testing.assert_allclose(from_graph.transform(sp.coo_array(near)), model.transform(NEW), atol=1e-9)


def test_true_distances_of_flat_points(plane):
    """In all sparse formats; zeros that are stored are coincidences."""
    points, model = plane
    new = np.random.default_rng(739).normal(size=(4, 2))
    q, t = rigid_motion(model.embedding_, points)
    np.testing.assert_allclose(model.transform(cdist(new, points)) @ q + t, new, atol=1e-6)
    assert model.place(cdist(new, points)).residual.max() < 1e-4
    near = sp.csr_array(np.where(cdist(new, points) < 2.0, cdist(new, points), 0.0))
    expected = model.transform(near)
    for layout in ("csc", "coo", "lil", "dok", "bsr", "dia"):
        np.testing.assert_allclose(model.transform(near.asformat(layout)), expected, atol=1e-12)
    row = sp.coo_array(([0.0, 1.0, 2.0], ([0, 0, 0], [7, 3, 4])), shape=(1, 50))
    np.testing.assert_array_equal(model.transform(row), model.embedding_[[7]])
    np.testing.assert_array_equal(model.transform(cdist(points[:3], points)), model.embedding_[:3])


def test_components_and_maps_of_another_size(model):
    """Of two planar blobs far apart one is embedded; outside the map new points are NaN."""
    rng = np.random.default_rng(709)
    points = np.vstack([rng.normal(size=(40, 2)), rng.normal(size=(25, 2)) + 100.0])
    with pytest.warns(UserWarning, match="Only the largest"):
        largest = fitted(points, components="largest")
    with pytest.warns(UserWarning, match=r"1 of 2 new points \(rows 1\) .*coordinates are NaN") as caught:
        found = largest.transform([[0.0, 0.0], [100.0, 100.0]])
    assert len(caught) == 1
    np.testing.assert_array_equal(np.isnan(found), [[False, False], [True, True]])
    # A new component is laid beside the old one.
    grown = fitted(points[:40], scale="geodesics")
    before = grown.embedding_.copy()
    with pytest.warns(UserWarning, match="2 connected components"):
        grown.add_samples(points[40:])
    assert np.linalg.norm(grown.embedding_[:40] - before, axis=1).max() < np.median(grown.graph_.data)
    assert procrustes_error(points[40:], grown.embedding_[40:]) < 0.3
    assert grown.embedding_[40:, 0].min() > grown.embedding_[:40, 0].max()
    # Distances are brought to the size of a map scaled to geodesics.
    scaled = fitted(scale="geodesics")
    factor = np.ptp(scaled.embedding_, axis=0)[0] / np.ptp(model.embedding_, axis=0)[0]
    assert factor > 1.005
    np.testing.assert_allclose(scaled.transform(NEW), factor * model.transform(NEW), atol=0.02)
    assert np.median(scaled.place(NEW).residual) < 1.5 * np.median(model.place(NEW).residual)
    # One point many times has no edge that its size could be measured by.
    point = np.ones((12, 3))
    one = fitted(point, scale="geodesics")
    np.testing.assert_array_equal(one.transform(point[:2]), one.embedding_[:2])
    assert np.isfinite(one.transform(2.0 * point[:2])).all()
    assert one.add_samples(point[:3]).embedding_.shape == (15, 2)


def test_more_samples_go_on_from_the_map():
    model = fitted()
    before = model.embedding_.copy()
    assert model.add_samples(NEW) is model
    fresh = fitted(SHEET.data)
    assert (model.graph_ != fresh.graph_).nnz == 0
    assert model.embedding_.shape == (300, 2)
    assert model.energy_ < 1.02 * fresh.energy_
    assert max(procrustes_error(SHEET.truth, m.embedding_) for m in (model, fresh)) < 2e-3
    # Old points stay where they were, up to what the new ones tell: no rigid motion brings them nearer.
    q, t = rigid_motion(model.embedding_[:240], before)
    np.testing.assert_allclose(q, np.eye(2), atol=1e-8)
    np.testing.assert_allclose(t, 0.0, atol=1e-8)
    typical = np.median(model.graph_.data)
    assert np.linalg.norm(model.embedding_[:240] - before, axis=1).max() < 2 * typical
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.transform(SHEET.data), model.embedding_)
    # A start that the user gave was for the former points. Limits hold while growing.
    start = SHEET.truth[:240]
    given = fitted(start=start).set_params(max_iter=1, tol=1e-9)
    with pytest.warns(ConvergenceWarning, match="max_iter=1"):
        given.add_samples(NEW)
    assert given.start is start
    assert (given.status_, given.embedding_.shape) == ("max_iter", (300, 2))


def test_changed_graphs(whole):
    """Small changes take few steps, and alignments rotate with a map that was moved."""
    model = copy.deepcopy(whole)
    rotation = np.array([[0.0, 1.0], [-1.0, 0.0]])
    model.embedding_ = whole.embedding_ @ rotation + 7.0
    model.update_graph(WHOLE)
    np.testing.assert_allclose(model.embedding_, whole.embedding_ @ rotation + 7.0, atol=3e-3)
    np.testing.assert_allclose(model.alignments_, whole.alignments_ @ rotation, atol=5e-3)
    upper = sp.triu(WHOLE).tocoo()
    noise = np.random.default_rng(761).uniform(0.98, 1.02, size=upper.nnz)
    changed = sp.coo_array((upper.data * noise, (upper.row, upper.col)), shape=WHOLE.shape)
    fresh = fitted_graph(changed, refine="none")
    model.update_graph(changed)
    assert 2 * model.n_iter_ < fresh.n_iter_
    assert model.energy_ < 1.02 * fresh.energy_
    # Vertices lost and gained, lengths changed.
    model = copy.deepcopy(whole)
    before, kept = model.embedding_.copy(), np.setdiff1d(np.arange(300), [5, 17, 90])
    extra = SHEET.data[:10] + np.random.default_rng(743).normal(scale=0.02, size=(10, 3))
    after = 1.01 * knn_graph(np.vstack([SHEET.data[kept], extra]), 8).to_matrix()
    model.update_graph(after, kept=kept)
    assert (model.embedding_.shape, model.n_features_in_) == ((307, 2), 307)
    fresh = fitted_graph(after, refine="none")
    assert model.energy_ < 1.02 * fresh.energy_
    assert model.n_iter_ <= fresh.n_iter_
    assert np.linalg.norm(model.embedding_[:297] - before[kept], axis=1).max() < np.median(after.data)
    smaller = knn_graph(SHEET.data[kept], 8).to_matrix()
    assert model.update_graph(smaller, kept=np.arange(307) < 297).embedding_.shape == (297, 2)


def test_far_growth_is_not_folded():
    """A sheet that doubles its length cannot be guessed from its rim; then a fresh start is better."""
    sheet = s_curve(500, random_state=751)
    order = np.argsort(sheet.truth[:, 0])
    data, truth = sheet.data[order], sheet.truth[order]
    model = fitted(data[:250]).add_samples(data[250:])
    assert model.energy_ < 1.2 * fitted(data).energy_
    assert procrustes_error(truth, model.embedding_) < 0.01


def test_sparse_features_grow():
    rng = np.random.default_rng(757)
    dense = np.where(rng.uniform(size=(120, 15)) < 0.4, rng.normal(size=(120, 15)), 0.0)
    placed, grown = [], []
    for form in (sp.csr_array, np.array):
        model = IsometricEmbedding(3, n_neighbors=12).fit(form(dense[:100]))
        placed.append(model.transform(form(dense[100:])))
        grown.append(model.add_samples(form(dense[100:])).embedding_)
    np.testing.assert_allclose(*placed, atol=1e-8)
    assert distance_gap(*grown) < 1e-6


def row_with(value, row=0, column=3, rows=1):
    matrix = sp.csr_array(([value], ([row], [0])), shape=(rows, 50))
    matrix.indices[0] = column
    return matrix


NEGATIVE = 1.0 - 1.5 * np.outer(np.arange(3) == 1, np.arange(50) == 4)
HALF = knn_graph(OLD[:150], 8).to_matrix()
# What is done to which model, and what it says. Nothing of the model changes.
REFUSED = [
    ("model", "transform", np.ones((2, 2)), "X has 2 features, but IsometricEmbedding is expecting 3"),
    ("model", "transform", np.ones(3), "1D array|2D array"),
    ("model", "transform", np.full((1, 3), np.nan), "contains NaN"),
    ("model", "transform", np.empty((0, 3)), "0 sample"),
    ("model", "add_samples", NEW[:, :2], "X has 2 features"),
    ("model", "update_graph", WHOLE, "use add_samples"),
    # Distances to the 50 points of the plane.
    ("plane", "transform", np.ones((3, 49)), "X has 49 features, but IsometricEmbedding is expecting 50"),
    ("plane", "transform", NEGATIVE, "distance of new point 1 to point 4 is -0.5"),
    ("plane", "transform", row_with(1.0, 1, rows=3), "row 0 of the new distances has none .2 such rows"),
    ("plane", "transform", row_with(np.nan), "new point 0 to point 3 of the map is nan"),
    ("plane", "transform", row_with(True), "real numbers, got a matrix of dtype bool"),
    ("plane", "transform", row_with(1.0, column=70), "indices|index"),
    ("whole", "add_samples", NEW, "use update_graph"),
    ("whole", "update_graph", sp.block_diag([HALF, HALF, HALF]), "3 connected components"),
    ("whole", "update_graph", HALF, "300 vertices are kept, but the new graph has only 150"),
]


@pytest.mark.parametrize(("name", "method", "X", "message"), REFUSED)
def test_bad_input(request, name, method, X, message):
    found = request.getfixturevalue(name)
    model = copy.deepcopy(found[1] if name == "plane" else found).set_params(components="error")
    before = vars(model) | {"_lookup": None}
    with pytest.raises((TypeError, ValueError), match=message):
        getattr(model, method)(X)
    assert vars(model) | {"_lookup": None} == before


def test_bad_kept_and_not_fitted(whole):
    for kept, error, message in (
        (np.ones(7, dtype=bool), ValueError, r"kept as a mask must have shape \(300,\)"),
        ([0, 360], ValueError, "vertices in 0 .. 299, but entry 1 is 360"),
        ([4, 4], ValueError, "vertex 4 more than once"),
        ([0.5], TypeError, "vertex numbers or a mask"),
    ):
        with pytest.raises(error, match=message):
            whole.update_graph(WHOLE, kept=kept)
    for method in ("transform", "place", "add_samples", "update_graph"):
        with pytest.raises(NotFittedError):
            getattr(IsometricEmbedding(), method)(NEW)
