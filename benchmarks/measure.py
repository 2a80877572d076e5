"""One case of the performance suite in a process of its own; started by run.py.

    python benchmarks/measure.py '{"method": "umap", "workload": "swiss", "n": 1000, "n_jobs": 2}' EVENTS

Appends JSON objects to the file EVENTS: "ready" when everything is compiled, "fitted" with times and memory,
"scored" with quality. Memory is the peak above that of the same process before the data were there.
"""

from __future__ import annotations

import json
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from calibrate import calibration_seconds
from isoweave.datasets import Dataset
from isoweave.graph import NeighborGraph
from isoweave.metrics import (
    geodesic_rows,
    local_distance,
    neighborhood_scores,
    parameter_error,
    pearson,
    procrustes_error,
)
from methods import METHODS, Method, fit_isoweave
from process import forget_peak, peak_bytes, processor_seconds
from stages import StageClock
from workloads import WORKLOADS, Workload, first_points, graph_of, reference_graph

# Short fits are repeated, and the quickest counts: what is added to it comes from elsewhere.
REPEATS = 3
REPEAT_BELOW = 20.0
SOLVERS = ("direct", "amg", "jacobi")


def warm_up(method: Method, workload: Workload, n: int, n_jobs: int) -> None:
    """Compile, or load what was compiled before, on a small relative of the data."""
    small = first_points(workload.warm_up(), method.warm_up)
    if method.name != "isoweave":
        # Searches differ for few and many points: whichever this case will use has been run before.
        least = min(method.warm_up, 1000)
        for size in {least, method.warm_up if n > 1000 else least}:
            try:
                method.fit(first_points(small, size).data, workload, n_jobs)
            except (ValueError, RuntimeError):
                # A few points may be too few for it; the case itself may still work.
                traceback.print_exc()
        return
    given = graph_of(workload, small) if workload.is_graph else small.data
    fit_isoweave(given, workload, n_jobs)
    # Which solver a graph gets depends on its size.
    few = first_points(small, 1000)
    given = graph_of(workload, few) if workload.is_graph else few.data
    for solver in SOLVERS:
        fit_isoweave(given, workload, n_jobs, solver=solver)


def measure(method: Method, workload: Workload, given: Any, n_jobs: int) -> tuple[np.ndarray, dict[str, Any]]:
    """Best of a few fits: the map, and wall and processor seconds; for isoweave also the stages."""
    best: dict[str, Any] = {}
    walls: list[float] = []
    while not walls or (len(walls) < REPEATS and max(walls) < REPEAT_BELOW):
        clock, model = StageClock(), None
        cpu, wall = processor_seconds(), time.perf_counter()
        if method.name == "isoweave":
            with clock.running():
                model = fit_isoweave(given, workload, n_jobs)
            embedding = np.asarray(model.embedding_)
        else:
            embedding = method.fit(given, workload, n_jobs)
        wall, cpu = time.perf_counter() - wall, processor_seconds() - cpu
        if not walls or wall < min(walls):
            best = {"wall": wall, "cpu": cpu}
            if model is not None:
                # Of the run that counts; solver and start are not attributes of the estimator.
                best |= {"stages": clock.seconds, "n_iter": model.n_iter_, "fit_status": model.status_}
        walls.append(wall)
    return embedding, {**best, "repeats": len(walls), "slowest": max(walls)}


def score(workload: Workload, data: Dataset, embedding: np.ndarray, scale_free: bool) -> dict[str, float]:
    """Quality of a map; see docs/quality.md for the names."""
    graph = reference_graph(workload, data)
    y = np.asarray(embedding, dtype=np.float64)
    if scale_free:
        y = y * _best_factor(graph, y)
    scores = {
        "f1": neighborhood_scores(graph, y, n_neighbors=workload.n_neighbors).f1,
        "local_distance": local_distance(graph, y),
        "pearson": pearson(geodesic_rows(graph), y),
    }
    if data.truth is not None:
        scores["procrustes_error"] = procrustes_error(data.truth, y)
    elif data.parameters is not None:
        scores["parameter_error"] = parameter_error(data.parameters, y)
    return scores


def _best_factor(graph: NeighborGraph, y: np.ndarray) -> float:
    """The factor that brings the map's edges nearest to the graph's, in least squares."""
    reached = np.linalg.norm(y[graph.sources] - y[graph.indices], axis=1)
    square = float(reached @ reached)
    return float(reached @ graph.lengths) / square if square > 0 else 1.0


def main() -> None:
    case, events = json.loads(sys.argv[1]), Path(sys.argv[2])
    method, workload = METHODS[case["method"]], WORKLOADS[case["workload"]]

    def tell(event: str, values: dict[str, Any] | None = None) -> None:
        with events.open("a", encoding="utf-8") as file:
            # JSON has no numbers that are not finite.
            text = json.dumps({"event": event, **(values or {})})
            file.write(json.dumps(json.loads(text, parse_constant=lambda _: None)) + "\n")

    # Peers tell of their defaults and of data types; none of it is news here.
    warnings.simplefilter("ignore")
    try:
        warm_up(method, workload, case["n"], case["n_jobs"])
        wall, cpu = calibration_seconds()
        tell("started", {"calibration_wall": wall, "calibration_cpu": cpu})
        idle = forget_peak()
        data = workload.load(case["n"])
        given: Any = graph_of(workload, data) if workload.is_graph else data.data
        # The data count as memory of the fit, what it took to make them does not.
        forget_peak()
        tell("ready")
        embedding, values = measure(method, workload, given, case["n_jobs"])
        peak = peak_bytes()
        tell("fitted", {**values, "idle_bytes": idle, "peak_bytes": peak, "above_idle_bytes": peak - idle})
        tell("scored", score(workload, data, embedding, method.scale_free))
    except ImportError as error:
        tell("failed", {"status": f"missing: {error}"})
    except Exception as error:
        traceback.print_exc()
        tell("failed", {"status": f"failed: {type(error).__name__}: {error}".splitlines()[0][:200]})


if __name__ == "__main__":
    main()
