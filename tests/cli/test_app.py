"""The application: options come from their declaration, help is quick, errors and progress are one line."""

import inspect
import io
import logging
import re
import time
import tomllib
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import typer
from rich.console import Console

import isoweave
from isoweave.cli import _console, app
from isoweave.cli._console import ProgressLine
from isoweave.options import FitOptions, SearchOptions

COMMANDS = typer.main.get_command(app).commands
PARAMS = {name: {param.name: param for param in command.params} for name, command in COMMANDS.items()}


def test_help(run):
    assert run("--version").stdout.strip() == f"isoweave {isoweave.__version__}"
    names = {"embed", "forecast", "dimension", "diagnose", "evaluate", "report", "plot", "view"}
    names |= {"demo", "reproduce"}
    assert set(COMMANDS) == names
    shown = run("--help").stdout
    for name in names:
        assert name in shown
        assert "--verbose" in run(name, "--help").stdout


def test_options_are_those_declared():
    """A new option is declared once, and the command line has it."""
    for option in (*fields(SearchOptions), *fields(FitOptions)):
        if option.name not in ("checkpoint", "verbose"):  # whose options are the command's own
            assert (option.name in PARAMS["embed"]) == option.metadata["on_command"]
        if option.name in PARAMS["embed"] and option.metadata["on_command"]:
            shown = PARAMS["embed"][option.name].help
            assert set(option.metadata["choices"]) <= set(re.findall(r"\w+", shown))
            for name, params in PARAMS.items():
                if option.name in params and name not in ("evaluate", "reproduce"):
                    assert params[option.name].help == shown
    # Documented in README and docs, so they stay; every parameter of the estimator has one.
    given = {flag for param in PARAMS["embed"].values() for flag in param.opts}
    flags = "-o -k -n -j -q -v --seed --n-jobs --memory-limit --anchors --anchor-weight --checkpoint --every"
    assert {*flags.split(), "--resume", "--report", "--columns", "--graph", "--frame-size"} <= given
    parameters = set(inspect.signature(isoweave.IsometricEmbedding).parameters)
    # A file has no dictionary or function to give; a signal ends the command; and it speaks for itself.
    assert parameters - set(PARAMS["embed"]) == {"metric_params", "callback", "on_interrupt"}
    others = {"output", "quiet", "anchors", "anchor_weight", "checkpoint", "every", "resume", "report"}
    assert set(PARAMS["embed"]) - set(PARAMS["forecast"]) == others | {"columns_file", "genes"}


ERRORS = tomllib.loads(Path(__file__).with_name("errors.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("command", ERRORS)
def test_errors_are_one_line(folder, refused, command):
    np.save("short.npy", np.ones((2, 2)))
    np.save("nan.npy", np.full((300, 2), np.nan))
    texts = {"bad.csv": "1,2\n3,x\n", "short.csv": "vertex,x\na,1\nb,2\n", "short.txt": "a\nb\n"}
    texts |= {"small.mtx": "%%MatrixMarket matrix coordinate real symmetric\n2 2 1\n2 1 1.0\n"}
    for name, text in (texts | {"named.csv": "c,1,2\na,0,1\nb,1,1\n"}).items():
        (folder / name).write_text(text)
    if "bare" in command:
        isoweave.IsometricEmbedding().save("bare")
    refused(ERRORS[command], *command.split())
    assert not list(folder.glob("y.*")) + list(folder.glob("r.*"))


def test_verbose_warnings_and_usage_errors(run, graph):
    assert "--colour" in run("embed", "--colour", "red", code=2).stderr
    assert "step 1" in run("embed", "a.npz", "-o", "y.npz", "--verbose").stderr
    failed = run("embed", "none.npz", "-o", "y.npz", "--verbose", code=1)
    assert isinstance(failed.exception, ValueError)
    sp.save_npz("two.npz", sp.block_diag([graph, graph], format="csr"))
    result = run("embed", "two.npz", "-o", "y.npz")
    assert result.stderr.startswith("isoweave: warning: ")
    assert result.stderr.count("\n") == 1
    assert run("embed", "two.npz", "-o", "y.npz", "-q").output == ""


LOGGER = logging.getLogger("isoweave")
EVENT = "optimise  step 3  energy 12.5"


@pytest.mark.parametrize("case", ["shown", "quick", "disabled", "piped", "verbose"])
def test_only_slow_work_on_a_terminal_is_shown(monkeypatch, case):
    monkeypatch.setattr(_console, "_DELAY_SECONDS", 2.0 if case == "quick" else 0.02)
    file, before = io.StringIO(), (LOGGER.level, list(LOGGER.handlers))
    console = Console(file=file, force_terminal=case not in ("piped", "verbose"), width=80)
    with ProgressLine(console, enabled=case != "disabled", verbose=case == "verbose") as progress:
        # Nobody listens where nothing is shown: reporting costs nothing then.
        assert LOGGER.isEnabledFor(logging.DEBUG) == (case in ("shown", "quick", "verbose"))
        for _ in range(2):
            LOGGER.debug("%s", EVENT, extra={"isoweave_event": EVENT})
            LOGGER.info("a fact, which is no event")
        # The display has a thread of its own, which may come late on a busy machine.
        end = time.monotonic() + (30.0 if case == "shown" else 0.3)
        while EVENT not in file.getvalue() and time.monotonic() < end:
            time.sleep(0.01)
    assert not progress._status._live.is_started
    assert (LOGGER.level, LOGGER.handlers) == before
    # Verbose prints a line per event.
    lines = file.getvalue().splitlines()
    assert EVENT in file.getvalue() if case == "shown" else lines == [EVENT] * 2 * (case == "verbose")


def test_an_exception_ends_the_display(monkeypatch):
    monkeypatch.setattr(_console, "_DELAY_SECONDS", 0.0)
    progress = ProgressLine(Console(file=io.StringIO(), force_terminal=True))
    with pytest.raises(TypeError), progress:
        int(progress._timer.join())  # the display is there once this, which is no number, returns
    assert not progress._status._live.is_started
