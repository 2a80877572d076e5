"""What every command says beside its result: errors and warnings in one line each, progress, exit codes."""

from __future__ import annotations

import logging
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

# As shells report a process that a signal ended.
_INTERRUPTED, _TERMINATED = 128 + signal.SIGINT, 128 + signal.SIGTERM
_DELAY_SECONDS = 2.0

_is_terminated = False


def one_line(message: object) -> str:
    """A message without line breaks or runs of spaces."""
    return " ".join(str(message).split())


def duration(seconds: float) -> str:
    """A time, roughly."""
    if seconds < 90:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def print_rows(title: str, rows: dict[str, str]) -> None:
    """Names and values below each other."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, show_header=False, title_justify="left")
    for name, value in rows.items():
        table.add_row(name, value)
    Console().print(table)


@contextmanager
def reported(verbose: bool = False) -> Iterator[None]:
    """Print an error of the user's making as one line on standard error and exit with code 2.

    Errors of any other type are faults of ours and keep their traceback, as all do if ``verbose``.
    """
    global _is_terminated
    _is_terminated = False
    try:
        yield
    except (ValueError, TypeError, ImportError, OSError, MemoryError) as error:
        if verbose:
            raise
        print(f"isoweave: error: {one_line(error) or type(error).__name__}", file=sys.stderr)
        raise typer.Exit(2) from error
    except KeyboardInterrupt as error:
        what = one_line(error) or "interrupted"
        hint = "; continue with the same command and --resume" if "kept in" in what else ""
        print(f"isoweave: {what}{hint}", file=sys.stderr)
        raise typer.Exit(int(_TERMINATED if _is_terminated else _INTERRUPTED)) from error


@contextmanager
def printed_warnings(quiet: bool = False) -> Iterator[None]:
    """Print each warning as one line on standard error as it comes, or not at all."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if quiet else "default")
        # In place of Python's own format, which quotes a source line that means nothing to a user.
        warnings.showwarning = lambda message, *_, **__: print(
            f"isoweave: warning: {one_line(message)}", file=sys.stderr
        )
        yield


@contextmanager
def sigterm_as_interrupt() -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C within the block, so that a fit ends in the same orderly way."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGTERM, _pass_on)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous if previous is not None else signal.SIG_DFL)


def _pass_on(*_: object) -> None:
    """Ask the fit to end, or end at once: if there is none, or if it has been asked before."""
    # Not by way of SIGINT, which is ignored in a job that a shell has started in the background.
    global _is_terminated
    _is_terminated = True
    # A signal is no time to import: without the engine there is no fit yet.
    engine: Any = sys.modules.get("isoweave.optimise")
    running = getattr(getattr(engine, "Interrupt", None), "current", None)
    if running is None or running.is_asked:
        raise KeyboardInterrupt
    running.is_asked = True


class ProgressLine(logging.Handler):
    """Shows on a terminal what the logger "isoweave" reports, once two seconds have gone by.

    If ``verbose``, anywhere, at once, and every stage and step on a line of its own. A timer starts the
    display, because a stage may take long before anything is said.
    """

    def __init__(self, console: Any = None, *, enabled: bool = True, verbose: bool = False) -> None:
        from rich.console import Console

        super().__init__(logging.DEBUG)
        self._console = console or Console(stderr=True)
        self._verbose = verbose
        self._is_shown = enabled and self._console.is_terminal
        self._status = self._console.status("reading")
        self._timer = threading.Timer(_DELAY_SECONDS, self._status.start)
        self._timer.daemon = True
        self._logger = logging.getLogger("isoweave")

    def __enter__(self) -> ProgressLine:
        self._level = self._logger.level
        if self._is_shown:
            self._timer.start()
        if self._is_shown or self._verbose:
            self._logger.setLevel(logging.DEBUG)
            self._logger.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self)
        self._logger.setLevel(self._level)
        if self._is_shown:
            self._timer.cancel()
            # A timer that has fired already may still be inside start().
            self._timer.join()
            self._status.stop()

    def emit(self, record: logging.LogRecord) -> None:
        """Show a record that carries an event."""
        event: Any = getattr(record, "isoweave_event", None)
        if event is not None:
            self.describe(str(event))

    def describe(self, text: str) -> None:
        """Say what is going on now."""
        if self._verbose:
            self._console.print(text, highlight=False)
        self._status.update(text)
