"""The figure of docs/performance.md: time and memory against the number of points."""

from __future__ import annotations

from pathlib import Path

from methods import METHODS
from targets import Records

WORKLOAD = "swiss"
# Told apart without colour by their marks.
_STYLES = {
    "isoweave": ("#0b5fa5", "o"),
    "isomap": ("#d55e00", "s"),
    "ltsa": ("#999999", "v"),
    "tsne": ("#cc79a7", "^"),
    "umap": ("#009e73", "D"),
    "opentsne": ("#8a6d00", "P"),
    "pacmap": ("#56b4e9", "X"),
}


def draw_scaling(records: Records, path: Path) -> None:
    """Wall seconds and peak memory of every method on swiss rolls, both axes logarithmic."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.2, 3.8), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, 2)
    quantities = (("wall", 1.0, "seconds"), ("above_idle_bytes", 1e9, "GB above an idle interpreter"))
    for axes, (key, unit, label) in zip(panels, quantities, strict=True):
        for name, method in METHODS.items():
            points = sorted(
                (n, float(r[key]) / unit)
                for (who, where, n), r in records.items()
                if (who, where) == (name, WORKLOAD) and r["status"] == "ok"
            )
            if points:
                colour, mark = _STYLES[name]
                width = 2.2 if name == "isoweave" else 1.2
                axes.plot(*zip(*points, strict=True), color=colour, marker=mark, lw=width, label=method.title)
        axes.set(xscale="log", yscale="log", xlabel="points", ylabel=label)
        axes.grid(True, which="major", color="#dddddd", lw=0.6)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_title("time", loc="left", fontsize=11)
    panels[1].set_title("peak memory", loc="left", fontsize=11)
    panels[0].legend(fontsize=8, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110, metadata={"Software": ""})
