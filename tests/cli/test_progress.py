from __future__ import annotations

import io
import logging
import time

import pytest
from rich.console import Console

from isoweave.cli import _console
from isoweave.cli._console import ProgressLine

LOGGER = logging.getLogger("isoweave")


class Event:
    """Prints like the engine's."""

    def __str__(self):
        return "optimise  step 3  energy 12.5"


def say():
    LOGGER.debug("%s", Event(), extra={"isoweave_event": Event()})


def terminal():
    return Console(file=io.StringIO(), force_terminal=True, width=80)


def work(progress, seconds):
    with progress:
        say()
        time.sleep(seconds)


def test_nothing_is_shown_for_quick_work():
    console = terminal()
    work(ProgressLine(console), 0.05)
    assert console.file.getvalue() == ""


def test_slow_work_shows_stage_step_and_energy(monkeypatch):
    monkeypatch.setattr(_console, "_DELAY_SECONDS", 0.02)
    console = terminal()
    work(ProgressLine(console), 0.4)
    for word in ("optimise", "step 3", "energy 12.5"):
        assert word in console.file.getvalue()


@pytest.mark.parametrize("is_terminal", [True, False])
def test_nothing_is_shown_when_disabled_or_piped(monkeypatch, is_terminal):
    monkeypatch.setattr(_console, "_DELAY_SECONDS", 0.02)
    console = terminal() if is_terminal else Console(file=io.StringIO())
    work(ProgressLine(console, enabled=not is_terminal), 0.3)
    assert console.file.getvalue() == ""


def test_verbose_prints_a_line_per_event():
    console = Console(file=io.StringIO())
    with ProgressLine(console, verbose=True):
        say()
        LOGGER.info("a fact, which is no event")
        say()
    assert console.file.getvalue().splitlines() == ["optimise  step 3  energy 12.5"] * 2


@pytest.mark.parametrize("is_verbose", [True, False])
def test_the_logger_is_left_as_it_was(is_verbose):
    before = LOGGER.level, list(LOGGER.handlers)
    with ProgressLine(Console(file=io.StringIO()), verbose=is_verbose):
        # Nobody listens where nothing is shown: reporting costs nothing then.
        assert LOGGER.isEnabledFor(logging.DEBUG) == is_verbose
    assert (LOGGER.level, LOGGER.handlers) == before


def test_an_exception_ends_the_display(monkeypatch):
    monkeypatch.setattr(_console, "_DELAY_SECONDS", 0.01)
    progress = ProgressLine(terminal())

    def fail():
        with progress:
            time.sleep(0.1)
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        fail()
    assert progress._progress.finished or not progress._progress.live.is_started
