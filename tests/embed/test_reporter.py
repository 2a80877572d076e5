"""What a run says: stages, steps, and the time left."""

import logging

import numpy as np
from sklearn.datasets import make_swiss_roll

from isoweave import IsometricEmbedding, _reporter, embed_graph
from isoweave._reporter import Event, Reporter, show_seconds
from isoweave.graph import knn_graph
from isoweave.optimise import Progress

POINTS = make_swiss_roll(260, random_state=1)[0]


def test_durations_and_events_as_text():
    shown = {0.2: "1 s", 99.4: "99 s", 100: "2 min", 5999: "100 min", 12600: "3.5 h"}
    assert {seconds: show_seconds(seconds) for seconds in shown} == shown
    assert str(Event("frames")) == "frames"
    told = str(Event("optimise", 3, 12.5, 0.0312, 75.0))
    assert told == "optimise  step 3  energy 12.5, 3.12% of a collapsed map  about 75 s left"


def test_quiet_by_default_and_nothing_is_measured_if_nobody_listens(capsys, monkeypatch):
    monkeypatch.setattr(_reporter, "expected_seconds", None)
    embed_graph(knn_graph(POINTS, 8).to_matrix())
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""


def test_verbose_prints_what_was_found_then_stages_and_steps(capsys, monkeypatch):
    embed_graph(knn_graph(POINTS, 8).to_matrix(), verbose=1)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("[isoweave] start:")
    assert not any("step 1" in line or line.endswith("frames") for line in lines)
    monkeypatch.setattr(_reporter, "_SECONDS_BETWEEN_LINES", 0.0)
    IsometricEmbedding(n_neighbors=8, verbose=2).fit(POINTS)
    lines = capsys.readouterr().out.splitlines()
    assert all(line.startswith("[isoweave] ") for line in lines)
    stages = [line.split("]")[1].split("  ")[0].strip() for line in lines]
    wanted = ["neighbours", "order", "shortcuts", "frames", "factor", "landmark start", "optimise"]
    assert [stage for stage in dict.fromkeys(stages) if stage in wanted] == wanted
    assert any("step 1  energy" in line and "% of a collapsed map" in line for line in lines)
    # Steps about once a second, however slow the machine is.
    monkeypatch.setattr(_reporter, "_SECONDS_BETWEEN_LINES", 1e9)
    reporter = Reporter(2)
    for k in range(50):
        reporter.step(Progress("optimise", k, 500, 2.0, 0.1, 0.5**k, 1e-3))
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_everything_is_logged(caplog, monkeypatch):
    monkeypatch.setattr(_reporter, "expected_seconds", lambda *_: 1e9)  # left, however slow the machine is
    matrix = knn_graph(POINTS, 8).to_matrix() * 4.0
    with caplog.at_level(logging.DEBUG, logger="isoweave"):
        result = embed_graph(matrix, start="landmark")
    events = [record.isoweave_event for record in caplog.records if hasattr(record, "isoweave_event")]
    steps = [event for event in events if event.iteration is not None and event.stage == "optimise"]
    # The last step meets the stopping rule and is not announced any more.
    assert [event.iteration for event in steps] == list(range(result.n_iter))
    np.testing.assert_allclose(
        [event.energy for event in steps], [step.energy for step in result.history[:-1]], rtol=1e-12
    )
    assert any(event.seconds_left is not None for event in events)
