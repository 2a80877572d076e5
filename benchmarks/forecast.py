"""Predicted against measured: peak memory and processor time of fits of many kinds of graphs.

    python benchmarks/forecast.py                          # all graphs, about 15 minutes
    python benchmarks/forecast.py --only "swiss 2k" "hub"  # some
    python benchmarks/forecast.py --keep --stages          # predict anew, fit nothing that has been fitted
    python benchmarks/forecast.py --write                  # and put the table into docs/forecast.md

Every fit runs in a process of its own, which has made it once before, so that compiled code is loaded;
the kernel reports its peak in every stage. Road, mesh and MNIST are left out where ISOWEAVE_DATA names no
folder. Graphs and measurements are kept in build/benchmarks/forecast.
"""

from __future__ import annotations

import argparse
import json
import logging
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from calibrate import calibration_seconds
from isoweave import datasets, embed_graph, estimate_resources
from isoweave.graph import knn_graph
from process import forget_peak, peak_bytes

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build" / "benchmarks" / "forecast"
PAGE = ROOT / "docs" / "forecast.md"
MARKS = ("<!-- table: benchmarks/forecast.py --write -->", "<!-- end of table -->")
SEED = 61
LOW, HIGH = -0.05, 0.25

Make = Callable[[int], sp.csr_array]
# Stages of the forecast by what a fit reports.
STAGES = {
    "order": "graph",
    "shortcuts": "shortcuts",
    "frames": "frames",
    "factor": "solver",
    "optimise": "optimise",
    "recursion": "optimise",
}


def cloud(make: Callable[..., Any], k: int) -> Make:
    """Neighbour graphs of a data set by its number of points."""
    return lambda n: knn_graph(make(n, random_state=SEED).data, k).to_matrix()


def box(k: int, *sides: float) -> Make:
    """Neighbour graphs of points in a box."""
    return lambda n: knn_graph(
        np.random.default_rng(SEED).uniform(size=(n, len(sides))) * sides, k
    ).to_matrix()


def normal(k: int, dimension: int) -> Make:
    return lambda n: knn_graph(np.random.default_rng(SEED).normal(size=(n, dimension)), k).to_matrix()


def joined(n: int, pairs: Any, lengths: Any) -> sp.csr_array:
    half = sp.coo_array((lengths, np.transpose(pairs)), shape=(n, n)).tocsr()
    return sp.csr_array(half.maximum(half.T))


def grid(n: int) -> sp.csr_array:
    """A square of unit cells without diagonals."""
    side = round(n**0.5)
    number = np.arange(side * side).reshape(side, side)
    pairs = [
        np.stack((a.ravel(), b.ravel()), 1)
        for a, b in ((number[1:], number[:-1]), (number.T[1:], number.T[:-1]))
    ]
    return joined(side * side, np.concatenate(pairs), np.ones(2 * side * (side - 1)))


