"""F1 against Pearson over the dial: the runs are kept, the figure is drawn, the command does both."""

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from typer.testing import CliRunner

from isoweave.cli import app
from isoweave.datasets import DATA_VARIABLE
from isoweave.experiments import FULL, Scale, front


@pytest.fixture
def few(monkeypatch):
    """One surface, three values of the weight and Isomap; images that are not there."""
    data = {("klein", "k8"): ("Klein bottle", 3), ("mnist", "groups"): ("MNIST", 13)}
    monkeypatch.setattr(front, "DATA", data)
    monkeypatch.setattr(front, "WEIGHTS", ("0", "10", "auto"))
    monkeypatch.setattr(front, "_OTHERS", ("isomap", "tsne"))
    monkeypatch.setattr("isoweave.experiments.QUICK", Scale("quick", n_samples=110, n_seeds=1))
    monkeypatch.delenv(DATA_VARIABLE, raising=False)


def test_plan(few):
    tasks, skipped = front.plan_front(Scale("tiny", n_seeds=1))
    wanted = ["weight 0", "weight 10", "weight auto", "isomap"]
    by_data = {
        name: [task.method for task in tasks if task.experiment == name] for name in ("klein", "mnist")
    }
    assert by_data == {"klein": [*wanted, "tsne"], "mnist": wanted}
    assert skipped == []
    assert {task.seed for task in front.plan_front(FULL)[0]} == {501, 502, 503, 0, 1, 2}


def test_figure(few, tmp_path):
    values = [
        ("weight 0", 0.97, 0.9),
        ("weight 10", 0.9, 0.98),
        ("weight auto", 0.96, 0.97),
        ("isomap", 0.8, 0.97),
    ]
    runs = pd.DataFrame([("klein", "k8", 1, *value) for value in values], columns=front.COLUMNS)
    for suffix in (".svg", ".png"):
        front.draw_front(runs, tmp_path / f"front{suffix}")
    again = (tmp_path / "front.svg").read_bytes()
    front.draw_front(runs, tmp_path / "front.svg")
    assert (tmp_path / "front.svg").read_bytes() == again
    assert np.asarray(Image.open(tmp_path / "front.png").convert("L")).std() > 10


def test_command(few, tmp_path):
    given = ["reproduce", "front", "--out", str(tmp_path), "--quick", "--data", str(tmp_path)]
    found = CliRunner().invoke(app, given)
    assert found.exit_code == 0, found.output
    assert "skipped: groups of 1,000: Looked for" in found.output
    written = {path.name for path in tmp_path.iterdir()}
    assert written == {"front.jsonl", *(f"front_quick{s}" for s in (".csv", ".svg", ".png"))}
    runs = pd.read_csv(tmp_path / "front_quick.csv").set_index("method")
    assert runs.loc["weight 0", "pearson"] < runs.loc["weight 10", "pearson"]
    assert runs.loc["isomap", "f1"] < runs.loc["weight auto", "f1"]
