"""The performance suite itself: stages, records, comparisons, targets and the page."""

import importlib.util
import json
import math
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import compare
import isoweave._component
import ledger
import lifting
import process
import report
import stages
import targets
import workloads
import wrapping
from methods import METHODS, fit_isoweave

# By its path: the fuzzer has a script of the same name.
RUN = importlib.util.spec_from_file_location("benchmarks_run", Path(report.__file__).with_name("run.py"))
run = importlib.util.module_from_spec(RUN)
RUN.loader.exec_module(run)


def record(method="isoweave", workload="swiss", n=1000, *, wall=1.0, cpu=2.0, memory=1e8, **extra):
    clocks = {name: {"wall": 0.1 * wall, "cpu": 0.1 * cpu, "calls": 2} for name in stages.STAGES}
    inner = {name: {"wall": 0.01 * wall, "cpu": 0.01 * cpu, "calls": 5} for name in stages.INNER}
    case = {"method": method, "workload": workload, "n": n, "n_jobs": 2, "limit": 100.0, "status": "ok"}
    costs = {"wall": wall, "cpu": cpu, "above_idle_bytes": memory, "peak_bytes": memory + 3e8, "n_iter": 4}
    scores = {"f1": 0.9, "local_distance": 0.1, "pearson": 0.99}
    origin = {"code": ledger.code_of(method), "commit": "abc", "date": "2026-01-02T03:04:05+00:00"}
    where = {"machine": "a", "versions": {"numpy": "2.0"}, "calibration_wall": 1.0, "calibration_cpu": 1.0}
    return {**case, **costs, **scores, **origin, **where, "stages": {**clocks, **inner}, **extra}


def by_case(*records):
    return {ledger.case_of(r): r for r in records}


def test_stages_add_up_to_the_fit():
    """Every stage is found, wherever a fit looks it up, and put back."""
    names = [name for names in stages.STAGES.values() for name in names] + [*stages.INNER.values()]
    functions = [wrapping.resolve(name)[2] for name in names]
    workload = workloads.WORKLOADS["swiss"]
    data = workload.load(400).data
    fit_isoweave(data, workload, 1)
    clock = stages.StageClock()
    with clock.running():
        assert not {*functions} & {wrapping.resolve(name)[2] for name in names}
        assert isoweave._component.local_frames is wrapping.resolve("isoweave.geometry.local_frames")[2]
        wall = time.perf_counter()
        model = fit_isoweave(data, workload, 1)
        wall = time.perf_counter() - wall
    assert [wrapping.resolve(name)[2] for name in names] == functions
    assert {*clock.seconds} == {*stages.STAGES, *stages.INNER}
    # What is left outside the stages is checking of input and turning results around.
    assert 0.2 * wall < sum(clock.seconds[stage]["wall"] for stage in stages.STAGES) <= wall
    assert sum(clock.seconds[stage]["wall"] for stage in stages.INNER) <= clock.seconds["optimise"]["wall"]
    assert clock.seconds["solve"]["calls"] >= model.n_iter_


def test_workloads_and_methods_that_leave_out_what_they_cannot_do():
    for name in ("swiss", "box", "difficult", "curved13"):
        data = workloads.WORKLOADS[name].load(150)
        assert data.n_samples == 150
        assert data.truth is None or data.truth.shape == (150, workloads.WORKLOADS[name].n_components)
        assert workloads.first_points(data, 40).parameters.shape[0] == 40
    sheet, hub = workloads.WORKLOADS["sheet"], workloads.WORKLOADS["hub"]
    data = hub.load(600)
    plain, star = workloads.graph_of(sheet, data), workloads.graph_of(hub, data)
    assert abs(star - star.T).max() == 0
    degrees = np.diff(star.indptr)
    assert degrees.max() >= 600 // workloads.HUB_SHARE > np.diff(plain.indptr).max()
    assert np.sum(degrees != np.diff(plain.indptr)) <= degrees.max() + 1
    for method, workload, n, full, takes in [
        ("isomap", "swiss", 10_000, True, True),
        ("isomap", "swiss", 50_000, True, False),
        ("umap", "swiss", 200_000, True, True),
        ("umap", "swiss", 200_000, False, False),
        ("tsne", "difficult", 1000, True, False),
        ("isoweave", "hub", 1_000_000, True, True),
        ("umap", "hub", 50_000, True, False),
    ]:
        assert METHODS[method].takes(workloads.WORKLOADS[workload], n, full=full) == takes, (method, n)


