from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.neighbors import kneighbors_graph
from typer.testing import CliRunner

from isoweave.cli import app
from isoweave.datasets import swiss_roll
from isoweave.metrics import evaluate


def run(*arguments):
    return CliRunner().invoke(app, ["evaluate", *(str(argument) for argument in arguments)])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A graph, its truth, labels and a disturbed copy of the truth as an embedding."""
    path = tmp_path_factory.mktemp("evaluate")
    roll = swiss_roll(160, random_state=83)
    directed = sp.csr_array(kneighbors_graph(roll.data, 6, mode="distance"))
    sp.save_npz(path / "graph.npz", directed.maximum(directed.T))
    np.save(path / "truth.npy", roll.truth)
    np.save(path / "labels.npy", (roll.truth[:, 0] > 40).astype(int))
    y = roll.truth + np.random.default_rng(84).normal(size=roll.truth.shape)
    # Beside the embedding, arrays that could be taken for it.
    np.savez(path / "out.npz", embedding=y, dropped_edges=np.zeros((3, 2), int), X=np.zeros((160, 2)))
    np.save(path / "out.npy", y)
    np.savetxt(path / "out.csv", y, delimiter=",", fmt="%.17g")
    return path


def expected(folder, **options):
    return evaluate(sp.load_npz(folder / "graph.npz"), np.load(folder / "out.npy"), **options)


@pytest.mark.parametrize("name", ["out.npz", "out.npy", "out.csv"])
def test_json_equals_the_library(folder, name):
    result = run(folder / "graph.npz", folder / name, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    wanted = expected(folder)
    assert list(found) == list(wanted)
    assert found == pytest.approx(wanted, rel=1e-12)
    assert found["n_neighbors"] == 6


def test_labels_truth_and_neighbours(folder):
    options = ("--labels", folder / "labels.npy", "--truth", folder / "truth.npy", "-k", 4, "--json")
    result = run(folder / "graph.npz", folder / "out.npz", *options)
    assert result.exit_code == 0, result.output
    truth, labels = np.load(folder / "truth.npy"), np.load(folder / "labels.npy")
    wanted = expected(folder, truth=truth, labels=labels, n_neighbors=4)
    assert json.loads(result.stdout) == pytest.approx(wanted, rel=1e-12)
    assert {"accuracy", "nmi", "ari", "parameter_error", "procrustes_error"} <= wanted.keys()


def test_table_names_every_metric(folder):
    options = ("--labels", folder / "labels.npy", "--truth", folder / "truth.npy")
    result = run(folder / "graph.npz", folder / "out.npz", *options)
    assert result.exit_code == 0, result.output
    truth, labels = np.load(folder / "truth.npy"), np.load(folder / "labels.npy")
    for name, value in expected(folder, truth=truth, labels=labels).items():
        if name not in ("n_neighbors", "n_rows"):
            assert name in result.stdout
            assert f"{value:.4g}" in result.stdout
    assert "n_neighbors = 6" in result.stdout


def test_undefined_is_null(tmp_path):
    """Six points, k = 5: ranks need k below half the number of points."""
    points = np.random.default_rng(85).normal(size=(6, 2))
    distances = np.linalg.norm(points[:, None] - points, axis=2)
    np.save(tmp_path / "graph.npy", distances)
    np.save(tmp_path / "y.npy", points)
    result = run(tmp_path / "graph.npy", tmp_path / "y.npy", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["trustworthiness"] is None
    assert found["continuity"] is None
    assert found["local_distance"] < 1e-12
    assert "undefined" in run(tmp_path / "graph.npy", tmp_path / "y.npy").stdout


def test_rows_are_matched_by_name(tmp_path):
    """An edge list and a table in another order: a unit square comes out exact."""
    (tmp_path / "g.edges").write_text("a b 1\nb c 1\nc d 1\nd a 1\n")
    (tmp_path / "y.csv").write_text("vertex,x1,x2\nc,1,1\na,0,0\nd,0,1\nb,1,0\n")
    result = run(tmp_path / "g.edges", tmp_path / "y.csv", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["local_distance"] == 0.0
    (tmp_path / "y.csv").write_text("vertex,x1,x2\nc,1,1\na,0,0\nd,0,1\ne,1,0\n")
    result = run(tmp_path / "g.edges", tmp_path / "y.csv")
    assert result.exit_code == 2
    assert "no row is named 'b'" in result.stderr


@pytest.mark.parametrize(
    ("text", "kind"),
    [("label\n" + "0\n1\n" * 80, "f"), ("red\nblue\n" * 80, "U"), ("1,red\n2,7\n" * 80, "U")],
)
def test_labels_from_text(folder, tmp_path, text, kind):
    from isoweave.io import read_labels

    (tmp_path / "labels.csv").write_text(text)
    labels = read_labels(tmp_path / "labels.csv")
    assert labels.dtype.kind == kind
    assert len(labels) == 160
    result = run(folder / "graph.npz", folder / "out.npy", "--labels", tmp_path / "labels.csv", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["accuracy"] == expected(folder, labels=labels)["accuracy"]


def test_one_way_edges_count_both_ways(folder, tmp_path):
    """A kNN graph as scikit-learn makes it is symmetrised, as `embed` does."""
    upper = sp.triu(sp.load_npz(folder / "graph.npz"), format="csr")
    sp.save_npz(tmp_path / "upper.npz", upper)
    result = run(tmp_path / "upper.npz", folder / "out.npy", "--json")
    assert json.loads(result.stdout) == pytest.approx(expected(folder), rel=1e-12)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"embedding": "missing.npz"}, "missing.npz: no such file"),
        ({"graph": "missing.npz"}, "missing.npz: no such file"),
        ({"embedding": "short.npy"}, "short.npy: 159 rows, but the graph has 160 vertices"),
        ({"embedding": "nan.npy"}, "nan.npy"),
        ({"labels": "short.npy"}, "expected one label per vertex, got shape (159, 2)"),
        ({"labels": "missing.csv"}, "missing.csv: no such file"),
        ({"truth": "short.npy"}, "short.npy: 159 rows, but the graph has 160 vertices"),
        ({"n-neighbors": "0"}, "n_neighbors must be an integer from 1 to 159, got 0"),
    ],
)
def test_errors_are_one_line(folder, tmp_path, change, message):
    np.save(tmp_path / "short.npy", np.ones((159, 2)))
    np.save(tmp_path / "nan.npy", np.full((160, 2), np.nan))
    given = {k: v if k == "n-neighbors" else tmp_path / v for k, v in change.items()}
    graph = given.pop("graph", folder / "graph.npz")
    embedding = given.pop("embedding", folder / "out.npy")
    options = [part for name, value in given.items() for part in (f"--{name}", value)]
    result = run(graph, embedding, *options)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.startswith("isoweave: error: ")
    assert result.stderr.count("\n") == 1
