"""A sheet of points on the ranks of engine="petsc", and by the ordinary engine with as many threads.

    python benchmarks/cluster_cost.py                           # a million points, 2 ranks, 2 threads
    python benchmarks/cluster_cost.py --points 200000 --only petsc --stages

Run it with a Python that has petsc4py and mpi4py; it starts mpiexec. Both read the same file. Times are of a
fit after a small one (everything is compiled): wall time, and processor time of the busiest rank or of all
threads together. On a machine that does other work too, compare the processor time of the busiest rank with
that of all threads divided by their number. Peaks include Python and its libraries.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from cases import markdown_table
from isoweave import embed_graph
from isoweave.graph import knn_graph
from isoweave.options import resolve_options
from process import environment, forget_peak, peak_bytes


def write_sheet(path: Path, n: int) -> None:
    """Points of a square, neighbours in random order, one archive that ranks can read in ranges."""
    graph = knn_graph(np.random.default_rng(0).random((n, 2)) * np.sqrt(n), 10, n_jobs=2)
    sp.save_npz(path, graph.to_matrix(), compressed=False)


class Clock:
    """Wall and processor seconds, and what happened between them."""

    def __init__(self) -> None:
        self.marks: list[tuple[str, float, float]] = []

    def stage(self, name: str) -> None:
        self.marks.append((name, time.perf_counter(), time.process_time()))

    def seconds(self) -> dict[str, tuple[float, float]]:
        """Of every stage, wall and processor."""
        found: dict[str, tuple[float, float]] = {}
        for (name, wall, cpu), (_, later, more) in zip(self.marks, self.marks[1:], strict=False):
            before = found.get(name, (0.0, 0.0))
            found[name] = (before[0] + later - wall, before[1] + more - cpu)
        return found


def on_threads(path: Path, n_threads: int) -> dict[str, Any]:
    """The fit of the ordinary engine."""
    embed_graph(knn_graph(np.random.default_rng(1).random((20_000, 2)), 10), n_jobs=n_threads)
    forget_peak()
    clock = Clock()
    clock.stage("reading")
    matrix = sp.load_npz(path)
    clock.stage("fit")
    result = embed_graph(matrix, n_jobs=n_threads)
    clock.stage("end")
    facts = {"relative_energy": result.relative_energy, "steps": len(result.history) - 1}
    return {"peak": peak_bytes(), "seconds": clock.seconds(), **facts}


def on_ranks(path: Path) -> dict[str, Any]:
    """The fit of every rank; the seconds and the peak of the busiest, on the first rank."""
    from isoweave.cluster import Ranks, all_ranks, embed_share
    from isoweave.cluster._build import read_share, share_of
    from isoweave.cluster._job import _CountingReporter
    from isoweave.optimise import Run

    ranks = all_ranks()
    options = resolve_options(2, engine="petsc")
    small = knn_graph(np.random.default_rng(1).random((20_000, 2)), 10)
    embed_share(share_of(small, ranks.comm), options)
    ranks = Ranks(ranks.comm)
    forget_peak()
    clock, stages = Clock(), Clock()
    clock.stage("reading")
    share, _ = read_share(ranks, path)
    before = ranks.sent
    clock.stage("fit")

    class Say(_CountingReporter):
        def stage(self, name: str) -> None:
            stages.stage(name)

    say = Say(ranks, 0)
    _, facts = embed_share(share, options, run=Run(None, report=say))
    clock.stage("end")
    stages.stage("end")
    seconds = {name: ranks.max(np.array(pair)).tolist() for name, pair in clock.seconds().items()}
    parts = {name: ranks.max(np.array(pair)).tolist() for name, pair in stages.seconds().items()}
    after = ranks.sent
    found = {"relative_energy": facts["relative_energy"], "steps": facts["n_iter"]}
    found |= {"sent": ranks.max(after - before).tolist(), "per step": say.per_step()}
    found |= {"peak": int(ranks.max(peak_bytes())), "seconds": seconds, "stages": parts}
    return found if ranks.rank == 0 else {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--ranks", type=int, default=2, help="and threads of the ordinary engine")
    parser.add_argument("--only", choices=("cpu", "petsc"))
    parser.add_argument("--file", type=Path, help="the graph, made if it is not there; a temporary one")
    parser.add_argument("--stages", action="store_true", help="also messages, and the seconds of every stage")
    parser.add_argument("--worker", choices=("cpu", "petsc"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    if asked.worker:
        found = on_threads(asked.file, asked.ranks) if asked.worker == "cpu" else on_ranks(asked.file)
        if found:
            print(json.dumps(found), flush=True)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = asked.file or Path(folder) / "sheet.npz"
        if not path.exists():
            write_sheet(path, asked.points)
        rows = []
        for engine in ("cpu", "petsc"):
            if asked.only in (None, engine):
                found = _measured(engine, path, asked.ranks)
                rows.append(_row(engine, asked.ranks, found))
                if asked.stages and engine == "petsc":
                    for what in ("sent", "per step"):
                        messages, n_bytes = found[what]
                        print(f"{what}: {messages:,.0f} messages, {n_bytes / 1e6:.2f} MB", file=sys.stderr)
                    for name, (wall, cpu) in found["stages"].items():
                        print(f"{name}: {wall:.1f} s, {cpu:.1f} CPU s", file=sys.stderr)
    heads = ("engine", "reading, s", "fit, s", "fit, CPU s", "peak, GB", "relative energy", "steps")
    print("\n".join(markdown_table(heads, rows)))


def _measured(engine: str, path: Path, n: int) -> dict[str, Any]:
    own = [
        sys.executable,
        "-W",
        "ignore",
        __file__,
        "--worker",
        engine,
        "--file",
        str(path),
        "--ranks",
        str(n),
    ]
    line = own if engine == "cpu" else ["mpiexec", "--oversubscribe", "-n", str(n), *own]
    env = environment(n if engine == "cpu" else 1)
    done = subprocess.run(line, stdout=subprocess.PIPE, text=True, env=env, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _row(engine: str, n: int, found: dict[str, Any]) -> list[str]:
    (reading, _), (wall, cpu) = found["seconds"]["reading"], found["seconds"]["fit"]
    title = f"cpu, {n} threads" if engine == "cpu" else f"petsc, {n} ranks"
    numbers = [f"{reading:.1f}", f"{wall:.1f}", f"{cpu:.1f}", f"{found['peak'] / 1e9:.2f}"]
    return [title, *numbers, f"{found['relative_energy']:.3e}", str(found["steps"])]


if __name__ == "__main__":
    main()
