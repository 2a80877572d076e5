"""What ``isoweave demo`` and ``isoweave reproduce`` do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from isoweave import experiments
from isoweave._files import write_text
from isoweave.cli._console import duration, one_line, printed_warnings
from isoweave.experiments import demo

_NO_FIGURES = "no figures: they need matplotlib, pip install 'isoweave\\[plot]'"


def run_demo_command(folder: Path) -> None:
    """Run every case, print the table, write figures and page into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    console = Console()
    with console.status("compiling (only the first time)"):
        demo.compile_kernels()
    results: list[tuple[demo.DemoCase, demo.DemoResult]] = []
    figures: dict[str, Path] = {}
    can_draw = find_spec("matplotlib") is not None
    for case in demo.demo_cases():
        with console.status(case.title), printed_warnings():
            case_results = demo.run_case(case)
            results += [(case, result) for result in case_results]
            if can_draw:
                figures[case.title] = demo.draw_case(case, case_results, folder)
    found = demo.demo_table(results)
    table = Table(*found.head)
    for row in found.lines:
        table.add_row(*row)
    console.print(table)
    if not can_draw:
        console.print(_NO_FIGURES)
    written = list(figures.values())
    if find_spec("jinja2") is not None:
        written.append(demo.write_demo_page(results, figures, folder))
    else:
        console.print("no page: it needs jinja2, pip install 'isoweave\\[report]'")
    for path in written:
        console.print(f"wrote {path}", highlight=False, soft_wrap=True)


def run_reproduce(
    names: Sequence[str],
    out: Path,
    quick: bool,
    methods: Sequence[str] | None,
    n_seeds: int | None,
    **given: Any,
) -> None:
    """Run what is not done yet and write tables, figures and the page of everything in the folder."""
    if n_seeds is not None and n_seeds < 1:
        raise ValueError(f"--seeds must be at least 1, got {n_seeds}.")
    scale = experiments.QUICK if quick else experiments.FULL
    if n_seeds is not None:
        scale = replace(scale, n_seeds=n_seeds)
    asked = [name for text in methods or () for name in text.split(",") if name] or None
    tasks, skipped = experiments.plan_tasks(names, asked, scale)
    records = experiments.Records(out / "records.jsonl")
    out.mkdir(parents=True, exist_ok=True)
    console = Console(stderr=True)
    if quick:
        console.print("quick run: few seeds and points, not the paper's setting")
    with _bar(console) as bar:
        number = bar.add_task("planning", total=len(tasks), left="")

        def show(progress: experiments.RunProgress) -> None:
            left = "" if progress.seconds_left is None else f"{duration(progress.seconds_left)} left"
            bar.update(number, completed=progress.done, description=progress.label or "done", left=left)

        given |= {"maps_folder": out / "maps", "progress": show}
        skipped += experiments.run_experiments(tasks, records, **given)
    console = Console()
    for line in _skipped_lines(skipped):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    can_draw = find_spec("matplotlib") is not None
    if not can_draw:
        console.print(_NO_FIGURES)
    figures: dict[str, dict[str, Path]] = {}
    # A reason begins with the name of its experiment.
    reasons = {name: [r for r in skipped if r.split(",")[0] == name] for name in experiments.EXPERIMENTS}
    runs = records.frame()
    present = set(runs.loc[runs["scale"] == scale.name, "experiment"])
    for experiment in experiments.EXPERIMENTS.values():
        if experiment.name in present:
            experiments.write_tables(experiment, runs, scale, out, reasons[experiment.name])
            if can_draw:
                folders = (out / "figures", out / "maps")
                figures[experiment.name] = experiments.draw_experiment(experiment, runs, scale, *folders)
            console.print(f"wrote {out / experiment.name}.md .csv", highlight=False, soft_wrap=True)
    comparisons = experiments.compare(runs, scale)
    if comparisons:
        write_text(out / "summary.md", experiments.summary_markdown(comparisons))
        console.print(experiments.count_wins(comparisons), highlight=False)
    failed = sum(record["error"] is not None for record in records)
    if failed:
        console.print(f"{failed} runs failed; their tables say why", highlight=False)
    if find_spec("jinja2") is None:
        console.print("no page: it needs jinja2, pip install 'isoweave\\[experiments]'")
        return
    page = experiments.write_page(runs, scale, figures, out / "index.html", reasons)
    console.print(f"wrote {page}", highlight=False, soft_wrap=True)


def _skipped_lines(skipped: Sequence[str]) -> list[str]:
    """One line per reason, however many experiments it holds for."""
    names: dict[str, list[str]] = {}
    for text in skipped:
        name, reason = one_line(text).split(", ", 1)
        names.setdefault(reason, []).append(name)
    return [f"skipped: {reason} ({', '.join(found)})" for reason, found in names.items()]


def _bar(console: Console) -> Progress:
    texts = TextColumn("{task.description}"), TextColumn("{task.fields[left]}")
    columns = (texts[0], BarColumn(bar_width=30), MofNCompleteColumn(), TimeElapsedColumn(), texts[1])
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
