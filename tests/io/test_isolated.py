"""Parquet and AnnData files, whose libraries run in a process of their own and may crash there."""

import importlib.util
import re
import sys
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp

from isoweave.io import InputFileError, _read, read_annotations, read_embedding, read_input, write_embedding
from makers import parquet

h5py = pytest.importorskip("h5py")
quick = pytest.mark.usefixtures("in_process")
ROOT = Path(__file__).parents[2]
CORPUS = ROOT / "tests" / "fuzz" / "corpus" / "h5ad"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
SMALL = parquet({"a": [1.0, 2.0]})


def test_extras_that_errors_name(put, tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for suffix, package, extra in (("h5ad", "h5py", "anndata"), ("parquet", "pyarrow", "parquet")):
        with pytest.raises(ImportError, match=rf"isoweave\[{extra}\]"):
            read_input(put(f"x.{suffix}", b"anything"))
        assert any(line.startswith(package) for line in EXTRAS[extra])
    with pytest.raises(ImportError, match=r"isoweave\[parquet\]"):
        write_embedding(tmp_path / "y.parquet", np.zeros((2, 2)))
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py")]
    named = {extra for text in texts for extra in re.findall(r"isoweave\[([\w-]+)\]", text)}
    assert {"anndata", "parquet", "plot"} <= named <= set(EXTRAS)


WAYS = [{}, {"use_dictionary": False}, {"row_group_size": 7}, {"data_page_size": 64}, {"compression": "zstd"}]
WAYS += [{"data_page_version": "2.0"}, {"store_schema": False}, {"version": "1.0"}, {"compression": "none"}]


@quick
def test_names_types_and_every_way_to_write(put, tmp_path):
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]}, index=["p", "q"])
    for other in (frame, frame.reset_index(), frame.reset_index(drop=True)):
        loaded = read_input(put("x.parquet", other.to_parquet))
        assert loaded.names == (None if len(other.columns) == 2 and other is not frame else ("p", "q"))
        np.testing.assert_array_equal(loaded.features, [[1, 3], [2, 4]])
    table = {"id": pa.array(["p", "q"]).dictionary_encode(), "b": [True, False]}
    table |= {"u": pa.array([2**64 - 1, 0], pa.uint64()), "h": pa.array(np.array([0.5, 2], np.float16))}
    loaded = read_input(put("x.parquet", parquet(table)))
    assert loaded.names == ("p", "q")
    np.testing.assert_array_equal(loaded.features, [[1, 2.0**64, 0.5], [0, 0, 2]])
    x, names = np.arange(100) % 7 / 3, [f"n{k % 5}" for k in range(100)]
    # Data sets in several files keep values in the names of folders; a single file has none there.
    (tmp_path / "year=2020").mkdir()
    for options in WAYS:
        loaded = read_input(put("year=2020/x.parquet", parquet({"id": names, "x": x}, **options)))
        assert loaded.names == tuple(names)
        np.testing.assert_array_equal(loaded.features, x[:, None])


@pytest.mark.skipif(sys.platform != "linux", reason="limits of Linux")
def test_one_long_word_in_every_row(put):
    """Gigabytes of text in some kilobytes of file: the word is stored once, and repeated for nothing."""
    words = pa.DictionaryArray.from_arrays(np.zeros(30_000, np.int32), ["x" * 100_000])
    data = parquet({"id": words, "x": np.zeros(30_000)}, store_schema=False)
    assert len(data) < 100_000
    with pytest.raises(InputFileError, match="of .*00 characters is too long|far more memory|failed"):
        read_input(put("x.parquet", data))


@quick
def test_limit_is_that_of_all_readers(put, monkeypatch):
    path = put("x.parquet", parquet({"a": np.zeros(100_000)}, use_dictionary=False, compression="zstd"))
    assert read_input(path).n_rows == 100_000
    monkeypatch.setattr("isoweave.io._source.FREE_BYTES", 1000)
    with pytest.raises(InputFileError, match="100000 rows of 1 columns would take far more memory"):
        read_input(path)


