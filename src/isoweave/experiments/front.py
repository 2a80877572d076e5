"""Neighbourhoods against long distances: one curve per data set over ``global_weight``, others as points."""

from __future__ import annotations

import csv
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from isoweave._files import append_text, atomic_write
from isoweave.datasets import DatasetMissingError
from isoweave.embed import embed_graph
from isoweave.experiments._problems import EXPERIMENTS, FULL, METHODS, Request, Scale, Setting
from isoweave.experiments._run import score
from isoweave.experiments.baselines import available_baselines, run_baseline

__all__ = ["DATA", "WEIGHTS", "draw_front", "run_front"]

# Experiment and row, title of the panel. Groups and single data sets have seeds of their own.
DATA = {
    ("klein", "k8"): "Klein bottle, N = 3",
    ("torus", "k10"): "flat torus, N = 3",
    ("graphs", "faces"): "faces, N = 3",
    ("difficult", "k14"): '"difficult" set, N = 5',
    ("mnist", "groups"): "MNIST, N = 13",
    ("rnaseq", "tcga"): "TCGA, N = 20",
}
WEIGHTS = ("0", "0.1", "0.3", "1", "3", "10", "30", "100", "auto")
_OTHERS = ("isomap", "umap", "tsne", "mde")
_SEEDS = 3
_COLUMNS = ("experiment", "row", "seed", "method", "f1", "pearson")
# t-SNE in more dimensions is quadratic, and takes longer than all the rest together.
_MOST_TSNE = 3
# Okabe and Ito's colours, which everybody can tell apart, and marks that also tell them apart in grey.
_CURVE, _STAR = "#0072B2", "#D55E00"
_COLORS = {"isomap": "#009E73", "umap": "#CC79A7", "tsne": "#E69F00", "mde": "#56B4E9"}
_MARKS = {"isomap": "s", "umap": "^", "tsne": "D", "mde": "v"}
_NAMED = ("0", "100", "10", "1")
_APART = 10.0  # of their places, in dots


def run_front(
    path: Path,
    scale: Scale = FULL,
    *,
    methods: Sequence[str] | None = None,
    data_home: Path | None = None,
    fetch: bool = False,
    progress: Callable[[str], None] = lambda label: None,
) -> list[str]:
    """Run what the CSV file ``path`` does not hold yet and add it there; return what was skipped and why.

    Columns are experiment, row, seed, method (a value of ``global_weight``, or a baseline), F1 and Pearson.
    """
    installed = (*WEIGHTS, *available_baselines())
    wanted = [name for name in methods or (*WEIGHTS, *_OTHERS) if name in installed]
    skipped = [f"front, {METHODS[name]} is not installed" for name in _OTHERS if name not in installed]
    done = {tuple(line[name] for name in _COLUMNS[:4]) for line in read_front(path)}
    if not path.exists():
        append_text(path, ",".join(_COLUMNS) + "\n")
    for (experiment, row), title in DATA.items():
        setting = next(found for found in EXPERIMENTS[experiment].rows if found.name == row)
        for seed in setting.seeds[: min(scale.n_seeds or _SEEDS, len(setting.seeds))]:
            missing = [name for name in wanted if (experiment, row, str(seed), name) not in done]
            progress(f"{title}, seed {seed}")
            try:
                found = _scores(setting, Request(seed, scale.n_samples, data_home, fetch), missing)
                for name, f1, pearson in found:
                    append_text(path, f"{experiment},{row},{seed},{name},{f1:.6f},{pearson:.6f}\n")
            except DatasetMissingError as error:
                skipped.append(f"front, {title}: {error}")
                break
    return skipped


def _scores(setting: Setting, request: Request, methods: Iterable[str]) -> Iterator[tuple[str, float, float]]:
    methods = list(methods)
    if not methods:
        return
    problem = setting.load(request)
    n_components = problem.n_components
    for name in methods:
        if name == "tsne" and n_components > _MOST_TSNE:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if name in WEIGHTS:
                weight: Any = name if name == "auto" else float(name)
                y = embed_graph(problem.graph, n_components, global_weight=weight).coordinates
            else:
                given: Any = {"n_neighbors": problem.n_neighbors, "random_state": request.seed}
                y = run_baseline(name, problem.graph, n_components, **given)
        found = score(problem, y)
        yield name, found["f1"], found["pearson"]


def read_front(path: Path) -> list[dict[str, str]]:
    """The lines of a CSV file of :func:`run_front`; none if there is no file."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def draw_front(lines: Sequence[dict[str, str]], path: Path) -> None:
    """Draw F1 against Pearson, means over the seeds, a panel per data set, as SVG or PNG by ending.

    Needs matplotlib (extra ``plot``).
    """
    import matplotlib.pyplot as plt

    groups: dict[tuple[str, str], dict[str, list[tuple[float, float]]]] = {}
    for line in lines:
        group = groups.setdefault((line["experiment"], line["row"]), {})
        group.setdefault(line["method"], []).append((float(line["f1"]), float(line["pearson"])))
    keys = [key for key in DATA if key in groups]
    n_wide = min(3, max(1, len(keys)))
    n_high = max(1, -(-len(keys) // n_wide))
    style: Any = {"font.size": 8, "svg.hashsalt": "isoweave", "svg.fonttype": "path", "axes.linewidth": 0.6}
    with plt.rc_context(style):
        size = (2.45 * n_wide, 2.25 * n_high + 0.3)
        figure, grid = plt.subplots(n_high, n_wide, figsize=size, layout="constrained", squeeze=False)
        for extra in grid.ravel()[len(keys) :]:
            extra.remove()
        for key, axes in zip(keys, grid.ravel(), strict=False):
            _draw_panel(axes, {name: np.mean(v, axis=0) for name, v in groups[key].items()})
            axes.set_title(DATA[key], fontsize=8.5)
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
