"""What the readers make of sound files, and that the limits are neither too tight nor too wide."""

import contextlib
import io
import pickle
import resource
import tomllib
import tracemalloc
import zlib
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from isoweave.io import InputFileError, _source, _text, read_anchors, read_columns, read_input, read_labels
from makers import deflated, npy, raw_zip, saved

FEATURES = np.random.default_rng(7).normal(size=(6, 3))
BANNER = "%%MatrixMarket matrix coordinate real general\n"


def test_headers_and_types_agree_with_numpy(put):
    rng = np.random.default_rng(23)
    for dtype in ("<f8", ">f8", "<f4", ">f4", "<f2", "<i2", ">u4", "|u1", "|b1", "<U3", "|S4"):
        for shape in ((), (3,), (2, 3), (0, 4), (2, 1, 2)):
            for order in "CF":
                array = np.asarray((rng.random(shape) * 50).astype(dtype), order=order)
                buffer = io.BytesIO()
                np.save(buffer, array)
                path = put("x.npy", buffer.getvalue())
                found = _source.read_npy(path)
                assert (found.dtype, found.shape) == (array.dtype, array.shape)
                np.testing.assert_array_equal(found, array)
                if shape == (2, 3) and array.dtype.kind not in "US":
                    loaded = read_input(path)
                    assert (loaded.kind, loaded.n_rows) == ("features", 2)
                    assert loaded.features.dtype == ("float32" if dtype == "<f4" else "float64")
                    np.testing.assert_array_equal(loaded.features, array)
    other = '{"descr": "<f8", "fortran_order": False, "shape": (2, 2)}'
    for header in (other, "  {'descr':'<f8','fortran_order':False,'shape':(2,2,),}   \n"):
        assert read_input(put("x.npy", npy(header=header))).n_rows == 2


def test_numbers_that_are_hard_to_hold(put):
    path = put("x.npy", npy("|b1", "(2, 2)", b"\x00\x01\x02\xff"))
    np.testing.assert_array_equal(read_input(path).features, [[0, 1], [1, 1]])
    labels = read_labels(put("x.npy", npy("|b1", "(4,)", b"\x00\x01\x02\xff")))
    np.testing.assert_array_equal(labels.view(np.uint8), [0, 1, 1, 1])
    whole = (2**64 - 1).to_bytes(8, "big") + (3).to_bytes(8, "big")
    path = put("x.npy", npy(">u8", "(1, 2)", whole))
    np.testing.assert_array_equal(read_input(path).features, [[2.0**64, 3]])
    if np.finfo(np.longdouble).max > np.finfo(np.float64).max:
        path = put("x.npy", saved(**{"": np.full((2, 2), np.longdouble("1e4000"))}))
        with pytest.raises(InputFileError, match="inf at row 0, column 0"):
            read_input(path)


@pytest.mark.parametrize("key", ["X", "data", "features", "anything"])
def test_npz_features(put, key):
    others = {"labels": np.arange(6), "objects": np.array([[{}]], dtype=object)}
    others |= {} if key == "anything" else {"Z": FEATURES + 1}
    path = put("x.npz", lambda path: np.savez_compressed(path, **{key: FEATURES} | others))
    np.testing.assert_array_equal(read_input(path).features, FEATURES)


@pytest.mark.parametrize("layout", ["csr", "csc", "coo"])
def test_sparse_npz_is_a_graph(put, layout):
    i, j, d = np.array([0, 1, 2, 3, 0]), np.array([1, 2, 3, 4, 4]), np.array([1.0, 0.0, 2.5, 0.5, 3.0])
    both = (np.concatenate((d, d)), (np.concatenate((i, j)), np.concatenate((j, i))))
    uneven = sp.csr_array(np.array([[0, 2.0, 0], [0, 0, 0], [5.0, 0, 0]]))
    for matrix in (sp.csr_array(both, shape=(5, 5)), sp.csr_matrix(both, shape=(5, 5)), uneven):
        path = put("a.npz", lambda path, m=matrix: sp.save_npz(path, m.asformat(layout)))
        loaded = read_input(path)
        assert loaded.kind == "graph"
        assert loaded.graph.nnz == matrix.nnz  # an edge of length zero is still there
        assert loaded.graph.has_sorted_indices
        np.testing.assert_array_equal(loaded.graph.toarray(), matrix.toarray())
        np.testing.assert_array_equal(read_input(path, as_graph=False).features, matrix.toarray())


