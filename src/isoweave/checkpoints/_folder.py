"""A journal in a folder: one store per slot, each swapped in as a whole.

Slots do not depend on each other (what a run keeps follows from its fingerprint), so there is no moment at
which the folder as a whole is inconsistent: a process may be killed between any two system calls. A slot
that has become superfluous goes only after the one that replaces it has been written.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from isoweave._file_parts import lock, remove, temporary_name
from isoweave._files import write_error
from isoweave.checkpoints._errors import CheckpointError
from isoweave.checkpoints._fingerprint import first_difference, identity
from isoweave.optimise import Record
from isoweave.persist import StoreError, read_store, write_store
from isoweave.persist._manifest import MANIFEST
from isoweave.persist._write import recover

HEAD = "run"
LOCK = "lock"
_KIND = "checkpoint"
_STAGE_KIND = "checkpoint-stage"
_SECONDS = 60.0
# All writes together take at most one part in this many of the run.
_SHARE = 50.0
# Bytes per second until it has been measured: checksum, copy and sync on a slow disk.
_SPEED = 150e6
_LEAST_MEASURED = 1_000_000
_TEMPORARY, _PREVIOUS = ".isoweave-tmp", ".isoweave-previous"


class FolderJournal:
    """What :class:`isoweave.optimise.Journal` asks for, in files.

    Parameters
    ----------
    path : pathlib.Path
        Made if missing. Locked while the journal is open.
    fields : mapping of str to JSON values
        Fingerprint of the run.
    every : float or None
        Seconds between two writes; see :class:`isoweave.Checkpoint`.
    resume : bool
    """

    def __init__(self, path: Path, fields: Mapping[str, Any], *, every: float | None, resume: bool) -> None:
        self.path = path
        self._fields = dict(fields)
        self._identity = identity(fields)
        self._every = every
        self._pending: dict[str, Callable[[], Record]] = {}
        self._doomed: set[str] = set()
        self._on_disk: set[str] = set()
        self._is_finished = False
        self._made = not os.path.lexists(path)
        self._lock = self._occupy()
        try:
            self._clear_up()
            self._stored = self._meet(resume)
        except BaseException:
            self.close()
            raise
        self._started = self._last = time.monotonic()
        self._next = self._started + _SECONDS
        self._spent, self._bytes, self._speed = 0.0, 0, _SPEED

    @property
    def name(self) -> str:
        return str(self.path)

    def has(self, slot: str) -> bool:
        return slot in self._stored

    def load(self, slot: str) -> Record | None:
        if slot not in self._stored:
            return None
        try:
            store = read_store(self.path / slot, _STAGE_KIND)
        except StoreError as error:
            raise self._damaged(error) from error
        if store.scalars.get("run") != self._identity or not isinstance(store.scalars.get("values"), dict):
            raise CheckpointError(
                self.path, f"{slot} belongs to another run; remove the folder to start afresh."
            )
        return Record(store.scalars["values"], store.arrays)

    def keep(self, slot: str, make: Callable[[], Record]) -> None:
        # Kept anew, it comes last: what it replaces elsewhere is dropped after it is on disk.
        self._pending.pop(slot, None)
        self._pending[slot] = make
        self._doomed.discard(slot)

    def forget(self, prefix: str) -> None:
        for slot in [slot for slot in self._pending if slot.startswith(prefix)]:
            del self._pending[slot]
        self._doomed |= {slot for slot in self._on_disk if slot.startswith(prefix)}

    def is_due(self, n_bytes: int = 0) -> bool:
        now = time.monotonic()
        if self._lock is None:
            return False
        if self._every is not None:
            return now - self._last >= self._every
        return now >= self._next and self._is_affordable(n_bytes, now)

    def _is_affordable(self, n_bytes: int, now: float) -> bool:
        """Whether all writes, this one included, stay a small share of the run; if not, look again later."""
        n_bytes += sum(_size(make()) for make in self._pending.values())
        self._next = max(now, self._started + _SHARE * (self._spent + n_bytes / self._speed))
        return self._next <= now

    def write(self) -> bool:
        if self._lock is None:
            return False
        started, before = time.monotonic(), self._bytes
        is_written = True
        try:
            self._flush()
        except OSError as error:
            # A fit of hours does not end because a disk is full; the next write may succeed.
            warnings.warn(f"The checkpoint was not written, the fit goes on: {error}", stacklevel=2)
            is_written = False
        self._last = time.monotonic()
        cost = self._last - started
        self._spent += cost
        self._next = self._last + _SECONDS
        if self._bytes - before >= _LEAST_MEASURED:
            self._speed = (self._bytes - before) / max(cost, 1e-6)
        return is_written

    def finish(self) -> None:
        # A run too short for a single write leaves nothing behind.
        if self._lock is None or HEAD not in self._on_disk or (self._is_finished and not self._pending):
            return
        # The result is on its way to the user; it is kept as well if that costs little.
        if self._every is not None or self._is_affordable(0, time.monotonic()):
            self.forget("component-")
            if not self.write():
                return
        try:
            self._write_head(is_finished=True)
        except OSError as error:
            warnings.warn(f"The checkpoint was not marked as finished: {error}", stacklevel=2)

    def close(self) -> None:
        if self._lock is None:
            return
        if not self._on_disk:
            with suppress(OSError):
                os.unlink(self.path / LOCK)
                if self._made:
                    os.rmdir(self.path)
        with suppress(OSError):
            os.close(self._lock)
        self._lock = None
        self._pending.clear()

    def _flush(self) -> None:
        if HEAD not in self._on_disk:
            self._write_head(is_finished=False)
        for slot in list(self._pending):
            record = self._pending[slot]()
            scalars = {"run": self._identity, "values": dict(record.values)}
            write_store(self.path / slot, _STAGE_KIND, scalars=scalars, arrays=record.arrays)
            self._on_disk.add(slot)
            self._bytes += _size(record)
            del self._pending[slot]
        for slot in sorted(self._doomed):
            self._discard(slot)

    def _write_head(self, is_finished: bool) -> None:
        scalars = {"fingerprint": self._fields, "finished": is_finished}
        write_store(self.path / HEAD, _KIND, scalars=scalars)
        self._on_disk.add(HEAD)
        self._is_finished = is_finished

    def _discard(self, slot: str) -> None:
        target = self.path / slot
        doomed = temporary_name(target)
        # Renamed first: half a store must not be taken for a whole one.
        with suppress(OSError):
            os.rename(target, doomed)
            remove(doomed)
        self._on_disk.discard(slot)
        self._doomed.discard(slot)

    def _occupy(self) -> int | None:
        """Make the folder and lock it; the lock ends with the process, however that ends."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._check_contents()
            held = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o666)
        except FileExistsError as error:
            raise CheckpointError(self.path, "is a file; a checkpoint is a folder.") from error
        except OSError as error:
            raise write_error(error, self.path) from error
        if lock(held) is False:
            os.close(held)
            raise CheckpointError(self.path, "is in use by another process.")
        return held

    def _check_contents(self) -> None:
        """Refuse a folder that holds anything but a checkpoint."""
        for name in sorted(os.listdir(self.path)):
            is_ours = name == LOCK or name.endswith((_TEMPORARY, _PREVIOUS)) or name == ".DS_Store"
            if not is_ours and not (self.path / name / MANIFEST).is_file():
                raise CheckpointError(
                    self.path, f"holds {name}, which is no part of a checkpoint; give a new or empty folder."
                )

    def _clear_up(self) -> None:
        """Put in order what a process left that was killed in the middle of a write."""
        for name in os.listdir(self.path):
            if name.endswith(_TEMPORARY):
                remove(self.path / name)
            elif name.endswith(_PREVIOUS):
                recover(self.path / name[1 : -len(_PREVIOUS)])
        self._on_disk = {name for name in os.listdir(self.path) if (self.path / name / MANIFEST).is_file()}

    def _meet(self, resume: bool) -> frozenset[str]:
        """Decide what becomes of what is there; the slots to go on from."""
        if HEAD not in self._on_disk:
            self._wipe()
            return frozenset()
        try:
            head = read_store(self.path / HEAD, _KIND).scalars
        except StoreError as error:
            raise self._damaged(error) from error
        self._is_finished = head.get("finished") is True
        if not resume:
            if not self._is_finished:
                raise CheckpointError(
                    self.path,
                    "holds a run that is not finished. Go on with it (resume=True, --resume), or remove the "
                    "folder.",
                )
            self._wipe()
            return frozenset()
        stored = head.get("fingerprint")
        found = first_difference(stored if isinstance(stored, dict) else {}, self._fields)
        if found is not None:
            field, before, now = found
            raise CheckpointError(
                self.path,
                f"is of another run: {field} was {_shown(before)} and is {_shown(now)} now. Run with what it "
                "was, or remove the folder.",
                field,
                before,
                now,
            )
        return frozenset(self._on_disk - {HEAD})

    def _wipe(self) -> None:
        # The head first: without it the rest counts for nothing.
        for slot in sorted(self._on_disk, key=lambda slot: (slot != HEAD, slot)):
            self._discard(slot)
        self._is_finished = False

    def _damaged(self, error: StoreError) -> CheckpointError:
        return CheckpointError(self.path, f"is damaged ({error}); remove the folder to start afresh.")


def _size(record: Record) -> int:
    return sum(array.nbytes for array in record.arrays.values())


def _shown(value: object) -> str:
    text = str(value)
    return text if len(text) <= 120 else text[:117] + "..."
