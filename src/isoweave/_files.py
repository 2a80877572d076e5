"""Files that appear under their final name only when they are complete.

Everything the package writes goes through :func:`atomic_write` (whole files) or :func:`append_text` (lines of
a log); stores of several arrays are made of the same parts (:mod:`isoweave.persist`). All of them use the
calls of ``os`` directly, so that the tests can make each call fail in turn.
"""

from __future__ import annotations

import errno
import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from isoweave._file_parts import RawFile, lock, open_folder, sweep, sync_folder, temporary_name, write_all

_BUFFER_BYTES = 1 << 20
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)

_DEVICE_REASONS = {
    errno.ENOSPC: "no space is left on the device",
    errno.EDQUOT: "the disk quota is used up",
    errno.EROFS: "the file system is read-only",
    errno.EIO: "the device failed (input/output error)",
    errno.EFBIG: "the file would be larger than is allowed",
}
_REASONS = _DEVICE_REASONS | {
    errno.ENAMETOOLONG: "the name is too long",
    errno.EISDIR: "it is a folder",
    errno.ELOOP: "too many symbolic links",
    errno.EMFILE: "too many files are open",
    errno.ENFILE: "too many files are open",
    errno.EPIPE: "nobody reads from the pipe any more",
}


class WriteError(OSError):
    """A file or store could not be written; what was there before still is, unless the message says more.

    Attributes
    ----------
    errno : int
    strerror : str
        The reason, without the file's name.
    filename : str
    """

    def __init__(self, code: int, reason: str, path: str | os.PathLike[str]) -> None:
        super().__init__(code, reason, os.fspath(path))

    def __str__(self) -> str:
        return f"cannot write {self.filename}: {self.strerror}."