def test_square_or_not(put, monkeypatch):
    matrix = np.array([[0, -2.0, 0], [1, 0, 0]])
    for name, save in (("a.npz", sp.save_npz), ("a.mtx", scipy.io.mmwrite)):
        path = put(name, lambda path, save=save: save(path, sp.coo_array(matrix)))
        np.testing.assert_array_equal(read_input(path).features, matrix)
        with pytest.raises(InputFileError, match="needs a square matrix, got 2 x 3"):
            read_input(path, as_graph=True)
    dense = np.random.default_rng(9).integers(0, 3, size=(23, 23))
    for path in (put("d.npy", saved(**{"": dense})), put("d.npz", saved(A=dense))):
        graph = read_input(path, as_graph=True).graph
        assert graph.nnz == np.count_nonzero(dense)  # a dense array cannot tell a zero length from no edge
        np.testing.assert_array_equal(graph.toarray(), dense)
        monkeypatch.setattr("isoweave.io._sparse._BLOCK_VALUES", 60)
    # Order of entries.
    rng = np.random.default_rng(17)
    row, col, data = rng.integers(0, 40, 300), rng.integers(0, 40, 300), rng.random(300)
    coo = {"format": np.array(b"coo"), "shape": np.array([40, 40]), "row": row, "col": col, "data": data}
    graph = read_input(put("a.npz", saved(**coo))).graph
    order = np.lexsort((col, row))  # repeated entries stay
    np.testing.assert_array_equal(graph.indices, col[order])
    np.testing.assert_array_equal(graph.data, data[order])


@contextlib.contextmanager
def at_most(n_bytes):
    """Python objects and arrays made in the block."""
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < n_bytes


def test_zip_bomb_is_refused_before_it_is_inflated(put):
    n = 30_000_000
    path = put("x.npz", raw_zip(deflated(npy("|i1", f"({n // 10}, 10)", bytes(n)))))
    size = path.stat().st_size
    assert size < 100_000
    said = f"would take {8 * n} bytes in memory, from a file of {size}"
    with at_most(4 << 20), pytest.raises(InputFileError, match=said):
        read_input(path)
    # Many entries of the directory that point to the same data are counted each.
    member = deflated(npy("|i1", "(600000, 10)", bytes(6_000_000)))
    path = put("x.npz", raw_zip(*[(f"{k}.npy", *member[1:]) for k in range(9)]))
    with pytest.raises(InputFileError, match="the arrays of this archive would take"):
        read_input(path)


def test_limit_grows_with_the_file(put, monkeypatch):
    zeros = np.zeros((100_000, 20), dtype=np.float32)
    path = put("x.npz", lambda path: np.savez_compressed(path, X=zeros))
    assert path.stat().st_size < zeros.nbytes / 500
    assert read_input(path).n_rows == 100_000
    monkeypatch.setattr("isoweave.io._source.FREE_BYTES", 1000)
    ballast = np.random.default_rng(5).normal(size=100)
    array = np.zeros((100, 100))
    path = put("x.npz", lambda path: np.savez_compressed(path, X=array, ballast=ballast))
    assert read_input(path).n_rows == 100
    monkeypatch.setattr("isoweave.io._source.MAX_EXPANSION", 50)
    path = put("y.npz", lambda path: np.savez_compressed(path, X=array))
    with pytest.raises(InputFileError, match="more than 50 times a file's size .* numpy.savez"):
        read_input(path)


