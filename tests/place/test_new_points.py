"""``transform`` and ``place`` of a fitted estimator."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from isoweave import IsometricEmbedding
from isoweave.datasets import s_curve
from isoweave.geometry import rigid_motion

SHEET = s_curve(400, random_state=691)
OLD, NEW = SHEET.data[:320], SHEET.data[320:]


@pytest.fixture(scope="module")
def model():
    return IsometricEmbedding(n_neighbors=8).fit(OLD)


@pytest.fixture(scope="module")
def plane():
    """Flat points, and their map from all their distances: exact."""
    points = np.random.default_rng(701).normal(size=(50, 2))
    return points, IsometricEmbedding(metric="precomputed", n_neighbors=49).fit(cdist(points, points))


def test_as_good_as_the_fit(model):
    """Held out points end as near to the truth as those of the fit."""
    q, t = rigid_motion(model.embedding_, SHEET.truth[:320])
    typical = np.median(model.graph_.data)
    fitted = np.linalg.norm(model.embedding_ @ q + t - SHEET.truth[:320], axis=1)
    placed = np.linalg.norm(model.transform(NEW) @ q + t - SHEET.truth[320:], axis=1)
    assert np.sqrt(np.mean(placed**2)) < 1.2 * np.sqrt(np.mean(fitted**2)) + 0.05 * typical
    # Placements say more.
    placement = model.place(NEW)
    np.testing.assert_array_equal(placement.coordinates, model.transform(NEW))
    assert placement.residual.shape == placement.n_iter.shape == (80,)
    assert (placement.n_used <= placement.n_given).all()
    assert (placement.n_given == 8).all()
    # Far away from the sheet nothing fits.
    far = model.place(NEW + np.array([0.0, 0.0, 3.0]))
    assert np.median(far.residual) > 3 * np.median(placement.residual)


@pytest.mark.parametrize("width", [3, 30])
def test_the_batch_does_not_matter(width):
    """Also where neighbours come from matrix products, whose rounding depends on the batch."""
    turn = np.eye(3) if width == 3 else np.random.default_rng(727).normal(size=(3, width))
    old, new = OLD @ turn, NEW @ turn
    model = IsometricEmbedding(n_neighbors=8).fit(old)
    whole = model.transform(new)
    order = np.random.default_rng(719).permutation(80)
    np.testing.assert_array_equal(model.transform(new[order]), whole[order])
    for i in (0, 41, 79):
        np.testing.assert_array_equal(model.transform(new[i : i + 1])[0], whole[i])
    single = IsometricEmbedding(n_neighbors=8, n_jobs=1).fit(old)
    np.testing.assert_array_equal(single.transform(new), whole)
    # Points of the fit get their own places.
    np.testing.assert_array_equal(model.transform(old), model.embedding_)
    np.testing.assert_array_equal(clone(model).fit_transform(old), model.embedding_)


def test_features_and_distances_agree(model):
    distances = cdist(NEW, OLD)
    dense = IsometricEmbedding(metric="precomputed", n_neighbors=8).fit(cdist(OLD, OLD))
    q, t = rigid_motion(dense.embedding_, model.embedding_)
    # The two maps differ by the rounding of their distances.
    np.testing.assert_allclose(dense.transform(distances) @ q + t, model.transform(NEW), atol=1e-5)
    near = np.where(distances <= np.sort(distances, axis=1)[:, 7:8], distances, 0.0)
    np.testing.assert_array_equal(dense.transform(sp.csr_array(near)), dense.transform(distances))
    from_graph = IsometricEmbedding(metric="precomputed").fit(model.graph_)
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
    for layout in ("csr", "csc", "coo", "lil", "dok", "bsr", "dia"):
        np.testing.assert_allclose(model.transform(near.asformat(layout)), expected, atol=1e-12)
    row = sp.coo_array(([0.0, 1.0, 2.0], ([0, 0, 0], [7, 3, 4])), shape=(1, 50))
    np.testing.assert_array_equal(model.transform(row), model.embedding_[[7]])
    np.testing.assert_array_equal(model.transform(cdist(points[:3], points)), model.embedding_[:3])


def test_other_sizes_of_maps(model):
    """Distances are brought to the size of a map scaled to geodesics."""
    scaled = IsometricEmbedding(n_neighbors=8, scale="geodesics").fit(OLD)
    factor = np.ptp(scaled.embedding_, axis=0)[0] / np.ptp(model.embedding_, axis=0)[0]
    assert factor > 1.005
    np.testing.assert_allclose(scaled.transform(NEW), factor * model.transform(NEW), atol=0.02)
    assert np.median(scaled.place(NEW).residual) < 1.5 * np.median(model.place(NEW).residual)


def test_components():
    """Of two planar blobs far apart one is embedded; outside the map new points are NaN."""
    rng = np.random.default_rng(709)
    points = np.vstack([rng.normal(size=(40, 2)), rng.normal(size=(25, 2)) + 100.0])
    new = np.vstack([np.zeros((1, 2)), np.full((1, 2), 100.0)])
    with pytest.warns(UserWarning, match="Only the largest"):
        model = IsometricEmbedding(n_neighbors=6, components="largest").fit(points)
    with pytest.warns(UserWarning, match=r"1 of 2 new points \(rows 1\) .*coordinates are NaN") as caught:
        found = model.transform(new)
    assert len(caught) == 1
    np.testing.assert_array_equal(np.isnan(found), [[False, False], [True, True]])


def test_float32_frames_and_pipelines():
    single = IsometricEmbedding(n_neighbors=8).fit(OLD.astype(np.float32))
    assert single.transform(NEW.astype(np.float32)).dtype == np.float32
    np.testing.assert_array_equal(single.transform(OLD.astype(np.float32)), single.embedding_)

    names = ["east", "north", "up"]
    frame = pd.DataFrame(OLD, columns=names)
    model = IsometricEmbedding(n_neighbors=8).set_output(transform="pandas").fit(frame)
    table = model.transform(pd.DataFrame(NEW, columns=names, index=np.arange(80) + 1000))
    assert table.columns.tolist() == ["isometricembedding0", "isometricembedding1"]
    assert table.index[0] == 1000
    with pytest.raises(ValueError, match="feature names"):
        model.transform(pd.DataFrame(NEW, columns=["east", "up", "north"]))

    side = (SHEET.truth[:, 0] > 0).astype(int)
    pipe = make_pipeline(StandardScaler(), IsometricEmbedding(n_neighbors=8), KNeighborsClassifier(5))
    assert pipe.fit(OLD, side[:320]).score(NEW, side[320:]) > 0.95


def test_the_search_is_prepared_once_and_neither_pickled_nor_kept_by_a_new_fit(model):
    expected = model.transform(NEW)
    before = dict(model._lookup)
    model.transform(NEW[:2])
    assert before
    assert model._lookup == before
    again = pickle.loads(pickle.dumps(model))
    assert "_lookup" not in vars(again)
    np.testing.assert_array_equal(again.transform(NEW), expected)
    assert not np.array_equal(again.fit(OLD[:200]).transform(NEW), expected)


def row_with(value, row=0, column=3, rows=1):
    matrix = sp.csr_array(([value], ([row], [0])), shape=(rows, 50))
    matrix.indices[0] = column
    return matrix


NEGATIVE = 1.0 - 1.5 * np.outer(np.arange(3) == 1, np.arange(50) == 4)


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        (NEW[:, :2], ValueError, "X has 2 features, but IsometricEmbedding is expecting 3"),
        (NEW[0], ValueError, "Reshape your data"),
        (np.full((1, 3), np.nan), ValueError, "contains NaN"),
        (np.empty((0, 3)), ValueError, "0 sample"),
        # Distances to the 50 points of the plane.
        (np.ones((3, 49)), ValueError, "X has 49 features, but IsometricEmbedding is expecting 50"),
        (NEGATIVE, ValueError, "distance of new point 1 to point 4 is -0.5"),
        (row_with(1.0, 1, rows=3), ValueError, "row 0 of the new distances has none .2 such rows"),
        (row_with(np.nan), ValueError, "new point 0 to point 3 of the map is nan"),
        (row_with(True), TypeError, "real numbers, got a matrix of dtype bool"),
        (row_with(1.0, column=70), ValueError, "indices|index"),
    ],
)
def test_bad_input(model, plane, X, error, message):
    with pytest.raises(error, match=message):
        (plane[1] if X.shape[-1] > 3 and X.ndim == 2 else model).transform(X)


@pytest.mark.parametrize("method", ["transform", "place", "add_samples", "update_graph"])
def test_not_fitted(method):
    with pytest.raises(NotFittedError):
        getattr(IsometricEmbedding(), method)(NEW)
