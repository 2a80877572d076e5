from __future__ import annotations

import pickle
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp

from isoweave.io import InputFileError, _arrays, read_input


@pytest.fixture
def features():
    return np.random.default_rng(7).normal(size=(6, 3))


@pytest.fixture
def distances():
    """A symmetric graph on 5 vertices with one edge of length zero."""
    i, j = np.array([0, 1, 2, 3, 0]), np.array([1, 2, 3, 4, 4])
    d = np.array([1.0, 0.0, 2.5, 0.5, 3.0])
    return sp.csr_array(
        (np.concatenate((d, d)), (np.concatenate((i, j)), np.concatenate((j, i)))), shape=(5, 5)
    )


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", ">f8", "int16", "uint8", "bool"])
def test_npy_features(tmp_path, features, dtype):
    array = (features * 10).astype(dtype)
    np.save(tmp_path / "x.npy", array)
    loaded = read_input(tmp_path / "x.npy")
    assert loaded.kind == "features"
    assert loaded.n_rows == 6
    assert loaded.features.dtype == ("float32" if dtype == "float32" else "float64")
    np.testing.assert_array_equal(loaded.features, array)


def test_npy_fortran_order(tmp_path, features):
    np.save(tmp_path / "x.npy", np.asfortranarray(features))
    np.testing.assert_array_equal(read_input(tmp_path / "x.npy").features, features)


@pytest.mark.parametrize("order", ["C", "F"])
def test_large_npy_is_memory_mapped(tmp_path, monkeypatch, features, order):
    np.save(tmp_path / "x.npy", np.asarray(features, order=order))
    assert not isinstance(read_input(tmp_path / "x.npy").features, np.memmap)
    monkeypatch.setattr(_arrays, "_MAP_BYTES", 100)
    loaded = read_input(tmp_path / "x.npy")
    assert isinstance(loaded.features, np.memmap)
    np.testing.assert_array_equal(loaded.features, features)


@pytest.mark.parametrize("key", ["X", "data", "features", "anything"])
def test_npz_features(tmp_path, features, key):
    np.savez_compressed(tmp_path / "x.npz", **{key: features, "labels": np.arange(6)})
    np.testing.assert_array_equal(read_input(tmp_path / "x.npz").features, features)


def test_npz_named_array_wins(tmp_path, features):
    np.savez(tmp_path / "x.npz", Z=features + 1, X=features)
    np.testing.assert_array_equal(read_input(tmp_path / "x.npz").features, features)


def test_npz_with_two_candidates(tmp_path, features):
    np.savez(tmp_path / "x.npz", A=features, B=features)
    with pytest.raises(
        InputFileError, match=r"x\.npz: expected a 2-D array named X.*'A' \(6, 3\), 'B' \(6, 3\)"
    ):
        read_input(tmp_path / "x.npz")


@pytest.mark.parametrize("layout", ["csr", "csc", "coo"])
@pytest.mark.parametrize("container", [sp.csr_array, sp.csr_matrix])
def test_sparse_npz_is_a_graph(tmp_path, distances, layout, container):
    sp.save_npz(tmp_path / "a.npz", container(distances).asformat(layout))
    loaded = read_input(tmp_path / "a.npz")
    assert loaded.kind == "graph"
    assert loaded.graph.nnz == distances.nnz == 10  # the edge of length zero is still there
    np.testing.assert_array_equal(loaded.graph.toarray(), distances.toarray())
    assert loaded.graph.has_sorted_indices


def test_bare_csr_arrays_are_a_graph(tmp_path, distances):
    np.savez(
        tmp_path / "a.npz",
        data=distances.data,
        indices=distances.indices,
        indptr=distances.indptr,
        coords=np.zeros((5, 2)),
    )
    np.testing.assert_array_equal(read_input(tmp_path / "a.npz").graph.toarray(), distances.toarray())


def test_sparse_npz_orientation(tmp_path):
    matrix = sp.csr_array(np.array([[0, 2.0, 0], [0, 0, 0], [5.0, 0, 0]]))
    for layout in ("csr", "csc", "coo"):
        sp.save_npz(tmp_path / "a.npz", matrix.asformat(layout))
        np.testing.assert_array_equal(read_input(tmp_path / "a.npz").graph.toarray(), matrix.toarray())


def test_sparse_npz_that_is_not_square_is_features(tmp_path):
    matrix = np.array([[0, -2.0, 0], [1, 0, 0]])
    sp.save_npz(tmp_path / "a.npz", sp.csr_array(matrix))
    loaded = read_input(tmp_path / "a.npz")
    np.testing.assert_array_equal(loaded.features, matrix)
    with pytest.raises(InputFileError, match="needs a square matrix, got 2 x 3"):
        read_input(tmp_path / "a.npz", as_graph=True)


