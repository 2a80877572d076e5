"""A demonstration: two data sets, this package against scikit-learn's Isomap."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from isoweave._files import write_text
from isoweave._pages import render
from isoweave._typing import FloatArray
from isoweave.datasets import Dataset, load_digits, swiss_roll
from isoweave.experiments._figures import aligned, save_png
from isoweave.experiments._page import section
from isoweave.experiments._tables import TITLES, ResultTable, show
from isoweave.metrics import label_scores, local_distance, neighborhood_scores, procrustes_error

_SEED = 7
_METRICS = ("f1", "local_distance", "procrustes_error", "accuracy")


@dataclass(frozen=True, eq=False)
class DemoCase:
    """A data set and how it is embedded."""

    title: str
    dataset: Dataset
    n_components: int
    n_neighbors: int = 10


@dataclass(frozen=True, eq=False)
class DemoResult:
    """One method's embedding of one data set, with its scores by metric."""

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


def compile_kernels() -> None:
    """Embed a little data in every dimension the cases use, so that no clock runs while numba compiles."""
    from isoweave import IsometricEmbedding

    rng = np.random.default_rng(_SEED)
    for n_components in (2, 9):
        data = rng.normal(size=(300, n_components))
        IsometricEmbedding(n_components=n_components, n_neighbors=10).fit(data)


def run_case(case: DemoCase) -> tuple[DemoResult, ...]:
    """Embed a data set with this package and with Isomap, and score both against the same graph."""
    from sklearn.manifold import Isomap
    from sklearn.neighbors import kneighbors_graph

    from isoweave import IsometricEmbedding

    data, k = case.dataset, case.n_neighbors
    directed = kneighbors_graph(data.data, k, mode="distance")
    graph = directed.maximum(directed.T)
    methods = {
        "isoweave": IsometricEmbedding(case.n_components, n_neighbors=k, random_state=_SEED),
        "Isomap": Isomap(n_components=case.n_components, n_neighbors=k),
    }
    results = []
    for name, method in methods.items():
        started = time.perf_counter()
        embedding: FloatArray = method.fit_transform(data.data)
        seconds = time.perf_counter() - started
        scores = {"f1": neighborhood_scores(graph, embedding, n_neighbors=k).f1}
        scores["local_distance"] = local_distance(graph, embedding)
        if data.truth is not None:
            scores["procrustes_error"] = procrustes_error(data.truth, embedding)
        if data.labels is not None:
            scores["accuracy"] = label_scores(data.labels, embedding, n_neighbors=k).accuracy
        results.append(DemoResult(name, embedding, scores, seconds))
    return tuple(results)


def demo_table(results: Sequence[tuple[DemoCase, DemoResult]]) -> ResultTable:
    """The scores as text."""
    lines = []
    for case, result in results:
        cells = (show(result.scores[m], m) if m in result.scores else "" for m in _METRICS)
        lines.append((case.dataset.name, result.method, *cells, f"{result.seconds:.2f}"))
    head = ("data", "method", *(TITLES[m] for m in _METRICS), "seconds")
    return ResultTable("", (), head, tuple(lines))


def draw_case(case: DemoCase, results: Sequence[DemoResult], folder: Path) -> Path:
    """Draw the data, where they are three-dimensional, and the maps of them; return the figure's file."""
    import matplotlib.pyplot as plt

    from isoweave.plot import plot_embedding

    data, truth, labels = case.dataset.data, case.dataset.truth, case.dataset.labels
    color = labels if truth is None else truth[:, 0]
    reference = results[0].embedding if truth is None else truth
    maps = {}
    for result in results:
        caption = "{}: F1 {f1:.3f}, edge error {local_distance:.1%}".format(result.method, **result.scores)
        maps[caption] = aligned(result.embedding, reference)
    if truth is not None:
        maps["truth"] = aligned(truth, reference)
    every = np.concatenate(list(maps.values()))
    low, high = every.min(axis=0), every.max(axis=0)
    margin = 0.03 * np.max(high - low)
    width, height = high - low + 2 * margin
    # Wide maps lie above each other, with the data beside them.
    is_wide = width > 2 * height
    names = [f"map {a}" for a in range(len(maps))]
    layout = [["data", name] for name in names] if is_wide else [names]
    tall = len(maps) * (7.0 * height / width + 0.4)
    size = (11.0, tall) if is_wide else (5.0 * len(maps), 5.0 * height / width + 0.7)
    axes: Any  # of two kinds, which matplotlib's types cannot tell apart
    figure, axes = plt.subplot_mosaic(
        cast(Any, layout),
        figsize=size,
        layout="constrained",
        width_ratios=(1, 2) if is_wide else None,
        per_subplot_kw={"data": {"projection": "3d"}} if is_wide else None,
    )
    for name, (caption, points) in zip(names, maps.items(), strict=True):
        plot_embedding(points, color, axes[name], title=caption, size=7)
        # The same scale everywhere: how large a map is belongs to what is compared.
        limits = np.column_stack([low - margin, high + margin])
        axes[name].set(xticks=[], yticks=[], xlim=limits[0], ylim=limits[1])
    if is_wide:
        plot_embedding(data[:, :3], color, axes["data"], title="data", size=7)
        axes["data"].view_init(elev=8, azim=-75)
        axes["data"].set_box_aspect(np.ptp(data[:, :3], axis=0), zoom=1.5)
        axes["data"].set_axis_off()
    if labels is not None:
        dots = axes[names[0]].collections[0]
        figure.legend(*dots.legend_elements(), loc="outside right center", frameon=False)
    view = f", {case.n_components}-D maps along their two longest axes" if case.n_components > 2 else ""
    figure.suptitle(case.title + view)
    path = folder / f"{case.dataset.name}.png"
    save_png(figure, path)
    plt.close(figure)
    return path


def write_demo_page(
    results: Sequence[tuple[DemoCase, DemoResult]], figures: Mapping[str, Path], folder: Path
) -> Path:
    """Write ``index.html``, which needs no other file, and return its path; ``figures`` are PNG by title."""
    sections = [section("scores", "Scores", tables=[demo_table(results)])]
    sections += [section(path.stem, title, figures={title: path}) for title, path in figures.items()]
    page = folder / "index.html"
    write_text(page, render("experiments/templates/demo.html", warning="", sections=sections, footer=""))
    return page
