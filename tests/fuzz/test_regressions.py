"""Files that once broke a promise, each with the reader it broke."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz_targets import TARGETS

REGRESSIONS = Path(__file__).parent / "regressions"
FILES = sorted(path for path in REGRESSIONS.rglob("*") if path.is_file())


def test_there_are_some():
    assert len(FILES) >= 5


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_regression(path):
    if path.parent.name not in TARGETS:
        pytest.skip(f"{path.parent.name} needs a package that is not installed")
    TARGETS[path.parent.name](path.read_bytes())
