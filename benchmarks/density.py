"""Mixed lengths: sheets whose density varies 100-fold, a roll with a hub, a caterpillar.

    python benchmarks/density.py --seeds 3

Prints procrustes errors of the defaults, one per seed: 1,500 points, k = 10. The sparse end of the half
cylinder has neighbourhoods of a fifth of its radius; on rolls the sparse end would join the sheets. The hub
of a roll of 2,000 points is joined to 300 far ones by true distances. The caterpillar is a path of 500 unit
edges with three leaves of length 3 at every vertex: Pearson against its paths, edge error, and the shortest
and longest edge of that path in the map.
"""

from __future__ import annotations

import argparse

import numpy as np
import scipy.sparse as sp

from isoweave import IsometricEmbedding, embed_graph
from isoweave.datasets import swiss_roll
from isoweave.experiments.baselines import run_baseline
from isoweave.graph import graph_from_matrix, knn_graph
from isoweave.metrics import geodesic_rows, local_distance, pearson, procrustes_error

N, FIRST_SEED = 1500, 1001
RADIUS = 3.0 / np.pi


def uneven(rng: np.random.RandomState, ratio: float) -> np.ndarray:
    """Numbers in [0, 1] whose density falls by this ratio."""
    u = rng.uniform(size=N)
    return u if ratio == 1.0 else np.log1p(u * (ratio - 1.0)) / np.log(ratio)


def strip(seed: int, ratio: float) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.RandomState(seed)
    flat = np.column_stack([3.0 * uneven(rng, ratio), rng.uniform(size=N)])
    return flat, flat


def disc(seed: int, ratio: float) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.RandomState(seed)
    s, angle = uneven(rng, ratio), 2.0 * np.pi * rng.uniform(size=N)
    r = np.sqrt(s) if ratio == 1.0 else s
    flat = np.column_stack([r * np.cos(angle), r * np.sin(angle)])
    return flat, flat


def half_cylinder(seed: int, ratio: float) -> tuple[np.ndarray, np.ndarray]:
    flat, _ = strip(seed, ratio)
    angle = flat[:, 0] / RADIUS
    return np.column_stack([RADIUS * np.cos(angle), RADIUS * np.sin(angle), flat[:, 1]]), flat


def hub(seed: int) -> tuple[sp.csr_array, np.ndarray]:
    """The graph of a roll whose first vertex knows 300 that are far."""
    roll = swiss_roll(2000, random_state=seed)
    assert roll.truth is not None
    matrix, away = knn_graph(roll.data, 10).to_matrix(), np.linalg.norm(roll.truth - roll.truth[0], axis=1)
    far = np.random.default_rng(seed).choice(np.flatnonzero(away > 10.0), 300, replace=False)
    spokes = sp.csr_array((away[far], (np.zeros(300, dtype=int), far)), shape=matrix.shape)
    return sp.csr_array(matrix.maximum(spokes).maximum(spokes.T)), roll.truth


def caterpillar(n: int = 500, n_leaves: int = 3, length: float = 3.0) -> sp.csr_array:
    spine, leaves = np.arange(n - 1), np.arange(n * n_leaves)
    ends = np.append(spine, leaves % n), np.append(spine + 1, n + leaves)
    lengths = np.append(np.ones(n - 1), np.full(n * n_leaves, length))
    half = sp.csr_array((lengths, ends), shape=2 * (n * (n_leaves + 1),))
    return sp.csr_array(half + half.T)


def map_of(graph: sp.csr_array, options: dict | str) -> np.ndarray:
    """By embed_graph with these options, or by Isomap."""
    if isinstance(options, str):
        return run_baseline(options, graph_from_matrix(graph), 2)
    return embed_graph(graph, 2, n_jobs=1, **options).coordinates


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    n_seeds = parser.parse_args().seeds
    for shape in (strip, disc, half_cylinder):
        for ratio in (1.0, 100.0):
            errors = []
            for seed in range(FIRST_SEED, FIRST_SEED + n_seeds):
                data, flat = shape(seed, ratio)
                errors.append(procrustes_error(flat, IsometricEmbedding(n_jobs=1).fit_transform(data)))
            print(shape.__name__, f"{ratio:g}", " ".join(f"{e:.1e}" for e in errors), flush=True)
    for options in ({}, {"refine": "none"}, "isomap"):
        errors = []
        for seed in range(FIRST_SEED, FIRST_SEED + n_seeds):
            graph, flat = hub(seed)
            errors.append(procrustes_error(flat, map_of(graph, options)))
        print("hub", options, " ".join(f"{e:.1e}" for e in errors), flush=True)
    tree = caterpillar()
    for options in ({}, "isomap"):
        y = map_of(tree, options)
        scores = pearson(geodesic_rows(graph_from_matrix(tree)), y), local_distance(tree, y)
        spine = np.linalg.norm(np.diff(y[:500], axis=0), axis=1)
        print("caterpillar", options, *(f"{v:.4f}" for v in (*scores, spine.min(), spine.max())), flush=True)


if __name__ == "__main__":
    main()
