"""A demonstration: two data sets, this package against scikit-learn's Isomap."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import scipy.sparse as sp

from isoweave._files import write_text
from isoweave._pages import render
from isoweave._typing import AnyArray, FloatArray
from isoweave.experiments._figures import aligned, save_png
from isoweave.experiments._page import section
from isoweave.experiments._tables import ResultTable
from isoweave.metrics import label_scores, local_distance, neighborhood_scores, procrustes_error

_SEED = 7


@dataclass(frozen=True, eq=False)
class DemoCase:
    """One data set, how it is embedded, what its points are coloured by, and what is known about it."""

    name: str
    title: str
    data: FloatArray
    color: AnyArray
    n_neighbors: int
    n_components: int
    truth: FloatArray | None = None
    labels: AnyArray | None = None


@dataclass(frozen=True, eq=False)
class DemoResult:
    """One method's embedding of one data set, with its scores (see :mod:`isoweave.metrics`)."""

    method: str
    embedding: FloatArray
    f1: float
    local_distance: float
    procrustes_error: float | None
    accuracy: float | None
    seconds: float


def demo_cases() -> tuple[DemoCase, ...]:
    """A swiss roll of 1500 points, and scikit-learn's 1797 handwritten digits."""
    from isoweave.datasets import load_digits, swiss_roll

    roll = swiss_roll(1500, random_state=_SEED)
    digits = load_digits()
    assert roll.truth is not None
    assert digits.labels is not None
    rolled = f"Swiss roll, {roll.n_samples} points"
    written = f"Handwritten digits, {digits.n_samples} images of 8 x 8"
    return (
        DemoCase("swiss_roll", rolled, roll.data, roll.truth[:, 0], 10, 2, truth=roll.truth),
        # Nine dimensions are what n_components="auto" estimates.
        DemoCase("digits", written, digits.data, digits.labels, 10, 9, labels=digits.labels),
    )


def compile_kernels() -> None:
    """Embed a little data in every dimension the cases use, so that no clock runs while numba compiles."""
    from isoweave import IsometricEmbedding

    rng = np.random.default_rng(_SEED)
    for n_components in (2, 9):
        IsometricEmbedding(n_components=n_components, n_neighbors=10).fit(
            rng.normal(size=(300, n_components))
        )


def run_case(case: DemoCase) -> tuple[DemoResult, ...]:
    """Embed a data set with this package and with Isomap, and score both against the same graph."""
    from sklearn.manifold import Isomap
    from sklearn.neighbors import kneighbors_graph

    from isoweave import IsometricEmbedding

    k, n_components = case.n_neighbors, case.n_components
    directed = sp.csr_array(kneighbors_graph(case.data, k, mode="distance"))
    graph = directed.maximum(directed.T)
    methods = {
        "isoweave": IsometricEmbedding(n_components, n_neighbors=k, random_state=_SEED),
        "Isomap": Isomap(n_components=n_components, n_neighbors=k),
    }
    return tuple(_run(case, graph, name, method) for name, method in methods.items())


def _run(case: DemoCase, graph: sp.csr_array, name: str, method: Any) -> DemoResult:
    started = time.perf_counter()
    embedding: FloatArray = method.fit_transform(case.data)
    seconds = time.perf_counter() - started
    k = case.n_neighbors
    moved = None if case.truth is None else procrustes_error(case.truth, embedding)
    voted = None if case.labels is None else label_scores(case.labels, embedding, n_neighbors=k).accuracy
    f1 = neighborhood_scores(graph, embedding, n_neighbors=k).f1
    return DemoResult(name, embedding, f1, local_distance(graph, embedding), moved, voted, seconds)


def demo_table(results: Sequence[tuple[DemoCase, DemoResult]]) -> ResultTable:
    """The scores as text."""

    def optional(value: float | None, pattern: str) -> str:
        return "" if value is None else format(value, pattern)

    lines = tuple(
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
    )
    head = ("data", "method", "F1", "edge error", "procrustes", "accuracy", "seconds")
    return ResultTable("", (), head, lines)


def draw_case(case: DemoCase, results: Sequence[DemoResult], folder: Path) -> Path:
    """Draw the data, where they are three-dimensional, and the maps of them; return the figure's file."""
    import matplotlib.pyplot as plt

    from isoweave.plot import plot_embedding

    reference = results[0].embedding if case.truth is None else case.truth
    maps = {
        f"{result.method}: F1 {result.f1:.3f}, edge error {result.local_distance:.1%}": aligned(
            result.embedding, reference
        )
        for result in results
    }
    if case.truth is not None:
        maps["truth"] = aligned(case.truth, reference)

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
