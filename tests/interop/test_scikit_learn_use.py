"""What scikit-learn users do with transformers: data frames, pipelines, searches, scores."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import StandardScaler

from isoweave import IsometricEmbedding
from isoweave.datasets import s_curve, swiss_roll

SHEET = s_curve(240, random_state=831)
NAMES = ["isometricembedding0", "isometricembedding1"]


def sheet_frame(library):
    if library == "pandas":
        return pd.DataFrame(SHEET.data, columns=["x", "y", "z"], index=[f"p{i}" for i in range(240)])
    return pytest.importorskip("polars").DataFrame(SHEET.data, schema=["x", "y", "z"])


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_in_and_out(library):
    frame = sheet_frame(library)
    model = IsometricEmbedding(n_neighbors=8).set_output(transform=library)
    found = model.fit_transform(frame)
    assert type(found) is type(frame)
    assert list(found.columns) == NAMES
    assert model.feature_names_in_.tolist() == ["x", "y", "z"]
    assert model.get_feature_names_out().tolist() == NAMES
    plain = IsometricEmbedding(n_neighbors=8).fit(SHEET.data)
    np.testing.assert_array_equal(found.to_numpy(), plain.embedding_)
    # embedding_ stays an array whatever the output is.
    assert isinstance(model.embedding_, np.ndarray)
    new = frame[200:210] if library == "polars" else frame.iloc[200:210]
    placed = model.transform(new)
    assert type(placed) is type(frame)
    np.testing.assert_array_equal(placed.to_numpy(), plain.embedding_[200:210])
    if library == "pandas":
        assert found.index.equals(frame.index)
        assert placed.index.equals(new.index)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_names_are_checked(library):
    frame = sheet_frame(library)
    model = IsometricEmbedding(n_neighbors=8).fit(frame)
    swapped = frame[["y", "x", "z"]]
    for call in (model.transform, model.place, model.score, model.add_samples):
        with pytest.raises(ValueError, match="The feature names should match those that were passed"):
            call(swapped)
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        model.transform(SHEET.data[:3])


def test_a_frame_of_distances():
    distances = cdist(SHEET.data, SHEET.data)
    names = [f"p{i}" for i in range(240)]
    frame = pd.DataFrame(distances, columns=names, index=names)
    model = IsometricEmbedding(n_neighbors=8, metric="precomputed").set_output(transform="pandas")
    found = model.fit_transform(frame)
    assert found.index.tolist() == names
    assert model.feature_names_in_.tolist() == names


def test_float32_is_kept_everywhere():
    data = SHEET.data.astype(np.float32)
    model = IsometricEmbedding(n_neighbors=8).fit(data[:200])
    assert model.embedding_.dtype == np.float32
    assert model.transform(data[200:]).dtype == np.float32
    assert model.fit_transform(sp.csr_array(data)).dtype == np.float32
    assert model.set_output(transform="pandas").fit_transform(data).dtypes.tolist() == [np.float32] * 2
    graph = IsometricEmbedding(metric="precomputed").fit(model.graph_.astype(np.float32))
    assert graph.embedding_.dtype == np.float32
    for dtype in (np.float16, np.int64, np.float64):  # all else becomes float64
        assert (
            IsometricEmbedding(n_neighbors=12).fit_transform((data[:80] * 100).astype(dtype)).dtype == float
        )
    tags = IsometricEmbedding().__sklearn_tags__().transformer_tags
    assert tags.preserves_dtype == ["float64", "float32"]


def test_pipeline_places_new_points():
    pipe = make_pipeline(StandardScaler(), IsometricEmbedding(n_neighbors=8), LinearRegression())
    sheet = s_curve(500, random_state=833)
    pipe.fit(sheet.data[:400], sheet.parameters[:400])
    assert pipe.score(sheet.data[400:], sheet.parameters[400:]) > 0.95


def test_unions_and_columns():
    union = FeatureUnion([("map", IsometricEmbedding(n_neighbors=8)), ("scaled", StandardScaler())])
    union.set_output(transform="pandas")
    pipe = make_pipeline(StandardScaler(), union).set_output(transform="pandas")
    names = pipe.fit_transform(sheet_frame("pandas")).columns.tolist()
    assert names == pipe.get_feature_names_out().tolist()
    assert names == [f"map__{name}" for name in NAMES] + ["scaled__x", "scaled__y", "scaled__z"]
    columns = ColumnTransformer([("map", IsometricEmbedding(n_neighbors=8), ["x", "y", "z"])])
    assert columns.fit_transform(sheet_frame("pandas")).shape == (240, 2)


def test_clones_have_the_parameters_and_nothing_else():
    model = IsometricEmbedding(3, n_neighbors=9, metric="minkowski", metric_params={"p": 3}).fit(SHEET.data)
    twin = clone(model)
    assert twin.get_params() == model.get_params()
    assert not [name for name in vars(twin) if name.endswith("_")]


def test_is_the_mean_error_of_ten_distances():
    """A loop over all pairs, against the index."""
    for k in (6, 14):
        model = IsometricEmbedding(n_neighbors=k).fit(SHEET.data[:200])
        new = SHEET.data[200:]
        errors = []
        for x, y in zip(new, model.transform(new), strict=True):
            d = np.linalg.norm(SHEET.data[:200] - x, axis=1)
            nearest = np.argsort(d)[:10]
            mapped = np.linalg.norm(model.embedding_[nearest] - y, axis=1)
            errors.append(np.abs(mapped - d[nearest]) / d[nearest])
        assert model.score(new) == pytest.approx(-np.mean(errors), rel=1e-9)


def test_distances_score_like_features():
    distances = cdist(SHEET.data, SHEET.data)
    features = IsometricEmbedding(n_neighbors=8).fit(SHEET.data[:200])
    model = IsometricEmbedding(n_neighbors=8, metric="precomputed").fit(distances[:200, :200])
    assert model.score(distances[200:, :200]) == pytest.approx(features.score(SHEET.data[200:]), rel=1e-6)
    nearest = np.argsort(distances[200:, :200], axis=1)[:, :10]
    rows = np.repeat(np.arange(40), 10)
    sparse = sp.coo_array(
        (distances[200 + rows, nearest.ravel()], (rows, nearest.ravel())), shape=(40, 200)
    ).tocsr()
    assert model.score(sparse) < 0


def test_points_of_the_fit_and_coincidences():
    with pytest.raises(NotFittedError):
        IsometricEmbedding().score(SHEET.data)
    model = IsometricEmbedding(n_neighbors=8).fit(SHEET.data)
    assert -0.1 < model.score(SHEET.data) < 0
    same = IsometricEmbedding(n_neighbors=4).fit(np.ones((30, 3)))
    assert same.score(np.ones((2, 3))) == 0.0


def test_lost_points_count_as_errors():
    rng = np.random.default_rng(839)
    points = np.concatenate([rng.normal(size=(60, 2)), rng.normal(size=(20, 2)) + 1000])
    with pytest.warns(UserWarning, match="largest"):
        model = IsometricEmbedding(n_neighbors=6, components="largest").fit(points)
    with pytest.warns(UserWarning, match="their coordinates are NaN"):
        score = model.score(np.array([[1000.0, 1000.0]]))
    assert score == -1.0


def test_too_few_dimensions_and_shortcuts_score_low():
    roll = swiss_roll(700, random_state=853).data
    train, new = roll[:600], roll[600:]
    good = IsometricEmbedding(n_neighbors=8).fit(train).score(new)
    line = IsometricEmbedding(1, n_neighbors=8).fit(train).score(new)
    torn = IsometricEmbedding(n_neighbors=50).fit(train).score(new)
    assert good > -0.1
    assert line < good - 0.2
    assert torn < good - 0.1


@pytest.mark.filterwarnings("ignore:The graph has .* connected components:UserWarning")
def test_grid_over_neighbours():
    roll = swiss_roll(450, random_state=857).data
    search = GridSearchCV(
        IsometricEmbedding(), {"n_neighbors": [3, 8]}, cv=KFold(3, shuffle=True, random_state=859)
    )
    search.fit(roll)
    assert search.best_params_ == {"n_neighbors": 8}
    assert search.transform(roll[:5]).shape == (5, 2)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_grid_over_distances():
    """Rows and columns of a matrix of distances are split together."""
    distances = cdist(SHEET.data, SHEET.data)
    search = GridSearchCV(
        IsometricEmbedding(metric="precomputed"),
        {"n_neighbors": [10, 14]},
        cv=KFold(3, shuffle=True, random_state=863),
        error_score="raise",
    )
    assert search.fit(distances).best_score_ > -0.15


def test_grid_of_a_pipeline_with_labels():
    pipe = make_pipeline(IsometricEmbedding(), LinearRegression())
    search = GridSearchCV(pipe, {"isometricembedding__n_neighbors": [8, 12]}, cv=3)
    sheet = s_curve(500, random_state=841)
    assert search.fit(sheet.data, sheet.parameters).best_score_ > 0.98
