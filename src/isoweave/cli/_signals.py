"""SIGTERM as another Ctrl-C that is told apart by its exit code."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

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
    global _terminated
    _terminated = True
    handler = signal.getsignal(signal.SIGINT)
    if callable(handler):
        handler(signal.SIGINT, frame)
    else:
        # Started in the background by a shell, SIGINT is ignored; SIGTERM is not.
        raise KeyboardInterrupt


def exit_code(error: KeyboardInterrupt) -> int:
    """Exit code after an interrupt: 143 if it was SIGTERM's, else 130."""
    return int(TERMINATED if _terminated else INTERRUPTED)
