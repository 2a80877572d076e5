"""A progress line for anything that takes longer than two seconds."""

from __future__ import annotations

import logging
import threading
from typing import Any

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

_DELAY_SECONDS = 2.0


class ProgressLine(logging.Handler):
    """Shows the stage, the step, the energy, the misfit and the time left, once two seconds have gone by.

    Used as a context manager; meanwhile it listens to the logger "isoweave", whose records of stages and
    steps carry an event. A timer starts the display, because a stage may take long before anything is said.
    Nothing is shown where standard error is not a terminal, unless ``verbose``: then every stage and step is
    a line of its own.
    """

    def __init__(self, console: Console, *, enabled: bool = True, verbose: bool = False) -> None:
        super().__init__(logging.DEBUG)
        self._console = console
        self._verbose = verbose
        self._is_shown = enabled and console.is_terminal
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not self._is_shown,
        )
        self._task = self._progress.add_task("reading")
        self._timer = threading.Timer(_DELAY_SECONDS, self._progress.start)
        self._timer.daemon = True
        self._logger = logging.getLogger("isoweave")
        self._level = self._logger.level

    def __enter__(self) -> ProgressLine:
        if self._is_shown:
            self._timer.start()
        if self._is_shown or self._verbose:
            self._level = self._logger.level
            self._logger.setLevel(logging.DEBUG)
            self._logger.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_shown or self._verbose:
            self._logger.removeHandler(self)
            self._logger.setLevel(self._level)
        if self._is_shown:
            self._timer.cancel()
            # A timer that has fired already may still be inside start().
            self._timer.join()
            # Of a display that is switched off, rich 13.7 prints an empty line.
            self._progress.stop()

    def emit(self, record: logging.LogRecord) -> None:
        """Show a record that carries an event."""
        event: Any = getattr(record, "isoweave_event", None)
        if event is not None:
            self.describe(str(event))

    def describe(self, text: str) -> None:
        """Say what is going on now."""
        if self._verbose:
            self._console.print(text, highlight=False)
        self._progress.update(self._task, description=text)
