"""A long run over all targets by turns, which can be stopped and goes on where it was.

    python fuzz/long_run.py --inputs 1000000
    python fuzz/long_run.py --report            the table of what was done so far

Targets whose code is ours are led by coverage (``guided.py``, needs atheris), those that run pyarrow or
libhdf5 get mutated seeds in watched processes (``campaign.py``), and without atheris all do. Every chunk that
ends is one line of ``fuzz/found/long_run.jsonl``; one that is cut off does not count.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

from campaign import FOUND, run_target, shares
from fuzz_targets import TARGETS, WEIGHTS, guided_targets

LOG = FOUND / "long_run.jsonl"
GUIDED = Path(__file__).resolve().parent / "guided.py"
_CHUNK = 20_000
_SMALL_CHUNK = 50


def done_so_far() -> list[dict[str, Any]]:
    return [json.loads(line) for line in LOG.read_text().splitlines()] if LOG.exists() else []


def inputs_of(target: str, chunks: list[dict[str, Any]]) -> int:
    return sum(chunk["inputs"] for chunk in chunks if chunk["target"] == target)


def guided_chunk(target: str, count: int, seed: int) -> dict[str, Any]:
    """Run atheris in a process of its own; it ends at the first failure, and the next chunk goes on."""
    command = [sys.executable, str(GUIDED), "--target", target, "--inputs", str(count), "--seed", str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    executed = re.search(r"number_of_executed_units:\s*(\d+)", done.stderr)
    if executed is None and done.returncode < 0:
        # Killed from outside, or waiting for a machine that was too busy: nothing is known, nothing counts.
        return {"inputs": 0, "failures": 0, "contained": 0, "coverage": 0}
    if executed is None:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-3000:]}")
    covered = re.findall(r"cov: (\d+) ft: (\d+)", done.stderr)
    if done.returncode:
        (FOUND / f"{target}-{seed}.log").write_text(done.stdout[-4000:] + done.stderr[-20_000:])
    return {
        "inputs": int(executed[1]),
        "failures": int(done.returncode != 0),
        "contained": 0,
        "coverage": int(covered[-1][0]) if covered else 0,
    }


def mutated_chunk(target: str, count: int, seed: int) -> dict[str, Any]:
    failures = []
    for failure in run_target(target, count, seed):
        failures.append(failure)
        if not failure.is_contained:
            (FOUND / f"{target}-{seed}-{failure.number}.bin").write_bytes(failure.data)
            print(f"FAILED {target} seed {seed} input {failure.number}: {failure.what[:300]}", flush=True)
    contained = sum(failure.is_contained for failure in failures)
    return {"inputs": count, "failures": len(failures) - contained, "contained": contained}


def one_chunk(target: str, count: int, seed: int) -> dict[str, Any]:
    is_guided = target in guided_targets() and importlib.util.find_spec("atheris") is not None
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    counted = (guided_chunk if is_guided else mutated_chunk)(target, count, seed)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    engine = "atheris" if is_guided else "mutation"
    return {"target": target, "engine": engine, "seed": seed, **counted, "cpu_seconds": round(seconds, 1)}


def long_run(n_inputs: int) -> None:
    """Chunks by turns, always of the target that is furthest behind its share."""
    FOUND.mkdir(exist_ok=True)
    goals = shares(n_inputs, list(TARGETS))
    while True:
        chunks = done_so_far()
        behind = {name: goals[name] - inputs_of(name, chunks) for name in goals}
        target = max(behind, key=lambda name: behind[name] / goals[name])
        if behind[target] <= 0:
            return
        limit = _CHUNK if WEIGHTS[target] >= 0.1 else _SMALL_CHUNK
        seed = 1000 + len(chunks)
        chunk = one_chunk(target, min(limit, max(1, behind[target])), seed)
        with LOG.open("a") as stream:
            stream.write(json.dumps(chunk) + "\n")
        print(json.dumps(chunk), flush=True)


def report() -> str:
    """A Markdown table, one row per target."""
    chunks = done_so_far()
    rows = [
        "| target | engine | inputs | failures | crashes contained | processor s |",
        "|---|---|---|---|---|---|",
    ]
    for name in TARGETS:
        mine = [chunk for chunk in chunks if chunk["target"] == name]
        counts = (sum(chunk[key] for chunk in mine) for key in ("inputs", "failures", "contained"))
        engines = " and ".join(sorted({chunk["engine"] for chunk in mine}))
        seconds = sum(chunk["cpu_seconds"] for chunk in mine)
        rows.append(f"| {name} | {engines} | {' | '.join(f'{n:,}' for n in counts)} | {seconds:,.0f} |")
    totals = [
        sum(chunk[key] for chunk in chunks) for key in ("inputs", "failures", "contained", "cpu_seconds")
    ]
    rows.append(f"| all | | {' | '.join(f'{n:,.0f}' for n in totals)} |")
    return "\n".join(rows)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--inputs", type=int, default=1_000_000, help="in all, shared among the targets")
    parser.add_argument("--report", action="store_true", help="print the table and run nothing")
    options = parser.parse_args()
    if not options.report:
        long_run(options.inputs)
    print(report())
    return 1 if any(chunk["failures"] for chunk in done_so_far()) else 0


if __name__ == "__main__":
    sys.exit(main())
