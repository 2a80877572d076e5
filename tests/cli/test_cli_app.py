from __future__ import annotations

import inspect
import re
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
import typer
from isoweave.embedding import _options
from sklearn.neighbors import kneighbors_graph
from typer.testing import CliRunner

import isoweave
from isoweave.cli import app
from isoweave.graph._validate import ASYMMETRY_POLICIES


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_version():
    result = run("--version")
    assert result.exit_code == 0
    assert result.stdout.strip() == f"isoweave {isoweave.__version__}"


def test_help_names_every_command():
    result = run("--help")
    assert result.exit_code == 0
    for command in ("embed", "dimension", "evaluate", "demo", "reproduce"):
        assert command in result.stdout


@pytest.mark.parametrize("command", ["embed", "dimension", "evaluate", "demo", "reproduce"])
def test_command_help(command):
    assert run(command, "--help").exit_code == 0


def test_package_runs_as_a_module():
    command = [sys.executable, "-m", "isoweave", "--version"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout == f"isoweave {isoweave.__version__}\n"


@pytest.mark.parametrize(
    ("option", "values"),
    [
        ("preset", _options.PRESETS),
        ("start", _options.STARTS),
        ("solver", _options.SOLVER_NAMES),
        ("inner_product", _options.INNER_PRODUCTS),
        ("calibrate", _options.CALIBRATE),
        ("scale", _options.SCALES),
        ("shortcuts", _options.SHORTCUTS),
        ("components", _options.COMPONENTS),
        ("asymmetry", ASYMMETRY_POLICIES),
    ],
)
def test_help_names_every_value_the_engine_knows(option, values):
    help_of = {param.name: param.help for param in typer.main.get_command(app).commands["embed"].params}
    words = re.findall(r"\w+", help_of[option])
    assert set(values) <= set(words)


def test_every_estimator_parameter_is_an_option():
    offered = {param.name for param in typer.main.get_command(app).commands["embed"].params}
    parameters = set(inspect.signature(isoweave.IsometricEmbedding).parameters)
    # --seed is random_state; a file has no dictionary or function to give; a signal ends the command.
    assert parameters - offered == {"random_state", "metric_params", "callback", "on_interrupt"}


def test_unknown_option_is_a_usage_error():
    result = run("embed", "--colour", "red")
    assert result.exit_code == 2
    assert "--colour" in result.stderr


def test_help_imports_nothing_heavy():
    """In a fresh process: --help answers at once because nothing is imported before a command needs it."""
    code = (
        "import sys; from isoweave.cli import app; app(['--help'], standalone_mode=False); "
        "print('LOADED', sorted(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert "embed" in done.stdout
    loaded = done.stderr.split("LOADED", 1)[1]
    for heavy in ("numba", "sklearn", "scipy", "matplotlib", "pandas"):
        assert f"'{heavy}'" not in loaded


@pytest.mark.parametrize("dimension", [2, 5])
def test_dimension(tmp_path, dimension):
    x = np.random.default_rng(23).uniform(size=(1500, dimension))
    np.save(tmp_path / "x.npy", np.pad(x, ((0, 0), (0, 3))))
    result = run("dimension", tmp_path / "x.npy")
    assert result.exit_code == 0, result.output
    # The estimator's spread over seeds is about 3 % at this size; boundaries lower it in 5-D.
    assert float(result.stdout) == pytest.approx(dimension, rel=0.15)


def test_dimension_of_a_graph(tmp_path):
    x = np.random.default_rng(29).uniform(size=(1500, 2))
    directed = kneighbors_graph(x, 8, mode="distance")
    sp.save_npz(tmp_path / "a.npz", sp.csr_array(directed.maximum(directed.T)))
    result = run("dimension", tmp_path / "a.npz")
    assert result.exit_code == 0, result.output
    assert float(result.stdout) == pytest.approx(2, rel=0.15)


def test_dimension_of_a_graph_whose_directions_differ(tmp_path):
    x = np.random.default_rng(37).uniform(size=(400, 2))
    directed = kneighbors_graph(x, 8, mode="distance")
    graph = sp.csr_array(directed.maximum(directed.T))
    graph.data[0] *= 1.1
    sp.save_npz(tmp_path / "a.npz", graph)
    refused = run("dimension", tmp_path / "a.npz")
    assert refused.exit_code == 2
    assert "The distances of one edge disagree" in refused.stderr
    result = run("dimension", tmp_path / "a.npz", "--asymmetry", "min")
    assert result.exit_code == 0, result.output
    assert float(result.stdout) == pytest.approx(2, rel=0.15)


def test_dimension_of_features_takes_no_asymmetry(tmp_path):
    np.save(tmp_path / "x.npy", np.eye(5))
    result = run("dimension", tmp_path / "x.npy", "--asymmetry", "max")
    assert result.exit_code == 2
    assert "--asymmetry is for distance graphs" in result.stderr


def test_dimension_of_a_bad_file(tmp_path):
    result = run("dimension", tmp_path / "x.npy")
    assert result.exit_code == 2
    assert result.stderr == f"isoweave: error: {tmp_path / 'x.npy'}: no such file\n"
