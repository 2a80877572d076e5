"""Tables of an experiment as Markdown and CSV, who wins where, and one page of everything."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from isoweave._files import write_text
from isoweave._pages import render
from isoweave.experiments._problems import EXPERIMENTS, METHODS, TITLES, Experiment, Scale, Setting
from isoweave.experiments._run import COLUMNS, select, versions
from isoweave.metrics import METRIC_MEANINGS

if TYPE_CHECKING:
    import pandas as pd

OURS = "default"
# 1 where more is better, -1 where less is.
_SIGN = {metric: sign for metric, (_, sign) in METRIC_MEANINGS.items()}


class Line(NamedTuple):
    """Cells as text; those whose numbers are in ``best`` are the best of their columns."""

    cells: tuple[str, ...]
    kind: str = ""
    best: frozenset[int] = frozenset()


class ResultTable(NamedTuple):
    """What templates make a table of."""

    head: tuple[str, ...]
    lines: list[Line]
    title: str = ""
    notes: tuple[str, ...] = ()


def show(value: float, metric: str) -> str:
    """A cell: rigid-motion errors span decades, seconds are rough, the rest has three digits."""
    if metric == "procrustes_error":
        return f"{value:.1e}"
    if metric == "cpu_seconds":
        return f"{value:.2f}" if value < 10 else f"{value:.0f}"
    return f"{value:.3f}" if abs(value) < 100 else f"{value:.3g}"


def _cell(values: pd.Series) -> str:
    """Mean and spread over the seeds."""
    metric, values = str(values.name), values.dropna()
    if len(values) <= 1 or metric == "cpu_seconds":
        return show(values.mean(), metric) if len(values) else ""
    if metric == "procrustes_error":
        return f"{show(values.mean(), metric)} (worst {show(values.max(), metric)})"
    return f"{show(values.mean(), metric)} ± {show(values.std(), metric)}"


def make_tables(experiment: Experiment, runs: pd.DataFrame, scale: Scale) -> list[ResultTable]:
    """A table for every row that has runs; the first has the paper's numbers."""
    found = [(row, select(runs, experiment.name, scale.name, row.name)) for row in experiment.rows_for(scale)]
    found = [(row, own) for row, own in found if len(own)]
    return [_table(experiment, row, own, has_printed=row is found[0][0]) for row, own in found]


def _table(experiment: Experiment, row: Setting, runs: pd.DataFrame, has_printed: bool) -> ResultTable:
    """Means (and standard deviations over seeds) of every method."""
    good = runs[runs["error"].isna()]
    columns = [m for m in (*experiment.metrics, "cpu_seconds") if m in good and good[m].notna().any()]
    groups = good.groupby("method")[columns]
    means, cells = groups.mean(), groups.agg(_cell).reindex(list(METHODS), fill_value="")
    if experiment.reference in means.index and "parameter_error" in columns:
        means.loc[experiment.reference, "parameter_error"] = float("nan")
        cells.loc[experiment.reference, "parameter_error"] = "reference"
    scored = [m for m in columns if m != "cpu_seconds" and means[m].count() > 1]
    is_best = means[scored] * [_SIGN[m] for m in scored]
    is_best = is_best == is_best.max()
    n_runs, n_good = (part["method"].value_counts() for part in (runs, good))
    lines: list[Line] = []
    for name, title in METHODS.items():
        if name in n_runs:
            own = scored if name in is_best.index else []
            best = frozenset(columns.index(m) + 1 for m in own if is_best.at[name, m])
            n_failed = n_runs[name] - n_good.get(name, 0)
            count = f"{n_good.get(name, 0)}" + (f" ({n_failed} failed)" if n_failed else "")
            lines.append(Line((title, *cells.loc[name], count), best=best))
        if has_printed and name in experiment.printed:
            values = experiment.printed[name]
            shown = [f"{values[m]:g}" if m in values else "" for m in columns]
            title = "proposed" if name == "paper" else title
            lines.append(Line((f"{title}, printed in the paper", *shown, ""), "printed"))
    head = ("method", *(TITLES[m] for m in columns), "runs")
    return ResultTable(head, lines, row.title, tuple(_notes(runs)))


def _notes(runs: pd.DataFrame) -> Iterator[str]:
    sizes = sorted(runs["n_vertices"].unique())
    size = f"{sizes[0]:,}" if len(sizes) == 1 else f"{sizes[0]:,} to {sizes[-1]:,}"
    groups = dict(iter(runs.groupby("method")))
    by_method = {name: groups[name] for name in METHODS if name in groups}
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
            yield f"{METHODS[name]}: {limited} of {len(found)} runs reached the step limit."
        yield from (f"{METHODS[name]} failed: {error}" for error in found["error"].dropna().unique()[:2])


