"""Parquet and AnnData files, whose libraries run in a process of their own and may crash there."""

from __future__ import annotations

import importlib.util
import io
import re
import sys
import time
import tomllib
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from isoweave.io import InputFileError, _read, read_embedding, read_input, write_embedding
from makers import element, page_header, parquet, with_schema

h5py = pytest.importorskip("h5py")
quick = pytest.mark.usefixtures("in_process")
ROOT = Path(__file__).parents[2]
CORPUS = ROOT / "tests" / "fuzz" / "corpus" / "h5ad"
REGRESSIONS = ROOT / "tests" / "fuzz" / "regressions"
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


@quick
def test_names_in_index_or_first_column(put):
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]}, index=["p", "q"])
    for other in (frame, frame.reset_index(), frame.reset_index(drop=True)):
        loaded = read_input(put("x.parquet", other.to_parquet))
        assert loaded.names == (None if len(other.columns) == 2 and other is not frame else ("p", "q"))
        np.testing.assert_array_equal(loaded.features, [[1, 3], [2, 4]])


@quick
@pytest.mark.parametrize("names", [None, ("a", "b", "c")])
def test_edges(put, names):
    ids = names or (0, 1, 2)
    frame = pd.DataFrame({"i": [ids[0], ids[1]], "j": [ids[1], ids[2]], "distance": [1.5, 0.0]})
    loaded = read_input(put("g.parquet", frame.to_parquet), as_graph=True)
    assert loaded.names == names
    assert loaded.graph.nnz == 4
    np.testing.assert_array_equal(loaded.graph.toarray(), [[0, 1.5, 0], [1.5, 0, 0], [0, 0, 0]])


@quick
def test_types_of_columns(put):
    table = {
        "id": pa.array(["p", "q"]).dictionary_encode(),
        "b": [True, False],
        "u": pa.array([2**64 - 1, 0], pa.uint64()),
        "h": pa.array(np.array([0.5, 2], np.float16)),
    }
    loaded = read_input(put("x.parquet", parquet(table)))
    assert loaded.names == ("p", "q")
    np.testing.assert_array_equal(loaded.features, [[1, 2.0**64, 0.5], [0, 0, 2]])


WAYS = [{}, {"use_dictionary": False}, {"row_group_size": 7}, {"data_page_size": 64}, {"compression": "zstd"}]
WAYS += [{"data_page_version": "2.0"}, {"store_schema": False}, {"version": "1.0"}, {"compression": "none"}]


@quick
@pytest.mark.parametrize("options", WAYS)
def test_every_way_to_write(tmp_path, put, options):
    x = np.arange(100) % 7 / 3
    names = [f"n{k % 5}" for k in range(100)]
    # Data sets in several files keep values in the names of folders; a single file has none there.
    (tmp_path / "year=2020").mkdir()
    loaded = read_input(put("year=2020/x.parquet", parquet({"id": names, "x": x}, **options)))
    assert loaded.names == tuple(names)
    np.testing.assert_array_equal(loaded.features, x[:, None])


@pytest.mark.skipif(sys.platform != "linux", reason="limits of Linux")
@pytest.mark.parametrize("encoding", ["DELTA_BYTE_ARRAY", "RLE_DICTIONARY"])
def test_one_long_word_in_every_row(put, encoding):
    """Gigabytes of text in some kilobytes of file: the word is stored once, and repeated for nothing."""
    n = 250_000 if encoding == "RLE_DICTIONARY" else 20_000
    words = pa.DictionaryArray.from_arrays(np.zeros(n, np.int32), ["x" * 100_000])
    options = {"store_schema": False}
    if encoding == "DELTA_BYTE_ARRAY":
        words = ["x" * 9000] * n
        options = {"use_dictionary": False, "column_encoding": {"id": encoding}}
    data = parquet({"id": words, "x": np.zeros(n)}, **options)
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


def lying_page():
    """The footer says some bytes, the page says 2 GiB, and pyarrow believes the page."""
    data = bytearray(parquet({"a": np.arange(500.0)}, use_dictionary=False, compression="zstd"))
    start = pq.ParquetFile(io.BytesIO(data)).metadata.row_group(0).column(0).data_page_offset
    header = page_header(2**31 - 1, 40)
    data[start : start + len(header)] = header
    return bytes(data)


