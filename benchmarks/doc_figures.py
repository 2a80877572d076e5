"""The figures of README.md, docs/plotting.md and docs/report.md.

    python benchmarks/doc_figures.py

The page is photographed in a headless Chromium, driven as in the tests.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.manifold import Isomap

from cases import ROOT
from isoweave import IsometricEmbedding
from isoweave._files import atomic_write
from isoweave.datasets import swiss_roll
from isoweave.experiments import aligned, save_png
from isoweave.graph import knn_graph
from isoweave.metrics import evaluate
from isoweave.plot import plot_edges, plot_embedding, plot_history, plot_neighborhood, plot_shepard
from isoweave.report import write_report

sys.path.insert(0, str(ROOT / "tests" / "reference"))
FIGURES = ROOT / "docs" / "figures"
VERTEX = 700


def draw_roll() -> None:
    """The swiss roll and its maps, at one scale: how large a map is belongs to what is compared."""
    roll = swiss_roll(1500, random_state=7)
    graph, color = knn_graph(roll.data, 10), roll.truth[:, 0]
    methods = {
        "isoweave": IsometricEmbedding(n_neighbors=10, random_state=7),
        "Isomap": Isomap(n_neighbors=10),
    }
    maps = {}
    for name, method in methods.items():
        points = method.fit_transform(roll.data)
        scores = evaluate(graph, points, n_neighbors=10, ranks=False)
        maps["{}: F1 {f1:.3f}, edge error {local_distance:.1%}".format(name, **scores)] = points
    figure = plt.figure(figsize=(11.0, 5.5), layout="constrained")
    grid, first = figure.add_gridspec(3, 3), None
    for at, (title, points) in enumerate((maps | {"truth": roll.truth}).items()):
        axes = figure.add_subplot(grid[at, 1:], sharex=first, sharey=first)
        plot_embedding(aligned(points, roll.truth), color, axes, title=title, size=7)
        axes.set(xticks=[], yticks=[])
        first = first or axes
    axes = figure.add_subplot(grid[:, 0], projection="3d")
    plot_embedding(roll.data, color, axes, title="data", size=7)
    axes.view_init(elev=8, azim=-75)
    axes.set_box_aspect(np.ptp(roll.data, axis=0), zoom=1.5)
    axes.set_axis_off()
    figure.suptitle("Swiss roll, 1500 points")
    save_png(figure, FIGURES / "swiss_roll.png")


def main() -> None:
    draw_roll()
    roll = swiss_roll(1500, random_state=7)
    model = IsometricEmbedding(n_neighbors=8).fit(roll.data)

    figure, axes = plt.subplots(2, 2, figsize=(9.5, 5.6), layout="constrained")
    plot_embedding(model, "stretch", axes[0, 0], size=4, title='plot_embedding(model, "stretch")')
    plot_edges(model, axes[0, 1])
    axes[0, 1].set_title("plot_edges(model)")
    plot_shepard(model, axes[1, 0])
    plot_history(model, axes[1, 1])
    axes[1, 1].set_title("plot_history(model)")
    save_png(figure, FIGURES / "plotting.png")

    before, _ = plot_neighborhood(model, VERTEX)
    before.figure.set_size_inches(7.5, 3.4)
    save_png(before.figure, FIGURES / "neighborhood.png")

    from headless import Browser

    with tempfile.TemporaryDirectory() as folder:
        columns = {"position": roll.truth[:, 0], "half": np.where(roll.truth[:, 1] > 10, "upper", "lower")}
        path = Path(folder, "roll.html")
        write_report(model, path, columns=columns, title="Swiss roll, 1,500 points")
        browser = Browser(Path(folder, "profile"), size=(1280, 900))
        try:
            browser.open(path.as_uri())
            browser.evaluate(f"isoweaveReport.pick({VERTEX})")
            picture = browser.screenshot()
        finally:
            browser.close()
    picture = picture.resize((900, 633)).quantize(128)
    with atomic_write(FIGURES / "report.png") as file:
        picture.save(file, format="png", optimize=True)


if __name__ == "__main__":
    main()
