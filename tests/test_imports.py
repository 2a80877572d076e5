"""The layers of the package, checked by reading its imports."""

import ast
import importlib
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import isoweave

PACKAGE = Path(isoweave.__file__).parent

# From the bottom up: a room may import from its own line and from those above it in this list.
# docs/architecture.md says what lives in each.
LEVELS = (
    ("_typing", "_lazy", "_forks", "_parallel", "_validation", "_files", "_memory", "_pages", "options"),
    ("engines",),
    ("graph",),
    ("geometry",),
    ("linalg",),
    ("energy",),
    ("optimise",),
    ("known", "result"),
    ("_part_costs", "forecast"),
    ("_reporter", "_stages", "_edges", "_engine", "_component", "_small_components", "cuda", "embed"),
    ("place", "interop"),
    ("_sklearn_callbacks", "estimator"),
    ("tl",),
    ("metrics", "datasets", "persist", "io", "diagnostics"),
    ("cluster",),
    ("plot",),
    ("report",),
    ("experiments", "parametric"),
    ("cli", "__init__", "__main__"),
)
# Methods that open an outer room when they are called: those of an Embedding, and saving a model.
OPENS = {
    "result": {"io", "metrics", "diagnostics", "plot", "report", "persist"},
    "estimator": {"persist", "plot"},
}


@pytest.fixture(scope="module")
def modules():
    """Imports and classes of every module of the package."""
    kinds = (ast.Import, ast.ImportFrom, ast.ClassDef)
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}
    return {path: [n for n in ast.walk(tree) if isinstance(n, kinds)] for path, tree in trees.items()}


def layer_of(path):
    """First part of a module's name below the package: graph/_knn.py is in layer graph."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imported(nodes):
    """Modules of this package that are imported, inside functions or not, without its name."""
    for node in nodes:
        if isinstance(node, ast.ClassDef):
            continue
        names = [alias.name for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import of {node.module} on line {node.lineno}"
            # "from isoweave import graph" imports a room, "from isoweave.graph import x" names it.
            is_top = node.module == "isoweave"
            names = [f"isoweave.{name}" for name in names] if is_top else [node.module]
        yield from (name.removeprefix("isoweave.") for name in names if name.startswith("isoweave."))


def test_modules_are_reached_without_an_import_of_their_own():
    """By __getattr__: whether one of them has been imported before does not matter."""
    assert callable(isoweave.__getattr__("report").write_report)
    assert isoweave.__getattr__("tl") is importlib.import_module("isoweave.tl")
    assert {"report", "tl", "embed_graph"} <= set(dir(isoweave))
    with pytest.raises(AttributeError, match="'isoweave' has no attribute 'embd'"):
        isoweave.__getattr__("embd")


def test_imports_go_one_way(modules):
    # What is no room is a public name of the package.
    level = {room: at for at, rooms in enumerate(LEVELS) for room in rooms}
    unknown = {layer_of(path) for path in modules} - set(level)
    assert not unknown, f"give these a place in tests/test_imports.py: {sorted(unknown)}"
    assert {*imported(modules[PACKAGE / "embed.py"])} >= {"graph", "optimise", "_component"}
    for path, nodes in modules.items():
        room, rooms = layer_of(path), {name.split(".")[0] for name in imported(nodes)}
        wrong = {name for name in rooms if level.get(name, 0) > level[room]} - OPENS.get(room, set())
        assert not wrong, f"{path.relative_to(PACKAGE)} imports {sorted(wrong)}, which lie above {room}"


def test_no_room_reaches_into_the_private_modules_of_another(modules):
    for path, nodes in modules.items():
        others = [name for name in imported(nodes) if name.split(".")[0] != layer_of(path)]
        assert not [name for name in others if "._" in name], path


def test_no_class_name_is_defined_twice(modules):
    names = Counter(n.name for nodes in modules.values() for n in nodes if isinstance(n, ast.ClassDef))
    assert not [name for name, count in names.items() if count > 1]


def test_import_is_light():
    """The command line imports the package; its help needs not even numpy."""
    heavy = {"numba", "sklearn", "matplotlib", "pyarrow", "pandas", "numpy", "scipy"}
    code = "import isoweave, isoweave.cli, sys, json; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(json.loads(done.stdout))
    assert "isoweave.cli" in loaded
    assert not heavy & loaded
