"""Tiny versions of every experiment and what happens around them; ``isoweave reproduce`` and ``demo``."""

import json
import re
import sys
from collections import Counter
from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest
from PIL import Image
from scipy.spatial.distance import cdist
from typer.testing import CliRunner

from isoweave import experiments
from isoweave.cli import _reproduce, app
from isoweave.datasets import DATA_VARIABLE, swiss_roll
from isoweave.experiments import EXPERIMENTS, METHODS, Records, Request, Scale, _run as run_module, plan_tasks
from isoweave.experiments.baselines import run_baseline
from isoweave.graph import connected_components
from isoweave.metrics import neighborhood_scores, pearson, procrustes_error
from reference_data import write_folder

QUICK_METHODS = ("default", "isomap")
# One seed and few points of every experiment.
TINY = Scale("tiny", n_samples=110, n_seeds=1, all_rows=False, paper_steps=3)
# What a browser made of the page.
PROBE = """[
  [...document.images].filter(i => i.complete && i.naturalWidth > 300 && i.naturalHeight > 100).length,
  ...["table", "section:not(#summary) tbody tr", "#summary tbody tr"]
    .map(places => document.querySelectorAll(places).length),
  [...document.images].filter(i => i.getBoundingClientRect().right > window.innerWidth).length,
]"""


@pytest.fixture(scope="module")
def data_folder(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("data"))


def run(names, folder, scale=TINY, methods=QUICK_METHODS, data_folder=None, **options):
    tasks, skipped = plan_tasks(names, methods, scale)
    records = Records(folder / "records.jsonl")
    skipped += experiments.run_experiments(tasks, records, data_home=data_folder, **options)
    return records, skipped


@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if name != "demo"])
def test_tiny_version(name, tmp_path, data_folder):
    # The rows of rnaseq are of different files. Optional packages take long to import and compile.
    scale = replace(TINY, all_rows=name == "rnaseq")
    methods = [m for m in METHODS if m not in ("umap", "mde")] if name == "klein" else QUICK_METHODS
    records, skipped = run([name], tmp_path, scale, methods, data_folder)
    experiment = EXPERIMENTS[name]
    rows = experiment.rows_for(scale)
    assert skipped == []
    assert len(records) == len(methods) * len(rows)
    assert {record["error"] for record in records.values()} == {None}
    for row in rows:
        found = {record["method"]: record for record in records.values() if record["row"] == row.name}
        ours, isomap = found["default"], found["isomap"]
        # Rows without a truth have no parameter error; everything else is there.
        assert set(experiment.metrics) - set(ours["scores"]) <= {"parameter_error"}
        assert ours["scores"]["local_distance"] < isomap["scores"]["local_distance"]
        assert ours["versions"]["numpy"] == np.__version__
        first, second = (row.load(Request(row.seeds[0], 110, data_folder)).graph for _ in range(2))
        assert connected_components(first)[0] == 1
        assert first.n_vertices == ours["n_vertices"] <= 110
        np.testing.assert_array_equal(first.lengths, second.lengths)
    if name == "klein":
        assert (found["paper"]["steps"], found["paper"]["status"]) == (3, "max_iter")
        # Against Isomap's own map, as in the paper.
        assert isomap["scores"]["parameter_error"] < 1e-12


def test_scores_are_against_the_clean_graph_and_the_truth():
    rows = {row.name: row.load for row in EXPERIMENTS["robustness"].rows}
    problem, truth = rows["shortcuts2"](Request(501, 300)), swiss_roll(300, random_state=501).truth
    assert problem.graph.n_edges == problem.clean_graph.n_edges + 2
    y = run_baseline("isomap", problem.graph, 2)
    f1 = neighborhood_scores(problem.clean_graph, y, n_neighbors=10).f1
    assert run_module.score(problem, y)["f1"] == f1
    scores = run_module.score(rows["noise0.4"](Request(501, 300)), y)
    assert scores["pearson"] == pytest.approx(pearson(cdist(truth, truth), y), rel=1e-12)
    assert scores["procrustes_error"] == procrustes_error(truth, y)


