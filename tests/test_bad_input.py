"""Bad input gives an error that names the value, where it is and what to do; odd but good input works."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from isoweave import IsometricEmbedding, embed_graph
from isoweave.datasets import s_curve
from isoweave.graph import knn_graph
from reference_graphs import distance_gap, knn_of


def matrix_of(n=40, seed=229):
    return knn_of(np.random.default_rng(seed).normal(size=(n, 2)), 6).to_matrix()


def with_entry(value, at=5):
    """The matrix with one undirected edge changed, and the ends of that edge, smaller first."""
    matrix = sp.coo_array(matrix_of())
    i, j = sorted((int(matrix.row[at]), int(matrix.col[at])))
    ends = np.sort(np.column_stack([matrix.row, matrix.col]), axis=1)
    data = matrix.data.copy()
    data[(ends == [i, j]).all(axis=1)] = value
    return sp.csr_array(sp.coo_array((data, (matrix.row, matrix.col)), shape=matrix.shape)), i, j


BOTH = pytest.mark.parametrize(
    "embed",
    [
        pytest.param(lambda a, **kw: embed_graph(a, **kw), id="function"),
        pytest.param(lambda a, **kw: IsometricEmbedding(metric="precomputed", **kw).fit(a), id="estimator"),
    ],
)


@BOTH
@pytest.mark.parametrize(
    ("value", "what"), [(np.nan, "NaN"), (np.inf, "infinite"), (-np.inf, "infinite"), (-1.5, "negative")]
)
def test_impossible_distances(embed, value, what):
    matrix, i, j = with_entry(value)
    with pytest.raises(ValueError, match=rf"Entry \({i}, {j}\) is {value}: {what} distances are not allowed"):
        embed(matrix)


@BOTH
def test_a_diagonal_that_is_not_zero(embed):
    matrix = sp.csr_array(matrix_of() + sp.diags_array(np.r_[0.0, 0.0, 3.0, np.zeros(37)]))
    with pytest.raises(ValueError, match=r"Diagonal entry \(2, 2\) is 3; .*must be zero"):
        embed(matrix)


@BOTH
def test_not_square(embed):
    with pytest.raises(ValueError, match=r"square matrix, got shape \(30, 40\)"):
        embed(sp.csr_array(matrix_of()[:30]))


@BOTH
def test_complex(embed):
    with pytest.raises(ValueError, match=r"[Cc]omplex data not supported"):
        embed(matrix_of().astype(complex))


@BOTH
@pytest.mark.parametrize("n", [0, 1])
def test_fewer_than_two_vertices(embed, n):
    with pytest.raises(ValueError, match=rf"at least 2 vertices, got shape \({n}, {n}\)|minimum of|empty"):
        embed(sp.csr_array((n, n)))


@BOTH
def test_asymmetric_weights(embed):
    matrix = matrix_of().tolil()
    i, j = 0, int(matrix_of()[[0]].indices[0])
    matrix[i, j] = 10.0 * matrix[j, i]
    with pytest.raises(
        ValueError, match=rf"disagree: entry \({i}, {j}\) = .* and entry \({j}, {i}\) = .*asymmetry="
    ):
        embed(matrix.tocsr())
    for policy in ("max", "min", "mean"):
        embed(matrix.tocsr(), asymmetry=policy)
    with pytest.raises(ValueError, match=r"asymmetry must be one of .* got 'median'"):
        embed(matrix.tocsr(), asymmetry="median")


@BOTH
def test_rounding_is_no_asymmetry(embed):
    matrix = matrix_of()
    matrix.data = matrix.data * (1.0 + 1e-12 * np.random.default_rng(233).normal(size=matrix.nnz))
    embed(matrix)


@BOTH
def test_more_dimensions_than_points(embed):
    with pytest.raises(
        ValueError, match=r"n_components=40 is more than any neighbourhood can support.*40 distinct points"
    ):
        embed(matrix_of(), n_components=40)


@BOTH
def test_strings_and_booleans(embed):
    with pytest.raises((TypeError, ValueError), match=r"boolean|real numbers|bool"):
        embed(matrix_of() > 0)


@pytest.mark.parametrize("value", ["graph.npz", None, 3, [[0.0, 1.0], [1.0, 0.0]], np.eye(3)])
def test_what_is_no_sparse_matrix(value):
    with pytest.raises(TypeError, match=r"Expected a scipy sparse matrix of distances, got \w+"):
        embed_graph(value)


@pytest.mark.parametrize(
    ("settings", "error", "text"),
    [
        ({"preset": "fast"}, ValueError, "preset must be one of 'default', 'paper', got 'fast'"),
        ({"start": "random"}, ValueError, "start must be one of .* got 'random'"),
        ({"solver": "lu"}, ValueError, "solver must be one of .* got 'lu'"),
        ({"inner_product": "l2"}, ValueError, "inner_product must be one of .* got 'l2'"),
        ({"frame_size": "most"}, ValueError, "frame_size must be one of .* got 'most'"),
        ({"frame_size": -3}, ValueError, "frame_size must be an integer >= 2, got -3"),
        ({"calibrate": "edges"}, ValueError, "calibrate must be one of .* got 'edges'"),
        ({"scale": 2}, TypeError, "scale must be one of .* got 2 of type int"),
        ({"shortcuts": "remove"}, ValueError, "shortcuts must be one of .* got 'remove'"),
        ({"components": "all"}, ValueError, "components must be one of .* got 'all'"),
        ({"tol": -1}, ValueError, "tol must be a finite number > 0.0, got -1"),
        ({"tol": np.nan}, ValueError, "tol must be a finite number"),
        ({"max_iter": 0}, ValueError, "max_iter must be an integer >= 1, got 0"),
        ({"max_iter": "9"}, TypeError, "max_iter must be an integer, got '9'"),
        ({"n_components": 0}, ValueError, "n_components must be an integer >= 1, got 0"),
        ({"n_components": 1.5}, TypeError, "n_components must be an integer, got 1.5"),
        ({"n_jobs": 0}, ValueError, "n_jobs must be .* got 0"),
        ({"n_jobs": "many"}, (TypeError, ValueError), "n_jobs must be .* got 'many'"),
        ({"random_state": "seed"}, (TypeError, ValueError), "'seed'"),
        ({"random_state": -1}, ValueError, "random_state must be an integer >= 0, got -1"),
        ({"callback": 3}, TypeError, "callback must be callable or None, got 3"),
    ],
)
@BOTH
def test_wrong_options(embed, settings, error, text):
    with pytest.raises(error, match=text):
        embed(matrix_of(), **settings)


@BOTH
@pytest.mark.parametrize(
    ("start", "text"),
    [
        (np.zeros((39, 2)), r"start must be a real array of shape \(40, 2\), got shape \(39, 2\)"),
        (np.zeros((40, 3)), r"start must be a real array of shape \(40, 2\), got shape \(40, 3\)"),
        (np.zeros((40, 2), dtype=complex), r"got shape \(40, 2\) and dtype complex128"),
        (np.full((40, 2), "a"), r"and dtype <U1"),
        (
            np.where(np.arange(80).reshape(40, 2) == 7, np.nan, 0.0),
            r"start must be finite, but entry \(3, 1\) is nan",
        ),
    ],
)
def test_wrong_starts(embed, start, text):
    with pytest.raises(ValueError, match=text):
        embed(matrix_of(), start=start)


@pytest.mark.parametrize(
    ("settings", "error", "text"),
    [
        ({"n_neighbors": 0}, ValueError, "n_neighbors must be an integer >= 1, got 0"),
        ({"n_neighbors": 2.5}, TypeError, "n_neighbors must be an integer, got 2.5"),
        ({"metric": "euclidian"}, ValueError, "euclidian"),
        ({"n_components": "some"}, TypeError, "n_components must be an integer, got 'some'"),
    ],
)
def test_wrong_options_for_features(settings, error, text):
    with pytest.raises(error, match=text):
        IsometricEmbedding(**settings).fit(s_curve(40, random_state=239).data)


@pytest.mark.parametrize(
    ("data", "error", "text"),
    [
        (
            [["a", "b"], ["c", "d"]],
            ValueError,
            r"could not convert string to float|[Uu]nable to convert|dtype",
        ),
        (np.full((5, 2), np.nan), ValueError, "NaN"),
        (np.full((5, 2), np.inf), ValueError, "infinity"),
        (np.ones((5, 2), dtype=complex), ValueError, "Complex data not supported"),
        (np.ones((1, 2)), ValueError, "minimum of 2 is required"),
        (np.ones(5), ValueError, "Expected 2D array"),
        (np.empty((0, 3)), ValueError, "0 sample"),
    ],
)
def test_wrong_features(data, error, text):
    with pytest.raises(error, match=text):
        IsometricEmbedding(n_neighbors=2).fit(data)


def shuffled_coo(matrix):
    coo = sp.coo_array(matrix)
    order = np.random.default_rng(241).permutation(coo.nnz)
    return sp.coo_array((coo.data[order], (coo.row[order], coo.col[order])), shape=coo.shape)


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


def repeated_entries(matrix):
    coo = sp.coo_array(matrix)
    return sp.coo_array((np.tile(coo.data, 2), (np.tile(coo.row, 2), np.tile(coo.col, 2))), shape=coo.shape)


def read_only(matrix):
    copy = matrix.copy()
    for array in (copy.data, copy.indices, copy.indptr):
        array.flags.writeable = False
    return copy


FORMATS = {
    "csc": lambda a: a.tocsc(),
    "coo": sp.coo_array,
    "shuffled coo": shuffled_coo,
    "unsorted csr": unsorted_csr,
    "int64 indices": wide_indices,
    "repeated entries": repeated_entries,
    "one direction": lambda a: sp.triu(a, format="csr"),
    "lil": lambda a: a.tolil(),
    "dok": lambda a: a.todok(),
    "spmatrix": sp.csr_matrix,
    "read-only": read_only,
    "stored diagonal": lambda a: sp.csr_array(
        sp.coo_array(
            (
                np.r_[a.data, np.zeros(a.shape[0])],
                (np.r_[sp.coo_array(a).row, np.arange(a.shape[0])], np.r_[a.indices, np.arange(a.shape[0])]),
            ),
            shape=a.shape,
        )
    ),
}


@BOTH
@pytest.mark.parametrize("form", FORMATS)
def test_formats_give_the_same_bits(embed, form):
    matrix = matrix_of()
    expected, result = embed(matrix), embed(FORMATS[form](matrix))
    name = "coordinates" if hasattr(expected, "coordinates") else "embedding_"
    np.testing.assert_array_equal(getattr(result, name), getattr(expected, name))


@BOTH
def test_memory_mapped(embed, tmp_path):
    matrix = matrix_of()
    arrays = []
    for name, array in (("data", matrix.data), ("indices", matrix.indices), ("indptr", matrix.indptr)):
        np.save(tmp_path / f"{name}.npy", array)
        arrays.append(np.load(tmp_path / f"{name}.npy", mmap_mode="r"))
    mapped = sp.csr_array(tuple(arrays), shape=matrix.shape)
    expected, result = embed(matrix), embed(mapped)
    name = "coordinates" if hasattr(expected, "coordinates") else "embedding_"
    np.testing.assert_array_equal(getattr(result, name), getattr(expected, name))


@BOTH
@pytest.mark.parametrize("dtype", [np.float32, np.longdouble, np.int64, np.uint8])
def test_other_number_types(embed, dtype):
    matrix = matrix_of()
    scale = 60.0 if np.issubdtype(dtype, np.integer) else 1.0
    matrix.data = np.round(matrix.data * scale) if scale > 1 else matrix.data
    matrix.data = np.maximum(matrix.data, 1.0) if scale > 1 else matrix.data
    typed = sp.csr_array(matrix, dtype=dtype)
    expected = embed(sp.csr_array(typed.astype(np.float64)))
    result = embed(typed)
    name = "coordinates" if hasattr(expected, "coordinates") else "embedding_"
    found, wanted = getattr(result, name), getattr(expected, name)
    assert np.isfinite(found).all()
    assert distance_gap(wanted, found.astype(np.float64)) < (1e-3 if np.dtype(dtype).itemsize <= 4 else 1e-9)


@pytest.mark.parametrize(
    "prepare", [np.asfortranarray, lambda x: x[::-1][::-1], lambda x: np.ascontiguousarray(x)]
)
def test_feature_layouts(prepare):
    data = s_curve(80, random_state=251).data
    expected = IsometricEmbedding(n_neighbors=6).fit_transform(data)
    copy = prepare(data.copy())
    copy.flags.writeable = False
    np.testing.assert_array_equal(IsometricEmbedding(n_neighbors=6).fit_transform(copy), expected)


def test_memory_mapped_features(tmp_path):
    data = s_curve(80, random_state=251).data
    np.save(tmp_path / "x.npy", data)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    expected = IsometricEmbedding(n_neighbors=6).fit_transform(data)
    np.testing.assert_array_equal(IsometricEmbedding(n_neighbors=6).fit_transform(mapped), expected)


def test_a_graph_object_is_taken_as_it_is():
    graph = knn_graph(s_curve(80, random_state=257).data, 6)
    np.testing.assert_array_equal(embed_graph(graph).coordinates, embed_graph(graph.to_matrix()).coordinates)
