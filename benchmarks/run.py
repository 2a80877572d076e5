"""The performance suite: isoweave and its peers, stage by stage and end to end, with quality beside time.

    python benchmarks/run.py                      # sizes up to 50,000 (make bench)
    python benchmarks/run.py --full               # everything, a million points included (make bench-full)
    python benchmarks/run.py --quick              # 1,000 points, a look whether it works
    python benchmarks/run.py --workloads swiss --methods isoweave umap --sizes 10000
    python benchmarks/run.py --full --list        # what there is to run, and what it took last time

Every case (method, data, size) runs in a process of its own, on the same number of threads, with everything
compiled before the clock starts. Finished cases are kept (see ledger.py) and not run again, so the command
can be stopped and repeated; ``--again`` runs them anyway. MNIST is read from the folder that ISOWEAVE_DATA
names; without it a synthetic set of the same dimension takes its place. ``report.py`` makes the tables.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

from cold_start import N_POINTS, measure_cold_start
from ledger import Case, Ledger, Record, machine, open_ledger
from methods import METHODS
from process import environment, physical_bytes, run_watched
from targets import COLD
from workloads import WORKLOADS, available

STANDARD_MOST = 50_000
QUICK_MOST = 1_000
_MODULES = {"umap": "umap", "opentsne": "openTSNE", "pacmap": "pacmap"}


def select_cases(arguments: argparse.Namespace) -> Iterator[Case]:
    """Small cases first, so that a run that is stopped has something of everything."""
    methods = [m for m in METHODS.values() if arguments.methods is None or m.name in arguments.methods]
    wanted = arguments.workloads
    cases: list[Case] = []
    for workload in available():
        if wanted is not None and workload.name not in wanted:
            continue
        sizes = arguments.sizes or workload.sizes
        if arguments.quick:
            sizes = (QUICK_MOST,)
        elif not arguments.full and not arguments.sizes:
            sizes = [n for n in sizes if n <= STANDARD_MOST]
        if workload.most is not None:
            sizes = [n for n in sizes if n <= workload.most]
        full = arguments.full or bool(arguments.sizes)
        cases += [
            (m.name, workload.name, n) for n in sizes for m in methods if m.takes(workload, n, full=full)
        ]
    if (wanted is None or COLD in wanted) and "isoweave" in [m.name for m in methods]:
        cases.append(("isoweave", COLD, N_POINTS))
    order = [*METHODS]
    yield from sorted(cases, key=lambda case: (case[2], case[1], order.index(case[0])))


def run_case(case: Case, n_jobs: int, limit: float, memory_limit: float) -> Record:
    """Measure one case in processes of its own."""
    method, workload, n = case
    head = {"method": method, "workload": workload, "n": n, "n_jobs": n_jobs}
    if workload == COLD:
        values: Record = {"status": "ok", **measure_cold_start(n_jobs)}
    else:
        command = [sys.executable, str(Path(__file__).with_name("measure.py")), json.dumps(head)]
        values = run_watched(
            command, environment(n_jobs), prepare_limit=1800, limit=limit, memory_limit=memory_limit
        )
    return {**head, "limit": limit, **values}


def describe(record: Record | None) -> str:
    """One line about a record."""
    if record is None:
        return "not run"
    if record["status"] != "ok":
        return str(record["status"])
    if record["workload"] == COLD:
        names = ("import", "first", "second")
        return ", ".join(f"{name} {record[f'{name}_wall']:.2f} s" for name in names)
    parts = [f"{record['wall']:.2f} s, {record['cpu']:.2f} s of processor"]
    parts.append(f"{record['above_idle_bytes'] / 1e6:.0f} MB")
    labels = {"f1": "F1", "local_distance": "edges", "pearson": "Pearson", "procrustes_error": "procrustes"}
    parts += [f"{label} {record[name]:.3g}" for name, label in labels.items() if record.get(name) is not None]
    return ", ".join(parts)


def run(cases: list[Case], ledger: Ledger, arguments: argparse.Namespace) -> None:
    """Run what is missing."""
    memory_limit = arguments.memory * 1e9 if arguments.memory else 0.85 * physical_bytes()
    for number, case in enumerate(cases, start=1):
        title = f"[{number}/{len(cases)}] {case[1]} {case[2]:,} {case[0]}"
        if not arguments.again and ledger.is_done(case, arguments.n_jobs, arguments.limit):
            print(f"{title}: kept, {describe(ledger.get(case))}", flush=True)
            continue
        module = _MODULES.get(case[0])
        if module is not None and importlib.util.find_spec(module) is None:
            print(f"{title}: left out, {module} is not installed (pip install 'isoweave[bench]')", flush=True)
            continue
        record = run_case(case, arguments.n_jobs, arguments.limit, memory_limit)
        if not record["status"].startswith("missing"):
            ledger.add(record)
        print(f"{title}: {describe(record)}", flush=True)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    how_much = parser.add_mutually_exclusive_group()
    how_much.add_argument("--full", action="store_true", help="all sizes")
    how_much.add_argument("--quick", action="store_true", help=f"{QUICK_MOST:,} points of everything")
    how_much.add_argument("--sizes", type=int, nargs="+")
    parser.add_argument("--workloads", nargs="+", choices=[*WORKLOADS, COLD], metavar="NAME")
    parser.add_argument("--methods", nargs="+", choices=METHODS, metavar="NAME")
    parser.add_argument("--n-jobs", type=int, default=2, help="threads of every method and of BLAS")
    parser.add_argument("--limit", type=float, default=900.0, help="seconds a fit may take")
    parser.add_argument("--memory", type=float, help="GB a process may take; 85 %% of the machine's")
    parser.add_argument("--again", action="store_true", help="run finished cases too")
    parser.add_argument("--list", action="store_true", help="run nothing")
    return parser


def main() -> None:
    arguments = parser().parse_args()
    # A run that is told to end takes the case at work with it, which is in a group of its own.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    ledger = open_ledger()
    cases = list(select_cases(arguments))
    print(f"{len(cases)} cases on {machine()}, {arguments.n_jobs} threads", flush=True)
    if arguments.list:
        for case in cases:
            print(f"{case[1]} {case[2]:,} {case[0]}: {describe(ledger.get(case))}")
    else:
        run(cases, ledger, arguments)


if __name__ == "__main__":
    main()
