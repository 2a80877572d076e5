"""Finished runs: JSON lines, so that a rerun skips what is done, and the frame that tables are made of."""

from __future__ import annotations

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
from isoweave.experiments.baselines import BASELINES

if TYPE_CHECKING:
    import pandas as pd

RunRecord: TypeAlias = dict[str, Any]
# What makes a run: experiment, row, seed, method and name of the scale.
Key: TypeAlias = tuple[str, str, int, str, str]

KEYS = ("experiment", "row", "seed", "method", "scale")
# Columns of every frame and CSV file; metrics follow.
COLUMNS = (
    *(*KEYS, "n_vertices", "n_edges", "n_neighbors", "n_components"),
    *("status", "steps", "dropped_edges", "seconds", "cpu_seconds", "note", "error"),
)
_TEXTS = ("experiment", "row", "method", "scale", "status", "note", "error")
_WHOLE = ("seed", "n_vertices", "n_edges", "n_neighbors", "n_components", "steps", "dropped_edges")

_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "umap-learn", "pymde")
# Rooms and files that every record depends on, and rooms that none does.
_DATA = {"metrics", "datasets", "graph", "engines"}
_PROBLEMS = {"_problems.py", "baselines.py"}
_OUTER = {"cli", "diagnostics", "experiments", "interop", "io", "persist", "place", "plot", "report"}


class Records:
    """Runs of one output folder, in a file of JSON lines.

    A record is used only if the code it depends on is unchanged (see :func:`fingerprint`); failed runs are
    tried again. A line that was cut short by a crash is ignored.
    """

    def __init__(self, path: Path) -> None:
        _import_pandas()  # now, not after hours of work
        self._path = path
        self._records: dict[Key, RunRecord] = {}
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        # Whatever a crash left of the last line is closed first.
        self._before = "" if not text or text.endswith("\n") else "\n"
        for line in text.splitlines():
            try:
                record = json.loads(line)
                if record["code"] == fingerprint(record["method"] in BASELINES):
                    self._records[key_of(record)] = record
            except (ValueError, KeyError, TypeError):
                continue

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
        append_text(self._path, f"{self._before}{line}\n")
        self._before = ""

    def frame(self) -> pd.DataFrame:
        """All runs, see :func:`runs_frame`."""
        return runs_frame(self)


def key_of(record: RunRecord) -> Key:
    experiment, row, seed, method, scale = (record[name] for name in KEYS)
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
    return None if isinstance(value, float) and not math.isfinite(value) else value


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


@cache
def fingerprint(is_baseline: bool) -> str:
    """Hash of the code that records depend on: data, metrics, baselines, and for our methods the engine."""
    package = Path(isoweave.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        room = path.relative_to(package).parts[0]
        is_ours = not is_baseline and room not in _OUTER
        if room in _DATA or is_ours or (room == "experiments" and path.name in _PROBLEMS):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
