"""Sensor networks against the Cramér-Rao bound. Prints a table of docs/anchors.md.

``python benchmarks/sensors.py 1000 10000 100000``: sensors uniform in the unit square, ranges d (1 + nf z) to
those within a radius (20 neighbours), some of which know where they are. Errors are root mean squares over
the others, in per cent of the radius.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
import scipy.sparse as sp

from isoweave import Anchors, embed_graph
from isoweave._parallel import thread_team
from isoweave.datasets import sensor_network
from isoweave.linalg._cholesky import elimination_order, factorise, plan_elimination


def information(graph: sp.csr_array, truth: np.ndarray, noise: float, unknown: np.ndarray) -> sp.csr_array:
    """Fisher information of the unknown positions, shape (2 u, 2 u), coordinates of a sensor together.

    A range with mean d and deviation nf d tells (1 / nf^2 + 2) / d^2 about d: by where it lies, and by how
    much such ranges spread.
    """
    edges = sp.coo_array(sp.triu(graph, k=1))
    steps = truth[edges.row] - truth[edges.col]
    squares = np.einsum("ek,ek->e", steps, steps)
    tells = (1.0 / noise**2 + 2.0) / squares**2
    at = np.full(len(truth), -1)
    at[unknown] = np.arange(len(unknown))
    ends = (at[edges.row], at[edges.col])
    rows, columns, values = [], [], []
    for a in range(2):
        for b in range(2):
            block = tells * steps[:, a] * steps[:, b]
            for first, second, sign in ((0, 0, 1.0), (1, 1, 1.0), (0, 1, -1.0), (1, 0, -1.0)):
                both = (ends[first] >= 0) & (ends[second] >= 0)
                rows.append(2 * ends[first][both] + a)
                columns.append(2 * ends[second][both] + b)
                values.append(sign * block[both])
    entries = (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns)))
    return sp.coo_array(entries, shape=(2 * len(unknown),) * 2).tocsr()


def bound(graph: sp.csr_array, truth: np.ndarray, noise: float, unknown: np.ndarray) -> tuple[float, float]:
    """Root of the mean squared error that no unbiased estimate can beat, and its standard error.

    The trace of the inverse: exact up to 2,000 sensors, beyond by 256 vectors of random signs (Hutchinson)
    and a sparse Cholesky factor.
    """
    told = information(graph, truth, noise, unknown)
    if told.shape[0] <= 4_000:
        return float(np.sqrt(np.trace(np.linalg.inv(told.toarray())) / len(unknown))), 0.0
    told.sort_indices()
    among = sp.csr_array(graph)[unknown][:, unknown]
    order = elimination_order(among.indptr, among.indices)
    rows = (2 * order[:, None] + np.arange(2)).ravel().astype(np.int32)
    # PreparationError: some sensors have fewer than two ranges, and the bound is infinite.
    factor = factorise(plan_elimination(told.indptr, told.indices, rows), told.data)
    rng, traces = np.random.default_rng(0), []
    with thread_team(1) as team:
        for _ in range(8):
            signs = rng.choice([-1.0, 1.0], size=(told.shape[0], 32))
            traces.append(np.einsum("ik,ik->k", signs, factor.solve(signs, team)))
    squares = np.concatenate(traces) / len(unknown)
    least = float(np.sqrt(squares.mean()))
    return least, float(squares.std(ddof=1) / np.sqrt(len(squares)) / (2.0 * least))


def reweighted(graph: sp.csr_array, start: np.ndarray, anchors: Anchors) -> np.ndarray:
    """Refined once more, with the inverse variances that the lengths in the first map suggest."""
    weights = graph.copy()
    rows = np.repeat(np.arange(graph.shape[0]), np.diff(graph.indptr))
    lengths = np.linalg.norm(start[rows] - start[graph.indices], axis=1)
    weights.data = np.maximum(lengths, 1e-3 * np.median(lengths)) ** -2.0
    found = embed_graph(graph, 2, anchors=anchors, refine="distances", start=start, weights=weights)
    return found.coordinates


def row(n: int, noise: float, share: float, seed: int) -> str:
    radius = np.sqrt(20.0 / (np.pi * n))
    net = sensor_network(n, radius=radius, noise=noise, n_anchors=round(share * n), random_state=seed)
    unknown = np.setdiff1d(np.arange(n), net.anchors)
    anchors = Anchors(net.anchors, net.truth[net.anchors])

    def error(x: np.ndarray) -> float:
        off = x[unknown] - net.truth[unknown]
        return 100.0 * float(np.sqrt(np.mean(np.sum(off * off, axis=1)))) / radius

    begin = time.process_time()
    plain = embed_graph(net.graph, 2, anchors=anchors).coordinates
    first = time.process_time() - begin
    begin = time.process_time()
    refined = embed_graph(net.graph, 2, anchors=anchors, refine="distances").coordinates
    second = time.process_time() - begin
    begin = time.process_time()
    again = reweighted(sp.csr_array(net.graph), refined, anchors)
    third = second + time.process_time() - begin
    least, unsure = (100.0 * value / radius for value in bound(net.graph, net.truth, noise, unknown))
    found = ((plain, first), (refined, second), (again, third))
    errors = " | ".join(f"{error(x):.2f} ({seconds:.2g} s)" for x, seconds in found)
    return f"| {n:,} | {100 * noise:g} % | {100 * share:g} % | {errors} | {least:.2f} ± {unsure:.3f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", nargs="*", type=int, default=[1_000, 10_000, 100_000])
    parser.add_argument("--noise", nargs="*", type=float, default=[0.01, 0.05, 0.1])
    parser.add_argument("--anchors", nargs="*", type=float, default=[0.04, 0.1])
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    heads = ("sensors", "noise", "anchors", "isoweave", '`refine="distances"`', "reweighted", "bound")
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for n in given.sizes:
        for noise in given.noise:
            for share in given.anchors:
                print(row(n, noise, share, given.seed), flush=True)


if __name__ == "__main__":
    main()
