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

from isoweave import Checkpoint, IsometricEmbedding, embed_graph
from isoweave.cli import app
from isoweave.graph import knn_graph
from isoweave.persist._checkpoint import FileJournal

POINTS = make_swiss_roll(260, random_state=1)[0]
GRAPH = knn_graph(POINTS, 8).to_matrix()
# Slow to converge, so that there is something to interrupt.
LONG = {"start": "landmark", "tol": 1e-6}


@pytest.fixture(autouse=True)
def handlers_are_put_back():
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    yield
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def interrupt_at(step, number=signal.SIGINT, times=1):
    """A callback that presses Ctrl-C."""

    def press(state):
        if state.iteration == step:
            for _ in range(times):
                signal.raise_signal(number)

    return press


def test_return():
    whole = embed_graph(GRAPH, **LONG)
    part = embed_graph(GRAPH, **LONG, callback=interrupt_at(4), on_interrupt="return")
    assert (part.status, part.n_iter) == ("interrupted", 4)
    assert part.history == whole.history[:5]
    assert np.isfinite(part.coordinates).all()


def test_return_during_a_start():
    """The coarse start breaks off too; what it has becomes the map."""

    class Handler(logging.Handler):
        def emit(self, record):
            event = getattr(record, "isoweave_event", None)
            if event is not None and event.stage == "coarse start" and event.iteration == 2:
                signal.raise_signal(signal.SIGINT)

    logger, handler = logging.getLogger("isoweave"), Handler()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        result = embed_graph(GRAPH, start="coarse", tol=1e-6, on_interrupt="return")
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
    assert (result.status, result.n_iter, result.start) == ("interrupted", 0, "coarse")
    assert result.relative_energy < 0.5


def test_estimator_returns():
    model = IsometricEmbedding(n_neighbors=8, **LONG, callback=interrupt_at(3), on_interrupt="return")
    model.fit(POINTS)
    assert (model.status_, model.n_iter_) == ("interrupted", 3)
    assert model.transform(POINTS[:5]).shape == (5, 2)


def test_raise_is_pythons_own():
    with pytest.raises(KeyboardInterrupt):
        embed_graph(GRAPH, **LONG, callback=interrupt_at(3))


@pytest.mark.parametrize("mode", ["raise", "return"])
def test_interrupted_run_goes_on(tmp_path, mode):
    whole = embed_graph(GRAPH, **LONG)
    keep = {"checkpoint": Checkpoint(tmp_path / "run", resume=True)}
    if mode == "raise":
        with pytest.raises(KeyboardInterrupt, match="interrupted; the run so far is kept in .*run"):
            embed_graph(GRAPH, **LONG, **keep, callback=interrupt_at(4))
    else:
        part = embed_graph(GRAPH, **LONG, **keep, callback=interrupt_at(4), on_interrupt="return")
        assert part.status == "interrupted"
    steps = []
    result = embed_graph(GRAPH, **LONG, **keep, callback=lambda state: steps.append(state.iteration))
    assert steps[0] == 5
    assert result.coordinates.tobytes() == whole.coordinates.tobytes()
    assert result.history == whole.history


@pytest.mark.parametrize("options", [LONG, {"preset": "paper", "max_iter": 30, "tol": 1e-9}, {"tol": 1e-3}])
@pytest.mark.filterwarnings("ignore:The optimiser stopped")
def test_a_fit_that_a_callback_stopped_goes_on_without_it(tmp_path, options):
    """It is not kept as a finished one: the same command without the callback gives the whole result."""
    whole = embed_graph(GRAPH, **options)
    keep = {"checkpoint": Checkpoint(tmp_path / "run", resume=True)}
    part = embed_graph(GRAPH, **options, **keep, callback=lambda state: state.iteration == 4)
    assert (part.status, part.n_iter) == ("stopped", 4)
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


