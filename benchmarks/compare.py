"""Two versions of isoweave, or two machines, case by case and stage by stage.

    python benchmarks/compare.py A B [--key cpu] [--workloads swiss]

A and B are record files (build/benchmarks/runs/MACHINE/CODE.jsonl) or the beginning of the name of one, or of
the commit it was made from. Printed are B over A: below 1, B is better.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from ledger import RUNS, Case, Record, case_of, read_records


def find_file(name: str) -> Path:
    """The one record file that is meant."""
    path = Path(name)
    if path.is_file():
        return path
    files = sorted(f for f in RUNS.glob("*/*.jsonl") if f.name != "peers.jsonl")
    found = [f for f in files if f.name.startswith(name) or _commit(f).startswith(name)]
    if len(found) != 1:
        there = "\n".join(f"  {f}  (commit {_commit(f)})" for f in found or files) or "  none"
        raise SystemExit(f"{name!r} names {len(found)} record files; there are\n{there}")
    return found[0]


def _commit(path: Path) -> str:
    records = read_records([path])
    return str(records[-1].get("commit", "")) if records else ""


def numbers(record: Record, key: str) -> dict[str, float]:
    """Seconds of every stage, the whole, bytes and steps of one record."""
    if record["status"] != "ok" or "stages" not in record:
        return {}
    found = {name: float(stage[key]) for name, stage in record["stages"].items()}
    # Steps may change in number: per step and per solve is what a change of the code shows up in.
    for name in ("solve", "energy"):
        if name in found:
            found[f"one {name}"] = found.pop(name) / max(record["stages"][name]["calls"], 1)
    found |= {"whole": float(record[key]), "memory": float(record["above_idle_bytes"])}
    return {**found, "steps": float(record["n_iter"])}


def compare(first: list[Record], second: list[Record], key: str) -> Iterator[tuple[Case, str, float, float]]:
    """Case, stage and the two numbers, where both files have them."""
    others = {case_of(record): record for record in second}
    for record in sorted(first, key=lambda r: (r["workload"], r["n"])):
        other = others.get(case_of(record))
        if other is None:
            continue
        a, b = numbers(record, key), numbers(other, key)
        yield from ((case_of(record), name, a[name], b[name]) for name in a if name in b)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("first", metavar="A")
    parser.add_argument("second", metavar="B")
    parser.add_argument("--key", choices=("cpu", "wall"), default="cpu")
    parser.add_argument("--workloads", nargs="+", help="only these")
    arguments = parser.parse_args()
    files = [find_file(name) for name in (arguments.first, arguments.second)]
    records = [
        [r for r in read_records([f]) if not arguments.workloads or r["workload"] in arguments.workloads]
        for f in files
    ]
    print(f"A {files[0]}\nB {files[1]}\n{arguments.key} seconds, bytes and steps\n")
    print(f"{'case':24s}{'stage':14s}{'A':>12s}{'B':>12s}{'B / A':>8s}")
    for (_, workload, n), stage, a, b in compare(records[0], records[1], arguments.key):
        share = f"{b / a:8.2f}" if a > 0 else ""
        print(f"{f'{workload} {n:,}':24s}{stage:14s}{a:12.4g}{b:12.4g}{share}")


if __name__ == "__main__":
    main()
