"""A report of many points: time to write, size, and work in a browser; the table of docs/report.md.

    python benchmarks/report_page.py --points 10000     # prints only
    python benchmarks/report_page.py --write            # 100,000 points, into docs/report.md

A swiss roll with 10 neighbours per point and three columns. The browser is a headless Chromium without a
graphics card, driven as in the tests. Processor seconds: of Python for writing; of the page (main thread and
its helpers) and of the process that draws (SwiftShader, in place of a card) afterwards. Medians of five.
"""

from __future__ import annotations

import argparse
import functools
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from cases import ROOT, markdown_table
from isoweave import IsometricEmbedding
from isoweave.datasets import swiss_roll
from isoweave.report import write_report

sys.path.insert(0, str(ROOT / "tests" / "reference"))
PAGE = ROOT / "docs" / "report.md"
START, END = "<!-- measured -->", "<!-- end -->"
REPEATS = 5

# Two frames after a drawing is asked for, it is on the screen.
TIMED = """(async () => {
  const start = performance.now();
  %s;
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  return (performance.now() - start) / 1000;
})()"""
COLOR = """(() => { const list = document.getElementById("color");
  list.value = String((Number(list.value) + 1) % 3); list.dispatchEvent(new Event("change")); })();
  await isoweaveReport.settled()"""
ZOOM = """isoweaveReport.camera.perPixel = isoweaveReport.camera.perPixel.map((p) => 0.96 * p);
  await isoweaveReport.draw()"""


def measure(n: int) -> list[tuple[str, str, str]]:
    """Lines of the table: what, by Python or the page, by the drawing process."""
    from headless import Browser

    roll = swiss_roll(n, random_state=7)
    model = IsometricEmbedding(n_neighbors=10).fit(roll.data)
    columns = {
        "sheet": roll.truth[:, 0],
        "height": roll.truth[:, 1],
        "quarter": np.digitize(roll.truth[:, 0], np.quantile(roll.truth[:, 0], [0.25, 0.5, 0.75])),
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "report.html")
        found = []
        for metrics in (False, True):
            clock = time.process_time()
            write_report(model, path, columns=columns, diagnosis=False, metrics=metrics)
            what = "with" if metrics else "without"
            found.append((f"written {what} metrics", f"{time.process_time() - clock:.1f}", ""))
        size = f"{n:,} points, {model.graph_.nnz // 2:,} edges, {path.stat().st_size / 1e6:.1f} MB"
        found.insert(0, (size, "processor seconds", "of drawing"))
        opened = []
        for attempt in range(3):
            browser = Browser(Path(folder, f"profile {attempt}"))
            try:
                opened.append(_cost(browser, lambda b: (b.open(path.as_uri()), b.screenshot())))
                if attempt == 2:
                    found.append(("opened and drawn", *_median(opened)))
                    found += _use(browser)
            finally:
                browser.close()
    return found


def _use(browser: Any) -> list[tuple[str, str, str]]:
    """What is done with the page, each several times."""
    steps = {
        "another colour": COLOR,
        "a step of zoom": ZOOM,
        "a vertex selected": "await isoweaveReport.pick(1 + isoweaveReport.state.picked)",
    }
    found = []
    for name, script in steps.items():
        run = functools.partial(_run, script=TIMED % script)
        found.append((name, *_median([_cost(browser, run) for _ in range(1 + REPEATS)][1:])))
    return found


def _run(browser: Any, script: str) -> None:
    browser.evaluate(script)


def _median(costs: list[tuple[float, float]]) -> tuple[str, str]:
    page, drawing = (statistics.median(column) for column in zip(*costs, strict=True))
    return f"{page:.2f}", f"{drawing:.2f}"


def _cost(browser: Any, action: Callable[[Any], object]) -> tuple[float, float]:
    """Processor seconds of the page's process and of the one that draws."""
    before = _seconds(browser)
    action(browser)
    time.sleep(0.3)  # the last frame is drawn after the page is done
    after = _seconds(browser)
    return tuple(after.get(kind, 0.0) - before.get(kind, 0.0) for kind in ("renderer", "gpu-process"))


def _seconds(browser: Any) -> dict[str, float]:
    """Processor seconds of a browser's processes so far, by their kind."""
    found: dict[str, float] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            command = (folder / "cmdline").read_text()
        except OSError:  # it has ended
            continue
        # The browser and all it starts are one session.
        if int(fields[3]) == browser.pid and (kind := re.search(r"--type=([\w-]+)", command)):
            ticks = int(fields[11]) + int(fields[12])
            found[kind[1]] = found.get(kind[1], 0.0) + ticks / os.sysconf("SC_CLK_TCK")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=100_000)
    parser.add_argument("--write", action="store_true", help="write docs/report.md")
    options = parser.parse_args()
    found = measure(options.points)
    text = "\n".join(markdown_table(found[0], found[1:]))
    print(text)
    if options.write:
        page = PAGE.read_text(encoding="utf-8")
        before, rest = page.split(START)
        PAGE.write_text(f"{before}{START}\n{text}\n{END}{rest.split(END, 1)[1]}", encoding="utf-8")


if __name__ == "__main__":
    main()
