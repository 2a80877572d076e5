"""Estimators that go on from their map: more samples, changed graphs."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from isoweave import IsometricEmbedding
from isoweave.datasets import s_curve
from isoweave.geometry import rigid_motion
from isoweave.graph import knn_graph
from isoweave.metrics import procrustes_error
from reference_graphs import distance_gap

SHEET = s_curve(400, random_state=691)
OLD, NEW = SHEET.data[:320], SHEET.data[320:]
WHOLE = knn_graph(SHEET.data, 8).to_matrix()


def grown_from(points, **options):
    return IsometricEmbedding(n_neighbors=8, **options).fit(points)


def fitted_graph(matrix, **options):
    return IsometricEmbedding(metric="precomputed", **options).fit(matrix)


@pytest.fixture(scope="module")
def whole():
    return fitted_graph(WHOLE)


def test_more_samples_go_on_from_the_map():
    start = SHEET.truth[:320]
    model = grown_from(OLD)
    before = model.embedding_.copy()
    assert model.add_samples(NEW) is model
    fresh = grown_from(SHEET.data)
    assert (model.graph_ != fresh.graph_).nnz == 0
    assert model.embedding_.shape == (400, 2)
    assert model.energy_ < 1.02 * fresh.energy_
    assert max(procrustes_error(SHEET.truth, m.embedding_) for m in (model, fresh)) < 1e-3
    # Old points stay where they were, up to what the new ones tell: no rigid motion brings them nearer.
    q, t = rigid_motion(model.embedding_[:320], before)
    np.testing.assert_allclose(q, np.eye(2), atol=1e-8)
    np.testing.assert_allclose(t, 0.0, atol=1e-8)
    typical = np.median(model.graph_.data)
    assert np.linalg.norm(model.embedding_[:320] - before, axis=1).max() < 2 * typical
    np.testing.assert_array_equal(model.transform(SHEET.data), model.embedding_)
    # A start that the user gave was for the former points.
    given = grown_from(OLD, start=start)
    assert given.add_samples(NEW).embedding_.shape == (400, 2)
    assert given.start is start


def test_small_changes_take_few_steps(whole):
    """And alignments rotate with a map that was moved: phi_j - phi_i against E_ij Q_i stays the same."""
    model = pickle.loads(pickle.dumps(whole))
    rotation = np.array([[0.0, 1.0], [-1.0, 0.0]])
    model.embedding_ = whole.embedding_ @ rotation + 7.0
    model.update_graph(WHOLE)
    np.testing.assert_allclose(model.embedding_, whole.embedding_ @ rotation + 7.0, atol=1e-3)
    np.testing.assert_allclose(model.alignments_, whole.alignments_ @ rotation, atol=1e-3)
    upper = sp.triu(WHOLE).tocoo()
    noise = np.random.default_rng(761).uniform(0.98, 1.02, size=upper.nnz)
    changed = sp.coo_array((upper.data * noise, (upper.row, upper.col)), shape=WHOLE.shape)
    fresh = fitted_graph(changed)
    model.update_graph(changed)
    assert 2 * model.n_iter_ < fresh.n_iter_
    assert model.energy_ < 1.02 * fresh.energy_


def test_changed_graphs(whole):
    """Vertices lost and gained, lengths changed."""
    model = pickle.loads(pickle.dumps(whole))
    before = model.embedding_.copy()
    kept = np.setdiff1d(np.arange(400), [5, 17, 90])
    extra = SHEET.data[:10] + np.random.default_rng(743).normal(scale=0.02, size=(10, 3))
    after = knn_graph(np.vstack([SHEET.data[kept], extra]), 8).to_matrix()
    after.data = after.data * 1.01
    model.update_graph(after, kept=kept)
    assert model.embedding_.shape == (407, 2)
    assert model.n_features_in_ == 407
    fresh = fitted_graph(after)
    assert model.energy_ < 1.02 * fresh.energy_
    assert model.n_iter_ <= fresh.n_iter_
    assert np.linalg.norm(model.embedding_[:397] - before[kept], axis=1).max() < np.median(after.data)
    smaller = knn_graph(SHEET.data[kept], 8).to_matrix()
    assert model.update_graph(smaller, kept=np.arange(407) < 397).embedding_.shape == (397, 2)


def test_far_growth_is_not_folded():
    """A sheet that doubles its length cannot be guessed from its rim; then a fresh start is better."""
    sheet = s_curve(500, random_state=751)
    order = np.argsort(sheet.truth[:, 0])
    data, truth = sheet.data[order], sheet.truth[order]
    model = grown_from(data[:250]).add_samples(data[250:])
    assert model.energy_ < 1.2 * grown_from(data).energy_
    assert procrustes_error(truth, model.embedding_) < 0.01


def test_new_components_and_scaled_maps():
    rng = np.random.default_rng(709)
    points = np.vstack([rng.normal(size=(40, 2)), rng.normal(size=(25, 2)) + 100.0])
    model = IsometricEmbedding(n_neighbors=6, scale="geodesics").fit(points[:40])
    before = model.embedding_.copy()
    with pytest.warns(UserWarning, match="2 connected components"):
        model.add_samples(points[40:])
    typical = np.median(model.graph_.data)
    assert np.linalg.norm(model.embedding_[:40] - before, axis=1).max() < typical
    assert procrustes_error(points[40:], model.embedding_[40:]) < 0.3
    assert model.embedding_[40:, 0].min() > model.embedding_[:40, 0].max()


def test_one_point_many_times():
    """It has no edge that its size could be measured by."""
    point = np.ones((12, 3))
    model = IsometricEmbedding(n_neighbors=4, scale="geodesics").fit(point)
    np.testing.assert_array_equal(model.transform(point[:2]), model.embedding_[:2])
    assert np.isfinite(model.transform(2.0 * point[:2])).all()
    assert model.add_samples(point[:3]).embedding_.shape == (15, 2)


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


def test_failed_growth_leaves_the_model_alone():
    half = knn_graph(OLD[:150], 8).to_matrix()
    model = fitted_graph(knn_graph(OLD, 8).to_matrix(), components="error")
    before = dict(vars(model))
    for graph, message in (
        (sp.block_diag([half, half, half]), "3 connected components"),
        (half, "320 vertices are kept, but the new graph has only 150"),
    ):
        with pytest.raises(ValueError, match=message):
            model.update_graph(graph)
        assert vars(model) == before


FIFTY = fitted_graph(knn_graph(OLD[:50], 8).to_matrix())


@pytest.mark.parametrize(
    ("kept", "error", "message"),
    [
        (np.ones(7, dtype=bool), ValueError, r"kept as a mask must have shape \(50,\)"),
        ([0, 60], ValueError, "vertices in 0 .. 49, but entry 1 is 60"),
        ([-1, 3], ValueError, "entry 0 is -1"),
        ([4, 4], ValueError, "vertex 4 more than once"),
        ([0.5], TypeError, "vertex numbers or a mask"),
        ([[1]], TypeError, "vertex numbers or a mask"),
    ],
)
def test_bad_kept(kept, error, message):
    with pytest.raises(error, match=message):
        FIFTY.update_graph(FIFTY.graph_, kept=kept)


def test_growing_by_the_wrong_method(whole):
    model = grown_from(OLD[:100])
    with pytest.raises(ValueError, match="use add_samples"):
        model.update_graph(model.graph_)
    with pytest.raises(ValueError, match="use update_graph"):
        whole.add_samples(NEW)
    with pytest.raises(ValueError, match="X has 2 features"):
        model.add_samples(NEW[:, :2])


def test_limits_hold_while_growing():
    model = grown_from(OLD).set_params(max_iter=1, tol=1e-9)
    with pytest.warns(ConvergenceWarning, match="max_iter=1"):
        model.add_samples(NEW)
    assert model.status_ == "max_iter"
    stopped = grown_from(OLD).set_params(callback=lambda state: True)
    assert stopped.add_samples(NEW).status_ in ("stopped", "converged")
