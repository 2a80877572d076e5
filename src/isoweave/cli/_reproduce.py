"""What ``isoweave reproduce`` does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from isoweave._files import write_text
from isoweave.cli._console import one_line
from isoweave.experiments import (
    EXPERIMENTS,
    FULL,
    QUICK,
    Records,
    RunProgress,
    compare,
    count_wins,
    draw_experiment,
    plan_tasks,
    run_experiments,
    summary_markdown,
    write_page,
    write_tables,
)


def run_reproduce(
    names: Sequence[str],
    out: Path,
    *,
    quick: bool,
    data_home: Path | None,
    fetch: bool,
    methods: Sequence[str] | None,
    n_seeds: int | None,
    n_jobs: int,
) -> None:
    """Run what is not done yet and write tables, figures and the page of everything in the folder.

    Parameters
    ----------
    names : sequence of str
        Experiments, or "all".
    out : pathlib.Path
    quick : bool
    data_home : pathlib.Path or None
    fetch : bool
        Fetch MNIST and Fashion-MNIST where their files are missing.
    methods : sequence of str or None
        Names, possibly several to a string with commas between them.
    n_seeds : int or None
        Maximum number of seeds per row.
    n_jobs : int
    """
    if n_seeds is not None and n_seeds < 1:
        raise ValueError(f"--seeds must be at least 1, got {n_seeds}.")
    scale = QUICK if quick else FULL
    if n_seeds is not None:
        scale = replace(scale, n_seeds=n_seeds)
    asked = [name for text in methods or () for name in text.split(",") if name] or None
    tasks, skipped = plan_tasks(names, asked, scale)
    records = Records(out / "records.jsonl")
    out.mkdir(parents=True, exist_ok=True)
    console = Console(stderr=True)
    if quick:
        console.print("quick run: few seeds and points, not the paper's setting")
    with _bar(console) as bar:
        number = bar.add_task("planning", total=len(tasks), left="")

        def show(progress: RunProgress) -> None:
            left = "" if progress.seconds_left is None else f"{_duration(progress.seconds_left)} left"
            bar.update(number, completed=progress.done, description=progress.label or "done", left=left)

        skipped += run_experiments(
            tasks,
            records,
            data_home=data_home,
            fetch=fetch,
            maps_folder=out / "maps",
            n_jobs=n_jobs,
            progress=show,
        )
    console = Console()
    for line in _skipped_lines(skipped):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    can_draw = find_spec("matplotlib") is not None
    if not can_draw:
        console.print("no figures: they need matplotlib, pip install 'isoweave\\[plot]'")
    figures: dict[str, dict[str, Path]] = {}
    # A reason begins with the name of its experiment.
    reasons = {name: [r for r in skipped if r.split(",")[0] == name] for name in EXPERIMENTS}
    runs = records.frame()
    present = set(runs.loc[runs["scale"] == scale.name, "experiment"])
    for experiment in EXPERIMENTS.values():
        if experiment.name in present:
            write_tables(experiment, runs, scale, out, reasons[experiment.name])
            if can_draw:
                figures[experiment.name] = draw_experiment(
                    experiment, runs, scale, out / "figures", out / "maps"
                )
            console.print(f"wrote {out / experiment.name}.md .csv", highlight=False, soft_wrap=True)
    comparisons = compare(runs, scale)
    if comparisons:
        write_text(out / "summary.md", summary_markdown(comparisons))
        console.print(count_wins(comparisons), highlight=False)
    failed = sum(record["error"] is not None for record in records)
    if failed:
        console.print(f"{failed} runs failed; their tables say why", highlight=False)
    if find_spec("jinja2") is None:
        console.print("no page: it needs jinja2, pip install 'isoweave\\[experiments]'")
        return
    page = write_page(runs, scale, figures, out / "index.html", reasons)
    console.print(f"wrote {page}", highlight=False, soft_wrap=True)


def _skipped_lines(skipped: Sequence[str]) -> list[str]:
    """One line per reason, however many experiments it holds for."""
    names: dict[str, list[str]] = {}
    for text in skipped:
        name, reason = one_line(text).split(", ", 1)
        names.setdefault(reason, []).append(name)
    return [f"skipped: {reason} ({', '.join(found)})" for reason, found in names.items()]


def _bar(console: Console) -> Bar:
    return Bar(
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


def _duration(seconds: float) -> str:
    """A time to wait, roughly."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
