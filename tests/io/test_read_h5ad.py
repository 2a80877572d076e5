"""Annotated data: .h5ad files as anndata writes them, and damaged ones."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from isoweave.io import InputFileError, _worker, read_coordinates, read_input

h5py = pytest.importorskip("h5py")
quick = pytest.mark.usefixtures("in_process")
CORPUS = Path(__file__).parents[1] / "fuzz" / "corpus" / "h5ad"


def write(path, build):
    with h5py.File(path, "w") as file:
        build(file)
    return path


def put_sparse(group, name, matrix, **attributes):
    made = group.create_group(name)
    made.attrs["encoding-type"] = f"{matrix.format}_matrix"
    made.attrs["shape"] = np.array(matrix.shape)
    for key, value in attributes.items():
        made.attrs[key] = value
    for key in ("data", "indices", "indptr"):
        made[key] = getattr(matrix, key)
    return made


def put_names(file, names):
    obs = file.create_group("obs")
    obs.attrs["_index"] = "_index"
    obs["_index"] = np.array(names, dtype=h5py.string_dtype())


MATRIX = sp.csr_array(np.array([[0, 1.5, 0], [1.5, 0, 2], [0, 2, 0]]))


def test_files_of_anndata():
    """The corpus was written by anndata itself."""
    features = read_input(CORPUS / "full.h5ad")
    assert features.features.shape == (5, 3)
    assert features.names == tuple(f"cell{k}" for k in range(5))
    graph = read_input(CORPUS / "full.h5ad", as_graph=True)
    np.testing.assert_array_equal(graph.graph.toarray()[0], [0, 1, 0, 0, 3])
    assert graph.names == features.names


@quick
@pytest.mark.parametrize("name", ["sparse", "columns"])
def test_sparse_files_of_anndata(name):
    expected = np.maximum(np.random.default_rng(3).normal(size=(5, 3)), 0)
    np.testing.assert_array_equal(read_input(CORPUS / f"{name}.h5ad").features, expected)
    np.testing.assert_array_equal(read_coordinates(CORPUS / f"{name}.h5ad").points, expected)


@quick
def test_agrees_with_anndata(tmp_path):
    anndata = pytest.importorskip("anndata")
    rng = np.random.default_rng(13)
    data = anndata.AnnData(
        rng.random((7, 4)),
        obsm={"X_pca": rng.random((7, 2))},
        obsp={"distances": sp.csr_matrix(rng.random((7, 7)))},
    )
    data.obs_names = [f"ä{k}" for k in range(7)]
    data.write_h5ad(tmp_path / "x.h5ad", compression="gzip")
    back = anndata.read_h5ad(tmp_path / "x.h5ad")
    loaded = read_input(tmp_path / "x.h5ad")
    np.testing.assert_array_equal(loaded.features, back.obsm["X_pca"])
    assert loaded.names == tuple(back.obs_names)
    graph = read_input(tmp_path / "x.h5ad", as_graph=True).graph
    np.testing.assert_array_equal(graph.toarray(), back.obsp["distances"].toarray())


@quick
def test_x_without_a_pca(tmp_path):
    def build(file):
        file["X"] = np.arange(12, dtype=">i2").reshape(4, 3)

    loaded = read_input(write(tmp_path / "x.h5ad", build))
    np.testing.assert_array_equal(loaded.features, np.arange(12).reshape(4, 3))
    assert loaded.names is None


@quick
@pytest.mark.parametrize("piece", [1 << 23, 64])
@pytest.mark.parametrize("chunks", [None, (1, 2), (5, 1), (16, 3)])
def test_pieces_make_no_difference(tmp_path, monkeypatch, piece, chunks):
    array = np.random.default_rng(3).normal(size=(17, 3))
    path = write(tmp_path / "x.h5ad", lambda file: file.create_dataset("X", data=array, chunks=chunks))
    monkeypatch.setattr(_worker, "_PIECE_BYTES", piece)
    np.testing.assert_array_equal(read_input(path).features, array)


@quick
def test_old_sparse_groups(tmp_path):
    def build(file):
        group = put_sparse(file, "X", sp.csr_array(np.eye(3)[:, :2]))
        del group.attrs["encoding-type"], group.attrs["shape"]
        group.attrs["h5sparse_format"], group.attrs["h5sparse_shape"] = "csr", np.array([3, 2])

    np.testing.assert_array_equal(read_input(write(tmp_path / "x.h5ad", build)).features, np.eye(3)[:, :2])


def external(file):
    file.create_group("obsp")["distances"] = h5py.ExternalLink("/etc/passwd", "/")


def soft(file):
    file["elsewhere"] = np.ones((3, 2))
    file["X"] = h5py.SoftLink("/elsewhere")


def stored_outside(file):
    file.create_dataset("X", (3, 2), "f8", external=[("/etc/passwd", 0, 48)])


def virtual(file):
    layout = h5py.VirtualLayout(shape=(3, 2), dtype="f8")
    layout[:] = h5py.VirtualSource("/etc/passwd", "x", shape=(3, 2))
    file.create_virtual_dataset("X", layout)


def changed(**arrays):
    def build(file):
        group = put_sparse(file.create_group("obsp"), "distances", MATRIX)
        for key, value in arrays.items():
            if key in group:
                del group[key]
                group[key] = value
            else:
                group.attrs[key] = value

    return build


def named(names, kind=None):
    def build(file):
        file["X"] = np.ones((3, 2))
        obs = file.create_group("obs")
        obs.attrs["_index"] = "names"
        obs.create_dataset("names", data=names, dtype=kind or h5py.string_dtype())

    return build


def whole(name, value):
    return lambda file: file.__setitem__(name, value)


@quick
@pytest.mark.parametrize(
    ("build", "as_graph", "message"),
    [
        (lambda file: None, False, 'there is neither obsm."X_pca". nor X'),
        (lambda file: None, True, 'there is no obsp."distances".; make it with scanpy'),
        (external, True, "is a link to another place or file"),
        (soft, False, "is a link to another place or file"),
        (stored_outside, False, "is stored in other files"),
        (virtual, False, "is stored in other files"),
        (whole("X", np.ones(3)), False, r"expected a 2-D array .* got shape \(3,\)"),
        (whole("X", np.ones((2, 2, 2))), False, "only numbers are read"),
        (whole("X", 3.0), False, "only numbers are read"),
        (whole("X", np.array([b"a"])), False, "only numbers are read"),
        (whole("X", np.array([1j])), False, "only numbers are read"),
        (whole("X", np.zeros(2, dtype=[("a", "i4")])), False, "only numbers are read"),
        (whole("X", np.array([[np.nan, 1]])), False, "nan at row 0, column 0"),
        (whole("obsp/distances", np.ones((3, 3))), True, "is dense; distances must be a sparse matrix"),
        (whole("obsm/X_pca/a", np.ones(3)), False, "obsm/X_pca is stored as ''"),
        (whole("obsm", np.ones(3)), False, 'there is neither obsm."X_pca". nor X'),
        (changed(indices=np.array([0, 9, 1, 2])), True, "'indices' holds 9"),
        (changed(indptr=np.array([0, 2**63 - 1, -2, 4])), True, "'indptr' must rise"),
        (changed(indptr=np.array([[0, 1, 3, 4]])), True, "must be 1-D integers"),
        (changed(data=np.array([1, -1, 1, 1.0])), True, "distance -1.0 between"),
        (changed(shape=np.array([2**62, 2**62])), True, "is refused"),
        (changed(shape=np.array([3.0, 3.0])), True, "does not say its shape"),
        (changed(shape="3 x 3"), True, "does not say its shape"),
        (changed(**{"encoding-type": "coo_matrix"}), True, "is stored as 'coo'"),
        (changed(**{"encoding-type": 7}), True, "is stored as '7'"),
        (named(["a", "b"]), False, "2 names of observations for 3 rows"),
        (named([1, 2, 3], "i4"), False, "the names of the observations are not text"),
        (named([b"\xff", b"a", b"b"]), False, "damaged|not UTF-8"),
        (named([["a", "b", "c"]]), False, "the names of the observations are not text"),
    ],
)
def test_what_is_refused(tmp_path, build, as_graph, message):
    with pytest.raises(InputFileError, match=message) as caught:
        read_input(write(tmp_path / "x.h5ad", build), as_graph=as_graph)
    assert caught.value.reason.isprintable()


@quick
def test_declared_sizes(tmp_path):
    """HDF5 files declare any shape and chunk without storing a byte of them."""
    for shape, chunks in (((10**6, 10**6), None), ((10**9, 10**9), (1, 1)), ((100, 10**6), (100, 10**6))):
        path = write(tmp_path / "x.h5ad", lambda file: file.create_dataset("X", shape, "f8", chunks=chunks))  # noqa: B023
        with pytest.raises(InputFileError, match="would take far more memory"):
            read_input(path)


@quick
def test_one_long_name_many_times(tmp_path):
    path = write(tmp_path / "x.h5ad", named(["x" * 1_000_000] * 3))
    assert len(read_input(path).names[0]) == 1_000_000

    def build(file):
        file["X"] = np.ones((3000, 2))
        put_names(file, ["x" * 1_000_000 if k == 7 else "y" for k in range(3000)])

    with pytest.raises(InputFileError, match="of 1000000 characters is refused"):
        read_input(write(tmp_path / "y.h5ad", build))


@quick
def test_objects_are_never_built(tmp_path):
    """HDF5 has no pickles of its own; what other programs store as such is bytes, and not read."""

    def build(file):
        file.create_dataset("X", data=np.void(b"cos\nsystem\n(S'true'\ntR."))

    with pytest.raises(InputFileError, match="only numbers are read"):
        read_input(write(tmp_path / "x.h5ad", build))


@pytest.mark.parametrize("data", [b"", b"not HDF5 at all", b"\x89HDF\r\n\x1a\n" + bytes(100)])
def test_what_is_no_hdf5(tmp_path, data):
    (tmp_path / "x.h5ad").write_bytes(data)
    with pytest.raises(InputFileError, match="not a .h5ad file, or a damaged one"):
        read_input(tmp_path / "x.h5ad")


@quick
def test_cut_files(tmp_path):
    data = (CORPUS / "full.h5ad").read_bytes()
    for size in (7, 100, 2048, len(data) // 2, len(data) - 1):
        (tmp_path / "x.h5ad").write_bytes(data[:size])
        with pytest.raises(InputFileError):
            read_input(tmp_path / "x.h5ad")


def test_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "h5py", None)
    (tmp_path / "x.h5ad").touch()
    with pytest.raises(ImportError, match=r"isoweave\[anndata\]"):
        read_input(tmp_path / "x.h5ad")
