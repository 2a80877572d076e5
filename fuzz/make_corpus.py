"""Write the seed corpus again: small valid files of every format, one folder per target.

python fuzz/make_corpus.py            all but .h5ad, which needs anndata
python fuzz/make_corpus.py --h5ad     those too
"""

from __future__ import annotations

import argparse
import io
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp

CORPUS = Path(__file__).resolve().parent.parent / "tests" / "fuzz" / "corpus"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--h5ad", action="store_true")
    files = npy_files() | npz_files() | text_files() | parquet_files() | graph_files()
    if parser.parse_args().h5ad:
        files |= h5ad_files()
    for name, data in files.items():
        path = CORPUS / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        print(f"{len(data):7} {name}")


def example(seed: int = 3, shape: tuple[int, int] = (5, 3)) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def distances() -> sp.csr_array:
    i, j, d = np.array([0, 1, 2, 3, 0]), np.array([1, 2, 3, 4, 4]), np.array([1.0, 0.0, 2.5, 0.5, 3.0])
    both = (np.concatenate((d, d)), (np.concatenate((i, j)), np.concatenate((j, i))))
    return sp.csr_array(both, shape=(5, 5))


def npy_files() -> dict[str, bytes]:
    arrays = {
        "float64": example(),
        "float32": example().astype(np.float32),
        "big_endian": example().astype(">f8"),
        "fortran": np.asfortranarray(example()),
        "int8": np.arange(12, dtype=np.int8).reshape(4, 3),
        "bool": np.eye(4, dtype=bool),
        "square": np.abs(example(5, (4, 4))),
        "longdouble": example().astype(np.longdouble),
        "half": example().astype(np.float16),
        "text": np.array(["a", "bc", "d"]),
        "bytes": np.array([b"a", b"bc", b"d"]),
        "column": np.arange(5.0),
        "scalar": np.array(3.0),
        "empty": np.zeros((0, 3)),
        "complex": example().astype(complex),
        "dates": np.array(["2020-01-01"], dtype="datetime64[D]"),
        "records": np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]),
    }
    return {f"npy/{name}.npy": _npy(array) for name, array in arrays.items()}


def _npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def npz_files() -> dict[str, bytes]:
    graph = distances()
    csr = {"data": graph.data, "indices": graph.indices, "indptr": graph.indptr}
    files = {
        "npz_dense/plain.npz": _npz(X=example(), labels=np.arange(5)),
        "npz_dense/deflated.npz": _npz(True, features=example().astype("f4")),
        "npz_dense/embedding.npz": _npz(
            embedding=example(), vertex_names=np.array(list("abcde")), parameters=np.array("{}")
        ),
        "npz_dense/labels.npz": _npz(True, y=np.array(["p", "q", "p"]), Z=example()),
        "npz_dense/square.npz": _npz(A=np.abs(example(5, (4, 4)))),
        "map/whole.npz": _npz(True, **_map()),
        "map/stored.npz": _npz(**_map(vertex_names=np.array(list("abcde")))),
        "map/older.npz": _npz(embedding=example(), energy=np.array(1.5), n_iter=np.array(3)),
        "npz_sparse/bare.npz": _npz(**csr),
        "npz_sparse/int64.npz": _npz(
            True, **csr | {"indptr": graph.indptr.astype(np.int64), "shape": np.array([5, 5])}
        ),
    }
    for layout in ("csr", "csc", "coo"):
        for compressed in (False, True):
            buffer = io.BytesIO()
            sp.save_npz(buffer, graph.asformat(layout), compressed=compressed)
            files[f"npz_sparse/{layout}_{'deflated' if compressed else 'stored'}.npz"] = buffer.getvalue()
    return files


def _map(**others: np.ndarray) -> dict[str, np.ndarray]:
    """Arrays as ``isoweave embed`` writes them."""
    upper = sp.triu(distances(), k=1, format="coo")
    return {
        "embedding": example(),
        "component_labels": np.zeros(5, np.int32),
        "energy": np.array(1.5),
        "relative_energy": np.array(0.25),
        "status": np.array("converged"),
        "n_iter": np.array(1),
        "dropped_edges": np.array([[0, 1]], np.int32),
        "stretch": np.ones((5, 3)),
        "edges": np.column_stack((upper.row, upper.col)).astype(np.int32),
        "edge_lengths": upper.data,
        "history": np.array([[0, 9.0, 1.0, 1.0], [1, 1.5, 0.1, 1.0]]),
        "parameters": np.array('{"n_neighbors": 7}'),
    } | others


def _npz(compressed: bool = False, /, **arrays: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    method = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, array in arrays.items():
            # A fixed date, so that the corpus has the same bytes whenever it is made.
            archive.writestr(zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0)), _npy(array), method)
    return buffer.getvalue()


