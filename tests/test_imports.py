"""The layers of the package, checked by reading its imports."""

from __future__ import annotations

import ast
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(importlib.util.find_spec("isoweave").submodule_search_locations[0])

# From the bottom up; a module may import from its own layer and from those below it.
FOUNDATION = ("_typing", "_lazy", "_forks", "_parallel", "_validation", "_file_parts", "_files", "engines")
CORE = ("graph", "geometry", "energy", "linalg", "optimise", "result", "embedding")
OUTER = (
    "_pages",
    "estimator",
    "_estimator_callbacks",
    "_estimator_graph",
    "_estimator_growth",
    "_estimator_points",
    "_estimator_run",
    "checkpoints",
    "_estimator_score",
    "interop",
    "place",
    "persist",
    "metrics",
    "diagnostics",
    "datasets",
    "plot",
    "report",
    "experiments",
    "io",
    "cli",
)


def modules():
    return sorted(path for path in PACKAGE.rglob("*.py"))


def layer_of(path):
    """First part of a module's name below the package: graph/_knn.py is in layer graph."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imported_layers(path):
    """Layers of this package that a module imports, inside functions or not."""
    layers = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import on line {node.lineno}"
            # "from isoweave import graph" imports a layer, "from isoweave.graph import x" names it.
            names = (
                [f"isoweave.{alias.name}" for alias in node.names]
                if node.module == "isoweave"
                else [node.module]
            )
        else:
            continue
        layers |= {name.split(".")[1] for name in names if name.startswith("isoweave.")}
    return layers


def test_every_module_has_a_layer():
    known = {*FOUNDATION, *CORE, *OUTER, "__init__", "__main__"}
    unknown = {layer_of(path) for path in modules()} - known
    assert not unknown, f"give these a place in tests/test_imports.py: {sorted(unknown)}"


@pytest.mark.parametrize("layer", CORE)
def test_core_imports_only_downwards(layer):
    allowed = {*FOUNDATION, *CORE[: CORE.index(layer) + 1]}
    paths = [path for path in modules() if layer_of(path) == layer]
    assert paths, f"no modules in layer {layer}"
    for path in paths:
        # The methods of an Embedding open the outer rooms, which know it; nothing else may.
        wrong = set() if layer == "result" else imported_layers(path) - allowed
        assert not wrong, f"{path.relative_to(PACKAGE)} imports {sorted(wrong)}, which lie above {layer}"


def test_foundation_imports_nothing_above_it():
    for path in modules():
        if layer_of(path) in FOUNDATION:
            wrong = imported_layers(path) - set(FOUNDATION)
            assert not wrong, f"{path.relative_to(PACKAGE)} imports {sorted(wrong)}"


def test_the_reader_of_imports_sees_them(tmp_path):
    path = tmp_path / "module.py"
    path.write_text(
        "import isoweave.cli\nfrom isoweave import metrics\nimport numpy\n"
        "def f():\n    from isoweave.graph._graph import NeighborGraph\n"
    )
    assert imported_layers(path) == {"cli", "metrics", "graph"}


def modules_after(code):
    """Names in sys.modules of a fresh process that has run ``code``."""
    report = "; import sys, json; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code + report], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


@pytest.mark.parametrize("code", ["import isoweave", "import isoweave.cli"])
def test_import_is_light(code):
    heavy = {"numba", "sklearn", "matplotlib", "pyamg", "pyarrow", "pandas"}
    assert not heavy & modules_after(code)
    assert "isoweave" in modules_after(code)


def test_help_needs_no_numpy():
    assert not {"numpy", "scipy"} & modules_after("import isoweave.cli")
