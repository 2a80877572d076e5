from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.sparse as sp
import typer
from sklearn.neighbors import kneighbors_graph
from typer.testing import CliRunner

from isoweave import estimate_resources
from isoweave.cli import app


@pytest.fixture(scope="module")
def sheet():
    """Points of a square."""
    return np.random.default_rng(953).uniform(size=(400, 2))


@pytest.fixture(scope="module")
def graph(sheet):
    directed = kneighbors_graph(sheet, 8, mode="distance")
    return sp.csr_array(directed.maximum(directed.T))


@pytest.fixture
def folder(tmp_path, monkeypatch, sheet, graph):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", sheet)
    sp.save_npz("a.npz", graph)
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_a_graph(folder, graph):
    result = run("forecast", "a.npz", "-n", 2, "--n-jobs", 1)
    assert result.exit_code == 0, result.output
    for word in ("vertices", "400", "edges", f"{graph.nnz // 2:,}", "solver", "direct", "frames", "optimise"):
        assert word in result.stdout
    assert "neighbours" not in result.stdout
    assert "fits" in result.stdout
    assert "the memory of the" in result.stdout.replace("\n", " ")


def test_json_holds_the_estimate(folder, graph):
    result = run("forecast", "a.npz", "-n", 3, "--solver", "jacobi", "-j", 1, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    wanted = estimate_resources(graph, 3, solver="jacobi", n_jobs=1)
    assert (found["n_vertices"], found["n_edges"], found["n_components"]) == (400, graph.nnz // 2, 3)
    assert (found["solver"], found["solver_reason"], found["fits"]) == ("jacobi", "asked for", True)
    assert found["growth_bytes"] == wanted.growth_bytes
    assert [stage["name"] for stage in found["stages"]] == [stage.name for stage in wanted.stages]


def test_features_count_the_search(folder, sheet):
    result = run("forecast", "x.npy", "-k", 8, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["stages"][0]["name"] == "neighbours"
    assert found["stages"][0]["cpu_seconds"] > 0
    assert found["n_vertices"] == len(sheet)
    # At least the eight nearest of every point, fewer than twice as many.
    assert 8 * len(sheet) / 2 <= found["n_edges"] < 8 * len(sheet)
    assert found["cpu_seconds"] == pytest.approx(sum(stage["cpu_seconds"] for stage in found["stages"]))
    assert found["growth_bytes"] == max(stage["growth_bytes"] for stage in found["stages"])


@pytest.mark.parametrize("source", ["x.npy", "a.npz"])
def test_the_dimension_may_be_estimated(folder, source):
    result = run("forecast", source, "-n", "auto", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["n_components"] == 2


def test_what_does_not_fit_has_its_own_exit_code(folder):
    result = run("forecast", "a.npz", "--memory-limit", "20MB")
    assert result.exit_code == 3
    assert "does not fit" in result.stdout
    found = run("forecast", "a.npz", "--memory-limit", "20MB", "--json")
    assert found.exit_code == 3
    assert json.loads(found.stdout)["fits"] is False
    assert json.loads(found.stdout)["limit_bytes"] == 20_000_000
    assert run("forecast", "a.npz", "--memory-limit", "none").exit_code == 0


def test_embed_refuses(folder):
    result = run("embed", "a.npz", "-o", "y.npz", "--memory-limit", "20MB")
    assert result.exit_code == 2
    assert result.stderr.startswith("isoweave: error: The fit would need ")
    assert "the limit is 20 MB (memory_limit)" in result.stderr
    assert result.stderr.count("\n") == 1
    assert not (folder / "y.npz").exists()
    allowed = run("embed", "a.npz", "-o", "y.npz", "--memory-limit", "100GB", "-q")
    assert allowed.exit_code == 0, allowed.output
    assert (folder / "y.npz").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("missing.npy",), "missing.npy: no such file"),
        (("x.npy", "--n-components", "many"), "n_components must be an integer"),
        (("x.npy", "--n-neighbors", "0"), "n_neighbors"),
        (("x.npy", "--solver", "fastest"), "solver must be one of"),
        (("x.npy", "--memory-limit", "much"), "memory_limit must be None, a number of bytes"),
        (("x.npy", "--asymmetry", "max"), "--asymmetry is for distance graphs"),
        (("a.npz", "--metric", "cosine"), "--metric is for features"),
        (("a.npz", "-k", "5"), "--n-neighbors is for features"),
        (("a.npz", "--components", "bridge"), "components='bridge' needs features"),
    ],
)
def test_errors_are_one_line(folder, arguments, message):
    result = run("forecast", *arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("isoweave: error: ")
    assert result.stderr.count("\n") == 1
    assert message in result.stderr


def test_pieces_are_bridged(folder, graph):
    far = np.concatenate([np.load("x.npy"), np.load("x.npy") + 50.0])
    np.save("two.npy", far)
    apart, joined = (
        json.loads(run("forecast", "two.npy", "-k", 8, "--components", how, "--json").stdout)
        for how in ("separate", "bridge")
    )
    assert apart["n_edges"] < joined["n_edges"] <= apart["n_edges"] + 3


def test_options_are_those_of_embed():
    commands = typer.main.get_command(app).commands
    offered = {name: {p.name: p.help for p in commands[name].params} for name in ("embed", "forecast")}
    # What changes neither memory nor time, what is about writing, and what is not forecast.
    others = {"output", "tol", "seed", "quiet", "refine", "anchors", "anchor_weight"}
    others |= {"checkpoint", "every", "resume", "report", "columns"}
    assert set(offered["embed"]) - set(offered["forecast"]) == others
    for name in set(offered["embed"]) & set(offered["forecast"]):
        assert offered["embed"][name] == offered["forecast"][name]
