"""Predicted against measured: peak memory and processor time of fits of 30 graphs.

    python benchmarks/forecast.py                          # all graphs, about ten minutes
    python benchmarks/forecast.py --only "swiss 2k" "hub"  # some
    python benchmarks/forecast.py --write                  # and put the table into docs/forecast.md

Every fit runs in a process of its own. That has loaded the compiled code on a small graph of the same kind,
reads the graph, predicts, and then embeds; the kernel tells the most memory it had since the prediction.
MNIST, the road and the mesh are left out where ISOWEAVE_DATA names no folder. Records go to
build/benchmarks/forecast.json.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from isoweave import datasets
from isoweave.graph import knn_graph

ROOT = Path(__file__).resolve().parents[1]
RECORDS = ROOT / "build" / "benchmarks" / "forecast.json"
PAGE = ROOT / "docs" / "forecast.md"
MARKS = ("<!-- table: benchmarks/forecast.py --write -->", "<!-- end of table -->")
SEED = 61
LOW, HIGH = -0.05, 0.25


def cloud(make: Callable[..., Any], k: int) -> Callable[[int], sp.csr_array]:
    """Neighbour graphs of a data set by its number of points."""
    return lambda n: knn_graph(make(n, random_state=SEED).data, k).to_matrix()


def uniform(k: int, *sides: float) -> Callable[[int], sp.csr_array]:
    """Neighbour graphs of points in a box."""
    return lambda n: knn_graph(
        np.random.default_rng(SEED).uniform(size=(n, len(sides))) * sides, k
    ).to_matrix()


def normal(k: int, dimension: int) -> Callable[[int], sp.csr_array]:
    return lambda n: knn_graph(np.random.default_rng(SEED).normal(size=(n, dimension)), k).to_matrix()


def grid(diagonals: bool) -> Callable[[int], sp.csr_array]:
    """A square of unit cells, with or without their diagonals."""

    def make(n: int) -> sp.csr_array:
        side = round(n**0.5)
        number = np.arange(side * side).reshape(side, side)
        pairs = [(number[1:], number[:-1], 1.0), (number[:, 1:], number[:, :-1], 1.0)]
        if diagonals:
            pairs += [(number[1:, 1:], number[:-1, :-1], 2**0.5), (number[1:, :-1], number[:-1, 1:], 2**0.5)]
        rows = np.concatenate([a.ravel() for a, _, _ in pairs])
        cols = np.concatenate([b.ravel() for _, b, _ in pairs])
        lengths = np.concatenate([np.full(a.size, length) for a, _, length in pairs])
        half = sp.coo_array((lengths, (rows, cols)), shape=(side * side,) * 2).tocsr()
        return sp.csr_array(half + half.T)

    return make


def hub(n: int) -> sp.csr_array:
    """A swiss roll whose first vertex is joined to a sixth of all."""
    roll = datasets.swiss_roll(n, random_state=SEED)
    graph = knn_graph(roll.data, 10).to_matrix().tolil()
    far = np.random.default_rng(SEED).choice(np.arange(1, n), n // 6, replace=False)
    lengths = np.linalg.norm(roll.truth[far] - roll.truth[0], axis=1)
    spokes = sp.coo_array((lengths, (np.zeros(len(far), dtype=int), far)), shape=(n, n)).tocsr()
    return sp.csr_array(graph.tocsr().maximum(spokes).maximum(spokes.T))


def pieces(n: int) -> sp.csr_array:
    """Swiss rolls of a half, a quarter, an eighth ... of the points."""
    sizes = [max(n // 2**i, 50) for i in range(1, 6)]
    return sp.csr_array(sp.block_diag([cloud(datasets.swiss_roll, 10)(size) for size in sizes]))


def mnist(n: int) -> sp.csr_array:
    return knn_graph(datasets.load_mnist("test").data[:n], 15).to_matrix()


def road(n: int) -> sp.csr_array:
    return datasets.load_road("usa78k" if n > 10_000 else "oldenburg").graph


def mesh(n: int) -> sp.csr_array:
    return datasets.load_mesh("bunny" if n > 20_000 else "camelhead").graph


@dataclass(frozen=True)
class Case:
    """One row of the table; the warm-up is the same kind of graph with fewer points."""

    name: str
    make: Callable[[int], sp.csr_array]
    n: int
    n_components: int
    n_jobs: int = 2
    options: dict[str, Any] = field(default_factory=dict)


SWISS, CURVE = cloud(datasets.swiss_roll, 10), cloud(datasets.s_curve, 15)
SPHERE, TORUS = cloud(datasets.sphere, 8), cloud(datasets.flat_torus, 10)
FIVE, CUBE = cloud(datasets.difficult, 14), uniform(12, 1.0, 1.0, 1.0)
CASES = (
    Case("swiss 2k", SWISS, 2000, 2, 1),
    Case("swiss 20k", SWISS, 20_000, 2),
    Case("swiss 100k", SWISS, 100_000, 2),
    Case("swiss 500k", SWISS, 500_000, 2),
    Case("swiss 1M", SWISS, 1_000_000, 2),
    Case("swiss 100k on a line", SWISS, 100_000, 1),
    Case("swiss 50k, N = 5", SWISS, 50_000, 5, 1),
    Case("swiss 100k, k = 20", cloud(datasets.swiss_roll, 20), 100_000, 2),
    Case("swiss 200k, k = 6, large frames", cloud(datasets.swiss_roll, 6), 200_000, 2, 1, {"frame_size": 40}),
    Case("S-curve 200k", CURVE, 200_000, 2),
    Case("S-curve 10k, jacobi", CURVE, 10_000, 2, 2, {"solver": "jacobi"}),
    Case("S-curve 100k, amg", CURVE, 100_000, 2, 2, {"solver": "amg"}),
    Case("S-curve 5k, synchronised", CURVE, 5000, 2, 2, {"start": "synchronised"}),
    Case("S-curve 15k, paper's energy", CURVE, 15_000, 2, 2, {"inner_product": "paper", "start": "landmark"}),
    Case("sphere 50k", SPHERE, 50_000, 3, 1),
    Case("sphere 300k", SPHERE, 300_000, 3),
    Case("torus 100k", TORUS, 100_000, 3),
    Case("torus 50k, landmarks", TORUS, 50_000, 3, 2, {"start": "landmark", "scale": "geodesics"}),
    Case("5-D 5k", FIVE, 5000, 5),
    Case("5-D 20k", FIVE, 20_000, 5),
    Case("5-D 50k, jacobi", FIVE, 50_000, 5, 2, {"solver": "jacobi"}),
    Case("cube 50k", CUBE, 50_000, 3),
    Case("cube 150k, amg", CUBE, 150_000, 3, 2, {"solver": "amg"}),
    Case("cube 20k, small frames", CUBE, 20_000, 3, 1, {"frame_size": 1.5}),
    Case("8-D normal 10k", normal(15, 8), 10_000, 8),
    Case("grid 160k", grid(diagonals=True), 160_000, 2),
    Case("square grid 90k", grid(diagonals=False), 90_000, 2),
    Case("strip 100k", uniform(10, 400.0, 1.0), 100_000, 2),
    Case("strip 100k on a line", uniform(10, 4000.0, 1.0), 100_000, 1),
    Case("hub 60k", hub, 60_000, 2),
    Case("five pieces 120k", pieces, 120_000, 2),
    Case("MNIST 10k, k = 15", mnist, 10_000, 13),
    Case("road 78k", road, 78_040, 2),
    Case("bunny 35k", mesh, 34_834, 3),
    Case("paper, swiss 2k", SWISS, 2000, 2, 2, {"preset": "paper", "max_iter": 100}),
    Case("paper, torus 2k", TORUS, 2000, 3, 1, {"preset": "paper", "max_iter": 100}),
)


def child(small: str, large: str, n_components: int, n_jobs: int, options: dict[str, Any]) -> dict[str, Any]:
    """Predict and fit in this process."""
    from isoweave import embed_graph, estimate_resources
    from isoweave._memory import process_status

    warnings.simplefilter("ignore")
    warm = sp.load_npz(small)
    estimate_resources(warm, n_components, n_jobs=n_jobs, **options)
    embed_graph(warm, n_components, n_jobs=n_jobs, **options)
    del warm
    graph = sp.load_npz(large)
    # Memory that the warm-up has left free would make the fit look smaller than it is.
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    clock = time.process_time()
    estimate = estimate_resources(graph, n_components, n_jobs=n_jobs, **options)
    predicting = time.process_time() - clock
    Path("/proc/self/clear_refs").write_text("5")
    clock, wall = time.process_time(), time.perf_counter()
    result = embed_graph(graph, n_components, n_jobs=n_jobs, **options)
    cpu, wall = time.process_time() - clock, time.perf_counter() - wall
    return {
        "n": graph.shape[0],
        "edges": graph.nnz // 2,
        "peak": process_status()["VmHWM"],
        "predicted_peak": estimate.peak_bytes,
        "predicted_growth": estimate.growth_bytes,
        "stage": estimate.fullest.name,
        "cpu": cpu,
        "wall": wall,
        "predicted_cpu": estimate.cpu_seconds,
        "predicted_wall": estimate.seconds,
        "predicting": predicting,
        "solver": result.solver.split(":")[0],
        "predicted_solver": estimate.solver,
        "steps": result.n_iter,
        "stages": {s.name: [s.growth_bytes, s.cpu_seconds] for s in estimate.stages},
    }


def measure(case: Case, folder: Path) -> dict[str, Any]:
    """Make the graphs of a case and run its process."""
    small, large = folder / "small.npz", folder / "large.npz"
    # The small graph takes the paths of the large one: above n N = 6,000 in up to three dimensions.
    fewer = min(case.n, 500 if "preset" in case.options else 7000 if case.n_components <= 3 else 2000)
    sp.save_npz(small, case.make(fewer), compressed=False)
    sp.save_npz(large, case.make(case.n), compressed=False)
    job = [str(small), str(large), case.n_components, case.n_jobs, case.options]
    command = [sys.executable, __file__, "--child", json.dumps(job)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{case.name}: {done.stderr.strip().splitlines()[-1]}")
    return {"name": case.name, "N": case.n_components, "n_jobs": case.n_jobs, **json.loads(done.stdout)}


def error(record: dict[str, Any]) -> float:
    """Of the predicted peak, relative to the measured one."""
    return float(record["predicted_peak"] / record["peak"] - 1)


def table(records: list[dict[str, Any]]) -> list[str]:
    lines = [
        "| graph | n | edges | N | threads | solver | peak, MB | predicted | error | growth, MB | predicted "
        "| CPU s | predicted | forecast, % of CPU |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for r in records:
        solver = r["solver"] if r["solver"] == r["predicted_solver"] else f"{r['solver']} (!)"
        growth = r["peak"] - (r["predicted_peak"] - r["predicted_growth"])
        lines.append(
            f"| {r['name']} | {r['n']:,} | {r['edges']:,} | {r['N']} | {r['n_jobs']} | {solver} "
            f"| {r['peak'] / 1e6:,.0f} | {r['predicted_peak'] / 1e6:,.0f} | {error(r):+.0%} "
            f"| {growth / 1e6:,.0f} | {r['predicted_growth'] / 1e6:,.0f} "
            f"| {r['cpu']:.1f} | {r['predicted_cpu']:.1f} | {100 * r['predicting'] / r['cpu']:.0f} |"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="+", help="names of graphs, or parts of them")
    parser.add_argument("--keep", action="store_true", help="do not run again what has a record")
    parser.add_argument("--write", action="store_true", help="put the table into docs/forecast.md")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(child(*json.loads(options.child))))
        return
    known = {r["name"]: r for r in json.loads(RECORDS.read_text())} if RECORDS.exists() else {}
    RECORDS.parent.mkdir(parents=True, exist_ok=True)
    for case in CASES:
        if options.only and not any(part in case.name for part in options.only):
            continue
        if options.keep and case.name in known:
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                known[case.name] = measure(case, Path(folder))
            except datasets.DatasetMissingError:
                print(f"{case.name}: left out, {datasets.DATA_VARIABLE} names no folder that holds it")
                continue
        RECORDS.write_text(json.dumps(list(known.values()), indent=1))
        print("\n".join(table([known[case.name]])[2:]), flush=True)
    records = [known[case.name] for case in CASES if case.name in known]
    outside = [r["name"] for r in records if not LOW <= error(r) <= HIGH]
    print(f"{len(records)} graphs, {len(outside)} outside {LOW:+.0%} .. {HIGH:+.0%}: {', '.join(outside)}")
    if options.write:
        text = PAGE.read_text(encoding="utf-8")
        head, rest = text.split(MARKS[0])
        tail = rest.split(MARKS[1])[1]
        PAGE.write_text(
            "\n".join([head + MARKS[0], "", *table(records), "", MARKS[1] + tail]), encoding="utf-8"
        )


if __name__ == "__main__":
    main()
