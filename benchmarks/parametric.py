"""The network of ParametricIsometry on points it has not seen; writes the table of docs/parametric.md.

    python benchmarks/parametric.py swiss faces          # prints
    python benchmarks/parametric.py --write              # everything, into docs/parametric.md

Beside it: `transform` of the map it was trained on, PCA, an autoencoder of the same layers. A part of every
set is held out (MNIST: its 10,000 test images). Edge error: of the distances from held-out points to their k
nearest points of the fit; neighbours kept: how many of these are among the k nearest in the map; Pearson: of
the distances from 200 held-out points to all points of the fit with geodesics of the graph of all points.
Needs the extra ``parametric``; real data are read from the folder that ISOWEAVE_DATA names.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import torch
from scipy.sparse import csgraph
from sklearn.decomposition import PCA
from sklearn.neighbors import NearestNeighbors, kneighbors_graph

from cases import ROOT, markdown_table
from isoweave import datasets
from isoweave.parametric import ParametricIsometry

PAGE = ROOT / "docs" / "parametric.md"


def halves(data: np.ndarray, seed: int, share: float = 0.15) -> tuple[np.ndarray, np.ndarray]:
    order = np.random.default_rng(seed).permutation(len(data))
    n = int(share * len(data))
    return data[order[n:]], data[order[:n]]


def cells() -> np.ndarray:
    """Blood cells: 50 principal components of the standardised genes, as scanpy would have them."""
    with np.load(Path(os.environ["ISOWEAVE_DATA"]) / "pbmc3k.npz") as file:
        parts = (file["data"], file["indices"].astype(np.int32), file["indptr"])
        counts = sp.csr_array(parts, shape=tuple(file["shape"])).toarray()
    spread = counts.std(axis=0)
    scaled = np.clip((counts - counts.mean(axis=0)) / np.where(spread > 0, spread, 1.0), -10, 10)
    return PCA(50, random_state=0).fit_transform(scaled)


# Name: title, points of the fit and others, n_neighbors, n_components, parameters.
SETS = {
    "swiss": (
        "swiss roll, 5,000",
        lambda seed: halves(datasets.swiss_roll(5000, random_state=seed).data, seed),
        10,
        2,
        {},
    ),
    "faces": ("faces, 698", lambda seed: halves(datasets.load_faces().data, seed), 8, 3, {}),
    "cells": ("pbmc3k, 50 components", lambda seed: halves(cells(), seed), 15, 10, {}),
    "digits": (
        "digits of scikit-learn, 1,797",
        lambda seed: halves(datasets.load_digits().data, seed),
        12,
        8,
        {},
    ),
    "mnist": (
        "MNIST, 60,000 and 10,000",
        lambda seed: (datasets.load_mnist("train").data, datasets.load_mnist("test").data),
        15,
        13,
        {"hidden_layer_sizes": (512, 512, 512, 512), "batch_size": 512, "map_samples": 60_000},
    ),
}


def timed(function, *args):
    start = time.process_time()
    value = function(*args)
    return value, time.process_time() - start


def autoencoder(model: ParametricIsometry, fitted: np.ndarray) -> torch.nn.Module:
    """Reconstruction alone, through a bottleneck of as many coordinates, with the same layers and batches."""
    from isoweave.parametric._network import Standardized, residual_network
    from isoweave.parametric._training import Rows, regress

    n, sizes = fitted.shape[1], model.hidden_layer_sizes
    torch.manual_seed(0)
    encoder = residual_network(n, model.n_components, sizes)
    whole = Standardized(
        torch.nn.Sequential(encoder, residual_network(model.n_components, n, sizes[::-1])), n, n
    )
    whole.adapt(fitted, fitted)
    plan = model._plan(model.max_epochs, 0)
    rows, held = Rows(fitted, plan.device), np.random.default_rng(0).random(len(fitted)) < 0.1
    regress(whole.to(plan.device), rows, rows, held, plan, "autoencoder")
    whole.network = encoder
    whole.offset, whole.spread = torch.zeros(model.n_components), torch.ones(())
    return whole.to(plan.device).eval()


def scores(fitted, others, k, there, placed, geodesics, numbers):
    distances, near = NearestNeighbors(n_neighbors=k).fit(fitted).kneighbors(others)
    apart = distances > 0
    found = np.linalg.norm(placed[:, None] - there[near], axis=2)
    error = np.mean(np.abs(found - distances)[apart] / distances[apart])
    in_map = NearestNeighbors(n_neighbors=k).fit(there).kneighbors(placed, return_distance=False)
    kept = np.mean([len(np.intersect1d(a, b)) / k for a, b in zip(near, in_map, strict=True)])
    far = np.linalg.norm(placed[numbers][:, None] - there[None], axis=2)
    is_joined = np.isfinite(geodesics)
    return error, kept, np.corrcoef(far[is_joined], geodesics[is_joined])[0, 1]


def rows_of(name: str, seed: int, epochs: int | None) -> list[list[str]]:
    title, load, k, n_components, options = SETS[name]
    fitted, others = (np.ascontiguousarray(half, dtype=np.float32) for half in load(seed))
    if epochs is not None:
        options = {**options, "max_epochs": epochs}
    model = ParametricIsometry(n_components, n_neighbors=k, random_state=seed, **options)
    _, training = timed(model.fit, fitted)
    both = np.vstack([others, fitted])
    numbers = np.random.default_rng(seed).choice(len(others), min(200, len(others)), replace=False)
    graph = kneighbors_graph(both, k, mode="distance")
    geodesics = csgraph.dijkstra(graph, directed=False, indices=numbers)[:, len(others) :]
    results = []
    made = model.map_
    made.transform(others[:100])
    placed, seconds = timed(made.transform, others)
    results.append(("`transform` of the map", np.asarray(made.embedding_), placed, seconds))
    model.transform(others)
    placed, seconds = timed(model.transform, others)
    results.append(("ParametricIsometry", model.transform(fitted), placed, seconds))
    pca = PCA(n_components).fit(fitted)
    placed, seconds = timed(pca.transform, others)
    results.append(("PCA", pca.transform(fitted), placed, seconds))
    network = autoencoder(model, fitted)
    placed, seconds = timed(model._passed, network, others, 65536)
    results.append(("autoencoder", model._passed(network, fitted, 65536), placed, seconds))
    lines = []
    for method, there, at, seconds in results:
        error, kept, pearson = scores(fitted, others, k, there, at, geodesics, numbers)
        cost = f"{training:.0f}" if method == "ParametricIsometry" else ""
        first = title if not lines else ""
        micro = f"{1e6 * seconds / len(others):.3g}"
        lines.append([first, method, f"{error:.4f}", f"{kept:.3f}", f"{pearson:.4f}", micro, cost])
        print(name, seed, *lines[-1][1:], flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", choices=[*SETS, []], default=[])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    lines = [line for name in args.names or SETS for line in rows_of(name, args.seed, args.epochs)]
    head = ["data", "", "edge error", "neighbours kept", "Pearson", "µs per point", "CPU s of the fit"]
    table = "\n".join(markdown_table(head, lines))
    print(table)
    if args.write:
        text = PAGE.read_text(encoding="utf-8")
        before, rest = text.split("<!-- table -->\n")
        after = rest.split("<!-- end -->")[1]
        PAGE.write_text(f"{before}<!-- table -->\n{table}\n<!-- end -->{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