def test_a_member_that_is_shorter_than_it_says_fills_nothing(put):
    """The memory of the declared size is set aside, but never touched."""
    n = 1 << 22
    header = npy("<f8", f"({n}, 4)", b"")
    packer = zlib.compressobj(9, wbits=-15)
    packed = packer.compress(header + bytes(1 << 18)) + packer.flush() + bytes(1 << 18)
    path = put("x.npz", raw_zip(("X.npy", b"", packed, 8), size=len(header) + 32 * n))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InputFileError, match="bytes of data are missing|damaged"):
        read_input(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 60 << 10  # of 128 MiB declared


def test_many_empty_rows_are_refused(put):
    """Entries that compress to nothing must not pay for row pointers of gigabytes."""
    zeros = np.zeros(300_000, int)
    arrays = {"format": np.array(b"coo"), "shape": np.array([20_000_000] * 2), "data": np.ones(300_000)}
    path = put("a.npz", lambda path: np.savez_compressed(path, row=zeros, col=zeros, **arrays))
    with pytest.raises(InputFileError, match="a 20000000 x 20000000 matrix would take 320000000 bytes"):
        read_input(path)


def test_error_survives_pickling(tmp_path):
    error = InputFileError(tmp_path / "x.csv", "too short", 3, 40)
    assert str(error).endswith("x.csv, line 3, byte 40: too short")
    copy = pickle.loads(pickle.dumps(error))
    assert str(copy) == str(error)
    assert (copy.reason, copy.line, copy.offset) == ("too short", 3, 40)


SOUND = tomllib.loads(Path(__file__).with_name("sound.toml").read_text(encoding="utf-8"))


def test_tables(put):
    for name, cases in SOUND["tables"].items():
        for text, names in cases:
            loaded = read_input(put(name, text))
            np.testing.assert_array_equal(loaded.features, [[1, 2], [3, 4.5]])
            assert loaded.names == (tuple(names) or None)
    text = "5e-324,1e-400," + "0" * 5000 + "1," + "0." + "3" * 5000 + "\n"
    np.testing.assert_array_equal(read_input(put("x.csv", text)).features, [[5e-324, 0.0, 1.0, 1 / 3]])


EDGES = np.array([[0, 1.5, 0, 0], [1.5, 0, 0, 2.0], [0, 0, 0, 0.25], [0, 2.0, 0.25, 0]])


def test_edge_lists(put):
    long = "0 +1 1.5\n1 " + "0" * 5000 + "3 2\n# in the middle\n\n3 2 0.25\n0 2 0"
    cases = [(name, text) for name, texts in SOUND["edges"].items() for text in texts]
    for name, text in (*cases, ("g.edges", long)):
        loaded = read_input(put(name, text), as_graph=None if name == "g.edges" else True)
        assert (loaded.kind, loaded.names) == ("graph", None)
        assert loaded.graph.nnz == 8  # four edges, the one of length zero included
        np.testing.assert_array_equal(loaded.graph.toarray(), EDGES)
    named = "Bonn Köln 27\nKöln Essen 58\n"
    for text in (named, "a b d\n" + named, named.replace(" ", ",")):
        loaded = read_input(put("g.edges", text))
        assert loaded.names == ("Bonn", "Köln", "Essen")
        np.testing.assert_array_equal(loaded.graph.toarray(), [[0, 27, 0], [27, 0, 58], [0, 58, 0]])


@pytest.mark.parametrize("space", ["\u00a0", "\u2003", "\u2028", "\u0085", "\u3000"])
def test_other_spaces_do_not_separate(put, space):
    """Names with a space need tabs between them; spaces beyond ASCII are letters like any other."""
    assert read_input(put("g.edges", "New York\tBoston\t306\n")).names == ("New York", "Boston")
    with pytest.raises(InputFileError, match="line 2: .* not a number"):
        read_input(put("x.txt", f"1{space}2\n3{space}4\n"))
    loaded = read_input(put("x.edges", f"New{space}York Boston 306\n"))
    assert loaded.names == (f"New{space}York", "Boston")


@pytest.mark.parametrize("symmetry", ["general", "symmetric"])
@pytest.mark.parametrize("field", ["real", "integer"])
def test_matrix_market_agrees_with_scipy(put, symmetry, field):
    rng = np.random.default_rng(11)
    dense = np.where(rng.random((9, 9)) < 0.4, rng.integers(1, 9, size=(9, 9)), 0)
    dense = np.maximum(dense, dense.T) * (0.3 if field == "real" else 1)
    options = {"comment": "scipy's", "field": field, "symmetry": symmetry, "precision": 17}
    path = put("g.mtx", lambda path: scipy.io.mmwrite(path, sp.coo_array(dense), **options))
    for text in (path.read_bytes(), path.read_bytes().replace(b"\n", b"\r\n"), path.read_bytes().rstrip()):
        loaded = read_input(put("g.mtx", text))
        assert loaded.kind == "graph"
        np.testing.assert_array_equal(loaded.graph.toarray(), dense)
    text = BANNER.replace("general", "symmetric") + "% n\xf6te\n\n3 3 2\n2 1 0\n3 1 1.5\n\n"
    assert sorted(read_input(put("g.mtx", text.encode("latin-1"))).graph.data) == [0, 0, 1.5, 1.5]


@pytest.mark.parametrize("name", ["length", "distance", "weight"])
def test_graphml_as_networkx_writes_it(tmp_path, name):
    graph = nx.random_geometric_graph(40, 0.4, seed=3)
    for i, j in graph.edges:
        graph.edges[i, j][name] = float(np.hypot(*np.subtract(*(graph.nodes[v]["pos"] for v in (i, j)))))
        graph.edges[i, j]["kind"] = "road & <rail>"
    nx.set_node_attributes(graph, "", "pos")
    path = tmp_path / "g.graphml"
    nx.write_graphml(graph, path)
    loaded = read_input(path, as_graph=name == "weight" or None)
    assert loaded.names == tuple(map(str, graph.nodes))
    expected = nx.to_scipy_sparse_array(graph, weight=name)
    np.testing.assert_allclose(loaded.graph.toarray(), expected.toarray())


def test_long_lines(put, monkeypatch):
    with pytest.raises(InputFileError, match="cell 1 holds inf"):
        read_input(put("x.csv", b"1" * (4 << 20)))
    monkeypatch.setattr(_text, "_MAX_LINE_BYTES", 1 << 16)
    for data in (b"1," * (1 << 16), b"1,2\n" + b"3," * (1 << 17) + b"4\n" + b"5,6\n" * 9):
        with pytest.raises(InputFileError, match="line longer than 65536 bytes") as caught:
            read_input(put("x.csv", data))
        assert caught.value.line == 1 + data.startswith(b"1,2\n")
    assert read_input(put("x.csv", b"1," * 30_000 + b"1\n")).features.shape == (1, 30_001)


@pytest.mark.parametrize("piece", [b"\n", b"1\n", b'""\n', b",", b"a b 1\n", b"0 1 1\n"])
def test_a_lot_of_anything_is_small(put, piece):
    data = piece * ((1 << 14) // len(piece))
    for name in ("x.csv", "x.txt", "x.edges", "x.mtx"):
        path = put(name, data)
        with at_most(1 << 21), contextlib.suppress(InputFileError):
            read_input(path)
    # Memory follows the result, not the text.
    path = put("x.csv", (b"1." + b"0" * 500 + b"\n") * 10_000)
    with at_most(path.stat().st_size // 4):
        assert read_input(path).n_rows == 10_000


def test_columns_of_numbers_words_and_gaps_and_labels(put):
    values, names = read_columns(put("about.csv", 'age,town,empty\n3,Ulm,\n,"a, b",\n2.5,Ülm,\n'))
    assert names is None
    np.testing.assert_array_equal(values["age"], [3.0, np.nan, 2.5])
    assert values["town"].tolist() == ["Ulm", "a, b", "Ülm"]
    assert values["empty"].tolist() == ["", "", ""]
    for header in ("vertex", "name", "ID", ""):
        values, names = read_columns(put("about.tsv", f"{header}\tage\na\t1\nb\t2\n"))
        assert (names, list(values)) == (("a", "b"), ["age"])
    for text, kind in (("label\n" + "0\n1\n" * 3, "f"), ("red\nblue\n", "U"), ("1,red\n2,7\n" * 3, "U")):
        assert read_labels(put("labels.csv", text)).dtype.kind == kind


@pytest.mark.parametrize("text", ["0,3,4\n2,1,1\n", "vertex,x,y\n0,3,4\n2,1,1\n"])
def test_anchors(put, text):
    anchors, positions = read_anchors(put("a.csv", text), 3)
    assert anchors.tolist() == [0, 2]
    np.testing.assert_array_equal(positions, [[3, 4], [1, 1]])
    with pytest.raises(InputFileError, match="line [12]: expected a vertex's name, found '0'"):
        read_anchors(put("a.csv", text), 3, names=("a", "b", "c"))
