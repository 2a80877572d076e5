"""Guard against slowing down: counts of operations and ratios, compared with those last accepted.

    python benchmarks/guard.py               # measure and compare; the exit status tells
    python benchmarks/guard.py --counts      # only what takes seconds
    python benchmarks/guard.py --accept      # take what is measured as the new standard

No seconds are compared. The counts (counting.py) are the same on every machine up to rounding; the others are
bytes per point, compiled functions, and processor time over that of a fixed piece of work (calibrate.py).
The accepted numbers are in benchmarks/accepted/guard.json and tests/performance/test_guard.py compares
with them. Accept a worse number only with a reason, in the commit that makes it worse.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from calibrate import calibration_seconds
from counting import compiled_specialisations, counting
from isoweave import IsometricEmbedding
from process import environment, forget_peak, peak_bytes

ACCEPTED = Path(__file__).parent / "accepted" / "guard.json"
N_POINTS = 20_000

Numbers = dict[str, float]


@dataclass(frozen=True)
class GuardCase:
    """A fit whose operations are counted; ``quick`` ones are part of every test run."""

    name: str
    data: str
    n: int
    n_neighbors: int
    n_components: int
    solver: str = "auto"
    quick: bool = True


CASES = {
    case.name: case
    for case in (
        GuardCase("swiss-1500", "swiss_roll", 1500, 10, 2),
        GuardCase("swiss-5000", "swiss_roll", 5000, 10, 2),
        GuardCase("torus-1500", "flat_torus", 1500, 10, 3, quick=False),
        GuardCase("difficult-1500", "difficult", 1500, 14, 5),
        GuardCase("difficult-8000", "difficult", 8000, 14, 5, solver="amg", quick=False),
        GuardCase("curved13-4000", "curved_13", 4000, 15, 13, solver="jacobi", quick=False),
    )
}


class Allowance(NamedTuple):
    """Most that a number may be: ``factor`` times what was accepted, and ``slack``."""

    factor: float
    slack: float = 0.0


# Counts follow from the data; rounding moves the last steps of an optimiser by one or two.
ALLOWED = {
    "steps": Allowance(1.1, 1),
    "evaluations": Allowance(1.1, 2),
    "solves": Allowance(1.1, 2),
    "cg_iterations": Allowance(1.15, 5),
    "fill": Allowance(1.05),
    "settled": Allowance(1.02),
    "frame_work": Allowance(1.02),
    "frame_rows": Allowance(1.02),
    "searches": Allowance(1.0),
    "compiled": Allowance(1.0, 2),
    "traced bytes per point": Allowance(1.1),
    "resident bytes per point": Allowance(1.3),
    "fit over calibration": Allowance(1.6),
    "first fit over calibration": Allowance(1.6),
}


def load(case: GuardCase) -> Any:
    from isoweave import datasets
    from workloads import curved_13

    if case.data == "curved_13":
        return curved_13(case.n).data
    return getattr(datasets, case.data)(case.n, random_state=17).data


def count_operations(case: GuardCase) -> Numbers:
    """Counts of one fit on one thread."""
    data = load(case)
    model = IsometricEmbedding(case.n_components, n_neighbors=case.n_neighbors, solver=case.solver, n_jobs=1)
    with counting() as counts:
        model.fit(data)
    return {name: float(value) for name, value in sorted(counts.items())}


def measure_process() -> Numbers:
    """Memory, compiled functions and processor time, in a fresh process with nothing compiled."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "numbers.json"
        cache = Path(folder) / "cache"
        command = [sys.executable, __file__, "--measure", str(out)]
        done = subprocess.run(
            command, env=environment(1, NUMBA_CACHE_DIR=str(cache)), capture_output=True, text=True
        )
        if done.returncode:
            raise RuntimeError(f"the process that measures failed:\n{done.stderr[-2000:]}")
        numbers: Numbers = json.loads(out.read_text(encoding="utf-8"))
        return numbers


def _measure_here() -> Numbers:
    from isoweave.datasets import swiss_roll

    def fit(n: int) -> float:
        started = time.process_time()
        IsometricEmbedding(2, n_neighbors=10, n_jobs=1).fit(rolls[n])
        return time.process_time() - started

    rolls = {n: swiss_roll(n, random_state=17).data for n in (1000, N_POINTS)}
    calibration_seconds()
    small = min(calibration_seconds()[1] for _ in range(3))
    numbers = {"first fit over calibration": fit(1000) / small, "compiled": float(compiled_specialisations())}
    fit(N_POINTS)
    # Turn about, so that a disturbance meets both.
    times = [(fit(N_POINTS), calibration_seconds()[1]) for _ in range(3)]
    numbers["fit over calibration"] = min(t for t, _ in times) / min(t for _, t in times)
    idle = forget_peak()
    fit(N_POINTS)
    numbers["resident bytes per point"] = (peak_bytes() - idle) / N_POINTS
    tracemalloc.start()
    fit(N_POINTS)
    numbers["traced bytes per point"] = tracemalloc.get_traced_memory()[1] / N_POINTS
    return numbers


def violations(accepted: Numbers, measured: Numbers, where: str) -> Iterator[str]:
    """What is worse than allowed, and what is not counted any more."""
    for name, before in accepted.items():
        if name not in measured:
            yield f"{where}: {name!r} is no longer counted; mend benchmarks/counting.py or accept anew"
            continue
        limit = most(name, before)
        if measured[name] > limit:
            yield f"{where}: {name} {measured[name]:.6g}, accepted {before:.6g}, allowed {limit:.6g}"


def most(name: str, accepted: float) -> float:
    """Largest allowed value of a number."""
    allowance = ALLOWED[name]
    return allowance.factor * accepted + allowance.slack


def read_accepted() -> dict[str, Numbers]:
    """Numbers per case, and those of the process under "process"."""
    accepted: dict[str, Numbers] = json.loads(ACCEPTED.read_text(encoding="utf-8"))
    return accepted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--counts", action="store_true", help="only counts of operations")
    parser.add_argument("--accept", action="store_true", help="write what is measured to the accepted file")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        arguments.measure.write_text(json.dumps(_measure_here()), encoding="utf-8")
        return
    accepted = read_accepted() if ACCEPTED.exists() else {}
    tasks: dict[str, Callable[[], Numbers]] = {
        name: lambda case=case: count_operations(case) for name, case in CASES.items()
    }
    if not arguments.counts:
        tasks["process"] = measure_process
    measured = dict(accepted)
    wrong: list[str] = []
    for where, task in tasks.items():
        measured[where] = task()
        print(where)
        for name, value in measured[where].items():
            before = accepted.get(where, {}).get(name)
            print(f"  {name:28s}{value:14.6g}" + ("" if before is None else f"   accepted {before:.6g}"))
        wrong += violations(accepted.get(where, {}), measured[where], where)
    if arguments.accept:
        ACCEPTED.parent.mkdir(parents=True, exist_ok=True)
        kept = {where: measured[where] for where in (*CASES, "process") if where in measured}
        ACCEPTED.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    elif wrong:
        raise SystemExit("\n".join(["worse than accepted:", *wrong]))


if __name__ == "__main__":
    main()
