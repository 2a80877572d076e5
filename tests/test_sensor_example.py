"""The sensor network example runs and prints what it promises."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[1] / "examples" / "sensor_network.py"


def test_example_runs(tmp_path, capsys, monkeypatch):
    pytest.importorskip("matplotlib")
    figure = tmp_path / "sensors.png"
    monkeypatch.setattr("sys.argv", ["sensor_network.py", "--sensors", "100", "--figure", str(figure)])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    printed = capsys.readouterr().out
    assert printed.count("\nsquare ") == printed.count("\nhole ") == 4
    assert figure.stat().st_size > 10_000
