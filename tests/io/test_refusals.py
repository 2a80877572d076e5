"""What every reader says about damaged and malicious files: one table per kind of file."""

import json
import re
import struct
import tomllib
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp

from isoweave.io import InputFileError, read_anchors, read_columns, read_embedding, read_input, read_labels
from makers import deflated, npy, parquet, raw_zip, saved, sparse, stored

BANNER = "%%MatrixMarket matrix coordinate real general\n"
SYMMETRIC = BANNER.replace("general", "symmetric")
LENGTHS = "<graphml><key id='d0' for='edge' attr.name='length'/>"
GOOD = npy()
as_anchors = partial(read_anchors, n_vertices=4)
as_graph, as_features = partial(read_input, as_graph=True), partial(read_input, as_graph=False)

# What the error says, and files it says that of; those of plain text are in refused.toml.
READERS = {"read_input": read_input, "read_columns": read_columns, "read_labels": read_labels}
READERS |= {"as_anchors": as_anchors, "as_graph": as_graph}
TEXTS = Path(__file__).with_name("refused.toml").read_text(encoding="utf-8")
for word, line in (("GENERAL", BANNER), ("SYMMETRIC", SYMMETRIC), ("LENGTHS", LENGTHS)):
    TEXTS = TEXTS.replace(word, line.rstrip())
