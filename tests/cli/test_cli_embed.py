from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.neighbors import kneighbors_graph
from typer.testing import CliRunner

from isoweave.cli import app
from isoweave.metrics import procrustes_error


@pytest.fixture(scope="module")
def sheet():
    """Points of a square."""
    return np.random.default_rng(19).uniform(size=(300, 2))


@pytest.fixture(scope="module")
def graph(sheet):
    directed = kneighbors_graph(sheet, 8, mode="distance")
    return sp.csr_array(directed.maximum(directed.T))


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_features_and_graph_agree(tmp_path, sheet, graph):
    """The same neighbours, given as points or as distances, make the same map."""
    np.save(tmp_path / "x.npy", sheet)
    sp.save_npz(tmp_path / "a.npz", graph)
    options = ("--n-components", 2, "--seed", 5)
    from_features = run("embed", tmp_path / "x.npy", "-o", tmp_path / "y.npz", "-k", 8, *options)
    from_graph = run("embed", tmp_path / "a.npz", "-o", tmp_path / "z.npz", *options)
    assert from_features.exit_code == 0, from_features.output
    assert from_graph.exit_code == 0, from_graph.output
    y = np.load(tmp_path / "y.npz")["embedding"]
    z = np.load(tmp_path / "z.npz")["embedding"]
    assert y.shape == (300, 2)
    assert procrustes_error(y, z) < 1e-10
    assert procrustes_error(sheet, y) < 1e-2


def test_output_holds_everything(tmp_path, graph):
    sp.save_npz(tmp_path / "a.npz", graph)
    result = run("embed", tmp_path / "a.npz", "-o", tmp_path / "y.npz", "-n", 2, "--scale", "geodesics")
    assert result.exit_code == 0, result.output
    for word in (
        "points",
        "300",
        "edges",
        f"{graph.nnz // 2:,}",
        "components",
        "dropped",
        "energy",
        "seconds",
    ):
        assert word in result.output
    with np.load(tmp_path / "y.npz", allow_pickle=False) as file:
        assert set(file.files) == {
            "embedding",
            "component_labels",
            "energy",
            "status",
            "n_iter",
            "dropped_edges",
            "stretch",
            "parameters",
            "relative_energy",
            "history",
            "edges",
            "edge_lengths",
        }
        assert str(file["status"]) in result.output
        parameters = json.loads(str(file["parameters"]))
    assert parameters["n_components"] == 2
    assert parameters["scale"] == "geodesics"
    assert parameters["metric"] == "precomputed"
    assert "callback" not in parameters


def test_named_vertices(tmp_path):
    """A unit grid with named vertices, given as an edge list, comes back in order of first appearance."""
    lines = ["from,to,metres"]
    for i in range(6):
        for j in range(6):
            for p, q in ((i + 1, j), (i, j + 1), (i + 1, j + 1), (i + 1, j - 1)):
                if p < 6 and 0 <= q < 6:
                    lines.append(f"r{i}c{j},r{p}c{q},{float(np.hypot(p - i, q - j))!r}")
    (tmp_path / "grid.csv").write_text("\n".join(lines))
    result = run("embed", tmp_path / "grid.csv", "--graph", "-o", tmp_path / "y.npz", "-n", 2, "--quiet")
    assert result.exit_code == 0, result.output
    assert result.output == ""
    with np.load(tmp_path / "y.npz") as file:
        names = file["vertex_names"]
        embedding = file["embedding"]
    truth = np.array([[int(name[1]), int(name[3])] for name in names])
    assert len(names) == 36
    # Loose: shortest paths on a king's grid are longer than straight lines; a wrong order would give about 1.
    assert procrustes_error(truth, embedding) < 0.05


def test_directions_that_differ(tmp_path, graph):
    graph = graph.copy()
    graph.data[0] *= 1.5
    sp.save_npz(tmp_path / "a.npz", graph)
    command = ("embed", tmp_path / "a.npz", "-o", tmp_path / "y.npz", "-n", 2, "-q")
    refused = run(*command)
    assert refused.exit_code == 2
    assert "The distances of one edge disagree" in refused.stderr
    settled = run(*command, "--asymmetry", "mean")
    assert settled.exit_code == 0, settled.output
    with np.load(tmp_path / "y.npz") as file:
        assert json.loads(str(file["parameters"]))["asymmetry"] == "mean"


@pytest.mark.parametrize("suffix", [".npy", ".csv", ".parquet"])
def test_other_outputs(tmp_path, graph, suffix):
    from isoweave.io import read_input

    sp.save_npz(tmp_path / "a.npz", graph)
    result = run("embed", tmp_path / "a.npz", "-o", tmp_path / f"y{suffix}", "-n", 2, "-q")
    assert result.exit_code == 0, result.output
    assert read_input(tmp_path / f"y{suffix}").features.shape == (300, 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("missing.npy", "-o", "y.npz"), "missing.npy: no such file"),
        (("x.npy", "-o", "y.txt"), "suffix must be one of"),
        (("x.npy", "-o", "none/y.npz"), "folder none does not exist"),
        (("x.npy", "-o", "y.npz", "--preset", "fastest"), "fastest"),
        (("x.npy", "-o", "y.npz", "--n-components", "many"), "many"),
        (("x.npy", "-o", "y.npz", "--n-neighbors", "0"), "n_neighbors"),
        (("a.npz", "-o", "y.npz", "--metric", "cosine"), "--metric is for features"),
        (("a.npz", "-o", "y.npz", "-k", "5"), "--n-neighbors is for features"),
        (("a.npz", "-o", "y.npz", "--asymmetry", "first"), "asymmetry must be one of"),
        (("x.npy", "-o", "y.npz", "--asymmetry", "max"), "--asymmetry is for distance graphs"),
        (("bad.csv", "-o", "y.npz"), "bad.csv, line 2: cell 2 holds 'x', not a number"),
    ],
)
def test_errors_are_one_line(tmp_path, monkeypatch, sheet, graph, arguments, message):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", sheet)
    sp.save_npz("a.npz", graph)
    (tmp_path / "bad.csv").write_text("1,2\n3,x\n")
    result = run("embed", *arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("isoweave: error: ")
    assert result.stderr.count("\n") == 1
    assert message in result.stderr
    assert not (tmp_path / "y.npz").exists()


def test_verbose_shows_steps_and_tracebacks(tmp_path, graph):
    sp.save_npz(tmp_path / "a.npz", graph)
    result = run("embed", tmp_path / "a.npz", "-o", tmp_path / "y.npz", "-n", 2, "--verbose")
    assert result.exit_code == 0
    assert "step 1" in result.stderr
    failed = run("embed", tmp_path / "none.npz", "-o", tmp_path / "y.npz", "--verbose")
    assert isinstance(failed.exception, ValueError)


def test_warnings_are_one_line(tmp_path, graph):
    two = sp.block_diag([graph, graph], format="csr")
    sp.save_npz(tmp_path / "a.npz", two)
    result = run("embed", tmp_path / "a.npz", "-o", tmp_path / "y.npz", "-n", 2)
    assert result.exit_code == 0, result.output
    assert result.stderr.startswith("isoweave: warning: ")
    assert result.stderr.count("\n") == 1
    quiet = run("embed", tmp_path / "a.npz", "-o", tmp_path / "y.npz", "-n", 2, "-q")
    assert quiet.output == ""
