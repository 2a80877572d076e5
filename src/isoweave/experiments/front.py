"""Neighbourhoods against long distances: one curve per data set over ``global_weight``, others as points."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from isoweave._files import atomic_write
from isoweave.experiments._problems import EXPERIMENTS, METHODS, WEIGHTS, Scale
from isoweave.experiments._run import Task
from isoweave.experiments.baselines import available_baselines

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["COLUMNS", "DATA", "draw_front", "plan_front"]

# Experiment and row: title of the panel, dimension. Groups and single data sets have seeds of their own.
DATA = {
    ("klein", "k8"): ("Klein bottle", 3),
    ("torus", "k10"): ("flat torus", 3),
    ("graphs", "faces"): ("faces", 3),
    ("difficult", "k14"): ('"difficult" set', 5),
    ("mnist", "groups"): ("MNIST", 13),
    ("rnaseq", "tcga"): ("TCGA", 20),
}
COLUMNS = ["experiment", "row", "seed", "method", "f1", "pearson"]
_OTHERS = ("isomap", "umap", "tsne", "mde")
_SEEDS = 3
# t-SNE in more dimensions is quadratic, and takes longer than all the rest together.
_MOST_TSNE = 3
# Okabe and Ito's colours, which everybody can tell apart, and marks that also tell them apart in grey.
_CURVE, _STAR = "#0072B2", "#D55E00"
_COLORS = {"isomap": "#009E73", "umap": "#CC79A7", "tsne": "#E69F00", "mde": "#56B4E9"}
_MARKS = {"isomap": "s", "umap": "^", "tsne": "D", "mde": "v"}
_NAMED = ("0", "100", "10", "1")
_APART = 10.0  # of their places, in dots


def plan_front(scale: Scale) -> tuple[list[Task], list[str]]:
    """Every weight and the others on every data set, for ``run_experiments``; and what cannot run."""
    methods = [
        *(f"weight {w}" for w in WEIGHTS),
        *(name for name in _OTHERS if name in available_baselines()),
    ]
    tasks = []
    for (experiment, row), (_, n_components) in DATA.items():
        (setting,) = (found for found in EXPERIMENTS[experiment].rows if found.name == row)
        usable = [name for name in methods if name != "tsne" or n_components <= _MOST_TSNE]
        for seed in setting.seeds[: scale.n_seeds or _SEEDS]:
            tasks += [Task(experiment, row, seed, method, scale) for method in usable]
    return tasks, [f"front, {METHODS[name]} is not installed" for name in _OTHERS if name not in methods]


def draw_front(runs: pd.DataFrame, path: Path) -> None:
    """Draw F1 against Pearson, means over the seeds, a panel per data set, as SVG or PNG by ending.

    Needs matplotlib (extra ``plot``).
    """
    import matplotlib.pyplot as plt

    means = runs.groupby(["experiment", "row", "method"])[["f1", "pearson"]].mean()
    keys = [key for key in DATA if key in means.index.droplevel("method")]
    n_wide = min(3, max(1, len(keys)))
    n_high = max(1, -(-len(keys) // n_wide))
    style: Any = {"font.size": 8, "svg.hashsalt": "isoweave", "svg.fonttype": "path", "axes.linewidth": 0.6}
    with plt.rc_context(style):
        size = (2.45 * n_wide, 2.25 * n_high + 0.3)
        figure, grid = plt.subplots(n_high, n_wide, figsize=size, layout="constrained", squeeze=False)
        for extra in grid.ravel()[len(keys) :]:
            extra.remove()
        for key, axes in zip(keys, grid.ravel(), strict=False):
            found = means.loc[key]
            names = found.index.str.removeprefix("weight ")
            _draw_panel(axes, dict(zip(names, found.to_numpy(), strict=True)))
            axes.set_title("{}, N = {}".format(*DATA[key]), fontsize=8.5)
        figure.supxlabel("neighbours kept (F1)", fontsize=8.5)
        figure.supylabel("long distances kept (Pearson)", fontsize=8.5)
        handles: dict[str, Any] = {}
        for axes in grid.ravel()[: len(keys)]:
            handles |= dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
        if handles:
            place: Any = {"loc": "outside upper center", "ncols": len(handles), "frameon": False}
            figure.legend(handles.values(), handles, handletextpad=0.4, columnspacing=1.2, **place)
        kind = path.suffix.lstrip(".")
        with atomic_write(path) as file:
            figure.savefig(file, format=kind, dpi=200, metadata={"Date": None} if kind == "svg" else None)
        plt.close(figure)


def _draw_panel(axes: Any, means: dict[str, Any]) -> None:
    """Both axes go with the logarithm of what is lost, so that near perfect maps can be told apart."""
    from matplotlib.ticker import FixedLocator, NullLocator

    curve = np.array([means[name] for name in WEIGHTS[:-1] if name in means]).reshape(-1, 2)
    style: Any = {"markersize": 2.5, "linewidth": 1.2, "label": "isoweave, weight 0 to 100"}
    axes.plot(*(1.0 - curve.T), "-o", color=_CURVE, **style)
    if "auto" in means:
        style = {"color": _STAR, "linestyle": "none", "zorder": 4}
        axes.plot(*(1.0 - means["auto"]), marker="*", markersize=9, label='isoweave, "auto"', **style)
    for name in _OTHERS:
        if name in means:
            style = {"color": _COLORS[name], "linestyle": "none", "markeredgecolor": "black"}
            style |= {"marker": _MARKS[name], "markersize": 5.5, "markeredgewidth": 0.4}
            axes.plot(*(1.0 - means[name]), label=METHODS[name], **style)
    for axis, set_scale in ((axes.xaxis, axes.set_xscale), (axes.yaxis, axes.set_yscale)):
        set_scale("log")
        axis.set_inverted(True)
        low, high = sorted(axis.get_view_interval())
        lost = [v for v in (0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.3, 0.5, 0.8) if low <= v <= high]
        axis.set_major_locator(FixedLocator(lost))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(lambda v, _: f"{1.0 - v:.3g}".lstrip("0"))
    axes.margins(0.08)
    taken: list[Any] = []
    for name in _NAMED:
        at = axes.transData.transform(1.0 - means[name]) if name in means else None
        # Where the curve is short, numbers would lie on each other.
        if at is not None and all(np.abs(at - other).max() > _APART for other in taken):
            taken.append(at)
            style = {"textcoords": "offset points", "fontsize": 6.5, "color": _CURVE}
            axes.annotate(name, 1.0 - means[name], (3, 3), **style)
    axes.tick_params(labelsize=7, width=0.6)
    axes.grid(alpha=0.25, linewidth=0.5)
    axes.spines[["top", "right"]].set_visible(False)
