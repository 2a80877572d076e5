"""What accompanies a run: where its state is kept, whether it should end, and who hears of it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import FrameType, TracebackType
from typing import Any, ClassVar, Protocol

import numpy as np

from isoweave._typing import AnyArray
from isoweave.optimise._state import Callback


@dataclass(frozen=True, eq=False)
class Record:
    """What a stage hands on, or an iteration needs to go on: JSON values and arrays by name."""

    values: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, AnyArray] = field(default_factory=dict)

    def array(self, name: str, shape: tuple[int | None, ...], dtype: Any = np.float64) -> AnyArray:
        """An array of a record that comes from a file: present, of this type and shape (None: any length)."""
        found = self.arrays.get(name)
        sizes = None if found is None else found.shape
        if (
            found is None
            or found.dtype != np.dtype(dtype)
            or len(found.shape) != len(shape)
            or any(want is not None and have != want for have, want in zip(found.shape, shape, strict=True))
        ):
            have = "is missing" if found is None else f"is {found.dtype} of shape {sizes}"
            raise ValueError(
                f"The checkpoint cannot be used: array {name} {have}, expected {np.dtype(dtype)} of shape "
                f"{shape}. Remove it to start afresh."
            )
        return found

    def value(self, name: str, kind: type) -> Any:
        """A value of a record that comes from a file, of this type."""
        found = self.values.get(name)
        if not isinstance(found, kind) or (kind is int and isinstance(found, bool)):
            raise ValueError(
                f"The checkpoint cannot be used: {name} must be {kind.__name__}, found {found!r:.60}. "
                "Remove it to start afresh."
            )
        return found


class Journal(Protocol):
    """Keeps what a run has finished so that a later run can continue, by slots with a name each.

    All that is kept follows from the input and the parameters, so slots are independent of each other: one
    that is missing is computed again. ``keep`` remembers how to make a record, ``write`` makes and writes
    what is pending (False, with a warning, if the disk would not have it), ``forget`` drops slots by prefix
    once what replaces them has been written, ``is_due`` says whether so many bytes more should be written
    now. :class:`isoweave.Checkpoint` opens the one that users get.
    """

    @property
    def name(self) -> str: ...
    def has(self, slot: str) -> bool: ...
    def load(self, slot: str) -> Record | None: ...
    def keep(self, slot: str, make: Callable[[], Record]) -> None: ...
    def forget(self, prefix: str) -> None: ...
    def is_due(self, n_bytes: int = 0) -> bool: ...
    def write(self) -> bool: ...
    def finish(self) -> None: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class Progress:
    """One step of an iteration, as it is reported.

    Attributes
    ----------
    stage : str
    iteration, max_iter : int
    energy : float
    misfit : float
        ``sqrt(energy / mass)``: what is left, relative to the lengths.
    size, bound : float
        What the stopping rule looks at, and where it stops.
    """

    stage: str
    iteration: int
    max_iter: int
    energy: float
    misfit: float
    size: float
    bound: float


class Report(Protocol):
    """Hears that a stage begins, or that a step has been taken."""

    def stage(self, name: str) -> None: ...
    def step(self, progress: Progress) -> None: ...


class Interrupt:
    """Ctrl-C as a request: the first is noted, the second acts at once as if we were not here.

    Only the main thread of a program gets signals, and only there the handler is installed; it is put back
    at the end of the block. ``current`` is the one of the main thread, for programs that want to treat
    another signal in the same way (``isoweave embed`` does with SIGTERM).

    ``mode`` "raise" ends the run with KeyboardInterrupt, "return" makes it return what it has. ``is_asked``:
    one came; ``is_honoured``: the run has acted on it.
    """

    current: ClassVar[Interrupt | None] = None

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self.is_asked = False
        self.is_honoured = False
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._previous is not None:
            signal.signal(signal.SIGINT, self._previous)
            self._previous = None
        if Interrupt.current is self:
            Interrupt.current = self._outer

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.is_asked:
            self._previous(number, frame)
        self.is_asked = True


@dataclass(frozen=True, eq=False)
class Run:
    """A run, or a part of it that has a place of its own in the journal.

    Every part may be None: nothing is kept, nothing interrupts, nobody hears of it. ``callback`` is the
    user's, for the iterations that lead to the embedding itself.
    """

    journal: Journal | None = None
    interrupt: Interrupt | None = None
    report: Report | None = None
    place: str = ""
    callback: Callback | None = None

    def within(self, name: str) -> Run:
        """The same run with a name before its slots."""
        return self if self.journal is None else replace(self, place=f"{self.place}{name}.")

    def aside(self, name: str | None = None) -> Run:
        """The same for an auxiliary problem, which does not call the user's callback."""
        return replace(self if name is None else self.within(name), callback=None)

    def has(self, slot: str) -> bool:
        """Whether an earlier run has kept something here."""
        return self.journal is not None and self.journal.has(self.place + slot)

    def load(self, slot: str) -> Record | None:
        """What an earlier run has kept here; None if nothing."""
        return None if self.journal is None else self.journal.load(self.place + slot)

    def keep(self, slot: str, make: Callable[[], Record]) -> None:
        """Keep what a stage has handed on."""
        # What an interrupted iteration leads to is not what the whole one would have.
        if self.journal is None or self._is_honoured:
            return
        self.journal.keep(self.place + slot, make)
        if self.journal.is_due():
            self.journal.write()

    def forget(self) -> None:
        """What is kept in this place is not needed any more."""
        if self.journal is not None and not self._is_honoured:
            self.journal.forget(self.place)

    def stage(self, name: str) -> None:
        """A stage begins."""
        if self.report is not None:
            self.report.stage(name)
        if self._is_asked and self.interrupt is not None and self.interrupt.mode == "raise":
            self._honour()

    def step(
        self, make_progress: Callable[[], Progress], make_record: Callable[[], Record], n_bytes: int
    ) -> bool:
        """A step has been taken, and ``make_record`` tells how to go on; True ends the iteration.

        ``n_bytes`` is about the size of that record.
        """
        if self.report is not None:
            self.report.step(make_progress())
        if self._is_asked:
            if self.journal is not None:
                self.journal.keep(self.place + "state", make_record)
            self._honour()
            return True
        if self.journal is not None and self.journal.is_due(n_bytes):
            self.journal.keep(self.place + "state", make_record)
            self.journal.write()
        return False

    def stop(self, make_record: Callable[[], Record]) -> None:
        """A callback has ended the iteration: keep how to go on, and nothing that is made of the rest."""
        if self.journal is not None and not self._is_honoured:
            assert self.interrupt is not None
            self.journal.keep(self.place + "state", make_record)
            self.journal.write()
            self.journal.close()
            self.interrupt.is_honoured = True

    def finish(self) -> None:
        """The whole run has come to its end."""
        if self._is_asked and self.interrupt is not None and self.interrupt.mode == "raise":
            self._honour()
        if self.journal is not None and not self._is_honoured:
            self.journal.finish()

    @property
    def _is_asked(self) -> bool:
        return self.interrupt is not None and self.interrupt.is_asked

    @property
    def _is_honoured(self) -> bool:
        return self.interrupt is not None and self.interrupt.is_honoured

    def _honour(self) -> None:
        """Write what there is, once, and end if that is what shall be done."""
        assert self.interrupt is not None
        kept = ""
        if self.journal is not None and not self.interrupt.is_honoured:
            if self.journal.write():
                kept = f"; the run so far is kept in {self.journal.name}"
            self.journal.close()
        self.interrupt.is_honoured = True
        if self.interrupt.mode == "raise":
            raise KeyboardInterrupt(f"interrupted{kept}")


# Nothing is kept, nothing interrupts, nobody hears of it.
ALONE = Run()
