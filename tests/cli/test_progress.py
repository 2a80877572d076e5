"""What is shown on a terminal while a command works."""

import io
import logging
import time

import pytest
from rich.console import Console

from isoweave.cli import _console
from isoweave.cli._console import ProgressLine

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
