"""Means of neighbourhoods, by themselves and as an option of a fit."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist

from isoweave import IsometricEmbedding
from isoweave.datasets import swiss_roll
from isoweave.graph import NeighborhoodMeans
from isoweave.metrics import pearson


def slow_means(points, k):
    """The rule, point by point."""
    for _ in range(2):
        # Identical points count once.
        far = np.sort(cdist(points, np.unique(points, axis=0)), axis=1)[:, k]
        dense = points[far <= np.quantile(far, 0.9)]
        dense = dense[np.sort(np.unique(dense, axis=0, return_index=True)[1])]
        points = np.array([dense[np.sort(np.argsort(row)[:k])].mean(axis=0) for row in cdist(points, dense)])
    return points


@pytest.mark.parametrize("n_dims", [3, 14])
def test_points_are_moved_by_the_rule(n_dims):
    points = np.random.default_rng(3).normal(size=(200, n_dims))
    np.testing.assert_allclose(
        NeighborhoodMeans(points, 12).points, slow_means(points, 12), rtol=0, atol=1e-13
    )


def test_new_points_are_moved_as_those_of_the_fit_on_any_number_of_threads():
    points = np.random.default_rng(4).normal(size=(150, 3))
    means = NeighborhoodMeans(points, 10, n_jobs=1)
    np.testing.assert_array_equal(means.points, NeighborhoodMeans(points, 10, n_jobs=2).points)
    np.testing.assert_array_equal(means.move(points[40:60]), means.points[40:60])


def test_noise_that_joins_the_sheets_of_a_roll_is_undone():
    roll = swiss_roll(2000, noise=1.0, height=5.0, random_state=21)
    true = cdist(roll.truth, roll.truth)
    noisy = IsometricEmbedding().fit_transform(roll.data)
    model = IsometricEmbedding(denoise=30).fit(roll.data)
    assert pearson(true, noisy) < 0.9
    assert pearson(true, model.embedding_) > 0.98
    np.testing.assert_array_equal(model.transform(roll.data[:5]), model.embedding_[:5])
    near = model.transform(swiss_roll(2000, noise=0.5, height=5.0, random_state=21).data[:300])
    assert np.median(np.linalg.norm(near - model.embedding_[:300], axis=1)) < 1.5


def test_samples_can_be_added_and_a_model_saved(tmp_path):
    roll = swiss_roll(400, noise=0.4, random_state=5).data
    model = IsometricEmbedding(denoise=12).fit(roll[:360])
    model.save(tmp_path / "roll.isoweave")
    loaded = IsometricEmbedding.load(tmp_path / "roll.isoweave")
    np.testing.assert_array_equal(loaded.transform(roll[360:]), model.transform(roll[360:]))
    whole = IsometricEmbedding(denoise=12).fit(roll)
    assert (model.add_samples(roll[360:]).graph_ != whole.graph_).nnz == 0


@pytest.mark.parametrize(
    ("options", "data", "kind", "said"),
    [
        ({"denoise": 0}, np.eye(9), ValueError, "denoise must be an integer >= 1, got 0"),
        ({"denoise": 2.5}, np.eye(9), TypeError, "denoise must be an integer"),
        ({"denoise": 5}, sp.random_array((30, 9), density=0.5, format="csr"), ValueError, "X is sparse"),
        ({"denoise": 5, "metric": "precomputed"}, 1.0 - np.eye(9), ValueError, "metric='precomputed'"),
    ],
)
def test_what_cannot_be_averaged_is_refused(options, data, kind, said):
    with pytest.raises(kind, match=said):
        IsometricEmbedding(n_neighbors=4, **options).fit(data)
