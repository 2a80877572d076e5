"""The results in the documentation: tables belong to the runs beside them, claims to the tables."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """Tables made again from the committed runs."""
    path = ROOT / "benchmarks" / "publish_results.py"
    spec = importlib.util.spec_from_file_location("publish_results", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    folder = tmp_path_factory.mktemp("results")
    for file in RESULTS.glob("*.csv"):
        (folder / file.name).write_bytes(file.read_bytes())
    (folder / "figures").symlink_to(RESULTS / "figures")
    module.publish(folder, folder)
    return folder


def test_tables_belong_to_the_runs(published):
    names = sorted(path.name for path in published.glob("*.md"))
    assert len(names) == 10
    for name in names:
        committed = (RESULTS / name).read_text(encoding="utf-8")
        assert committed == (published / name).read_text(encoding="utf-8"), name


def test_links_lead_somewhere():
    for page in RESULTS.glob("*.md"):
        for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_figures_are_small():
    sizes = {path.name: path.stat().st_size for path in (RESULTS / "figures").iterdir()}
    assert sizes
    assert max(sizes.values()) < 250_000
    assert sum(sizes.values()) < 2_500_000
