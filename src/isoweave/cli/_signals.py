"""SIGTERM as another Ctrl-C that is told apart by its exit code."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

# As shells report a process that a signal ended: 128 and the number of the signal.
INTERRUPTED = 128 + signal.SIGINT
TERMINATED = 128 + signal.SIGTERM

_terminated = False


@contextmanager
def sigterm_as_interrupt() -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C within the block, so that a fit ends in the same orderly way."""
    global _terminated
    _terminated = False
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGTERM, _pass_on)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous if previous is not None else signal.SIG_DFL)


def _pass_on(number: int, frame: FrameType | None) -> None:
    """Ask the fit to end, or end at once: if there is none, or if it has been asked before.

    Not by way of SIGINT, which is ignored in a job that a shell has started in the background.
    """
    global _terminated
    _terminated = True
    # A signal is no time to import: without the engine there is no fit yet.
    engine: Any = sys.modules.get("isoweave.optimise")
    running = getattr(getattr(engine, "Interrupt", None), "current", None)
    if running is None or running.is_asked:
        raise KeyboardInterrupt
    running.is_asked = True


def exit_code(error: KeyboardInterrupt) -> int:
    """Exit code after an interrupt: 143 if it was SIGTERM's, else 130."""
    return int(TERMINATED if _terminated else INTERRUPTED)
