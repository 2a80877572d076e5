"""Predicted peaks of memory against those of fits in processes of their own: benchmarks/forecast.py."""

from __future__ import annotations

import sys

import pytest

import forecast

QUICK = ("swiss 20k", "S-curve 5k, synchronized", "5-D 5k")
SLOW = (
    "40 pieces 20k",
    "paper, swiss 2k",
    "swiss 100k",
    "sphere 50k",
    "cube 30k",
    "5-D 20k",
    "13-D normal 8k",
    "hub 60k",
    "scale-free 20k",
)
pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="reads and resets peaks in /proc"
)


@pytest.mark.filterwarnings("ignore:The graph has .* connected components:UserWarning")
@pytest.mark.parametrize(
    "name",
    [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)],
)
def test_peaks_of_processes(name, tmp_path, monkeypatch):
    monkeypatch.setattr(forecast, "FOLDER", tmp_path)
    (case,) = (case for case in forecast.CASES if case.name == name)
    found = forecast.compared(case, keep=False)
    assert forecast.LOW <= found["error"] <= forecast.HIGH
    # Small fits add little to a process, so that the growth itself is told less well.
    assert 0.8 <= found["estimate"].growth_bytes / found["growth"] <= 3.0
    assert found["solver"] == found["estimate"].solver
    # Others work on the machine, and steps are not known in advance.
    assert 0.15 <= found["estimate"].cpu_seconds / found["cpu"] <= 4.0
