"""Tables of an experiment: Markdown to read, CSV of all runs, JSON of means."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from isoweave._files import write_text
from isoweave.experiments._csv import to_csv
from isoweave.experiments._methods import METHODS
from isoweave.experiments._paper import PRINTED
from isoweave.experiments._records import Records, without_nan
from isoweave.experiments._spec import Experiment, Record, Row, Scale

TITLES = {
    "f1": "F1",
    "local_distance": "edge error",
    "local_angle": "angle error (°)",
    "local_metric": "Gram error",
    "precision": "precision",
    "recall": "recall",
    "trustworthiness": "trustworthiness",
    "continuity": "continuity",
    "global_stress": "stress",
    "pearson": "Pearson",
    "spearman": "Spearman",
    "kendall": "Kendall",
    "parameter_error": "parameter error",
    "procrustes_error": "procrustes",
    "accuracy": "accuracy",
    "nmi": "NMI",
    "ari": "ARI",
    # Of one thread: the time on the wall depends on what else the machine does.
    "cpu_seconds": "CPU seconds",
}
SMALLER_IS_BETTER = frozenset(
    ("local_distance", "local_angle", "local_metric", "global_stress", "parameter_error", "procrustes_error")
)


@dataclass(frozen=True)
class Table:
    """Cells of one row's table as text; a cell in ``best`` (line, column) is the best of its column."""

    title: str
    notes: tuple[str, ...]
    head: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    best: frozenset[tuple[int, int]]


def values_of(records: Sequence[Record], metric: str) -> list[float]:
    """Values of a metric (or ``cpu_seconds``) over the runs that have it."""
    found = (r.get(metric) if metric == "cpu_seconds" else r["scores"].get(metric) for r in records)
    return [float(value) for value in found if value is not None]


def show(value: float, metric: str) -> str:
    """A cell: rigid-motion errors span decades, seconds are rough, the rest has three digits."""
    if metric == "procrustes_error":
        return f"{value:.1e}"
    if metric == "cpu_seconds":
        return f"{value:.2f}" if value < 10 else f"{value:.0f}"
    return f"{value:.3f}" if abs(value) < 100 else f"{value:.3g}"


def make_table(
    experiment: Experiment, row: Row, records: Records, scale: Scale, *, with_printed: bool
) -> Table | None:
    """Means (and standard deviations over seeds) of every method; None where nothing was run."""
    runs = {name: records.of(experiment.name, scale.name, row.name, name) for name in METHODS}
    runs = {name: found for name, found in runs.items() if found}
    if not runs:
        return None
    columns = [m for m in (*experiment.metrics, "cpu_seconds") if any(values_of(r, m) for r in runs.values())]
    printed = PRINTED.get(experiment.name, {}) if with_printed else {}
    lines: list[tuple[str, ...]] = []
    means: dict[tuple[int, int], float] = {}
    for name in METHODS:
        if name in runs:
            good = [record for record in runs[name] if record["error"] is None]
            cells = []
            for column, metric in enumerate(columns):
                values = values_of(good, metric)
                is_reference = metric == "parameter_error" and name == experiment.reference
                if values and not is_reference:
                    means[len(lines), column] = float(np.mean(values))
                cells.append("reference" if is_reference else _cell(values, metric))
            failed = len(runs[name]) - len(good)
            count = f"{len(good)}" + (f" ({failed} failed)" if failed else "")
            lines.append((METHODS[name].title, *cells, count))
        if name in printed:
            title = "proposed" if name == "paper" else METHODS[name].title
            cells = [f"{printed[name][m]:g}" if m in printed[name] else "" for m in columns]
            lines.append((f"{title}, printed in the paper", *cells, ""))
    best = {(line, column + 1) for line, column in _best(means, columns)}
    head = ("method", *(TITLES[m] for m in columns), "runs")
    return Table(row.title, tuple(_notes(runs)), head, tuple(lines), frozenset(best))


def _cell(values: list[float], metric: str) -> str:
    if not values:
        return ""
    if len(values) == 1 or metric == "cpu_seconds":
        return show(float(np.mean(values)), metric)
    if metric == "procrustes_error":
        return f"{show(float(np.mean(values)), metric)} (worst {show(max(values), metric)})"
    return f"{show(float(np.mean(values)), metric)} ± {show(float(np.std(values, ddof=1)), metric)}"


def _best(means: dict[tuple[int, int], float], columns: Sequence[str]) -> Iterator[tuple[int, int]]:
    for column, metric in enumerate(columns):
        found = {line: value for (line, c), value in means.items() if c == column}
        if metric != "cpu_seconds" and len(found) > 1:
            limit = min(found.values()) if metric in SMALLER_IS_BETTER else max(found.values())
            yield from ((line, column) for line, value in found.items() if value == limit)