def hub(n: int) -> sp.csr_array:
    """A swiss roll whose first vertex is joined to a sixth of all."""
    roll = datasets.swiss_roll(n, random_state=SEED)
    far = np.random.default_rng(SEED).choice(np.arange(1, n), n // 6, replace=False)
    spokes = np.stack((np.zeros(len(far), dtype=int), far), 1)
    lengths = np.linalg.norm(roll.truth[far] - roll.truth[0], axis=1)
    return sp.csr_array(knn_graph(roll.data, 10).to_matrix().maximum(joined(n, spokes, lengths)))


def scale_free(n: int, m: int = 3) -> sp.csr_array:
    """Barabási-Albert: every new vertex is joined to m others, drawn by their degrees."""
    random = np.random.default_rng(SEED)
    ends = list(range(m)) * 2
    pairs = []
    for i in range(m, n):
        chosen = {ends[t] for t in random.integers(len(ends), size=m)}
        pairs += [(i, j) for j in chosen]
        ends += [*chosen, *[i] * len(chosen)]
    return joined(n, pairs, random.uniform(0.5, 1.5, len(pairs)))


def pieces(*shares: int) -> Make:
    """Swiss rolls, one of every share of the points."""
    return lambda n: sp.csr_array(
        sp.block_diag([cloud(datasets.swiss_roll, 10)(max(n // share, 20)) for share in shares])
    )


def crumbs(size: int) -> Make:
    """Many components of a few vertices."""

    def make(n: int) -> sp.csr_array:
        random = np.random.default_rng(SEED)
        return sp.csr_array(
            sp.block_diag(
                [knn_graph(random.uniform(size=(size, 2)), 6).to_matrix() for _ in range(n // size)]
            )
        )

    return make


def complete(n: int) -> sp.csr_array:
    points = np.random.default_rng(SEED).uniform(size=(n, 2))
    return sp.csr_array(np.linalg.norm(points[:, None] - points, axis=2))


def mnist(n: int) -> sp.csr_array:
    return knn_graph(datasets.load_mnist("test").data[:n], 15).to_matrix()


def road(n: int) -> sp.csr_array:
    return datasets.load_road("usa78k" if n > 10_000 else "oldenburg").graph


def mesh(n: int) -> sp.csr_array:
    return datasets.load_mesh("bunny" if n > 20_000 else "camelhead").graph


@dataclass(frozen=True)
class Case:
    """One row of the table."""

    name: str
    make: Make
    n: int
    n_components: int
    n_jobs: int = 2
    options: dict[str, Any] = field(default_factory=dict)


SWISS, CURVE = cloud(datasets.swiss_roll, 10), cloud(datasets.s_curve, 15)
SPHERE, TORUS = cloud(datasets.sphere, 8), cloud(datasets.flat_torus, 10)
FIVE, CUBE = cloud(datasets.difficult, 14), box(12, 1.0, 1.0, 1.0)
CASES = (
    Case("swiss 2k", SWISS, 2000, 2, 1),
    Case("swiss 20k", SWISS, 20_000, 2),
    Case("swiss 100k", SWISS, 100_000, 2),
    Case("swiss 200k", SWISS, 200_000, 2),
    Case("swiss 50k on a line", SWISS, 50_000, 1),
    Case("swiss 30k, N = 5", SWISS, 30_000, 5, 1),
    Case("swiss 50k, k = 20", cloud(datasets.swiss_roll, 20), 50_000, 2),
    Case("swiss 50k, frames of 40", SWISS, 50_000, 2, 1, {"frame_size": 40}),
    Case("S-curve 10k, jacobi", CURVE, 10_000, 2, 2, {"solver": "jacobi"}),
    Case("S-curve 50k, amg", CURVE, 50_000, 2, 2, {"solver": "amg"}),
    Case("S-curve 5k, synchronized", CURVE, 5000, 2, 2, {"start": "synchronized"}),
    Case("S-curve 10k, paper's energy", CURVE, 10_000, 2, 2, {"inner_product": "paper", "start": "landmark"}),
    Case("sphere 50k", SPHERE, 50_000, 3, 1),
    Case("torus 20k, landmarks", TORUS, 20_000, 3, 2, {"start": "landmark", "scale": "geodesics"}),
    Case("cube 30k", CUBE, 30_000, 3),
    Case("cube 100k, amg", CUBE, 100_000, 3, 2, {"solver": "amg"}),
    Case("5-D 5k", FIVE, 5000, 5),
    Case("5-D 20k", FIVE, 20_000, 5),
    Case("8-D normal 10k", normal(15, 8), 10_000, 8),
    Case("13-D normal 8k", normal(15, 13), 8000, 13),
    Case("MNIST 10k, k = 15", mnist, 10_000, 13),
    Case("square grid 90k", grid, 90_000, 2),
    Case("strip 60k", box(10, 400.0, 1.0), 60_000, 2),
    Case("road 78k", road, 78_040, 2),
    Case("bunny 35k", mesh, 34_834, 3),
    Case("hub 60k", hub, 60_000, 2),
    Case("scale-free 5k", scale_free, 5000, 2),
    Case("scale-free 20k", scale_free, 20_000, 2),
    Case("scale-free 50k", scale_free, 50_000, 2),
    Case("scale-free 20k, N = 5", scale_free, 20_000, 5),
    Case("five pieces 100k", pieces(2, 4, 8, 16, 32), 100_000, 2),
    Case("40 pieces 20k", pieces(*[40] * 40), 20_000, 2),
    Case("1,000 pieces of 20", crumbs(20), 20_000, 2),
    Case("swiss 5k, k = 100", cloud(datasets.swiss_roll, 100), 5000, 2),
    Case("5-D 5k, k = 100", cloud(datasets.difficult, 100), 5000, 5),
    Case("complete 1k", complete, 1000, 2),
    Case("paper, swiss 2k", SWISS, 2000, 2, 2, {"preset": "paper", "max_iter": 100}),
    Case("paper, torus 2k", TORUS, 2000, 3, 1, {"preset": "paper", "max_iter": 100}),
)


class Stopwatch(logging.Handler):
    """Peak and processor seconds of every stage, from the stages that a fit reports."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.stages: dict[str, list[float]] = {}
        self.resident = forget_peak()
        self._stage, self._clock = "graph", time.process_time()

    def emit(self, record: logging.LogRecord) -> None:
        event = getattr(record, "isoweave_event", None)
        if event is not None:
            self.lap(STAGES.get(event.stage, "start"))

    def lap(self, following: str) -> None:
        now, peak = time.process_time(), peak_bytes()
        kept = self.stages.setdefault(self._stage, [0, 0.0])
        kept[0] = max(kept[0], peak - self.resident)
        kept[1] += now - self._clock
        Path("/proc/self/clear_refs").write_text("5")
        self._stage, self._clock = following, time.process_time()


def child(path: str, n_components: int, n_jobs: int, options: dict[str, Any]) -> dict[str, Any]:
    """Fit in this process, whose compiled code is loaded."""
    warnings.simplefilter("ignore")
    # The check of the limit would take a look at the graph itself.
    options = {"n_jobs": n_jobs, "memory_limit": "none", **options}
    graph = sp.load_npz(path)
    embed_graph(graph, n_components, **options)
    watch = Stopwatch()
    logger = logging.getLogger("isoweave")
    logger.setLevel(logging.INFO)
    logger.addHandler(watch)
    wall = time.perf_counter()
    result = embed_graph(graph, n_components, **options)
    wall = time.perf_counter() - wall
    watch.lap("")
    return {
        "resident": watch.resident,
        "growth": max(growth for growth, _ in watch.stages.values()),
        "cpu": sum(seconds for _, seconds in watch.stages.values()),
        "wall": wall,
        # Processors are slower when others are at work beside them: see calibrate.py.
        "reference": calibration_seconds()[1],
        "solver": result.solver.split(":")[0],
        "start": result.start,
        "steps": result.n_iter,
        "stages": watch.stages,
    }


def graph_file(case: Case, n: int) -> Path:
    path = FOLDER / f"{''.join(c if c.isalnum() else '-' for c in case.name)}-{n}.npz"
    if not path.exists():
        sp.save_npz(path, case.make(n), compressed=False)
    return path


def measured(case: Case, keep: bool) -> dict[str, Any]:
    """Measurements of a case, old or new."""
    graph = graph_file(case, case.n)
    path = graph.with_suffix(".json")
    if keep and path.exists():
        return dict(json.loads(path.read_text()))
    job = [str(graph), case.n_components, case.n_jobs, case.options]
    command = [sys.executable, __file__, "--child", json.dumps(job)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{case.name}: {done.stderr.strip().splitlines()[-1]}")
    path.write_text(done.stdout)
    return dict(json.loads(done.stdout))


def compared(case: Case, keep: bool) -> dict[str, Any]:
    """Measurements and prediction."""
    record = measured(case, keep)
    graph = sp.load_npz(graph_file(case, case.n))
    clock = time.process_time()
    estimate = estimate_resources(graph, case.n_components, n_jobs=case.n_jobs, **case.options)
    record["predicting"] = time.process_time() - clock
    record["estimate"] = estimate
    record["error"] = (record["resident"] + estimate.growth_bytes) / (
        record["resident"] + record["growth"]
    ) - 1
    return {"case": case, **record}


HEAD = (
    "| graph | n | edges | N | threads | solver | peak, MB | error | growth, MB | predicted "
    "| CPU s | predicted | forecast, % of CPU |",
    "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
)


def row(r: dict[str, Any]) -> str:
    case, estimate = r["case"], r["estimate"]
    solver = r["solver"] if r["solver"] == estimate.solver else f"{r['solver']} (!)"
    return (
        f"| {case.name} | {estimate.n_vertices:,} | {estimate.n_edges:,} | {case.n_components} "
        f"| {case.n_jobs} | {solver} | {(r['resident'] + r['growth']) / 1e6:,.0f} | {r['error']:+.0%} "
        f"| {r['growth'] / 1e6:,.0f} | {estimate.growth_bytes / 1e6:,.0f} "
        f"| {r['cpu']:.1f} | {estimate.cpu_seconds:.1f} | {100 * r['predicting'] / r['cpu']:.0f} |"
    )


def stage_rows(r: dict[str, Any]) -> list[str]:
    """Measured and predicted by stage: MB and processor seconds."""
    found = {stage.name: stage for stage in r["estimate"].stages}
    return [
        f"    {name:10} {growth / 1e6:8,.0f} {found[name].growth_bytes / 1e6:8,.0f} MB"
        f" {seconds:8.2f} {found[name].cpu_seconds:8.2f} s"
        for name, (growth, seconds) in r["stages"].items()
        if name in found
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="+", help="names of graphs, or parts of them")
    parser.add_argument("--keep", action="store_true", help="do not fit again what has been measured")
    parser.add_argument("--stages", action="store_true", help="show every stage")
    parser.add_argument("--write", action="store_true", help="put the table into docs/forecast.md")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(child(*json.loads(options.child))))
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    # Where compiled code is not loaded yet, it is predicted too.
    embed_graph(grid(100), 2)
    records = []
    for case in CASES:
        if options.only and not any(part in case.name for part in options.only):
            continue
        try:
            records.append(compared(case, options.keep))
        except datasets.DatasetMissingError:
            print(f"{case.name}: left out, {datasets.DATA_VARIABLE} names no folder that holds it")
            continue
        print("\n".join([row(records[-1]), *(stage_rows(records[-1]) if options.stages else [])]), flush=True)
    outside = [r["case"].name for r in records if not LOW <= r["error"] <= HIGH]
    print(f"{len(records)} graphs, {len(outside)} outside {LOW:+.0%} .. {HIGH:+.0%}: {', '.join(outside)}")
    if options.write:
        head, rest = PAGE.read_text(encoding="utf-8").split(MARKS[0])
        lines = [head + MARKS[0], "", *HEAD, *map(row, records), "", MARKS[1] + rest.split(MARKS[1])[1]]
        PAGE.write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
