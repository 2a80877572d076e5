"""F1 against Pearson over the dial: the runs are kept, the figure is drawn, the command does both."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from isoweave.cli import app
from isoweave.datasets import DATA_VARIABLE
from isoweave.experiments import Scale, front

TINY = Scale("tiny", n_samples=110, n_seeds=1)


@pytest.fixture
def few(monkeypatch):
    """One surface, three values of the weight and Isomap."""
    monkeypatch.setattr(front, "DATA", {("klein", "k8"): "Klein bottle", ("mnist", "groups"): "MNIST"})
    monkeypatch.setattr(front, "WEIGHTS", ("0", "10", "auto"))
    monkeypatch.setattr(front, "_OTHERS", ("isomap",))
    monkeypatch.delenv(DATA_VARIABLE, raising=False)


def test_runs_are_kept_and_only_missing_ones_made(few, tmp_path):
    path, labels = tmp_path / "front.csv", []
    skipped = front.run_front(path, TINY, methods=["0", "isomap"], data_home=tmp_path, progress=labels.append)
    assert labels == ["Klein bottle, seed 501", "MNIST, seed 0"]
    assert [reason.split(":")[0] for reason in skipped] == ["front, MNIST"]
    first = path.read_text()
    front.run_front(path, TINY, data_home=tmp_path)
    assert path.read_text().startswith(first)
    lines = front.read_front(path)
    assert [line["method"] for line in lines] == ["0", "isomap", "10", "auto"]
    scores = {line["method"]: (float(line["f1"]), float(line["pearson"])) for line in lines}
    assert scores["0"][1] < scores["10"][1]
    assert scores["isomap"][0] < scores["auto"][0]


def test_figure(few, tmp_path):
    names = ("experiment", "row", "seed", "method", "f1", "pearson")
    values = [("0", 0.97, 0.9), ("10", 0.9, 0.98), ("auto", 0.96, 0.97), ("isomap", 0.8, 0.97)]
    lines = [dict(zip(names, ("klein", "k8", "1", m, str(f), str(p)), strict=True)) for m, f, p in values]
    for suffix in (".svg", ".png"):
        front.draw_front(lines, tmp_path / f"front{suffix}")
    again = (tmp_path / "front.svg").read_bytes()
    front.draw_front(lines, tmp_path / "front.svg")
    assert (tmp_path / "front.svg").read_bytes() == again
    assert np.asarray(Image.open(tmp_path / "front.png").convert("L")).std() > 10


def test_command(few, tmp_path, monkeypatch):
    monkeypatch.setattr("isoweave.experiments.QUICK", replace(TINY, name="quick"))
    given = ["reproduce", "front", "--out", str(tmp_path), "--quick", "--seeds", "1", "--data", str(tmp_path)]
    found = CliRunner().invoke(app, given)
    assert found.exit_code == 0, found.output
    assert "MNIST" in found.output
    assert {path.name for path in tmp_path.iterdir()} == {f"front_quick{s}" for s in (".csv", ".svg", ".png")}