def test_second_interrupt_acts_at_once(tmp_path):
    with pytest.raises(KeyboardInterrupt) as caught:
        embed_graph(GRAPH, **LONG, callback=interrupt_at(4, times=2), on_interrupt="return")
    assert "kept" not in str(caught.value)


def test_other_threads_leave_signals_alone():
    found = []

    def work():
        found.append(signal.getsignal(signal.SIGINT))
        result = embed_graph(
            GRAPH, callback=lambda state: found.append(signal.getsignal(signal.SIGINT)), on_interrupt="return"
        )
        found.append(result.status)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found[-1] == "converged"
    assert len(set(found[:-1])) == 1


def test_unknown_mode():
    with pytest.raises(ValueError, match="on_interrupt must be one of 'raise', 'return', got 'stop'"):
        embed_graph(GRAPH, on_interrupt="stop")


@pytest.fixture
def command(tmp_path):
    np.save(tmp_path / "points.npy", POINTS)
    return [
        *("embed", str(tmp_path / "points.npy"), "-o", str(tmp_path / "out.npz")),
        *("--tol", "1e-6", "--start", "landmark", "-k", "8", "-j", "1"),
    ]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_command_line(command, tmp_path, monkeypatch, number, code):
    runner = CliRunner()
    assert runner.invoke(app, command).exit_code == 0
    expected = (tmp_path / "out.npz").read_bytes()
    (tmp_path / "out.npz").unlink()
    keep = ["--checkpoint", str(tmp_path / "run")]
    is_due, asked = FileJournal.is_due, []

    def press(self, n_bytes=0):
        asked.append(0)
        if len(asked) == 9:
            signal.raise_signal(number)
        return is_due(self, n_bytes)

    with monkeypatch.context() as patch:
        patch.setattr(FileJournal, "is_due", press)
        result = runner.invoke(app, command + keep)
    assert result.exit_code == code
    line = f"isoweave: interrupted; the run so far is kept in {tmp_path / 'run'}"
    assert " ".join(result.stderr.split()) == f"{line}; continue with the same command and --resume"
    assert not (tmp_path / "out.npz").exists()
    again = runner.invoke(app, command + keep)
    assert again.exit_code == 2
    assert "not finished" in again.stderr
    assert runner.invoke(app, [*command, *keep, "--resume"]).exit_code == 0
    assert (tmp_path / "out.npz").read_bytes() == expected


def test_command_line_without_a_checkpoint(command, monkeypatch):
    from isoweave import _component

    local_frames = _component.local_frames

    def press(*arguments, **named):
        signal.raise_signal(signal.SIGTERM)
        return local_frames(*arguments, **named)

    monkeypatch.setattr(_component, "local_frames", press)
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 143
    assert result.stderr.strip() == "isoweave: interrupted"


@pytest.mark.parametrize("option", [["--resume"], ["--every", "3"]])
def test_options_need_a_file(command, option):
    result = CliRunner().invoke(app, command + option)
    assert result.exit_code == 2
    assert f"{option[0]} needs --checkpoint FILE" in result.stderr


def has_state(path):
    return path.exists() and b"component-0.landmark.state" in path.read_bytes()


@pytest.mark.parametrize("sigint", [signal.SIG_DFL, signal.SIG_IGN], ids=["foreground", "background"])
def test_sigterm_from_outside(command, tmp_path, sigint):
    """A process of its own, a signal from another. Shells start background jobs with SIGINT ignored."""
    keep = ["--checkpoint", str(tmp_path / "run"), "--every", "0", "--tol", "1e-14", "--max-iter", "100000"]
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "isoweave", *command, *keep],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        preexec_fn=lambda: signal.signal(signal.SIGINT, sigint),
    )
    deadline = time.monotonic() + 60
    while not has_state(tmp_path / "run") and time.monotonic() < deadline:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.02)
    if sigint is signal.SIG_IGN:
        process.send_signal(signal.SIGINT)
        time.sleep(0.2)
        assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 143, told
    assert told.startswith("isoweave: interrupted; the run so far is kept in")
