"""Bad input through both doors gives an error that names the value and where it is; odd but good input works.

Values that no distance can have and every kind of matrix are in tests/graph, every option in tests/embed;
features of the wrong form are refused in scikit-learn's own checks of estimators.
"""

import numpy as np
import pytest
import scipy.sparse as sp

from isoweave import IsometricEmbedding, embed_graph
from isoweave.datasets import s_curve
from isoweave.graph import knn_graph
from reference_graphs import distance_gap, knn_of

MATRIX = knn_of(np.random.default_rng(229).normal(size=(40, 2)), 6).to_matrix()
SHEET = s_curve(80, random_state=251).data


def by_function(matrix, **settings):
    return embed_graph(matrix, **settings).coordinates


def by_estimator(matrix, **settings):
    return IsometricEmbedding(metric="precomputed", **settings).fit(matrix).embedding_


BOTH = pytest.mark.parametrize("embed", [by_function, by_estimator])


@BOTH
@pytest.mark.parametrize(
    ("matrix", "settings", "text"),
    [
        (MATRIX[:30], {}, r"square matrix, got shape \(30, 40\)"),
        (MATRIX > 0, {}, r"boolean|real numbers|bool"),
        (MATRIX.astype(complex), {}, r"[Cc]omplex data not supported"),
        (MATRIX, {"n_components": 40}, "more than any neighbourhood can support.*40 distinct points"),
        (MATRIX, {"n_jobs": 0}, "n_jobs must be .* got 0"),
        (MATRIX, {"start": np.zeros((39, 2))}, r"real array of shape \(40, 2\), got shape \(39, 2\)"),
        (MATRIX, {"start": np.zeros((40, 2), dtype=complex)}, r"\(40, 2\) and dtype complex128"),
        (MATRIX, {"start": np.full((40, 2), "a")}, "and dtype <U1"),
        (MATRIX, {"start": np.full((40, 2), np.nan)}, r"start must be finite, but entry \(0, 0\) is nan"),
    ],
)
def test_wrong_matrices_and_options(embed, matrix, settings, text):
    with pytest.raises((TypeError, ValueError), match=text):
        embed(matrix, **settings)


@BOTH
def test_formats_give_the_same_bits(embed):
    coo, expected = sp.coo_array(MATRIX), embed(MATRIX)
    order = np.random.default_rng(241).permutation(coo.nnz)
    shuffled = sp.coo_array((coo.data[order], (coo.row[order], coo.col[order])), shape=coo.shape)
    # Rows that a product leaves in the wrong order, and wide arrays that cannot be written to.
    unsorted = sp.csr_array(sp.eye_array(40, format="csr") @ MATRIX)
    assert not unsorted.has_sorted_indices
    locked = MATRIX.copy()
    locked.indices, locked.indptr = locked.indices.astype(np.int64), locked.indptr.astype(np.int64)
    for array in (locked.data, locked.indices, locked.indptr):
        array.flags.writeable = False
    upper, old = sp.triu(MATRIX, format="csr"), sp.csr_matrix(MATRIX)
    for form in (MATRIX.tocsc(), shuffled, unsorted, upper, MATRIX.todok(), old, locked):
        np.testing.assert_array_equal(embed(form), expected)
    single = embed(MATRIX.astype(np.float32)).astype(np.float64)
    assert distance_gap(expected, single) < 1e-3


def test_feature_layouts_and_graph_objects(tmp_path):
    model = IsometricEmbedding(n_neighbors=6)
    expected = model.fit_transform(SHEET)
    np.save(tmp_path / "x.npy", SHEET)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    for data in (np.asfortranarray(SHEET), SHEET[::-1].copy()[::-1], SHEET.copy(), mapped):
        data.flags.writeable = False
        np.testing.assert_array_equal(model.fit_transform(data), expected)
    graph = knn_graph(SHEET, 6)
    np.testing.assert_array_equal(embed_graph(graph).coordinates, embed_graph(graph.to_matrix()).coordinates)
