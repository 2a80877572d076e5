"""A fixed piece of work by other libraries, against which processor times are compared.

It takes the same for every version of isoweave, so a ratio to it says something about isoweave and not about
the machine, and its spread over a run tells how quiet the machine was.
"""

from __future__ import annotations

import time

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import dijkstra
from scipy.sparse.linalg import splu
from sklearn.neighbors import kneighbors_graph
from threadpoolctl import threadpool_limits


def calibration_seconds(n_points: int = 4000) -> tuple[float, float]:
    """Wall and processor seconds of neighbours, a sparse factor, shortest paths and small eigenproblems.

    One thread: on a quiet machine the two are equal.
    """
    points = np.random.default_rng(29).random((n_points, 3))
    with threadpool_limits(1):
        wall, cpu = time.perf_counter(), time.process_time()
        graph = kneighbors_graph(points, 10, mode="distance")
        graph = sp.csr_array(graph.maximum(graph.T))
        laplacian = sp.diags_array(graph.sum(axis=1) + 1.0) - graph
        factor = splu(sp.csc_array(laplacian), permc_spec="MMD_AT_PLUS_A", options={"SymmetricMode": True})
        for _ in range(5):
            factor.solve(points)
        dijkstra(graph, indices=np.arange(0, n_points, n_points // 20))
        for _ in range(400):
            np.linalg.eigh(points[:40] @ points[:40].T)
        return time.perf_counter() - wall, time.process_time() - cpu
