"""The network of ParametricIsometry on points it has not seen; writes the tables of docs/parametric.md.

    python benchmarks/parametric.py swiss faces          # prints
    python benchmarks/parametric.py --write              # everything, into docs/parametric.md
    python benchmarks/parametric.py mnist --rows 5000    # a learning curve: of so many rows only
    python benchmarks/parametric.py --beyond --write     # points outside the region of the fit
    python benchmarks/parametric.py --stream 1000000     # a file of so many rows x 50, and the peak of memory

Beside it: `transform` of the map it was trained on, PCA, an autoencoder of the same layers, and, if --umap
names the Python of an environment that has it (it needs tensorflow), ParametricUMAP. A part of every set is
held out (MNIST: its 10,000 test images). Edge error: of the distances from held-out points to their k nearest
points of the fit, and its ratio to that of `transform`; neighbours kept: how many of these are among the k
nearest in the map; Pearson: of the distances from 200 held-out points to all points of the fit with geodesics
of the graph of all points. Time: of 10,000 points at once, on one thread. Needs the extra ``parametric``;
real data are read from the folder that ISOWEAVE_DATA names.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import torch
from scipy.sparse import csgraph
from sklearn.decomposition import PCA
from sklearn.neighbors import NearestNeighbors

from cases import ROOT, markdown_table
from isoweave import Checkpoint, datasets
from isoweave.graph import knn_graph
from isoweave.parametric import ParametricIsometry

PAGE = ROOT / "docs" / "parametric.md"
# Runs in the environment of ParametricUMAP.
UMAP = """
import sys, time
import numpy as np
from umap.parametric_umap import ParametricUMAP
with np.load(sys.argv[1]) as file:
    fitted, others, many, k, n = (file[name] for name in ("fitted", "others", "many", "k", "n"))
