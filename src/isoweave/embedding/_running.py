"""A run from outside: what it is kept as, and what Ctrl-C does to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

from isoweave._typing import AnyArray
from isoweave._validation import check_option
from isoweave.embedding._options import EmbeddingOptions
from isoweave.optimise import Checkpoint, Interrupt, Report, Run

ON_INTERRUPT = ("raise", "return")

# What a fit may need, or how it is watched: nothing that changes a result.
_NO_MATTER = ("memory_limit",)


def option_values(options: EmbeddingOptions) -> dict[str, Any]:
    """The options that a result depends on."""
    names = [field.name for field in fields(options) if field.name not in _NO_MATTER]
    return {name: getattr(options, name) for name in names}


@contextmanager
def running(
    report: Report,
    checkpoint: Checkpoint | None,
    on_interrupt: str,
    describe: Callable[[], tuple[Mapping[str, AnyArray], Mapping[str, Any]]] = lambda: ({}, {}),
) -> Iterator[Run]:
    """The run of one computation.

    Parameters
    ----------
    report : Report
    checkpoint : Checkpoint or None
    on_interrupt : {"raise", "return"}
    describe : callable
        Gives the inputs and the parameters that define the run. Only called if it is kept.

    Yields
    ------
    Run
    """
    check_option("on_interrupt", on_interrupt, ON_INTERRUPT)
    if checkpoint is not None and not callable(getattr(checkpoint, "open", None)):
        raise TypeError(
            f"checkpoint must be an isoweave.Checkpoint or None, got {checkpoint!r}; write "
            "checkpoint=isoweave.Checkpoint(file)."
        )
    if checkpoint is None and on_interrupt == "raise":
        # Python's own Ctrl-C is what is wanted.
        yield Run(report=report)
        return
    with Interrupt(on_interrupt) as interrupt:
        journal = None if checkpoint is None else checkpoint.open(*describe())
        try:
            yield Run(journal, interrupt, report)
        finally:
            if journal is not None:
                journal.close()
