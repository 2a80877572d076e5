from __future__ import annotations

import numpy as np
import pytest

from isoweave.io import InputFileError, read_embedding, write_embedding

POINTS = np.random.default_rng(3).normal(size=(4, 2))
EDGES = np.array([[0, 1], [1, 2], [2, 3]], dtype=np.int32)
LENGTHS = np.array([1.0, 0.0, 2.5])


def whole(**changes):
    """Arrays as ``isoweave embed`` writes them, with changes; None leaves one out."""
    arrays = {
        "component_labels": np.zeros(4, dtype=np.int32),
        "energy": 1.5,
        "relative_energy": 0.25,
        "status": "converged",
        "n_iter": 3,
        "dropped_edges": np.array([[0, 1]], dtype=np.int32),
        "stretch": np.ones((4, 2)),
        "edges": EDGES,
        "edge_lengths": LENGTHS,
        "history": np.array([[0, 9.0, 1.0, 1.0], [1, 1.5, 0.1, 1.0]]),
    }
    return {key: value for key, value in (arrays | changes).items() if value is not None}


def test_everything_comes_back(tmp_path):
    path = tmp_path / "map.npz"
    write_embedding(path, POINTS, names=list("abcd"), parameters={"n_neighbors": 7}, **whole())
    found = read_embedding(path)
    np.testing.assert_array_equal(found.coordinates, POINTS)
    assert found.names == ("a", "b", "c", "d")
    assert found.graph.n_edges == 3
    np.testing.assert_array_equal(found.graph.to_matrix().toarray()[EDGES[:, 0], EDGES[:, 1]], LENGTHS)
    # An edge of length zero is an edge.
    assert found.graph.degrees.tolist() == [1, 2, 2, 1]
    assert (found.status, found.energy, found.relative_energy, found.n_iter) == ("converged", 1.5, 0.25, 3)
    assert [step.energy for step in found.history] == [9.0, 1.5]
    assert found.history[1].iteration == 1
    assert found.dropped_edges.tolist() == [[0, 1]]
    assert found.parameters == {"n_neighbors": 7}


def test_archives_of_earlier_versions(tmp_path):
    """Without edges, history and relative energy."""
    path = tmp_path / "map.npz"
    older = whole(edges=None, edge_lengths=None, history=None, relative_energy=None)
    write_embedding(path, POINTS, parameters={}, **older)
    found = read_embedding(path)
    assert found.graph is None
    assert found.history == ()
    assert found.relative_energy is None
    np.testing.assert_array_equal(found.stretch, np.ones((4, 2)))


def test_vertices_that_were_not_embedded(tmp_path):
    points = POINTS.copy()
    points[2] = np.nan
    write_embedding(tmp_path / "map.npz", points, **whole())
    np.testing.assert_array_equal(read_embedding(tmp_path / "map.npz").coordinates, points)


@pytest.mark.parametrize("name", ["map.csv", "map.npy"])
def test_coordinates_of_any_tool(tmp_path, name):
    write_embedding(tmp_path / name, POINTS)
    found = read_embedding(tmp_path / name)
    np.testing.assert_array_equal(found.coordinates, POINTS)
    assert found.graph is None
    np.savez(tmp_path / "other.npz", coords=POINTS)
    np.testing.assert_array_equal(read_embedding(tmp_path / "other.npz").coordinates, POINTS)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        (
            {"edges": np.array([[0, 1], [1, 2], [2, 4]])},
            r"'edges': row 2 is \[2, 4\], but vertices are 0 to 3",
        ),
        ({"edges": np.array([[0, 1], [-1, 2], [2, 3]])}, r"'edges': row 1"),
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
        ({"parameters": np.array("[1]")}, "'parameters': expected a JSON object"),
        ({"parameters": np.array("{")}, "'parameters': not JSON"),
        ({"parameters": np.array("[" * 100_000)}, "'parameters': not JSON"),
        ({"embedding": np.zeros(4)}, r"'embedding': expected numbers of shape \(n, N\)"),
        ({"embedding": np.full((4, 2), np.inf)}, "'embedding': row 0 is infinite"),
        ({"vertex_names": np.array(["a", "b"])}, "'vertex_names': expected 4 names"),
    ],
)
def test_damage_is_named(tmp_path, changes, match):
    path = tmp_path / "map.npz"
    np.savez(path, **({"embedding": POINTS} | whole(**changes)))
    with pytest.raises(InputFileError, match=match):
        read_embedding(path)


def test_missing_file(tmp_path):
    with pytest.raises(InputFileError, match="no such file"):
        read_embedding(tmp_path / "map.npz")
