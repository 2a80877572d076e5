"""The figures of README.md, docs/plotting.md, docs/report.md and docs/dial.md.

    python benchmarks/doc_figures.py [roads] [plots] [front]

``roads`` needs road_usa78k.npz in the folder ISOWEAVE_DATA: pictures of it are kept here, the data are not.
The page is photographed in a headless Chromium, driven as in the tests. ``front`` is what
``isoweave reproduce front`` draws, from published runs: weights in docs/results/front.csv, other
methods beside it.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import scipy.sparse as sp
from matplotlib.collections import LineCollection
from PIL import Image

from cases import ROOT
from isoweave import IsometricEmbedding, embed_graph
from isoweave._files import atomic_write
from isoweave.datasets import load_road, swiss_roll
from isoweave.experiments import read_runs, save_png
from isoweave.experiments.front import draw_front
from isoweave.geometry import rigid_motion
from isoweave.metrics import procrustes_error
from isoweave.plot import plot_edges, plot_embedding, plot_history, plot_neighborhood, plot_shepard
from isoweave.report import write_report

sys.path.insert(0, str(ROOT / "tests" / "reference"))
FIGURES = ROOT / "docs" / "figures"
RESULTS = ROOT / "docs" / "results"
VERTEX = 700


def main() -> None:
    parts = {"roads": roads, "plots": plots, "front": front}
    for name in sys.argv[1:] or parts:
        parts[name]()


def front() -> None:
    """Over global_weight, with the other methods on the same samples."""
    runs = read_runs([RESULTS / "front.csv"])
    cases = ["experiment", "row", "seed"]
    others = read_runs(RESULTS / f"{name}.csv" for name in runs["experiment"].unique())
    others = others[others["method"].isin(["isomap", "umap", "tsne", "mde"])]
    others = others.merge(runs[cases].drop_duplicates(), on=cases)
    draw_front(pd.concat([runs, others]), FIGURES / "front.svg")


def roads() -> None:
    """The USA from nothing but the lengths of its roads: one figure, and truth turning into map."""
    data = load_road("usa78k")
    truth, graph = data.truth, data.graph
    upper = sp.triu(graph, k=1).tocoo()
    edges = np.column_stack([upper.row, upper.col])
    result = embed_graph(graph, n_components=2)
    turn, shift = rigid_motion(result.coordinates, truth)
    recovered = result.coordinates @ turn + shift
    print(
        f"procrustes {procrustes_error(truth, recovered):.4f}, "
        f"distances correlate at {_correlation(truth, recovered):.4f}"
    )
    hue = np.clip((truth[edges].mean(axis=1) - truth.min(axis=0)) / np.ptp(truth, axis=0), 0.0, 1.0)
    colors = plt.get_cmap("turbo")(0.05 + 0.9 * hue[:, 0])
    colors[:, :3] *= (0.55 + 0.45 * hue[:, 1])[:, None]

    figure, axes = plt.subplots(1, 3, figsize=(13.0, 3.0), layout="constrained", width_ratios=[1, 0.52, 1])
    _draw_roads(axes[0], truth[edges], colors, "the truth")
    _draw_roads(axes[2], recovered[edges], colors, "recovered by isoweave")
    # At one scale, with titles at one height.
    both = np.concatenate([truth, recovered])
    for ax in (axes[0], axes[2]):
        ax.set(
            xlim=(both[:, 0].min(), both[:, 0].max()), ylim=(both[:, 1].min(), both[:, 1].max()), anchor="N"
        )
    rng = np.random.default_rng(5)
    rows = [f"{i:>5} – {j:<5} {d:6.1f}" for (i, j), d in zip(edges, upper.data, strict=True)]
    text = "\n".join(rows[k] for k in rng.choice(len(rows), 11, replace=False))
    axes[1].text(0.5, 0.5, f"{text}\n...", ha="center", va="center", family="monospace", fontsize=9)
    axes[1].set_title(f"all it is given: {len(edges):,} lengths")
    axes[1].axis("off")
    save_png(figure, FIGURES / "usa.png")
    _animate(truth[edges], recovered[edges], colors)


def _correlation(truth: np.ndarray, found: np.ndarray) -> float:
    """Of the distances of 200,000 random pairs."""
    i, j = np.random.default_rng(3).integers(len(truth), size=(2, 200_000))
    return float(np.corrcoef(*(np.linalg.norm(y[i] - y[j], axis=1) for y in (truth, found)))[0, 1])


def _draw_roads(ax: plt.Axes, lines: np.ndarray, colors: np.ndarray, title: str, width: float = 0.35) -> None:
    ax.add_collection(LineCollection(lines, colors=colors, linewidths=width))
    ax.autoscale_view()
    ax.set_aspect("equal")
    ax.axis("off")
    ax.set_title(title)


def _animate(truth: np.ndarray, found: np.ndarray, colors: np.ndarray) -> None:
    """Roads fall apart into pieces, of which only the lengths are known, and come together again."""
    rng = np.random.default_rng(7)
    low, high = truth.min(axis=(0, 1)), truth.max(axis=(0, 1))
    middles = rng.uniform(low, high, size=(len(truth), 2))
    angles = rng.uniform(0, 2 * np.pi, size=len(truth))
    half = 0.5 * np.linalg.norm(truth[:, 1] - truth[:, 0], axis=1)[:, None]
    half = half * np.column_stack([np.cos(angles), np.sin(angles)])
    pieces = np.stack([middles - half, middles + half], axis=1)
    frames: list[tuple[np.ndarray, str, int]] = [(truth, "the truth", 1600)]
    eases = [0.5 - 0.5 * np.cos(np.pi * t) for t in np.linspace(0, 1, 9)[1:-1]]
    frames += [((1 - t) * truth + t * pieces, "", 70) for t in eases]
    frames.append((pieces, f"all that is known: {len(truth):,} lengths, and which roads meet", 1400))
    frames += [((1 - t) * pieces + t * found, "", 70) for t in eases]
    frames.append((found, "recovered by isoweave", 2400))
    pictures = []
    for lines, title, _ in frames:
        figure, ax = plt.subplots(figsize=(7.2, 3.6), dpi=100, layout="constrained")
        _draw_roads(ax, lines, colors, title or " ", 0.4)
        ax.set(xlim=(low[0] - 200, high[0] + 200), ylim=(low[1] - 200, high[1] + 200))
        figure.canvas.draw()
        pictures.append(Image.fromarray(np.asarray(figure.canvas.buffer_rgba())).convert("RGB"))
        plt.close(figure)
    times = [milliseconds for _, _, milliseconds in frames]
    with atomic_write(FIGURES / "usa.webp") as file:
        pictures[0].save(
            file, format="webp", save_all=True, append_images=pictures[1:], duration=times, loop=0, quality=40
        )


def plots() -> None:
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
