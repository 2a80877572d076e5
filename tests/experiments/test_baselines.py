from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.manifold import Isomap, LocallyLinearEmbedding

from isoweave.datasets import swiss_roll
from isoweave.experiments import _spectral, baselines
from isoweave.experiments.baselines import BASELINES, available_baselines, run_baseline
from isoweave.graph import graph_from_matrix, knn_graph
from isoweave.metrics import evaluate, parameter_error, procrustes_error
from reference_graphs import complete_of, graph_of

SEED = 61


@pytest.fixture(scope="module")
def roll():
    data = swiss_roll(220, height=10.0, random_state=SEED)
    return data, knn_graph(data.data, 9)


@pytest.mark.parametrize("name", list(BASELINES))
def test_every_baseline_keeps_neighbourhoods_better_than_chance(roll, name):
    if name not in available_baselines():
        pytest.skip(f"{BASELINES[name].package} is not installed")
    data, graph = roll
    embedding = run_baseline(name, graph, 2, random_state=SEED, n_jobs=1)
    assert embedding.shape == (220, 2)
    assert embedding.dtype == np.float64
    scores = evaluate(graph, embedding, n_neighbors=9, parameters=data.parameters)
    # Random maps reach an F1 of about 0.04 and a correlation of about 0.
    assert scores["f1"] > 0.15
    assert scores["pearson"] > 0.5
    again = run_baseline(name, graph.to_matrix(), 2, random_state=SEED, n_jobs=1)
    np.testing.assert_allclose(again, embedding, rtol=0, atol=1e-6 * np.abs(embedding).max())


def features(n=40, d=3, seed=SEED):
    return np.random.default_rng(seed).normal(size=(n, d)) * [1.0, 0.8, 0.6][:d]


def assert_same_up_to_signs(ours, theirs):
    np.testing.assert_allclose(np.abs(ours), np.abs(theirs), rtol=0, atol=1e-6 * np.abs(ours).max())


def test_lle_of_a_complete_graph_is_scikit_learns():
    """There every neighbourhood is everything and geodesics are straight: the same problem."""
    x = features()
    model = LocallyLinearEmbedding(n_neighbors=39, n_components=2, eigen_solver="dense")
    assert_same_up_to_signs(run_baseline("lle", complete_of(x), 2), model.fit_transform(x) * np.sqrt(40))


def test_lle_of_a_sparse_graph_equals_its_loop(roll):
    """Gram matrices of shortest paths are indefinite; their negative part is left out."""
    _, graph = roll
    geodesics = _spectral.all_geodesics(graph)
    residual = np.eye(220)
    was_indefinite = False
    for i in range(220):
        near = graph.indices[graph.indptr[i] : graph.indptr[i + 1]]
        gram = np.empty((len(near), len(near)))
        for a, j in enumerate(near):
            for b, k in enumerate(near):
                gram[a, b] = (geodesics[i, j] ** 2 + geodesics[i, k] ** 2 - geodesics[j, k] ** 2) / 2
        values, vectors = np.linalg.eigh(gram)
        was_indefinite |= values[0] < -1e-3 * values[-1]
        gram = (vectors * np.maximum(values, 0)) @ vectors.T
        weights = np.linalg.solve(gram + 1e-3 * np.trace(gram) * np.eye(len(near)), np.ones(len(near)))
        residual[i, near] -= weights / weights.sum()
    assert was_indefinite
    vectors = np.linalg.eigh(residual.T @ residual)[1][:, 1:3] * np.sqrt(220)
    assert_same_up_to_signs(run_baseline("lle", graph, 2), vectors)


def test_diffusion_maps_equal_the_textbook(roll):
    """Right eigenvectors of the transition matrix, the density divided out, times their eigenvalues."""
    _, graph = roll
    geodesics = _spectral.all_geodesics(graph)
    kernel = np.exp(-(geodesics**2) / (2 * np.median(geodesics[np.triu_indices(220, 1)]) ** 2))
    density = kernel.sum(axis=1)
    kernel = kernel / np.outer(density, density)
    degree = kernel.sum(axis=1)
    values, vectors = np.linalg.eig(kernel / degree[:, None])
    order = np.argsort(-values.real)
    expected = vectors.real[:, order[1:3]] * values.real[order[1:3]]
    # Normalised in the stationary distribution.
    share = degree / degree.sum()
    expected /= np.sqrt(share @ (vectors.real[:, order[1:3]] ** 2))
    assert_same_up_to_signs(run_baseline("diffusion", graph, 2), expected)