def test_a_rerun_skips_what_is_done_and_tries_again_what_failed(tmp_path, monkeypatch):
    seen = []
    with monkeypatch.context() as patch:
        patch.setattr(run_module, "run_baseline", Mock(side_effect=RuntimeError("no\nluck")))
        records, _ = run(["torus"], tmp_path, progress=lambda *told: seen.append(told))
    errors = {record["method"]: record["error"] for record in records.values()}
    assert errors == {"default": None, "isomap": "RuntimeError: no luck"}
    # Progress counts up, and the time left ends at zero.
    labels = [f"torus k = 10, seed 501, {method}" for method in QUICK_METHODS]
    assert [told[:3] for told in seen] == [(0, 2, labels[0]), (1, 2, labels[1]), (2, 2, "")]
    assert seen[0][3] is None
    assert seen[1][3] > seen[2][3] == 0
    records, _ = run(["torus"], tmp_path)
    assert [record["error"] for record in records.values()] == [None, None]
    path = tmp_path / "records.jsonl"
    before = path.read_text()
    with monkeypatch.context() as patch:
        patch.setattr(run_module, "_run_task", None)  # is not called
        records, _ = run(["torus"], tmp_path)
    assert (len(records), path.read_text()) == (2, before)
    # A line cut short is run again.
    path.write_text(before[:-40])
    records, _ = run(["torus"], tmp_path)
    assert len(records) == len(Records(path)) == 2
    json.loads(path.read_text().splitlines()[3])
    # Another scale is another run, and so is changed code.
    run(["torus"], tmp_path, Scale("smaller", 60, 1), ["isomap"])
    assert len(Records(path)) == 3
    monkeypatch.setattr(run_module, "fingerprint", lambda is_baseline: "changed")
    assert len(Records(path)) == 0


def test_full_plan_is_the_papers(monkeypatch):
    monkeypatch.setattr(run_module, "available_baselines", lambda: ("isomap", "tsne", "mde"))
    tasks, skipped = plan_tasks(["all"])
    count = Counter((task.experiment, task.method) for task in tasks)
    assert set(EXPERIMENTS) - {"demo"} == {experiment for experiment, _ in count}
    ours = {"swiss": 90, "difficult": 15, "klein": 15, "torus": 15, "mnist": 10, "fmnist": 10, "rnaseq": 4}
    assert ours == {name: count[name, "default"] for name in ours}
    # Slow methods have fewer seeds.
    assert (count["klein", "mde"], count["klein", "paper"], count["rnaseq", "paper"]) == (3, 15, 1)
    assert (count["difficult", "paper"], count["mnist", "paper"], count["mnist", "tsne"]) == (5, 3, 5)
    # A missing package is said.
    assert "torus, umap: umap is not installed: pip install 'isoweave[baselines]'" in skipped
    assert count["torus", "umap"] == 0


def test_several_processes_and_missing_data(tmp_path, data_folder, monkeypatch):
    results, seen = {}, []
    for n_jobs in (1, 2):
        folder = tmp_path / str(n_jobs)
        options = {
            "data_folder": data_folder,
            "maps_folder": folder,
            "progress": lambda *told: seen.append(told),
        }
        scale = replace(TINY, n_seeds=2)
        records, skipped = run(["torus", "mnist"], folder, scale, ["laplacian"], n_jobs=n_jobs, **options)
        results[n_jobs] = {key: record["scores"] for key, record in records.items()}
        # The little data folder has images for one group only; the other is missed, and that is said.
        assert [text[:43] for text in skipped] == ["mnist, groups of 1,000: could not be loaded"]
        assert seen[-1][:2] == (4, 4)
        assert len(list(folder.glob("torus-*.npz"))) == 1
    assert (len(results[1]), results[1]) == (3, results[2])
    monkeypatch.delenv(DATA_VARIABLE, raising=False)
    records, skipped = run(["mnist", "graphs"], tmp_path)
    assert (len(records), len(skipped)) == (0, 5)
    assert skipped[0].startswith("mnist, groups of 1,000: mnist_test.npz is needed")


def invoke(*arguments):
    return CliRunner().invoke(app, ["reproduce", *(str(argument) for argument in arguments)])


