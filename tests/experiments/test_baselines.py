import sys
from unittest.mock import Mock

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.manifold import Isomap, LocallyLinearEmbedding

from isoweave.datasets import swiss_roll
from isoweave.experiments import baselines
from isoweave.experiments.baselines import BASELINES, available_baselines, run_baseline
from isoweave.graph import graph_from_matrix, knn_graph
from isoweave.metrics import evaluate, parameter_error, procrustes_error
from reference_graphs import complete_of, graph_of

SEED = 61


@pytest.fixture(scope="module")
def roll():
    data = swiss_roll(220, height=10.0, random_state=SEED).data
    return data, knn_graph(data, 9)


# UMAP takes ten seconds to compile.
CASES = [pytest.param(name, marks=pytest.mark.slow if name == "umap" else ()) for name in BASELINES]


@pytest.mark.parametrize("name", CASES)
def test_every_baseline_keeps_neighbourhoods_better_than_chance(roll, name):
    if name not in available_baselines():
        pytest.skip(f"{BASELINES[name].package} is not installed")
    _, graph = roll
    embedding = run_baseline(name, graph, 2, random_state=SEED, n_jobs=1)
    assert (embedding.shape, embedding.dtype) == ((220, 2), np.float64)
    scores = evaluate(graph, embedding, n_neighbors=9, ranks=False)
    # Random maps reach an F1 of about 0.04 and a correlation of about 0.
    assert scores["f1"] > 0.15
    assert scores["pearson"] > 0.5
    again = run_baseline(name, graph.to_matrix(), 2, random_state=SEED, n_jobs=1)
    np.testing.assert_allclose(again, embedding, rtol=0, atol=1e-6 * np.abs(embedding).max())


def features(n=40, d=3, seed=SEED):
    return np.random.default_rng(seed).normal(size=(n, d)) * [1.0, 0.8, 0.6][:d]


def assert_same_up_to_signs(ours, theirs):
    np.testing.assert_allclose(np.abs(ours), np.abs(theirs), rtol=0, atol=1e-6 * np.abs(ours).max())


def test_as_scikit_learns(roll):
    """On features its Isomap unites the neighbours of both ends too; on a complete graph LLE is the same."""
    data, graph = roll
    theirs = Isomap(n_neighbors=9, n_components=2).fit_transform(data)
    assert_same_up_to_signs(run_baseline("isomap", graph, 2), theirs)
    x = features()
    model = LocallyLinearEmbedding(n_neighbors=39, n_components=2, eigen_solver="dense")
    assert_same_up_to_signs(run_baseline("lle", complete_of(x), 2), model.fit_transform(x) * np.sqrt(40))


def test_lle_equals_its_loop(roll):
    """Gram matrices of shortest paths are indefinite; their negative part is left out."""
    _, graph = roll
    d = baselines.all_geodesics(graph) ** 2
    residual, least = np.eye(220), 0.0
    for i in range(220):
        near = graph.indices[graph.indptr[i] : graph.indptr[i + 1]]
        gram = np.array([[(d[i, j] + d[i, k] - d[j, k]) / 2 for k in near] for j in near])
        values, vectors = np.linalg.eigh(gram)
        least = min(least, values[0] / values[-1])
        gram = (vectors * np.maximum(values, 0)) @ vectors.T
        weights = np.linalg.solve(gram + 1e-3 * np.trace(gram) * np.eye(len(near)), np.ones(len(near)))
        residual[i, near] -= weights / weights.sum()
    assert least < -1e-3
    vectors = np.linalg.eigh(residual.T @ residual)[1][:, 1:3] * np.sqrt(220)
    assert_same_up_to_signs(run_baseline("lle", graph, 2), vectors)


def test_diffusion_maps_equal_the_textbook(roll):
    """Right eigenvectors of the transition matrix, the density divided out, times their eigenvalues."""
    geodesics = baselines.all_geodesics(roll[1])
    kernel = np.exp(-(geodesics**2) / (2 * np.median(geodesics[np.triu_indices(220, 1)]) ** 2))
    kernel /= np.outer(kernel.sum(axis=1), kernel.sum(axis=1))
    degree = kernel.sum(axis=1)
    values, vectors = np.linalg.eig(kernel / degree[:, None])
    order = np.argsort(-values.real)[1:3]
    values, vectors = values.real[order], vectors.real[:, order]
    # Normalised in the stationary distribution.
    expected = vectors * values / np.sqrt(degree / degree.sum() @ vectors**2)
    assert_same_up_to_signs(run_baseline("diffusion", roll[1], 2), expected)


def test_what_other_libraries_are_given(monkeypatch, roll):
    """scikit-learn squares given distances in its approximate version of t-SNE only."""
    tsne, umap = Mock(), Mock()
    monkeypatch.setattr("sklearn.manifold.TSNE", tsne)
    monkeypatch.setitem(sys.modules, "umap", umap)
    monkeypatch.setattr(baselines, "find_spec", lambda name: True)
    for n_components, power, kind in ((2, 1, "barnes_hut"), (4, 2, "exact")):
        for model in (tsne, umap.UMAP):
            model.return_value.fit_transform.return_value = np.zeros((220, n_components))
        run_baseline("tsne", roll[1], n_components)
        (distances,), options = tsne.return_value.fit_transform.call_args[0], tsne.call_args[1]
        np.testing.assert_array_equal(distances, baselines.all_geodesics(roll[1]) ** power)
        assert options["init"][:, 0].std() == pytest.approx(1e-4, rel=1e-5)
        assert options["method"] == kind
        run_baseline("umap", roll[1], n_components, n_neighbors=7)
        (near,), options = umap.UMAP.return_value.fit_transform.call_args[0], umap.UMAP.call_args[1]
        assert {
            "n_components": n_components,
            "n_neighbors": 7,
            "metric": "precomputed",
        }.items() <= options.items()
        assert np.diff(near.indptr).min() >= 7


