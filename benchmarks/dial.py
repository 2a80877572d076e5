"""The dial from local to global: every data set at several values of global_weight, against Isomap.

``python benchmarks/dial.py klein torus --seeds 15`` prints a Markdown table of means: F1, edge error,
Pearson, Spearman, stress at the best scale, parameter error, accuracy. ``--weights 100 "100 keep" isomap``:
"keep" is ``shortcuts="keep"``. With ``--lines FILE`` every map has a line of JSON there, and is not made
again; ``-j`` maps are made at a time, each on one thread.

Data sets are rows of the experiments (``graphs:faces`` is a row by name), roads, surfaces (camelhead: a disk
of 3,000 vertices around one of them; bunny: 3,000 of its vertices with their 8 nearest, N = 3) and coil20 (8
nearest, N = 5; the components of its graph are joined by the shortest edges between them). The real ones need
ISOWEAVE_DATA.
"""

from __future__ import annotations

import argparse
import json
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from itertools import product
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from scipy.stats import rankdata
from threadpoolctl import threadpool_limits

from isoweave import datasets, embed_graph
from isoweave._files import append_text
from isoweave.datasets import Dataset
from isoweave.datasets._loaders import load_arrays
from isoweave.experiments import EXPERIMENTS, Request
from isoweave.experiments._problems import DataProblem, Setting, camelhead, from_features
from isoweave.experiments._run import score
from isoweave.experiments.baselines import run_baseline
from isoweave.graph import graph_from_matrix

METRICS = (
    "f1",
    "local_distance",
    "pearson",
    "spearman",
    "stress",
    "procrustes_error",
    "parameter_error",
    "accuracy",
)
FIRST_SEED = 601
N_SURFACE = 3_000


def road(request, name):
    roads = datasets.load_road(name)
    return DataProblem(graph_from_matrix(roads.graph), 2, 2, parameters=roads.truth)


def bunny(request):
    places = datasets.load_mesh("bunny").truth
    chosen = np.random.default_rng(7).choice(len(places), N_SURFACE, replace=False)
    return from_features(Dataset("bunny", places[np.sort(chosen)]), 8, 3)


def coil20(request):
    arrays = load_arrays("coil20_32.npz", ("X", "y"))
    images = arrays["X"].reshape(len(arrays["X"]), -1) / 255.0
    return from_features(Dataset("coil20", images, labels=arrays["y"]), 8, 5)


OTHERS = {
    "oldenburg": partial(road, name="oldenburg"),
    "helsinki": partial(road, name="helsinki_osm"),
    "camelhead": lambda request: camelhead(Request(0, N_SURFACE)),
    "bunny": bunny,
    "coil20": coil20,
}


def setting_of(name):
    """One data set, or a row of the experiments by its name."""
    if name in OTHERS:
        return Setting(name, name, OTHERS[name], (0,))
    experiment, _, row = name.partition(":")
    return next(s for s in EXPERIMENTS[experiment].rows if row in ("", s.name))


def far_scores(graph, embedding, n_rows=200):
    """Spearman and the stress at the best scale, over geodesics of 200 vertices."""
    from isoweave.graph import geodesics, graph_from_matrix

    rows = np.random.default_rng(0).choice(len(embedding), min(n_rows, len(embedding)), replace=False)
    g = geodesics(graph_from_matrix(graph), rows).ravel()
    d = np.linalg.norm(embedding[rows, None] - embedding, axis=-1).ravel()
    cosine = np.sum(d * g) / np.sqrt(np.sum(d * d) * np.sum(g * g))
    return np.corrcoef(rankdata(d), rankdata(g))[0, 1], np.sqrt(max(0.0, 1.0 - cosine**2))


def seeds_of(name, first, most):
    """Groups and single data sets have seeds of their own; samplings get fresh ones."""
    own = setting_of(name).seeds
    return list(own if own[0] == 0 else range(first, first + most))[:most]


def score_map(name, seed, weight):
    """The weight taken, the relative energy and the metrics of one map."""
    warnings.simplefilter("ignore")
    problem = setting_of(name).load(Request(seed))
    facts = [np.nan, np.nan]
    if weight == "isomap":
        y = run_baseline("isomap", problem.graph, problem.n_components, n_neighbors=problem.n_neighbors)
    else:
        value, _, shortcuts = weight.partition(" ")
        options = {"global_weight": value if value == "auto" else float(value), "n_jobs": 1}
        with threadpool_limits(1):
            result = embed_graph(
                problem.graph, problem.n_components, shortcuts=shortcuts or "auto", **options
            )
        y, facts = result.coordinates, [result.global_weight, result.relative_energy]
    scores = score(problem, y)
    scores["spearman"], scores["stress"] = far_scores(problem.scored_graph, y)
    return [*facts, *(scores.get(metric, np.nan) for metric in METRICS)]


def read_lines(path):
    """Scores by data set, seed and weight."""
    lines = path.read_text(encoding="utf-8").splitlines() if path and path.exists() else []
    return {tuple(case): values for case, values in map(json.loads, lines)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="+")
    parser.add_argument("--seeds", type=int, default=15)
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED)
    parser.add_argument("--weights", nargs="+", default=["0", "auto", "1", "10", "isomap"])
    parser.add_argument("--lines", type=Path, metavar="FILE")
    parser.add_argument("-j", "--n-jobs", type=int, default=1)
    given = parser.parse_args()
    seeds = {name: seeds_of(name, given.first_seed, given.seeds) for name in given.names}
    found = read_lines(given.lines)
    cases = [(name, seed, weight) for name in seeds for weight in given.weights for seed in seeds[name]]
    left = [case for case in cases if case not in found]
    if left:
        # A forked child of a process that has threads may hang.
        with ProcessPoolExecutor(given.n_jobs, mp_context=get_context("spawn")) as pool:
            futures = {pool.submit(score_map, *case): case for case in left}
            for future in as_completed(futures):
                case = futures[future]
                found[case] = future.result()
                if given.lines:
                    append_text(given.lines, json.dumps([case, found[case]]) + "\n")
    print("| data | weight | chosen | relative energy | " + " | ".join(METRICS) + " |")
    print("|" + "---|" * (4 + len(METRICS)))
    for name, weight in product(seeds, given.weights):
        means = np.mean([found[name, seed, weight] for seed in seeds[name]], axis=0)
        small = [k < 2 or abs(v) < 1e-3 for k, v in enumerate(means)]
        shown = [
            "" if np.isnan(v) else f"{v:.2g}" if s else f"{v:.4f}" for v, s in zip(means, small, strict=True)
        ]
        print(f"| {name}, {len(seeds[name])} | {weight} | " + " | ".join(shown) + " |")


if __name__ == "__main__":
    main()