FAILURES = ["import os; os.abort()", "print('PK')", "import time; time.sleep(60)", "print('refused: \\x1b')"]


@pytest.mark.parametrize("code", FAILURES)
def test_a_worker_that_fails(put, monkeypatch, code):
    """Files that crash pyarrow are in tests/fuzz/regressions."""
    monkeypatch.setattr(_read, "_WORKER", put("worker.py", code))
    monkeypatch.setattr(_read, "_WAIT_FACTOR", 0.25)
    with pytest.raises(InputFileError, match=r"the file is damaged \(.*failed|parquet: \?$"):
        read_input(put("x.parquet", SMALL))


LOADS = ["while True: pass", "x = bytearray(1 << 33)", "output.write(bytes(1 << 28))"]


@pytest.mark.skipif(sys.platform != "linux", reason="limits of Linux")
@pytest.mark.parametrize("code", LOADS)
def test_limits_of_the_worker(put, monkeypatch, code):
    text = _read._WORKER.read_text().replace("    produce(", f"    {code}\n    produce(", 1)
    assert code in text
    monkeypatch.setattr(_read, "_WORKER", put("worker.py", text))
    monkeypatch.setattr(_read, "_CPU_SECONDS", 1)
    monkeypatch.setattr(_read, "_WAIT_FACTOR", 600)  # only the limits can end it
    with pytest.raises(InputFileError, match="failed"):
        read_input(put("x.parquet", SMALL))


def test_modules_of_the_current_folder_are_not_imported(put, tmp_path, monkeypatch):
    for name in ("pyarrow.py", "numpy.py", "io.py"):
        put(name, "import os; os._exit(9)")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    assert read_input(put("x.parquet", SMALL)).n_rows == 2


def built(build):
    def write(path):
        with h5py.File(path, "w") as file:
            build(file)

    return write


@quick
def test_graphs_sparse_and_dense_matrices_and_names(put):
    """The corpus was written by anndata itself."""
    assert read_input(CORPUS / "full.h5ad").features.shape == (5, 3)
    graph = read_input(CORPUS / "full.h5ad", as_graph=True)
    np.testing.assert_array_equal(graph.graph.toarray()[0], [0, 1, 0, 0, 3])
    assert graph.names == tuple(f"cell{k}" for k in range(5))
    expected = np.maximum(np.random.default_rng(3).normal(size=(5, 3)), 0)
    for name in ("sparse", "columns"):
        np.testing.assert_array_equal(read_input(CORPUS / f"{name}.h5ad").features, expected)
        np.testing.assert_array_equal(read_embedding(CORPUS / f"{name}.h5ad").coordinates, expected)
    array = np.arange(51, dtype=">i2").reshape(17, 3)
    for chunks in (None, (1, 2), (16, 3)):
        write = built(lambda file, chunks=chunks: file.create_dataset("X", data=array, chunks=chunks))
        loaded = read_input(put("x.h5ad", write))
        np.testing.assert_array_equal(loaded.features, array)
        assert loaded.names is None
    # A slash in the name of the index makes groups of HDF5, and so do pandas' nullable strings.
    names = ["é", "x" * 1_000_000, ""]
    for key in ("names", "a/b/c", "nullable"):
        assert read_input(put("x.h5ad", built(named(names, key=key)))).names == tuple(names)


def virtual(file):
    layout = h5py.VirtualLayout(shape=(3, 2), dtype="f8")
    layout[:] = h5py.VirtualSource("/etc/passwd", "x", shape=(3, 2))
    file.create_virtual_dataset("X", layout)


