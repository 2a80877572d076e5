"""Road graphs, as they are and joined to 12 geodesic neighbours, against Isomap (landmark Isomap if large).

    python benchmarks/roads.py oldenburg helsinki_osm usa78k

Prints the procrustes error, the same at the best size, and the parameter error. Needs ISOWEAVE_DATA. Joining
vertices along the graph changes no shortest path, so that Isomap has one map for both.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from isoweave import embed_graph
from isoweave.datasets import load_road
from isoweave.experiments.baselines import run_baseline
from isoweave.graph import graph_from_matrix
from isoweave.metrics import parameter_error, procrustes_error
from isoweave.optimise import find_landmarks

LARGE = 20_000


def show(label: str, truth: np.ndarray, y: np.ndarray) -> None:
    """One line of the table."""
    t, z = truth - truth.mean(axis=0), y - y.mean(axis=0)
    best = np.linalg.svd(z.T @ t, compute_uv=False).sum() / np.sum(z * z)
    errors = (procrustes_error(t, z), procrustes_error(t, best * z), parameter_error(t, z))
    print(f"| {label} | " + " | ".join(f"{e:.4f}" for e in errors) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="+")
    print("| roads | procrustes | at the best size | parameter error |\n|---|---|---|---|")
    for name in parser.parse_args().names:
        roads = load_road(name)
        assert roads.truth is not None
        for along in (None, 12):
            started = time.process_time()
            result = embed_graph(roads.graph, 2, along_graph=along, n_jobs=1)
            facts = f"weight {result.global_weight:.2g}, {time.process_time() - started:.0f} s"
            show(f"{name}, along_graph={along} ({facts})", roads.truth, result.coordinates)
        graph = graph_from_matrix(roads.graph)
        if graph.n_vertices <= LARGE:
            show(f"{name}, Isomap", roads.truth, run_baseline("isomap", graph, 2))
        else:
            show(f"{name}, landmark Isomap", roads.truth, find_landmarks(graph, 2).start)


if __name__ == "__main__":
    main()
