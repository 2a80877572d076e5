"""A run kept in one file, replaced as a whole at every write.

Whoever holds the lock of the file that has the name owns the checkpoint. A new file is locked before it gets
the name; after locking, a process looks whether the name still belongs to the file it has locked.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import platform
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

import isoweave
from isoweave._files import NewFile, WriteError, write_error
from isoweave._typing import AnyArray
from isoweave._validation import check_real
from isoweave.optimise import Record
from isoweave.persist._store import StoreError, open_store, read_header, require, shown, write_store

try:
    import fcntl
except ImportError:  # Windows has no such locks: then two processes are not kept apart
    fcntl = None  # type: ignore[assignment]

# At least so long between two writes, and at least so many times as long as the last one took.
_SECONDS, _SHARE = 60.0, 50.0
# Packages whose code the numbers go through: another version may round differently.
_PACKAGES = ("numpy", "scipy", "numba", "scikit-learn")


class CheckpointError(ValueError):
    """A checkpoint belongs to another run, is in use, is damaged, or something else has its name.

    ``field``, ``stored`` and ``now`` are the first field in which runs differ, what it was and what it is.
    """

    def __init__(
        self, path: Path, reason: str, field: str | None = None, stored: object = None, now: object = None
    ) -> None:
        self.path, self.reason, self.field, self.stored, self.now = path, reason, field, stored, now
        super().__init__(path, reason, field, stored, now)

    def __str__(self) -> str:
        return f"checkpoint {self.path}: {self.reason}"


@dataclass(unsafe_hash=True)
class Checkpoint:
    """A file that keeps the state of a fit, so that a crash costs a minute rather than a night.

    A fit that continues from its checkpoint ends with the same bits as one that was never stopped. It raises
    CheckpointError if the file belongs to another run or version, is in use, or is no checkpoint.

    Parameters
    ----------
    path : path-like
    every : float, default=None
        Seconds between two writes; 0 writes at every step. None is a minute, or fifty times as long as the
        last write took if that is longer, so that writing stays under 2 % of the run.
    resume : bool, default=False
        Continue from the file; if there is none, start a new run. False refuses a file with an unfinished
        run, so that it is not lost by mistake, and replaces a finished one.
    """

    path: str | os.PathLike[str]
    every: float | None = field(default=None, kw_only=True)
    resume: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        self.path = Path(self.path)
        self.every = None if self.every is None else check_real("every", self.every, minimum=0.0)
        self.resume = bool(self.resume)

    def open(self, inputs: Mapping[str, AnyArray], parameters: Mapping[str, Any]) -> FileJournal:
        """The journal of the run that these inputs and parameters define; called by the fit."""
        fields = fingerprint(inputs, parameters)
        return FileJournal(Path(self.path), fields, every=self.every, resume=self.resume)


class Journal:
    """What all that keep the slots of a :class:`isoweave.optimise.Run` have in common."""

    def __init__(self, path: Path, fields: Mapping[str, Any], every: float | None) -> None:
        self.path, self._fields, self._every = path, dict(fields), every
        self._stored: dict[str, Any] = {}
        self._kept: dict[str, Callable[[], Record]] = {}
        self.is_resumed = self._is_finished = False
        self._wait()

    def unusable(self, error: Exception) -> CheckpointError:
        return CheckpointError(self.path, f"cannot be continued: {error!s:.300} Remove it to start afresh.")

    def keep(self, slot: str, make: Callable[[], Record]) -> None:
        self._kept[slot] = make

    def forget(self, prefix: str) -> None:
        # The file has them until it is replaced.
        for slots in (self._kept, self._stored):
            for slot in [slot for slot in slots if slot.startswith(prefix)]:
                del slots[slot]

    def _wait(self, started: float | None = None) -> None:
        """Until the next write; after one that began then, longer if it took long."""
        now = time.monotonic()
        seconds = _SECONDS if started is None else max(_SECONDS, _SHARE * (now - started))
        self._next = now + (seconds if self._every is None else self._every)


class FileJournal(Journal):
    """Keeps them in one file; see :class:`Checkpoint`."""

    #: What the file says it is, and what has to be removed to start afresh.
    kind, whole = "checkpoint", "file"

    def __init__(self, path: Path, fields: Mapping[str, Any], *, every: float | None, resume: bool) -> None:
        super().__init__(path, fields, every)
        self._target = Path(os.path.realpath(path))
        self._has_slots = False
        self._held: io.FileIO | None = None
        try:
            self._occupy()
            self._meet(resume)
        except BaseException as error:
            self.close()
            if isinstance(error, OSError):
                raise write_error(error, path) from error
            raise

    def load(self, slot: str) -> Record | None:
        return self._stored.get(slot)

    def is_due(self) -> bool:
        return self._held is not None and time.monotonic() >= self._next

    def write(self) -> bool:
        if self._held is None:
            return False
        started, is_written = time.monotonic(), True
        try:
            self._replace({slot: make() for slot, make in self._kept.items()})
        except OSError as error:
            # A fit of hours does not end because a disk is full; the next write may succeed.
            reason = write_error(error, self.path)
            warnings.warn(f"The checkpoint was not written; the fit continues: {reason}", stacklevel=2)
            is_written = False
        self._wait(started)
        return is_written

    def finish(self) -> None:
        # A run too short for a single write leaves nothing behind.
        if self._held is not None and self._has_slots and not self._is_finished:
            self.forget("component-")
            self._is_finished = True
            self._is_finished = self.write()

    def close(self) -> None:
        if self._held is None:
            return
        if not self._has_slots and self._is_ours():
            with suppress(OSError):
                os.unlink(self._target)
        if fcntl is not None:
            # Closing would not give the lock back if the process has been forked in between.
            with suppress(OSError):
                fcntl.flock(self._held, fcntl.LOCK_UN)
        self._held.close()
        self._held = None
        self._kept.clear()
        self._stored.clear()

    def _is_ours(self) -> bool:
        """Whether the name stands for the file we hold, and nobody has written anything else into it."""
        with suppress(StoreError):
            if self._held is not None and is_at(self._target, self._held.fileno()):
                return read_header(self._held, self.path, self.kind).kind == self.kind
        return False

    def _replace(self, records: Mapping[str, Record]) -> None:
        """Put a new file in the place of the one we hold, if any."""
        arrays = {f"{slot}/{name}": a for slot, r in records.items() for name, a in r.arrays.items()}
        slots = {slot: dict(record.values) for slot, record in records.items()}
        content = {"fingerprint": self._fields, "finished": self._is_finished, "slots": slots}
        new = NewFile(self._target)
        held = None
        try:
            write_store(new.file, self.kind, content, arrays)
            held = io.FileIO(os.dup(new.fd), "rb")
            lock(held.fileno())
            # Somebody may have removed the file; nobody else's is ever replaced.
            is_new = self._held is None or not os.path.lexists(self._target)
            if not is_new and not self._is_ours():
                raise WriteError(errno.EEXIST, "another file now has its name", self.path)
            new.publish(is_new=is_new)
        finally:
            # The name may be ours even after an error: of the sync that comes last.
            if held is not None and is_at(self._target, held.fileno()):
                self._held, held = held, self._held
                self._has_slots = bool(records)
            if held is not None:
                held.close()
            new.release()

    def _occupy(self) -> None:
        """Lock the file that has the name, or make one; the lock ends with the process, however that ends."""
        while self._held is None:
            try:
                held = open_store(self.path, os.O_RDWR)
            except StoreError as error:
                if not isinstance(error.__cause__, FileNotFoundError):
                    raise CheckpointError(self.path, f"{error.reason}; it is left alone.") from error
                with suppress(FileExistsError):
                    self._replace({})
                continue
            is_locked = lock(held.fileno())
            if is_locked and is_at(self._target, held.fileno()):
                self._held = held
                return
            held.close()
            if not is_locked:
                raise CheckpointError(self.path, "is in use by another process.")

    def _check_run(self, stored: Mapping[str, Any]) -> None:
        """Raise if another run is stored."""
        for name in (*self._fields, *stored):
            before, now = (fields.get(name, "(missing)") for fields in (stored, self._fields))
            if before != now:
                said = f"{name} was {shown(before, 120)} and is now {shown(now, 120)}"
                hint = f"Use the former value, or remove the {self.whole}."
                raise CheckpointError(self.path, f"belongs to another run: {said}. {hint}", name, before, now)

    def _meet(self, resume: bool) -> None:
        """Decide what becomes of what the file holds."""
        assert self._held is not None
        self._has_slots = True  # until the file proves to be ours and empty, it is not removed
        try:
            store = read_header(self._held, self.path, self.kind)
        except StoreError as error:
            said = f"exists and is not a checkpoint ({error.reason}); it is left alone."
            raise CheckpointError(self.path, said) from error
        slots: Any = store.content.get("slots")
        self._is_finished = store.content.get("finished") is True
        if slots and not resume:
            if not self._is_finished:
                hint = "Continue it (resume=True, --resume), or remove it."
                raise CheckpointError(self.path, f"holds a run that is not finished. {hint}")
            self._is_finished = False
            self._replace({})
            return
        stored = store.content.get("fingerprint")
        if slots:
            self._check_run(stored if isinstance(stored, dict) else {})
        try:
            arrays = store.arrays()
            require(isinstance(slots, dict), self.path, "slots", f"cannot be {shown(slots)}")
        except (StoreError, OSError) as error:
            raise CheckpointError(self.path, f"is damaged ({error}); remove it to start afresh.") from error
        self._has_slots = self.is_resumed = bool(slots)
        for slot, values in slots.items():
            start = f"{slot}/"
            own = {name.removeprefix(start): a for name, a in arrays.items() if name.startswith(start)}
            self._stored[slot] = record = Record(values if isinstance(values, dict) else {}, own)
            self._kept[slot] = partial(replace, record)


def lock(fd: int) -> bool:
    """Lock an open file or folder without waiting; False if another has it. Not every system has locks."""
    with suppress(OSError):
        try:
            if fcntl is not None:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def is_at(path: Path, fd: int) -> bool:
    """Whether a name belongs to an open file or folder."""
    with suppress(OSError):
        return os.path.samestat(os.stat(path), os.fstat(fd))
    return False


def fingerprint(inputs: Mapping[str, AnyArray], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """All that a result depends on, by field: ``versions.*``, ``input.*`` (SHA-256) and ``parameters.*``."""
    fields: dict[str, Any] = {f"versions.{name}": text for name, text in versions().items()}
    fields |= {f"input.{name}": _described(array) for name, array in inputs.items()}
    # As it comes back from a file, where a tuple is a list; infinity, which JSON does not have, becomes text.
    plain = json.loads(json.dumps(parameters, default=_described), parse_constant=str)
    return fields | {f"parameters.{name}": value for name, value in plain.items()}


def versions() -> dict[str, str]:
    """Versions of everything that computes; "none" for what is not installed."""
    found = {"isoweave": isoweave.__version__, "python": ".".join(platform.python_version_tuple()[:2])}
    for name in _PACKAGES:
        found[name] = "none"
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def _described(value: Any) -> Any:
    """What JSON does not have: type, shape and SHA-256 of an array, the name of a function."""
    if isinstance(value, np.generic):
        return value.item()
    if not isinstance(value, np.ndarray) or value.dtype.hasobject:
        # What a function computes cannot be compared, and objects are refused by whoever reads them.
        name = getattr(value, "__qualname__", type(value).__qualname__)
        return f"{getattr(value, '__module__', '?')}.{name}"
    shape = " x ".join(map(str, value.shape)) or "scalar"
    digest = hashlib.sha256(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data)
    return f"{value.dtype} {shape}, sha256 {digest.hexdigest()}"
