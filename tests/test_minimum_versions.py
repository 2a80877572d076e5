"""The lane with the oldest versions installs what pyproject.toml promises, no more and no less."""

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
# Compile, bring torch, need a GPU or MPI, or serve long runs only; "all" repeats others.
NOT_INSTALLED = {"docs", "graphs", "gpu", "cluster", "mde"}
NOT_INSTALLED |= {"parametric", "bench", "full-tests", "all"}


def lower_bounds(lines):
    """Name and version of every requirement; those on this package's own extras aside."""
    bounds = {}
    for line in lines:
        requirement = Requirement(line)
        if requirement.name == "isoweave":
            continue
        (bound,) = requirement.specifier
        assert bound.operator == ">=", f"{line}: an upper bound, or none at all"
        assert bounds.setdefault(requirement.name, Version(bound.version)) == Version(bound.version), line
    return bounds


def test_constraints_are_the_lower_bounds():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    assert set(extras) >= NOT_INSTALLED
    lines = list(project["dependencies"])
    for name, requirements in extras.items():
        lines += requirements if name not in NOT_INSTALLED else []
    pinned = {}
    text = (ROOT / "requirements" / "minimum.txt").read_text(encoding="utf-8")
    for line in text.partition("# What these bring along")[0].splitlines():
        if line and not line.startswith("#"):
            name, version = re.fullmatch(r"([\w-]+)==([\w.]+)", line).groups()
            assert name not in pinned
            pinned[name] = Version(version)
    assert pinned == lower_bounds(lines)
    lower_bounds(line for lines in extras.values() for line in lines)
    assert project["requires-python"] == ">=3.11"
