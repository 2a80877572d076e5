"""The floors that the defaults must reach: writes docs/quality.md from the runs of ``isoweave reproduce``.

    isoweave reproduce all --methods default --out results -j 2
    python benchmarks/publish_results.py results docs/results
    python benchmarks/quality.py --fresh -j 2   # the same data sets, from seeds not looked at before
    python benchmarks/quality.py                # the page

Fresh runs are kept in build/benchmarks/fresh, not repeated unless the code has changed, and published as
docs/results/fresh.csv.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.sparse as sp

from cases import RECORDS, ROOT, markdown_table
from isoweave import embed_graph
from isoweave.experiments import (
    EXPERIMENTS,
    FULL,
    Records,
    plan_tasks,
    read_runs,
    run_experiments,
    runs_frame,
)
from isoweave.metrics import procrustes_error

RESULTS = ROOT / "docs" / "results"
FRESH = RESULTS / "fresh.csv"
# Added to the seeds of the tables: 701 to 715.
LATER = 200

# Of every data set the measures, each with its first floor and the one of today, where that is higher. Lower
# is better of errors and stress.
FLOORS: dict[tuple[str, str], dict[str, tuple[float, ...]]] = {
    ("swiss", "k10"): {"f1": (0.98, 0.995), "local_distance": (0.03,), "procrustes_error": (2e-4,)},
    ("swiss", "k6"): {"f1": (0.96,), "procrustes_error": (2e-3,)},
    ("swiss", "k16"): {"procrustes_error": (1e-3,)},
    ("swiss", "k20"): {"procrustes_error": (1e-3,)},
    ("klein", "k8"): {"f1": (0.95, 0.965), "pearson": (0.98, 0.988), "global_stress": (0.18,)},
    ("torus", "k10"): {"f1": (0.85, 0.86), "pearson": (0.82, 0.91), "global_stress": (0.36,)},
    ("difficult", "k14"): {"f1": (0.92,), "parameter_error": (0.045,), "pearson": (0.978,)},
    ("mnist", "groups"): {
        "f1": (0.86, 0.865),
        "local_distance": (0.15, 0.13),
        "pearson": (0.88, 0.92),
        "accuracy": (0.86, 0.865),
    },
    ("rnaseq", "tcga"): {
        "f1": (0.94, 0.95),
        "local_distance": (0.11,),
        "pearson": (0.94, 0.975),
        "accuracy": (0.85,),
    },
    ("graphs", "faces"): {"f1": (0.92, 0.93), "parameter_error": (0.065, 0.06), "pearson": (0.985,)},
}
# Graphs with shortcuts, where the floor is for every seed.
EVERY_SEED = {("swiss", "k16"), ("swiss", "k20")}
TITLES = {
    "f1": "F1",
    "local_distance": "edge error",
    "procrustes_error": "procrustes",
    "parameter_error": "parameter error",
    "pearson": "Pearson",
    "global_stress": "stress",
    "accuracy": "accuracy",
}
UPPER = ("f1", "pearson", "accuracy")

HEAD = """# Quality

