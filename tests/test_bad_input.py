"""Bad input through both doors gives an error that names the value and where it is; odd but good input works.

Every kind of matrix and of value is in tests/graph/test_validate_graph.py, every option in tests/embed.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from isoweave import IsometricEmbedding, embed_graph
from isoweave.datasets import s_curve
from isoweave.graph import knn_graph
from reference_graphs import distance_gap, knn_of

MATRIX = knn_of(np.random.default_rng(229).normal(size=(40, 2)), 6).to_matrix()
FIRST = int(MATRIX.indices[0])
SHEET = s_curve(80, random_state=251).data


def by_function(matrix, **settings):
    return embed_graph(matrix, **settings).coordinates


def by_estimator(matrix, **settings):
    return IsometricEmbedding(metric="precomputed", **settings).fit(matrix).embedding_


BOTH = pytest.mark.parametrize("embed", [by_function, by_estimator])


def with_entries(*entries):
    """The matrix with some entries changed."""
    matrix = MATRIX.tolil()
    for i, j, value in entries:
        matrix[i, j] = value
    return matrix.tocsr()


BAD = {
    "not square": (MATRIX[:30], r"square matrix, got shape \(30, 40\)"),
    "boolean": (MATRIX > 0, r"boolean|real numbers|bool"),
    "complex": (MATRIX.astype(complex), r"[Cc]omplex data not supported"),
    "diagonal": (with_entries((2, 2, 3.0)), r"Diagonal entry \(2, 2\) is 3; .*must be zero"),
    "no vertex": (sp.csr_array((0, 0)), r"at least 2 vertices, got shape \(0, 0\)|minimum of|empty"),
    "one vertex": (sp.csr_array((1, 1)), r"at least 2 vertices, got shape \(1, 1\)|minimum of|empty"),
    **{
        f"{value}": (
            with_entries((0, FIRST, value), (FIRST, 0, value)),
            rf"Entry \(0, {FIRST}\) is {value}: {what} distances are not allowed",
        )
        for value, what in ((np.nan, "NaN"), (np.inf, "infinite"), (-np.inf, "infinite"), (-1.5, "negative"))
    },
}


@BOTH
@pytest.mark.parametrize("name", BAD)
def test_impossible_matrices(embed, name):
    matrix, text = BAD[name]
    with pytest.raises((TypeError, ValueError), match=text):
        embed(matrix)


@BOTH
def test_two_lengths_of_one_edge(embed):
    matrix = with_entries((0, FIRST, 10.0 * MATRIX[FIRST, 0]))
    text = rf"disagree: entry \(0, {FIRST}\) = .* and entry \({FIRST}, 0\) = .*asymmetry="
    with pytest.raises(ValueError, match=text):
        embed(matrix)
    for policy in ("max", "min", "mean"):
        embed(matrix, asymmetry=policy)
    with pytest.raises(ValueError, match=r"asymmetry must be one of .* got 'median'"):
        embed(matrix, asymmetry="median")


@BOTH
@pytest.mark.parametrize(
    ("settings", "error", "text"),
    [
        ({"n_components": 40}, ValueError, "more than any neighbourhood can support.*40 distinct points"),
        ({"n_jobs": 0}, ValueError, "n_jobs must be .* got 0"),
        ({"n_jobs": "many"}, (TypeError, ValueError), "n_jobs must be .* got 'many'"),
        ({"random_state": "seed"}, (TypeError, ValueError), "'seed'"),
        ({"start": np.zeros((39, 2))}, ValueError, r"real array of shape \(40, 2\), got shape \(39, 2\)"),
        ({"start": np.zeros((40, 3))}, ValueError, r"real array of shape \(40, 2\), got shape \(40, 3\)"),
        ({"start": np.zeros((40, 2), dtype=complex)}, ValueError, r"\(40, 2\) and dtype complex128"),
        ({"start": np.full((40, 2), "a")}, ValueError, "and dtype <U1"),
        ({"start": np.full((40, 2), np.nan)}, ValueError, r"start must be finite, but entry \(0, 0\) is nan"),
    ],
)
def test_wrong_options(embed, settings, error, text):
    with pytest.raises(error, match=text):
        embed(MATRIX, **settings)


@pytest.mark.parametrize(
    ("data", "settings", "error", "text"),
    [
        (SHEET, {"n_neighbors": 0}, ValueError, "n_neighbors must be an integer >= 1, got 0"),
        (SHEET, {"n_neighbors": 2.5}, TypeError, "n_neighbors must be an integer, got 2.5"),
        (SHEET, {"metric": "euclidian"}, ValueError, "euclidian"),
        (SHEET, {"n_components": "some"}, TypeError, "n_components must be an integer, got 'some'"),
        ([["a", "b"], ["c", "d"]], {}, ValueError, "could not convert|[Uu]nable to convert|dtype"),
        (np.full((5, 2), np.nan), {}, ValueError, "NaN"),
        (np.full((5, 2), np.inf), {}, ValueError, "infinity"),
        (np.ones((5, 2), dtype=complex), {}, ValueError, "Complex data not supported"),
        (np.ones((1, 2)), {}, ValueError, "minimum of 2 is required"),
        (np.ones(5), {}, ValueError, "Expected 2D array"),
        (np.empty((0, 3)), {}, ValueError, "0 sample"),
    ],
)
def test_wrong_features(data, settings, error, text):
    with pytest.raises(error, match=text):
        IsometricEmbedding(**{"n_neighbors": 2} | settings).fit(data)


def unsorted_csr(matrix):
    copy = matrix.copy()
    for i in range(copy.shape[0]):
        at = slice(copy.indptr[i], copy.indptr[i + 1])
        copy.indices[at], copy.data[at] = copy.indices[at][::-1].copy(), copy.data[at][::-1].copy()
    copy.has_sorted_indices = False
    return copy


def read_only(matrix):
    copy = matrix.copy()
    copy.indices, copy.indptr = copy.indices.astype(np.int64), copy.indptr.astype(np.int64)
    for array in (copy.data, copy.indices, copy.indptr):
        array.flags.writeable = False
    return copy


@BOTH
def test_formats_give_the_same_bits(embed):
    coo, expected = sp.coo_array(MATRIX), embed(MATRIX)
    order = np.random.default_rng(241).permutation(coo.nnz)
    shuffled = sp.coo_array((coo.data[order], (coo.row[order], coo.col[order])), shape=coo.shape)
    forms = (MATRIX.tocsc(), shuffled, unsorted_csr(MATRIX), sp.triu(MATRIX, format="csr"), MATRIX.todok())
    for form in (*forms, sp.csr_matrix(MATRIX), read_only(MATRIX)):
        np.testing.assert_array_equal(embed(form), expected)
    single = embed(MATRIX.astype(np.float32)).astype(np.float64)
    assert distance_gap(expected, single) < 1e-3


def test_feature_layouts(tmp_path):
    model = IsometricEmbedding(n_neighbors=6)
    expected = model.fit_transform(SHEET)
    np.save(tmp_path / "x.npy", SHEET)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    for data in (np.asfortranarray(SHEET), SHEET[::-1].copy()[::-1], SHEET.copy(), mapped):
        data.flags.writeable = False
        np.testing.assert_array_equal(model.fit_transform(data), expected)


def test_a_graph_object_is_taken_as_it_is():
    graph = knn_graph(SHEET, 6)
    np.testing.assert_array_equal(embed_graph(graph).coordinates, embed_graph(graph.to_matrix()).coordinates)