@pytest.mark.parametrize(("n_components", "power"), [(2, 1), (4, 2)])
def test_tsne_is_given_squares_where_it_does_not_square(monkeypatch, roll, n_components, power):
    """scikit-learn squares given distances in its approximate version only."""
    seen = []

    class Spy:
        def __init__(self, **options):
            seen.append(options)

        def fit_transform(self, distances):
            seen.append(distances)
            return seen[0]["init"]

    monkeypatch.setattr("sklearn.manifold.TSNE", Spy)
    start = run_baseline("tsne", roll[1], n_components)
    np.testing.assert_array_equal(seen[1], _spectral.all_geodesics(roll[1]) ** power)
    assert start[:, 0].std() == pytest.approx(1e-4, rel=1e-5)
    assert seen[0]["method"] == ("exact" if power == 2 else "barnes_hut")


@pytest.mark.parametrize("name", ["hlle", "ltsa"])
def test_tangent_methods_equal_their_feature_versions(name):
    """Loops over features, tangents by singular vectors. (scikit-learn's Hessian version keeps the whole
    complement of affine functions, not only the second derivatives, so it is no twin.)
    """
    x = features()
    total = np.zeros((40, 40))
    for i in range(40):
        members = np.arange(40) if name == "ltsa" else np.delete(np.arange(40), i)
        near = x[members] - x[members].mean(axis=0)
        u = np.linalg.svd(near, full_matrices=False)[0][:, :2]
        affine = np.column_stack([np.ones(len(members)), u])
        if name == "ltsa":
            block = np.eye(40) - affine @ np.linalg.pinv(affine)
        else:
            second = np.column_stack([u[:, 0] ** 2, u[:, 0] * u[:, 1], u[:, 1] ** 2])
            rest = np.linalg.qr(np.column_stack([affine, second]))[0][:, 3:]
            block = rest @ rest.T
        total[np.ix_(members, members)] += block
    # For LTSA the blocks are all the same, the smallest eigenvalues are equal: compare the planes.
    vectors = np.linalg.eigh(total)[1][:, 1:3]
    ours = run_baseline(name, complete_of(x), 2) / np.sqrt(40)
    if name == "ltsa":
        vectors = u
    np.testing.assert_allclose(ours @ ours.T, vectors @ vectors.T, atol=1e-8)


@pytest.mark.parametrize("name", ["ltsa", "hlle", "isomap"])
def test_exact_distances_in_the_plane(name):
    """Affine functions of the plane cost nothing; Isomap recovers it up to a rigid motion."""
    x = features(d=2)
    found = run_baseline(name, complete_of(x), 2)
    assert parameter_error(x, found) < 1e-12
    if BASELINES[name].is_metric:
        assert procrustes_error(x, found) < 1e-12


def test_isomap_is_scikit_learns(roll):
    """On features scikit-learn unites the neighbours of both ends too."""
    data, graph = roll
    theirs = Isomap(n_neighbors=9, n_components=2).fit_transform(data.data)
    ours = run_baseline("isomap", graph, 2)
    np.testing.assert_allclose(np.abs(ours), np.abs(theirs), rtol=0, atol=1e-8 * np.abs(theirs).max())


@pytest.mark.parametrize("name", ["isomap", "lle", "hlle", "ltsa", "laplacian", "diffusion"])
def test_duplicates(name):
    """Vertices at distance zero are edges like any other: they stay together or close by."""
    x = np.vstack([features(50, 2), features(3, 2)])
    graph = knn_graph(x, 8)
    found = run_baseline(name, graph, 2, random_state=SEED)
    assert np.isfinite(found).all()
    if name == "isomap":
        np.testing.assert_allclose(found[:3], found[50:], atol=1e-6)


