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
from isoweave.experiments._methods import METHODS
from isoweave.experiments._records import select
from isoweave.experiments._run import map_path
from isoweave.experiments._spec import Experiment, Scale, Setting
from isoweave.experiments._tables import TITLES
from isoweave.plot import plot_embedding

if TYPE_CHECKING:
    import pandas as pd

_PANEL = (3.6, 2.9)  # inches
_PER_LINE = 4
_LEAST_DRAWN = 1e-7
# Methods without a scale would hide the rest beyond this error; an arrow shows that they are there.
_MOST_DRAWN = 2.0
_UNSCALED = ("global_stress", "local_distance", "local_metric")
_LOGARITHMIC = ("procrustes_error", "parameter_error")
_MARKS = "osD^vP*X"


def draw_experiment(
    experiment: Experiment, runs: pd.DataFrame, scale: Scale, folder: Path, maps_folder: Path | None = None
) -> dict[str, Path]:
    """Draw whatever the runs of an experiment allow, and the maps in ``maps_folder``; PNG files by title.

    Box plots and curves are written as SVG too, beside them. Needs matplotlib (extra ``plot``).
    """
    good = select(runs, experiment.name, scale.name)
    good = good[good["error"].isna()]
    rows = [row for row in experiment.rows_for(scale) if (good["row"] == row.name).any()]
    figures: dict[str, Path] = {}
    folder.mkdir(parents=True, exist_ok=True)
    for curve in dict.fromkeys(row.curve for row in rows):
        points = [row for row in rows if row.curve == curve]
        path = folder / f"{experiment.name}_{curve or 'scores'}.png"
        draw = _draw_scores if curve is None else _draw_curves
        # What has a curve of its own is not in the other one's panels.
        names = [row.name for row in points]
        draw(experiment, points, good if curve is None else good[good["row"].isin(names)], path)
        figures[f"{experiment.title}: {curve or 'scores'}"] = path
    if maps_folder is not None and experiment.draw_maps:
        for row in rows:
            path = folder / f"{experiment.name}_{row.name}_maps.png"
            if _draw_maps(experiment, row, scale, maps_folder, path):
                figures[f"{experiment.title}, {row.title}: maps"] = path
    return figures


def _short(method: str) -> str:
    return METHODS[method].title.split(",")[0]


def _color(method: str) -> Any:
    import matplotlib as mpl

    return mpl.colormaps["tab20"](list(METHODS).index(method) % 20)


def _start(experiment: Experiment, good: pd.DataFrame) -> tuple[Any, dict[str, Any], list[str]]:
    """A figure with a panel for every metric that has values, and the methods that have any."""
    import matplotlib.pyplot as plt

    metrics = [metric for metric in experiment.metrics if metric in good and good[metric].notna().any()]
    width = min(len(metrics), _PER_LINE)
    height = math.ceil(len(metrics) / width)
    figure, grid = plt.subplots(
        height, width, figsize=(_PANEL[0] * width, _PANEL[1] * height), layout="constrained", squeeze=False
    )
    panels = list(grid.ravel())
    for extra in panels[len(metrics) :]:
        extra.remove()
    methods = [name for name in METHODS if (good["method"] == name).any()]
    return figure, dict(zip(metrics, panels, strict=False)), methods


def _values(good: pd.DataFrame, row: Setting, method: str, metric: str) -> list[float]:
    found = good.loc[(good["row"] == row.name) & (good["method"] == method), metric]
    return [float(value) for value in found.dropna()]


def save_png(figure: Any, path: Path) -> None:
    """Write a PNG with a palette of 256 colours, a third of the size; Pillow comes with matplotlib."""
    from PIL import Image

    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=100)
    with Image.open(buffer) as image, atomic_write(path) as file:
        image.convert("RGB").quantize(256).save(file, format="png", optimize=True)


def _save(figure: Any, path: Path, *, with_svg: bool = True) -> None:
    import matplotlib.pyplot as plt

    save_png(figure, path)
    if with_svg:
        # No date and no random names: the same runs give the same file.
        with plt.rc_context({"svg.hashsalt": "isoweave"}), atomic_write(path.with_suffix(".svg")) as file:
            figure.savefig(file, format="svg", metadata={"Date": None})
    plt.close(figure)


def _box(axes: Any, values: Sequence[float], at: float, width: float, color: Any) -> None:
    """Whiskers at the extremes, box from the 25th to the 75th percentile, median in red."""
    axes.boxplot(
        [values],
        positions=[at],
        widths=width,
        whis=(0, 100),
        manage_ticks=False,
        patch_artist=True,
        boxprops={"facecolor": color, "linewidth": 0.6},
        whiskerprops={"linewidth": 0.6},
        capprops={"linewidth": 0.6},
        medianprops={"color": "red", "linewidth": 1.0},
    )


def _finish(axes: Any, metric: str, drawn: Sequence[float]) -> None:
    axes.set_title(TITLES[metric], fontsize=10)
    axes.grid(alpha=0.3)
    if metric in _LOGARITHMIC and drawn and max(drawn) > 0.0:
        axes.set_yscale("log")
        axes.set_ylim(bottom=max(0.5 * min(drawn), _LEAST_DRAWN))
    elif metric in _UNSCALED and drawn and max(drawn) > _MOST_DRAWN:
        axes.set_ylim(0.0, _MOST_DRAWN)


