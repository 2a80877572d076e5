"""Runs as CSV, one line each with all metrics, and back: tables are made again without running anything."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from isoweave.experiments._records import Records, fingerprint
from isoweave.experiments._spec import Record

_WHOLE = ("seed", "n_vertices", "n_edges", "n_neighbors", "n_components", "steps", "dropped_edges")
_REAL = ("seconds", "cpu_seconds")
_COLUMNS = (
    *("experiment", "row", "seed", "method", "scale", "n_vertices", "n_edges", "n_neighbors", "n_components"),
    *("status", "steps", "dropped_edges", "seconds", "cpu_seconds", "note", "error"),
)
# Empty cells that stand for an empty text rather than for nothing.
_MAY_BE_EMPTY = ("note",)


def to_csv(records: Sequence[Record]) -> str:
    """All runs as text; metrics follow the fixed columns."""
    metrics = list(dict.fromkeys(name for record in records for name in record["scores"]))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow((*_COLUMNS, *metrics))
    for record in records:
        scores = record["scores"]
        writer.writerow([*(record.get(name) for name in _COLUMNS), *(scores.get(name) for name in metrics)])
    return text.getvalue()


def add_csv(path: Path, records: Records) -> None:
    """Add the runs of a file written by :func:`to_csv` to records, as if made with this code."""
    with path.open(encoding="utf-8", newline="") as file:
        for cells in csv.DictReader(file):
            record: Record = {name: cells.pop(name) for name in _COLUMNS}
            for name in _COLUMNS:
                value = record[name]
                if value == "" and name not in _MAY_BE_EMPTY:
                    record[name] = None
                elif name in _WHOLE:
                    record[name] = int(value)
                elif name in _REAL:
                    record[name] = float(value)
            record["scores"] = {name: float(value) for name, value in cells.items() if value}
            record["code"] = fingerprint(record["method"])
            records.add(record)
