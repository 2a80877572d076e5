"""Ctrl-C and SIGTERM: raise or return, with and without a checkpoint, in Python and on the command line."""

import logging
import signal
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from typer.testing import CliRunner

from isoweave import Checkpoint, IsometricEmbedding, _component, embed_graph
from isoweave.cli import app
from isoweave.persist._checkpoint import FileJournal
from runs import GRAPH, POINTS

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
@pytest.mark.filterwarnings("ignore:The optimiser stopped")
def test_an_interrupted_or_stopped_run_goes_on(tmp_path, options):
    """It is not kept as a finished one: the same command without the callback gives the whole result."""
    whole = embed_graph(GRAPH, **options)
    ends = {
        "raise": {"callback": interrupt_at(4)},
        "interrupted": {"callback": interrupt_at(4), "on_interrupt": "return"},
        "stopped": {"callback": lambda state: state.iteration == 4},
    }
    for way, end in ends.items():
        keep = {"checkpoint": Checkpoint(tmp_path / way, resume=True)}
        if way == "raise":
            with pytest.raises(KeyboardInterrupt, match="interrupted; the run so far is kept in .*raise"):
                embed_graph(GRAPH, **options, **keep, **end)
        else:
            part = embed_graph(GRAPH, **options, **keep, **end)
            assert (part.status, part.n_iter) == (way, 4)
        steps = []
        result = embed_graph(GRAPH, **options, **keep, callback=steps.append)
        assert steps[0].iteration == 5
        assert (result.status, result.history) == (whole.status, whole.history)
        assert result.coordinates.tobytes() == whole.coordinates.tobytes()
    if options is LONG:  # an interrupt in the last step loses nothing
        keep = {"checkpoint": Checkpoint(tmp_path / "last", resume=True)}
        with pytest.raises(KeyboardInterrupt, match="kept in"):
            embed_graph(GRAPH, **LONG, **keep, callback=interrupt_at(whole.n_iter))
        result = embed_graph(GRAPH, **LONG, **keep, callback=lambda state: pytest.fail("a step"))
        assert result.coordinates.tobytes() == whole.coordinates.tobytes()


def test_without_a_checkpoint_and_in_other_threads_signals_are_pythons_own():
    with pytest.raises(KeyboardInterrupt):
        embed_graph(GRAPH, **LONG, callback=interrupt_at(3))
    found = []

    def fit():
        embed_graph(
            GRAPH, callback=lambda _: found.append(signal.getsignal(signal.SIGINT)), on_interrupt="return"
        )

    with ThreadPoolExecutor(1) as pool:
        pool.submit(fit).result()
    assert set(found) == {signal.default_int_handler}


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_command_line(tmp_path, monkeypatch, number, code):
    np.save(tmp_path / "points.npy", POINTS)
    files = ("embed", str(tmp_path / "points.npy"), "-o", str(tmp_path / "out.npz"))
    command = [*files, "--tol", "1e-6", "--start", "landmark", "-k", "8", "-j", "1"]
    runner, keep = CliRunner(), ["--checkpoint", str(tmp_path / "run")]
    assert runner.invoke(app, command).exit_code == 0
    expected = (tmp_path / "out.npz").read_bytes()
    (tmp_path / "out.npz").unlink()
    is_due, asked = FileJournal.is_due, []

    def press(self, *arguments):
        asked.append(0)
        if len(asked) == 9:
            # Shells start jobs in the background with SIGINT ignored; they obey SIGTERM.
            signal.raise_signal(number)
        return is_due(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(FileJournal, "is_due", press)
        if number == signal.SIGTERM:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        result = runner.invoke(app, command + keep)
        signal.signal(signal.SIGINT, signal.default_int_handler)
    assert result.exit_code == code
    line = f"isoweave: interrupted; the run so far is kept in {tmp_path / 'run'}"
    assert " ".join(result.stderr.split()) == f"{line}; continue with the same command and --resume"
    assert not (tmp_path / "out.npz").exists()
    again = runner.invoke(app, command + keep)
    assert (again.exit_code, "not finished" in again.stderr) == (2, True)
    assert runner.invoke(app, [*command, *keep, "--resume"]).exit_code == 0
    assert (tmp_path / "out.npz").read_bytes() == expected
    # Without a checkpoint it ends at once.
    monkeypatch.setattr(_component, "local_frames", lambda *_, **__: signal.raise_signal(number))
    result = runner.invoke(app, command)
    assert (result.exit_code, result.stderr.strip()) == (code, "isoweave: interrupted")
