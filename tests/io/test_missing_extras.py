"""Readers whose package is missing name an extra, and the extra is there."""

from __future__ import annotations

import importlib.util
import re
import sys
import tomllib
from pathlib import Path

import pytest

from isoweave.io import read_input

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]


@pytest.mark.parametrize(
    ("suffix", "package", "extra"), [(".h5ad", "h5py", "anndata"), (".parquet", "pyarrow", "parquet")]
)
def test_the_error_names_the_extra(tmp_path, monkeypatch, suffix, package, extra):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == package else find(name, *rest)
    )
    monkeypatch.setitem(sys.modules, package, None)
    path = tmp_path / f"x{suffix}"
    path.write_bytes(b"anything")
    with pytest.raises(ImportError, match=rf"isoweave\[{extra}\]"):
        read_input(path)
    assert any(line.startswith(package) for line in EXTRAS[extra])


def test_every_extra_that_an_error_names_exists():
    named = {
        extra
        for path in (ROOT / "src").rglob("*.py")
        for extra in re.findall(r"isoweave\[([\w-]+)\]", path.read_text(encoding="utf-8"))
    }
    assert {"anndata", "parquet", "plot", "knn"} <= named <= set(EXTRAS)
