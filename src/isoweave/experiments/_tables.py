"""Tables of an experiment: Markdown to read, CSV of all runs, JSON of means; and who wins where."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isoweave._files import write_text
from isoweave.experiments._catalog import EXPERIMENTS, PRINTED
from isoweave.experiments._methods import METHODS
from isoweave.experiments._records import COLUMNS, select
from isoweave.experiments._spec import Experiment, Scale, Setting
from isoweave.metrics import METRIC_MEANINGS

if TYPE_CHECKING:
    import pandas as pd

TITLES = {
    "f1": "F1",
    "local_distance": "edge error",
    "local_angle": "angle error (°)",
    "local_metric": "Gram error",
    "global_stress": "stress",
    "pearson": "Pearson",
    "kendall": "Kendall",
    "parameter_error": "parameter error",
    "procrustes_error": "procrustes",
    "accuracy": "accuracy",
    "nmi": "NMI",
    "ari": "ARI",
    # Of one thread: the time on the wall depends on what else the machine does.
    "cpu_seconds": "CPU seconds",
}
LEVEL = (
    "Level: the paired difference is within two standard errors (with fewer than three seeds: within one "
    "hundredth)."
)
OURS = "default"
# Runs below which no spread is known; then differences under a hundredth count as none.
_FEWEST_RUNS = 3
_SAME = 0.01


@dataclass(frozen=True)
class ResultTable:
    """Cells as text; one in ``best`` (line, column) is the best of its column; ``kinds`` of the lines."""

    title: str
    notes: tuple[str, ...]
    head: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    best: frozenset[tuple[int, int]] = frozenset()
    kinds: tuple[str, ...] = ()

    def markdown(self) -> list[str]:
        lines = ["| " + " | ".join(self.head) + " |", "|" + "---|" * len(self.head)]
        for number, cells in enumerate(self.lines):
            shown = [f"**{c}**" if (number, at) in self.best else c for at, c in enumerate(cells)]
            lines.append("| " + " | ".join(shown) + " |")
        return lines


def show(value: float, metric: str) -> str:
    """A cell: rigid-motion errors span decades, seconds are rough, the rest has three digits."""
    if metric == "procrustes_error":
        return f"{value:.1e}"
    if metric == "cpu_seconds":
        return f"{value:.2f}" if value < 10 else f"{value:.0f}"
    return f"{value:.3f}" if abs(value) < 100 else f"{value:.3g}"


def _statistics(good: pd.DataFrame, columns: Sequence[str]) -> dict[tuple[str, str], dict[str, float]]:
    """Mean, standard deviation, extremes and number of values, by method and column."""
    values = good.melt("method", columns).groupby(["method", "variable"])["value"]
    found: dict[tuple[str, str], dict[str, float]]
    found = values.agg(["mean", "std", "min", "max", "count"]).to_dict("index")
    return found


def _cell(found: dict[str, float] | None, metric: str) -> str:
    if not found or found["count"] == 0:
        return ""
    if found["count"] == 1 or metric == "cpu_seconds":
        return show(found["mean"], metric)
    if metric == "procrustes_error":
        return f"{show(found['mean'], metric)} (worst {show(found['max'], metric)})"
    return f"{show(found['mean'], metric)} ± {show(found['std'], metric)}"


def make_table(
    experiment: Experiment, row: Setting, runs: pd.DataFrame, scale: Scale, *, with_printed: bool
) -> ResultTable | None:
    """Means (and standard deviations over seeds) of every method; None where nothing was run."""
    runs = select(runs, experiment.name, scale.name, row.name)
    if not len(runs):
        return None
    good = runs[runs["error"].isna()]
    columns = [m for m in (*experiment.metrics, "cpu_seconds") if m in good and good[m].notna().any()]
    counts, statistics = runs["method"].value_counts(), _statistics(good, columns)
    n_good = good["method"].value_counts()
    printed = PRINTED.get(experiment.name, {}) if with_printed else {}
    lines: list[tuple[str, ...]] = []
    kinds: list[str] = []
    means: dict[str, dict[int, float]] = {metric: {} for metric in columns}
    for name in METHODS:
        if name in counts:
            cells = []
            for metric in columns:
                is_reference = metric == "parameter_error" and name == experiment.reference
                found = statistics.get((name, metric))
                if found and found["count"] and not is_reference:
                    means[metric][len(lines)] = found["mean"]
                cells.append("reference" if is_reference else _cell(found, metric))
            failed = counts[name] - n_good.get(name, 0)
            count = f"{n_good.get(name, 0)}" + (f" ({failed} failed)" if failed else "")
            lines.append((METHODS[name].title, *cells, count))
            kinds.append("")
        if name in printed:
            title = "proposed" if name == "paper" else METHODS[name].title
            cells = [f"{printed[name][m]:g}" if m in printed[name] else "" for m in columns]
            lines.append((f"{title}, printed in the paper", *cells, ""))
            kinds.append("printed")
    head = ("method", *(TITLES[m] for m in columns), "runs")
    best = frozenset((line, columns.index(m) + 1) for m in columns for line in _best(means[m], m))
    return ResultTable(row.title, tuple(_notes(runs)), head, tuple(lines), best, tuple(kinds))


def _sign(metric: str) -> int:
    """1 where more is better, -1 where less is."""
    return METRIC_MEANINGS[metric][1]


def _best(means: dict[int, float], metric: str) -> list[int]:
    if metric == "cpu_seconds" or len(means) < 2:
        return []
    limit = max(_sign(metric) * value for value in means.values())
    return [line for line, value in means.items() if _sign(metric) * value == limit]


def _notes(runs: pd.DataFrame) -> Iterator[str]:
    sizes = sorted(runs["n_vertices"].unique())
    size = f"{sizes[0]:,}" if len(sizes) == 1 else f"{sizes[0]:,} to {sizes[-1]:,}"
    by_method = {name: runs[runs["method"] == name] for name in METHODS if (runs["method"] == name).any()}
    first = next(iter(by_method.values())).iloc[0]
    yield f"n = {size}, k = {first['n_neighbors']}, N = {first['n_components']}."
    noted = dict.fromkeys(note for found in by_method.values() for note in found["note"] if note)
    yield from (f"{note}." for note in list(noted)[:3])
    dropped = runs.loc[runs["method"] == OURS, "dropped_edges"].dropna()
    if dropped.any():
        yield f"Edges dropped by isoweave's shortcut filter: up to {int(dropped.max())} per graph."
    for name, found in by_method.items():
        limited = (found["status"] == "max_iter").sum()
        if limited:
            yield f"{METHODS[name].title}: {limited} of {len(found)} runs reached the step limit."
        errors = list(found["error"].dropna().unique())
        yield from (f"{METHODS[name].title} failed: {error}" for error in errors[:2])


def make_tables(experiment: Experiment, runs: pd.DataFrame, scale: Scale) -> list[ResultTable]:
    """A table for every row that has runs; the first has the paper's numbers."""
    tables: list[ResultTable] = []
    for row in experiment.rows_for(scale):
        table = make_table(experiment, row, runs, scale, with_printed=not tables)
        if table is not None:
            tables.append(table)
    return tables