# Deep nests ended older versions of pyarrow by stack overflow.
NESTED = with_schema(element(b"r", 1), *[element(b"g", 1)] * 20_000, element(b"x", None, 5))


def test_files_that_may_crash_pyarrow(put):
    for data in (NESTED, lying_page()):
        with pytest.raises(InputFileError, match="damaged|column 'g' has type struct"):
            read_input(put("x.parquet", data))
    # pyarrow 26 ends the process in the metadata of this file, 15 reads it; the reader must survive both.
    is_old = int(pa.__version__.split(".")[0]) < 26
    with suppress(InputFileError) if is_old else pytest.raises(InputFileError):
        read_input(REGRESSIONS / "parquet" / "aborts_in_metadata.parquet")


@pytest.mark.parametrize(
    "code", ["import os; os.abort()", "print('PK')", "import time; time.sleep(60)", "print('refused: \\x1b')"]
)
def test_a_worker_that_fails(put, monkeypatch, code):
    monkeypatch.setattr(_read, "_WORKER", put("worker.py", code))
    monkeypatch.setattr(_read, "_WAIT_FACTOR", 0.5)
    with pytest.raises(InputFileError, match=r"the file is damaged \(.*failed|parquet: \?$"):
        read_input(put("x.parquet", SMALL))


@pytest.mark.skipif(sys.platform != "linux", reason="limits of Linux")
@pytest.mark.parametrize(
    "code", ["while True: pass", "x = bytearray(1 << 33)", "output.write(bytes(1 << 28))"]
)
def test_limits_of_the_worker(put, monkeypatch, code):
    text = _read._WORKER.read_text().replace("    produce(", f"    {code}\n    produce(", 1)
    assert code in text
    monkeypatch.setattr(_read, "_WORKER", put("worker.py", text))
    monkeypatch.setattr(_read, "_CPU_SECONDS", 1)
    monkeypatch.setattr(_read, "_WAIT_FACTOR", 60)  # only the limits can end it
    started = time.monotonic()
    with pytest.raises(InputFileError, match="failed"):
        read_input(put("x.parquet", SMALL))
    assert time.monotonic() - started < 55


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


def put_sparse(group, name, matrix):
    made = group.create_group(name)
    made.attrs["encoding-type"], made.attrs["shape"] = f"{matrix.format}_matrix", np.array(matrix.shape)
    for key in ("data", "indices", "indptr"):
        made[key] = getattr(matrix, key)
    return made


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
    np.testing.assert_array_equal(read_embedding(CORPUS / f"{name}.h5ad").coordinates, expected)


@quick
@pytest.mark.parametrize("chunks", [None, (1, 2), (5, 1), (16, 3)])
def test_x_without_a_pca(put, chunks):
    array = np.arange(51, dtype=">i2").reshape(17, 3)
    path = put("x.h5ad", built(lambda file: file.create_dataset("X", data=array, chunks=chunks)))
    np.testing.assert_array_equal(read_input(path).features, array)
    assert read_input(path).names is None


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
        matrix = sp.csr_array(np.array([[0, 1.5, 0], [1.5, 0, 2], [0, 2, 0]]))
        group = put_sparse(file.create_group("obsp"), "distances", matrix)
        for key, value in arrays.items():
            if key in group:
                del group[key]
                group[key] = value
            else:
                group.attrs[key] = value

    return build


def named(names, kind=None, key="names", n=3):
    def build(file):
        file["X"] = np.ones((n, 2))
        obs = file.create_group("obs")
        obs.attrs["_index"] = key
        obs.create_dataset(
            key if isinstance(key, str) else "names", data=names, dtype=kind or h5py.string_dtype()
        )

    return build


def whole(name, value):
    return lambda file: file.__setitem__(name, value)


def empty(shape, chunks):
    """HDF5 files declare any shape and chunk without storing a byte of them."""
    return lambda file: file.create_dataset("X", shape, "f8", chunks=chunks)


