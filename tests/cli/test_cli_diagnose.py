"""``isoweave diagnose``."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.sparse as sp
from typer.testing import CliRunner

from isoweave import IsometricEmbedding, diagnose
from isoweave.cli import app
from isoweave.datasets import swiss_roll


def run(*arguments):
    return CliRunner().invoke(app, ["diagnose", *(str(argument) for argument in arguments)])


@pytest.fixture(scope="module")
def estimator():
    return IsometricEmbedding(n_neighbors=8, n_jobs=1).fit(swiss_roll(300, random_state=111).data)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, estimator):
    """Features, their graph and a map."""
    path = tmp_path_factory.mktemp("diagnose")
    np.save(path / "points.npy", swiss_roll(300, random_state=111).data)
    sp.save_npz(path / "graph.npz", estimator.graph_)
    np.savez(path / "map.npz", embedding=estimator.embedding_)
    return path


def test_before_solving(folder, estimator):
    result = run(folder / "points.npy", "-k", 8, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == diagnose(estimator.graph_).to_dict()
    page = run(folder / "graph.npz")
    assert page.exit_code == 0, page.output
    assert page.stdout.strip() == str(diagnose(estimator.graph_))


def test_a_given_map(folder, estimator):
    result = run(folder / "graph.npz", "--embedding", folder / "map.npz", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found == diagnose(estimator.embedding_, graph=estimator.graph_).to_dict()
    assert found["map"]["status"] is None


def test_solving_first(folder, estimator):
    result = run(folder / "points.npy", "-k", 8, "--solve", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == diagnose(estimator).to_dict()


def test_dimension_by_itself(folder):
    result = run(folder / "graph.npz", "-n", "auto", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["n_components"] == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--solve", "--embedding", "map.npz"), "one of them"),
        (("--embedding", "map.npz", "-n", "2"), "leave it out"),
        (("-n", "0"), "n_components"),
        (("-n", "two"), "n_components"),
        (("-k", "5"), "--n-neighbors is for features"),
        (("--embedding", "missing.npz"), "missing.npz"),
        (("--shortcuts", "dropp"), "Did you mean"),
    ],
)
def test_errors_are_one_line(folder, monkeypatch, options, message):
    monkeypatch.chdir(folder)
    result = run("graph.npz", *options)
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
