"""Flat data that are not convex: procrustes error of the default beside that of ``global_weight=0``.

``python benchmarks/outlines.py --seeds 3`` prints the table of docs/dial.md, the worst of the seeds. 1,500
points uniform in a C strip, a maze with walls and a square with a large hole (as in choices.md), and around
the curve (t, tan t).
"""

from __future__ import annotations

import argparse

import numpy as np

from filter_and_starts import OUTLINE_SEEDS, outline_points
from isoweave import embed_graph
from isoweave.graph import knn_graph
from isoweave.metrics import procrustes_error

NEIGHBORS = (8, 10, 15)


def tangent_strip(seed: int, n: int = 1500) -> np.ndarray:
    """Within .25 of the curve (t, tan t), |t| < 1.2: two long arms that a short bend joins."""
    rng = np.random.default_rng(seed)
    t = np.linspace(-1.2, 1.2, 4001)
    curve = np.column_stack([t, np.tan(t)])
    along = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(curve, axis=0), axis=1))])
    at = np.interp(rng.uniform(0.0, along[-1], n), along, t)
    normal = np.column_stack([-1.0 / np.cos(at) ** 2, np.ones(n)])
    normal /= np.linalg.norm(normal, axis=1, keepdims=True)
    return np.column_stack([at, np.tan(at)]) + rng.uniform(-0.25, 0.25, (n, 1)) * normal


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    seeds = OUTLINE_SEEDS[: parser.parse_args().seeds]
    print("| outline | k | weight | procrustes | with 0 |\n|---|---|---|---|---|")
    for kind in ("C", "maze", "frame", "tangent"):
        for k in NEIGHBORS:
            found = []
            for seed in seeds:
                points = tangent_strip(seed) if kind == "tangent" else outline_points(kind, seed)
                matrix = knn_graph(points, k, n_jobs=1).to_matrix()
                default = embed_graph(matrix, 2, n_jobs=1)
                error = procrustes_error(points, default.coordinates)
                local = error
                # Without a weight, "auto" has the bits of 0.
                if default.global_weight:
                    local = embed_graph(matrix, 2, global_weight=0, n_jobs=1).coordinates
                    local = procrustes_error(points, local)
                found.append((default.global_weight, error, local))
            weight, error, local = np.max(found, axis=0)
            print(f"| {kind} | {k} | {weight:.2g} | {error:.1e} | {local:.1e} |", flush=True)


if __name__ == "__main__":
    main()
