"""What is said about engine="petsc" where there is no MPI job."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from isoweave import IsometricEmbedding, embed_graph
from isoweave.cluster import all_ranks
from isoweave.graph import knn_graph
from isoweave.options import resolve_options

ROOT = Path(__file__).parents[2]
POINTS = np.random.default_rng(0).random((50, 2))


def test_the_estimator_names_the_command():
    assert resolve_options(2, engine="petsc").engine == "petsc"
    with pytest.raises(ValueError, match="mpiexec -n 4 isoweave embed GRAPH --engine petsc"):
        embed_graph(knn_graph(POINTS, 5), engine="petsc")
    with pytest.raises(ValueError, match="transform and diagnose do not support it"):
        IsometricEmbedding(engine="petsc").fit(POINTS)


def test_without_petsc_the_places_to_get_it_are_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "petsc4py", None)
    with pytest.raises(ImportError, match=r"conda-forge .*apt-get install python3-petsc4py python3-mpi4py"):
        all_ranks()
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(ImportError, match="not available on Windows"):
        all_ranks()


def test_the_command_without_petsc_says_so(monkeypatch, tmp_path):
    from typer.testing import CliRunner

    from isoweave.cli import app

    monkeypatch.setitem(sys.modules, "petsc4py", None)
    done = CliRunner().invoke(app, ["embed", "x.parquet", "-o", str(tmp_path / "m.npy"), "--engine", "petsc"])
    assert done.exit_code == 2
    assert "isoweave: error: engine='petsc' needs PETSc and MPI" in done.output


@pytest.fixture(scope="module")
def page():
    return (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8")


def test_recipes_are_shell(page):
    scripts = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    assert any("#SBATCH" in script for script in scripts)
    for script in scripts:
        done = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, ""), script


def test_recipes_install_what_is_needed(page):
    """By name from conda-forge; from Debian what the environment of these tests is made of."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    needed = project["dependencies"] + extras["cluster"] + extras["parquet"]
    (conda,) = re.findall("conda create .*", page)
    assert {re.match(r"[\w-]+", name)[0] for name in needed} <= set(conda.split())
    tested = (ROOT / "tests" / "cluster" / "environment").read_text(encoding="utf-8")
    (packages,) = re.findall('packages="(.*)"', tested)
    assert page.count(packages) == 2