TEXTS = tomllib.loads(TEXTS)
WRITTEN_TEXTS = TEXTS.pop("written").items()
TABLES = {
    "the file holds no rows": [b"\xef\xbb\xbf"],
    "line 2: badly quoted cell .field larger": ['a,b\n"' + "1" * 200_000 + '",2\n'],
    r"line 2: not UTF-8 text \(byte 2 of the line\)": [b"1,2\n3,\xff\n"],
    "line 1: not UTF-8 text .byte 0|NUL byte": ["1,2\n".encode("utf-16")],
    "line 1: carriage return inside a line": [b"1 2\r3 4\n"],
    "line 2: cell 1 holds '.ufeff3'": [b"1,2\n\xef\xbb\xbf3,4\n"],
    r"line 2: cell 2 holds '\\x9b31mxxx": [b"1,2\n3,\xc2\x9b31m" + b"x" * 100_000 + b"\n"],
}
LONG = "9" * 5000
OTHER_TEXTS = [
    (read_input, "x.edges", f"{LONG} 2 1\n", "line 1: vertex .* is not an integer from 0 to 2147483647"),
    (read_input, "x.edges", b"0 1 1\n1 2 1\r2 3 1\r\n", "line 2: carriage return"),
    (
        read_input,
        "x.mtx",
        f"{BANNER}2 2 1\n1\xa02 1\n".encode("latin-1"),
        "line 3: expected 3 cells .row, col",
    ),
    (as_anchors, "x.csv", f"{LONG},0,0\n", "line 1: expected a vertex number from 0 to 3, found"),
]
HEADERS = ["{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (4,), }", "[('a', '<f8')]"]
HEADERS += ["{'descr': '<f8', 'fortran_order': False}", "{" * 60_000, "{'descr': " + "-" * 60_000]
HEADERS += ["{'descr': '<f8' 'fortran_order': False, 'shape': (2, 2)}", "{'descr': " + "(" * 60_000 + "}"]
SHAPES = ["(-2, -2)", "(2.0, 2)", "(True, 4)", "[2, 2]", f"({'1, ' * 40})", f"(0, {'9' * 20})"]
NPY = {
    "damaged header": [
        *(npy(shape=shape) for shape in SHAPES),
        *(npy(header=header) for header in HEADERS[1:]),
        *(npy("\\x3cf8"), npy(order="1"), npy(length=0), npy(length=65535)),
    ],
    "an array of shape .* is refused": [npy(shape=f"({n}, {'9' * 18}, 9999)", body=b"") for n in (0, 9)],
    "needs 48 bytes of data, the file has 32": [npy(shape="(2, 3)")],
    "needs 8000000000000 bytes of data, the file has 0": [npy(shape="(1000000, 1000000)", body=b"")],
    r"got shape \(\)": [npy(shape="()", body=bytes(8))],
    "holds Python objects": [npy("|O", body=b"cos\nsystem\n(S'true'\ntR."), saved(**{"": np.array([{}])})],
    "arrays of type .* are not supported": [
        npy(kind) for kind in ("<M8[D]", "<m8", "|V8", "<U9999999999", "<f7", "float64", "<f8,<f8")
    ],
    "expected real numbers, the array has dtype": [npy("<c16", "(2, 1)"), saved(**{"": np.array([["a"]])})],
    "type \"\\[.'a', '<f8'.]\" are not": [npy(header=HEADERS[0])],
    r"format version \(.*\) is not supported": [npy(version=3), npy(version=9)],
    "a header of 4294967295 bytes is refused": [npy(version=2, length=2**32 - 1)],
    "not a .npy array": [b"\x93NUMPY", b"\x80\x04\x95pickle"],
    "at row 0, column 0": [npy("<f16", "(2, 2)", bytes(8) + b"\xff\x7f" + bytes(6) + b"\xff" * 48)],
    r"2-D array \(samples x features\), got shape": [
        saved(**{"": np.zeros(shape)}) for shape in ((3,), (0, 3), (2, 2, 2))
    ],
    "nan at row 1, column 1": [saved(**{"": np.array([[1.0, 2.0], [3.0, np.nan]])})],
}
NPZ = {
    "Bad CRC-32": [raw_zip(stored(), crc=1), raw_zip(deflated(GOOD), crc=1)],
    "needs 32 bytes of data": [raw_zip(member, size=2**31) for member in (stored(), deflated(GOOD))],
    "needs 32 bytes of data, .* 40": [raw_zip(deflated(GOOD), size=len(GOOD) + 8)],
    "data are missing": [raw_zip(deflated(npy(shape="(2, 3)")), size=len(GOOD) + 16)],
    "reaches into the archive's directory": [raw_zip(deflated(GOOD), csize=2**31)],
    "encrypted": [raw_zip(stored(), flags=1)],
    "compression method [19][24]? is not supported": [raw_zip(stored(), method=k) for k in (9, 12, 14)],
    "damaged one": [raw_zip(stored(), method=8, csize=len(GOOD))],
    "array 'X': there are two of that name": [raw_zip(stored(), stored())],
    "5000 members; at most 4096 are allowed": [raw_zip(*[stored(f"{k}.npy", b"") for k in range(5000)])],
    "array 'X': not a .npy array": [raw_zip(stored("X.npy", b""))],
    r"array '\\x1b\[31mX': not": [raw_zip(stored("\x1b[31mX.npy", b""))],
    "found nothing readable": [
        *(raw_zip(), raw_zip(stored("X.npy", npy("|O"))), raw_zip(stored("readme.txt", b"hello"))),
        *(raw_zip(stored("inner.npz", raw_zip(stored()))), b"PK\x05\x06" + bytes(18)),
    ],
    "not a .npz archive": [b"PK\x05\x06" + b"\xff" * 18, raw_zip(stored())[:-30]],
    r"named X.*'A' \(6, 3\), 'B' \(6, 3\)": [saved(A=np.ones((6, 3)), B=np.ones((6, 3)))],
    # A kilobyte must not become gigabytes of zeros.
    "held dense, would take 7200240000": [lambda path: sp.save_npz(path, sp.csr_array((30_000, 30_001)))],
}
# Of a sparse matrix with one array changed.
INDICES = {
    "'indices' holds 9 at position 1, outside 0 to 2": [0, 9, 1],
    "'indices' holds -1 at position 1": [0, -1, 1],
    "'indices' has 2 values, 'data' has 3": [0, 1],
    "must be 1-D integers, got float64": [0.0, 1.0, 2.0],
    "holds 9223372036854775808 at position 1": np.array([0, 2**63, 1], dtype=np.uint64),
    "outside 0 to 2": [0, 2**32, 1],
    "holds 127": np.array([0, 127, 1], dtype=np.int8),
    "without its array 'indices'": None,
}
POINTERS = [[0, 2, 1, 3], [0, 1, 3], [1, 1, 2, 3], [0, 4, 4, 3], [0, -1, 2, 3], np.array([], dtype=np.int64)]
# Differences of the last are 2**63 - 1, 2**63 - 1 and 5, none negative: numpy.repeat wrote past its end.
POINTERS += [np.array([0, 2**64 - 1, 2**64 - 1, 3], dtype=np.uint64), [0, 2**63 - 1, -2, 3]]
SIZES = [[3, 3, 3], [-3, 3], ["a", "b"], [3.0, 3.0], 3]
LARGE = [[3, 10**10], [2**62, 2**62], np.array([2**64 - 1, 3], dtype=np.uint64)]
FORMATS = [b"bsr", [1, 2], "csr" * 1000, ["csr", "csr"], np.frombuffer(b"\0\0\x11\0", "<U1").copy()]
DATA = {
    "'data' of a sparse matrix must be 1-D numbers": [1, 1, 1j],
    "must be 1-D numbers": np.ones((3, 1)),
    "distance -1.0 between vertices 1 and 2": [1.0, -1.0, 1.0],
    "distance nan between vertices 1 and 2": [1.0, np.nan, 1.0],
    "distance inf between": [1, np.inf, 1],
}
SPARSE = {
    **{message: [sparse(indices=value)] for message, value in INDICES.items()},
    "'indptr' must rise from 0 to 3 over 4 values; it has": [sparse(indptr=value) for value in POINTERS],
    "'shape' of a sparse matrix must be two sizes, got": [sparse(shape=value) for value in SIZES],
    "is refused": [sparse(shape=value) for value in LARGE],
    "over 1001 values; it has 4": [sparse(shape=[1000, 3])],
    "sparse format '.* is not supported": [sparse(format=value) for value in FORMATS],
    **{message: [sparse(data=value)] for message, value in DATA.items()},
}
POINTS, EDGES = np.random.default_rng(3).normal(size=(4, 2)), np.array([[0, 1], [1, 2], [2, 3]])
MAP = {"embedding": POINTS, "edges": EDGES, "edge_lengths": np.array([1.0, 0.0, 2.5])}
MAPS = [
    (
        {"edges": np.array([[0, 1], [1, 2], [2, 4]])},
        r"not go together: edges must lie in 0 \.\. 3, found 0 to 4",
    ),
    ({"edges": np.array([[0, 1], [-1, 2], [2, 3]])}, "edges must lie in .*, found -1 to 3"),
    ({"edges": EDGES[:2]}, r"edge_lengths must have the shape \(2,\), found \(3,\)"),
    ({"edges": EDGES.astype(float)}, "edges must be an array of int32 or int64, found float64"),
    ({"edge_lengths": None}, "edge_lengths must be an array of float32 or float64, found <class 'NoneType'>"),
    ({"edge_lengths": np.array([1.0, np.nan, 1.0])}, "not go together: .*nan"),
    ({"edges": np.array([[0, 1], [1, 2], [3, 3]])}, "not go together: Diagonal entry"),
    ({"dropped_edges": np.array([[0, 9]])}, "dropped_edges must lie in 0 .. 3, found 0 to 9"),
    ({"stretch": np.ones((3, 2))}, r"stretch must have the shape \(4, 2\), found \(3, 2\)"),
    ({"component_labels": np.zeros(4)}, "component_labels must be an array of int32 or int64, found float64"),
    ({"energy": np.zeros(2)}, "energy cannot be of type ndarray"),
    ({"status": 5}, "status cannot be of type int"),
    ({"parameters": np.array("[1]")}, "parameters cannot be of type list"),
    ({"parameters": np.array("{")}, "'parameters': not JSON"),
    ({"parameters": np.array("[" * 100_000)}, "'parameters': not JSON"),
    ({"embedding": np.zeros((4, 2, 1))}, r"'embedding': expected numbers of shape \(n, N\)"),
    ({"embedding": np.full((4, 2), np.inf)}, "'embedding': row 0 is infinite"),
    ({"vertex_names": np.array("x")}, r"'vertex_names': expected 4 names, got <U1 of shape \(\)"),
    ({"vertex_names": np.array(["a", "b"])}, "'vertex_names': expected 4 names"),
    ({"vertex_names": np.array([["x"] * 4])}, r"of shape \(1, 4\)"),
    ({"vertex_names": np.array([1j] * 4)}, "got complex128"),
    ({"vertex_names": np.array([b"\xff"] * 4)}, "names that are not UTF-8 text"),
]


