"""The lint rules that keep code out of load paths are on for the package, and are not switched off in it."""

import ast
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(importlib.util.find_spec("ruff") is None, reason="needs ruff")

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
FORBIDDEN = {
    "import pickle\n": "TID251",
    "from joblib import load\n": "TID251",
    "import pickle\n\npickle.loads(b'')\n": "S301",
    "import marshal\n\nmarshal.loads(b'')\n": "S302",
    "eval('1')\n": "S307",
    "exec('x = 1')\n": "S102",
    "import subprocess\n\nsubprocess.run('ls', shell=True)\n": "S602",
    "import subprocess\nimport sys\n\nsubprocess.run([sys.argv[1]])\n": "S603",
    "import os\n\nos.system('ls')\n": "S605",
    "import tempfile\n\ntempfile.mktemp()\n": "S306",
    "import socket\n": "TID251",
    "import urllib.request\n": "TID251",
    "import sys\nfrom urllib.request import urlopen\n\nurlopen(sys.argv[1])\n": "S310",
    "import yaml\n\nyaml.load('x')\n": "S506",
    "import numpy as np\n\nnp.load('x.npy')\n": "TID251",
    "from scipy.io import mmread\n": "TID251",
    "import numpy as np\n\nnp.loadtxt('x.csv')\n": "TID251",
    "import pandas as pd\n\npd.read_pickle('x')\n": "TID251",
    "import requests\n": "TID251",
}


RULES = ["--select", "S,TID251", "--ignore", "S101"]


def ruff(*arguments):
    """Codes of the rules that are broken, by file."""
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "--output-format", "concise", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode in (0, 1), done.stderr
    found = re.findall(r"^(.*?):\d+:\d+: ([A-Z]+\d+) ", done.stdout, flags=re.MULTILINE)
    return {(Path(name).as_posix().removeprefix("src/isoweave/"), code) for name, code in found}


def test_the_rules_are_on(tmp_path):
    """In one run; a file on its own is no package, which other rules mind."""
    for number, source in enumerate(FORBIDDEN):
        (tmp_path / f"{number}.py").write_text(source)
    (tmp_path / "fine.py").write_text('"""Fine."""\n\nimport json\n\nVALUE = json.loads("1")\n')
    found = ruff("--config", ROOT / "pyproject.toml", "--ignore", "INP,N999", tmp_path)
    codes = {(Path(name).stem, code) for name, code in found}
    assert not {code for stem, code in codes if stem == "fine"}
    assert {(str(number), code) for number, code in enumerate(FORBIDDEN.values())} <= codes


def test_exceptions_in_the_package_are_known():
    """Every place where such a rule is broken, switched off or not, and no other."""
    assert ruff(*RULES, "src") == set()
    assert ruff(*RULES, "--ignore-noqa", "src") == {
        ("datasets/_loaders.py", "TID251"),
        ("experiments/_figures.py", "TID251"),
        ("engines/ahead.py", "S603"),
        ("io/_read.py", "S603"),
    }
    starting = [path.name for path in SOURCES if "subprocess" in path.read_text(encoding="utf-8")]
    assert sorted(starting) == ["_read.py", "ahead.py"]


def test_network_only_where_a_data_set_is_fetched():
    """scikit-learn's fetchers are the only way out, and each stands behind ``fetch=True``."""
    users = [path for path in SOURCES if "fetch_" in path.read_text(encoding="utf-8")]
    assert [path.name for path in users] == ["_loaders.py"]
    tree = ast.parse(users[0].read_text(encoding="utf-8"))
    signatures = [node.args for node in tree.body if isinstance(node, ast.FunctionDef)]
    arguments = [pair for args in signatures for pair in zip(args.kwonlyargs, args.kw_defaults, strict=True)]
    assert {default.value for argument, default in arguments if argument.arg == "fetch"} == {False}
