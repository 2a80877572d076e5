"""Box plots like the paper's, curves, and the maps themselves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from isoweave._files import atomic_write
from isoweave._typing import FloatArray
from isoweave.demo._page import align_plane
from isoweave.experiments._group import map_path
from isoweave.experiments._methods import METHODS
from isoweave.experiments._records import Records
from isoweave.experiments._spec import Experiment, Record, Row, Scale
from isoweave.experiments._tables import TITLES, values_of
from isoweave.plot import plot_embedding

_PANEL = (3.6, 2.9)  # inches
_PER_LINE = 4
_LEAST_DRAWN = 1e-7
# Methods without a scale would hide the rest beyond this error; an arrow shows that they are there.
_MOST_DRAWN = 2.0
_UNSCALED = ("global_stress", "local_distance", "local_metric")
_MARKS = "osD^vP*X"


def draw_experiment(
    experiment: Experiment, records: Records, scale: Scale, folder: Path, maps_folder: Path | None = None
) -> dict[str, Path]:
    """Draw whatever the records of an experiment allow; return PNG files by title.

    Box plots and curves are written as SVG too, beside them. Needs matplotlib (extra ``plot``).

    Parameters
    ----------
    experiment : Experiment
    records : Records
    scale : Scale
    folder : pathlib.Path
    maps_folder : pathlib.Path, optional
        Where :func:`run_experiments` kept the maps.
    """
    rows = [r for r in experiment.rows_for(scale) if records.of(experiment.name, scale.name, r.name)]
    figures: dict[str, Path] = {}
    folder.mkdir(parents=True, exist_ok=True)
    curves = dict.fromkeys(row.curve for row in rows if row.curve is not None)
    for curve in curves:
        points = [row for row in rows if row.curve == curve]
        path = folder / f"{experiment.name}_{curve}.png"
        _draw_curves(experiment, points, records, scale, curve, path)
        figures[f"{experiment.title}: {curve}"] = path
    plain = [row for row in rows if row.curve is None]
    if plain:
        path = folder / f"{experiment.name}_scores.png"
        _draw_scores(experiment, plain, records, scale, path)
        figures[f"{experiment.title}: scores"] = path
    if maps_folder is not None and experiment.draw_maps:
        for row in rows:
            path = folder / f"{experiment.name}_{row.name}_maps.png"
            if _draw_maps(experiment, row, scale, maps_folder, path):
                figures[f"{experiment.title}, {row.title}: maps"] = path
    return figures


def _methods_of(records: Sequence[Record]) -> list[str]:
    ran = {record["method"] for record in records if record["error"] is None}
    return [name for name in METHODS if name in ran]


def _short(method: str) -> str:
    return METHODS[method].title.split(",")[0]


def _color(method: str) -> Any:
    import matplotlib as mpl

    return mpl.colormaps["tab20"](list(METHODS).index(method) % 20)


def _panels(n: int) -> tuple[Any, list[Any]]:
    import matplotlib.pyplot as plt

    width = min(n, _PER_LINE)
    height = math.ceil(n / width)
    figure, grid = plt.subplots(
        height, width, figsize=(_PANEL[0] * width, _PANEL[1] * height), layout="constrained", squeeze=False
    )
    panels = list(grid.ravel())
    for extra in panels[n:]:
        extra.remove()
    return figure, panels[:n]


def _save(figure: Any, path: Path, *, with_svg: bool = True) -> None:
    import matplotlib.pyplot as plt

    from isoweave.demo._page import _save_small

    _save_small(figure, path)
    if with_svg:
        # No date and no random names: the same records give the same file.
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


def _finish(axes: Any, experiment: Experiment, metric: str, drawn: Sequence[float]) -> None:
    axes.set_title(TITLES[metric], fontsize=10)
    axes.grid(alpha=0.3)
    if metric in experiment.log_metrics and drawn and max(drawn) > 0.0:
        axes.set_yscale("log")
        axes.set_ylim(bottom=max(0.5 * min(drawn), _LEAST_DRAWN))
    elif metric in _UNSCALED and drawn and max(drawn) > _MOST_DRAWN:
        axes.set_ylim(0.0, _MOST_DRAWN)


def _metrics_with_values(experiment: Experiment, records: Sequence[Record]) -> list[str]:
    return [metric for metric in experiment.metrics if values_of(records, metric)]


def _draw_scores(
    experiment: Experiment, rows: Sequence[Row], records: Records, scale: Scale, path: Path
) -> None:
    """A panel per metric, a place per method; boxes over seeds, or a mark per row where there is one seed."""
    everything = records.of(experiment.name, scale.name)
    methods = _methods_of(everything)
    metrics = _metrics_with_values(experiment, everything)
    figure, panels = _panels(len(metrics))
    for axes, metric in zip(panels, metrics, strict=True):
        drawn: list[float] = []
        for number, row in enumerate(rows):
            for at, method in enumerate(methods):
                found = records.of(experiment.name, scale.name, row.name, method)
                values = values_of([r for r in found if r["error"] is None], metric)
                if method == experiment.reference and metric == "parameter_error":
                    continue
                drawn += values
                if metric in _UNSCALED and values and min(values) > _MOST_DRAWN:
                    axes.annotate("↑", (at, 0.9), xycoords=("data", "axes fraction"), ha="center")
                if len(values) > 1:
                    _box(axes, values, at, 0.6, _color(method))
                elif values:
                    axes.plot(at, values[0], _MARKS[number % 8], color=f"C{number}", markersize=5)
        axes.set_xticks(range(len(methods)), [_short(m) for m in methods], rotation=60, ha="right")
        axes.tick_params(labelsize=7)
        _finish(axes, experiment, metric, drawn)
    if len(rows) > 1:
        for number, row in enumerate(rows):
            panels[0].plot([], [], _MARKS[number % 8], color=f"C{number}", label=row.title)
        figure.legend(loc="outside lower center", ncols=len(rows), fontsize=8, frameon=False)
    _save(figure, path)


def _draw_curves(
    experiment: Experiment, rows: Sequence[Row], records: Records, scale: Scale, curve: str, path: Path
) -> None:
    """A panel per metric: means over the abscissa as lines, boxes over the seeds at every point."""
    everything = [r for row in rows for r in records.of(experiment.name, scale.name, row.name)]
    methods = _methods_of(everything)
    metrics = _metrics_with_values(experiment, everything)
    places = [row.value for row in rows]
    step = min(np.diff(sorted(places)), default=1.0)
    width = 0.7 * step / max(len(methods), 1)
    figure, panels = _panels(len(metrics))
    for axes, metric in zip(panels, metrics, strict=True):
        drawn: list[float] = []
        for number, method in enumerate(methods):
            line = []
            for row in rows:
                found = records.of(experiment.name, scale.name, row.name, method)
                values = values_of([r for r in found if r["error"] is None], metric)
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
        axes.set_xlabel("neighbours k" if curve == "k" else curve, fontsize=9)
        axes.tick_params(labelsize=8)
        _finish(axes, experiment, metric, drawn)
    for method in methods:
        panels[0].plot([], [], marker=".", color=_color(method), label=METHODS[method].title)
    figure.legend(loc="outside lower center", ncols=6, fontsize=8, frameon=False)
    _save(figure, path)


def _draw_maps(experiment: Experiment, row: Row, scale: Scale, maps_folder: Path, path: Path) -> bool:
    """The first seed's maps side by side, each at its own scale; False where none was kept."""
    import matplotlib.pyplot as plt

    maps = {}
    for method in METHODS:
        file = map_path(maps_folder, (experiment.name, row.name, row.seeds[0], method, scale.name))
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
        shown = _turned(points, reference) if is_3d else align_plane(points, reference)
        plot_embedding(shown, color, axes, size=3, title=_short(method))
        if is_3d:
            axes.set_box_aspect(np.maximum(np.ptp(shown, axis=0), 1e-12), zoom=1.3)
        axes.set_axis_off()
    _save(figure, path, with_svg=False)
    return True


def _turned(points: FloatArray, reference: FloatArray) -> FloatArray:
    """Centred and turned (or reflected) towards the reference, so that all are seen from the same side."""
    moved = points - points.mean(axis=0)
    u, _, vt = np.linalg.svd(moved.T @ (reference - reference.mean(axis=0)))
    turned: FloatArray = moved @ (u @ vt)
    return turned
