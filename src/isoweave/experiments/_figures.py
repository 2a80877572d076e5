"""Box plots like the paper's, curves, and the maps themselves."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from isoweave._files import atomic_write
from isoweave._typing import FloatArray
from isoweave.experiments._problems import METHODS, TITLES, Experiment, Scale, Setting
from isoweave.experiments._run import Task, map_path, select
from isoweave.geometry import rigid_motion
from isoweave.plot import plot_embedding, principal_axes

if TYPE_CHECKING:
    import pandas as pd

_PANEL, _PER_LINE = (3.6, 2.9), 4  # inches
# Methods without a scale would hide the rest beyond this error; an arrow shows that they are there.
_MOST_DRAWN = 2.0
_UNSCALED = ("global_stress", "local_distance", "local_metric")
_LOGARITHMIC, _LEAST_DRAWN = ("procrustes_error", "parameter_error"), 1e-7


def draw_experiment(
    experiment: Experiment, runs: pd.DataFrame, scale: Scale, folder: Path, maps_folder: Path | None = None
) -> dict[str, Path]:
    """Draw what the runs of an experiment allow, and kept maps; PNG files by title."""
    good = select(runs, experiment.name, scale.name)
    good = good[good["error"].isna()]
    rows = [row for row in experiment.rows_for(scale) if (good["row"] == row.name).any()]
    figures: dict[str, Path] = {}
    folder.mkdir(parents=True, exist_ok=True)
    for curve in dict.fromkeys(row.curve for row in rows):
        points = [row for row in rows if row.curve == curve]
        path = folder / f"{experiment.name}_{curve or 'scores'}.png"
        _draw_scores(experiment, points, good[good["row"].isin([row.name for row in points])], path)
        figures[f"{experiment.title}: {curve or 'scores'}"] = path
    for row in rows if experiment.draw_maps else ():
        path = folder / f"{experiment.name}_{row.name}_maps.png"
        if maps_folder is not None and _draw_maps(experiment, row, scale, maps_folder, path):
            figures[f"{experiment.title}, {row.title}: maps"] = path
    return figures


def _short(method: str) -> str:
    return METHODS[method].split(",")[0]


def save_png(figure: Any, path: Path) -> None:
    """Write a PNG with a palette of 256 colours, a third of the size; Pillow comes with matplotlib."""
    import matplotlib.pyplot as plt
    from PIL import Image

    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=100)
    with Image.open(buffer) as image, atomic_write(path) as file:
        image.convert("RGB").quantize(256).save(file, format="png", optimize=True)
    plt.close(figure)


def _draw_scores(experiment: Experiment, rows: Sequence[Setting], good: pd.DataFrame, path: Path) -> None:
    """A panel per metric; boxes over the seeds with quartiles, whiskers at the extremes.

    Methods stand side by side, with a mark per row where there is one seed; or, on a curve, around the row's
    abscissa, with lines through their means.
    """
    import matplotlib.pyplot as plt

    metrics = [metric for metric in experiment.metrics if metric in good and good[metric].notna().any()]
    methods = [name for name in METHODS if (good["method"] == name).any()]
    places, is_curve = [row.value for row in rows], rows[0].curve is not None
    step = min(np.diff(sorted(places)), default=1.0)
    width = 0.7 * step / len(methods) if is_curve else 0.65
    colors = {name: plt.colormaps["tab20"](at % 20) for at, name in enumerate(METHODS)}
    n_lines, n_wide = math.ceil(len(metrics) / _PER_LINE), min(len(metrics), _PER_LINE)
    size = (_PANEL[0] * n_wide, _PANEL[1] * n_lines)
    figure, grid = plt.subplots(n_lines, n_wide, figsize=size, layout="constrained", squeeze=False)
    for extra in grid.ravel()[len(metrics) :]:
        extra.remove()
    style: Any = {"whis": (0, 100), "manage_ticks": False, "patch_artist": True}
    style |= {f"{part}props": {"linewidth": 0.6} for part in ("box", "whisker", "cap")}
    style["medianprops"] = {"color": "red", "linewidth": 1.0}
    for metric, axes in zip(metrics, grid.ravel(), strict=False):
        shown = good.dropna(subset=metric)
        if metric == "parameter_error":
            shown = shown[shown["method"] != experiment.reference]
        found = {key: values.tolist() for key, values in shown.groupby(["method", "row"])[metric]}
        for at, method in enumerate(methods):
            for number, row in enumerate(rows):
                values = found.get((method, row.name), [])
                x = row.value + (at - 0.5 * (len(methods) - 1)) * width if is_curve else at
                if metric in _UNSCALED and min(values, default=0.0) > _MOST_DRAWN:
                    axes.annotate("↑", (x, 0.9), xycoords=("data", "axes fraction"), ha="center")
                if len(values) > 1:
                    style["boxprops"]["facecolor"] = colors[method]
                    axes.boxplot([values], positions=[x], widths=0.9 * width, **style)
                elif values and not is_curve:
                    axes.plot(x, values[0], **_mark(number))
            if is_curve:
                means = [np.mean(found.get((method, row.name), np.nan)) for row in rows]
                axes.plot(places, means, marker=".", color=colors[method], linewidth=1.2)
        if is_curve:
            axes.set_xticks(places, [f"{place:g}" for place in places])
            axes.set_xlabel("neighbours k" if rows[0].curve == "k" else rows[0].curve, fontsize=9)
        else:
            axes.set_xticks(range(len(methods)), [_short(m) for m in methods], rotation=60, ha="right")
        axes.set_title(TITLES[metric], fontsize=10)
        axes.tick_params(labelsize=7)
        axes.grid(alpha=0.3)
        drawn = shown[metric]
        if metric in _LOGARITHMIC and drawn.max() > 0.0:
            axes.set_yscale("log")
            axes.set_ylim(bottom=max(0.5 * drawn.min(), _LEAST_DRAWN))
        elif metric in _UNSCALED and drawn.max() > _MOST_DRAWN:
            axes.set_ylim(0.0, _MOST_DRAWN)
    if len(rows) > 1:
        marks = {row.title: _mark(number) for number, row in enumerate(rows)}
        if is_curve:
            marks = {METHODS[method]: {"marker": ".", "color": colors[method]} for method in methods}
        for label, mark in marks.items():
            figure.axes[0].plot([], [], label=label, **mark)
        figure.legend(loc="outside lower center", ncols=6, fontsize=8, frameon=False)
    save_png(figure, path)


def _mark(number: int) -> dict[str, Any]:
    return {"marker": "osD^vP*X"[number % 8], "color": f"C{number}", "markersize": 5, "linestyle": ""}


def _draw_maps(experiment: Experiment, row: Setting, scale: Scale, maps_folder: Path, path: Path) -> bool:
    """The first seed's maps side by side, each at its own scale; False where none was kept."""
    import matplotlib.pyplot as plt

    maps = {}
    for method in METHODS:
        file = map_path(maps_folder, Task(experiment.name, row.name, row.seeds[0], method, scale))
        if file.is_file():
            # A map that this command wrote before.
            with np.load(file, allow_pickle=False) as archive:  # noqa: TID251
                maps[method] = archive["embedding"].astype(np.float64), archive["color"]
    if not maps:
        return False
    reference = next(iter(maps.values()))[0]
    is_3d = reference.shape[1] == 3
    width, height = min(len(maps), _PER_LINE), math.ceil(len(maps) / _PER_LINE)
    figure = plt.figure(figsize=(3.0 * width, 3.0 * height), layout="constrained")
    for number, (method, (points, color)) in enumerate(maps.items(), start=1):
        axes: Any = figure.add_subplot(height, width, number, projection="3d" if is_3d else None)
        shown = aligned(points, reference, 3 if is_3d else 2)
        plot_embedding(shown, color, axes, size=3, title=_short(method))
        if is_3d:
            axes.set_box_aspect(np.maximum(np.ptp(shown, axis=0), 1e-12), zoom=1.3)
        axes.set_axis_off()
    save_png(figure, path)
    return True


def aligned(points: FloatArray, reference: FloatArray, n_axes: int = 2) -> FloatArray:
    """Coordinates (n, n_axes): moved rigidly onto the reference, along its longest axes if it has more."""
    moved = (points - points.mean(axis=0)) @ rigid_motion(points, reference)[0]
    return moved @ principal_axes(reference)[1][:, :n_axes] if reference.shape[1] > n_axes else moved
