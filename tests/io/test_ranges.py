"""Edges read by ranges: the same whoever reads which part, and damaged files refused with a reason."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from isoweave.graph import knn_graph
from isoweave.io import InputFileError, open_edges

GRAPH = knn_graph(np.random.default_rng(0).random((200, 2)), 5).to_matrix()
COO = GRAPH.tocoo()
LIST = {"source": COO.row, "target": COO.col, "distance": COO.data}


def write_parquet(path, columns=LIST, rows=150):
    pq.write_table(pa.table(columns), path, row_group_size=rows)


def write_parts(path, n_parts=4, name="part-{k:02d}-of-{n:02d}.npz"):
    path.mkdir()
    for k in range(n_parts):
        np.savez(path / name.format(k=k, n=n_parts), **{c: a[k::n_parts] for c, a in LIST.items()})


WRITERS = {
    "csr.npz": lambda path: sp.save_npz(path, GRAPH),
    "csc.npz": lambda path: sp.save_npz(path, GRAPH.tocsc(), compressed=False),
    "coo.npz": lambda path: sp.save_npz(path, COO),
    "list.npz": lambda path: np.savez(path, **LIST),
    "list.parquet": write_parquet,
    "folder": write_parts,
}


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("n_readers", [1, 2, 7])
def test_ranges_make_up_the_graph(tmp_path, name, n_readers):
    WRITERS[name](tmp_path / name)
    edges = open_edges(tmp_path / name)
    assert edges.n_entries == GRAPH.nnz
    assert edges.n_vertices in (0, 200)
    bounds = [edges.n_entries * k // n_readers for k in range(n_readers + 1)]
    pieces = []
    for first, last in pairwise(bounds):
        found = list(edges.pieces(first, last, at_once=37))
        assert sum(len(i) for i, _, _ in found) == last - first
        pieces += found
    i, j, lengths = (np.concatenate(column) for column in zip(*pieces, strict=True))
    assert i.dtype == j.dtype == np.int64
    found = sp.coo_array((lengths, (i, j)), shape=GRAPH.shape).tocsr()
    assert abs(found - GRAPH).nnz == 0


def read_all(path):
    edges = open_edges(path)
    ends = [max(i.max(), j.max()) for i, j, _ in edges.pieces(0, edges.n_entries)]
    edges.check_size(1 + int(max(ends)))


def refused(path, tmp_path):
    with pytest.raises(InputFileError) as caught:
        read_all(path)
    return str(caught.value).replace(str(tmp_path), "")


def changed(column, at, value):
    array = LIST[column].astype(np.float64 if column == "distance" else np.int64)
    array[at] = value
    return LIST | {column: array}


ENDS = {k: LIST[k] for k in ("source", "target")}
ROWS = {"format": b"csr", "shape": (3, 3), "data": [1.0, 2.0], "indices": [1, 2], "indptr": [0, 2, 1, 2]}
EDGE = {"format": b"coo", "shape": (3, 3), "data": [1.0], "row": [0], "col": [3]}
ARCHIVES = [
    (ROWS, "bad.npz: array 'indptr' must rise from 0 to 2"),
    (EDGE | {"shape": (3, 4)}, "a distance graph needs a square matrix"),
    (EDGE, "vertex 3; vertices are numbered from 0 to 2"),
    (changed("distance", 5, np.nan), "distance nan between vertices"),
    (changed("distance", 5, -1.0), "distances must be finite and not negative"),
    (changed("source", 3, -2), "vertex -2; vertices are numbered from 0 on"),
    (changed("source", 3, 10**12), "a graph of 1,000,000,000,001 vertices with only"),
    (changed("target", 0, LIST["source"][0]), "from itself; that must be zero"),
    (ENDS, "expected arrays source, target, distance, or a sparse"),
    (LIST | {"distance": COO.data[:-1]}, "must be equally long; they have source"),
    (LIST | {"source": COO.row.astype(float)}, "must be 1-D integers, got float64"),
    ({"features": np.zeros((4, 2))}, "found 'features' (4, 2)"),
]
PARQUET = [
    (changed("distance", 5, np.inf), "distance inf between vertices"),
    (ENDS, "a list of edges has source, target, distance: two columns"),
    (LIST | {"source": [str(i) for i in COO.row]}, "found 'source' (string)"),
    (LIST | {"distance": [None, *COO.data[1:]]}, "column 'distance' has no value in 1 rows"),
]


def test_lists_that_are_no_graph(tmp_path):
    def archive(path, columns):
        np.savez(path, **columns)

    for name, write, cases in (("bad.npz", archive, ARCHIVES), ("bad.parquet", write_parquet, PARQUET)):
        for columns, reason in cases:
            write(tmp_path / name, columns)
            said = refused(tmp_path / name, tmp_path)
            assert said.startswith(f"/{name}: ")
            assert reason in said


def test_damaged_files(tmp_path):
    whole = tmp_path / "whole.npz"
    sp.save_npz(whole, GRAPH, compressed=False)
    data = whole.read_bytes()
    for name, content in (("cut.npz", data[: len(data) // 2]), ("none.npz", b""), ("none.parquet", b"PAR1")):
        (tmp_path / name).write_bytes(content)
        assert "damaged" in refused(tmp_path / name, tmp_path)
    assert refused(tmp_path / "missing.npz", tmp_path) == "/missing.npz: no such file"
    (tmp_path / "a.csv").write_text("0,1,2\n")
    assert "not '.csv'" in refused(tmp_path / "a.csv", tmp_path)


def test_missing_parts_and_parts_of_the_wrong_shape(tmp_path):
    write_parts(tmp_path / "a")
    (tmp_path / "a" / "part-02-of-04.npz").unlink()
    assert refused(tmp_path / "a", tmp_path) == "/a: part 2 is missing; found 3 of 4 parts"
    write_parts(tmp_path / "b", name="{k}.npz")
    (tmp_path / "b" / "1.npz").unlink()
    assert "part 1 is missing" in refused(tmp_path / "b", tmp_path)
    (tmp_path / "c").mkdir()
    assert "the folder holds no parts" in refused(tmp_path / "c", tmp_path)
    for k, n in enumerate((200, 200, 7)):
        sp.save_npz(tmp_path / "c" / f"{k}.npz", sp.coo_array(([1.0], ([0], [1])), shape=(n, n)))
    said = refused(tmp_path / "c", tmp_path)
    assert "of a graph of 200 vertices, and 2.npz of one of 7" in said
