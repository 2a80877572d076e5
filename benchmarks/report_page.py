"""A report of many points: time to write, size, and how it behaves in a browser; the table of docs/report.md.

    python benchmarks/report_page.py --points 10000     # prints only
    python benchmarks/report_page.py --write            # 100,000 points, into docs/report.md

A swiss roll with 10 neighbours per point and three columns. The browser is a headless Chromium without a
graphics card (SwiftShader), driven as in the tests; a card is faster. Medians of five.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from cases import ROOT, markdown_table
from isoweave import IsometricEmbedding
from isoweave.datasets import swiss_roll
from isoweave.report import write_report

sys.path.insert(0, str(ROOT / "tests" / "report"))
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
  await isoweaveReport.draw()"""
ZOOM = """await Plotly.relayout("map", (() => {
  const r = document.getElementById("map")._fullLayout.xaxis.range;
  const d = 0.02 * (r[1] - r[0]); return {"xaxis.range": [r[0] + d, r[1] - d]}; })())"""


def measure(n: int) -> dict[str, str]:
    """What the table holds, by name."""
    from headless import Browser

    roll = swiss_roll(n, random_state=7)
    model = IsometricEmbedding(n_neighbors=10).fit(roll.data)
    columns = {
        "sheet": roll.truth[:, 0],
        "height": roll.truth[:, 1],
        "quarter": np.digitize(roll.truth[:, 0], np.quantile(roll.truth[:, 0], [0.25, 0.5, 0.75])),
    }
    found = {"points": f"{n:,}", "edges": f"{model.graph_.nnz // 2:,}"}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "report.html")
        clock = time.perf_counter()
        write_report(model, path, columns=columns, diagnosis=False, metrics=False)
        found["written without metrics, s"] = f"{time.perf_counter() - clock:.1f}"
        clock = time.perf_counter()
        write_report(model, path, columns=columns, diagnosis=False)
        found["written with metrics, s"] = f"{time.perf_counter() - clock:.1f}"
        found["size, MB"] = f"{path.stat().st_size / 1e6:.1f}"
        browser = Browser(Path(folder, "profile"))
        try:
            found.update(_in_browser(browser, path))
        finally:
            browser.close()
    return found


def _in_browser(browser: Any, path: Path) -> dict[str, str]:
    opened = []
    for _ in range(3):
        clock = time.perf_counter()
        browser.open(path.as_uri())
        browser.screenshot()
        opened.append(time.perf_counter() - clock)

    def median(script: str) -> str:
        return f"{statistics.median(browser.evaluate(TIMED % script) for _ in range(REPEATS)):.2f}"

    return {
        "drawn after opening, s": f"{statistics.median(opened):.1f}",
        "another colour, s": median(COLOR),
        "a step of zoom, s": median(ZOOM),
        "first vertex picked, s": f"{browser.evaluate(TIMED % 'await isoweaveReport.pick(1234)'):.2f}",
        "another vertex picked, s": median("await isoweaveReport.pick(1 + isoweaveReport.state.picked)"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=100_000)
    parser.add_argument("--write", action="store_true", help="write docs/report.md")
    options = parser.parse_args()
    found = measure(options.points)
    text = "\n".join(markdown_table(("", ""), found.items()))
    print(text)
    if options.write:
        page = PAGE.read_text(encoding="utf-8")
        before, rest = page.split(START)
        PAGE.write_text(f"{before}{START}\n{text}\n{END}{rest.split(END, 1)[1]}", encoding="utf-8")


if __name__ == "__main__":
    main()
