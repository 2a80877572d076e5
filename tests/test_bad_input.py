"""Bad input gives an error that names the value, where it is and what to do; odd but good input works."""

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
    # Rounding is no asymmetry.
    rounded = MATRIX.copy()
    rounded.data = MATRIX.data * (1.0 + 1e-12 * np.random.default_rng(233).normal(size=MATRIX.nnz))
    embed(rounded)


@pytest.mark.parametrize("value", ["graph.npz", None, 3, [[0.0, 1.0], [1.0, 0.0]], np.eye(3)])
def test_what_is_no_sparse_matrix(value):
    with pytest.raises(TypeError, match=r"Expected a scipy sparse matrix of distances, got \w+"):
        embed_graph(value)


# Every option by itself is in tests/embed/test_options.py; these are met on the way.
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


def wide_indices(matrix):
    copy = matrix.copy()
    copy.indices, copy.indptr = copy.indices.astype(np.int64), copy.indptr.astype(np.int64)
    return copy


def read_only(matrix):
    copy = matrix.copy()
    for array in (copy.data, copy.indices, copy.indptr):
        array.flags.writeable = False
    return copy


def entries(matrix, order=slice(None), *, times=1, more=()):
    """COO form: entries in another order, several times, or with more on the diagonal."""
    coo, more = sp.coo_array(matrix), np.asarray(more, dtype=int)
    data = np.r_[np.tile(coo.data[order], times), np.zeros(len(more))]
    rows, cols = (np.r_[np.tile(at[order], times), more] for at in (coo.row, coo.col))
    return sp.coo_array((data, (rows, cols)), shape=coo.shape)


FORMATS = {
    "csc": lambda a: a.tocsc(),
    "coo": sp.coo_array,
    "shuffled coo": lambda a: entries(a, np.random.default_rng(241).permutation(a.nnz)),
    "repeated entries": lambda a: entries(a, times=2),
    "stored diagonal": lambda a: sp.csr_array(entries(a, more=range(a.shape[0]))),
    "unsorted csr": unsorted_csr,
    "int64 indices": wide_indices,
    "one direction": lambda a: sp.triu(a, format="csr"),
    "lil": lambda a: a.tolil(),
    "dok": lambda a: a.todok(),
    "spmatrix": sp.csr_matrix,
    "read-only": read_only,
}


@BOTH
@pytest.mark.parametrize("form", FORMATS)
def test_formats_give_the_same_bits(embed, form):
    np.testing.assert_array_equal(embed(FORMATS[form](MATRIX)), embed(MATRIX))


def mapped(path, array):
    np.save(path, array)
    return np.load(path, mmap_mode="r")


@BOTH
def test_memory_mapped(embed, tmp_path):
    parts = [mapped(tmp_path / f"{n}.npy", getattr(MATRIX, n)) for n in ("data", "indices", "indptr")]
    matrix = sp.csr_array(tuple(parts), shape=MATRIX.shape)
    np.testing.assert_array_equal(embed(matrix), embed(MATRIX))


@BOTH
@pytest.mark.parametrize("dtype", [np.float32, np.longdouble, np.int64, np.uint8])
def test_other_number_types(embed, dtype):
    matrix = MATRIX.copy()
    if np.issubdtype(dtype, np.integer):
        matrix.data = np.maximum(np.round(60.0 * matrix.data), 1.0)
    typed = sp.csr_array(matrix, dtype=dtype)
    found, wanted = embed(typed), embed(sp.csr_array(typed.astype(np.float64)))
    assert np.isfinite(found).all()
    assert distance_gap(wanted, found.astype(np.float64)) < (1e-3 if np.dtype(dtype).itemsize <= 4 else 1e-9)


def test_feature_layouts(tmp_path):
    model = IsometricEmbedding(n_neighbors=6)
    expected = model.fit_transform(SHEET)
    backwards = SHEET[::-1].copy()[::-1]
    for data in (np.asfortranarray(SHEET), backwards, SHEET.copy(), mapped(tmp_path / "x.npy", SHEET)):
        data.flags.writeable = False
        np.testing.assert_array_equal(model.fit_transform(data), expected)


def test_a_graph_object_is_taken_as_it_is():
    graph = knn_graph(SHEET, 6)
    np.testing.assert_array_equal(embed_graph(graph).coordinates, embed_graph(graph.to_matrix()).coordinates)
