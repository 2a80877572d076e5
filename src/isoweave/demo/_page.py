"""Figures of the demonstration and a page that holds them."""

from __future__ import annotations

import base64
import html
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from isoweave._typing import FloatArray
from isoweave.demo._cases import DemoCase, DemoResult

COLUMNS = ("data", "method", "F1", "edge error", "procrustes", "accuracy", "seconds")

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>isoweave demo</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }}
table {{ border-collapse: collapse; }}
th, td {{ padding: .3rem .8rem; border-bottom: 1px solid #ccc; text-align: right; }}
th:nth-child(-n+2), td:nth-child(-n+2) {{ text-align: left; }}
img {{ max-width: 100%; }}
</style>
</head>
<body>
<h1>isoweave demo</h1>
<table>
<thead><tr>{head}</tr></thead>
<tbody>
{rows}
</tbody>
</table>
<p>F1 and edge error compare the map with the graph of nearest neighbours both methods start from: how well
neighbourhoods are kept, and the mean relative error of an edge's length. Procrustes: what the best rigid
motion onto the true coordinates leaves, over their variance. Accuracy: vote of the nearest neighbours in the
map. Kernels were compiled before the clock started.</p>
{figures}
</body>
</html>
"""


def table_rows(results: Sequence[tuple[DemoCase, DemoResult]]) -> list[tuple[str, ...]]:
    """The table's cells as text, in the order of ``COLUMNS``."""

    def optional(value: float | None, pattern: str) -> str:
        return "" if value is None else format(value, pattern)

    return [
        (
            case.name,
            result.method,
            f"{result.f1:.3f}",
            f"{result.local_distance:.3f}",
            optional(result.procrustes_error, ".1e"),
            optional(result.accuracy, ".3f"),
            f"{result.seconds:.2f}",
        )
        for case, result in results
    ]


def draw_case(case: DemoCase, results: Sequence[DemoResult], folder: Path) -> Path:
    """Draw the embeddings of one data set beside each other and return the figure's file."""
    import matplotlib.pyplot as plt

    from isoweave.plotting import plot_embedding

    panels = {result.method: result.embedding for result in results}
    if case.truth is not None:
        panels["truth"] = case.truth
    reference = results[0].embedding if case.truth is None else case.truth
    panels = {title: align_plane(points, reference) for title, points in panels.items()}

    width, height = np.ptp(align_plane(reference, reference), axis=0)
    is_wide = width > 2 * height
    n_rows, n_columns = (len(panels), 1) if is_wide else (1, len(panels))
    size = (9.0, n_rows * (8.0 * height / width + 0.6)) if is_wide else (5.0 * n_columns, 4.7)
    figure, axes = plt.subplots(
        n_rows, n_columns, figsize=size, sharex=True, sharey=True, layout="constrained", squeeze=False
    )
    for ax, (title, points) in zip(axes.flat, panels.items(), strict=True):
        plot_embedding(points, case.color, ax, title=title)
    if case.labels is not None:
        figure.legend(*axes.flat[0].collections[0].legend_elements(), loc="outside right center")
    figure.suptitle(case.title)
    path = folder / f"{case.name}.png"
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return path


def write_page(
    results: Sequence[tuple[DemoCase, DemoResult]], figures: Mapping[str, Path], folder: Path
) -> Path:
    """Write ``index.html``, which needs no other file, and return its path.

    Parameters
    ----------
    results : sequence of (DemoCase, DemoResult)
    figures : mapping of str to pathlib.Path
        PNG files by title; may be empty.
    folder : pathlib.Path
    """
    head = "".join(f"<th>{html.escape(name)}</th>" for name in COLUMNS)
    rows = "\n".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
        for row in table_rows(results)
    )
    images = "\n".join(
        f'<h2>{html.escape(title)}</h2>\n<img alt="{html.escape(title)}" '
        f'src="data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()}">'
        for title, path in figures.items()
    )
    page = folder / "index.html"
    page.write_text(_PAGE.format(head=head, rows=rows, figures=images), encoding="utf-8")
    return page


def align_plane(points: FloatArray, reference: FloatArray) -> FloatArray:
    """Two coordinates to draw: the best rigid motion onto the reference, seen along its two longest axes.

    Parameters
    ----------
    points, reference : arrays of shape (n, N)

    Returns
    -------
    array of shape (n, 2)
        Centred. A reference in the plane is not turned.
    """
    moved, target = points - points.mean(axis=0), reference - reference.mean(axis=0)
    u, _, vt = np.linalg.svd(moved.T @ target)
    moved = moved @ (u @ vt)
    if target.shape[1] > 2:
        _, _, axes = np.linalg.svd(target, full_matrices=False)
        moved = moved @ axes[:2].T
    return moved
