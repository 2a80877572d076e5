"""What scikit-learn users do with transformers: data frames, pipelines, searches, scores."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import StandardScaler

from isoweave import IsometricEmbedding
from isoweave.datasets import s_curve

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
    found, plain = model.fit_transform(frame), IsometricEmbedding(n_neighbors=8).fit(SHEET.data)
    assert (type(found), list(found.columns)) == (type(frame), NAMES)
    assert model.feature_names_in_.tolist() == ["x", "y", "z"]
    assert model.get_feature_names_out().tolist() == NAMES
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
    for call in (model.transform, model.place, model.score, model.add_samples):
        with pytest.raises(ValueError, match="The feature names should match those that were passed"):
            call(frame[["y", "x", "z"]])
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        model.transform(SHEET.data[:3])


def test_float32_is_kept_everywhere():
    data = SHEET.data.astype(np.float32)
    model = IsometricEmbedding(n_neighbors=8).fit(data[:200])
    assert model.embedding_.dtype == np.float32
    assert model.transform(data[200:]).dtype == np.float32
    np.testing.assert_array_equal(model.transform(data[:200]), model.embedding_)
    assert model.fit_transform(sp.csr_array(data)).dtype == np.float32
    assert model.set_output(transform="pandas").fit_transform(data).dtypes.tolist() == [np.float32] * 2
    graph = IsometricEmbedding(metric="precomputed").fit(model.graph_.astype(np.float32))
    assert graph.embedding_.dtype == np.float32
    for dtype in (np.float16, np.int64, np.float64):  # all else becomes float64
        assert model.fit_transform((data[:80] * 100).astype(dtype)).to_numpy().dtype == float
    tags = IsometricEmbedding().__sklearn_tags__().transformer_tags
    assert tags.preserves_dtype == ["float64", "float32"]


def test_pipelines_unions_and_columns():
    union = FeatureUnion([("map", IsometricEmbedding(n_neighbors=8)), ("scaled", StandardScaler())])
    union.set_output(transform="pandas")
    pipe = make_pipeline(StandardScaler(), union).set_output(transform="pandas")
    names = pipe.fit_transform(sheet_frame("pandas")).columns.tolist()
    assert names == pipe.get_feature_names_out().tolist()
    assert names == [f"map__{name}" for name in NAMES] + ["scaled__x", "scaled__y", "scaled__z"]
    columns = ColumnTransformer([("map", IsometricEmbedding(n_neighbors=8), ["x", "y", "z"])])
    assert columns.fit_transform(sheet_frame("pandas")).shape == (240, 2)


def test_is_the_mean_error_of_ten_distances():
    """A loop over all pairs, against the index."""
    old, new = SHEET.data[:200], SHEET.data[200:]
    model = IsometricEmbedding(n_neighbors=8).fit(old)
    errors = []
    for x, y in zip(new, model.transform(new), strict=True):
        d = np.linalg.norm(old - x, axis=1)
        nearest = np.argsort(d)[:10]
        mapped = np.linalg.norm(model.embedding_[nearest] - y, axis=1)
        errors.append(np.abs(mapped - d[nearest]) / d[nearest])
    assert model.score(new) == pytest.approx(-np.mean(errors), rel=1e-9)
    # Distances score like features.
    names = [f"p{i}" for i in range(240)]
    frame = pd.DataFrame(cdist(SHEET.data, SHEET.data), columns=names, index=names)
    other = IsometricEmbedding(n_neighbors=8, metric="precomputed").set_output(transform="pandas")
    assert other.fit_transform(frame.iloc[:200, :200]).index.tolist() == names[:200]
    assert other.feature_names_in_.tolist() == names[:200]
    assert other.score(frame.iloc[200:, :200]) == pytest.approx(model.score(new), rel=1e-6)
    distances = frame.to_numpy()
    sparse = np.where(distances <= np.sort(distances, axis=1)[:, [10]], distances, 0.0)[200:, :200]
    plain = IsometricEmbedding(n_neighbors=8, metric="precomputed").fit(distances[:200, :200])
    assert plain.score(sp.csr_array(sparse)) < 0
    # Points of the fit, and coincidences.
    assert -0.1 < model.score(old) < 0
    # The same quantity for old and for new points.
    assert model.score(old) == pytest.approx(model.score(new), rel=0.5)
    assert IsometricEmbedding(n_neighbors=4).fit(np.ones((30, 3))).score(np.ones((2, 3))) == 0.0
    with pytest.raises(NotFittedError):
        IsometricEmbedding().score(SHEET.data)


def test_lost_points_count_as_errors():
    rng = np.random.default_rng(839)
    points = np.concatenate([rng.normal(size=(60, 2)), rng.normal(size=(20, 2)) + 1000])
    with pytest.warns(UserWarning, match="largest"):
        model = IsometricEmbedding(n_neighbors=6, components="largest").fit(points)
    with pytest.warns(UserWarning, match="their coordinates are NaN"):
        assert model.score(np.array([[1000.0, 1000.0]])) == -1.0


@pytest.mark.filterwarnings("ignore:The graph has .* connected components:UserWarning")
def test_searches():
    """Too few neighbours, or dimensions, score low; a matrix of distances is split by rows and columns."""
    sheet, folds = s_curve(200, random_state=857), KFold(3, shuffle=True, random_state=859)
    grid = {"n_neighbors": [3, 8], "n_components": [1, 2]}
    search = GridSearchCV(IsometricEmbedding(), grid, cv=folds).fit(sheet.data)
    assert search.best_params_ == {"n_neighbors": 8, "n_components": 2}
    assert search.transform(sheet.data[:5]).shape == (5, 2)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    model = IsometricEmbedding(metric="precomputed")
    search = GridSearchCV(model, {"n_neighbors": [10]}, cv=folds, error_score="raise")
    assert search.fit(cdist(sheet.data, sheet.data)).best_score_ > -0.15
    pipe = make_pipeline(IsometricEmbedding(), LinearRegression())
    search = GridSearchCV(pipe, {"isometricembedding__n_neighbors": [8]}, cv=folds)
    assert search.fit(sheet.data, sheet.parameters).best_score_ > 0.95