def write_tables(
    experiment: Experiment, runs: pd.DataFrame, scale: Scale, folder: Path, skipped: Sequence[str] = ()
) -> list[Path]:
    """Write ``NAME.md``, ``NAME.csv`` and ``NAME.json`` and return their paths.

    ``runs`` come from :meth:`Records.frame` or :func:`read_runs`; ``skipped`` says what could not be run.
    """
    folder.mkdir(parents=True, exist_ok=True)
    own = select(runs, experiment.name, scale.name)
    metrics = [name for name in METRIC_MEANINGS if name in own and own[name].notna().any()]
    contents = {
        "md": _markdown(experiment, runs, scale, skipped),
        "csv": own[[*COLUMNS, *metrics]].to_csv(index=False, lineterminator="\n"),
        "json": json.dumps(_summary(experiment, own, scale, skipped), indent=1, allow_nan=False) + "\n",
    }
    paths = [folder / f"{experiment.name}.{suffix}" for suffix in contents]
    for path, text in zip(paths, contents.values(), strict=True):
        write_text(path, text)
    return paths


def _markdown(experiment: Experiment, runs: pd.DataFrame, scale: Scale, skipped: Sequence[str]) -> str:
    lines = [f"# {experiment.title}", "", experiment.about, ""]
    if scale.note:
        lines += [f"**{scale.note}**", ""]
    lines += [f"- Skipped: {reason}" for reason in skipped]
    for table in make_tables(experiment, runs, scale):
        lines += ["", f"## {table.title}", "", *table.notes, "", *table.markdown()]
    lines += [
        "",
        "Means ± standard deviations over the seeds; the best of a column in bold. Spectral methods, t-SNE "
        "and UMAP have no unit of length, so their edge errors and stress say little.",
    ]
    return "\n".join(lines) + "\n"