def test_tangent_methods_equal_their_feature_versions():
    # scikit-learn's Hessian version keeps the whole complement of affine functions: it is no twin.
    x = features()
    total = np.zeros((40, 40))
    for i in range(40):
        members = np.delete(np.arange(40), i)
        u, v = np.linalg.svd(x[members] - x[members].mean(axis=0), full_matrices=False)[0][:, :2].T
        design = np.column_stack([np.ones(39), u, v, u**2, u * v, v**2])
        second = np.linalg.qr(design)[0][:, 3:]
        total[np.ix_(members, members)] += second @ second.T
    # For LTSA the blocks are all the same: what costs nothing is the plane of the first two.
    tangent = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)[0][:, :2]
    for name, expected in {"hlle": np.linalg.eigh(total)[1][:, 1:3], "ltsa": tangent}.items():
        ours = run_baseline(name, complete_of(x), 2) / np.sqrt(40)
        np.testing.assert_allclose(ours @ ours.T, expected @ expected.T, atol=1e-8)
    # Affine functions of the plane cost nothing; Isomap recovers it up to a rigid motion.
    x = features(d=2)
    found = {name: run_baseline(name, complete_of(x), 2) for name in ("ltsa", "hlle", "isomap")}
    assert max(parameter_error(x, y) for y in found.values()) < 1e-12
    assert procrustes_error(x, found["isomap"]) < 1e-12


def test_duplicates_and_neighbourhoods_filled_with_the_nearest():
    """Vertices at distance zero are edges like any other: they stay together or close by."""
    graph = knn_graph(np.vstack([features(50, 2), features(3, 2)]), 8)
    found = {name: run_baseline(name, graph, 2, random_state=SEED) for name in list(BASELINES)[:6]}
    np.testing.assert_allclose(found["isomap"][:3], found["isomap"][50:], atol=1e-6)
    path = graph_of([(i, i + 1, 1.0 + 0.01 * i) for i in range(9)], 10)
    geodesics = baselines.all_geodesics(path)
    for i, members in baselines.neighborhoods(path, geodesics, 4):
        assert sorted(members) == sorted(np.argsort(geodesics[i], kind="stable")[1:5])
    # A long edge stays in.
    graph = graph_of([(0, 1, 9.0), (1, 2, 1.0), (2, 3, 1.0), (3, 4, 1.0)], 5)
    assert dict(baselines.neighborhoods(graph, baselines.all_geodesics(graph), 2))[0].tolist() == [1, 2]


@pytest.mark.parametrize("largest_dense", [12, 2000])
def test_smallest_eigenvectors(monkeypatch, largest_dense):
    """Known: cosines of the path, mean square 1. Of a larger kernel the constants are taken out."""
    monkeypatch.setattr(baselines, "_DENSE_EIGENVECTORS", largest_dense)
    path = np.diag(np.r_[1.0, np.full(58, 2.0), 1.0]) - np.eye(60, k=1) - np.eye(60, k=-1)
    cosine = np.sqrt(2.0) * np.cos(np.pi * (np.arange(60) + 0.5) / 60)
    assert_same_up_to_signs(baselines.smallest_eigenvectors(path, 3)[:, 0], cosine)
    found = baselines.smallest_eigenvectors(np.zeros((12, 12)), 2)
    np.testing.assert_allclose(found.T @ np.ones(12), 0.0, atol=1e-12)
    np.testing.assert_allclose(found.T @ found, 12.0 * np.eye(2), atol=1e-12)


def test_errors(monkeypatch, roll):
    _, graph = roll
    apart = graph_from_matrix(sp.block_diag([complete_of(features(9)).to_matrix()] * 2, format="csr"))
    monkeypatch.setattr(baselines, "_MOST_DENSE_VERTICES", 200)
    for name, given, n_components, words in (
        ("isomup", graph, 2, "name must be one of .*isomap.*'isomup'"),
        ("isomap", graph, 219, "n_components must be below n - 1 = 219, got 219"),
        ("lle", apart, 2, r"this one has 2 components \(vertices \[9, 10, 11\]"),
        ("isomap", graph, 2, "Isomap stores all distances, .* up to 200 vertices.*has 220"),
    ):
        with pytest.raises(ValueError, match=words):
            run_baseline(name, given, n_components)
    assert run_baseline("laplacian", graph, 2).shape == (220, 2)
    monkeypatch.setattr(baselines, "find_spec", lambda name: None)
    for name, extra in (("umap", "baselines"), ("mde", "mde")):
        with pytest.raises(ImportError, match=rf"isoweave\[{extra}\]"):
            run_baseline(name, graph, 2)
    assert available_baselines() == ("isomap", "lle", "hlle", "ltsa", "laplacian", "diffusion", "tsne")
