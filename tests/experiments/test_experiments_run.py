"""Tiny versions of every experiment, and what happens around them."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from isoweave.datasets import DATA_VARIABLE, swiss_roll
from isoweave.experiments import (
    EXPERIMENTS,
    FULL,
    METHODS,
    Records,
    Request,
    Scale,
    choose_methods,
    plan_tasks,
    run_experiments,
)
from isoweave.experiments import _methods as methods_module
from isoweave.experiments import _records as records_module
from isoweave.experiments import _run as run_module
from isoweave.experiments.baselines import run_baseline
from isoweave.graph import connected_components
from isoweave.metrics import evaluate, neighborhood_scores, pearson

QUICK_METHODS = ("default", "isomap")


def run(names, tmp_path, scale, methods=QUICK_METHODS, data_folder=None, **options):
    tasks, skipped = plan_tasks(names, methods, scale)
    records = Records(tmp_path / "records.jsonl")
    skipped += run_experiments(tasks, records, data_home=data_folder, **options)
    return records, skipped


def found(records, **places):
    """The one record whose fields are these."""
    (record,) = (r for r in records if places.items() <= r.items())
    return record


@pytest.mark.parametrize("name", list(EXPERIMENTS))
def test_tiny_version(name, tmp_path, tiny, data_folder):
    if name == "rnaseq":  # whose rows are of different files
        tiny = replace(tiny, all_rows=True)
    records, skipped = run([name], tmp_path, tiny, data_folder=data_folder)
    experiment = EXPERIMENTS[name]
    rows = experiment.rows_for(tiny)
    assert skipped == []
    assert len(records) == 2 * len(rows)
    for row in rows:
        ours, isomap = (found(records, row=row.name, method=method) for method in QUICK_METHODS)
        assert ours["error"] is None
        assert isomap["error"] is None
        shown = {m for m in experiment.metrics if m in ours["scores"]}
        # Rows without a truth have no parameter error; everything else is there.
        assert set(experiment.metrics) - shown <= {"parameter_error"}
        assert ours["scores"]["local_distance"] < isomap["scores"]["local_distance"]
        assert ours["versions"]["numpy"] == np.__version__
        assert ours["seconds"] > 0


@pytest.mark.parametrize("name", list(EXPERIMENTS))
def test_problems_are_connected_and_repeatable(name, tiny, data_folder):
    for row in EXPERIMENTS[name].rows_for(tiny):
        request = Request(row.seeds[0], tiny.n_samples, data_folder)
        first, second = row.load(request), row.load(request)
        assert connected_components(first.graph)[0] == 1
        assert first.graph.n_vertices <= max(tiny.n_samples, 40)
        np.testing.assert_array_equal(first.graph.lengths, second.graph.lengths)


def test_every_method_on_a_tiny_problem(tmp_path):
    scale = Scale("tiny", n_samples=90, n_seeds=1, paper_steps=3)
    # Those of optional packages take long to import and compile; the tests of the baselines run them.
    names = [name for name in METHODS if name not in ("umap", "mde")]
    records, _ = run(["klein"], tmp_path, scale, names)
    assert {record["method"] for record in records} == set(names)
    assert [record["error"] for record in records] == [None] * len(names)
    paper = found(records, method="paper")
    assert (paper["steps"], paper["status"]) == (3, "max_iter")
    # Against Isomap's own map, as in the paper.
    assert found(records, method="isomap")["scores"]["parameter_error"] < 1e-12


def test_scores_are_against_the_clean_graph_and_the_truth():
    row = next(row for row in EXPERIMENTS["robustness"].rows if row.name == "shortcuts2")
    problem = row.load(Request(501, 300))
    roll = swiss_roll(300, random_state=501)
    assert problem.graph.n_edges == problem.clean_graph.n_edges + 2
    y = run_baseline("isomap", problem.graph, 2)
    scores = run_module.score(problem, y, run_module.reference_distances(problem))
    assert scores["f1"] == neighborhood_scores(problem.clean_graph, y, n_neighbors=10).f1
    noisy = next(row for row in EXPERIMENTS["robustness"].rows if row.name == "noise0.4")
    problem = noisy.load(Request(501, 300))
    scores = run_module.score(problem, y, run_module.reference_distances(problem))
    assert scores["pearson"] == pytest.approx(pearson(cdist(roll.truth, roll.truth), y), rel=1e-12)
    assert scores["procrustes_error"] == evaluate(problem.graph, y, truth=roll.truth)["procrustes_error"]


def test_a_rerun_skips_what_is_done(tmp_path, tiny, monkeypatch):
    run(["torus"], tmp_path, tiny, ["isomap"])
    before = (tmp_path / "records.jsonl").read_text()

    def refuse(*_, **__):
        raise AssertionError("ran again")

    with monkeypatch.context() as patch:
        patch.setattr(run_module, "run_method", refuse)
        records, _ = run(["torus"], tmp_path, tiny, ["isomap"])
    assert (tmp_path / "records.jsonl").read_text() == before
    assert len(records) == 1
    # Another scale is another run, and so is changed code.
    run(["torus"], tmp_path, Scale("smaller", 60, 1), ["isomap"])
    assert len((tmp_path / "records.jsonl").read_text().splitlines()) == 2
    monkeypatch.setattr(records_module, "_hash_code", lambda is_baseline: "changed")
    assert len(Records(tmp_path / "records.jsonl")) == 0


def test_a_line_cut_short_is_run_again(tmp_path, tiny):
    run(["torus"], tmp_path, tiny)
    path = tmp_path / "records.jsonl"
    path.write_text(path.read_text()[:-40])
    records, _ = run(["torus"], tmp_path, tiny)
    assert len(records) == len(Records(path)) == 2
    for line in path.read_text().splitlines()[2:]:
        json.loads(line)


def test_a_method_that_fails_is_recorded_and_tried_again(tmp_path, tiny, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("no\nluck")

    with monkeypatch.context() as patch:
        patch.setattr(methods_module, "run_baseline", fail)
        records, _ = run(["torus"], tmp_path, tiny, ["isomap", "default"])
    by_method = {record["method"]: record for record in records}
    assert by_method["isomap"]["error"] == "RuntimeError: no luck"
    assert by_method["default"]["error"] is None
    records, _ = run(["torus"], tmp_path, tiny, ["isomap", "default"])
    assert all(record["error"] is None for record in records)


def test_missing_data_are_skipped_and_said(tmp_path, tiny, monkeypatch):
    monkeypatch.delenv(DATA_VARIABLE, raising=False)
    records, skipped = run(["mnist", "graphs"], tmp_path, tiny)
    assert len(records) == 0
    assert len(skipped) == 5
    assert skipped[0].startswith("mnist, groups of 1,000: mnist_test.npz is needed")
    _, skipped = run(["mnist"], tmp_path, tiny, data_folder=tmp_path)
    assert "it is not there" in skipped[0]
    np.savez(tmp_path / "mnist_test.npz", Z=np.zeros(3))
    _, skipped = run(["mnist"], tmp_path, tiny, data_folder=tmp_path)
    assert "could not be loaded: " in skipped[0]
    assert "has no array 'X'" in skipped[0]


def test_progress_counts_up_and_time_left_ends_at_zero(tmp_path, tiny):
    seen = []
    run(["klein", "torus"], tmp_path, tiny, progress=seen.append)
    assert [p.done for p in seen] == [0, 0, 1, 2, 2, 3, 4]
    assert {p.total for p in seen} == {4}
    assert seen[0].seconds_left is None
    assert all(p.seconds_left > 0 for p in seen[2:-1])
    assert seen[-1].seconds_left == 0
    assert "klein k = 8, seed 501, default" in [p.label for p in seen]


def test_full_plan_is_the_papers():
    tasks, _ = plan_tasks(["all"], ["default"], FULL)
    count = {name: sum(t.experiment == name for t in tasks) for name in EXPERIMENTS}
    assert count["swiss"] == 6 * 15
    assert count["difficult"] == count["klein"] == count["torus"] == 15
    assert count["mnist"] == count["fmnist"] == 10
    assert all(count.values())


def test_a_missing_package_is_said(monkeypatch):
    monkeypatch.setattr(methods_module, "available_baselines", lambda: ("isomap",))
    chosen, missing = choose_methods(None, ("default", "isomap", "umap"))
    assert chosen == ["default", "isomap"]
    assert "isoweave[baselines]" in missing["umap"]
    _, skipped = plan_tasks(["torus"], ["umap"])
    assert skipped == [f"torus, umap: {missing['umap']}"]


def test_several_processes_give_the_same_records(tmp_path, tiny, data_folder):
    found, seen = {}, []
    for n_jobs in (1, 2):
        folder = tmp_path / str(n_jobs)
        options = {
            "data_folder": data_folder,
            "n_jobs": n_jobs,
            "maps_folder": folder,
            "progress": seen.append,
        }
        three = replace(tiny, n_seeds=3)
        records, skipped = run(["torus", "mnist"], folder, three, ["default", "laplacian"], **options)
        found[n_jobs] = {records_module.key_of(record): record["scores"] for record in records}
        # The little data folder has images for one group only; the others are missed, and that is said once.
        assert len(skipped) == 1
        assert skipped[0].startswith("mnist, groups of 1,000: could not be loaded")
        assert seen[-1].done == seen[-1].total == 12
        assert len(list(folder.glob("torus-*.npz"))) == 2
    assert len(found[1]) == 8
    assert found[1] == found[2]


def test_slow_methods_have_fewer_seeds(monkeypatch):
    monkeypatch.setattr(run_module, "choose_methods", lambda asked, usual: (list(asked or usual), {}))
    seeds = {}
    for name, methods in (("klein", None), ("difficult", ["paper", "default"])):
        tasks, _ = plan_tasks([name], methods)
        seeds[name] = {m: sum(task.method == m for task in tasks) for m in ("default", "mde", "paper")}
    assert seeds["klein"] == {"default": 15, "mde": 3, "paper": 15}
    assert seeds["difficult"] == {"default": 15, "mde": 0, "paper": 5}
