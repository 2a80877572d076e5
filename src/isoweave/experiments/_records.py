"""Finished runs: JSON lines, so that a rerun skips what is done, and the frame that tables are made of."""

from __future__ import annotations

import ast
import hashlib
import json
import math
import platform
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import isoweave
from isoweave._files import append_text
from isoweave.experiments._methods import METHODS

if TYPE_CHECKING:
    import pandas as pd

RunRecord: TypeAlias = dict[str, Any]
# Experiment, row, seed, method and scale: what makes a run.
Key: TypeAlias = tuple[str, str, int, str, str]

_KEYS = ("experiment", "row", "seed", "method", "scale")
# Columns of every frame and CSV file; metrics follow.
COLUMNS = (
    *(*_KEYS, "n_vertices", "n_edges", "n_neighbors", "n_components"),
    *("status", "steps", "dropped_edges", "seconds", "cpu_seconds", "note", "error"),
)
_TEXTS = ("experiment", "row", "method", "scale", "status", "note", "error")
_WHOLE = ("seed", "n_vertices", "n_edges", "n_neighbors", "n_components", "steps", "dropped_edges")

_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "umap-learn", "pymde")
# What records of baselines depend on, and parts of the package that no record depends on.
_BASELINES = ("metrics", "datasets", "graph", "engines")
_METHOD_FILES = ("_problems.py", "_spectral.py", "_stochastic.py", "baselines.py")
_OUTER = {
    "checkpoints",
    "cli",
    "diagnostics",
    "experiments",
    "interop",
    "io",
    "persist",
    "place",
    "plot",
    "report",
}


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
        _import_pandas()  # now, not after hours of work
        self._path = path
        self._records: dict[Key, RunRecord] = {}
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

    def __iter__(self) -> Iterator[RunRecord]:
        return iter(self._records.values())

    def is_done(self, key: Key) -> bool:
        """Whether a run was made, with today's code, and did not fail."""
        return key in self._records and self._records[key]["error"] is None

    def add(self, record: RunRecord) -> None:
        """Keep a record, in memory and on disk."""
        line = json.dumps(without_nan(record), allow_nan=False)
        self._records[key_of(record)] = json.loads(line)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        append_text(self._path, line + "\n" if self._ends_in_newline else "\n" + line + "\n")
        self._ends_in_newline = True

    def frame(self) -> pd.DataFrame:
        """All runs, see :func:`runs_frame`."""
        return runs_frame(self)


def key_of(record: RunRecord) -> Key:
    experiment, row, seed, method, scale = (record[name] for name in _KEYS)
    return experiment, row, seed, method, scale


def runs_frame(records: Iterable[RunRecord]) -> pd.DataFrame:
    """A line per run, in order of seeds: fixed columns, then every metric that any run has."""
    lines = [{name: record.get(name) for name in COLUMNS} | record["scores"] for record in records]
    return _typed(_import_pandas().DataFrame(lines, columns=None if lines else COLUMNS))


def read_runs(paths: Iterable[Path]) -> pd.DataFrame:
    """The runs of CSV files written by :func:`write_tables`, whose tables can be made again from them."""
    pd = _import_pandas()
    # As text: pandas before 3 reads numbers that may differ in the last bit from those written.
    return _typed(pd.concat([pd.read_csv(path, dtype=str) for path in paths], ignore_index=True))


def _typed(frame: pd.DataFrame) -> pd.DataFrame:
    numbers = [name for name in frame if name not in _TEXTS]
    frame = frame.astype(dict.fromkeys(numbers, float)).astype(dict.fromkeys(_WHOLE, "Int64"))
    return frame.fillna({"note": ""}).sort_values("seed", kind="stable", ignore_index=True)


def select(runs: pd.DataFrame, experiment: str, scale: str, row: str | None = None) -> pd.DataFrame:
    """Runs of an experiment, or of one of its rows."""
    keep = (runs["experiment"] == experiment) & (runs["scale"] == scale)
    return runs[keep if row is None else keep & (runs["row"] == row)]


def _import_pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise ImportError("The experiments need pandas: pip install 'isoweave[experiments]'.") from error
    return pandas


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
    return _hash_code(method in METHODS and METHODS[method].baseline is not None)


@cache
def _hash_code(is_baseline: bool) -> str:
    package = Path(isoweave.__file__).parent
    paths = []
    for path in sorted(package.rglob("*.py")):
        part, *rest = path.relative_to(package).parts
        if (
            part in _BASELINES
            or (rest and rest[0] in _METHOD_FILES)
            or (part not in _OUTER and not is_baseline)
        ):
            paths.append(path)
    digest = hashlib.sha256()
    for path in paths:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            body = getattr(node, "body", None)
            if isinstance(body, list) and body and _is_text(body[0]):
                body[0] = ast.Pass()
        digest.update(ast.dump(tree).encode())
    return digest.hexdigest()[:16]


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
