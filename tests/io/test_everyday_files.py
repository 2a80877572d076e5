"""Files as people have them: pandas' headers, edge tables, semicolons, compressed files, meshes."""

import gzip
import struct

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import cdist

from isoweave import embed_graph
from isoweave.io import InputFileError, read_input

POINTS = np.random.default_rng(31).normal(size=(7, 3)).round(4)
SQUARE = np.array([[0.0, 0, 0], [3, 0, 0], [3, 4, 0], [0, 4, 0], [0, 0, 12]])
FACES = [(0, 1, 2, 3), (0, 1, 4)]


@pytest.mark.parametrize("index", [False, True])
def test_tables_of_pandas(put, index):
    path = put("x.csv", pd.DataFrame(POINTS).to_csv(index=index))
    np.testing.assert_array_equal(read_input(path).features, POINTS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0,1,2\n3,4,5\n6,7,8\n", [[3, 4, 5], [6, 7, 8]]),
        ("0,1\n0.5,2\n", [[0.5, 2]]),
        # Two whole numbers may be data.
        ("0,1\n3,4\n", [[0, 1], [3, 4]]),
        ("0,1,3\n3,4,5\n", [[0, 1, 3], [3, 4, 5]]),
        ("0,1,2\n", [[0, 1, 2]]),
    ],
)
def test_numbers_of_columns_are_a_header(put, text, expected):
    np.testing.assert_array_equal(read_input(put("x.csv", text)).features, expected)


def test_semicolons_with_decimal_commas(put):
    frame = pd.DataFrame(POINTS, columns=["x", "y", "z"], index=pd.Index(list("abcdefg"), name="name"))
    for named, index in ((frame, True), (frame, False), (frame * 1e-9, False)):
        loaded = read_input(put("x.csv", named.to_csv(sep=";", decimal=",", index=index)))
        np.testing.assert_allclose(loaded.features, named, rtol=1e-12)
        assert loaded.names == (tuple("abcdefg") if index else None)
    assert read_input(put("x.csv", "1;2\n3;4\n")).features.tolist() == [[1, 2], [3, 4]]
    graph = read_input(put("x.csv", "from;to;km\nA;B;1,5\nB;C;2\n"))
    assert (graph.kind, graph.names, graph.graph[0, 1]) == ("graph", ("A", "B", "C"), 1.5)
    with pytest.raises(InputFileError, match=r"line 2: cell 1 holds '1.000,5', not a number; write plain"):
        read_input(put("x.csv", "0,5;1\n1.000,5;2\n"))


EDGES = [
    "0,1,2.5\n1,2,1.5\n2,0,3\n",
    "a,b,c\n0,1,2.5\n1,2,1.5\n2,0,3\n",
    "source,target,weight\n0,1,2\n1,2,1\n",
]


@pytest.mark.parametrize("text", EDGES)
def test_lists_of_edges_are_asked_about(put, text):
    path = put("x.csv", text)
    with pytest.raises(
        InputFileError, match=r"line 1: .*lists? of edges.*--graph .as_graph=True. or --features"
    ):
        read_input(path)
    assert read_input(path, as_graph=True).graph[0, 1] > 0
    assert read_input(path, as_graph=False).features.shape[1] == 3


@pytest.mark.parametrize("header", ["source,target,distance", "From,To,Length", "i,j,d"])
def test_lists_of_distances_are_graphs(put, header):
    loaded = read_input(put("x.csv", f"{header}\nx,y,2.5\ny,z,1\n"))
    assert (loaded.kind, loaded.names) == ("graph", ("x", "y", "z"))


def test_points_are_not_taken_for_edges(put):
    """Heights over a grid have two columns of whole numbers, too."""
    grid = np.argwhere(np.ones((6, 6)))
    rows = np.column_stack((grid, grid.sum(axis=1) * 0.5))
    text = "\n".join(f"{x:.0f} {y:.0f} {z}" for x, y, z in rows)
    np.testing.assert_array_equal(read_input(put("x.txt", text)).features, rows)
    for name in ("x.csv", "x.txt"):
        body = pd.DataFrame(POINTS).to_csv(header=False, index=False, sep="," if name == "x.csv" else " ")
        assert read_input(put(name, body)).kind == "features"