FEATURE_COLUMNS = [
    (pa.array([[1.0], [2.0]]), "column 'a' has type list"),
    (pa.array([{"a": 1}, {"a": 2}]), "column 'a' has type struct"),
    (pa.array([1, 2], pa.date32()), "has type date32"),
    (pa.array([b"a", b"b"]), "has type binary"),
    (pa.array([1, 2], pa.decimal128(5)), "has type decimal128"),
    (pa.array([1.0, None]), "has no value in row 1"),
    (pa.array(["a", None]), "has no value in row 1"),
    (pa.array([1.0, float("nan")]), "nan at row 1"),
    (pa.array([b"a", b"b"]).dictionary_encode(), "only numbers and text are read"),
    (pa.array(["a\0", "b"]), "text with a NUL character is not supported"),
]
PARQUET = {
    "features are columns of numbers, .*'b' .text": [parquet({"a": [1.0], "b": ["x"]})],
    "features are columns of numbers, .*'a' .text": [parquet({"a": ["x"]})],
    "inf at row 1, column 0": [parquet({"a": [1.0, np.inf]})],
    "two columns are named 'a'": [parquet(pa.Table.from_arrays([pa.array([1.0])] * 2, names=["a", "a"]))],
    "damaged one": [b"", b"PAR1PAR1", b"PAR1 more PAR1", b"PAR1\xff\xff\xff\xffPAR1", b"PARE" * 3],
    "damaged": [b"PAR1" + b"\x1c" * 4000 + struct.pack("<I", 4000) + b"PAR1"],
}
SUFFIXES = [
    (read_input, "x.docx", r"suffix '\.docx'; known suffixes: \.npy"),
    (read_input, "x.gpkg", r"isoweave\.from_geopandas\(geopandas\.read_file"),
    (read_columns, "x.xlsx", r"read from \.csv or \.tsv, not '\.xlsx'"),
    (read_labels, "x.xlsx", r"labels are read from \.npy, .* or \.txt, not '\.xlsx'"),
    (as_anchors, "x.npz", r"anchors are read from \.csv, \.tsv or \.txt"),
    (as_features, "g.edges", "cannot read features with suffix '.edges'"),
    (as_features, "g.graphml", "cannot read features with suffix '.graphml'"),
]
EDGES_AS_TABLE = parquet({"i": [0], "j": [1], "d": [1.0]})
LABELS = {
    "label nan of row 1": [saved(**{"": np.array([1.0, np.nan])})],
    "entry 0 holds what is not a character": [npy("<U1", "(1,)", b"\0\0\x11\0")],
}
KINDS = [
    *((READERS[reader], name, table) for reader, files in TEXTS.items() for name, table in files.items()),
    (read_input, "x.csv", TABLES),
    (read_input, "x.npy", NPY),
    *((read_input, "x.npz", table) for table in (NPZ, SPARSE)),
    (read_input, "x.parquet", PARQUET),
    (as_graph, "x.parquet", {"needs a square matrix, got 1 x 3": [EDGES_AS_TABLE]}),
    (read_labels, "x.npy", LABELS),
]
CASES = [
    *(
        (read, name, data, said)
        for read, name, kind in KINDS
        for said, files in kind.items()
        for data in files
    ),
    *((read_embedding, "x.npz", saved(**MAP | change), message) for change, message in MAPS),
    *((read_input, "x.parquet", parquet({"a": a, "b": [1.0, 2.0]}), said) for a, said in FEATURE_COLUMNS),
    *((read, name, "0 1 1\n", message) for read, name, message in SUFFIXES),
    *OTHER_TEXTS,
]


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize(("read", "name", "content", "message"), CASES)
def test_refused(put, read, name, content, message):
    path = put(name, content)
    with pytest.raises(InputFileError, match=message) as caught:
        read(path)
    assert caught.value.path == path
    assert caught.value.reason.isprintable()
    assert len(caught.value.reason) < 300