def write_error(error: OSError, path: str | os.PathLike[str]) -> WriteError:
    """The failure of a system call in words a user can act on."""
    if isinstance(error, WriteError):
        return error
    folder = Path(path).parent
    code = error.errno or errno.EIO
    reason = _REASONS.get(code) or error.strerror or str(error)
    if code == errno.ENOENT:
        reason = f"folder {folder} does not exist"
    elif code == errno.ENOTDIR:
        reason = f"{folder} is not a folder"
    elif code in (errno.EACCES, errno.EPERM):
        reason = f"no permission to write in {folder}"
    elif code in _DEVICE_REASONS and os.path.exists(path):
        reason += "; what was there before is unchanged"
    return WriteError(code, reason, path)


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A binary file that takes its name only once it is complete and on disk.

    What is written goes to a hidden file in the same folder, which is flushed, synced and renamed when the
    block ends. If anything fails, an exception in the block included, the hidden file is removed and a file
    that had the name before is left as it was. Such a file keeps its permissions when it is replaced, and a
    symbolic link keeps pointing. Devices, pipes and names like /dev/stdout get everything when the block
    ends, and nothing if it fails.

    Parameters
    ----------
    path : path-like

    Yields
    ------
    binary file
        Can be written and sought. It has no ``fileno``, so that no library writes past it.

    Raises
    ------
    WriteError
        An OSError whose text is one line with the file and the reason.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "notes.txt"
    >>> with atomic_write(path) as file:
    ...     _ = file.write(b"all of it")
    >>> path.read_bytes()
    b'all of it'
    """
    if _is_stream(path):
        buffer = io.BytesIO()
        yield buffer
        _write_stream(path, buffer.getbuffer())
        return
    try:
        output = _Output(path)
    except OSError as error:
        raise write_error(error, path) from error
    try:
        yield output.file
    except BaseException as error:
        output.abandon()
        # Libraries wrap a failed write in errors of their own, or replace it while they clean up.
        if output.raw.failure is not None and isinstance(error, Exception):
            raise write_error(output.raw.failure, path) from error
        raise
    try:
        output.commit()
    except OSError as error:
        raise write_error(error, path) from error


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise the WriteError that :func:`atomic_write` would raise for reasons that can be seen beforehand."""
    if _is_stream(path):
        return
    try:
        _mode_to_keep(Path(os.path.realpath(path)), path)
        folder = os.path.dirname(os.path.realpath(path))
        if not stat.S_ISDIR(os.stat(folder).st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        if not os.access(folder, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise write_error(error, path) from error


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file in UTF-8 by :func:`atomic_write`."""
    with atomic_write(path) as file:
        file.write(text.encode("utf-8"))


def append_text(path: str | os.PathLike[str], text: str) -> None:
    """Add text to the end of a file, on disk when this returns; after an error the file is as it was."""
    try:
        fd = os.open(path, (_CREATE & ~os.O_EXCL) | os.O_APPEND, 0o666)
        try:
            size = os.fstat(fd).st_size
            try:
                write_all(fd, text.encode("utf-8"))
                os.fsync(fd)
            except BaseException:
                with suppress(OSError):
                    os.ftruncate(fd, size)
                raise
        finally:
            with suppress(OSError):  # the text is on disk, or the file is as it was
                os.close(fd)
    except OSError as error:
        raise write_error(error, path) from error


class _Output:
    """A file on its way to its final name."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = path
        self._target = Path(os.path.realpath(path))
        self._mode = _mode_to_keep(self._target, path)
        sweep(self._target)
        # Opened before anything is written: after the rename nothing but its fsync can fail.
        self._folder = open_folder(self._target.parent)
        self._open = [] if self._folder is None else [self._folder]
        try:
            self._temporary, self._fd, held = _open_temporary(self._target)
        except BaseException:
            self._close_all()
            raise
        self._open += [held, self._fd]
        self.raw = RawFile(self._fd)
        self.file = io.BufferedWriter(self.raw, _BUFFER_BYTES)

    def commit(self) -> None:
        try:
            if not self.file.closed:
                self.file.flush()
            if self.raw.failure is not None:
                raise self.raw.failure
            if self._mode is not None and hasattr(os, "fchmod"):
                os.fchmod(self._fd, self._mode)
            os.fsync(self._fd)
            os.close(self._open.pop())
            os.replace(self._temporary, self._target)
        except BaseException:
            self.abandon()
            raise
        self.raw.is_done = True
        try:
            sync_folder(self._folder)
        except OSError as error:
            reason = _REASONS.get(error.errno or 0, error.strerror)
            told = f"the file is complete, but may not survive a power failure: {reason}"
            raise WriteError(error.errno or errno.EIO, told, self._path) from error
        finally:
            self._close_all()

    def abandon(self) -> None:
        self.raw.is_done = True
        with suppress(OSError, ValueError):
            self.file.close()
        self._close_all()
        with suppress(OSError):
            os.unlink(self._temporary)

    def _close_all(self) -> None:
        while self._open:
            with suppress(OSError):
                os.close(self._open.pop())


def _open_temporary(target: Path) -> tuple[Path, int, int]:
    """A new, locked file beside the target: its name, its descriptor, and another that holds the lock."""
    while True:
        temporary = temporary_name(target)
        fd = os.open(temporary, _CREATE, 0o666)
        try:
            # A sweep that came between the two calls has it, or had it and removed it.
            is_ours = lock(fd) is not False and os.fstat(fd).st_nlink > 0
            held = os.dup(fd)
        except BaseException:
            with suppress(OSError):
                os.close(fd)
            with suppress(OSError):
                os.unlink(temporary)
            raise
        if is_ours:
            return temporary, fd, held
        os.close(held)
        os.close(fd)


def _mode_to_keep(target: Path, path: str | os.PathLike[str]) -> int | None:
    """Permissions of the file that will be replaced, None if there is none."""
    try:
        mode = os.stat(target).st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not os.access(target, os.W_OK):
        raise WriteError(errno.EACCES, "it is write-protected", path)
    return stat.S_IMODE(mode) & 0o777


def _is_stream(path: str | os.PathLike[str]) -> bool:
    """Whether a name stands for a device, a pipe or an open file rather than for a file of its own."""
    folder = os.path.realpath(Path(path).parent)
    if folder == "/dev" or folder.startswith("/proc/"):
        return True
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _write_stream(path: str | os.PathLike[str], data: memoryview) -> None:
    try:
        # /dev/stdout may be a file that others append to: nothing of theirs is overwritten.
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | getattr(os, "O_NOCTTY", 0))
        try:
            write_all(fd, data)
        finally:
            os.close(fd)
    except OSError as error:
        raise write_error(error, path) from error