def text_files() -> dict[str, bytes]:
    banner = "%%MatrixMarket matrix coordinate "
    texts = {
        "mtx/general.mtx": banner + "real general\n% note\n\n3 3 4\n1 2 1.5\n2 1 1.5\n2 3 0\n3 2 0\n",
        "mtx/symmetric.mtx": banner + "real symmetric\n4 4 3\n2 1 1e-3\n3 1 .5\n4 3 2\n\n",
        "mtx/integer.mtx": banner + "integer symmetric\r\n3 3 2\r\n2 1 7\r\n3 2 12\r\n",
        "mtx/wide.mtx": banner + "real general\n2 3 2\n1 3 -1\n2 1 4\n",
        "mtx/pattern.mtx": banner + "pattern symmetric\n2 2 1\n2 1\n",
        "mtx/array.mtx": "%%MatrixMarket matrix array real general\n2 2\n1\n2\n3\n4\n",
        "columns/numbers.csv": "age,size\n3,1.5\n,2\n",
        "columns/names.csv": 'vertex,age,town\na,3,"Ulm, Bonn"\nb,,Köln\n',
        "columns/tabs.tsv": "id\tx\na\t1\nb\tinf\n",
        "anchors/numbers.csv": "0,3,4\n2,1,1\n",
        "anchors/header.csv": "town,x,y\nb,3,4\na,0,0\n",
        "anchors/spaces.txt": "# known\n1 0.5 -1e3 2\n4 0 0 0\n",
        "text/plain.csv": "1,2\n3,4.5\n-1e-3,.5\n",
        "text/header.csv": "id,a,b\np,1,2\nq,3,4.5\nr,5,6\n",
        "text/pandas.csv": ",0,1\n0,1,2\n1,3,4.5\n",
        "text/quoted.csv": '\ufeff# note\n"a","b, c"\n"1","2"\n3,4.5\n',
        "text/crlf.csv": "a, b\r\n1, 2\r\n\r\n3, 4.5",
        "text/tabs.tsv": "a\tb\n1\t2\n3\t4.5\n",
        "text/spaces.txt": "1 2\n  3   +4.5\n5\t6\n",
        "text/names.txt": "Köln 1 2\nBonn 3 4\n",
        "text/numbers.edges": "0 1 1.5\n1 3 2\n3 2 0.25\n0 2 0\n1 0 1.5\n",
        "text/header.edges": "# made by hand\nsource target length\n0 1 1.5\n1 2 2\n",
        "text/names.edges": "Bonn Köln 27\nKöln Essen 58\nEssen Bonn 77\n",
        "text/commas.edges": 'i,j,distance (km)\n"New York",Boston,306\nBoston,Albany,171\n',
        "text/labels.csv": "id,label\na,red\nb,blue\nc,red\n",
        "text/long.edges": "".join(f"{k} {k + 1} {k / 7:.17g}\n" for k in range(60)),
    }
    return {name: text.encode() for name, text in texts.items()}


def parquet_files() -> dict[str, bytes]:
    words = pa.array(["p", "q", "r", "p"])
    tables = {
        "numbers": pa.table({"a": [1.0, 2.0], "b": pa.array([1, 2], pa.int8()), "c": [True, False]}),
        "names": pa.table(
            {"id": words, "x": [1.0, 2.0, 3.0, 4.0], "y": pa.array([1, 2, 3, 4], pa.float32())}
        ),
        "edges": pa.table({"i": [0, 1, 2], "j": [1, 2, 3], "d": [1.5, 0.0, 2.0]}),
        "named_edges": pa.table({"i": words, "j": pa.array(["q", "r", "p", "q"]), "d": [1.0, 2.0, 3.0, 1.0]}),
        "categories": pa.table({"id": words.dictionary_encode(), "x": [1.0, 2.0, 3.0, 4.0]}),
        "nulls": pa.table({"a": [1.0, None, 3.0]}),
        "nested": pa.table({"a": [[1.0], [2.0, 3.0]]}),
        "dates": pa.table({"a": pa.array([1, 2], pa.timestamp("s"))}),
        "empty": pa.table({"a": pa.array([], pa.float64())}),
    }
    files = {name: _parquet(table) for name, table in tables.items()}
    many = pa.table({"id": [f"n{k % 7}" for k in range(300)], "x": np.arange(300) % 5 / 3})
    files["groups"] = _parquet(many, row_group_size=100, data_page_size=256)
    files["version_2"] = _parquet(many, data_page_version="2.0", compression="zstd")
    files["plain"] = _parquet(many, use_dictionary=False, compression="none")
    files["gzip"] = _parquet(many, compression="gzip")
    files["delta"] = _parquet(
        many, use_dictionary=False, column_encoding={"id": "DELTA_BYTE_ARRAY", "x": "BYTE_STREAM_SPLIT"}
    )
    return {f"parquet/{name}.parquet": data for name, data in files.items()}


def _parquet(table: pa.Table, **options: object) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(table, buffer, **options)
    return buffer.getvalue()


def graph_files() -> dict[str, bytes]:
    """What :func:`fuzz_targets.matrix_from_bytes` takes for a sparse matrix."""
    graph = distances()
    files = {}
    for code, layout in enumerate(("csr", "csc", "coo")):
        matrix = graph.asformat(layout)
        indices = (matrix.row, matrix.col) if layout == "coo" else (matrix.indptr, matrix.indices)
        for wide in (0, 1):
            body = b"".join(
                len(part).to_bytes(2, "little") + part.astype(np.int64 if wide else np.int32).tobytes()
                for part in indices
            )
            head = bytes([code, wide, 0]) + (5).to_bytes(4, "little")
            values = len(matrix.data).to_bytes(2, "little") + matrix.data.tobytes()
            files[f"graph/{layout}{64 if wide else 32}.bin"] = head + body + values
    return files


def h5ad_files() -> dict[str, bytes]:
    import tempfile

    import anndata

    graph, files = sp.csr_matrix(distances()), {}
    names = {"obs": {"kind": list("ababa")}}
    sets = {
        "full": anndata.AnnData(example(), **names, obsm={"X_pca": example(4)}, obsp={"distances": graph}),
        "sparse": anndata.AnnData(sp.csr_matrix(np.maximum(example(), 0))),
        "columns": anndata.AnnData(sp.csc_matrix(np.maximum(example(), 0))),
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, data in sets.items():
            data.obs_names = [f"cell{k}" for k in range(5)]
            path = Path(folder, f"{name}.h5ad")
            data.write_h5ad(path, compression="gzip" if name == "sparse" else None)
            files[f"h5ad/{name}.h5ad"] = path.read_bytes()
    return files


if __name__ == "__main__":
    main()
