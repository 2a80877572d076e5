"""A progress line for anything that takes longer than two seconds."""

from __future__ import annotations

import threading
from typing import Any

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

_DELAY_SECONDS = 2.0


class ProgressLine:
    """Shows the stage, the step, the energy and the time, once two seconds have gone by.

    Used as a context manager; the object itself is the estimator's ``callback``. A timer starts the
    display, because the stages before the first step (neighbours, frames) call nobody. Nothing is shown
    where standard error is not a terminal, unless ``verbose``: then every step is a line of its own.
    """

    def __init__(self, console: Console, *, enabled: bool = True, verbose: bool = False) -> None:
        self._console = console
        self._verbose = verbose
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not (enabled and console.is_terminal),
        )
        self._task = self._progress.add_task("reading")
        self._timer = threading.Timer(_DELAY_SECONDS, self._progress.start)
        self._timer.daemon = True

    def __enter__(self) -> ProgressLine:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        # A timer that has fired already may still be inside start().
        self._timer.join()
        self._progress.stop()

    def __call__(self, state: Any) -> None:
        self.describe(f"{state.stage}  step {state.iteration}  energy {state.energy:.6g}")

    def describe(self, text: str) -> None:
        """Say what is going on now."""
        if self._verbose:
            self._console.print(text, highlight=False)
        self._progress.update(self._task, description=text)
