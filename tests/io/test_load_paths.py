"""No file can run code: no pickle, eval, shell or network in the package, read from its source."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path

import pytest

PACKAGE = Path(importlib.util.find_spec("isoweave").submodule_search_locations[0])

UNPICKLERS = {
    "pickle",
    "cPickle",
    "_pickle",
    "marshal",
    "shelve",
    "dill",
    "cloudpickle",
    "joblib",
    "yaml",
    "pickletools",
}
NETWORK = {
    "socket",
    "ssl",
    "http",
    "urllib",
    "ftplib",
    "smtplib",
    "requests",
    "httpx",
    "aiohttp",
    "pooch",
    "xmlrpc",
}
# The process that pyarrow and libhdf5 run in; a list of arguments, never a shell.
MAY_START_PROCESSES = {"io/_isolated.py"}
CODE_RUNNERS = {"eval", "exec", "compile", "__import__"}
SHELLS = {"system", "popen", "spawnl", "spawnv", "execv", "execl", "execvp", "startfile"}


def modules():
    return sorted(PACKAGE.rglob("*.py"))


def name_of(path):
    return path.relative_to(PACKAGE).as_posix()


def faults(source, where):
    """What a module must not contain."""
    found = []
    for node in ast.walk(ast.parse(source)):
        imported = []
        if isinstance(node, ast.Import):
            imported = [alias.name.split(".")[0] for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            imported = [node.module.split(".")[0]]
        for name in imported:
            if name in UNPICKLERS | NETWORK:
                found.append(f"line {node.lineno}: import of {name}")
            if name == "subprocess" and where not in MAY_START_PROCESSES:
                found.append(f"line {node.lineno}: import of subprocess")
        if isinstance(node, ast.Call):
            found += [f"line {node.lineno}: {fault}" for fault in call_faults(node)]
    return found


def call_faults(call):
    keywords = {keyword.arg: keyword.value for keyword in call.keywords}
    function = call.func
    if isinstance(function, ast.Name) and function.id in CODE_RUNNERS:
        yield function.id
    if isinstance(function, ast.Attribute):
        owner = function.value.id if isinstance(function.value, ast.Name) else ""
        if owner == "os" and function.attr in SHELLS:
            yield f"os.{function.attr}"
        if owner in ("np", "numpy") and function.attr == "load":
            allowed = keywords.get("allow_pickle")
            if not (isinstance(allowed, ast.Constant) and allowed.value is False):
                yield "numpy.load without allow_pickle=False"
        if function.attr in ("read_pickle", "mmread", "load_npz", "genfromtxt", "loadtxt", "fromstring"):
            yield f"{function.attr}, which is not strict"
    allowed = keywords.get("allow_pickle")
    if allowed is not None and not (isinstance(allowed, ast.Constant) and allowed.value is False):
        yield "allow_pickle"
    shell = keywords.get("shell")
    if shell is not None and not (isinstance(shell, ast.Constant) and shell.value is False):
        yield "shell"


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_module(path):
    assert not faults(path.read_text(encoding="utf-8"), name_of(path))


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from joblib import load",
        "import urllib.request",
        "def f():\n    import socket",
        "import subprocess",
        "eval('1')",
        "os.system('ls')",
        "np.load('x.npy')",
        "np.load('x.npy', allow_pickle=True)",
        "np.load('x.npy', allow_pickle=flag)",
        "scipy.io.mmread('x.mtx')",
        "Popen('ls', shell=True)",
    ],
)
def test_the_check_sees_it(source):
    assert faults(source, "x.py")


def test_network_only_where_a_data_set_is_fetched():
    """scikit-learn's fetchers are the only way out, and each stands behind ``fetch=True``."""
    users = [name_of(path) for path in modules() if "fetch_" in path.read_text(encoding="utf-8")]
    assert users == ["datasets/_loaders.py"]
    tree = ast.parse((PACKAGE / users[0]).read_text(encoding="utf-8"))
    signatures = [node.args for node in tree.body if isinstance(node, ast.FunctionDef)]
    defaults = [
        default.value
        for args in signatures
        for argument, default in zip(args.kwonlyargs, args.kw_defaults, strict=True)
        if argument.arg == "fetch"
    ]
    assert defaults
    assert not any(defaults)
