"""Figures of the demonstration and a page that holds them."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from isoweave._files import atomic_write, write_text
from isoweave._typing import FloatArray
from isoweave.demo._cases import DemoCase, DemoResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
    """Draw the data, where they are three-dimensional, and the maps of them; return the figure's file."""
    import matplotlib.pyplot as plt

    from isoweave.plot import plot_embedding

    reference = results[0].embedding if case.truth is None else case.truth
    maps = {_caption(result): align_plane(result.embedding, reference) for result in results}
    if case.truth is not None:
        maps["truth"] = align_plane(case.truth, reference)

    every = np.concatenate(list(maps.values()))
    low, high = every.min(axis=0), every.max(axis=0)
    margin = 0.03 * np.max(high - low)
    width, height = high - low + 2 * margin
    # Wide maps lie above each other, with the data beside them.
    is_wide = width > 2 * height
    names = [f"map {a}" for a in range(len(maps))]
    layout = [["data", name] for name in names] if is_wide else [names]
    size = (5.0 * len(maps), 5.0 * height / width + 0.7)
    if is_wide:
        size = (11.0, len(maps) * (7.0 * height / width + 0.4))
    axes: Any  # of two kinds, which matplotlib's types cannot tell apart
    figure, axes = plt.subplot_mosaic(
        cast(Any, layout),
        figsize=size,
        layout="constrained",
        width_ratios=(1, 2) if is_wide else None,
        per_subplot_kw={"data": {"projection": "3d"}} if is_wide else None,
    )
    for name, (caption, points) in zip(names, maps.items(), strict=True):
        plot_embedding(points, case.color, axes[name], title=caption, size=7)
        # The same scale everywhere: how large a map is belongs to what is compared.
        limits = np.column_stack([low - margin, high + margin])
        axes[name].set(xticks=[], yticks=[], xlim=limits[0], ylim=limits[1])
    if is_wide:
        plot_embedding(case.data[:, :3], case.color, axes["data"], title="data", size=7)
        axes["data"].view_init(elev=8, azim=-75)
        axes["data"].set_box_aspect(np.ptp(case.data[:, :3], axis=0), zoom=1.5)
        axes["data"].set_axis_off()
    if case.labels is not None:
        dots = axes[names[0]].collections[0]
        figure.legend(*dots.legend_elements(), loc="outside right center", frameon=False)
    n_components = results[0].embedding.shape[1]
    view = f", {n_components}-D maps along their two longest axes" if n_components > 2 else ""
    figure.suptitle(case.title + view)
    path = folder / f"{case.name}.png"
    _save_small(figure, path)
    plt.close(figure)
    return path


def _save_small(figure: Figure, path: Path) -> None:
    """Write a PNG with a palette of 256 colours, a third of the size; Pillow comes with matplotlib."""
    from PIL import Image

    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=100)
    with Image.open(buffer) as image, atomic_write(path) as file:
        image.convert("RGB").quantize(256).save(file, format="png", optimize=True)


def _caption(result: DemoResult) -> str:
    return f"{result.method}: F1 {result.f1:.3f}, edge error {result.local_distance:.1%}"


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
    write_text(page, _PAGE.format(head=head, rows=rows, figures=images))
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