def test_ledger_keeps_and_skips(tmp_path):
    code = ledger.code_of("isoweave")
    book = ledger.Ledger(tmp_path, code)
    case = ("isoweave", "swiss", 1000)
    assert not book.is_done(case, 2, 100.0)
    for added in (record(), record("umap"), record("isomap", status="stopped after 100 s")):
        book.add(added)
    again = ledger.Ledger(tmp_path, code)
    assert len(list(again)) == 3
    stopped = ("isomap", "swiss", 1000)
    done = [(case, 2, 100.0), (case, 4, 100.0), (stopped, 2, 100.0), (stopped, 2, 200.0)]
    assert [again.is_done(*each) for each in done] == [True, False, True, False]
    # What a peer cannot do it will not do next time; our own failures are to be mended.
    for method in ("isoweave", "ltsa"):
        again.add(record(method, n=2000, status="failed: ValueError"))
        assert again.is_done((method, "swiss", 2000), 2, 100.0) == (method == "ltsa")
    # A line that a crash cut short is no record, and neither are those of other code.
    path = tmp_path / f"{code}.jsonl"
    path.write_text(path.read_text() + '{"method": "isow')
    assert len(list(ledger.Ledger(tmp_path, code))) == 5
    path.write_text(path.read_text().replace(code, "other"))
    assert not ledger.Ledger(tmp_path, code).is_done(case, 2, 100.0)


BODIES = {
    "ok": "tell(event='fitted', wall=2.0); tell(event='scored', f1=1.0)",
    "failed: no": "tell(event='failed', status='failed: no')",
    "stopped after 1 s": "time.sleep(60)",
    "stopped at 0.": "x = bytearray(300_000_000); time.sleep(60)",
    "failed: exit status 1 out of luck": "raise SystemExit('out of luck')",
}


@pytest.mark.parametrize("status", BODIES)
def test_watched_processes(tmp_path, status):
    path = tmp_path / "child.py"
    tell = "def tell(**v):\n    open(sys.argv[1], 'a').write(json.dumps(v) + '\\n')\n"
    path.write_text(f"import json, sys, time\n{tell}tell(event='ready'); {BODIES[status]}")
    limits = {"prepare_limit": 30, "limit": 1.0 if "after" in status else 30.0, "memory_limit": 2e8}
    found = process.run_watched([sys.executable, str(path)], process.environment(1), **limits)
    assert found["status"].startswith(status)
    assert status != "ok" or (found["wall"], found["f1"]) == (2.0, 1.0)


def test_peak_memory_is_that_since_it_was_forgotten():
    np.ones(30_000_000)
    idle = process.forget_peak()
    np.ones(5_000_000)
    assert 0.9 * 40e6 < process.peak_bytes() - idle < (120e6 if sys.platform == "linux" else math.inf)


def test_ratios_and_targets():
    records = by_case(
        record(n=10_000, wall=1.0, memory=5e7),
        record("isomap", n=10_000, wall=20.0, memory=2e9),
        record(n=50_000, cpu=2.0),
        record(n=200_000, cpu=8.0),
        record(n=1_000_000, cpu=40.0, wall=200.0, memory=3e9),
        record("umap", n=50_000, status="stopped after 900 s"),
        record(workload="hub", n=1_000_000, wall=3.0),
        record(workload="sheet", n=1_000_000, wall=2.0),
    )
    for start, value, is_met in (
        ("Isomap's time", 20.0, True),
        ("our memory", 0.025, True),
        ("exponent", 1.0, True),
        ("1,000,000 points", 200.0, False),
        ("hub", 1.5, True),
        ("umap-learn's time over ours, swiss", None, None),
        ("`import", None, None),
    ):
        (target,) = [t for t in targets.TARGETS if t.text.startswith(start)]
        found = target.measure(records)
        assert found == value or math.isclose(found, value)
        assert value is None or target.is_met(found) == is_met
    text = "\n".join(report.target_section(records))
    assert "| 1,000,000 points, neighbours included | ≤ 45 s | 200 s | **not met** |" in text
    assert "not run" in text


