"""Thousands of small components: seconds, the forecast, and the energy that is left.

    python benchmarks/small_components.py [--threads 2] [NAME ...]

Times are those of a second fit, of other graphs of the same kind: compiling is done in the first.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
import scipy.sparse as sp

from isoweave import embed_graph, estimate_resources
from isoweave.datasets import swiss_roll
from isoweave.graph import knn_graph


def nearest(points: np.ndarray, k: int) -> sp.csr_array:
    return knn_graph(points, min(k, len(points) - 1)).to_matrix()


def sheet(random: np.random.Generator) -> sp.csr_array:
    return nearest(random.random((20, 2)), 6)


def assorted(random: np.random.Generator) -> sp.csr_array:
    return nearest(random.random((random.integers(3, 61), 2)), int(random.integers(3, 11)))


def roll(random: np.random.Generator) -> sp.csr_array:
    return nearest(swiss_roll(40, random_state=int(random.integers(2**31))).data, 6)


def noisy(random: np.random.Generator) -> sp.csr_array:
    matrix = sp.csr_array(sp.triu(nearest(random.random((30, 2)), 7)))
    matrix.data *= np.exp(0.1 * random.standard_normal(len(matrix.data)))
    return sp.csr_array(matrix.maximum(matrix.T))


def tree(random: np.random.Generator) -> sp.csr_array:
    n = 30
    ends = [random.integers(max(0, i - 4), i) for i in range(1, n)]
    return sp.csr_array((random.uniform(0.5, 2.0, n - 1), (np.arange(1, n), ends)), shape=(n, n))


def tangle(random: np.random.Generator) -> sp.csr_array:
    """A random connected graph with four neighbours on average."""
    matrix, n = tree(random), 30
    ends = random.integers(0, n, (2, n + 3))
    more = sp.csr_array((random.uniform(0.5, 2.0, n + 3), tuple(ends)), shape=(n, n))
    return sp.csr_array(sp.triu(matrix.maximum(more) + matrix.maximum(more).T, 1))


CASES = {
    "sheets-1000": (sheet, 1000),
    "sheets-10000": (sheet, 10_000),
    "assorted-3000": (assorted, 3000),
    "rolls-500": (roll, 500),
    "noisy-500": (noisy, 500),
    "trees-1000": (tree, 1000),
    "tangles-1000": (tangle, 1000),
}


def graph_of(name: str, seed: int, count: int | None = None) -> sp.csr_array:
    make, whole = CASES[name]
    random = np.random.default_rng(seed)
    return sp.csr_array(sp.block_diag([make(random) for _ in range(count or whole)], format="csr"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=list(CASES), help=f"of {', '.join(CASES)}")
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    print("| components | seconds | forecast | processor | forecast | relative energy |")
    print("|---|---|---|---|---|---|")
    for name in given.names:
        embed_graph(graph_of(name, 1, 40), n_jobs=given.threads)
        graph = graph_of(name, 0)
        foreseen = estimate_resources(graph, n_jobs=given.threads)
        wall, processor = time.perf_counter(), time.process_time()
        result = embed_graph(graph, n_jobs=given.threads)
        wall, processor = time.perf_counter() - wall, time.process_time() - processor
        times = f"{wall:.1f} | {foreseen.seconds:.1f} | {processor:.1f} | {foreseen.cpu_seconds:.1f}"
        print(f"| {name} | {times} | {result.relative_energy:.6g} |", flush=True)


if __name__ == "__main__":
    main()
