"""Every example runs, without warnings, and what it says comes true."""

import runpy
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*.py"))

# What must hold of the names an example leaves behind.
CLAIMS = {
    "digits": lambda v: (
        v["f1"][2] < v["f1"][5] < v["f1"][v["auto"].n_components_]
        and v["f1"][v["auto"].n_components_] > 0.8
        and v["accuracy"][2] < v["accuracy"][v["auto"].n_components_]
    ),
    "disconnected_graph": lambda v: max(v["errors"]) < 0.05 and len(v["maps"]) == 3,
    "faces": lambda v: v["error"] < 0.2,
    "grid_search": lambda v: v["best"] < 3 * min(v["errors"]) and v["best"] < 0.1 * max(v["errors"]),
    "mesh_flattening": lambda v: v["error"] < 1e-3,
    "new_points": lambda v: (
        np.median(v["error"]) < 0.3 and np.median(v["off"].residual) > 3 * np.median(v["placed"].residual)
    ),
    "road_miles": lambda v: v["error"] < 0.01,
    "single_cells": lambda v: v["correlation"] > 0.95 and "X_isoweave" in v["adata"].obsm,
    "terrain": lambda v: v["seen"] * 1.05 < v["needed"] < 1.1 * v["area"](v["ground"]),
    "swiss_roll": lambda v: v["error"] < 1e-3 and v["same"],
}


@pytest.fixture(autouse=True)
def _figures_are_closed(monkeypatch):
    plt = pytest.importorskip("matplotlib.pyplot")
    # There is no screen to show them on.
    monkeypatch.setattr(plt, "show", lambda: None)
    yield
    plt.close("all")


# They fit many or large maps; `make docs` runs them as well.
SLOW = ("digits", "grid_search")
CASES = [pytest.param(p, id=p.stem, marks=[pytest.mark.slow] if p.stem in SLOW else []) for p in SCRIPTS]


@pytest.mark.parametrize("path", CASES)
def test_example(path, monkeypatch, tmp_path):
    assert set(CLAIMS) <= {path.stem for path in SCRIPTS}
    monkeypatch.chdir(tmp_path)
    found = runpy.run_path(str(path))
    assert found["__doc__"].strip(), "the gallery takes its title from the docstring"
    assert CLAIMS.get(path.stem, lambda v: True)(found)
    assert not list(tmp_path.iterdir()), "an example leaves no files behind"


def test_the_command_of_the_sensor_network(tmp_path, capsys, monkeypatch):
    figure = tmp_path / "sensors.png"
    monkeypatch.setattr("sys.argv", ["sensor_network.py", "--sensors", "60", "--figure", str(figure)])
    runpy.run_path(str(EXAMPLES / "sensor_network.py"), run_name="__main__")
    printed = capsys.readouterr().out
    assert printed.count("\nsquare ") == printed.count("\nhole ") == 4
    assert figure.stat().st_size > 10_000
