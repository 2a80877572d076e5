"""A demonstration: two data sets, this package against scikit-learn's Isomap."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from isoweave._files import write_text
from isoweave._pages import render
from isoweave._typing import FloatArray
from isoweave.datasets import Dataset, load_digits, swiss_roll
from isoweave.experiments._figures import aligned, save_png
from isoweave.experiments._run import warm_up
from isoweave.experiments._tables import TITLES, ResultTable, section, show
from isoweave.graph import knn_graph
from isoweave.metrics import evaluate

_SEED = 7
_N_NEIGHBORS = 10
_METRICS = ("f1", "local_distance", "procrustes_error", "accuracy")


class DemoCase(NamedTuple):
    """A data set and the dimension it is embedded in."""

    title: str
    dataset: Dataset
    n_components: int


class DemoResult(NamedTuple):
    """One method's embedding of one data set, with its scores by metric."""

    data: str
    method: str
    embedding: FloatArray
    scores: dict[str, float]
    seconds: float


def demo_cases() -> tuple[DemoCase, ...]:
    """A swiss roll of 1500 points, and scikit-learn's 1797 handwritten digits."""
    roll, digits = swiss_roll(1500, random_state=_SEED), load_digits()
    return (
        DemoCase(f"Swiss roll, {roll.n_samples} points", roll, 2),
        # Nine dimensions are what n_components="auto" estimates.
        DemoCase(f"Handwritten digits, {digits.n_samples} images of 8 x 8", digits, 9),
    )


def run_case(case: DemoCase) -> list[DemoResult]:
    """Embed a data set with this package and with Isomap, and score both against the same graph."""
    from sklearn.manifold import Isomap

    from isoweave import IsometricEmbedding

    warm_up("default", case.n_components)
    data, k = case.dataset, _N_NEIGHBORS
    graph = knn_graph(data.data, k)
    known: dict[str, Any] = {"labels": data.labels, "truth": data.truth}
    methods = {
        "isoweave": IsometricEmbedding(case.n_components, n_neighbors=k, random_state=_SEED),
        "Isomap": Isomap(n_components=case.n_components, n_neighbors=k),
    }
    results = []
    for name, method in methods.items():
        started = time.perf_counter()
        embedding: FloatArray = method.fit_transform(data.data)
        seconds = time.perf_counter() - started
        scores = evaluate(graph, embedding, n_neighbors=k, ranks=False, **known)
        results.append(DemoResult(data.name, name, embedding, scores, seconds))
    return results


def demo_table(results: Sequence[DemoResult]) -> ResultTable:
    """The scores as text."""
    lines = []
    for data, method, _, scores, seconds in results:
        cells = (show(scores[m], m) if m in scores else "" for m in _METRICS)
        lines.append((data, method, *cells, f"{seconds:.2f}"))
    return ResultTable(("data", "method", *(TITLES[m] for m in _METRICS), "seconds"), lines)


def draw_case(case: DemoCase, results: Sequence[DemoResult], folder: Path) -> Path:
    """Draw the data, where they are three-dimensional, and the maps of them; return the figure's file."""
    import matplotlib.pyplot as plt

    from isoweave.plot import plot_embedding

    data, truth, labels = case.dataset.data, case.dataset.truth, case.dataset.labels
    color = labels if truth is None else truth[:, 0]
    reference = results[0].embedding if truth is None else truth
    caption = "{}: F1 {f1:.3f}, edge error {local_distance:.1%}"
    maps = {caption.format(result.method, **result.scores): result.embedding for result in results}
    if truth is not None:
        maps["truth"] = truth
    # The roll lies beside its maps, which are wide and stand above each other.
    is_roll = data.shape[1] == 3
    figure = plt.figure(figsize=(11.0, 5.5) if is_roll else (5.0 * len(maps), 5.0), layout="constrained")
    grid = figure.add_gridspec(len(maps), 3) if is_roll else figure.add_gridspec(1, len(maps))
    first: Any = None
    for at, (title, points) in enumerate(maps.items()):
        # The same scale everywhere: how large a map is belongs to what is compared.
        axes: Any = figure.add_subplot(grid[at, 1:] if is_roll else grid[at], sharex=first, sharey=first)
        plot_embedding(aligned(points, reference), color, axes, title=title, size=7)
        axes.set(xticks=[], yticks=[])
        first = first or axes
    if is_roll:
        axes = figure.add_subplot(grid[:, 0], projection="3d")
        plot_embedding(data, color, axes, title="data", size=7)
        axes.view_init(elev=8, azim=-75)
        axes.set_box_aspect(np.ptp(data, axis=0), zoom=1.5)
        axes.set_axis_off()
    if labels is not None:
        dots = first.collections[0]
        figure.legend(*dots.legend_elements(), loc="outside right center", frameon=False)
    view = f", {case.n_components}-D maps along their two longest axes" if case.n_components > 2 else ""
    figure.suptitle(case.title + view)
    path = folder / f"{case.dataset.name}.png"
    save_png(figure, path)
    return path


def write_demo_page(table: ResultTable, figures: Mapping[str, Path], folder: Path) -> Path:
    """Write ``index.html``, which needs no other file, and return its path; ``figures`` are PNG by title."""
    sections = [section("scores", "Scores", tables=[table])]
    sections += [section(path.stem, title, figures={title: path}) for title, path in figures.items()]
    page = folder / "index.html"
    write_text(page, render("experiments/templates/demo.html", warning="", sections=sections, footer=""))
    return page
