"""What every reader says about damaged and malicious files: one table per kind of file."""

from __future__ import annotations

import json
import struct
from functools import partial
from itertools import pairwise

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp

from isoweave.io import InputFileError, read_anchors, read_columns, read_embedding, read_input, read_labels
from makers import deflated, element, npy, parquet, raw_zip, saved, sparse, stored, with_schema

BANNER = "%%MatrixMarket matrix coordinate real general\n"
INTEGER, SYMMETRIC = BANNER.replace("real", "integer"), BANNER.replace("general", "symmetric")
SHUFFLED = "{'shape': (2, 2), 'fortran_order': False}"
RECORDS = "{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (4,), }"

TABLES = [
    ("", "the file holds no rows"),
    ("a,b\n", "line 1: no number in any row"),
    ("1,2\n3\n", "line 2: expected 2 cells, found 1"),
    ("a,b\n\n1,2,3\n", "line 3: expected 2 cells, found 3"),
    ("1,2\n3,x\n", "line 2: cell 2 holds 'x', not a number"),
    ("1,2\n3,\n", "line 2: cell 2 is empty"),
    ("1,2\n3,1_000\n", "line 2: cell 2 holds '1_000', not a number"),
    ("1,2\n3,\u0663\n", "line 2: cell 2 holds '\u0663', not a number"),
    ("1,2\n\n3,nan\n", "line 3: cell 2 holds nan; features must be finite"),
    ("p,1\nq,inf\n", "line 2: cell 2 holds inf"),
    ("1;2\n3;4\n", "line 2: '3;4' is not a number"),
    ('1,2\n"3,4\n', "line 2: badly quoted cell"),
    ('1,2\n"3"x,4\n', "line 2: badly quoted"),
    ('1,2\n"3\n",4\n', "line 2: badly quoted"),
    ('a,b\n"' + "1" * 200_000 + '",2\n', "line 2: badly quoted cell .field larger"),
    ('""\n1\n', "line 2: '1' is not a number"),
    ('"a""b",c\n1\n', "line 2: expected 2 cells, found 1"),
    (b"1,2\n3,\xff\n", r"line 2: not UTF-8 text \(byte 2 of the line\)"),
    (b"1,2\n3,\x004\n", "line 2: NUL byte"),
    (b"1 2\r3 4\n", "line 1: carriage return inside a line"),
    (b"1,2\n\xef\xbb\xbf3,4\n", "line 2: cell 1 holds '.ufeff3'"),
    ("1,2\n".encode("utf-16"), "line 1: not UTF-8 text .byte 0|NUL byte"),
    (b"\xef\xbb\xbf", "the file holds no rows"),
    (b"1,2\n3,\xc2\x9b31m" + b"x" * 100_000 + b"\n", r"line 2: cell 2 holds '\\x9b31mxxx"),
]
EDGE_LISTS = [
    ("", "holds no edges"),
    ("i j d\n", "holds no edges"),
    ("0 1\n", r"line 1: expected 3 cells \(i, j, distance\), found 2"),
    ("0 1 1\n1 2 3 4\n", "line 2: expected 3 cells"),
    ("0 1 1.5x\n", "line 1: distance '1.5x' is not a number"),
    ("0 1 long\n", "line 1: distance 'long' is not a number"),
    ("0 1 1\n1 2 long\n", "line 2: distance 'long' is not a number"),
    ("0 1 nan\n", "line 1: distance nan; distances must be finite"),
    ("0 1 -2\n", "line 1: distance -2.0"),
    ("0 1 1\n0 2 1e999\n", "line 2: distance inf"),
    ("0 1 1\n0 x 1\n", "line 2: 'x' is not an integer from 0 .*; name all of them or none"),
    ("0 1 1\n0 1.0 1\n", "line 2: '1.0' is not an integer"),
    ("0 -1 1\n", "line 1: '-1' is not an integer from 0 to 2147483647"),
    *[
        (text, f"line {line}: .* is not an integer from 0")
        for vertex in ("9" * 5000, "-1", "-" + "9" * 5000, "2147483648", "99999999999")
        for text, line in ((f"{vertex} 2 1\n", 1), (f"0 1 1\n0 {vertex} 1\n", 2))
    ],
    ("0 1 1\n0 2000000000 1\n", "line 2: a 2000000001 x 2000000001 matrix with only 2 entries"),
    ("0 1 1\n1 2 1\n1 0 2\n", r"line 3: two values for one pair: 1.0 \(line 1\) and 2.0; keep one"),
    ("a,b,1\n,b,2\n", "line 2: empty vertex name"),
    (b"0 1 1\n1 2 1\r2 3 1\r\n", "line 2: carriage return"),
]
MARKETS = [
    ("", "line 1: not a Matrix Market file"),
    ("1 1 1\n", "line 1: not a Matrix Market file"),
    ("\n" + BANNER + "2 2 1\n1 2 1\n", "line 1: not a Matrix Market file"),
    ("\ufeff" + BANNER + "2 2 1\n1 2 1\n", "not a Matrix Market file"),
    ("%%MatrixMarket matrix array real general\n2 2\n1\n1\n1\n1\n", "layout 'array' is not supported"),
    ("%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 2\n", "holds no distances"),
    ("%%MatrixMarket matrix coordinate complex general\n", "type 'complex' are not supported"),
    (BANNER.replace("real", "é"), "values of type .* are not supported"),
    ("%%MatrixMarket matrix coordinate real hermitian\n", "symmetry 'hermitian' is not supported"),
    (BANNER, "size line .* is missing"),
    (BANNER + "%only\n%comments\n", "size line .* is missing"),
    (BANNER + "2 2\n", "line 2: the size line needs three integers"),
    (BANNER + "2 -2 1\n", "line 2: '-2' is not an integer from"),
    (BANNER + "2.0 2 1\n1 2 1\n", "'2.0' is not an integer from"),
    (BANNER + "1_0 2 1\n1 2 1\n", "'1_0' is not an integer from"),
    (BANNER + "2 2 99999999999999999999\n", "is not an integer from 0"),
    (BANNER + "2 2 999999\n", "line 2: the file is too short for the 999999 entries"),
    (BANNER + "999999999 999999999 1\n1 2 1\n", "line 2: a 999999999 x 999999999 matrix"),
    (BANNER + "2000000 3 1\n1 2 1\n", "2000000 x 3 matrix with only 1 entries is refused"),
    (SYMMETRIC + "2 3 0\n", "a symmetric matrix cannot be 2 x 3"),
    (BANNER + "2 2 2\n1 2 1\n", "2 entries declared, 1 found"),
    (BANNER + "2 2 1\n1 2 1\n2 1 1\n", "line 4: more entries than the 1 declared"),
    (BANNER + "2 2 1\n1 3 1\n", "line 3: '3' is not an integer from 1 to 2"),
    (BANNER + "2 2 1\n0 1 1\n", "line 3: '0' is not an integer from 1 to 2"),
    (BANNER + "2 2 1\n1 -2 1\n", "'-2' is not an integer from"),
    (BANNER + "2 2 1\n% late comment\n1 2 1\n", "line 3: '%' is not an integer"),
    (BANNER + "2 2 1\n1 2\n", "line 3: expected: row column value"),
    (BANNER + "2 2 1\n1 2 1 0\n", "line 3: expected: row column value"),
    (BANNER + "2 2 1\n1 2 x\n", "line 3: value 'x' is not a number"),
    (BANNER + "2 2 1\n1 2 1_0\n", "line 3: value '1_0' is not a number"),
    (BANNER + "2 2 1\n1 2 -1\n", "distance -1.0 between vertices 0 and 1"),
    (INTEGER + "2 2 1\n1 2 1.5\n", "line 3: value '1.5' is not an integer"),
    (INTEGER + "2 2 1\n1 2 inf\n", "line 3: value 'inf' is not an integer"),
    (BANNER + "2 2 2\n1 2 1\n1 2 1\n", r"line 4: two values for one pair: 1.0 \(line 3\)"),
    (SYMMETRIC + "2 2 2\n2 1 1\n1 2 1\n", r"line 4: two values for one pair: 1.0 \(line 3\)"),
    (BANNER.encode() + b"2 2 1\n\xb2 2 1\n", "line 3: .* is not an integer"),
    (BANNER.encode() + b"2 2 1\n1\xa02 1\n", "line 3: "),
    (BANNER + "2 2 1\n" + "1" * 600_000, "line longer than 524288 bytes"),
]
NPY = [
    (npy(shape="(-2, -2)"), "damaged header"),
    (npy(shape="(2)"), "damaged header: shape '2'"),
    (npy(shape="(2.0, 2)"), "damaged header"),
    (npy(shape="(True, 4)"), "damaged header"),
    (npy(shape="(4, 1_0)"), "damaged header"),
    (npy(shape="[2, 2]"), "damaged header"),
    (npy(shape="(" + "1, " * 40 + ")", body=bytes(8)), "damaged header: shape"),
    (npy(shape="(999999999999999999, 999999999999999999)"), "is refused"),
    (npy(shape="(0, 999999999999999999, 9999)", body=b""), "is refused"),
    (npy(shape="(0, 99999999999999999999)", body=b""), "damaged header: shape"),
    (npy(shape="(2, 3)"), "needs 48 bytes of data, the file has 32"),
    (npy(shape="(2, 1)"), "needs 16 bytes of data, the file has 32"),
    (npy(shape="(1000000, 1000000)", body=b""), "needs 8000000000000 bytes of data, the file has 0"),
    (npy(shape="()", body=bytes(8)), r"got shape \(\)"),
    (npy("|O", body=b"cos\nsystem\n(S'true'\ntR."), "holds Python objects"),
    (npy("O"), "holds Python objects"),
    (npy("<M8[D]"), "arrays of type '<M8.D.' are not supported"),
    *[
        (npy(descr), "are not supported")
        for descr in ("<m8", "|V8", "<U9999999999", "<f7", "float64", "<f8,<f8")
    ],
    (npy("<c16", "(2, 1)"), "expected real numbers, the array has dtype complex128"),
    (npy("<U0", "(9999999, 9999999)", b""), "arrays of type '<U0' are not supported"),
    (npy("|S0", "(9999999, 9999999)", b""), "are not supported"),
    (npy("\\x3cf8"), "damaged header"),
    (npy(header="[('a', '<f8')]"), "damaged header"),
    (npy(header=RECORDS), "structured arrays"),
    (npy(header="{'descr': '<f8', 'descr': '<f8', 'fortran_order': False, 'shape': (2, 2)}"), "damaged"),
    (npy(header="{'descr': '<f8', 'fortran_order': False}"), "damaged"),
    (npy(header="{'descr': '<f8' 'fortran_order': False, 'shape': (2, 2)}"), "damaged header"),
    (npy(header="{" * 60_000), "damaged header"),
    (npy(header="{'descr': " + "-" * 60_000), "damaged header"),
    (npy(header="{'descr': " + "(" * 60_000 + "}"), "damaged header"),
    (npy(order="1"), "damaged header"),
    (npy(version=3), r"format version \(3, 0\) is not supported"),
    (npy(version=9), "is not supported"),
    (npy(version=2, length=2**32 - 1), "a header of 4294967295 bytes is refused"),
    (npy(length=65535), "it is cut short"),
    (npy(length=0), "damaged header"),
    (b"\x93NUMPY", "not a .npy array"),
    (b"\x80\x04\x95pickle", "not a .npy array"),
    (npy("<f16", "(2, 2)", bytes(8) + b"\xff\x7f" + bytes(6) + b"\xff" * 48), "at row 0, column 0"),
    *[
        (saved(**{"": np.array(array)}), message)
        for array, message in (
            ([1.0, 2, 3], r"2-D array \(samples x features\), got shape \(3,\)"),
            (np.zeros((0, 3)), r"got shape \(0, 3\)"),
            (np.zeros((2, 2, 2)), r"got shape \(2, 2, 2\)"),
            ([["a", "b"]], "dtype <U1"),
            ([[1.0, 2.0], [3.0, np.nan]], "nan at row 1, column 1"),
            ([[1.0, -np.inf]], "-inf at row 0, column 1"),
            ([{"a": 1}], "holds Python objects"),
        )
    ],
]
GOOD = npy()
NPZ = [
    (raw_zip(stored(), crc=1), "Bad CRC-32"),
    (raw_zip(deflated(GOOD), crc=1), "Bad CRC-32"),
    (raw_zip(stored(), size=2**31), "needs 32 bytes of data"),
    (raw_zip(deflated(GOOD), size=2**31), "needs 32 bytes of data"),
    (raw_zip(deflated(GOOD), size=len(GOOD) + 8), "needs 32 bytes of data, .* 40"),
    (raw_zip(deflated(npy(shape="(2, 3)")), size=len(GOOD) + 16), "data are missing"),
    (raw_zip(deflated(GOOD), csize=2**31), "reaches into the archive's directory"),
    (raw_zip(stored(), flags=1), "encrypted"),
    *[(raw_zip(stored(), method=k), f"compression method {k} is not supported") for k in (9, 12, 14)],
    (raw_zip(stored(), method=8, csize=len(GOOD)), "damaged .npz archive"),
    (raw_zip(stored(), stored()), "array 'X': there are two of that name"),
    (raw_zip(*[stored(f"{k}.npy", b"") for k in range(5000)]), "5000 members; at most 4096"),
    (raw_zip(stored("X.npy", b"")), "array 'X': not a .npy array"),
    (raw_zip(stored("\x1b[31mX.npy", b"")), r"array '\\x1b\[31mX': not"),
    (raw_zip(), "found nothing readable"),
    (raw_zip(stored("X.npy", npy("|O"))), "found nothing readable"),
    (raw_zip(stored("readme.txt", b"hello")), "found nothing readable"),
    (raw_zip(stored("inner.npz", raw_zip(stored()))), "found nothing readable"),
    (b"PK\x05\x06" + bytes(18), "found nothing readable"),
    (b"PK\x05\x06" + b"\xff" * 18, "not a .npz archive"),
    (raw_zip(stored())[:-30], "not a .npz archive"),
    (saved(A=np.ones((6, 3)), B=np.ones((6, 3))), r"named X.*'A' \(6, 3\), 'B' \(6, 3\)"),
    # A kilobyte must not become gigabytes of zeros.
    (lambda path: sp.save_npz(path, sp.csr_array((30_000, 30_001))), r"held dense, would take 7200240000"),
]
SPARSE = [
    ({"indices": np.array([0, 9, 1])}, "'indices' holds 9 at position 1, outside 0 to 2"),
    ({"indices": np.array([0, -1, 1])}, "'indices' holds -1 at position 1"),
    ({"indices": np.array([0, 1])}, "'indices' has 2 values, 'data' has 3"),
    ({"indices": np.array([0.0, 1.0, 2.0])}, "must be 1-D integers, got float64"),
    ({"indices": np.array([0, 2**63, 1], dtype=np.uint64)}, "holds 9223372036854775808 at position 1"),
    ({"indices": np.array([0, 2**32, 1])}, "outside 0 to 2"),
    ({"indices": np.array([0, 127, 1], dtype=np.int8)}, "holds 127"),
    ({"indices": None}, "without its array 'indices'"),
    ({"indptr": np.array([0, 2, 1, 3])}, "'indptr' must rise from 0 to 3"),
    ({"indptr": np.array([0, 1, 3])}, "over 4 values; it has 3"),
    ({"indptr": np.array([1, 1, 2, 3])}, "must rise from 0"),
    ({"indptr": np.array([0, 2**64 - 1, 2**64 - 1, 3], dtype=np.uint64)}, "must rise"),
    ({"indptr": np.array([0, 4, 4, 3])}, "must rise"),
    ({"indptr": np.array([0, -1, 2, 3])}, "must rise"),
    ({"indptr": np.array([], dtype=np.int64)}, "must rise from 0 to 3 over 4 values; it has 0"),
    ({"indptr": np.array([], dtype=np.int64), "format": None, "shape": None}, "outside 0 to -1"),
    ({"shape": np.array([3, 3, 3])}, "'shape' of a sparse matrix must be two sizes"),
    ({"shape": np.array([-3, 3])}, "must be two sizes, got -3 x 3"),
    ({"shape": np.array([3, 10**10])}, "refused"),
    ({"shape": np.array([2**62, 2**62])}, "is refused"),
    ({"shape": np.array([2**64 - 1, 3], dtype=np.uint64)}, "is refused"),
    ({"shape": np.array(["a", "b"])}, "must be two sizes, got <U1"),
    ({"shape": np.array([3.0, 3.0])}, "must be two sizes"),
    ({"shape": np.array([1000, 3])}, "over 1001 values; it has 4"),
    ({"format": np.array(b"bsr")}, "format 'bsr' is not supported"),
    ({"format": np.array([1, 2])}, "format 'int64 of shape .2,.' is not supported"),
    ({"format": np.array("csr" * 1000)}, "is not supported"),
    ({"format": np.array(["csr", "csr"])}, "is not supported"),
    ({"format": np.frombuffer(struct.pack("<L", 0x110000), "<U1").copy()}, "is not supported"),
    ({"data": np.array([1, 1, 1j])}, "'data' of a sparse matrix must be 1-D numbers"),
    ({"data": np.ones((3, 1))}, "must be 1-D numbers"),
    ({"data": np.array([1.0, -1.0, 1.0])}, "distance -1.0 between vertices 1 and 2"),
    ({"data": np.array([1.0, np.nan, 1.0])}, "distance nan between vertices 1 and 2"),
    ({"data": np.array([1, np.inf, 1])}, "distance inf between"),
]
COLUMNS = [
    ("", "holds no rows"),
    ("age\n", "line 1: there is a header, but no row below it"),
    ("age,town\n1\n", "line 2: expected 2 cells, found 1"),
    ("age,age\n1,2\n", "two columns are named 'age'"),
    ("age,\n1,2\n", "column 2 has no name"),
    ("age,3\n1,2\n", "must name the columns, but holds the number '3'"),
    ("vertex\na\n", "names of rows, but no columns"),
    (",".join(f"c{i}" for i in range(1001)) + "\n", "1001 columns; at most 1000"),
    ('age,"town\n1,2\n', "badly quoted"),
]
LABELS = [
    ("", "the file holds no labels"),
    ("1,\n", "line 1: no label in the last cell"),
    ("1\nnan\n", "line 2: label nan of row 1 is neither a number nor a word"),
]
ANCHORS = [
    ("", "the file holds no anchors"),
    ("vertex,x,y\n", "the file holds no anchors"),
    ("7,0,0\n", "line 1: expected a vertex number from 0 to 3, found '7'"),
    ("+1,0,0\n", r"found '\+1'"),
    ("9" * 5000 + ",0,0\n", "line 1: expected a vertex number"),
    ("0,0,0\n0,1,1\n", "line 2: vertex '0' was already given on line 1"),
    ("0,0,0\n1,1\n", r"line 2: expected 3 cells \(a vertex and 2 coordinates\), found 2"),
    ("0,0,0\n1,1,x\n", "line 2: cell 3 holds 'x', not a finite number"),
    ("0,0,0\n1,1,inf\n", "line 2: cell 3 holds 'inf', not a finite number"),
    ("0\n", "line 1: expected 2 cells"),
]
POINTS, EDGES = np.random.default_rng(3).normal(size=(4, 2)), np.array([[0, 1], [1, 2], [2, 3]])
MAP = {"embedding": POINTS, "edges": EDGES, "edge_lengths": np.array([1.0, 0.0, 2.5])}
MAPS = [
    ({"edges": np.array([[0, 1], [1, 2], [2, 4]])}, r"'edges': row 2 is \[2, 4\], but vertices are 0 to 3"),
    ({"edges": np.array([[0, 1], [-1, 2], [2, 3]])}, "'edges': row 1"),
    ({"edges": EDGES[:2]}, r"'edge_lengths': expected shape \(2\), got float64 of shape \(3,\)"),
    ({"edges": EDGES.astype(float)}, r"'edges': expected shape \(any, 2\), got float64"),
    ({"edge_lengths": None}, "'edges' without its 'edge_lengths'"),
    ({"edge_lengths": np.array([1.0, np.nan, 1.0])}, "'edges' and 'edge_lengths': .*nan"),
    ({"edges": np.array([[0, 1], [1, 2], [3, 3]])}, "'edges' and 'edge_lengths': Diagonal entry"),
    ({"dropped_edges": np.array([[0, 9]])}, "'dropped_edges': row 0"),
    ({"stretch": np.ones((3, 2))}, r"'stretch': expected shape \(4, 2\), got float64 of shape \(3, 2\)"),
    ({"component_labels": np.zeros(4)}, r"'component_labels': expected shape \(4\), got float64"),
    ({"energy": np.zeros(2)}, "'energy': expected shape"),
    ({"status": 5}, "'status': expected shape"),
    ({"n_iter": np.inf}, "'n_iter': expected a number of steps, got inf"),
    ({"n_iter": np.nan}, "'n_iter': expected a number of steps, got nan"),
    ({"n_iter": -1}, "'n_iter': expected a number of steps, got -1"),
    ({"parameters": np.array("[1]")}, "'parameters': expected a JSON object"),
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
CHARACTERS = [  # such text crashed readers with SystemError, or made names that cannot be printed
    (
        read,
        name,
        raw_zip(
            stored(body=npy(shape="(1, 1)", body=bytes(8)), name="embedding.npy"), (member, text, text, 0)
        ),
    )
    for code in (0x110000, 0x7FFFFFFF, 0xD800, 0xDFFF)
    for endian in "<>"
    for read, name, member in ((read_embedding, "x.npz", "vertex_names.npy"), (read_labels, "x.npz", "y.npy"))
    for text in [npy(f"{endian}U1", "(1,)", struct.pack(f"{endian}L", code))]
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
PARQUET = [
    *[(parquet({"a": column, "b": [1.0, 2.0]}), False, message) for column, message in FEATURE_COLUMNS],
    (parquet({"a": [1.0], "b": ["x"]}), False, "column 'b' holds text"),
    (parquet({"a": ["x"]}), False, "no column of numbers"),
    (parquet({"a": [1.0, np.inf]}), False, "inf at row 1, column 0"),
    (parquet({"i": [0], "j": [1]}), True, "an edge list has 3 columns"),
    (parquet({"i": [0], "j": ["b"], "d": [1.0]}), True, "both hold names or both hold row numbers"),
    (parquet({"i": [0], "j": [1], "d": ["x"]}), True, "column 'd' must hold distances"),
    (parquet({"i": [0], "j": [1.5], "d": [1.0]}), True, "vertex 1.5 in row 0 is not a row number"),
    (parquet({"i": [0], "j": [1], "d": [-1.0]}), True, "distance -1.0 between vertices 0 and 1"),
    (parquet({"i": [0, 1], "j": [1, 0], "d": [1.0, 2.0]}), True, r"two values .* 1.0 \(edge 0\) and 2.0"),
    (
        parquet(pa.table({"i": [], "j": [], "d": []}).cast(pa.schema([(c, pa.float64()) for c in "ijd"]))),
        True,
        "holds no edges",
    ),
    (
        parquet(pa.Table.from_arrays([pa.array([1.0])] * 2, names=["a", "a"])),
        False,
        "two columns are named 'a'",
    ),
    (
        parquet({f"c{k}": np.zeros(600_000) for k in range(30)}),
        False,
        "600000 rows of 30 columns would take far",
    ),
    *[
        (data, False, "damaged one")
        for data in (
            b"",
            b"PAR1PAR1",
            b"PAR1 and nothing else PAR1",
            b"PAR1\xff\xff\xff\xffPAR1",
            b"PARE\0\0\0\0PARE",
        )
    ],
    (b"PAR1" + b"\x1c" * 4000 + struct.pack("<I", 4000) + b"PAR1", False, "damaged"),
    (with_schema(element(b"r", 2**31 - 1), element(b"x", None, 5)), False, "damaged"),
    (with_schema(element(b"r")), False, "damaged|no column of numbers among none"),
    (
        with_schema(element(b"r", 1), element(b"g", 1), element(b"x", None, 5)),
        False,
        "'g' has type struct|damaged",
    ),
]

as_anchors = partial(read_anchors, n_vertices=4)
CASES = [
    *[(read_input, "x.csv", text, message) for text, message in TABLES],
    *[(read_input, "x.edges", text, message) for text, message in EDGE_LISTS],
    *[(read_input, "x.mtx", text, message) for text, message in MARKETS],
    *[(read_input, "x.npy", data, message) for data, message in NPY],
    *[(read_input, "x.npz", data, message) for data, message in NPZ],
    *[(read_input, "x.npz", sparse(**change), message) for change, message in SPARSE],
    *[(read_columns, "x.csv", text, message) for text, message in COLUMNS],
    *[(read_labels, "x.csv", text, message) for text, message in LABELS],
    (read_labels, "x.npy", saved(**{"": np.array([1.0, np.nan])}), "label nan of row 1"),
    (read_labels, "x.npz", saved(a=np.ones(3), b=np.ones(3)), "no array named labels, .* among 'a', 'b'"),
    *[(as_anchors, "x.csv", text, message) for text, message in ANCHORS],
    *[(read_embedding, "x.npz", saved(**MAP | change), message) for change, message in MAPS],
    *[(read, name, data, "entry 0 holds 0x.*, which is not a character") for read, name, data in CHARACTERS],
    *[(partial(read_input, as_graph=g), "x.parquet", data, message) for data, g, message in PARQUET],
    (read_input, "x.docx", "", r"suffix '\.docx'; known suffixes: \.npy"),
    (read_columns, "x.xlsx", "", r"read from \.csv or \.tsv, not '\.xlsx'"),
    (read_labels, "x.xlsx", "", r"labels are read from \.npy, .* or \.txt, not '\.xlsx'"),
    (as_anchors, "x.npz", "", r"anchors are read from \.csv, \.tsv or \.txt"),
    (partial(read_input, as_graph=False), "g.edges", "0 1 1\n", "cannot read features with suffix '.edges'"),
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
    assert read_embedding(put("c.npz", saved(**MAP, parameters=json.dumps({}), n_iter=3))).n_points == 4
    for version in (1, 2):
        np.testing.assert_array_equal(
            read_input(put("x.npy", npy(version=version))).features, np.zeros((2, 2))
        )
    for member in (stored(), deflated(npy())):
        assert read_input(put("x.npz", raw_zip(member, start=b"a program that unpacks itself"))).n_rows == 2


CONTROL = [*range(9), 0x0B, 0x0C, *range(0x0E, 0x20), 0x7F]


@pytest.mark.parametrize("code", CONTROL)
def test_control_characters(put, code):
    """Python takes 0x0b, 0x0c and 0x1c to 0x1f for spaces; "1<0x1c>2" must not be two cells."""
    what = "NUL byte" if code == 0 else f"control character {code:#04x}"
    market = BANNER.encode() + b"%% a comment %c\n2 2 1\n1 2 1\n" % code
    texts = {
        "x.csv": b"1,2\n3,%c4\n" % code,
        "x.txt": b"1 2\n3%c4\n" % code,
        "x.edges": b"0 1 1\n0%c2 1\n" % code,
    }
    for name, data in (texts | {"x.mtx": market}).items():
        with pytest.raises(InputFileError, match=f"line 2: {what}"):
            read_input(put(name, data))


NO_NUMBERS = [
    "1_000",
    "0x10",
    "0b1",
    "1e",
    "--1",
    "1.2.3",
    "\u0663",
    "\uff11",
    "1,5",
    "1;5",
    "1 5",
    "",
    "infinit",
]


@pytest.mark.parametrize("cell", [*NO_NUMBERS, "1j"])
def test_what_is_no_number(put, monkeypatch, cell):
    table, edges, ends = f"1\t2\n3\t{cell}\n", f"0\t1\t2\n1\t2\t{cell}\n", f"0\t1\t2\n1\t{cell}\t2\n"
    market = BANNER + f"30 30 2\n1 2 3\n2 {cell} 3\n"
    for block in (1 << 19, 4):  # in small blocks the last line takes the fast way
        monkeypatch.setattr("isoweave.io._text._BLOCK_BYTES", block)
        for name, text in (("x.tsv", table), ("g.tsv", edges), ("g.tsv", ends), ("g.mtx", market)):
            with pytest.raises(InputFileError, match="line [24]: "):
                read_input(put(name, text), as_graph=name != "x.tsv")


@pytest.mark.parametrize("cell", ["nan", "NaN", "-nan", "inf", "-Infinity", "1e400", "-1e400", "9" * 400])
def test_what_is_not_finite(put, cell):
    for read, name, text, message in (
        (read_input, "x.csv", f"1,2\n3,{cell}\n", "line 2: cell 2 holds .*; features must be finite"),
        (read_input, "x.edges", f"0 1 2\n1 2 {cell}\n", "line 2: distance .*; distances must be finite"),
        (read_input, "x.mtx", BANNER + f"2 2 1\n1 2 {cell}\n", "distance .* between vertices 0 and 1"),
        (read_labels, "y.csv", f"1\n{cell}\n", "line 2: label .* of row 1 is neither a number nor a word"),
    ):
        with pytest.raises(InputFileError, match=message):
            read(put(name, text))


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


@pytest.mark.parametrize("name", ["x.npy", "x.npz"])
def test_truncated_files(put, name):
    array = np.random.default_rng(7).normal(size=(6, 3))
    whole = put(name, saved(**{"": array} if name == "x.npy" else {"X": array})).read_bytes()
    # Every kind of cut: nothing, inside the magic, the header, the data, the last byte.
    for size in (0, 3, 9, 60, len(whole) // 2, len(whole) - 1):
        with pytest.raises(InputFileError, match=name):
            read_input(put(name, whole[:size]))


def test_frames_are_read(put):
    """pandas' own files go through, so that the refusals above are not all there is."""
    frame = pd.DataFrame({"a": [1, 2], "b": [0.5, 1.5]})
    assert read_input(put("x.parquet", lambda path: frame.to_parquet(path))).n_rows == 2