def test_compressed(put):
    text = pd.DataFrame(POINTS).to_csv(index=False).encode()
    np.testing.assert_array_equal(read_input(put("x.csv.gz", gzip.compress(text))).features, POINTS)
    assert read_input(put("x.edges.gz", gzip.compress(b"a b 1\nb c 2\n"))).names == ("a", "b", "c")
    for content, said in (
        (b"1,2\n3,4\n", "not a .gz file"),
        (gzip.compress(text)[:-12], "not a .gz file, or a damaged one"),
        (gzip.compress(b"1,2\n3,x\n"), "line 2: cell 2 holds 'x'"),
        (gzip.compress(bytes((1 << 27) + 1)), "is refused"),
    ):
        with pytest.raises(InputFileError, match=said) as error:
            read_input(put("y.csv.gz", content))
        assert str(error.value.path).endswith("y.csv.gz")
    with pytest.raises(InputFileError, match="compressed twice"):
        read_input(put("x.csv.gz.gz", gzip.compress(gzip.compress(text))))


def ply(order):
    name = {"": "ascii", "<": "binary_little_endian", ">": "binary_big_endian"}[order]
    vertices = "element vertex 5\n" + "".join(f"property float {axis}\n" for axis in "xyz")
    faces = "property uchar red\nelement face 2\nproperty list uchar int vertex_indices\n"
    head = f"ply\nformat {name} 1.0\ncomment made by hand\n{vertices}{faces}end_header\n".encode()
    if order == "":
        rows = [[*place, 255] for place in SQUARE] + [[len(face), *face] for face in FACES]
        return head + "".join(" ".join(map(str, row)) + "\n" for row in rows).encode()
    body = b"".join(struct.pack(f"{order}fffB", *place, 9) for place in SQUARE)
    return head + body + b"".join(struct.pack(f"{order}B{len(f)}i", len(f), *f) for f in FACES)


PLACES = [f"{x} {y} {z}\n" for x, y, z in SQUARE]
MESHES = {
    "m.obj": "v " + "v ".join(PLACES) + "vn 0 0 1\nf 1/1/1 2//1 3 4\nf -5 -4 -1\n",
    "m.off": "OFF\n# made by hand\n5 2 0\n" + "".join(PLACES) + "4 0 1 2 3 255 0 0\n3 0 1 4\n",
    "m.ply": ply(""),
    "little.ply": ply("<"),
    "big.ply": ply(">"),
}


@pytest.mark.parametrize("name", MESHES)
def test_meshes_are_graphs(put, name):
    loaded = read_input(put(name, MESHES[name]))
    assert (loaded.kind, loaded.n_rows) == ("graph", 5)
    expected = cdist(SQUARE, SQUARE)
    expected[[2, 3, 4, 4], [4, 4, 2, 3]] = 0.0  # in no face together
    np.testing.assert_allclose(loaded.graph.toarray(), expected)
    assert embed_graph(loaded.graph, n_components=3).coordinates.shape == (5, 3)
    with pytest.raises(InputFileError, match="cannot read features with suffix"):
        read_input(put(name, MESHES[name]), as_graph=False)


BROKEN = {
    "face 1 is damaged": ply("<")[:-3],
    "the file ends before": ply("<")[:-60],
    "properties x, y and z": ply("<").replace(b"float x", b"float r"),
    "would take": ply("<").replace(b"vertex 5", b"vertex 99999999"),
}


@pytest.mark.parametrize("said", BROKEN)
def test_broken_meshes(put, said):
    with pytest.raises(InputFileError, match=said):
        read_input(put("m.ply", BROKEN[said]))