def test_what_the_tables_change_is_good(put):
    """Otherwise the cases above might be refused for another reason."""
    assert read_input(put("a.npz", sparse())).graph.nnz == 3
    assert read_input(put("b.npz", sparse(format=np.array(["csr"])))).graph.nnz == 3
    for n_iter in (3, np.inf, np.nan, -1, "many"):
        # The history says how many there were.
        kept = read_embedding(put("c.npz", saved(**MAP, parameters=json.dumps({}), n_iter=n_iter)))
        assert kept.n_points == 4
    for version in (1, 2):
        assert not read_input(put("x.npy", npy(version=version))).features.any()
    for member in (stored(), deflated(npy())):
        assert read_input(put("x.npz", raw_zip(member, start=b"a program that unpacks itself"))).n_rows == 2
    frame = pd.DataFrame({"a": [1, 2], "b": [0.5, 1.5]})
    assert read_input(put("x.parquet", lambda path: frame.to_parquet(path))).n_rows == 2


@pytest.mark.parametrize("code", [*range(9), 0x0B, 0x0C, *range(0x0E, 0x20), 0x7F])
def test_control_characters(put, code):
    """Python takes 0x0b, 0x0c and 0x1c to 0x1f for spaces; "1<0x1c>2" must not be two cells."""
    what = "NUL byte" if code == 0 else f"control character {code:#04x}"
    market = BANNER.encode() + b"%% a comment %c\n2 2 1\n1 2 1\n" % code
    texts = {"x.csv": b"1,2\n3,%c4\n", "x.txt": b"1 2\n3%c4\n", "x.edges": b"0 1 1\n0%c2 1\n"}
    for name, data in [("x.mtx", market), *((name, text % code) for name, text in texts.items())]:
        with pytest.raises(InputFileError, match=f"line 2: {what}"):
            read_input(put(name, data))


