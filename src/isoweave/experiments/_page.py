"""One self-contained page of everything an output folder holds."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isoweave._files import write_text
from isoweave._pages import render
from isoweave.experiments._catalog import EXPERIMENTS
from isoweave.experiments._records import versions
from isoweave.experiments._spec import Scale
from isoweave.experiments._tables import LEVEL, ResultTable, compare, count_wins, make_tables, summary_table

if TYPE_CHECKING:
    import pandas as pd


def write_page(
    runs: pd.DataFrame,
    scale: Scale,
    figures: Mapping[str, Mapping[str, Path]],
    path: Path,
    skipped: Mapping[str, Sequence[str]] | None = None,
) -> Path:
    """Write a page that needs no other file and no network.

    Figures (PNG by title) and what was skipped are given by name of the experiment. Experiments without runs
    of this scale, and without anything skipped, are left out.
    """
    skipped = skipped or {}
    sections = []
    comparisons = compare(runs, scale)
    if comparisons:
        about = f"{count_wins(comparisons)} {LEVEL}"
        tables = [summary_table(comparisons)]
        sections.append(section("summary", "Who wins where", about, folded="All measures", tables=tables))
    for experiment in EXPERIMENTS.values():
        name, tables = experiment.name, make_tables(experiment, runs, scale)
        if tables or skipped.get(name):
            found, reasons = figures.get(name, {}), skipped.get(name, ())
            about = experiment.about
            sections.append(
                section(name, experiment.title, about, skipped=reasons, figures=found, tables=tables)
            )
    footer = ", ".join(f"{name} {version}" for name, version in versions().items())
    path.parent.mkdir(parents=True, exist_ok=True)
    template = "experiments/templates/experiments.html"
    write_text(path, render(template, warning=scale.note, sections=sections, footer=footer))
    return path


def section(
    name: str,
    title: str,
    about: str = "",
    *,
    skipped: Sequence[str] = (),
    figures: Mapping[str, Path] | None = None,
    tables: Sequence[ResultTable] = (),
    folded: str = "",
) -> dict[str, Any]:
    """A part of the page; figures (PNG by title) become addresses that hold the whole image."""
    addresses = {
        alt: f"data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()}"
        for alt, path in (figures or {}).items()
    }
    texts = {"name": name, "title": title, "about": about, "skipped": skipped, "folded": folded}
    return {**texts, "figures": addresses, "tables": tables}