def _summary(
    experiment: Experiment, runs: pd.DataFrame, scale: Scale, skipped: Sequence[str]
) -> dict[str, Any]:
    metrics = [*(name for name in METRIC_MEANINGS if name in runs), "cpu_seconds"]
    rows: dict[str, Any] = {}
    for row in experiment.rows_for(scale):
        own = runs[runs["row"] == row.name]
        good = own[own["error"].isna()]
        found = _statistics(good, metrics)
        for method in (name for name in METHODS if (own["method"] == name).any()):
            numbers = {name: _numbers(found[method, name]) for name in metrics if (method, name) in found}
            failed = int(own.loc[own["method"] == method, "error"].notna().sum())
            entry = {"runs": int((good["method"] == method).sum()), "failed": failed, "metrics": numbers}
            rows.setdefault(row.name, {"title": row.title, "methods": {}})["methods"][method] = entry
    summary: dict[str, Any] = {
        "experiment": experiment.name,
        "title": experiment.title,
        "scale": scale.name,
        "note": scale.note,
        "skipped": list(skipped),
        "rows": rows,
        "printed_in_the_paper": PRINTED.get(experiment.name, {}),
    }
    return summary


def _numbers(found: dict[str, float]) -> dict[str, float] | None:
    """None where there is no value; a single one has no spread."""
    if found.pop("count") == 0:
        return None
    return found | {"std": 0.0 if math.isnan(found["std"]) else found["std"]}


@dataclass(frozen=True)
class Comparison:
    """One measure of one row: means, over the seeds both have, of ours and the best of the others.

    The winner is None where the paired difference is within two standard errors.
    """

    experiment: str
    row: str
    metric: str
    ours: float
    best_other: float
    other: str
    winner: str | None


def compare(runs: pd.DataFrame, scale: Scale) -> list[Comparison]:
    """Compare ours with the best of the others wherever both have run."""
    found = []
    for experiment in EXPERIMENTS.values():
        for row in experiment.rows_for(scale):
            good = select(runs, experiment.name, scale.name, row.name)
            good = good[good["error"].isna()]
            for metric in (name for name in experiment.metrics if name in good):
                values = good.pivot(index="seed", columns="method", values=metric)
                if metric == "parameter_error" and experiment.reference in values:
                    values = values.drop(columns=experiment.reference)
                comparison = _compare(experiment.title, row.title, metric, values)
                if comparison is not None:
                    found.append(comparison)
    return found


def _compare(experiment: str, row: str, metric: str, values: pd.DataFrame) -> Comparison | None:
    """``values`` has a line per seed and a column per method."""
    if OURS not in values:
        return None
    values = values[values[OURS].notna()].dropna(axis="columns", how="all")
    others = [name for name in METHODS if name in values and name != OURS]
    if not others:
        return None
    other = str((_sign(metric) * values[others].mean()).idxmax())
    both = values[[OURS, other]].dropna()
    ours, theirs = both.mean()
    gain = _sign(metric) * (both[OURS] - both[other])
    if len(gain) >= _FEWEST_RUNS:
        is_tie = abs(gain.mean()) <= 2.0 * gain.sem()
    else:
        is_tie = abs(gain.mean()) <= _SAME * max(abs(ours), abs(theirs))
    winner = None if is_tie else OURS if gain.mean() > 0 else other
    return Comparison(experiment, row, metric, ours, theirs, other, winner)


def count_wins(comparisons: Sequence[Comparison]) -> str:
    """One sentence: how often each method is best."""
    counts = Counter(c.winner for c in comparisons)
    ties = counts.pop(None, 0)
    ours = counts.pop(OURS, 0)
    others = ", ".join(f"{METHODS[str(name)].title} in {count}" for name, count in counts.most_common())
    text = f"Of {len(comparisons)} measures isoweave is best in {ours} and level with the best in {ties}"
    return text + (f"; others are better: {others}." if others else ".")


def summary_table(comparisons: Sequence[Comparison]) -> ResultTable:
    """A line per comparison."""
    head = ("experiment", "row", "measure", "isoweave", "best of the others", "better")
    lines: list[tuple[str, ...]] = []
    for c in comparisons:
        winner = "level" if c.winner is None else METHODS[c.winner].title
        best = f"{show(c.best_other, c.metric)} ({METHODS[c.other].title})"
        lines.append((c.experiment, c.row, TITLES[c.metric], show(c.ours, c.metric), best, winner))
    kinds = {None: "level", OURS: "ours"}
    return ResultTable(
        "", (), head, tuple(lines), kinds=tuple(kinds.get(c.winner, "theirs") for c in comparisons)
    )


def summary_markdown(comparisons: Sequence[Comparison]) -> str:
    """Page that says who wins where."""
    text = [
        "# Who wins where",
        "",
        count_wins(comparisons),
        "",
        f"Means over the seeds both methods have. {LEVEL}",
        "",
        *summary_table(comparisons).markdown(),
    ]
    return "\n".join(text) + "\n"
