from __future__ import annotations

import numpy as np
import pytest

from isoweave.io import InputFileError, read_input


def write(folder, name, text):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize(
    ("name", "text", "names"),
    [
        ("x.csv", "1,2\n3,4.5\n", None),
        ("x.csv", "a,b\n1,2\n3,4.5\n", None),
        ("x.csv", "a, b\r\n1, 2\r\n\r\n3, 4.5", None),
        ("x.csv", "\ufeffa,b\n1,2\n3,4.5\n", None),
        ("x.csv", '# made by hand\n"a","b"\n"1","2"\n3,4.5\n', None),
        ("x.csv", "id,a,b\np,1,2\nq,3,4.5\n", ("p", "q")),
        ("x.csv", '"New York, NY",1,2\nq,3,4.5\n', ("New York, NY", "q")),
        ("x.csv", ",0,1\n0,1,2\n1,3,4.5\n", ("0", "1")),  # as pandas writes its index
        ("x.tsv", "a\tb\n1\t2\n3\t4.5\n", None),
        ("x.txt", "1 2\n  3   4.5\n", None),
        ("x.TXT", "1.0e0\t2\n3 +4.5\n", None),
    ],
)
def test_tables(tmp_path, name, text, names):
    loaded = read_input(write(tmp_path, name, text))
    np.testing.assert_array_equal(loaded.features, [[1, 2], [3, 4.5]])
    assert loaded.names == names


def test_savetxt_round_trip(tmp_path):
    array = np.random.default_rng(3).normal(size=(20, 4))
    np.savetxt(tmp_path / "x.csv", array, delimiter=",", header="a,b,c,d", fmt="%.17g")
    np.testing.assert_array_equal(read_input(tmp_path / "x.csv").features, array)


@pytest.mark.parametrize(
    ("text", "message"),
    [
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
        (b"1,2\n3,\xff\n", r"line 2: not UTF-8 text \(byte 2 of the line\)"),
        (b"1,2\n3,\x004\n", "line 2: NUL byte"),
    ],
)
def test_bad_tables(tmp_path, text, message):
    with pytest.raises(InputFileError, match=message):
        read_input(write(tmp_path, "x.csv", text))


EDGES = np.array([[0, 1.5, 0, 0], [1.5, 0, 0, 2.0], [0, 0, 0, 0.25], [0, 2.0, 0.25, 0]])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("g.edges", "0 1 1.5\n1 3 2\n3 2 0.25\n0 2 0\n"),
        ("g.edges", "# i j d\nsource target length\n0 1 1.5\n1 3 2\n3 2 0.25\n2 0 0\n"),
        ("g.edges", "0,1,1.5\n1,3,2\n3,2,0.25\n0,2,0\n"),
        ("g.edges", "0\t1\t1.5\n1\t3\t2\n3\t2\t0.25\n0\t2\t0\n"),
        ("g.txt", "0 1 1.5\n1 0 1.5\n1 3 2\n3 2 0.25\n2 3 .25\n0 2 0\n"),  # some in both directions
        ("g.csv", "i,j,distance (km)\n0,1,1.5\n1,3,2\n3,2,0.25\n0,2,0\n"),
        ("g.tsv", "0\t1\t1.5\n1\t3\t2\n3\t2\t0.25\n0\t2\t0\n"),
    ],
)
def test_edge_lists_with_row_numbers(tmp_path, name, text):
    loaded = read_input(write(tmp_path, name, text), as_graph=None if name == "g.edges" else True)
    assert loaded.kind == "graph"
    assert loaded.names is None
    assert loaded.graph.nnz == 8  # four edges, the one of length zero included
    np.testing.assert_array_equal(loaded.graph.toarray(), EDGES)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("g.edges", "Bonn Köln 27\nKöln Essen 58\n"),
        ("g.edges", "a b d\nBonn Köln 27\nKöln Essen 58\n"),
        ("g.csv", '"Bonn","Köln",27\nKöln,Essen,58\n'),
    ],
)
def test_edge_lists_with_names(tmp_path, name, text):
    loaded = read_input(write(tmp_path, name, text), as_graph=True)
    assert loaded.names == ("Bonn", "Köln", "Essen")
    np.testing.assert_array_equal(loaded.graph.toarray(), [[0, 27, 0], [27, 0, 58], [0, 58, 0]])


def test_names_with_spaces_need_tabs(tmp_path):
    loaded = read_input(write(tmp_path, "g.edges", "New York\tBoston\t306\n"))
    assert loaded.names == ("New York", "Boston")


def test_vertices_no_edge_names_are_isolated(tmp_path):
    graph = read_input(write(tmp_path, "g.edges", "0 1 1\n4 5 1\n")).graph
    assert graph.shape == (6, 6)
    np.testing.assert_array_equal(np.diff(graph.indptr), [1, 1, 0, 0, 1, 1])


@pytest.mark.parametrize(
    ("text", "message"),
    [
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
        ("0 1 1\n0 x 1\n", "line 2: vertex 'x' is not an integer, as on line 1"),
        ("0 1 1\n0 1.0 1\n", "line 2: vertex '1.0' is not an integer"),
        ("0 -1 1\n", "line 1: vertex -1 is not a row number"),
        ("0 1 1\n0 99999999999999999999 1\n", "line 2: vertex 99999999999999999999 is not a row number"),
        ("0 1 1\n0 2000000000 1\n", "line 2: a 2000000001 x 2000000001 matrix with only 2 entries"),
        ("0 1 1\n1 2 1\n1 0 2\n", r"line 3: two distances for one edge: 1.0 \(line 1\) and 2.0"),
        ("a,b,1\n,b,2\n", "line 2: empty vertex name"),
    ],
)
def test_bad_edge_lists(tmp_path, text, message):
    with pytest.raises(InputFileError, match=message):
        read_input(write(tmp_path, "g.edges", text))


def test_edges_are_not_features(tmp_path):
    with pytest.raises(InputFileError, match="cannot read features with suffix '.edges'"):
        read_input(write(tmp_path, "g.edges", "0 1 1\n"), as_graph=False)
