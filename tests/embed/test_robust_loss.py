"""Wrong distances: a robust loss finds the map that the others agree on."""

import numpy as np
import pytest
import scipy.sparse as sp

from isoweave import embed_graph
from isoweave.graph import graph_from_matrix, longer_than_detours
from isoweave.metrics import procrustes_error
from reference_graphs import knn_of


def spoiled(seed, share, factors, n=500):
    """A flat square with some of its distances multiplied, and which edges these are."""
    rng = np.random.default_rng(seed)
    points = rng.random((n, 2))
    upper = sp.triu(knn_of(points, 10).to_matrix()).tocoo()
    wrong = rng.random(upper.nnz) < share
    upper.data = upper.data * np.where(wrong, rng.choice(factors, upper.nnz), 1.0)
    matrix = sp.csr_array(upper)
    return points, sp.csr_array(matrix + matrix.T), np.column_stack((upper.row, upper.col))[wrong]


@pytest.mark.parametrize(("share", "factors"), [(0.0, [1.0]), (0.1, [10.0, 0.1]), (0.3, [10.0])])
def test_wrong_distances(share, factors):
    """Nothing is lost where nothing is wrong."""
    points, matrix, _ = spoiled(971, share, factors)
    plain, robust = (embed_graph(matrix, loss=loss).coordinates for loss in ("squares", "robust"))
    assert share == 0.0 or procrustes_error(points, plain) > 5e-3
    assert procrustes_error(points, robust) < (1e-4 if share else 1e-7)


def test_longer_than_a_detour():
    points, matrix, wrong = spoiled(983, 0.05, [10.0], n=150)
    graph = graph_from_matrix(matrix)
    dense = np.where(matrix.toarray() > 0, matrix.toarray(), np.inf)
    pairs = np.column_stack((graph.sources, graph.indices))
    expected = [dense[i, j] > (dense[i] + dense[:, j]).min() for i, j in pairs]
    found = longer_than_detours(graph)
    np.testing.assert_array_equal(found, expected)
    seen = {(i, j) for i, j in pairs[found].tolist() if i < j}
    assert seen <= set(map(tuple, wrong.tolist()))
    assert len(seen) > 0.9 * len(wrong)
    assert not longer_than_detours(knn_of(points, 10)).any()
