"""One folder with the files that commands take, and a way to run them there."""

import json

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.neighbors import kneighbors_graph
from typer.testing import CliRunner

from isoweave.cli import app


@pytest.fixture(scope="session")
def sheet():
    """Points of a square."""
    return np.random.default_rng(19).uniform(size=(300, 2))


@pytest.fixture(scope="session")
def graph(sheet):
    directed = kneighbors_graph(sheet, 8, mode="distance")
    return sp.csr_array(directed.maximum(directed.T))


@pytest.fixture
def folder(tmp_path, monkeypatch, sheet, graph):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", sheet)
    sp.save_npz("a.npz", graph)
    uneven = graph.copy()
    uneven.data[0] *= 1.5
    sp.save_npz("uneven.npz", uneven)
    return tmp_path


@pytest.fixture
def run(folder):
    """Runs a command in the folder; it must end with the given exit code."""

    def invoke(*arguments, code=0):
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        assert result.exit_code == code, result.output
        return result

    return invoke


@pytest.fixture
def run_json(run):
    return lambda *arguments, code=0: json.loads(run(*arguments, "--json", code=code).stdout)


@pytest.fixture
def refused(run):
    """Runs a command that must fail with one line on standard error and nothing else."""

    def invoke(message, *arguments):
        result = run(*arguments, code=2)
        assert result.stdout == ""
        assert result.stderr.startswith("isoweave: error: ")
        assert result.stderr.count("\n") == 1
        assert message in result.stderr

    return invoke
