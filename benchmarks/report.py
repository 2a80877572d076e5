"""Tables of docs/performance.md and docs/figures/scaling.png from the records of run.py.

    python benchmarks/report.py              # prints the tables
    python benchmarks/report.py --write      # puts them into the page, and draws the figure
    python benchmarks/report.py --records build/benchmarks/runs/MACHINE/{CODE,peers}.jsonl --write

Only what stands between the page's markers is replaced; the text around them is written by hand.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from cases import ROOT, markdown_table
from ledger import Record, case_of, machine, open_ledger, read_records
from methods import METHODS
from scaling_plot import draw_scaling
from stages import STAGES
from targets import COLD, TARGETS, Records, exponent, finished, hub_ratio
from workloads import WORKLOADS

PAGE = ROOT / "docs" / "performance.md"
FIGURE = ROOT / "docs" / "figures" / "scaling.png"
# Above this the machine did something else meanwhile.
BUSY = 1.15
QUALITY = {
    "f1": "F1",
    "local_distance": "edge error",
    "pearson": "Pearson",
    "procrustes_error": "procrustes",
    "parameter_error": "parameter error",
}


def target_section(records: Records) -> Iterator[str]:
    """Every target with what was measured."""
    lines = []
    for target in TARGETS:
        value = target.measure(records)
        shown = "not run" if value is None else f"{_digits(value)}{target.unit}"
        verdict = "" if value is None else ("met" if target.is_met(value) else "**not met**")
        lines.append((target.text, f"{target.relation} {target.limit:g}{target.unit}", shown, verdict))
    yield from markdown_table(("target", "limit", "measured", ""), lines)


def peer_section(records: Records) -> Iterator[str]:
    """A table per data set: every method over isoweave."""
    for workload in WORKLOADS.values():
        found = {case: r for case, r in records.items() if case[1] == workload.name}
        if workload.is_graph or not found:
            continue
        quality = {key: label for key, label in QUALITY.items() if any(key in r for r in found.values())}
        head = ("points", "method", "time", "processor", "memory", *quality.values(), "seconds", "MB")
        lines = [
            _peer_line(records, found[case], quality)
            for n in sorted({case[2] for case in found})
            for case in ((name, workload.name, n) for name in METHODS)
            if case in found
        ]
        yield from (f"### {workload.title}", "", *markdown_table(head, lines), "")


def _peer_line(records: Records, record: Record, quality: dict[str, str]) -> tuple[str, ...]:
    method, workload, n = case_of(record)
    title = METHODS[method].title
    name = f"**{title}**" if method == "isoweave" else title
    ours = finished(records, "isoweave", workload, n)
    if record["status"] != "ok":
        times = ""
        if record["status"].startswith("stopped after") and ours is not None:
            times = f"> {_digits(record['limit'] / ours['wall'])}"
        return (f"{n:,}", name, times, *("" for _ in range(2 + len(quality))), record["status"], "")
    keys = ("wall", "cpu", "above_idle_bytes")
    shares = [_digits(record[key] / ours[key]) if ours else "" for key in keys]
    scores = [_score(record.get(key), key) for key in quality]
    return (
        f"{n:,}",
        name,
        *shares,
        *scores,
        _digits(record["wall"]),
        f"{record['above_idle_bytes'] / 1e6:,.0f}",
    )


def stage_section(records: Records) -> Iterator[str]:
    """Processor microseconds per point of every stage."""
    lines = []
    for (method, name, n), record in sorted(records.items(), key=_by_workload):
        if method != "isoweave" or name not in WORKLOADS or record["status"] != "ok":
            continue
        stages = record["stages"]
        per_point = [_micros(stages.get(stage, {}).get("cpu"), n) for stage in STAGES]
        solve, optimise = stages.get("solve"), stages.get("optimise")
        one_solve = _micros(solve["cpu"] / solve["calls"], n) if solve else ""
        # Every step has one solve, and so has every start that is tried.
        one_step = _micros(optimise["cpu"] / solve["calls"], n) if optimise and solve else ""
        whole = _micros(record["cpu"], n)
        title = WORKLOADS[name].title
        lines.append((title, f"{n:,}", *per_point, whole, one_step, one_solve, str(record["n_iter"])))
    head = ("data", "points", *STAGES, "whole", "one step", "one solve", "steps")
    yield from markdown_table(head, lines)


def scaling_section(records: Records) -> Iterator[str]:
    """Exponents between 50,000 and a million points."""
    yield "![Time and memory against the number of points](figures/scaling.png)"
    yield ""
    slopes = {name: exponent(records, key) for name, key in (("processor", "cpu"), ("wall", "wall"))}
    if None in slopes.values():
        yield "Exponents between 50,000 and 1,000,000 points: not run."
    else:
        shown = ", ".join(f"{slope:.2f} ({name} time)" for name, slope in slopes.items())
        yield f"Exponents of isoweave between 50,000 and 1,000,000 points: {shown}."


def hub_section(records: Records) -> Iterator[str]:
    """With a hub against without."""
    lines = []
    for n in sorted({case[2] for case in records if case[1] == "hub"}):
        hub = finished(records, "isoweave", "hub", n)
        times, cpu = hub_ratio(records, n), hub_ratio(records, n, "cpu")
        if hub is None or times is None or cpu is None:
            continue
        lines.append((f"{n:,}", f"{n // 10:,}", _digits(times), _digits(cpu), _digits(hub["wall"])))
    head = ("vertices", "degree of the hub", "time, over no hub", "processor", "seconds")
    yield from markdown_table(head, lines)


def cold_section(records: Records) -> Iterator[str]:
    """Whole processes, start of Python included."""
    record = records.get(("isoweave", COLD, 1000))
    names = {
        "bare": "Python alone",
        "import": "`import isoweave`",
        "first": "first fit of 1,000 points, nothing compiled",
        "second": "the same in the next process",
        "graph_first": "first fit of a graph of 1,000 vertices, nothing compiled",
        "graph_second": "the same in the next process",
    }
    lines = [
        (text, f"{record[f'{name}_wall']:.2f}", f"{record[f'{name}_cpu']:.2f}")
        for name, text in names.items()
        if record is not None and f"{name}_wall" in record
    ]
    yield from markdown_table(("process", "seconds", "of processor"), lines)


def run_section(records: Records) -> Iterator[str]:
    """On what, when, with which versions, and how quiet the machine was."""
    ours = [r for case, r in records.items() if case[0] == "isoweave"]
    newest = max(ours or records.values(), key=lambda r: str(r["date"]))
    dates = sorted(str(r["date"])[:10] for r in records.values())
    packages = ", ".join(f"{name} {version}" for name, version in sorted(newest["versions"].items()))
    threads = sorted({int(r["n_jobs"]) for r in records.values()})
    yield f"- Machine {newest['machine']}, {' and '.join(map(str, threads))} threads for every method."
    version = newest["commit"] or "unknown"
    yield f"- {len(records)} cases, {dates[0]} to {dates[-1]}; isoweave at commit {version}."
    yield f"- {packages}."
    timed = [r for r in records.values() if "calibration_wall" in r]
    waits = [r["calibration_wall"] / r["calibration_cpu"] for r in timed]
    busy, worst = sum(wait > BUSY for wait in waits), max(waits, default=1.0)
    if busy:
        yield (
            f"- **The machine was busy**: in {busy} of {len(waits)} cases a fixed piece of work took up to "
            f"{worst:.1f} times its processor time. Only columns of processor time and memory hold."
        )
    else:
        yield f"- The machine was quiet: a fixed piece of work waited at most {worst - 1:.0%} of its time."


SECTIONS: dict[str, Callable[[Records], Iterator[str]]] = {
    "run": run_section,
    "targets": target_section,
    "peers": peer_section,
    "stages": stage_section,
    "scaling": scaling_section,
    "hub": hub_section,
    "cold start": cold_section,
}


def replace_sections(text: str, sections: dict[str, str]) -> str:
    """The page with every section between its markers replaced.

    Markers are ``<!-- begin NAME -->`` and ``<!-- end NAME -->`` on lines of their own.
    """
    for name, body in sections.items():
        pattern = re.compile(rf"(<!-- begin {name} -->\n).*?(^<!-- end {name} -->)", re.DOTALL | re.MULTILINE)
        text, count = pattern.subn(lambda m, body=body: f"{m[1]}{body.strip()}\n{m[2]}", text)
        if count != 1:
            raise ValueError(f"the page must have the markers of section {name!r} once, found {count} pairs")
    return text


def _by_workload(item: tuple[tuple[str, str, int], Record]) -> tuple[int, int]:
    (_, name, n), _ = item
    return ([*WORKLOADS].index(name) if name in WORKLOADS else -1), n


def _digits(value: float) -> str:
    """Two or three digits, as many as a single run supports."""
    if value >= 100:
        return f"{value:,.0f}"
    return (
        f"{value:.1f}"
        if value >= 10
        else f"{value:.2g}"
        if value < 1
        else f"{value:.2f}".rstrip("0").rstrip(".")
    )


def _micros(seconds: float | None, n: int) -> str:
    if seconds is None:
        return ""
    value = 1e6 * seconds / n
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


def _score(value: float | None, key: str) -> str:
    if value is None:
        return ""
    return f"{value:.1e}" if key == "procrustes_error" else f"{value:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--records", nargs="+", type=Path, help="record files; this machine's by default")
    parser.add_argument("--write", action="store_true", help="write the page and the figure")
    arguments = parser.parse_args()
    found = read_records(arguments.records) if arguments.records else list(open_ledger())
    if not found:
        raise SystemExit(
            f"no records of this version of isoweave on {machine()}: run benchmarks/run.py, or name files "
            "with --records"
        )
    records = {case_of(record): record for record in found}
    sections = {name: "\n".join(make(records)) for name, make in SECTIONS.items()}
    if not arguments.write:
        for name, body in sections.items():
            print(f"\n## {name}\n\n{body}")
        return
    page = replace_sections(PAGE.read_text(encoding="utf-8"), sections)
    PAGE.write_text(page, encoding="utf-8")
    draw_scaling(records, FIGURE)
    print(f"wrote {PAGE.relative_to(ROOT)} and {FIGURE.relative_to(ROOT)} from {len(records)} cases")


if __name__ == "__main__":
    main()
