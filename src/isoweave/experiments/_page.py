"""One self-contained page of everything an output folder holds."""

from __future__ import annotations

import base64
import html
from collections.abc import Mapping, Sequence
from pathlib import Path

from isoweave._files import write_text
from isoweave.experiments._catalog import EXPERIMENTS
from isoweave.experiments._records import Records, versions
from isoweave.experiments._spec import Experiment, Scale
from isoweave.experiments._summary import compare, count_wins, summary_cells
from isoweave.experiments._tables import Table, make_tables, scale_note

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>isoweave: the paper's experiments</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 76rem; margin: 0 auto; padding: 0 1rem 4rem; }}
nav {{ position: sticky; top: 0; background: #fff; border-bottom: 1px solid #ccc; padding: .5rem 0; }}
nav a {{ margin-right: 1rem; }}
section {{ scroll-margin-top: 3rem; }}
.wide {{ overflow-x: auto; }}
table {{ border-collapse: collapse; font-size: .85rem; }}
th, td {{ padding: .25rem .6rem; border-bottom: 1px solid #ddd; text-align: right; white-space: nowrap; }}
th:first-child, td:first-child {{ text-align: left; }}
tr.printed td {{ color: #666; font-style: italic; }}
tr.ours td:last-child {{ color: #06611d; font-weight: bold; }}
tr.theirs td:last-child {{ color: #8a1c1c; font-weight: bold; }}
td.best {{ font-weight: bold; }}
.warning {{ background: #fff3cd; border: 1px solid #e0c060; padding: .5rem 1rem; }}
img {{ max-width: 100%; }}
footer {{ margin-top: 3rem; color: #666; font-size: .85rem; }}
</style>
</head>
<body>
<h1>isoweave: the paper's experiments</h1>
{warning}
<nav>{links}</nav>
<p>Every method starts from the same distance graph. <b>isoweave</b>: the defaults. <b>paper's energy, good
start</b>: the paper's inner product, minimised by our optimiser from our start. <b>paper as printed</b>: the
published recursion from its own start. F1: neighbourhoods kept. Edge error: mean relative error of edge
lengths. Gram error: relative error of local inner products. Pearson, Kendall and stress: against shortest
paths. Parameter error and procrustes: what the best affine map, or rigid motion, onto the true coordinates
leaves, over their variance. Accuracy, NMI, ARI: vote of the nearest neighbours in the map. Spectral methods,
t-SNE and UMAP have a scale of their own, so that their edge errors and stress say little. Means ± standard
deviations over the seeds, best in bold; CPU seconds of one run, the graph not counted. Box plots: whiskers
at the extremes, boxes from the 25th to the 75th percentile, medians in red.</p>
{summary}
{sections}
<footer>{footer}</footer>
</body>
</html>
"""


def write_page(
    records: Records,
    scale: Scale,
    figures: Mapping[str, Mapping[str, Path]],
    path: Path,
    skipped: Mapping[str, Sequence[str]] | None = None,
) -> Path:
    """Write a page that needs no other file and no network.

    Parameters
    ----------
    records : Records
        Experiments without records of this scale, and without anything skipped, are left out.
    scale : Scale
    figures : mapping of str to mapping of str to pathlib.Path
        PNG files by title, by name of the experiment.
    path : pathlib.Path
    skipped : mapping of str to sequence of str, optional
        What could not be run, by name of the experiment.
    """
    skipped = skipped or {}
    shown = [e for e in EXPERIMENTS.values() if records.of(e.name, scale.name) or skipped.get(e.name)]
    links = "".join(f'<a href="#{e.name}">{html.escape(e.title)}</a>' for e in shown)
    sections = "\n".join(
        _section(e, make_tables(e, records, scale), figures.get(e.name, {}), skipped.get(e.name, ()))
        for e in shown
    )
    if summary := _summary(records, scale):
        links = f'<a href="#summary">Who wins where</a>{links}'
    note = scale_note(scale)
    warning = f'<p class="warning">{html.escape(note)}</p>' if note else ""
    footer = html.escape(", ".join(f"{name} {version}" for name, version in versions().items()))
    page = _PAGE.format(warning=warning, links=links, summary=summary, sections=sections, footer=footer)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, page)
    return path


def _summary(records: Records, scale: Scale) -> str:
    """Ours against the best of the others; empty where ours or the others did not run."""
    comparisons = compare(records, scale)
    if not comparisons:
        return ""
    head, lines = summary_cells(comparisons)
    won = {"isoweave": "ours", "level": "level"}
    rows = [
        f'<tr class="{won.get(cells[-1], "theirs")}">'
        + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells)
        + "</tr>"
        for cells in lines
    ]
    return (
        '<section id="summary"><h2>Who wins where</h2>\n'
        f"<p>{html.escape(count_wins(comparisons))} Level: the paired difference is within two standard "
        "errors (with fewer than three seeds: within one hundredth).</p>\n"
        "<details><summary>All measures</summary>"
        '<div class="wide"><table><thead><tr>'
        + "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
        + "</tr></thead>\n<tbody>\n"
        + "\n".join(rows)
        + "\n</tbody></table></div></details></section>"
    )


def _section(
    experiment: Experiment, tables: Sequence[Table], figures: Mapping[str, Path], skipped: Sequence[str]
) -> str:
    parts = [
        f'<section id="{experiment.name}">',
        f"<h2>{html.escape(experiment.title)}</h2>",
        f"<p>{html.escape(experiment.about)}</p>",
    ]
    parts += [f'<p class="warning">Skipped: {html.escape(reason)}</p>' for reason in skipped]
    for title, path in figures.items():
        data = base64.b64encode(path.read_bytes()).decode()
        parts.append(f'<p><img alt="{html.escape(title)}" src="data:image/png;base64,{data}"></p>')
    parts += [_table(table) for table in tables]
    return "\n".join([*parts, "</section>"])


def _table(table: Table) -> str:
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in table.head)
    body = []
    for number, cells in enumerate(table.lines):
        row = "".join(
            f'<td class="best">{html.escape(cell)}</td>'
            if (number, at) in table.best
            else f"<td>{html.escape(cell)}</td>"
            for at, cell in enumerate(cells)
        )
        body.append(
            f'<tr class="printed">{row}</tr>' if "printed in the paper" in cells[0] else f"<tr>{row}</tr>"
        )
    notes = html.escape(" ".join(table.notes))
    return (
        f"<h3>{html.escape(table.title)}</h3>\n<p>{notes}</p>\n"
        f'<div class="wide"><table><thead><tr>{head}</tr></thead>\n<tbody>\n'
        + "\n".join(body)
        + "\n</tbody></table></div>"
    )
