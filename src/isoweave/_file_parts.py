"""What durable files and folders are made of: names, locks, syncs, and clearing up after crashes."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import secrets
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # Windows has no such locks; then nothing is ever taken for the remains of a crash
    fcntl = None  # type: ignore[assignment]

_PIECE_BYTES = 1 << 20
_ENDING = ".isoweave-tmp"


class RawFile(io.RawIOBase):
    """Writes to a descriptor it does not own, and remembers the first failure.

    After that, and once :attr:`is_done`, writes do nothing: a library that tidies up after an error must not
    hide it behind another, and a file object that outlives us must not write to whatever has its number then.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self.failure: OSError | None = None
        self.is_done = False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        if self.is_done or self.failure is not None:
            return memoryview(data).nbytes
        try:
            return os.write(self._fd, data)
        except OSError as error:
            self.failure = error
            raise

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return 0 if self.is_done else os.lseek(self._fd, offset, whence)


def write_all(fd: int, data: Any) -> None:
    """Write a whole buffer of bytes; one call of ``os.write`` may take only part of it."""
    view = memoryview(data)
    while view.nbytes:
        view = view[os.write(fd, view[:_PIECE_BYTES]) :]


def hidden_name(target: Path, ending: str) -> Path:
    """A name beside the target that belongs to it alone: hidden, and short enough for any file system."""
    name = target.name
    if len(os.fsencode(name)) > 150:
        name = f"{name[:30]}-{hashlib.sha256(os.fsencode(name)).hexdigest()[:16]}"
    return target.with_name(f".{name}.{ending}")


def temporary_name(target: Path) -> Path:
    """A new name that :func:`sweep` recognises."""
    return hidden_name(target, secrets.token_hex(4) + _ENDING)


def sweep(target: Path) -> None:
    """Remove what writers of this target left behind when they were killed.

    A living writer holds a lock on its temporary file or folder; whatever can be locked is garbage.
    """
    start = hidden_name(target, "").name
    with suppress(OSError), os.scandir(target.parent) as entries:
        for entry in entries:
            if entry.name.startswith(start) and entry.name.endswith(_ENDING):
                with suppress(OSError):
                    _remove_unlocked(Path(entry.path))


def _remove_unlocked(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    try:
        if lock(fd):
            remove(path)
    finally:
        os.close(fd)


def remove(path: Path) -> None:
    """Remove a file or a folder as far as possible; never raises for what cannot be removed."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink(missing_ok=True)


def lock(fd: int) -> bool | None:
    """Lock an open file or folder without waiting; the lock ends with the process, however that ends.

    Returns
    -------
    bool or None
        False if another holds it, None where there are no such locks (Windows, some network folders).
    """
    if fcntl is None:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def open_folder(folder: Path) -> int | None:
    """A descriptor of a folder to sync or lock it; None where folders cannot be opened."""
    if not hasattr(os, "O_DIRECTORY"):
        return None
    try:
        return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except PermissionError:  # one may be allowed to write in a folder and not to read it
        return None


def sync_folder(fd: int | None) -> None:
    """Make renames in a folder durable, where the file system has that."""
    if fd is None:
        return
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise


def unlock(fd: int) -> None:
    """Give a lock back; closing would not if the process has been forked in between."""
    if fcntl is not None:
        with suppress(OSError):
            fcntl.flock(fd, fcntl.LOCK_UN)
