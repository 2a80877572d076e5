from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pytest

from isoweave.io import InputFileError, read_input, write_embedding

quick = pytest.mark.usefixtures("in_process")


def test_features(tmp_path):
    frame = pd.DataFrame({"a": [1, 2], "b": [0.5, 1.5], "c": np.array([1, 2], dtype="float32")})
    frame.to_parquet(tmp_path / "x.parquet")
    loaded = read_input(tmp_path / "x.parquet")
    np.testing.assert_array_equal(loaded.features, [[1, 0.5, 1], [2, 1.5, 2]])
    assert loaded.names is None


@quick
def test_names_in_index_or_first_column(tmp_path):
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]}, index=["p", "q"])
    frame.to_parquet(tmp_path / "x.parquet")
    assert read_input(tmp_path / "x.parquet").names == ("p", "q")
    frame.reset_index().to_parquet(tmp_path / "x.parquet", index=False)
    loaded = read_input(tmp_path / "x.parquet")
    assert loaded.names == ("p", "q")
    np.testing.assert_array_equal(loaded.features, [[1, 3], [2, 4]])


@quick
@pytest.mark.parametrize("names", [None, ("a", "b", "c")])
def test_edges(tmp_path, names):
    ids = names or (0, 1, 2)
    frame = pd.DataFrame({"i": [ids[0], ids[1]], "j": [ids[1], ids[2]], "distance": [1.5, 0.0]})
    frame.to_parquet(tmp_path / "g.parquet")
    loaded = read_input(tmp_path / "g.parquet", as_graph=True)
    assert loaded.names == names
    assert loaded.graph.nnz == 4
    np.testing.assert_array_equal(loaded.graph.toarray(), [[0, 1.5, 0], [1.5, 0, 0], [0, 0, 0]])


@quick
@pytest.mark.parametrize(
    ("columns", "as_graph", "message"),
    [
        ({"a": [1.0, None]}, False, "column 'a' has no value in row 1"),
        ({"a": [1.0], "b": ["x"]}, False, "column 'b' holds text"),
        ({"a": ["x"]}, False, "no column of numbers"),
        ({"a": [np.datetime64("2020-01-01")]}, False, "column 'a' has type timestamp"),
        ({"a": [1.0, np.inf]}, False, "inf at row 1, column 0"),
        ({"i": [0], "j": [1]}, True, "an edge list has 3 columns"),
        ({"i": [0], "j": ["b"], "d": [1.0]}, True, "both hold names or both hold row numbers"),
        ({"i": [0], "j": [1], "d": ["x"]}, True, "column 'd' must hold distances"),
        ({"i": [0], "j": [1.5], "d": [1.0]}, True, "vertex 1.5 in row 0 is not a row number"),
        ({"i": [0], "j": [1], "d": [-1.0]}, True, "distance -1.0 between vertices 0 and 1"),
        ({"i": [0, 1], "j": [1, 0], "d": [1.0, 2.0]}, True, r"two distances .* 1.0 \(edge 0\) and 2.0"),
    ],
)
def test_bad_tables(tmp_path, columns, as_graph, message):
    pd.DataFrame(columns).to_parquet(tmp_path / "x.parquet", index=False)
    with pytest.raises(InputFileError, match=message):
        read_input(tmp_path / "x.parquet", as_graph=as_graph)


def test_damaged_file(tmp_path):
    (tmp_path / "x.parquet").write_bytes(b"PAR1 and nothing else PAR1")
    with pytest.raises(InputFileError, match="not a Parquet file, or a damaged one"):
        read_input(tmp_path / "x.parquet")


def test_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "x.parquet").touch()
    with pytest.raises(ImportError, match=r"isoweave\[parquet\]"):
        read_input(tmp_path / "x.parquet")
    with pytest.raises(ImportError, match=r"isoweave\[parquet\]"):
        write_embedding(tmp_path / "y.parquet", np.zeros((2, 2)))
