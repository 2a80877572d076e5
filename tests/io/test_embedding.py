"""Maps in files: what was written comes back, whole or not at all."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from isoweave import IsometricEmbedding
from isoweave.graph import graph_from_matrix
from isoweave.io import read_embedding, read_input, write_embedding
from isoweave.optimise import StepRecord
from isoweave.result import Embedding

POINTS = np.random.default_rng(5).normal(size=(4, 2)) * [1e-9, 1e9]
NAMES = ("a", "b, c", 'say "d"', "é")
EDGES, LENGTHS = np.array([[0, 1], [1, 2], [2, 3]]), np.array([1.0, 0.0, 2.5])
MAP = Embedding(
    POINTS,
    graph=graph_from_matrix(sp.coo_array((LENGTHS, tuple(EDGES.T)), shape=(4, 4))),
    stretch=np.ones((4, 2)),
    component_labels=np.zeros(4, dtype=np.int32),
    dropped_edges=np.array([[0, 1]], dtype=np.int32),
    energy=1.5,
    relative_energy=0.25,
    history=(StepRecord(0, 9.0, 1.0, 1.0), StepRecord(1, 1.5, 0.1, 1.0)),
    status="converged",
    names=NAMES,
    parameters={"n_neighbors": 7, "metric": None, "callback": print},
)


def test_everything_comes_back(tmp_path):
    write_embedding(tmp_path / "map.npz", MAP)
    found = read_embedding(tmp_path / "map.npz")
    np.testing.assert_array_equal(found.coordinates, POINTS)
    assert found.names == NAMES
    # An edge of length zero is an edge.
    assert found.graph.degrees.tolist() == [1, 2, 2, 1]
    np.testing.assert_array_equal(found.graph.to_matrix().toarray()[tuple(EDGES.T)], LENGTHS)
    for key in ("energy", "relative_energy", "status", "history", "n_iter"):
        assert getattr(found, key) == getattr(MAP, key)
    for key in ("stretch", "component_labels", "dropped_edges"):
        np.testing.assert_array_equal(getattr(found, key), getattr(MAP, key))
    assert found.parameters == {"n_neighbors": 7, "metric": None}
    points = POINTS.copy()
    points[2] = np.nan  # a vertex that was not embedded
    write_embedding(tmp_path / "map.npz", replace(MAP, coordinates=points))
    np.testing.assert_array_equal(read_embedding(tmp_path / "map.npz").coordinates, points)


def test_arrays_of_an_archive(tmp_path):
    """Whatever reads .npz finds them; the names are promised."""
    X = np.random.default_rng(7).normal(size=(40, 3)).astype(np.float32)
    model = IsometricEmbedding(n_neighbors=6).fit(X)
    write_embedding(tmp_path / "map.npz", model)
    keys = "embedding component_labels stretch energy relative_energy status parameters n_iter history edges"
    with np.load(tmp_path / "map.npz", allow_pickle=False) as file:
        assert set(file) == {*keys.split(), "edge_lengths", "dropped_edges"}
        assert (file["embedding"].dtype, file["edges"].dtype) == (np.float32, np.int32)
        np.testing.assert_array_equal(file["embedding"], model.embedding_)
        assert (json.loads(str(file["parameters"]))["n_neighbors"], file["n_iter"]) == (6, model.n_iter_)
        rebuilt = sp.coo_array((file["edge_lengths"], tuple(file["edges"].T)), shape=(40, 40))
        np.testing.assert_array_equal((rebuilt + rebuilt.T).toarray(), model.graph_.toarray())


def test_coordinates_of_any_tool_and_of_earlier_versions(tmp_path):
    for key in ("coordinates", "truth", "parameters", "coords", "X"):
        for names in (np.array([b"a", b"b", b"c", b"d"]), np.array(list("abcd")), np.arange(4)):
            np.savez(tmp_path / "other.npz", **{key: POINTS, "vertex_names": names})
            found = read_embedding(tmp_path / "other.npz")
            np.testing.assert_array_equal(found.coordinates, POINTS)
            assert key == "X" or found.names in (("a", "b", "c", "d"), ("0", "1", "2", "3"))
    np.save(tmp_path / "line.npy", POINTS[:, 0])
    np.testing.assert_array_equal(read_embedding(tmp_path / "line.npy").coordinates, POINTS[:, :1])
    # Without names, edges, history and relative energy.
    known = {"energy": 1.5, "n_iter": 3, "stretch": np.ones((4, 2)), "parameters": "{}"}
    np.savez(tmp_path / "map.npz", embedding=POINTS, **known)
    found = read_embedding(tmp_path / "map.npz")
    assert (found.names, found.graph, found.history, found.relative_energy) == (None, None, (), None)
    np.testing.assert_array_equal(found.stretch, np.ones((4, 2)))


@pytest.mark.parametrize("suffix", [".npy", ".csv", ".parquet"])
@pytest.mark.parametrize("names", [None, NAMES])
@pytest.mark.usefixtures("in_process")
def test_tables_come_back(tmp_path, suffix, names):
    path = tmp_path / f"y{suffix}"
    write_embedding(path, POINTS, names=names)
    for found in (read_input(path), read_embedding(path)):
        assert found.names == (None if suffix == ".npy" else names)
    np.testing.assert_array_equal(read_embedding(path).coordinates, POINTS)
    if suffix != ".npy" and names:
        frame = (pd.read_csv if suffix == ".csv" else pd.read_parquet)(path)
        assert list(frame.columns) == ["vertex", "x1", "x2"]
        assert tuple(frame["vertex"]) == NAMES