def test_neighbourhoods_are_filled_with_the_nearest():
    path = graph_of([(i, i + 1, 1.0 + 0.01 * i) for i in range(9)], 10)
    geodesics = _spectral.all_geodesics(path)
    for i, members in _spectral.neighborhoods(path, geodesics, 4):
        expected = [j for j in np.argsort(geodesics[i], kind="stable") if j != i][:4]
        assert sorted(members) == sorted(expected)
    for i, members in _spectral.neighborhoods(path, geodesics, 1):
        np.testing.assert_array_equal(members, path.indices[path.indptr[i] : path.indptr[i + 1]])
    # A long edge stays in, though nothing is nearer than what it leads to.
    graph = graph_of([(0, 1, 9.0), (1, 2, 1.0), (2, 3, 1.0), (3, 4, 1.0)], 5)
    found = dict(_spectral.neighborhoods(graph, _spectral.all_geodesics(graph), 2))
    assert found[0].tolist() == [1, 2]


@pytest.mark.parametrize("n_vectors", [1, 3])
def test_sparse_and_dense_eigenvectors_agree(monkeypatch, n_vectors):
    n = 60
    path = sp.diags_array([-np.ones(n - 1), np.full(n, 2.0), -np.ones(n - 1)], offsets=[-1, 0, 1]).tolil()
    path[0, 0] = path[n - 1, n - 1] = 1.0
    matrix = sp.csr_array(path)
    dense = _spectral.smallest_eigenvectors(matrix, n_vectors)
    monkeypatch.setattr(_spectral, "_DENSE_UP_TO", 0)
    sparse = _spectral.smallest_eigenvectors(matrix, n_vectors, SEED)
    np.testing.assert_allclose(np.abs(dense), np.abs(sparse), atol=1e-7)
    # Known: cosines of the path, mean square 1.
    cosine = np.sqrt(2.0) * np.cos(np.pi * (np.arange(n) + 0.5) / n)
    np.testing.assert_allclose(np.abs(dense[:, 0]), np.abs(cosine), atol=1e-10)


def test_constants_are_taken_out_of_a_larger_kernel():
    found = _spectral.smallest_eigenvectors(sp.csr_array((12, 12)), 2)
    np.testing.assert_allclose(found.T @ np.ones(12), 0.0, atol=1e-12)
    np.testing.assert_allclose(found.T @ found, 12.0 * np.eye(2), atol=1e-12)


def test_errors(monkeypatch, roll):
    _, graph = roll
    with pytest.raises(ValueError, match="name must be one of .*isomap.*'isomup'"):
        run_baseline("isomup", graph, 2)
    with pytest.raises(ValueError, match="n_components must be below n - 1 = 219, got 219"):
        run_baseline("isomap", graph, 219)
    apart = graph_from_matrix(sp.block_diag([complete_of(features(9)).to_matrix()] * 2, format="csr"))
    with pytest.raises(ValueError, match=r"this one has 2 components \(vertices \[9, 10, 11\]"):
        run_baseline("lle", apart, 2)
    monkeypatch.setattr(baselines, "_MOST_DENSE_VERTICES", 200)
    with pytest.raises(ValueError, match="Isomap stores all distances, .* up to 200 vertices.*has 220"):
        run_baseline("isomap", graph, 2)
    assert run_baseline("laplacian", graph, 2).shape == (220, 2)


@pytest.mark.parametrize(("name", "extra"), [("umap", "baselines"), ("mde", "mde")])
def test_a_missing_package_names_its_extra(monkeypatch, roll, name, extra):
    import sys

    monkeypatch.setitem(sys.modules, BASELINES[name].package, None)
    with pytest.raises(ImportError, match=rf"isoweave\[{extra}\]"):
        run_baseline(name, roll[1], 2)


def test_available_leaves_out_what_is_missing(monkeypatch):
    monkeypatch.setattr(baselines, "find_spec", lambda name: None)
    assert available_baselines() == ("isomap", "lle", "hlle", "ltsa", "laplacian", "diffusion", "tsne")
