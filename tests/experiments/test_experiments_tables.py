"""Tables, figures, the page and who wins where, of made-up runs."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from PIL import Image

from isoweave.experiments import (
    EXPERIMENTS,
    FULL,
    compare,
    count_wins,
    draw_experiment,
    read_runs,
    summary_markdown,
    write_page,
    write_tables,
)
from isoweave.experiments._catalog import PRINTED
from isoweave.experiments._tables import make_tables


def scores(f1):
    return {"f1": f1, "pearson": 0.9, "local_metric": 1 - f1, "global_stress": float("nan")}


@pytest.fixture
def klein(runs):
    return runs(
        ("default", [scores(0.95), scores(0.97)]),
        ("isomap", [scores(0.80), scores(0.84)]),
        ("paper", [scores(0.5)]),
        ("lle", [{}], {"error": "ValueError: <no> & no"}),
    )


def test_cells(klein):
    (table,) = make_tables(EXPERIMENTS["klein"], klein, FULL)
    assert table.head == ("method", "Gram error", "F1", "Pearson", "CPU seconds", "runs")
    lines = {line[0]: line for line in table.lines}
    # Means and sample deviations of two values, 0.02 / sqrt(2) and 0.04 / sqrt(2).
    assert lines["isoweave"][2] == "0.960 ± 0.014"
    assert lines["Isomap"][2] == "0.820 ± 0.028"
    assert lines["isoweave"][-2:] == ("1.50", "2")
    assert lines["LLE"][1:] == ("", "", "", "", "0 (1 failed)")
    assert lines["proposed, printed in the paper"][1:4] == ("0.44", "0.91", "0.95")
    assert lines["LLE, printed in the paper"][2] == "0.59"
    titles = [line[0] for line in table.lines]
    assert titles.index("Isomap, printed in the paper") == titles.index("Isomap") + 1
    best = {(table.lines[line][0], table.head[column]) for line, column in table.best}
    assert {("isoweave", "F1"), ("isoweave", "Gram error")} <= best
    assert not {("Isomap", "F1"), ("Isomap", "Gram error"), ("paper as printed", "Gram error")} & best
    assert any("paper as printed: 1 of 1 runs reached the step limit" in note for note in table.notes)
    assert "LLE failed: ValueError: <no> & no" in table.notes


def test_files(klein, tmp_path):
    paths = write_tables(EXPERIMENTS["klein"], klein, FULL, tmp_path / "out", ["klein, umap: not here"])
    assert [path.name for path in paths] == ["klein.md", "klein.csv", "klein.json"]
    text = paths[0].read_text(encoding="utf-8")
    assert "| isoweave | **0.040 ± 0.014** | **0.960 ± 0.014** |" in text
    assert "- Skipped: klein, umap: not here" in text
    assert "Quick" not in text
    with paths[1].open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 6
    assert {row["f1"] for row in rows if row["method"] == "default"} == {"0.95", "0.97"}
    assert {row["n_vertices"] for row in rows} == {"1500"}
    assert "global_stress" not in rows[0]
    summary = json.loads(paths[2].read_text(encoding="utf-8"))
    ours = summary["rows"]["k8"]["methods"]["default"]
    assert ours["metrics"]["f1"] == pytest.approx(
        {"mean": 0.96, "std": 0.02 / 2**0.5, "min": 0.95, "max": 0.97}
    )
    assert ours["metrics"]["global_stress"] is None
    assert summary["printed_in_the_paper"]["paper"]["f1"] == 0.91
    # The same tables from the runs that were written.
    again = write_tables(
        EXPERIMENTS["klein"], read_runs([paths[1]]), FULL, tmp_path, ["klein, umap: not here"]
    )
    assert [path.read_text() for path in again[:2]] == [path.read_text() for path in paths[:2]]


def test_only_failures(runs, tmp_path):
    frame = runs(("default", [{}], {"error": "RuntimeError: no"}))
    frame["dropped_edges"] = frame["cpu_seconds"] = frame["status"] = None
    path, _, _ = write_tables(EXPERIMENTS["klein"], frame, FULL, tmp_path)
    assert "| isoweave | 0 (1 failed) |" in path.read_text(encoding="utf-8")
    assert "isoweave failed: RuntimeError: no" in path.read_text(encoding="utf-8")


def test_printed_numbers_are_those_of_the_paper():
    """The proposed method's, and sums over whole tables, against slips of the pen."""
    assert list(PRINTED["torus"]["paper"].values()) == [1.14, 0.76, 0.80, 0.41, 0.48]
    assert list(PRINTED["rnaseq"]["paper"].values()) == [0.7126, 0.3298, 0.3821, 0.7698, 0.0566, 0.1589]
    assert set(PRINTED["klein"]) == {"lle", "hlle", "ltsa", "laplacian", "diffusion", "isomap", "paper"}
    sums = {name: sum(sum(line.values()) for line in table.values()) for name, table in PRINTED.items()}
    assert sums == pytest.approx({"klein": 21.64, "torus": 34.70, "rnaseq": 57.8793}, abs=1e-9)