def _notes(runs: dict[str, list[Record]]) -> Iterator[str]:
    first = next(iter(runs.values()))[0]
    sizes = sorted({int(r["n_vertices"]) for found in runs.values() for r in found})
    size = f"{sizes[0]:,}" if len(sizes) == 1 else f"{sizes[0]:,} to {sizes[-1]:,}"
    yield f"n = {size}, k = {first['n_neighbors']}, N = {first['n_components']}."
    noted = dict.fromkeys(r["note"] for found in runs.values() for r in found if r["note"])
    yield from (f"{note}." for note in list(noted)[:3])
    dropped = [int(r["dropped_edges"]) for r in runs.get("default", []) if r.get("dropped_edges")]
    if dropped:
        yield f"Edges dropped by isoweave's shortcut filter: up to {max(dropped)} per graph."
    for name, found in runs.items():
        limited = sum(r.get("status") == "max_iter" for r in found)
        if limited:
            yield f"{METHODS[name].title}: {limited} of {len(found)} runs ended at the limit of steps."
        errors = dict.fromkeys(r["error"] for r in found if r["error"] is not None)
        yield from (f"{METHODS[name].title} failed: {error}" for error in list(errors)[:2])


def make_tables(experiment: Experiment, records: Records, scale: Scale) -> list[Table]:
    """A table for every row that has runs; the paper's numbers stand in the first."""
    tables: list[Table] = []
    for row in experiment.rows_for(scale):
        table = make_table(experiment, row, records, scale, with_printed=not tables)
        if table is not None:
            tables.append(table)
    return tables


def scale_note(scale: Scale) -> str:
    """What a reader must know about a run that is not the full one; empty for that."""
    if scale.name == "full":
        return ""
    steps = f", the paper's recursion cut at {scale.paper_steps} steps" if scale.paper_steps else ""
    return (
        f"{scale.name.capitalize()} run: seeds per row at most {scale.n_seeds}, points at most "
        f"{scale.n_samples}, not all rows{steps}. A first look, not the paper's setting; do not quote."
    )


def write_tables(
    experiment: Experiment, records: Records, scale: Scale, folder: Path, skipped: Sequence[str] = ()
) -> list[Path]:
    """Write ``NAME.md``, ``NAME.csv`` and ``NAME.json`` and return their paths.

    Parameters
    ----------
    experiment : Experiment
    records : Records
    scale : Scale
    folder : pathlib.Path
    skipped : sequence of str
        What could not be run; said in the Markdown and the JSON.
    """
    folder.mkdir(parents=True, exist_ok=True)
    contents = {
        "md": markdown(experiment, records, scale, skipped),
        "csv": to_csv(records.of(experiment.name, scale.name)),
        "json": json.dumps(_summary(experiment, records, scale, skipped), indent=1, allow_nan=False) + "\n",
    }
    paths = []
    for suffix, text in contents.items():
        path = folder / f"{experiment.name}.{suffix}"
        write_text(path, text)
        paths.append(path)
    return paths


def markdown(experiment: Experiment, records: Records, scale: Scale, skipped: Sequence[str]) -> str:
    """The whole page of an experiment."""
    lines = [f"# {experiment.title}", "", experiment.about, ""]
    if scale_note(scale):
        lines += [f"**{scale_note(scale)}**", ""]
    lines += [f"- Skipped: {reason}" for reason in skipped]
    for table in make_tables(experiment, records, scale):
        lines += ["", f"## {table.title}", "", *table.notes, ""]
        lines += ["| " + " | ".join(table.head) + " |", "|" + "---|" * len(table.head)]
        for number, cells in enumerate(table.lines):
            shown = [f"**{c}**" if (number, at) in table.best else c for at, c in enumerate(cells)]
            lines.append("| " + " | ".join(shown) + " |")
    lines += [
        "",
        "Means ± standard deviations over the seeds; the best of a column in bold. Spectral methods, t-SNE "
        "and UMAP have a scale of their own: their edge errors and stress say little.",
    ]
    return "\n".join(lines) + "\n"


def _summary(
    experiment: Experiment, records: Records, scale: Scale, skipped: Sequence[str]
) -> dict[str, Any]:
    rows: dict[str, Any] = {}
    for row in experiment.rows_for(scale):
        for method in METHODS:
            found = records.of(experiment.name, scale.name, row.name, method)
            good = [record for record in found if record["error"] is None]
            if not found:
                continue
            metrics = dict.fromkeys(name for record in good for name in record["scores"])
            numbers = {name: _statistics(values_of(good, name)) for name in (*metrics, "cpu_seconds")}
            entry = {"runs": len(good), "failed": len(found) - len(good), "metrics": numbers}
            rows.setdefault(row.name, {"title": row.title, "methods": {}})["methods"][method] = entry
    summary = {
        "experiment": experiment.name,
        "title": experiment.title,
        "scale": scale.name,
        "note": scale_note(scale),
        "skipped": list(skipped),
        "rows": rows,
        "printed_in_the_paper": PRINTED.get(experiment.name, {}),
    }
    cleaned: dict[str, Any] = without_nan(summary)
    return cleaned


def _statistics(values: list[float]) -> dict[str, float] | None:
    if not values:
        return None
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return {"mean": float(np.mean(values)), "std": spread, "min": min(values), "max": max(values)}