Written by `benchmarks/quality.py`; do not edit by hand. What the defaults must reach: means over the 15
samples of 1,500 points, ten groups of MNIST or the single sets of [the results](results/README.md), where
every method, the paper's among them, has its tables. "First" are the floors that the first version was built
against, "today" those that came with `global_weight` and `refine="auto"`. Fresh samples: seeds 701 to 715.
Floors of roads and flat outlines, and more samples of the torus: [the dial](dial.md#floors).

F1: neighbourhoods kept. Edge error: mean relative error of edge lengths. Procrustes: residual of the
best rigid motion onto the truth, over its variance. Parameter error: the same for the best affine map
onto the parameters (faces: pose). Pearson and stress: against shortest paths in the graph (swiss rolls from
k = 16: true distances). Accuracy: vote of the k nearest in the map.
"""


def scores(runs: pd.DataFrame, key: tuple[str, str], metric: str, method: str) -> np.ndarray:
    """Of every seed."""
    if metric not in runs:
        return np.empty(0)
    at = (runs["experiment"] == key[0]) & (runs["row"] == key[1]) & (runs["method"] == method)
    return runs.loc[at & (runs["scale"] == FULL.name), metric].dropna().to_numpy()


def reached(values: np.ndarray, metric: str, key: tuple[str, str]) -> float:
    return float(values.max() if key in EVERY_SEED else values.mean())


def show(value: float, metric: str) -> str:
    return f"{value:.1e}" if metric == "procrustes_error" else f"{value:.4f}"


def floor_rows(published: pd.DataFrame, fresh: pd.DataFrame) -> Iterable[tuple[str, ...]]:
    for key, floors in FLOORS.items():
        experiment = EXPERIMENTS[key[0]]
        row = next(row for row in experiment.rows if row.name == key[1])
        for metric, limits in floors.items():
            sign = "≥" if metric in UPPER else "≤"
            shown = [f"{limit:.0e}" if metric == "procrustes_error" else f"{limit:g}" for limit in limits]
            every = ", every seed" if key in EVERY_SEED else ""
            cells = [f"{experiment.title.partition(',')[0]}, {row.title}", f"{TITLES[metric]} {sign}{every}"]
            cells += [shown[0], shown[1] if len(shown) > 1 else ""]
            for runs in (published, fresh):
                values = scores(runs, key, metric, "default")
                if not len(values):
                    cells += ["", ""]
                    continue
                value = reached(values, metric, key)
                good = [value >= limit if metric in UPPER else value <= limit for limit in limits]
                cells += [show(value, metric), "pass" if all(good) else "**FAIL**"]
            other = scores(published, key, metric, "isomap")
            cells.append(show(reached(other, metric, key), metric) if len(other) else "")
            yield tuple(cells)


def exact_recovery() -> float:
    """Worst procrustes error over complete graphs of exact distances, five for each N = 1 .. 10."""
    worst = 0.0
    for n_components in range(1, 11):
        for seed in range(21, 26):
            truth = np.random.default_rng(seed).normal(size=(60, n_components))
            lengths = np.linalg.norm(truth[:, None] - truth, axis=2)
            found = embed_graph(sp.csr_array(lengths), n_components, n_jobs=1)
            worst = max(worst, procrustes_error(truth, found.coordinates))
    return worst


def page() -> str:
    """The whole of docs/quality.md."""
    names = {experiment for experiment, _ in FLOORS}
    published = read_runs(path for name in names if (path := RESULTS / f"{name}.csv").exists())
    head = ("data", "", "first", "today", "reached", "", "fresh samples", "", "Isomap")
    fresh = read_runs([FRESH])
    lines = [HEAD, *markdown_table(head, floor_rows(published, fresh))]
    worst = exact_recovery()
    verdict = "pass" if worst <= 1e-20 else "**FAIL**"
    title = "Complete graphs of exact distances, N = 1 .. 10"
    lines.append(f"| {title} | procrustes ≤, every seed | 1e-20 | | {worst:.1e} | {verdict} | | | |")
    return "\n".join(lines) + "\n"


def run_fresh(n_jobs: int) -> None:
    """The defaults on the same data sets from later seeds; real data have no others."""
    tasks, _ = plan_tasks(list({name for name, _ in FLOORS}), ["default"])
    synthetic = {"swiss", "klein", "torus", "difficult"}
    later = [t._replace(seed=t.seed + LATER) for t in tasks if t[:2] in FLOORS and t.experiment in synthetic]
    records = Records(RECORDS / "fresh" / "records.jsonl")
    run_experiments(later, records, n_jobs=n_jobs)
    FRESH.write_text(runs_frame(records.values()).to_csv(index=False, lineterminator="\n"), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--fresh", action="store_true", help="run the later seeds")
    parser.add_argument("-j", "--n-jobs", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.fresh:
        run_fresh(arguments.n_jobs)
        return
    Path(ROOT / "docs" / "quality.md").write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
