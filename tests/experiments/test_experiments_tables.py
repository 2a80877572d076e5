from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from PIL import Image

from isoweave.experiments import EXPERIMENTS, FULL, Records, draw_experiment, write_page, write_tables
from isoweave.experiments._paper import PRINTED
from isoweave.experiments._records import fingerprint
from isoweave.experiments._tables import make_tables


def record(method, seed, f1, *, experiment="klein", row="k8", error=None, **more):
    scores = (
        {} if error else {"f1": f1, "pearson": 0.9, "local_metric": 1 - f1, "global_stress": float("nan")}
    )
    return {
        "experiment": experiment,
        "row": row,
        "seed": seed,
        "method": method,
        "scale": "full",
        "n_vertices": 1500,
        "n_edges": 9000,
        "n_neighbors": 8,
        "n_components": 3,
        "note": "",
        "error": error,
        "code": fingerprint(method),
        "versions": {},
        "status": "max_iter" if method == "paper" else "converged",
        "steps": 5,
        "dropped_edges": 0,
        "seconds": 9.0,
        "cpu_seconds": 1.0 + seed,
        "scores": scores,
        **more,
    }


@pytest.fixture
def records(tmp_path):
    kept = Records(tmp_path / "records.jsonl")
    for seed, (ours, isomap) in enumerate([(0.95, 0.80), (0.97, 0.84)]):
        kept.add(record("default", seed, ours))
        kept.add(record("isomap", seed, isomap))
    kept.add(record("paper", 0, 0.5))
    kept.add(record("lle", 0, 0.0, error="ValueError: <no> & no"))
    return kept


def test_cells(records):
    (table,) = make_tables(EXPERIMENTS["klein"], records, FULL)
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
    assert ("isoweave", "F1") in best
    assert ("isoweave", "Gram error") in best
    assert not {("Isomap", "F1"), ("Isomap", "Gram error"), ("paper as printed", "Gram error")} & best
    assert any("paper as printed: 1 of 1 runs ended at the limit" in note for note in table.notes)
    assert "LLE failed: ValueError: <no> & no" in table.notes


def test_files(records, tmp_path):
    paths = write_tables(EXPERIMENTS["klein"], records, FULL, tmp_path / "out", ["klein, umap: not here"])
    assert [path.name for path in paths] == ["klein.md", "klein.csv", "klein.json"]
    text = paths[0].read_text(encoding="utf-8")
    assert "| isoweave | **0.040 ± 0.014** | **0.960 ± 0.014** |" in text
    assert "- Skipped: klein, umap: not here" in text
    assert "Quick" not in text
    with paths[1].open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 6
    assert {row["f1"] for row in rows if row["method"] == "default"} == {"0.95", "0.97"}
    assert {row["global_stress"] for row in rows} == {""}
    summary = json.loads(paths[2].read_text(encoding="utf-8"))
    ours = summary["rows"]["k8"]["methods"]["default"]
    assert ours["metrics"]["f1"] == pytest.approx(
        {"mean": 0.96, "std": 0.02 / 2**0.5, "min": 0.95, "max": 0.97}
    )
    assert ours["metrics"]["global_stress"] is None
    assert summary["printed_in_the_paper"]["paper"]["f1"] == 0.91


def test_printed_numbers_are_those_of_the_paper():
    """The proposed method's, and sums over whole tables, against slips of the pen."""
    assert list(PRINTED["torus"]["paper"].values()) == [1.14, 0.76, 0.80, 0.41, 0.48]
    assert list(PRINTED["rnaseq"]["paper"].values()) == [0.7126, 0.3298, 0.3821, 0.7698, 0.0566, 0.1589]
    assert set(PRINTED["klein"]) == {"lle", "hlle", "ltsa", "laplacian", "diffusion", "isomap", "paper"}
    sums = {name: sum(sum(line.values()) for line in table.values()) for name, table in PRINTED.items()}
    assert sums == pytest.approx({"klein": 21.64, "torus": 34.70, "rnaseq": 57.8793}, abs=1e-9)


def test_box_plots_and_curves(tmp_path):
    kept = Records(tmp_path / "records.jsonl")
    for seed in range(3):
        for method in ("default", "isomap"):
            kept.add(record(method, seed, 0.8 + 0.05 * seed))
            for k in (6, 10):
                kept.add(record(method, seed, 0.5 + 0.04 * k, experiment="swiss", row=f"k{k}"))
    for name in ("klein", "swiss"):
        figures = draw_experiment(EXPERIMENTS[name], kept, FULL, tmp_path / "figures")
        (path,) = figures.values()
        with Image.open(path) as image:
            assert np.asarray(image.convert("L")).std() > 1  # something is drawn
        svg = path.with_suffix(".svg").read_text(encoding="utf-8")
        draw_experiment(EXPERIMENTS[name], kept, FULL, tmp_path / "figures")
        assert path.with_suffix(".svg").read_text(encoding="utf-8") == svg


def test_page_escapes_and_leaves_out_what_was_not_run(records, tmp_path):
    page = write_page(records, FULL, {}, tmp_path / "index.html", {"mnist": ["mnist, groups: <none>"]})
    text = page.read_text(encoding="utf-8")
    assert "LLE failed: ValueError: &lt;no&gt; &amp; no" in text
    assert "Skipped: mnist, groups: &lt;none&gt;" in text
    assert '<section id="klein">' in text
    assert '<section id="torus">' not in text
    assert "{" not in text.split("</style>")[1]
