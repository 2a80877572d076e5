"""Where "auto" tries a second start, and where that start wins: graphs of 51 to 1,500 vertices of many kinds.

    python benchmarks/second_start.py [--seeds 6] [KIND ...]

Every graph is embedded from both starts. Not tried: graphs of which the rule of isoweave.optimise takes the
landmarks' map as it is; lost: those of them where the other start would have won. The last two columns are
what the rule looks at, where the other start won: the least misfit of a graph with no narrow neighbourhood,
and the largest width of a graph in which no neighbourhood misfits by .15.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np
import scipy.sparse as sp

from filter_and_starts import OUTLINES, outline_points
from isoweave import embed_graph
from isoweave.datasets import flat_torus, klein_bottle, s_curve, sphere, swiss_roll
from isoweave.graph import knn_graph
from isoweave.optimise import _starts as starts

Random = np.random.Generator


def strip(random: Random, n: int) -> np.ndarray:
    """Flat, straight or bent to a C, five to n times as long as wide: many are narrower than frames."""
    ratio = np.exp(random.uniform(np.log(5.0), np.log(n)))
    along, across = random.random((2, n)) * [[ratio], [1.0]]
    if random.random() < 0.5:
        return np.column_stack((along, across))
    angle, radius = 5.2 * along / ratio, ratio / 5.2 + across
    return np.column_stack((radius * np.cos(angle), radius * np.sin(angle)))


def tree(random: Random, n: int) -> sp.csr_array:
    ends = [random.integers(max(0, i - 5), i) for i in range(1, n)]
    return sp.csr_array((random.uniform(0.5, 2.0, n - 1), (np.arange(1, n), ends)), shape=(n, n))


def seeded(make: Any, **options: Any) -> Callable[[Random, int], np.ndarray]:
    return lambda random, n: make(n, random_state=int(random.integers(2**31)), **options).data


def outline(name: str) -> Callable[[Random, int], np.ndarray]:
    return lambda random, n: outline_points(name, int(random.integers(2**31)), n)


# Points or distances, and N.
KINDS: dict[str, tuple[Callable[[Random, int], Any], int]] = {
    "swiss roll": (seeded(swiss_roll), 2),
    "swiss roll, noise .6": (seeded(swiss_roll, noise=0.6), 2),
    "S-curve": (seeded(s_curve), 2),
    **{name: (outline(name), 2) for name in OUTLINES},
    "strips": (strip, 2),
    "sphere": (seeded(sphere), 2),
    "torus": (seeded(flat_torus), 2),
    "Klein bottle": (seeded(klein_bottle), 2),
    "cube in the plane": (lambda random, n: random.random((n, 3)), 2),
    "tree": (tree, 2),
    "cube": (lambda random, n: random.random((n, 3)), 3),
    "slab": (lambda random, n: random.random((n, 3)) * [1.0, 1.0, random.uniform(0.01, 0.5)], 3),
    "Klein bottle in space": (seeded(klein_bottle), 3),
}


def compare(matrix: Any, n_components: int) -> tuple[bool, bool, float, float] | None:
    """Whether the second start is not tried and whether it wins; greatest misfit, least relative width."""
    seen: list[tuple[bool, float, float]] = []
    fits = starts.fits_everywhere

    def look(problem: Any, x: np.ndarray) -> bool:
        here, collapsed = (problem.evaluate(place).energies for place in (x, np.zeros_like(x)))
        sizes = problem.frames.frames.spectrum[:, :n_components]
        width = (sizes.min(axis=1) / np.maximum(sizes.mean(axis=1), 1e-300)).min()
        seen.append((fits(problem, x), (here / np.maximum(collapsed, 1e-300)).max(), width))
        return False

    with patch.object(starts, "fits_everywhere", look), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options: Any = {"components": "largest", "refine": "none", "n_jobs": 1}
        result = embed_graph(matrix, n_components, **options)
    # None where the landmarks' map is exact.
    return (seen[0][0], result.start == "synchronized", *seen[0][1:]) if seen else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="KIND", default=[*KINDS])
    parser.add_argument("--seeds", type=int, default=6)
    arguments = parser.parse_args()
    print("| graphs | N | number | not tried | the other wins | lost | misfit | width |")
    print("|---|---|---|---|---|---|---|---|")
    for name in arguments.names:
        make, n_components = KINDS[name]
        found = []
        for seed in range(arguments.seeds):
            for n in (60, 150, 500, 1500):
                for k in (7, 10, 16):
                    random = np.random.default_rng((seed, n, k))
                    data = make(random, n)
                    matrix = data if sp.issparse(data) else knn_graph(data, k, n_jobs=1).to_matrix()
                    found.append(compare(matrix, n_components))
        rows = np.array([row for row in found if row is not None], dtype=float).reshape(-1, 4)
        untried, wins, misfit, width = rows.T
        won = wins > 0
        least = misfit[won & (width >= starts._NARROW)].min(initial=np.inf)
        most = width[won & (misfit <= 0.15)].max(initial=0.0)
        counts = f"{len(rows)} | {untried.sum():.0f} | {wins.sum():.0f} | {(untried * wins).sum():.0f}"
        print(f"| {name} | {n_components} | {counts} | {least:.2f} | {most:.2f} |", flush=True)


if __name__ == "__main__":
    main()
