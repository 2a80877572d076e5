"""What accompanies a run: what it reports, where its state is kept, and whether it should end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import Any, ClassVar

import numpy as np

from isoweave._typing import AnyArray, FloatArray


@dataclass(frozen=True)
class StepRecord:
    """One accepted step; iteration 0 is the start.

    ``gradient_norm`` is the stopping quantity: the size of the next alternating step relative to the frames.
    ``step`` is the step length, 1 for a full quasi-Newton step.
    """

    iteration: int
    energy: float
    gradient_norm: float
    step: float


def table_of(history: Iterable[StepRecord]) -> FloatArray:
    """Steps as rows of a table, shape (k, 4)."""
    rows = [(step.iteration, step.energy, step.gradient_norm, step.step) for step in history]
    return np.array(rows, dtype=np.float64).reshape(-1, 4)


def steps_of(table: FloatArray) -> tuple[StepRecord, ...]:
    """The steps that are the rows of such a table."""
    return tuple([StepRecord(int(number), *step) for number, *step in table.tolist()])


@dataclass(frozen=True, eq=False)
class IterationState:
    """Handed to callbacks after every step; a callback that returns True stops the fit.

    A callback given to :func:`isoweave.embed_graph` or the estimator sees a copy of the coordinates in the
    order and unit of its input, NaN outside the component at work; others see the optimiser's own, read-only.
    """

    stage: str
    iteration: int
    energy: float
    gradient_norm: float
    coordinates: FloatArray


Callback = Callable[[IterationState], object]


@dataclass(frozen=True, eq=False)
class IterationResult:
    """Where an iteration ended and why.

    Coordinates have zero mean, or hard anchors in their places. The status is "converged", "stalled" (no step
    lowers the energy any more within rounding), "max_iter", "stopped" (by the callback) or "interrupted".
    """

    coordinates: FloatArray
    alignments: FloatArray
    energy: float
    history: tuple[StepRecord, ...]
    status: str

    @property
    def n_iter(self) -> int:
        return self.history[-1].iteration


@dataclass(frozen=True)
class Progress:
    """One step as it is reported: misfit is ``sqrt(energy / mass)``; iterations end at ``size <= bound``."""

    stage: str
    iteration: int
    max_iter: int
    energy: float
    misfit: float
    size: float
    bound: float


@dataclass(frozen=True, eq=False)
class Record:
    """What a stage hands on, or an iteration needs to go on: JSON values and arrays by name."""

    values: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, AnyArray] = field(default_factory=dict)

    def array(self, name: str, shape: tuple[int | None, ...], dtype: Any = np.float64) -> AnyArray:
        """An array of a record that comes from a file: present, of this type and shape (None: any length)."""
        found, wanted = self.arrays.get(name), np.dtype(dtype)
        if found is None:
            raise ValueError(f"array {name} is missing")
        fits = [want in (None, have) for have, want in zip(found.shape, shape, strict=False)]
        if found.dtype != wanted or len(found.shape) != len(shape) or not all(fits):
            have = f"{found.dtype} of shape {found.shape}"
            raise ValueError(f"array {name} is {have}, expected {wanted} of shape {shape}")
        return found

    def value(self, name: str, kind: type) -> Any:
        """A value of a record that comes from a file, of this type."""
        found = self.values.get(name)
        if not isinstance(found, kind) or (kind is int and isinstance(found, bool)):
            raise ValueError(f"{name} must be {kind.__name__}, found {found!r:.60}")
        return found


class Interrupt:
    """Ctrl-C as a request: the first is noted, the second acts at once as if we were not here.

    The handler is installed in the main thread, until the end of the block. ``current`` is the one there, for
    programs that treat another signal alike (``isoweave embed`` does with SIGTERM). ``mode`` "raise" ends the
    run with KeyboardInterrupt, "return" makes it return what it has. ``is_asked``: one came; ``is_stopped``:
    a callback has ended the run; ``is_honoured``: the run has acted on it.
    """

    current: ClassVar[Interrupt | None] = None

    def __init__(self, mode: str = "raise") -> None:
        self.mode = mode
        self.is_asked = self.is_stopped = self.is_honoured = False
        self._previous: Any = None
        self._outer: Interrupt | None = None

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():
            self._outer, Interrupt.current = Interrupt.current, self
            previous = signal.getsignal(signal.SIGINT)
            # One that somebody ignores, or handles outside of Python, is theirs.
            if callable(previous):
                signal.signal(signal.SIGINT, self._note)
                self._previous = previous
        return self

    def __exit__(self, *error: object) -> None:
        if self._previous is not None:
            signal.signal(signal.SIGINT, self._previous)
            self._previous = None
        if Interrupt.current is self:
            Interrupt.current = self._outer

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.is_asked:
            self._previous(number, frame)
        self.is_asked = True

    @property
    def ending(self) -> str:
        """Status of an iteration that has to end; empty while all is well."""
        return "interrupted" if self.is_asked else "stopped" if self.is_stopped else ""


@dataclass(frozen=True, eq=False)
class Run:
    """A run, or a part of it that has a place of its own in the journal.

    ``journal`` is what :class:`isoweave.Checkpoint` opens: it keeps what a run has finished by named slots;
    one that is missing is computed again. ``report`` hears of stages and steps (:class:`Progress`).
    ``callback`` is the user's, for the iterations that lead to the embedding itself. ``one_of_many``: this
    component is, so that compiling what saves milliseconds in each is worth it.
    """

    journal: Any = None
    interrupt: Interrupt = field(default_factory=Interrupt)
    report: Any = None
    place: str = ""
    callback: Callback | None = None
    one_of_many: bool = False

    def within(self, name: str) -> Run:
        """The same run with a name before its slots."""
        return self if self.journal is None else replace(self, place=f"{self.place}{name}.")

    def aside(self, name: str | None = None) -> Run:
        """The same for an auxiliary problem, which does not call the user's callback."""
        return replace(self if name is None else self.within(name), callback=None)

    def load(self, slot: str) -> Record | None:
        """What an earlier run has kept here; None if nothing."""
        return None if self.journal is None else self.journal.load(self.place + slot)

    def keep(self, slot: str, make: Callable[[], Record]) -> None:
        """Keep what a stage has handed on."""
        # What an interrupted iteration leads to is not what the whole one would have.
        if self.journal is None or self.interrupt.is_honoured:
            return
        self.journal.keep(self.place + slot, make)
        if self.journal.is_due():
            self.journal.write()

    def forget(self) -> None:
        """What is kept in this place is not needed any more."""
        if self.journal is not None and not self.interrupt.is_honoured:
            self.journal.forget(self.place)

    def stage(self, name: str) -> None:
        """A stage begins."""
        if self.report is not None:
            self.report.stage(name)
        self._raise_if_asked()

    def step(self, make_progress: Callable[[], Progress], make_record: Callable[[], Record]) -> str:
        """A step has been taken, and ``make_record`` says how to go on; the status if that is not wanted."""
        if self.report is not None:
            self.report.step(make_progress())
        # Read once: a request that comes during the write is met by the next step.
        status = self.interrupt.ending
        if status == "interrupted":
            self._end(make_record)
        elif self.journal is not None and not status and self.journal.is_due():
            self.journal.keep(self.place + "state", make_record)
            self.journal.write()
        return status

    def stop(self, make_record: Callable[[], Record]) -> None:
        """A callback has ended the run: keep how to go on, and nothing that is made of the rest."""
        self.interrupt.is_stopped = True
        self._end(make_record)

    def pause(self) -> None:
        """Nothing is under way that a record could tell how to go on with: end here if that is asked for."""
        if self.interrupt.is_asked:
            self._end()

    def finish(self) -> None:
        """The whole run has come to its end."""
        self._raise_if_asked()
        if self.journal is not None and not self.interrupt.is_honoured:
            self.journal.finish()

    def _raise_if_asked(self) -> None:
        if self.interrupt.is_asked and self.interrupt.mode == "raise":
            self._end()

    def _end(self, make_record: Callable[[], Record] | None = None) -> None:
        """Write what there is, once, and raise if that is what Ctrl-C does."""
        kept = ""
        if self.journal is not None and not self.interrupt.is_honoured:
            if make_record is not None:
                self.journal.keep(self.place + "state", make_record)
            if self.journal.write():
                kept = f"; the run so far is kept in {self.journal.path}"
            self.journal.close()
        self.interrupt.is_honoured = True
        if self.interrupt.is_asked and self.interrupt.mode == "raise":
            raise KeyboardInterrupt(f"interrupted{kept}")


# Nothing is kept, nothing interrupts, nobody hears of it.
ALONE = Run()