def _draw_scores(experiment: Experiment, rows: Sequence[Setting], good: pd.DataFrame, path: Path) -> None:
    """A panel per metric, a place per method; boxes over seeds, or a mark per row where there is one seed."""
    figure, panels, methods = _start(experiment, good)
    for metric, axes in panels.items():
        drawn: list[float] = []
        for number, row in enumerate(rows):
            for at, method in enumerate(methods):
                if method == experiment.reference and metric == "parameter_error":
                    continue
                values = _values(good, row, method, metric)
                drawn += values
                if metric in _UNSCALED and values and min(values) > _MOST_DRAWN:
                    axes.annotate("↑", (at, 0.9), xycoords=("data", "axes fraction"), ha="center")
                if len(values) > 1:
                    _box(axes, values, at, 0.6, _color(method))
                elif values:
                    axes.plot(at, values[0], _MARKS[number % 8], color=f"C{number}", markersize=5)
        axes.set_xticks(range(len(methods)), [_short(m) for m in methods], rotation=60, ha="right")
        axes.tick_params(labelsize=7)
        _finish(axes, metric, drawn)
    if len(rows) > 1:
        for number, row in enumerate(rows):
            figure.axes[0].plot([], [], _MARKS[number % 8], color=f"C{number}", label=row.title)
        figure.legend(loc="outside lower center", ncols=len(rows), fontsize=8, frameon=False)
    _save(figure, path)


def _draw_curves(experiment: Experiment, rows: Sequence[Setting], good: pd.DataFrame, path: Path) -> None:
    """A panel per metric: means over the abscissa as lines, boxes over the seeds at every point."""
    figure, panels, methods = _start(experiment, good)
    places = [row.value for row in rows]
    step = min(np.diff(sorted(places)), default=1.0)
    width = 0.7 * step / max(len(methods), 1)
    for metric, axes in panels.items():
        drawn: list[float] = []
        for number, method in enumerate(methods):
            line = []
            for row in rows:
                values = _values(good, row, method, metric)
                if not values:
                    continue
                at = row.value + (number - 0.5 * (len(methods) - 1)) * width
                if len(values) > 1:
                    _box(axes, values, at, 0.9 * width, _color(method))
                line.append((row.value, float(np.mean(values))))
                drawn += values
            if line:
                axes.plot(*zip(*line, strict=True), marker=".", color=_color(method), linewidth=1.2)
        axes.set_xticks(places, [f"{place:g}" for place in places])
        axes.set_xlabel("neighbours k" if rows[0].curve == "k" else rows[0].curve, fontsize=9)
        axes.tick_params(labelsize=8)
        _finish(axes, metric, drawn)
    for method in methods:
        figure.axes[0].plot([], [], marker=".", color=_color(method), label=METHODS[method].title)
    figure.legend(loc="outside lower center", ncols=6, fontsize=8, frameon=False)
    _save(figure, path)


def _draw_maps(experiment: Experiment, row: Setting, scale: Scale, maps_folder: Path, path: Path) -> bool:
    """The first seed's maps side by side, each at its own scale; False where none was kept."""
    import matplotlib.pyplot as plt

    maps = {}
    for method in METHODS:
        file = map_path(maps_folder, experiment.name, row.name, row.seeds[0], method, scale.name)
        if file.is_file():
            # A map that this command wrote before.
            with np.load(file, allow_pickle=False) as archive:  # noqa: TID251
                maps[method] = archive["embedding"].astype(np.float64), archive["color"]
    if not maps:
        return False
    reference = next(iter(maps.values()))[0]
    is_3d = reference.shape[1] == 3
    width = min(len(maps), _PER_LINE)
    height = math.ceil(len(maps) / width)
    figure = plt.figure(figsize=(3.0 * width, 3.0 * height), layout="constrained")
    for number, (method, (points, color)) in enumerate(maps.items(), start=1):
        axes: Any = figure.add_subplot(height, width, number, projection="3d" if is_3d else None)
        shown = aligned(points, reference, 3 if is_3d else 2)
        plot_embedding(shown, color, axes, size=3, title=_short(method))
        if is_3d:
            axes.set_box_aspect(np.maximum(np.ptp(shown, axis=0), 1e-12), zoom=1.3)
        axes.set_axis_off()
    _save(figure, path, with_svg=False)
    return True


def aligned(points: FloatArray, reference: FloatArray, n_axes: int = 2) -> FloatArray:
    """Coordinates (n, n_axes) to draw: the best rigid motion onto the reference, along its longest axes.

    They are centred. A reference that has no more axes is not rotated itself.
    """
    moved, target = points - points.mean(axis=0), reference - reference.mean(axis=0)
    u, _, vt = np.linalg.svd(moved.T @ target)
    moved = moved @ (u @ vt)
    if target.shape[1] > n_axes:
        _, _, axes = np.linalg.svd(target, full_matrices=False)
        moved = moved @ axes[:n_axes].T
    return moved