start = time.process_time()
model = ParametricUMAP(n_components=int(n), n_neighbors=int(k), random_state=1).fit(fitted)
training = time.process_time() - start
there, placed = model.transform(fitted), model.transform(others)
start = time.process_time()
model.transform(many)
seconds = time.process_time() - start
np.savez(sys.argv[1], there=there, placed=placed, seconds=seconds, training=training)
"""


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
        {"map_samples": 60_000},
    ),
}


def timed(function, *args):
    start = time.process_time()
    value = function(*args)
    return value, time.process_time() - start


def per_point(function, many: np.ndarray, repeats: int = 5) -> float:
    """Microseconds of processor time, the best of a few runs."""
    return 1e6 * min(timed(function, many)[1] for _ in range(repeats)) / len(many)


def parametric_umap(python: str, fitted, others, many, k: int, n_components: int):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.npz"
        np.savez(path, fitted=fitted, others=others, many=many, k=k, n=n_components)
        subprocess.run([python, "-c", UMAP, str(path)], check=True, stdout=subprocess.DEVNULL)
        with np.load(path) as file:
            return (
                file["there"],
                file["placed"],
                1e6 * float(file["seconds"]) / len(many),
                float(file["training"]),
            )


def autoencoder(model: ParametricIsometry, fitted: np.ndarray) -> torch.nn.Module:
    """Reconstruction alone, through a bottleneck of as many coordinates, with the same layers and batches."""
    from isoweave.parametric._network import Standardized, residual_network
    from isoweave.parametric._training import Rows, regress

    n, sizes = fitted.shape[1], model._sizes()
    torch.manual_seed(0)
    encoder = residual_network(n, model.n_components, sizes)
    whole = Standardized(
        torch.nn.Sequential(encoder, residual_network(model.n_components, n, sizes[::-1])), n, n
    )
    whole.adapt(fitted, fitted)
    model.history_ = list(model.history_)
    plan = model._plan(model.max_epochs, 0)
    rows, held = Rows(fitted, plan.device), np.random.default_rng(0).random(len(fitted)) < 0.1
    regress(whole.to(plan.device), rows, rows, held, plan, "autoencoder")
    whole.network = encoder
    whole.offset, whole.spread = torch.zeros(model.n_components), torch.ones(())
    return whole.to(plan.device).eval()


def scores(distances, near, there, placed, geodesics, numbers):
    k = near.shape[1]
    apart = distances > 0
    found = np.linalg.norm(placed[:, None] - there[near], axis=2)
    error = np.mean(np.abs(found - distances)[apart] / distances[apart])
    # Trees are slow in more than a few dimensions.
    search = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(there)
    in_map = search.kneighbors(placed, return_distance=False)
    kept = np.mean([len(np.intersect1d(a, b)) / k for a, b in zip(near, in_map, strict=True)])
    far = np.linalg.norm(placed[numbers][:, None] - there[None], axis=2)
    is_joined = np.isfinite(geodesics)
    return error, kept, np.corrcoef(far[is_joined], geodesics[is_joined])[0, 1]


def rows_of(name: str, args: argparse.Namespace) -> list[list[str]]:
    title, load, k, n_components, options = SETS[name]
    seed = args.seed
    fitted, others = (np.ascontiguousarray(half, dtype=np.float32) for half in load(seed))
    if args.rows:
        fitted = fitted[np.random.default_rng(seed).permutation(len(fitted))[: args.rows]]
        title += f", fit of {len(fitted):,}"
    if args.epochs is not None:
        options = {**options, "max_epochs": args.epochs}
    if args.checkpoint:
        options = {**options, "checkpoint": Checkpoint(f"{args.checkpoint}-{name}", resume=True)}
    model = ParametricIsometry(
        n_components, n_neighbors=k, random_state=seed, n_jobs=args.jobs, device=args.device, **options
    )
    _, training = timed(model.fit, fitted)
    network, of_autoencoder = timed(autoencoder, model, fitted)
    # Times per point are those of one thread, wherever training was.
    model.set_params(n_jobs=1, device="cpu")
    model.map_.set_params(n_jobs=1)
    both = np.vstack([others, fitted])
    numbers = np.random.default_rng(seed).choice(len(others), min(200, len(others)), replace=False)
    graph = knn_graph(both, k, n_jobs=args.jobs, random_state=seed).to_matrix()
    geodesics = csgraph.dijkstra(graph, directed=False, indices=numbers)[:, len(others) :]
    many = np.resize(others, (10_000, others.shape[1]))
    made = model.map_
    made.transform(others[:100])
    time_of_map = per_point(made.transform, many, 1)
    results = [
        ("`transform` of the map", np.asarray(made.embedding_), made.transform(others), time_of_map, None)
    ]

    def add(method, transform, cost=None):
        results.append((method, transform(fitted), transform(others), per_point(transform, many), cost))

    add("ParametricIsometry", model.transform, training)
    if args.umap:
        there, placed, micro, cost = parametric_umap(args.umap, fitted, others, many, k, n_components)
        results.append(("ParametricUMAP", there, placed, micro, cost))
    add("PCA", PCA(n_components).fit(fitted).transform)
    add("autoencoder", lambda rows: model._passed(network, rows, n_components), of_autoencoder)
    near = NearestNeighbors(n_neighbors=k).fit(fitted).kneighbors(others)
    lines = []
    for method, there, at, micro, cost in results:
        error, kept, pearson = scores(*near, there, at, geodesics, numbers)
        if not lines:
            reference = error
        cells = [f"{error:.4f}", f"{error / reference:.2f}", f"{kept:.3f}", f"{pearson:.4f}", f"{micro:.3g}"]
        cells += [f"{time_of_map / micro:.0f}", "" if cost is None else f"{cost:.0f}"]
        lines.append([title if not lines else "", method, *cells])
        print(name, seed, *lines[-1][1:], flush=True)
    return lines


def beyond(args: argparse.Namespace) -> list[list[str]]:
    """A swiss roll without its last fifth: points of the fit's region, and farther and farther from it."""
    roll = datasets.swiss_roll(5000, random_state=args.seed)
    data, truth = roll.data.astype(np.float32), roll.truth
    past = truth[:, 0] - np.quantile(truth[:, 0], 0.8)
    is_fitted = (past < 0) & (np.random.default_rng(args.seed).random(len(past)) > 0.15)
    options = {} if args.epochs is None else {"max_epochs": args.epochs}
    model = ParametricIsometry(2, random_state=args.seed, n_jobs=args.jobs, device=args.device, **options)
    model.fit(data[is_fitted])
    search = NearestNeighbors(n_neighbors=10).fit(truth[is_fitted])
    edge = float(np.median(search.kneighbors(truth[is_fitted])[0][:, 1:]))
    lines = []
    for low, high in ((-np.inf, 0), (0, 1), (1, 2), (2, 4), (4, 8), (8, 16)):
        chosen = ~is_fitted & (past >= low * edge) & (past < high * edge)
        distances, near = search.kneighbors(truth[chosen])
        cells = ["in the region" if high == 0 else f"{low} to {high} edges outside", str(chosen.sum())]
        for there, placed in (
            (model.map_.embedding_, model.map_.transform(data[chosen])),
            (model.transform(data[is_fitted]), model.transform(data[chosen])),
        ):
            found = np.linalg.norm(placed[:, None] - there[near], axis=2)
            cells.append(f"{np.mean(np.abs(found - distances) / distances):.4f}")
        lines.append(cells)
    return lines


