"""Where every sensor is, if each only measures how far its neighbours are.

A thousand sensors in a square, with an empty disc in the middle or without, measure the distances to those
within radio range with errors of 5 or 10 %. The positions of some are known. What is printed are root mean
squares of the errors of the others, in per cent of the radio range. For comparison: MDS-MAP, which scales
all shortest paths (Isomap) and lays the result on the anchors, and least squares of the ranges from there
(scipy).

    python examples/sensor_network.py [--sensors 1000] [--figure sensors.png]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import least_squares
from scipy.sparse.csgraph import dijkstra

from isoweave import embed_graph
from isoweave.datasets import GraphDataset, sensor_network
from isoweave.extension import rigid_motion

Points = NDArray[np.float64]


def mds_map(net: GraphDataset) -> Points:
    """Classical scaling of all shortest paths, laid on the anchors."""
    squared = dijkstra(net.graph) ** 2
    squared -= squared.mean(axis=0)
    values, vectors = np.linalg.eigh(-0.5 * (squared - squared.mean(axis=1, keepdims=True)))
    points = vectors[:, -2:] * np.sqrt(values[-2:])
    rotation, shift = rigid_motion(points[net.anchors], net.truth[net.anchors])
    return points @ rotation + shift


def least_squares_from(net: GraphDataset, start: Points) -> Points:
    """Least squares of the ranges with the anchors fixed, by scipy."""
    edges = sp.triu(net.graph).tocoo()
    i, j = edges.row, edges.col
    free = np.setdiff1d(np.arange(len(start)), net.anchors)
    place = np.full(len(start), -1)
    place[free] = np.arange(len(free))
    points = start.copy()
    points[net.anchors] = net.truth[net.anchors]

    def residuals(x: Points) -> Points:
        points[free] = x.reshape(-1, 2)
        return np.linalg.norm(points[i] - points[j], axis=1) - edges.data

    def jacobian(x: Points) -> sp.csr_array:
        points[free] = x.reshape(-1, 2)
        steps = points[i] - points[j]
        steps /= np.maximum(np.linalg.norm(steps, axis=1, keepdims=True), 1e-12)
        rows, columns, values = [], [], []
        for ends, sign in ((i, 1.0), (j, -1.0)):
            inside = np.flatnonzero(place[ends] >= 0)
            for c in range(2):
                rows.append(inside)
                columns.append(2 * place[ends[inside]] + c)
                values.append(sign * steps[inside, c])
        entries = np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))
        return sp.csr_array(entries, shape=(len(i), 2 * len(free)))

    found = least_squares(residuals, points[free].ravel(), jac=jacobian, max_nfev=200)
    points[free] = found.x.reshape(-1, 2)
    return points


def isoweave(net: GraphDataset, refine: str) -> Points:
    known = {"anchors": net.anchors, "anchor_positions": net.truth[net.anchors]}
    return embed_graph(net.graph, refine=refine, **known).coordinates


METHODS: dict[str, Callable[[GraphDataset], Points]] = {
    "MDS-MAP": mds_map,
    "MDS-MAP, least squares": lambda net: least_squares_from(net, mds_map(net)),
    "isoweave": lambda net: isoweave(net, "none"),
    "isoweave, refined": lambda net: isoweave(net, "distances"),
}


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--sensors", type=int, default=1000)
    parser.add_argument("--figure", type=Path, default=Path("sensor_network.png"))
    options = parser.parse_args()
    n = options.sensors
    radius = float(np.sqrt(20 / (np.pi * n)))
    print(f"{n} sensors, radio range {radius:.3f}; errors in per cent of it, (seconds)")
    print(f"{'area':8}{'noise':>6}{'anchors':>8}" + "".join(f"{name:>26}" for name in METHODS))
    maps: dict[str, Points] = {}
    for hole in (0.0, 0.25):
        for noise in (0.05, 0.10):
            for n_anchors in (6, n // 10):
                net = sensor_network(
                    n, radius=radius, n_anchors=n_anchors, noise=noise, hole=hole, random_state=1
                )
                cells = []
                for name, method in METHODS.items():
                    started = time.perf_counter()
                    maps[name] = method(net)
                    seconds = time.perf_counter() - started
                    cells.append(f"{100 * error(net, maps[name]) / radius:.1f} % ({seconds:.1f})")
                area = "hole" if hole else "square"
                print(f"{area:8}{noise:>6.0%}{n_anchors:>8}" + "".join(f"{cell:>26}" for cell in cells))
    try:
        draw(net, maps, options.figure)
        print(f"the last row is drawn in {options.figure}")
    except ImportError:
        print("no figure: matplotlib is not installed")


if __name__ == "__main__":
    main()