def changed(**arrays):
    """A sparse matrix of distances with some parts and attributes replaced."""

    def build(file):
        matrix = sp.csr_array(np.array([[0, 1.5, 0], [1.5, 0, 2], [0, 2, 0]]))
        parts = {key: getattr(matrix, key) for key in ("data", "indices", "indptr")}
        attributes = {"encoding-type": "csr_matrix", "shape": np.array([3, 3])}
        group = file.create_group("obsp/distances")
        for key, value in (parts | attributes | arrays).items():
            (group if key in parts else group.attrs)[key] = value

    return build


def named(names, kind=None, key="names", n=3):
    def build(file):
        file["X"] = np.ones((n, 2))
        obs = file.create_group("obs")
        obs.attrs["_index"] = key
        place = "names" if not isinstance(key, str) else key.replace("nullable", "nullable/values")
        obs.create_dataset(place, data=names, dtype=kind or h5py.string_dtype())

    return build


def whole(name, value):
    return lambda file: file.__setitem__(name, value)


def empty(shape, **options):
    """HDF5 files declare any shape and chunk without storing a byte of them."""
    return lambda file: file.create_dataset("X", shape, "f8", **options)


FEATURES = [
    (lambda file: None, 'there is neither obsm."X_pca". nor X'),
    (whole("X", h5py.SoftLink("/elsewhere")), "is a link to another location or file"),
    (empty((3, 2), external=[("/etc/passwd", 0, 48)]), "is stored in other files"),
    (virtual, "is stored in other files"),
    (whole("X", np.ones(3)), r"expected a 2-D array .* shape \(3,\)|found 'X' \(3,\)"),
    (whole("X", np.ones((2, 2, 2))), "expected a 2-D array"),
    (whole("X", np.array([b"a"])), "only arrays of numbers are read"),
    (whole("X", np.void(b"cos\nsystem\n(S'true'\ntR.")), "only arrays of numbers are read"),
    (whole("X", np.array([[np.nan, 1]])), "nan at row 0, column 0"),
    (whole("obsm/X_pca/a", np.ones(3)), "obsm/X_pca is stored as ''"),
    (named(["a", "b"]), "expected 3 names"),
    (named([1, 2, 3], "i4"), "the index of obs holds .*; only text in one dimension is read"),
    (named([b"\xff", b"a", b"b"]), "damaged|not UTF-8"),
    (named([["a", "b", "c"]]), "the index of obs holds .*; only text in one dimension is read"),
    (named(["a", "b", "c"], key=7), "the index of obs has no usable name"),
    (named(["x" * 1_000_000] + ["y"] * 2999, n=3000), "of 1000000 characters is too long"),
    (empty((10**6, 10**6)), "would take far more memory"),
    (empty((100, 10**6), chunks=(100, 10**6)), "would take far more memory"),
]
GRAPHS = [
    (lambda file: None, 'there is no obsp."distances".; make it with scanpy'),
    (whole("obsp/distances", h5py.ExternalLink("/etc/passwd", "/")), "is a link to another location or file"),
    (whole("obsp/distances", np.ones((3, 3))), "is dense; distances must be a sparse matrix"),
    (changed(indices=np.array([0, 9, 1, 2])), "'indices' holds 9"),
    (changed(indptr=np.array([0, 2**63 - 1, -2, 4])), "'indptr' must rise"),
    (changed(data=np.array([1, -1, 1, 1.0])), "distance -1.0 between"),
    (changed(shape=np.array([3.0, 3.0])), "only arrays and whole csr or csc matrices"),
    (changed(shape="3 x 3"), "only arrays and whole csr or csc matrices"),
    (changed(**{"encoding-type": "coo_matrix"}), "is stored as 'coo'"),
    (changed(**{"encoding-type": 7}), "is stored as '7'"),
]


