"""Tables, figures, the page and who wins where, of made-up runs and of those in the documentation."""

import csv
import re
import runpy
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from isoweave import experiments
from isoweave.experiments import EXPERIMENTS, FULL, compare, write_tables
from isoweave.experiments._tables import make_tables

RESULTS = Path(__file__).parents[2] / "docs" / "results"
KLEIN = EXPERIMENTS["klein"]


def record(method, seed, scores, experiment="klein", row="k8", error=None):
    status = "max_iter" if method == "paper" else "converged"
    numbers = {"n_vertices": 1500, "n_edges": 9000, "n_neighbors": 8, "n_components": 3, "seed": seed}
    took = {"steps": 5, "dropped_edges": 0, "seconds": 9.0, "cpu_seconds": 1.0 + seed, "scores": scores}
    texts = {"experiment": experiment, "row": row, "method": method, "scale": "full", "status": status}
    return numbers | took | texts | {"note": "", "error": error}


def frame_of(*parts):
    """A frame of made-up runs: (method, scores of each seed, changes), ..."""
    return experiments.runs_frame(
        record(method, seed, scores, **(changes[0] if changes else {}))
        for method, values, *changes in parts
        for seed, scores in enumerate(values)
    )


def frame_of_one(metric, values):
    return frame_of(*((name, [{metric: v} for v in part]) for name, part in values.items()))


F1 = {"default": (0.95, 0.97), "isomap": (0.80, 0.84), "paper": (0.5,)}
OTHERS = {"pearson": 0.9, "global_stress": float("nan")}
MADE_UP = frame_of(
    *((name, [{"f1": f, "local_metric": 1 - f} | OTHERS for f in values]) for name, values in F1.items()),
    ("lle", [{}], {"error": "ValueError: <no> & no"}),
)


def test_cells():
    (table,) = make_tables(KLEIN, MADE_UP, FULL)
    assert table.head == ("method", "Gram error", "F1", "Pearson", "CPU seconds", "runs")
    lines = {line.cells[0]: line.cells for line in table.lines}
    # Means and sample deviations of two values, 0.02 / sqrt(2) and 0.04 / sqrt(2).
    assert (lines["isoweave"][2], lines["Isomap"][2]) == ("0.960 ± 0.014", "0.820 ± 0.028")
    assert lines["isoweave"][-2:] == ("1.50", "2")
    assert lines["LLE"][1:] == ("", "", "", "", "0 (1 failed)")
    assert lines["proposed, printed in the paper"][1:4] == ("0.44", "0.91", "0.95")
    assert lines["LLE, printed in the paper"][2] == "0.59"
    assert "Isomap Isomap, printed in the paper" in " ".join(lines)
    best = {(line.cells[0], table.head[column]) for line in table.lines for column in line.best}
    assert {pair for pair in best if pair[1] != "Pearson"} == {("isoweave", "F1"), ("isoweave", "Gram error")}
    assert any("paper as printed: 1 of 1 runs reached the step limit" in note for note in table.notes)
    assert "LLE failed: ValueError: <no> & no" in table.notes


def test_files(tmp_path):
    paths = write_tables(KLEIN, MADE_UP, FULL, tmp_path / "out", ["klein, umap: not here"])
    assert [path.name for path in paths] == ["klein.md", "klein.csv"]
    text = paths[0].read_text(encoding="utf-8")
    assert "| isoweave | **0.040 ± 0.014** | **0.960 ± 0.014** |" in text
    assert "- Skipped: klein, umap: not here" in text
    assert "Quick" not in text
    with paths[1].open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["f1"] for row in rows] == ["0.95", "0.8", "0.5", "", "0.97", "0.84"]
    assert {row["n_vertices"] for row in rows} == {"1500"}
    assert "global_stress" not in rows[0]
    # The same tables from the runs that were written.
    runs = experiments.read_runs([paths[1]])
    again = write_tables(KLEIN, runs, FULL, tmp_path, ["klein, umap: not here"])
    assert [path.read_text() for path in again] == [path.read_text() for path in paths]
    # Failures only.
    frame = frame_of(("default", [{}], {"error": "RuntimeError: no"}))
    frame["dropped_edges"] = frame["cpu_seconds"] = frame["status"] = None
    text = write_tables(KLEIN, frame, FULL, tmp_path)[0].read_text(encoding="utf-8")
    assert "| isoweave | 0 (1 failed) |" in text
    assert "isoweave failed: RuntimeError: no" in text