def test_box_plots_and_curves(runs, tmp_path):
    values = [scores(0.8 + 0.05 * seed) for seed in range(3)]
    swiss = [{"experiment": "swiss", "row": f"k{k}"} for k in (6, 10)]
    frame = runs(
        *((method, values) for method in ("default", "isomap")),
        *((method, values, place) for method in ("default", "isomap") for place in swiss),
    )
    for name in ("klein", "swiss"):
        figures = draw_experiment(EXPERIMENTS[name], frame, FULL, tmp_path / "figures")
        (path,) = figures.values()
        with Image.open(path) as image:
            assert np.asarray(image.convert("L")).std() > 1  # something is drawn
        svg = path.with_suffix(".svg").read_text(encoding="utf-8")
        draw_experiment(EXPERIMENTS[name], frame, FULL, tmp_path / "figures")
        assert path.with_suffix(".svg").read_text(encoding="utf-8") == svg


def test_page_escapes_and_leaves_out_what_was_not_run(klein, tmp_path):
    page = write_page(klein, FULL, {}, tmp_path / "index.html", {"mnist": ["mnist, groups: <none>"]})
    text = page.read_text(encoding="utf-8")
    assert "LLE failed: ValueError: &lt;no&gt; &amp; no" in text
    assert "Skipped: mnist, groups: &lt;none&gt;" in text
    assert '<section id="klein">' in text
    assert '<section id="torus">' not in text
    assert '<td class="best">0.960 ± 0.014</td>' in text
    assert '<tr class="printed"><td>proposed, printed in the paper</td><td>0.44</td>' in text
    assert "{" not in text.split("</style>")[1]


def metric(name, *values):
    return [{name: value} for value in values]


@pytest.mark.parametrize(
    ("parts", "winner", "other", "row"),
    [
        # A clear difference has a winner; errors are better small.
        (
            {"default": [0.9, 0.91, 0.92], "isomap": [0.8, 0.81, 0.81], "lle": [0.1, 0.2, 0.3]},
            "default",
            "isomap",
            "| 0.910 | 0.807 (Isomap) | isoweave |",
        ),
        (
            {"metric": "local_distance", "default": [0.1, 0.11, 0.12], "umap": [0.02, 0.03, 0.03]},
            "umap",
            "umap",
            "| 0.110 | 0.027 (UMAP) | UMAP |",
        ),
        # A difference within the noise is level.
        ({"default": [0.9, 0.8, 0.7], "isomap": [0.8, 0.9, 0.69]}, None, "isomap", "| level |"),
        # Only common seeds are compared.
        ({"default": [0.9, 0.5, 0.5, 0.5], "mde": [0.8]}, "default", "mde", "| 0.900 | 0.800 (MDE) |"),
        # Below three seeds a hundredth decides.
        ({"default": [0.900, 0.901], "isomap": [0.899, 0.899]}, None, "isomap", "| level |"),
    ],
)
def test_who_wins(runs, parts, winner, other, row):
    name = parts.pop("metric", "f1")
    (found,) = compare(runs(*((method, metric(name, *values)) for method, values in parts.items())), FULL)
    assert (found.winner, found.other, found.metric) == (winner, other, name)
    assert row in summary_markdown([found])
    wins = {
        "default": "is best in 1 and level with the best in 0.",
        None: "is best in 0 and level with the best in 1.",
    }
    assert wins.get(winner, "others are better: UMAP in 1.") in count_wins([found])


def test_failed_runs_and_lonely_methods_are_left_out(runs):
    failed = ("isomap", [{}], {"error": "RuntimeError: no"})
    assert compare(runs(("default", metric("f1", 0.9, 0.9, 0.9)), failed), FULL) == []


def test_a_reference_does_not_beat_itself(runs):
    values = {"default": (0.02, 0.03, 0.02), "isomap": (0.0, 0.0, 0.0), "lle": (0.5, 0.4, 0.5)}
    frame = runs(*((method, metric("parameter_error", *found)) for method, found in values.items()))
    (found,) = compare(frame, FULL)
    assert (found.other, found.winner) == ("lle", "default")
    (table,) = make_tables(EXPERIMENTS["klein"], frame, FULL)
    lines = {line[0]: line for line in table.lines}
    assert lines["Isomap"][1] == "reference"
    assert (0, 1) in table.best
