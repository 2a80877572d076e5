"""What is shown on a terminal while a command works."""

from __future__ import annotations

import io
import logging
import time

import pytest
from rich.console import Console

from isoweave.cli import _console
from isoweave.cli._console import ProgressLine

LOGGER = logging.getLogger("isoweave")
EVENT = "optimise  step 3  energy 12.5"


def say():
    LOGGER.debug("%s", EVENT, extra={"isoweave_event": EVENT})


def terminal():
    return Console(file=io.StringIO(), force_terminal=True, width=80)


@pytest.mark.parametrize("case", ["shown", "quick", "disabled", "piped"])
def test_only_slow_work_on_a_terminal_is_shown(monkeypatch, case):
    monkeypatch.setattr(_console, "_DELAY_SECONDS", 2.0 if case == "quick" else 0.02)
    console = Console(file=io.StringIO()) if case == "piped" else terminal()
    with ProgressLine(console, enabled=case != "disabled"):
        say()
        # The display has a thread of its own, which may come late on a busy machine.
        end = time.monotonic() + (30.0 if case == "shown" else 0.3)
        while EVENT not in console.file.getvalue() and time.monotonic() < end:
            time.sleep(0.01)
    shown = console.file.getvalue()
    assert EVENT in shown if case == "shown" else shown == ""


@pytest.mark.parametrize("is_verbose", [True, False])
def test_verbose_prints_a_line_per_event_and_leaves_the_logger_as_it_was(is_verbose):
    console, before = Console(file=io.StringIO()), (LOGGER.level, list(LOGGER.handlers))
    with ProgressLine(console, verbose=is_verbose):
        # Nobody listens where nothing is shown: reporting costs nothing then.
        assert LOGGER.isEnabledFor(logging.DEBUG) == is_verbose
        say()
        LOGGER.info("a fact, which is no event")
        say()
    assert console.file.getvalue().splitlines() == [EVENT] * 2 * is_verbose
    assert (LOGGER.level, LOGGER.handlers) == before


def test_an_exception_ends_the_display(monkeypatch):
    monkeypatch.setattr(_console, "_DELAY_SECONDS", 0.0)
    progress = ProgressLine(terminal())
    with pytest.raises(TypeError), progress:
        int(progress._timer.join())  # the display is there once this, which is no number, returns
    assert not progress._status._live.is_started
