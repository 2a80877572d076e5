from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist, pdist, squareform

from isoweave.graph import _knn as module
from isoweave.graph import connected_components, knn_from_distances, knn_graph, merge_duplicates
from reference_knn import as_dense, assert_permuted, twin


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_distance_matrix_agrees_with_features(dtype):
    X = np.random.default_rng(103).normal(size=(120, 5))
    D = cdist(X, X).astype(dtype)
    D.flags.writeable = False
    graph = knn_from_distances(D, 6)
    np.testing.assert_allclose(as_dense(graph), as_dense(knn_graph(X, 6)), rtol=4 * np.finfo(dtype).eps)


def test_distance_matrix_in_blocks(monkeypatch):
    monkeypatch.setattr(module, "block_rows", lambda n: 7)
    X = np.random.default_rng(107).normal(size=(50, 3))
    graph = knn_from_distances(cdist(X, X), 6)
    np.testing.assert_array_equal(as_dense(graph), twin(cdist(X, X), 6))
    D = cdist(X, X)
    D[31, 40] = -1
    with pytest.raises(ValueError, match=r"Entry \(31, 40\) of the distance matrix is -1.0"):
        knn_from_distances(D, 6)


def test_distance_matrix_with_duplicates():
    X = np.random.default_rng(109).normal(size=(40, 3))
    X[5:20] = X[5]
    graph = knn_from_distances(cdist(X, X), 4)
    assert np.all(graph.degrees >= 4)
    reduced, _ = merge_duplicates(graph)
    distinct = np.delete(X, np.arange(6, 20), axis=0)
    np.testing.assert_allclose(as_dense(reduced), twin(cdist(distinct, distinct), 4), rtol=1e-13)
    everything = knn_from_distances(np.zeros((9, 9)), 3)
    assert np.all(everything.degrees >= 3)
    assert connected_components(everything)[0] == 1


def test_ties_in_a_distance_matrix_do_not_follow_the_numbering():
    rng = np.random.default_rng(113)
    D = squareform(np.round(pdist(rng.uniform(0, 40, size=(60, 2)))) + 1)  # whole miles tie often
    graph = knn_from_distances(D, 5)
    shuffle = rng.permutation(60)
    assert_permuted(graph, knn_from_distances(D[np.ix_(shuffle, shuffle)], 5), shuffle)


def test_rounding_in_a_distance_matrix_is_forgiven():
    X = np.random.default_rng(127).normal(size=(30, 4))
    D = cdist(X, X)
    noisy = D * (1 + 1e-12 * np.random.default_rng(128).normal(size=D.shape))
    noisy[np.diag_indices(30)] = 1e-9
    noisy[3, 7] = noisy[7, 3] = -1e-17
    graph = knn_from_distances(noisy, 4)
    assert as_dense(graph)[3, 7] == 0
    D[3, 7] = D[7, 3] = 0
    np.testing.assert_allclose(as_dense(graph), as_dense(knn_from_distances(D, 4)), rtol=1e-11)


def changed(i, j, value, both=True):
    D = squareform(pdist(np.arange(6.0)[:, None]))
    D[i, j] = value
    if both:
        D[j, i] = value
    return D


@pytest.mark.parametrize(
    ("D", "error", "text"),
    [
        (changed(1, 2, np.nan), ValueError, r"Entry \(1, 2\) .* is nan; distances must be finite"),
        (changed(1, 2, np.inf), ValueError, r"Entry \(1, 2\) .* is inf; distances must be finite"),
        (
            changed(4, 2, -1.0),
            ValueError,
            r"Entry \(2, 4\) .* is -1.0; Negative values in data: distances must not be",
        ),
        (changed(3, 3, 0.5), ValueError, r"Entry \(3, 3\) .* is 0.5; the diagonal must be zero"),
        (changed(1, 4, 2.0, both=False), ValueError, r"Entry \(1, 4\) .* is 2.0; entry \(4, 1\) is 3.0"),
        (np.zeros((3, 4)), ValueError, r"must be square, got shape \(3, 4\)"),
        (np.zeros((1, 1)), ValueError, "at least 2 points"),
        (np.zeros((3, 3)) * 1j, ValueError, "Complex data not supported"),
        (np.zeros((3, 3), dtype=bool), TypeError, "dtype bool"),
        (np.array([["a", "b"], ["c", "d"]]), TypeError, "real numbers"),
        (sp.csr_array((3, 3)), TypeError, "graph_from_matrix"),
        (np.zeros((2, 2)), ValueError, "less than the number of points, got 2 for 2"),
    ],
)
def test_bad_distance_matrices(D, error, text):
    with pytest.raises(error, match=text):
        knn_from_distances(D, 2)