def test_box_plots_are_the_same_file_every_time(tmp_path):
    frame = frame_of(*((method, [{"f1": 0.8}, {"f1": 0.85}]) for method in ("default", "isomap")))
    files = set()
    for _ in range(2):
        (path,) = experiments.draw_experiment(KLEIN, frame, FULL, tmp_path).values()
        files.add(path.read_bytes())
    assert len(files) == 1
    with Image.open(path) as image:
        assert np.asarray(image.convert("L")).std() > 1  # something is drawn


def test_page_escapes_and_leaves_out_what_was_not_run(tmp_path):
    skipped = {"mnist": ["mnist, groups: <none>"]}
    page = experiments.write_page(MADE_UP, FULL, {}, tmp_path / "index.html", skipped)
    text = page.read_text(encoding="utf-8")
    assert "LLE failed: ValueError: &lt;no&gt; &amp; no" in text
    assert "Skipped: mnist, groups: &lt;none&gt;" in text
    assert re.findall('<section id="(.*?)">', text) == ["summary", "klein", "mnist"]
    assert '<td class="best">0.960 ± 0.014</td>' in text
    assert '<tr class="printed"><td>proposed, printed in the paper</td><td>0.44</td>' in text
    assert "{" not in text.split("</style>")[1]


@pytest.mark.parametrize(
    ("metric", "ours", "other", "theirs", "winner", "words"),
    [
        # A clear difference has a winner; errors are better small.
        ("f1", [0.9, 0.91, 0.92], "isomap", [0.8, 0.81, 0.81], "default", "0.807 (Isomap) | isoweave |"),
        ("local_distance", [0.1, 0.11, 0.12], "umap", [0.02, 0.03, 0.03], "umap", "0.027 (UMAP) | UMAP |"),
        # A difference within the noise is level.
        ("f1", [0.9, 0.8, 0.7], "isomap", [0.8, 0.9, 0.69], "", "| level |"),
        # Only common seeds are compared.
        ("f1", [0.9, 0.5, 0.5, 0.5], "mde", [0.8], "default", "| 0.900 | 0.800 (MDE) |"),
        # Below three seeds a hundredth decides.
        ("f1", [0.900, 0.901], "isomap", [0.899, 0.899], "", "| level |"),
    ],
)
def test_who_wins(metric, ours, other, theirs, winner, words):
    values = {"default": ours, other: theirs, "lle": [0.2] * len(ours)}
    (found,) = compare(frame_of_one(metric, values), FULL)
    assert (found.winner, found.other, found.metric) == (winner, other, metric)
    assert words in experiments.summary_markdown([found])
    counts = f"is best in {winner == 'default':d} and level with the best in {winner == '':d}"
    counts += "; others are better: UMAP in 1." if winner == "umap" else "."
    assert counts in experiments.count_wins([found])


def test_left_out():
    """Failed runs, lonely methods, and a reference, which does not beat itself."""
    failed = ("isomap", [{}], {"error": "RuntimeError: no"})
    assert compare(frame_of(("default", [{"f1": 0.9}] * 3), failed), FULL) == []
    values = {"default": (0.02, 0.03, 0.02), "isomap": (0.0, 0.0, 0.0), "lle": (0.5, 0.4, 0.5)}
    frame = frame_of_one("parameter_error", values)
    (found,) = compare(frame, FULL)
    assert (found.other, found.winner) == ("lle", "default")
    (table,) = make_tables(KLEIN, frame, FULL)
    assert {line.cells[0]: line.cells for line in table.lines}["Isomap"][1] == "reference"
    assert 1 in table.lines[0].best


def test_documented_tables_belong_to_the_runs_beside_them(tmp_path):
    for file in RESULTS.glob("*.csv"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "figures").symlink_to(RESULTS / "figures")
    runpy.run_path(RESULTS.parents[1] / "benchmarks" / "publish_results.py")["publish"](tmp_path, tmp_path)
    pages = list(tmp_path.glob("*.md"))
    assert len(pages) == 10
    for page in pages:
        assert page.read_bytes() == (RESULTS / page.name).read_bytes(), page.name
    for page in RESULTS.glob("*.md"):
        for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), f"{page.name}: {link}"
    sizes = [path.stat().st_size for path in (RESULTS / "figures").iterdir()]
    assert 0 < max(sizes) < 250_000
    assert sum(sizes) < 2_500_000
