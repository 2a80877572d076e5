"""Commands that make their own data: demo, reproduce."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from typer import Argument, Option

from isoweave._files import write_text
from isoweave.cli._app import command
from isoweave.cli._console import duration, one_line

_EXPERIMENTS = "swiss, difficult, klein, torus, mnist, fmnist, rnaseq, robustness, graphs, all; or front."
_NO_FIGURES = "no figures: they need matplotlib, pip install 'isoweave\\[plot]'"
_METHODS = "default, paper-energy, paper, isomap, lle, hlle, ltsa, laplacian, diffusion, tsne, umap, mde"


@command(
    names=Argument(metavar="NAME...", help=_EXPERIMENTS),
    out=Option(help="Folder for records, tables, figures and the page."),
    quick=Option("--quick", help="Few seeds and points: minutes, and only a first look."),
    data_home=Option("--data", help="Folder of the data files.", show_default="variable ISOWEAVE_DATA"),
    fetch=Option("--fetch", help="Fetch MNIST and Fashion-MNIST from OpenML if not in the folder."),
    methods=Option(help=f"Any of {_METHODS}, separated by commas.", show_default="by experiment"),
    n_seeds=Option("--seeds", help="Maximum number of seeds per row.", show_default="by experiment"),
    n_jobs=Option("--n-jobs", "-j", help="Problems solved at a time, each on a core; -1: all cores."),
)
def reproduce(
    names: list[str],
    out: Path,
    quick: bool = False,
    data_home: Path | None = None,
    fetch: bool = False,
    methods: list[str] | None = None,
    n_seeds: int | None = None,
    n_jobs: int = 1,
) -> None:
    """Rerun the paper's experiments: ours, the paper's recursion and other methods.

    Runs that are already in the folder are not repeated.
    """
    from rich.console import Console

    from isoweave import experiments

    if n_seeds is not None and n_seeds < 1:
        raise ValueError(f"--seeds must be at least 1, got {n_seeds}.")
    scale = experiments.QUICK if quick else experiments.FULL
    if n_seeds is not None:
        scale = replace(scale, n_seeds=n_seeds)
    given: Any = {"data_home": data_home, "fetch": fetch, "n_jobs": n_jobs}
    if "front" in names:
        _front(out, scale, given)
        names = [name for name in names if name != "front"]
        if not names:
            return
    asked = [name for text in methods or () for name in text.split(",") if name] or None
    tasks, skipped = experiments.plan_tasks(names, asked, scale)
    records = experiments.Records(out / "records.jsonl")
    if quick:
        Console(stderr=True).print("quick run: few seeds and points, not the paper's setting")
    skipped += _run(tasks, records, skipped, maps_folder=out / "maps", **given)
    console = Console()
    figures: dict[str, dict[str, Path]] = {}
    # A reason begins with the name of its experiment.
    reasons = {name: [r for r in skipped if r.split(",")[0] == name] for name in experiments.EXPERIMENTS}
    runs = experiments.runs_frame(records.values())
    present = set(runs.loc[runs["scale"] == scale.name, "experiment"])
    for name, experiment in experiments.EXPERIMENTS.items():
        if name in present:
            experiments.write_tables(experiment, runs, scale, out, reasons[name])
            if find_spec("matplotlib") is not None:
                folders = (out / "figures", out / "maps")
                figures[name] = experiments.draw_experiment(experiment, runs, scale, *folders)
            console.print(f"wrote {out / name}.md .csv", highlight=False, soft_wrap=True)
    comparisons = experiments.compare(runs, scale)
    if comparisons:
        write_text(out / "summary.md", experiments.summary_markdown(comparisons))
        console.print(experiments.count_wins(comparisons), highlight=False)
    failed = sum(record["error"] is not None for record in records.values())
    if failed:
        console.print(f"{failed} runs failed; their tables say why", highlight=False)
    page = experiments.write_page(runs, scale, figures, out / "index.html", reasons)
    console.print(f"wrote {page}", highlight=False, soft_wrap=True)


def _run(tasks: Sequence[Any], records: Any, skipped: Sequence[str], **given: Any) -> list[str]:
    """Run tasks behind a bar, and say what was skipped; returns what could not be loaded."""
    from rich.console import Console

    from isoweave import experiments

    with _bar(Console(stderr=True)) as bar:
        number = bar.add_task("planning", total=len(tasks), left="")

        def show(done: int, _: int, label: str, seconds: float | None) -> None:
            left = "" if seconds is None else f"{duration(seconds)} left"
            bar.update(number, completed=done, description=label or "done", left=left)

        lost = experiments.run_experiments(tasks, records, progress=show, **given)
    for line in _skipped_lines([*skipped, *lost]):
        Console().print(line, markup=False, highlight=False, soft_wrap=True)
    if find_spec("matplotlib") is None:
        Console().print(_NO_FIGURES)
    return lost


def _front(out: Path, scale: Any, given: dict[str, Any]) -> None:
    """Neighbourhoods against long distances: records, a table and a figure."""
    from rich.console import Console

    from isoweave.experiments import Records, front, runs_frame

    tasks, skipped = front.plan_front(scale)
    records = Records(out / "front.jsonl")
    _run(tasks, records, skipped, **given)
    runs = runs_frame(records.values())
    runs = runs[(runs["scale"] == scale.name) & runs["error"].isna()]
    if runs.empty:
        return
    table = out / ("front.csv" if scale.name == "full" else f"front_{scale.name}.csv")
    write_text(table, runs[front.COLUMNS].to_csv(index=False, float_format="%.6f", lineterminator="\n"))
    written = [table]
    if find_spec("matplotlib") is not None:
        written += [table.with_suffix(".svg"), table.with_suffix(".png")]
        for path in written[1:]:
            front.draw_front(runs, path)
    for path in written:
        Console().print(f"wrote {path}", highlight=False, soft_wrap=True)


def _skipped_lines(skipped: Sequence[str]) -> list[str]:
    """One line per reason, however many experiments it holds for."""
    names: dict[str, list[str]] = {}
    for text in skipped:
        name, reason = one_line(text).split(", ", 1)
        names.setdefault(reason, []).append(name)
    return [f"skipped: {reason} ({', '.join(found)})" for reason, found in names.items()]


def _bar(console: Any) -> Any:
    from rich import progress

    texts = progress.TextColumn("{task.description}"), progress.TextColumn("{task.fields[left]}")
    columns = (progress.BarColumn(bar_width=30), progress.MofNCompleteColumn(), progress.TimeElapsedColumn())
    options = {"console": console, "transient": True, "disable": not console.is_terminal}
    return progress.Progress(texts[0], *columns, texts[1], **options)


@command(out=Option(help="Folder for the table, the figures and the page."))
def demo(out: Path = Path("isoweave-demo")) -> None:
    """Swiss roll and handwritten digits, against Isomap: a table, figures and a page."""
    from rich.console import Console
    from rich.markdown import Markdown

    reproduce(["demo"], out)
    Console().print(Markdown((out / "demo.md").read_text(encoding="utf-8")))