def write(mark: str, table: list[str]) -> None:
    """Into the page, between the mark and the next end."""
    before, rest = PAGE.read_text(encoding="utf-8").split(f"<!-- {mark} -->\n")
    after = rest.split("<!-- end -->", 1)[1]
    text = f"{before}<!-- {mark} -->\n" + "\n".join(table) + f"\n<!-- end -->{after}"
    PAGE.write_text(text, encoding="utf-8")


def stream(n: int, epochs: int | None, n_features: int = 50) -> None:
    """A memory-mapped file of a curved sheet with noise in many dimensions, written and read in pieces."""
    rng = np.random.default_rng(1)
    waves, phases = rng.normal(size=(3, n_features)), rng.uniform(0, 6, n_features)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows"
        rows = np.memmap(path, dtype=np.float32, mode="w+", shape=(n, n_features))
        for at in range(0, n, 50_000):
            part = rng.uniform(-1, 1, (min(50_000, n - at), 3))
            rows[at : at + 50_000] = np.sin(part @ waves + phases) + 0.01 * rng.normal(
                size=(len(part), n_features)
            )
        del rows
        rows = np.memmap(path, dtype=np.float32, mode="r", shape=(n, n_features))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        start = time.perf_counter()
        model = ParametricIsometry(3, random_state=1, map_samples=20_000, device="cpu", verbose=1)
        model.set_params(**({} if epochs is None else {"max_epochs": epochs}))
        _, training = timed(model.fit, rows)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        wall = time.perf_counter() - start
        score = model.score(rows[:20_000])
        print(
            f"{n:,} x {n_features}, {path.stat().st_size / 1e6:.0f} MB: {training:.0f} CPU s, {wall:.0f} s, "
            f"peak {peak / 1e3:.0f} MB (before the fit {before / 1e3:.0f} MB), edge error {-score:.4f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", choices=[*SETS, []], default=[])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--rows", type=int, help="fit so many rows only")
    parser.add_argument("--umap", help="a Python that has ParametricUMAP")
    parser.add_argument("--checkpoint", help="keep maps and trainings in such files, and go on with them")
    parser.add_argument("--jobs", type=int, default=1, help="threads of the fit")
    parser.add_argument("--device", default="cpu", help="where the network is trained")
    parser.add_argument("--stream", type=int, help="so many rows from a file")
    parser.add_argument("--beyond", action="store_true", help="outside the region of the fit")
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    if args.stream:
        stream(args.stream, args.epochs)
        return
    torch.set_num_threads(1)
    if args.beyond:
        head = ["points", "number", "edge error of `transform`", "edge error of the network"]
        table = list(markdown_table(head, beyond(args)))
        if args.write:
            write("beyond", table)
        print("\n".join(table))
        return
    head = ["data", "", "edge error", "ratio", "neighbours kept", "Pearson", "µs per point", "times faster"]
    head.append("CPU s of the fit")
    lines: list[list[str]] = []
    for name in args.names or SETS:
        lines += rows_of(name, args)
        if args.write:
            write("table", markdown_table(head, lines))
    print("\n".join(markdown_table(head, lines)))


if __name__ == "__main__":
    main()
