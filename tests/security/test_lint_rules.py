"""The lint rules that keep code out of load paths are on for the package, and are not switched off in it."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(importlib.util.find_spec("ruff") is None, reason="needs ruff")

ROOT = Path(__file__).resolve().parents[2]
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
}


def codes(source, name):
    """Codes of the rules that a file of the package with this text breaks."""
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "--output-format", "concise"]
    done = subprocess.run(
        [*command, "--stdin-filename", name, "-"],
        input=source,
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    return set(re.findall(r"^.*?:\d+:\d+: ([A-Z]+\d+) ", done.stdout, flags=re.MULTILINE))


@pytest.mark.parametrize(("source", "code"), FORBIDDEN.items(), ids=lambda value: value.split("\n")[0][:30])
def test_the_rule_is_on(source, code):
    assert code in codes(source, "src/isoweave/io/_anything.py")


def test_a_harmless_module_passes():
    source = '"""Nothing."""\n\nimport json\n\nVALUE = json.loads("1")\n'
    assert codes(source, "src/isoweave/io/_anything.py") == set()


def test_exceptions_in_the_package_are_known():
    """Every place where such a rule is switched off, and no other."""
    found = {
        (path.relative_to(ROOT / "src" / "isoweave").as_posix(), code)
        for path in (ROOT / "src").rglob("*.py")
        for codes in re.findall(r"# noqa: ([A-Z0-9, ]+)", path.read_text(encoding="utf-8"))
        for code in re.split(r", *", codes.strip())
        if re.match(r"S\d|TID", code)
    }
    assert found == {
        ("datasets/_folder.py", "TID251"),
        ("experiments/_figures.py", "TID251"),
        ("io/_isolated.py", "S603"),
    }
    assert not [path for path in (ROOT / "src").rglob("*.py") if "ruff: noqa" in path.read_text("utf-8")]