NO_NUMBERS = ["1_000", "0x10", "0b1", "1e", "--1", "1.2.3", "٣", "１", "1,5", "1;5", "infinit", "1j"]


@pytest.mark.parametrize("cell", [*NO_NUMBERS, "1 5", ""])
def test_what_is_no_number(put, cell):
    table, edges, ends = f"1\t2\n3\t{cell}\n", f"0\t1\t2\n1\t2\t{cell}\n", f"0\t1\t2\n1\t{cell}\t2\n"
    market = BANNER + f"30 30 2\n1 2 3\n2 {cell} 3\n"
    for name, text in (("x.tsv", table), ("g.tsv", edges), ("g.tsv", ends), ("g.mtx", market)):
        with pytest.raises(InputFileError, match="line [24]: "):
            read_input(put(name, text), as_graph=name != "x.tsv")


@pytest.mark.parametrize("cell", ["nan", "NaN", "-nan", "inf", "-Infinity", "1e400", "-1e400", "9" * 400])
def test_what_is_not_finite(put, cell):
    for read, name, text, message in (
        (read_input, "x.csv", f"1,2\n3,{cell}\n", "line 2: cell 2 holds .*; numbers must be finite"),
        (read_input, "x.edges", f"0 1 2\n1 2 {cell}\n", "line 2: distance .*; distances must be finite"),
        (read_input, "x.mtx", BANNER + f"2 2 1\n1 2 {cell}\n", "distance .* between vertices 0 and 1"),
        (read_labels, "y.csv", f"1\n{cell}\n", "line 2: label .* of row 1 is neither a number nor a word"),
    ):
        with pytest.raises(InputFileError, match=message):
            read(put(name, text))


WRITTEN = ["1,000", "1,000.5", "1.000,5", "1 000", "1'000", "0,5", "10%", "10 %", "1d5", "-1.5D+03", "$5"]


@pytest.mark.parametrize("cell", WRITTEN)
def test_numbers_that_are_not_plain_are_not_taken_for_words(put, cell):
    """They became names, or a header, and the numbers were gone without a word."""
    for read, (text, place) in ((read, case) for read, cases in WRITTEN_TEXTS for case in cases):
        said = f"{place}.* holds {re.escape(repr(cell))}, not a number; write plain numbers such as"
        with pytest.raises(InputFileError, match=said):
            READERS[read](put("x.csv", text.format(cell)))


def test_words_that_begin_like_numbers_are_words(put):
    for names in ("1d50 4hhb 1e10", "2020-01-01 2020-01-02", "10.0.0.1 10.0.0.2", "a b 1,000", "1.2.3 1.2.4"):
        words = names.split()
        rows = "".join(f'"{word}",{k}\n' for k, word in enumerate(words))
        assert read_input(put("x.csv", rows)).names == tuple(words)
        assert read_labels(put("y.tsv", "\n".join(words))).tolist() == words
    # Names by their header, whatever they look like; so is a header that has such a first cell.
    loaded = read_input(put("x.csv", "id,25%,75%\n1d5,3,4\n1d6,5,6\n"))
    assert loaded.names == ("1d5", "1d6")
    assert list(read_columns(put("x.csv", "vertex,25%\n10%,3\n"))[0]) == ["25%"]


def test_one_long_name_beside_many_short(put):
    """As an array of text this would take 4 x 30,000 x 200,000 bytes."""
    long, names = "x" * 200_000, [f"v{k}" for k in range(30_000)]
    edges = f"{long} v0 1\n" + "".join(f"{a} {b} 1\n" for a, b in pairwise(names))
    for read, name, text in (
        (read_input, "x.edges", edges),
        (read_input, "x.csv", f"{long},1\n" + "".join(f"{name},1\n" for name in names)),
        (read_labels, "y.csv", f"{long}\n" + "a\n" * 30_000),
        (read_columns, "c.csv", f"name,x\n{long},1\n" + "a,1\n" * 30_000),
    ):
        with pytest.raises(InputFileError, match="'xxxx.* of 200000 characters is too long"):
            read(put(name, text))
    assert read_labels(put("y.csv", f"{long}\na\n"))[0] == long
