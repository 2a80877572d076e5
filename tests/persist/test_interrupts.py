"""Ctrl-C and SIGTERM: raise or return, with and without a checkpoint, in Python and on the command line."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from sklearn.datasets import make_swiss_roll
from typer.testing import CliRunner

from isoweave import Checkpoint, IsometricEmbedding, _component, embed_graph
from isoweave.cli import app
from isoweave.graph import knn_graph
from isoweave.persist._checkpoint import FileJournal

POINTS = make_swiss_roll(130, random_state=1)[0]
GRAPH = knn_graph(POINTS, 8).to_matrix()
# Slow to converge, so that there is something to interrupt.
LONG = {"start": "landmark", "tol": 1e-6, "global_weight": 0}


def interrupt_at(step, times=1):
    """A callback that presses Ctrl-C."""

    def press(state):
        if state.iteration == step:
            for _ in range(times):
                signal.raise_signal(signal.SIGINT)

    return press


def test_return():
    whole = IsometricEmbedding(n_neighbors=8, **LONG).fit(POINTS)
    part = IsometricEmbedding(n_neighbors=8, **LONG, callback=interrupt_at(4), on_interrupt="return")
    part.fit(POINTS)
    assert (part.status_, part.n_iter_) == ("interrupted", 4)
    assert part.history_ == whole.history_[:5]
    assert np.isfinite(part.transform(POINTS[:5])).all()
    # A second one acts at once.
    with pytest.raises(KeyboardInterrupt) as caught:
        embed_graph(GRAPH, **LONG, callback=interrupt_at(4, times=2), on_interrupt="return")
    assert "kept" not in str(caught.value)
    with pytest.raises(ValueError, match="on_interrupt must be one of 'raise', 'return', got 'stop'"):
        embed_graph(GRAPH, on_interrupt="stop")


def test_return_during_a_start(caplog):
    """The coarse start breaks off too; what it has becomes the map."""

    def press(record):
        event = getattr(record, "isoweave_event", None)
        if event is not None and event.stage == "coarse start" and event.iteration == 2:
            signal.raise_signal(signal.SIGINT)
        return True

    with caplog.at_level(logging.DEBUG, logger="isoweave"), caplog.filtering(press):
        result = embed_graph(GRAPH, start="coarse", tol=1e-6, on_interrupt="return")
    assert (result.status, result.n_iter, result.start) == ("interrupted", 0, "coarse")
    assert result.relative_energy < 0.5


@pytest.mark.parametrize("options", [LONG, {"preset": "paper", "max_iter": 20, "tol": 1e-9}, {"tol": 1e-3}])
@pytest.mark.parametrize("way", ["raise", "return", "callback"])
@pytest.mark.filterwarnings("ignore:The optimiser stopped")
def test_an_interrupted_or_stopped_run_goes_on(tmp_path, options, way):
    """It is not kept as a finished one: the same command without the callback gives the whole result."""
    whole = embed_graph(GRAPH, **options)
    keep = {"checkpoint": Checkpoint(tmp_path / "run", resume=True)}
    if way == "raise":
        with pytest.raises(KeyboardInterrupt, match="interrupted; the run so far is kept in .*run"):
            embed_graph(GRAPH, **options, **keep, callback=interrupt_at(4))
    else:
        ends = {
            "return": {"callback": interrupt_at(4), "on_interrupt": "return"},
            "callback": {"callback": lambda state: state.iteration == 4},
        }
        part = embed_graph(GRAPH, **options, **keep, **ends[way])
        assert (part.status, part.n_iter) == ({"return": "interrupted"}.get(way, "stopped"), 4)
    steps = []
    result = embed_graph(GRAPH, **options, **keep, callback=lambda state: steps.append(state.iteration))
    assert steps[0] == 5
    assert (result.status, result.history) == (whole.status, whole.history)
    assert result.coordinates.tobytes() == whole.coordinates.tobytes()


def test_interrupt_in_the_last_step_loses_nothing(tmp_path):
    whole = embed_graph(GRAPH, **LONG)
    keep = Checkpoint(tmp_path / "run", resume=True)
    with pytest.raises(KeyboardInterrupt, match="kept in"):
        embed_graph(GRAPH, **LONG, checkpoint=keep, callback=interrupt_at(whole.n_iter))
    result = embed_graph(GRAPH, **LONG, checkpoint=keep, callback=lambda state: pytest.fail("a step"))
    assert result.coordinates.tobytes() == whole.coordinates.tobytes()


def test_without_a_checkpoint_and_in_other_threads_signals_are_pythons_own():
    with pytest.raises(KeyboardInterrupt):
        embed_graph(GRAPH, **LONG, callback=interrupt_at(3))
    found = []

    def look(state):
        found.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(
        target=embed_graph, args=(GRAPH,), kwargs={"callback": look, "on_interrupt": "return"}
    )
    thread.start()
    thread.join()
    assert set(found) == {signal.default_int_handler}


@pytest.fixture
def command(tmp_path):
    np.save(tmp_path / "points.npy", POINTS)
    files = ("embed", str(tmp_path / "points.npy"), "-o", str(tmp_path / "out.npz"))
    return [*files, "--tol", "1e-6", "--start", "landmark", "-k", "8", "-j", "1"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_command_line(command, tmp_path, monkeypatch, number, code):
    runner = CliRunner()
    assert runner.invoke(app, command).exit_code == 0
    expected = (tmp_path / "out.npz").read_bytes()
    (tmp_path / "out.npz").unlink()
    keep = ["--checkpoint", str(tmp_path / "run")]
    is_due, asked = FileJournal.is_due, []

    def press(self, *arguments):
        asked.append(0)
        if len(asked) == 9:
            signal.raise_signal(number)
        return is_due(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(FileJournal, "is_due", press)
        result = runner.invoke(app, command + keep)
    assert result.exit_code == code
    line = f"isoweave: interrupted; the run so far is kept in {tmp_path / 'run'}"
    assert " ".join(result.stderr.split()) == f"{line}; continue with the same command and --resume"
    assert not (tmp_path / "out.npz").exists()
    again = runner.invoke(app, command + keep)
    assert (again.exit_code, "not finished" in again.stderr) == (2, True)
    assert runner.invoke(app, [*command, *keep, "--resume"]).exit_code == 0
    assert (tmp_path / "out.npz").read_bytes() == expected


def test_command_line_without_a_checkpoint(command, monkeypatch):
    for option in (["--resume"], ["--every", "3"]):
        result = CliRunner().invoke(app, command + option)
        assert (result.exit_code, f"{option[0]} needs --checkpoint FILE" in result.stderr) == (2, True)
    monkeypatch.setattr(_component, "local_frames", lambda *_, **__: signal.raise_signal(signal.SIGTERM))
    result = CliRunner().invoke(app, command)
    assert (result.exit_code, result.stderr.strip()) == (143, "isoweave: interrupted")


def test_sigterm_to_a_job_in_the_background(command, tmp_path):
    """A process of its own, a signal from another. Shells start such jobs with SIGINT ignored."""
    keep = ["--checkpoint", str(tmp_path / "run"), "--every", "0", "--tol", "1e-14", "--max-iter", "100000"]
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "isoweave", *command, *keep],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )
    deadline = time.monotonic() + 60
    path = tmp_path / "run"
    while not (path.exists() and b"landmark.state" in path.read_bytes()) and time.monotonic() < deadline:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    time.sleep(0.2)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 143, told
    assert told.startswith("isoweave: interrupted; the run so far is kept in")
