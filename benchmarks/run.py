"""Time of every stage and of whole fits, with quality beside it.

    python benchmarks/run.py                    # 1,000 to 50,000 points
    python benchmarks/run.py --sizes 200000 1000000 --no-peers

Processor seconds of all threads and wall seconds are printed; on a shared machine compare ratios within one
run. Peers run on the same points. ``--json FILE`` appends one JSON line per row.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy

import isoweave
from isoweave._parallel import thread_team
from isoweave.datasets import swiss_roll
from isoweave.frames import calibrate_frames, local_frames
from isoweave.graph import drop_shortcuts, knn_graph, local_order, renumber
from isoweave.iteration import build_problem, coarse_start, find_landmarks, minimize_energy
from isoweave.metrics import local_distance, procrustes_error
from isoweave.operators import edge_inner_product

N_NEIGHBORS = 10
SEED = 17


class Stopwatch:
    """Collects (name, wall seconds, processor seconds)."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, float, float]] = []

    def __call__(self, name: str, task: Callable[[], Any]) -> Any:
        wall, cpu = time.perf_counter(), time.process_time()
        result = task()
        self.rows.append((name, time.perf_counter() - wall, time.process_time() - cpu))
        return result


def time_stages(data: np.ndarray, n_jobs: int | None) -> list[tuple[str, float, float]]:
    """Every stage of a default fit in two dimensions."""
    watch = Stopwatch()
    graph = watch("neighbours", lambda: knn_graph(data, N_NEIGHBORS, n_jobs=n_jobs))
    with thread_team(n_jobs) as team:
        order = watch("order", lambda: local_order(graph))
        if order is not None:
            graph = watch("renumber", lambda: renumber(graph, order))
        graph = watch("shortcuts", lambda: drop_shortcuts(graph, team=team).graph)
        raw = watch("frames", lambda: local_frames(graph, 2, team=team))
        frames = watch("calibrate", lambda: calibrate_frames(graph, raw))
        inner = edge_inner_product(graph, frames)
        problem = watch("factor", lambda: build_problem(graph, frames, inner, team=team))
        start = watch("landmark start", lambda: find_landmarks(graph, 2, team=team).start)
        coarse = watch("coarse start", lambda: coarse_start(graph, 2, team=team, tol=0.03))
        best = start if coarse is None else coarse
        result = watch("optimise", lambda: minimize_energy(problem, best, tol=0.03))
        watch("one solve", lambda: problem.poisson.solve(best))
        watch("one energy", lambda: problem.evaluate(best))
    print(f"    {result.n_iter} steps, {problem.poisson.choice.solver}: {problem.poisson.choice.reason}")
    return watch.rows


def methods(n: int, n_jobs: int | None, peers: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "isoweave": isoweave.IsometricEmbedding(2, n_neighbors=N_NEIGHBORS, n_jobs=n_jobs)
    }
    if peers and n <= 10_000:
        from sklearn.manifold import Isomap

        found["Isomap"] = Isomap(n_components=2, n_neighbors=N_NEIGHBORS, n_jobs=n_jobs)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 5000, 10_000, 50_000])
    parser.add_argument("--n-jobs", type=int, default=None)
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    # Compiled code is loaded or made before any clock runs, the large-graph paths included.
    isoweave.IsometricEmbedding(2).fit(swiss_roll(7000, random_state=SEED).data)
    records = []
    for n in options.sizes:
        roll = swiss_roll(n, random_state=SEED)
        print(f"\nswiss roll, {n:,} points, k = {N_NEIGHBORS}, N = 2")
        print(f"    {'':16s}{'wall s':>10s}{'cpu s':>10s}{'cpu us per point':>20s}")
        for name, wall, cpu in time_stages(roll.data, options.n_jobs):
            print(f"    {name:16s}{wall:10.3f}{cpu:10.3f}{1e6 * cpu / n:20.1f}")
            records.append({"n": n, "stage": name, "wall": wall, "cpu": cpu})
        base = None
        for name, method in methods(n, options.n_jobs, not options.no_peers).items():
            watch = Stopwatch()
            fitted = watch(name, partial(method.fit, roll.data))
            _, wall, cpu = watch.rows[0]
            base = base or (wall, cpu)
            graph = getattr(fitted, "graph_", None)
            scores = {"procrustes": procrustes_error(roll.truth, fitted.embedding_)}
            if graph is not None:
                scores["edges"] = local_distance(graph, fitted.embedding_)
            shown = ", ".join(f"{key} {value:.2e}" for key, value in scores.items())
            ratio = f"{wall / base[0]:.1f} x the time of isoweave" if name != "isoweave" else ""
            print(f"  {name}: {wall:.2f} s, {cpu:.2f} s of processor; {shown}  {ratio}")
            records.append({"n": n, "method": name, "wall": wall, "cpu": cpu, **scores})
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        print(f"  peak memory of the process so far {peak:.2f} GB")
    if options.json is not None:
        versions = {"isoweave": isoweave.__version__, "numpy": np.__version__, "scipy": scipy.__version__}
        with options.json.open("a") as file:
            for record in records:
                file.write(json.dumps({**record, **versions}) + "\n")


if __name__ == "__main__":
    main()
