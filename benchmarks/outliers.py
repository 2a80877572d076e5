"""Distances that are wrong by factors of 10 or 1/10: the default beside ``loss="robust"``.

    python benchmarks/outliers.py

Prints the table of docs/choosing.md: procrustes errors, the largest of the seeds, for a flat square and a
swiss roll of 1,500 points, k = 10.
"""

from __future__ import annotations

import argparse

import numpy as np
import scipy.sparse as sp

from isoweave import embed_graph
from isoweave.datasets import swiss_roll
from isoweave.graph import knn_graph
from isoweave.metrics import procrustes_error

N, K = 1500, 10
SHARES = (0.01, 0.03, 0.1, 0.3)
FACTORS = {"too long": (10.0,), "either": (10.0, 0.1)}


def points_of(kind: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Points and the flat truth."""
    if kind == "roll":
        roll = swiss_roll(N, random_state=seed)
        return roll.data, roll.truth
    square = np.random.default_rng(seed).random((N, 2))
    return square, square


def spoiled(points: np.ndarray, share: float, factors: tuple[float, ...], seed: int) -> sp.csr_array:
    """The graph of nearest neighbours with this share of its distances multiplied."""
    rng = np.random.default_rng(seed)
    upper = sp.coo_array(sp.triu(knn_graph(points, K, n_jobs=1).to_matrix()))
    wrong = rng.random(upper.nnz) < share
    upper.data = upper.data * np.where(wrong, rng.choice(factors, upper.nnz), 1.0)
    half = sp.csr_array(upper)
    return sp.csr_array(half + half.T)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--shares", type=float, nargs="+", default=SHARES)
    given = parser.parse_args()
    seeds = range(1, 1 + given.seeds)
    print('| wrong | square | `loss="robust"` | roll | `loss="robust"` |\n|---|---|---|---|---|')
    for label, factors in FACTORS.items():
        for share in given.shares:
            cells = []
            for kind in ("square", "roll"):
                for loss in ("squares", "robust"):
                    errors = []
                    for seed in seeds:
                        points, truth = points_of(kind, seed)
                        graph = spoiled(points, share, factors, seed)
                        found = embed_graph(graph, 2, loss=loss, n_jobs=1)
                        errors.append(procrustes_error(truth, found.coordinates))
                    cells.append(f"{max(errors):.0e}")
            print(f"| {share:.0%}, {label} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
