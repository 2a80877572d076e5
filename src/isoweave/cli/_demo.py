"""What ``isoweave demo`` does."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from rich.console import Console
from rich.table import Table

from isoweave.cli._console import printed_warnings
from isoweave.experiments.demo import (
    DemoCase,
    DemoResult,
    compile_kernels,
    demo_cases,
    demo_table,
    draw_case,
    run_case,
    write_demo_page,
)


def run_demo_command(folder: Path) -> None:
    """Run every case, print the table, write figures and page into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    console = Console()
    with console.status("compiling (only the first time)"):
        compile_kernels()
    results: list[tuple[DemoCase, DemoResult]] = []
    figures: dict[str, Path] = {}
    can_draw = find_spec("matplotlib") is not None
    for case in demo_cases():
        with console.status(case.title), printed_warnings(quiet=False):
            case_results = run_case(case)
            results += [(case, result) for result in case_results]
            if can_draw:
                figures[case.title] = draw_case(case, case_results, folder)
    found = demo_table(results)
    table = Table(*found.head)
    for row in found.lines:
        table.add_row(*row)
    console.print(table)
    if not can_draw:
        console.print("no figures: they need matplotlib, pip install 'isoweave\\[plot]'")
    written = list(figures.values())
    if find_spec("jinja2") is not None:
        written.append(write_demo_page(results, figures, folder))
    else:
        console.print("no page: it needs jinja2, pip install 'isoweave\\[report]'")
    for path in written:
        console.print(f"wrote {path}", highlight=False, soft_wrap=True)
