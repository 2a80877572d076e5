"""
Sensor network
==============

Locating sensors that only measure how far away their neighbours are.

Sensors in a square, with an empty disc in the middle or without, measure the distances to those within radio
range with errors of 5 or 10 %. The positions of some are known. The script prints the root mean square error
of the others, in per cent of the radio range. For comparison: MDS-MAP, which is classical scaling of all
shortest paths (Isomap) aligned with the anchors, least squares of the ranges from there (scipy), and the
Cramer-Rao bound.

    python examples/sensor_network.py [--sensors 500] [--seeds 1] [--figure sensors.png]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.sparse.csgraph import dijkstra
from scipy.sparse.linalg import eigsh

from isoweave import Anchors, embed_graph
from isoweave.datasets import GraphDataset, sensor_network
from isoweave.geometry import rigid_motion

Points = NDArray[np.float64]


def mds_map(net: GraphDataset) -> Points:
    """Classical scaling of all shortest paths, laid on the anchors."""
    squared = dijkstra(net.graph) ** 2
    squared -= squared.mean(axis=0)
    gram = -0.5 * (squared - squared.mean(axis=1, keepdims=True))
    values, vectors = eigsh(gram, k=2, v0=np.ones(len(gram)) / len(gram) + gram[:, 0])
    points = vectors * np.sqrt(values)
    rotation, shift = rigid_motion(points[net.anchors], net.truth[net.anchors])
    return points @ rotation + shift


def least_squares_from(net: GraphDataset, start: Points) -> Points:
    """Least squares of the ranges with the anchors fixed, by scipy."""
    edges = sp.triu(net.graph).tocoo()
    i, j = edges.row, edges.col
    free = np.setdiff1d(np.arange(len(start)), net.anchors)
    points = start.copy()
    points[net.anchors] = net.truth[net.anchors]

    def stress(x: Points) -> tuple[float, Points]:
        points[free] = x.reshape(-1, 2)
        steps = points[i] - points[j]
        lengths = np.linalg.norm(steps, axis=1)
        excess = lengths - edges.data
        pull = (2.0 * excess / np.maximum(lengths, 1e-12))[:, None] * steps
        gradient = np.zeros_like(points)
        np.add.at(gradient, i, pull)
        np.add.at(gradient, j, -pull)
        return float(np.sum(excess**2)), gradient[free].ravel()

    found = minimize(
        stress, points[free].ravel(), jac=True, method="L-BFGS-B", options={"maxiter": 2000, "maxfun": 4000}
    )
    points[free] = found.x.reshape(-1, 2)
    return points


def isoweave(net: GraphDataset, **options: Any) -> Points:
    known = {"anchors": Anchors(net.anchors, net.truth[net.anchors])}
    return embed_graph(net.graph, **known, **options).coordinates


def reweighted(net: GraphDataset) -> Points:
    """Errors grow with the distance: inverse variances, with distances from a first map.

    The ranges themselves would not do: those that came out short by error would get the most weight.
    """
    first = isoweave(net, refine="distances")
    edges = net.graph.tocoo()
    lengths = np.linalg.norm(first[edges.row] - first[edges.col], axis=1)
    weights = 1.0 / np.maximum(lengths, 0.1 * lengths.mean()) ** 2
    matrix = sp.csr_array((weights, (edges.row, edges.col)), shape=edges.shape)
    return isoweave(net, refine="distances", weights=matrix, start=first)


METHODS: dict[str, Callable[[GraphDataset], Points]] = {
    "MDS-MAP": mds_map,
    "and least squares": lambda net: least_squares_from(net, mds_map(net)),
    "isoweave": isoweave,
    "refined": lambda net: isoweave(net, refine="distances"),
    "reweighted": reweighted,
}


def bound(net: GraphDataset, noise: float) -> float:
    """Root mean square error that no unbiased estimate can be below (Cramer and Rao)."""
    edges = sp.triu(net.graph).tocoo()
    steps = net.truth[edges.row] - net.truth[edges.col]
    lengths = np.linalg.norm(steps, axis=1)
    rows = np.repeat(np.arange(edges.nnz), 2)
    entries = (steps / (noise * lengths**2)[:, None]).ravel()
    columns = [(2 * ends[:, None] + np.arange(2)).ravel() for ends in (edges.row, edges.col)]
    shape = edges.nnz, 2 * len(net.truth)
    jacobian = sp.csr_array((entries, (rows, columns[0])), shape=shape)
    jacobian = jacobian - sp.csr_array((entries, (rows, columns[1])), shape=shape)
    others = np.setdiff1d(np.arange(len(net.truth)), net.anchors)
    free = (2 * others[:, None] + np.arange(2)).ravel()
    information = (jacobian.T @ jacobian).toarray()[np.ix_(free, free)]
    return float(np.sqrt(np.trace(np.linalg.pinv(information, hermitian=True)) / len(others)))


def error(net: GraphDataset, points: Points) -> float:
    """Root mean square over the sensors that are no anchors."""
    others = np.setdiff1d(np.arange(len(points)), net.anchors)
    return float(np.sqrt(np.mean(np.sum((points - net.truth)[others] ** 2, axis=1))))


def draw(net: GraphDataset, maps: dict[str, Points], path: Path) -> None:
    """Every map with lines to the true places."""
    import matplotlib.pyplot as plt
    from matplotlib.collections import LineCollection

    figure, axes = plt.subplots(1, len(maps), figsize=(4.2 * len(maps), 4.4), sharex=True, sharey=True)
    for axis, (name, points) in zip(axes, maps.items(), strict=True):
        axis.add_collection(
            LineCollection(np.stack([net.truth, points], axis=1), colors="tab:red", linewidths=0.6)
        )
        axis.plot(*points.T, ".", color="tab:blue", markersize=2)
        axis.plot(*net.truth[net.anchors].T, "k^", markersize=6)
        axis.set_title(name)
        axis.set_aspect("equal")
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def table(n: int, seeds: int, figure: Path) -> None:
    """Print a row for every area, noise and number of anchors; draw the last one."""
    radius = float(np.sqrt(20 / (np.pi * n)))
    print(
        f"{n} sensors, radio range {radius:.3f}, medians of {seeds} seeds: error in per cent of it (seconds)"
    )
    print(
        f"{'area':8}{'noise':>6}{'anchors':>8}" + "".join(f"{name:>19}" for name in METHODS) + f"{'bound':>8}"
    )
    maps: dict[str, Points] = {}
    for hole in (0.0, 0.25):
        for noise in (0.05, 0.10):
            for n_anchors in (6, n // 10):
                found: dict[str, list[tuple[float, float]]] = {name: [] for name in METHODS}
                bounds = []
                for seed in range(seeds):
                    net = sensor_network(
                        n, radius=radius, n_anchors=n_anchors, noise=noise, hole=hole, random_state=seed
                    )
                    for name, method in METHODS.items():
                        started = time.perf_counter()
                        maps[name] = method(net)
                        seconds = time.perf_counter() - started
                        found[name].append((100 * error(net, maps[name]) / radius, seconds))
                    bounds.append(100 * bound(net, noise) / radius)
                cells = [np.median(values, axis=0) for values in found.values()]
                print(
                    f"{'hole' if hole else 'square':8}{noise:>6.0%}{n_anchors:>8}"
                    + "".join(f"{share:>11.1f} % ({seconds:.1f})" for share, seconds in cells)
                    + f"{np.median(bounds):>6.1f} %",
                    flush=True,
                )
    try:
        draw(net, maps, figure)
        print(f"the last row is drawn in {figure}")
    except ImportError:
        print("no figure: matplotlib is not installed")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--sensors", type=int, default=500)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--figure", type=Path, default=Path("sensor_network.png"))
    options = parser.parse_args()
    table(options.sensors, options.seeds, options.figure)


if __name__ == "__main__":
    main()