def write_tables(
    experiment: Experiment, runs: pd.DataFrame, scale: Scale, folder: Path, skipped: Sequence[str] = ()
) -> list[Path]:
    """Write ``NAME.md`` and ``NAME.csv`` and return their paths; ``skipped`` says what could not be run."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{experiment.name}.md", folder / f"{experiment.name}.csv"]
    texts = {"title": experiment.title, "about": experiment.about, "warning": scale.note, "skipped": skipped}
    template = "experiments/templates/tables.md"
    write_text(paths[0], render(template, tables=make_tables(experiment, runs, scale), **texts))
    own = select(runs, experiment.name, scale.name)
    metrics = [name for name in METRIC_MEANINGS if name in own and own[name].notna().any()]
    write_text(paths[1], own[[*COLUMNS, *metrics]].to_csv(index=False, lineterminator="\n"))
    return paths


class Comparison(NamedTuple):
    """Means, over the seeds both have, of ours and the best of the others; the winner is "" where level."""

    experiment: str
    row: str
    metric: str
    ours: float
    best_other: float
    other: str
    winner: str


def compare(runs: pd.DataFrame, scale: Scale) -> list[Comparison]:
    """Compare ours with the best of the others wherever both have run."""
    found, good = [], runs[runs["error"].isna()]
    for experiment in EXPERIMENTS.values():
        for row in experiment.rows_for(scale):
            own = select(good, experiment.name, scale.name, row.name)
            for metric in (name for name in experiment.metrics if name in own and OURS in set(own["method"])):
                values = own.pivot(index="seed", columns="method", values=metric)
                values = values[values[OURS].notna()].dropna(axis="columns", how="all")
                unfair = {OURS, experiment.reference if metric == "parameter_error" else OURS}
                others = [name for name in METHODS if name in values and name not in unfair]
                if others:
                    other = str((_SIGN[metric] * values[others].mean()).idxmax())
                    both = values[[OURS, other]].dropna()
                    result = (*both.mean(), other, _winner(both[OURS], both[other], metric))
                    found.append(Comparison(experiment.title, row.title, metric, *result))
    return found


def _winner(ours: pd.Series, theirs: pd.Series, metric: str) -> str:
    gain = _SIGN[metric] * (ours - theirs)
    # Of fewer than three runs no spread is known; then differences under a hundredth count as none.
    least = 2.0 * gain.sem() if len(gain) >= 3 else 0.01 * max(abs(ours.mean()), abs(theirs.mean()))
    if abs(gain.mean()) <= least:
        return ""
    return OURS if gain.mean() > 0 else str(theirs.name)


def count_wins(comparisons: Sequence[Comparison]) -> str:
    """One sentence: how often each method is best."""
    counts = Counter(c.winner for c in comparisons)
    ties, ours = counts.pop("", 0), counts.pop(OURS, 0)
    others = ", ".join(f"{METHODS[name]} in {count}" for name, count in counts.most_common())
    text = f"Of {len(comparisons)} measures isoweave is best in {ours} and level with the best in {ties}"
    return text + (f"; others are better: {others}." if others else ".")


def _summary_table(comparisons: Sequence[Comparison]) -> ResultTable:
    lines = []
    for experiment, row, metric, ours, best_other, other, winner in comparisons:
        best = f"{show(best_other, metric)} ({METHODS[other]})"
        cells = (experiment, row, TITLES[metric], show(ours, metric), best, METHODS.get(winner, "level"))
        lines.append(Line(cells, {"": "level", OURS: "ours"}.get(winner, "theirs")))
    return ResultTable(("experiment", "row", "measure", "isoweave", "best of the others", "better"), lines)


def summary_markdown(comparisons: Sequence[Comparison]) -> str:
    """Page that says who wins where."""
    values = {"counts": count_wins(comparisons), "table": _summary_table(comparisons)}
    return render("experiments/templates/summary.md", **values)


def write_page(
    runs: pd.DataFrame,
    scale: Scale,
    figures: Mapping[str, Mapping[str, Path]],
    path: Path,
    skipped: Mapping[str, Sequence[str]] | None = None,
) -> Path:
    """Write a page that needs no other file: experiments with runs of this scale, or something skipped."""
    sections: list[dict[str, Any]] = []
    comparisons = compare(runs, scale)
    if comparisons:
        about, tables = count_wins(comparisons), [_summary_table(comparisons)]
        sections.append({"name": "summary", "title": "Who wins where", "about": about, "tables": tables})
    for name, experiment in EXPERIMENTS.items():
        parts = {"tables": make_tables(experiment, runs, scale), "skipped": (skipped or {}).get(name, ())}
        if any(parts.values()):
            # Addresses that hold the whole image.
            images = {
                title: f"data:image/png;base64,{base64.b64encode(file.read_bytes()).decode()}"
                for title, file in figures.get(name, {}).items()
            }
            texts = {"name": name, "title": experiment.title, "about": experiment.about}
            sections.append({**texts, "figures": images, **parts})
    footer = ", ".join(f"{name} {version}" for name, version in versions().items())
    path.parent.mkdir(parents=True, exist_ok=True)
    template = "experiments/templates/experiments.html"
    write_text(path, render(template, warning=scale.note, sections=sections, footer=footer))
    return path