def test_tables_show_every_case():
    cold = {f"{n}_{k}": 1.0 for n in ("bare", "import", "first", "second") for k in ("wall", "cpu")}
    records = by_case(
        record(wall=2.0, procrustes_error=1e-4),
        record("umap", wall=30.0, procrustes_error=0.5),
        record("tsne", status="stopped after 100 s"),
        record(workload="cold-start", **cold),
    )
    peers = "\n".join(report.peer_section(records))
    lines = ("**isoweave** | 1 | 1 | 1 |", "umap-learn | 15.0 | 1 | 1 |", "t-SNE (scikit-learn) | > 50.0 |")
    assert all(f"| 1,000 | {line}" in peers for line in lines)
    assert "stopped after 100 s" in peers
    # 2 s of processor time for 1,000 points: 2,000 µs each, a tenth of it frames.
    assert "| 200 | 2,000 |" in "\n".join(report.stage_section(records))
    for make in report.SECTIONS.values():
        assert list(make(records))
    assert "busy" not in "\n".join(report.run_section(by_case(record())))
    busy = by_case(record(), record("umap", calibration_wall=3.0))
    assert "in 1 of 2 cases" in "\n".join(report.run_section(busy))
    # Only sections of the page are replaced.
    page = "Words.\n<!-- begin run -->\nold\n<!-- end run -->\nMore words.\n"
    text = report.replace_sections(page, {"run": "new \\1 line\n"})
    assert text == "Words.\n<!-- begin run -->\nnew \\1 line\n<!-- end run -->\nMore words.\n"
    assert report.replace_sections(text, {"run": "old"}) == page
    with pytest.raises(ValueError, match="section 'hub' once, found 0"):
        report.replace_sections(page, {"hub": "new"})
    real = report.PAGE.read_text(encoding="utf-8")
    assert report.replace_sections(real, dict.fromkeys(report.SECTIONS, "text")) != real


def test_comparison_and_cases_of_a_run(tmp_path, monkeypatch):
    monkeypatch.setattr(compare, "RUNS", tmp_path)
    (tmp_path / "machine").mkdir()
    for code, commit, cpu in (("12ab", "c0ffee", 2.0), ("12cd", "beef", 1.0)):
        lines = [json.dumps(record(n=n, cpu=cpu, commit=commit)) for n in (1000, 10_000)]
        (tmp_path / "machine" / f"{code}.jsonl").write_text("\n".join(lines))
    paths = [compare.find_file(name) for name in ("12a", "beef")]
    assert [path.name for path in paths] == ["12ab.jsonl", "12cd.jsonl"]
    with pytest.raises(SystemExit, match="'12' names 2 record files"):
        compare.find_file("12")
    rows = list(compare.compare(*(ledger.read_records([path]) for path in paths), "cpu"))
    assert {n for (_, _, n), *_ in rows} == {1000, 10_000}
    changes = {stage: b / a for _, stage, a, b in rows}
    assert changes["frames"] == changes["whole"] == changes["one solve"] == 0.5
    assert changes["memory"] == changes["steps"] == 1.0
    monkeypatch.delenv("ISOWEAVE_DATA", raising=False)
    asked = (run.parser().parse_args(words) for words in (["--quick"], [], ["--full"]))
    quick, standard, full = ({*run.select_cases(words)} for words in asked)
    assert {n for _, _, n in quick} == {1000}
    assert {m for m, _, _ in quick} == {*METHODS}
    assert ("isoweave", targets.COLD, 1000) in quick
    assert not any(workload == "mnist" for _, workload, _ in quick)
    assert {("isoweave", "swiss", 1_000_000), ("isoweave", "hub", 1_000_000)} <= full
    assert max(n for _, _, n in standard) == 50_000
    assert standard < full


def test_the_largest_rigid_part():
    """Two complete graphs that share a vertex turn around it; sharing two they do not."""
    places = np.random.default_rng(3).random((50, 2))
    distances = np.linalg.norm(places[:, None] - places, axis=2)
    for n_shared, n_motions, n_rigid in ((1, 1, 30), (2, 0, 50)):
        parts = np.zeros((2, 50), dtype=bool)
        parts[0, :30] = parts[1, 30 - n_shared :] = True
        graph = sp.csr_array(distances * (parts[:, :, None] & parts[:, None]).any(axis=0))
        found, body = lifting.largest_body(graph, places)
        assert (found, body.sum()) == (n_motions, n_rigid)
        assert body[:30].all()


def test_what_distances_leave_open():
    """Six vertices that know each other, others with one to three distances, and one that hangs on these."""
    links = np.zeros((11, 11))
    links[:6, :6] = 1.0
    for vertex, known in ((6, [0]), (7, [0, 1]), (8, [0, 1, 2]), (9, [0, 1, 2, 3]), (10, [8, 9, 0])):
        links[vertex, known] = 1.0
    np.fill_diagonal(links, 0.0)
    inner, others = lifting.core(sp.csr_array(np.maximum(links, links.T)), 4)
    assert np.flatnonzero(inner).tolist() == [0, 1, 2, 3, 4, 5, 9]
    assert others.tolist() == [0, 1, 1, 2]