def test_square_sparse_npz_as_features(tmp_path, distances):
    sp.save_npz(tmp_path / "a.npz", distances)
    loaded = read_input(tmp_path / "a.npz", as_graph=False)
    np.testing.assert_array_equal(loaded.features, distances.toarray())


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_dense_square_array_as_graph(tmp_path, distances, suffix):
    dense = distances.toarray()
    save = np.save if suffix == ".npy" else np.savez
    save(tmp_path / f"d{suffix}", dense)
    graph = read_input(tmp_path / f"d{suffix}", as_graph=True).graph
    assert graph.nnz == 8  # a dense array cannot tell a zero length from no edge
    np.testing.assert_array_equal(graph.toarray(), dense)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.arange(3.0), r"2-D array \(samples x features\), got shape \(3,\)"),
        (np.zeros((0, 3)), r"got shape \(0, 3\)"),
        (np.zeros((2, 2, 2)), r"got shape \(2, 2, 2\)"),
        (np.ones((2, 2), dtype=complex), "dtype complex128"),
        (np.array([["a", "b"]]), "dtype <U1"),
        (np.array([[1.0, 2.0], [3.0, np.nan]]), "nan at row 1, column 1"),
        (np.array([[1.0, -np.inf]]), "-inf at row 0, column 1"),
    ],
)
def test_bad_features(tmp_path, array, message):
    np.save(tmp_path / "x.npy", array)
    with pytest.raises(InputFileError, match=message):
        read_input(tmp_path / "x.npy")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"indices": np.array([0, 9, 1])}, "'indices' holds 9 at position 1, outside 0 to 2"),
        ({"indices": np.array([0, -1, 1])}, "'indices' holds -1 at position 1"),
        ({"indices": np.array([0, 1])}, "'indices' has 2 values, 'data' has 3"),
        ({"indices": np.array([0.0, 1.0, 2.0])}, "must be 1-D integers, got float64"),
        ({"indptr": np.array([0, 2, 1, 3])}, "'indptr' must rise from 0 to 3"),
        ({"indptr": np.array([0, 1, 3])}, "over 4 values; it has 3"),
        ({"indptr": np.array([1, 1, 2, 3])}, "must rise from 0"),
        ({"shape": np.array([3, 3, 3])}, "'shape' of a sparse matrix must be two sizes"),
        ({"shape": np.array([-3, 3])}, "must be two sizes"),
        ({"shape": np.array([3, 10**10])}, "refused"),
        ({"format": np.array(b"bsr")}, "format 'bsr' is not supported"),
        ({"format": np.array([1, 2])}, "format 'int64 of shape .2,.' is not supported"),
        ({"data": np.array([1, 1, 1j])}, "'data' of a sparse matrix must be 1-D numbers"),
        ({"data": np.array([1.0, -1.0, 1.0])}, "distance -1.0 between vertices 1 and 2"),
        ({"data": np.array([1.0, np.nan, 1.0])}, "distance nan between vertices 1 and 2"),
    ],
)
def test_damaged_sparse_npz(tmp_path, change, message):
    arrays = {
        "format": np.array(b"csr"),
        "shape": np.array([3, 3]),
        "data": np.ones(3),
        "indices": np.array([1, 2, 0]),
        "indptr": np.array([0, 1, 2, 3]),
    }
    np.savez(tmp_path / "good.npz", **arrays)
    assert read_input(tmp_path / "good.npz").graph.nnz == 3
    np.savez(tmp_path / "bad.npz", **(arrays | change))
    with pytest.raises(InputFileError, match=message):
        read_input(tmp_path / "bad.npz")


def test_sparse_npz_without_an_array(tmp_path):
    np.savez(tmp_path / "a.npz", format=np.array(b"csr"), shape=np.array([2, 2]), data=np.ones(1))
    with pytest.raises(InputFileError, match="without its array 'indices'"):
        read_input(tmp_path / "a.npz")


def test_pickled_objects_are_never_loaded(tmp_path, features):
    np.save(tmp_path / "x.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(InputFileError, match="holds Python objects"):
        read_input(tmp_path / "x.npy")
    np.savez(tmp_path / "x.npz", X=np.array([[{}]], dtype=object), other=features)
    np.testing.assert_array_equal(read_input(tmp_path / "x.npz").features, features)


def test_truncated_files(tmp_path, features):
    np.save(tmp_path / "x.npy", features)
    np.savez(tmp_path / "x.npz", X=features)
    for name in ("x.npy", "x.npz"):
        whole = (tmp_path / name).read_bytes()
        # Every kind of cut: nothing, inside the magic, the header, the data, the last byte.
        for size in (0, 3, 9, 60, len(whole) // 2, len(whole) - 1):
            (tmp_path / name).write_bytes(whole[:size])
            with pytest.raises(InputFileError, match=name):
                read_input(tmp_path / name)


def test_header_that_promises_too_much(tmp_path):
    """A few bytes must not make the reader allocate terabytes."""
    with (tmp_path / "x.npy").open("wb") as file:
        np.lib.format.write_array_header_1_0(
            file, {"descr": "<f8", "fortran_order": False, "shape": (10**6, 10**6)}
        )
    with pytest.raises(InputFileError, match="needs 8000000000000 bytes of data, the file has 0"):
        read_input(tmp_path / "x.npy")


def test_npz_member_that_is_not_an_array(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("X.npy", b"hello")
    with pytest.raises(InputFileError, match="array 'X': not a .npy array"):
        read_input(tmp_path / "x.npz")


def test_missing_file_folder_and_suffix(tmp_path):
    with pytest.raises(InputFileError, match=r"none\.npy: no such file"):
        read_input(tmp_path / "none.npy")
    (tmp_path / "folder.npy").mkdir()
    with pytest.raises(InputFileError, match="is a folder"):
        read_input(tmp_path / "folder.npy")
    (tmp_path / "x.docx").touch()
    with pytest.raises(InputFileError, match=r"suffix '\.docx'; known suffixes: \.npy"):
        read_input(tmp_path / "x.docx")


def test_error_survives_pickling(tmp_path):
    error = InputFileError(tmp_path / "x.csv", "too short", 3, 40)
    assert str(error).endswith("x.csv, line 3, byte 40: too short")
    copy = pickle.loads(pickle.dumps(error))
    assert str(copy) == str(error)
    assert (copy.reason, copy.line, copy.offset) == ("too short", 3, 40)
