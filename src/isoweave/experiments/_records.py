"""Finished runs in a file of JSON lines, so that a rerun skips what is done."""

from __future__ import annotations

import ast
import hashlib
import json
import math
import platform
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, TypeAlias

import isoweave
from isoweave._files import append_text
from isoweave.experiments._spec import Record

Key: TypeAlias = tuple[str, str, int, str, str]

_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "umap-learn", "pymde")
_ALWAYS = ("metrics", "datasets", "graph")
_ENGINE = ("embedding", "energy", "engines", "geometry", "linalg", "optimise")


def key_of(record: Record) -> Key:
    """Experiment, row, seed, method and scale: what makes a run."""
    return record["experiment"], record["row"], record["seed"], record["method"], record["scale"]


class Records:
    """Runs of one output folder.

    A record is used only if the code it depends on is unchanged (see :func:`fingerprint`); failed runs are
    tried again. A line that was cut short by a crash is ignored.

    Parameters
    ----------
    path : pathlib.Path
        File of JSON lines; made when the first record is added.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._records: dict[Key, Record] = {}
        self._ends_in_newline = True
        if path.exists():
            text = path.read_text(encoding="utf-8")
            self._ends_in_newline = not text or text.endswith("\n")
            for line in text.splitlines():
                try:
                    record = json.loads(line)
                    key, code = key_of(record), record["code"]
                except (ValueError, KeyError, TypeError):
                    continue
                if code == fingerprint(record["method"]):
                    self._records[key] = record

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[Record]:
        return iter(self._records.values())

    def is_done(self, key: Key) -> bool:
        """Whether a run was made, with today's code, and did not fail."""
        return key in self._records and self._records[key]["error"] is None

    def add(self, record: Record) -> None:
        """Keep a record, in memory and on disk."""
        line = json.dumps(without_nan(record), allow_nan=False)
        self._records[key_of(record)] = json.loads(line)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        append_text(self._path, line + "\n" if self._ends_in_newline else "\n" + line + "\n")
        self._ends_in_newline = True

    def of(
        self, experiment: str, scale: str, row: str | None = None, method: str | None = None
    ) -> list[Record]:
        """Records of an experiment, in order of rows as they were run and seeds."""
        found = [
            record
            for record in self._records.values()
            if record["experiment"] == experiment
            and record["scale"] == scale
            and row in (None, record["row"])
            and method in (None, record["method"])
        ]
        return sorted(found, key=lambda record: int(record["seed"]))


def without_nan(value: Any) -> Any:
    """The same with None for numbers that JSON does not have."""
    if isinstance(value, dict):
        return {key: without_nan(part) for key, part in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


@cache
def versions() -> dict[str, str]:
    """Of Python, this package and those the numbers depend on."""
    found = {"python": platform.python_version(), "isoweave": isoweave.__version__}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def fingerprint(method: str) -> str:
    """Hash of the code a method's records depend on: data, metrics, and the engine or the baselines.

    Comments and docstrings do not count.
    """
    from isoweave.experiments._methods import METHODS

    is_baseline = method in METHODS and METHODS[method].baseline is not None
    return _hash_folders((*_ALWAYS, *(("baselines",) if is_baseline else _ENGINE)))


@cache
def _hash_folders(folders: tuple[str, ...]) -> str:
    package = Path(isoweave.__file__).parent
    digest = hashlib.sha256()
    paths = sorted(path for folder in folders for path in (package / folder).glob("*.py"))
    for path in (*paths, package / "experiments" / "_problems.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            body = getattr(node, "body", None)
            if isinstance(body, list) and body and _is_text(body[0]):
                body[0] = ast.Pass()
        digest.update(ast.dump(tree).encode())
    return digest.hexdigest()[:16]


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
