"""Fits killed with SIGKILL and resumed give the output of those that were not, byte by byte."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def run(kills, seed):
    done = subprocess.run(
        [
            sys.executable,
            "-W",
            "ignore",
            Path(__file__).parent / "kill_and_resume.py",
            *("--kills", str(kills), "--seed", str(seed)),
        ],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        check=False,
        timeout=1800,
    )
    assert done.stdout, done.stderr
    found = json.loads(done.stdout)
    assert found["different"] == 0, found
    assert done.returncode == 0, done.stderr
    assert found["kills"] == kills
    return found


def test_20_kills():
    found = run(20, seed=5)
    assert min(found["in writes"], found["at instants"]) >= 5
    # Some must have come while the optimiser was at work, or nothing has been shown.
    assert found["left a state"] >= 3


@pytest.mark.slow
def test_200_kills():
    found = run(200, seed=6)
    assert min(found["in writes"], found["at instants"]) >= 80
    assert found["left a state"] >= 40