@quick
@pytest.mark.parametrize(
    ("build", "as_graph", "message"),
    [
        (lambda file: None, False, 'there is neither obsm."X_pca". nor X'),
        (lambda file: None, True, 'there is no obsp."distances".; make it with scanpy'),
        (external, True, "is a link to another location or file"),
        (soft, False, "is a link to another location or file"),
        (stored_outside, False, "is stored in other files"),
        (virtual, False, "is stored in other files"),
        (whole("X", np.ones(3)), False, r"expected a 2-D array .* shape \(3,\)|found 'X' \(3,\)"),
        (whole("X", np.ones((2, 2, 2))), False, "expected a 2-D array"),
        (whole("X", np.array([b"a"])), False, "only arrays of numbers are read"),
        (whole("X", np.void(b"cos\nsystem\n(S'true'\ntR.")), False, "only arrays of numbers are read"),
        (whole("X", np.array([[np.nan, 1]])), False, "nan at row 0, column 0"),
        (whole("obsp/distances", np.ones((3, 3))), True, "is dense; distances must be a sparse matrix"),
        (whole("obsm/X_pca/a", np.ones(3)), False, "obsm/X_pca is stored as ''"),
        (changed(indices=np.array([0, 9, 1, 2])), True, "'indices' holds 9"),
        (changed(indptr=np.array([0, 2**63 - 1, -2, 4])), True, "'indptr' must rise"),
        (changed(data=np.array([1, -1, 1, 1.0])), True, "distance -1.0 between"),
        (changed(shape=np.array([3.0, 3.0])), True, "only arrays and whole csr or csc matrices"),
        (changed(shape="3 x 3"), True, "only arrays and whole csr or csc matrices"),
        (changed(**{"encoding-type": "coo_matrix"}), True, "is stored as 'coo'"),
        (changed(**{"encoding-type": 7}), True, "is stored as '7'"),
        (named(["a", "b"]), False, "expected 3 names"),
        (named([1, 2, 3], "i4"), False, "the index of obs holds .*; only text in one dimension is read"),
        (named([b"\xff", b"a", b"b"]), False, "damaged|not UTF-8"),
        (named([["a", "b", "c"]]), False, "the index of obs holds .*; only text in one dimension is read"),
        (named(["a", "b", "c"], key=7), False, "the index of obs has no usable name"),
        (named(["x" * 1_000_000] + ["y"] * 2999, n=3000), False, "of 1000000 characters is too long"),
        (empty((10**6, 10**6), None), False, "would take far more memory"),
        (empty((100, 10**6), (100, 10**6)), False, "would take far more memory"),
    ],
)
def test_what_is_refused(put, build, as_graph, message):
    with pytest.raises(InputFileError, match=message) as caught:
        read_input(put("x.h5ad", built(build)), as_graph=as_graph)
    assert caught.value.reason.isprintable()


@quick
@pytest.mark.parametrize("key", ["names", "cell/name", "a/b/c", "nullable"])
def test_names_of_observations(put, key):
    """A slash in the name of the index makes groups of HDF5."""
    names = ["é", "x" * 1_000_000, ""]
    # pandas 3 has nullable strings, of which anndata makes a group with the values in it.
    path = put("x.h5ad", built(named(names, key=key.replace("nullable", "nullable/values"))))
    with h5py.File(path, "a") as file:
        file["obs"].attrs["_index"] = key
    assert read_input(path).names == tuple(names)


def test_what_is_no_hdf5(put):
    with pytest.raises(InputFileError, match="not a .h5ad file, or a damaged one"):
        read_input(put("x.h5ad", b"not HDF5 at all"))


@quick
def test_cut_files(put):
    data = (CORPUS / "full.h5ad").read_bytes()
    for cut in (
        b"",
        b"\x89HDF\r\n\x1a\n" + bytes(100),
        *(data[:k] for k in (7, 100, 2048, len(data) // 2, -1)),
    ):
        with pytest.raises(InputFileError, match="not a .h5ad file, or a damaged one"):
            read_input(put("x.h5ad", cut))
