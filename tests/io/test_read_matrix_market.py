from __future__ import annotations

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from isoweave.io import InputFileError, read_input

BANNER = "%%MatrixMarket matrix coordinate real general\n"


def write(folder, text):
    path = folder / "g.mtx"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize("symmetry", ["general", "symmetric"])
@pytest.mark.parametrize("field", ["real", "integer"])
def test_agrees_with_scipy(tmp_path, symmetry, field):
    rng = np.random.default_rng(11)
    dense = np.where(rng.random((9, 9)) < 0.4, rng.integers(1, 9, size=(9, 9)), 0)
    dense = np.maximum(dense, dense.T)
    np.fill_diagonal(dense, 0)
    if field == "real":
        dense = dense * 0.3
    scipy.io.mmwrite(
        tmp_path / "g.mtx",
        sp.coo_array(dense),
        comment="scipy's",
        field=field,
        symmetry=symmetry,
        precision=17,
    )
    loaded = read_input(tmp_path / "g.mtx")
    assert loaded.kind == "graph"
    np.testing.assert_array_equal(loaded.graph.toarray(), dense)


def test_explicit_zero_stays(tmp_path):
    text = "%%MatrixMarket matrix coordinate real symmetric\n% note\n\n3 3 2\n2 1 0\n3 1 1.5\n\n"
    graph = read_input(write(tmp_path, text)).graph
    assert graph.nnz == 4
    assert sorted(graph.data) == [0, 0, 1.5, 1.5]


def test_matrix_that_is_not_square_is_features(tmp_path):
    path = write(tmp_path, BANNER + "2 3 2\n1 3 -1\n2 1 4\n")
    np.testing.assert_array_equal(read_input(path).features, [[0, 0, -1], [4, 0, 0]])
    with pytest.raises(InputFileError, match="needs a square matrix, got 2 x 3"):
        read_input(path, as_graph=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: not a Matrix Market file"),
        ("1 1 1\n", "line 1: not a Matrix Market file"),
        ("%%MatrixMarket matrix array real general\n2 2\n1\n1\n1\n1\n", "layout 'array' is not supported"),
        ("%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 2\n", "holds no distances"),
        ("%%MatrixMarket matrix coordinate complex general\n", "type 'complex' are not supported"),
        ("%%MatrixMarket matrix coordinate real hermitian\n", "symmetry 'hermitian' is not supported"),
        (BANNER, "size line .* is missing"),
        (BANNER + "2 2\n", "line 2: the size line needs three integers"),
        (BANNER + "2 -2 1\n", "line 2: '-2' is not a positive integer"),
        (BANNER + "2 2 999999\n", "line 2: the file is too short for the 999999 entries"),
        (BANNER + "999999999 999999999 1\n1 2 1\n", "line 2: a 999999999 x 999999999 matrix"),
        ("%%MatrixMarket matrix coordinate real symmetric\n2 3 0\n", "a symmetric matrix cannot be 2 x 3"),
        (BANNER + "2 2 2\n1 2 1\n", "2 entries declared, 1 found"),
        (BANNER + "2 2 1\n1 2 1\n2 1 1\n", "line 4: more entries than the 1 declared"),
        (BANNER + "2 2 1\n1 3 1\n", r"line 3: entry \(1, 3\) is outside the 2 x 2 matrix"),
        (BANNER + "2 2 1\n0 1 1\n", r"line 3: entry \(0, 1\) is outside"),
        (BANNER + "2 2 1\n1 2\n", "line 3: expected: row column value"),
        (BANNER + "2 2 1\n1 2 x\n", "line 3: value 'x' is not a number"),
        (BANNER + "2 2 1\n1 2 1_0\n", "line 3: value '1_0' is not a number"),
        (BANNER + "2 2 1\n1 2 -1\n", "distance -1.0 between vertices 0 and 1"),
        (BANNER + "2 2 1\n1 2 nan\n", "distance nan between vertices 0 and 1"),
        (BANNER + "2 2 2\n1 2 1\n1 2 1\n", r"line 4: entry \(1, 2\) stands on line 3 already"),
        (BANNER.encode() + b"2 2 1\n1 2 \x00\n", "line 3: NUL byte"),
        (BANNER.encode() + b"2 2 1\n\xb2 2 1\n", "line 3: .* is not a positive integer"),
        (BANNER + "2 2 1\n" + "1" * 600_000, "line longer than 524288 bytes"),
    ],
)
def test_bad_files(tmp_path, text, message):
    with pytest.raises(InputFileError, match=message):
        read_input(write(tmp_path, text))


def test_symmetric_file_with_both_triangles(tmp_path):
    text = "%%MatrixMarket matrix coordinate real symmetric\n2 2 2\n2 1 1\n1 2 1\n"
    with pytest.raises(InputFileError, match=r"line 4: entry \(2, 1\) stands on line 3 already"):
        read_input(write(tmp_path, text))
