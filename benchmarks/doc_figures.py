"""The figures of docs/plotting.md and docs/report.md.

    python benchmarks/doc_figures.py

The page is photographed in a headless Chromium, driven as in the tests.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from cases import ROOT
from isoweave import IsometricEmbedding
from isoweave._files import atomic_write
from isoweave.datasets import swiss_roll
from isoweave.experiments import save_png
from isoweave.plot import plot_edges, plot_embedding, plot_history, plot_neighborhood, plot_shepard
from isoweave.report import write_report

sys.path.insert(0, str(ROOT / "tests" / "reference"))
FIGURES = ROOT / "docs" / "figures"
VERTEX = 700


def main() -> None:
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