@quick
def test_what_is_refused(put):
    for as_graph, cases in enumerate((FEATURES, GRAPHS)):
        for build, message in cases:
            with pytest.raises(InputFileError, match=message) as caught:
                read_input(put("x.h5ad", built(build)), as_graph=bool(as_graph))
            assert caught.value.reason.isprintable()
    data = (CORPUS / "full.h5ad").read_bytes()
    cuts = [data[:k] for k in (0, 7, 100, 2048, len(data) // 2, -1)]
    for cut in (*cuts, b"\x89HDF\r\n\x1a\n" + bytes(100), b"not HDF5 at all"):
        with pytest.raises(InputFileError, match="not a .h5ad file, or a damaged one"):
            read_input(put("x.h5ad", cut))


CODES = np.array([1, 0, -1, 1], dtype=np.int8)
COUNTS = np.array([[0.0, 2.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 3.0], [4.0, 5.0, 0.0]])


def annotated(layout="dense", change=None):
    """Four cells and three genes, in the layout of anndata 0.10."""

    def build(file):
        obs, var = file.create_group("obs"), file.create_group("var")
        for group, names in ((obs, ["a", "b", "c", "d"]), (var, ["CD3D", "NKG7", "LYZ"])):
            group.attrs["_index"] = "_index"
            group["_index"] = np.array(names, dtype=h5py.string_dtype())
        obs.attrs["column-order"] = ["type", "n", "word", "good", "odd"]
        kind = obs.create_group("type")
        kind["codes"] = CODES
        kind["categories"] = np.array(["B", "T <b>"], dtype=h5py.string_dtype())
        obs["n"] = np.array([3, 1, 4, 1])
        obs["word"] = np.array(["x", "y", "", "z"], dtype=h5py.string_dtype())
        obs["good"] = np.array([True, False, True, True])
        obs["odd"] = np.zeros((4, 2))  # no column of one number each
        if layout == "dense":
            file["X"] = COUNTS
        else:
            matrix = sp.csr_array(COUNTS).asformat(layout)
            x = file.create_group("X")
            x.attrs["encoding-type"], x.attrs["shape"] = f"{layout}_matrix", [4, 3]
            for part in ("data", "indices", "indptr"):
                x[part] = getattr(matrix, part)
        if change is not None:
            change(file)

    return built(build)


@pytest.mark.parametrize("layout", ["dense", "csr", "csc"])
@quick
def test_columns_and_genes(put, layout):
    columns, names = read_annotations(put("c.h5ad", annotated(layout)), ["LYZ", "NKG7"])
    assert names == ("a", "b", "c", "d")
    expected = {"type": ["T <b>", "B", None, "T <b>"], "n": [3, 1, 4, 1], "word": ["x", "y", "", "z"]}
    expected |= {"good": [True, False, True, True], "LYZ": [0, 0, 3, 0], "NKG7": [2, 0, 0, 5]}
    assert [(name, values.tolist()) for name, values in columns.items()] == list(expected.items())


def test_annotations_in_a_process_of_their_own(put):
    path = put("c.h5ad", annotated())
    assert list(read_annotations(path)[0]) == ["type", "n", "word", "good"]
    assert read_input(path).names == ("a", "b", "c", "d")


def replaced(place, values):
    def change(file):
        del file[place]
        file[place] = values

    return change


DAMAGED = [
    (replaced("obs/type/codes", np.array([0, 7, 0, 0])), "codes beyond its 2 categories"),
    (replaced("obs/n", np.arange(3)), "different lengths"),
    (replaced("X/indptr", np.array([0, 9, 2, 3, 5])), "do not fit together"),
    (replaced("X/indices", np.array([0, 1])), "do not fit together"),
    (replaced("X/indices", np.array([1, 0, 2, 0, 10**6])), "do not fit together"),
    (lambda file: file.__delitem__("obs"), "there is no obs"),
    (lambda file: file.__delitem__("var"), "var has no names of genes"),
    (replaced("var/_index", ["CD8A", "NKG7", "LYZ"]), "no gene 'CD3D' among the 3 of var"),
]


@quick
@pytest.mark.parametrize(("change", "match"), DAMAGED)
def test_damaged_annotations(put, change, match):
    with pytest.raises(InputFileError, match=match):
        read_annotations(put("c.h5ad", annotated("csr", change)), ["CD3D"])