def test_reproduce(tmp_path, monkeypatch, request):
    """Box plots, curves, maps and something skipped; a browser looks at the page, where there is one."""
    out = tmp_path / "results"
    monkeypatch.setattr("isoweave.experiments.QUICK", TINY)
    options = ("--out", out, "--data", tmp_path, "--methods", "default,isomap", "--methods", "lle")
    with monkeypatch.context() as patch:
        patch.setattr(_reproduce, "find_spec", lambda name: None)  # no matplotlib
        result = invoke("torus", "--quick", *options)
    assert result.exit_code == 0, result.output
    assert "isoweave[plot]" in result.stdout
    pages = {"records.jsonl", "summary.md", "torus.md", "torus.csv", "index.html"}
    assert {path.name for path in out.glob("*.*")} == pages
    # Figures and the page are of everything in the folder.
    result = invoke("swiss", "mnist", "--quick", *options)
    assert result.exit_code == 0, result.output
    assert all(words in result.output for words in ("skipped: groups of 1,000: Looked for", "quick run"))
    written = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
    expected = {"index.html", "records.jsonl", "figures/torus_scores.png"}
    expected |= {"figures/torus_k10_maps.png", "figures/swiss_k.png", "maps/torus-k10-default-tiny.npz"}
    assert expected | {"torus.md", "torus.csv", "swiss.md", "swiss.csv"} <= written
    assert len((out / "records.jsonl").read_text().splitlines()) == 9
    assert "Tiny run" in (out / "torus.md").read_text(encoding="utf-8")
    text = (out / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"https?://|<script|@import|url\(", text)
    assert all(link.startswith(("data:", "#")) for link in re.findall(r'(?:src|href)="([^"]*)"', text))
    assert all(words in text for words in ("Tiny run", "Skipped: mnist"))
    browser = request.getfixturevalue("browser")
    browser.resize(1280, 1000)
    is_there = "location.href.endsWith('index.html') && document.readyState === 'complete'"
    browser.open((out / "index.html").as_uri(), is_there)
    n_summary = (out / "summary.md").read_text(encoding="utf-8").count("\n|") - 2
    # Three pictures; a table for every row and the summary of them; nothing too wide, nothing loaded.
    assert browser.evaluate(PROBE) == [3, 4, 3 * 3 + 7, n_summary, 0]
    assert browser.problems() == []


def test_reproduce_errors_are_one_line(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    for arguments, message in (
        (("swis",), "unknown experiment 'swis'"),
        (("torus", "--methods", "isomop"), "unknown method 'isomop'"),
        (("torus", "--seeds", "0"), "--seeds must be at least 1, got 0"),
        (("torus",), "pip install 'isoweave[experiments]'"),
    ):
        result = invoke(*arguments, "--out", tmp_path / "out")
        assert message in result.stderr
        assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert not (tmp_path / "out").exists()
    assert [_reproduce.duration(s) for s in (12.3, 600.0, 9000.0)] == ["12 s", "10 min", "2.5 h"]
    lines = _reproduce._skipped_lines(["a, umap: not here", "b, umap: not here", "b, x: other"])
    assert lines == ["skipped: umap: not here (a, b)", "skipped: x: other (b)"]


def test_demo(tmp_path, monkeypatch):
    monkeypatch.setattr("isoweave.experiments.FULL", replace(TINY, n_samples=200))
    result = CliRunner().invoke(app, ["demo", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    for word in ("Swiss roll", "Handwritten digits", "Isomap", "F1", "accuracy", "index.html"):
        assert word in result.stdout
    for row in ("swiss_roll", "digits"):
        with Image.open(tmp_path / "figures" / f"demo_{row}_maps.png") as image:
            assert np.asarray(image.convert("L")).std() > 1  # something is drawn
    runs = experiments.read_runs([tmp_path / "demo.csv"]).set_index(["row", "method"])
    ours, isomap = (runs.loc["swiss_roll", name] for name in QUICK_METHODS)
    assert ours["f1"] > isomap["f1"]
    assert all(ours[metric] < isomap[metric] for metric in ("local_distance", "procrustes_error"))


def test_maps_are_laid_over_the_truth_and_seen_along_their_longest_axes():
    truth = swiss_roll(300, random_state=7).truth
    moved = truth @ np.array([[0.6, 0.8], [0.8, -0.6]]) + 5.0
    np.testing.assert_allclose(
        experiments.aligned(moved, truth), truth - truth.mean(axis=0), rtol=0, atol=1e-10
    )
    points = np.random.default_rng(31).normal(size=(200, 4)) * [1.0, 9.0, 0.1, 5.0]
    plane = experiments.aligned(points, points)
    np.testing.assert_allclose(plane.std(axis=0), points.std(axis=0)[[1, 3]], rtol=0.05)
    np.testing.assert_allclose(
        experiments.aligned(3.0 - points[:, ::-1], points), plane, rtol=0, atol=1e-12 * 30
    )
