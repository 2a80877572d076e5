"""Files that appear under their final name only when they are complete.

They are written by calls of ``os`` alone, so that the tests can make each of them fail in turn.
"""

from __future__ import annotations

import errno
import io
import os
import secrets
import stat
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, TypeAlias

AnyPath: TypeAlias = str | os.PathLike[str]

_CREATE = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
# Where the words of the system do not say what to do; the others are its own.
_REASONS = {
    errno.ENOSPC: "no space is left on the device",
    errno.ENOENT: "folder {folder} does not exist",
    errno.ENOTDIR: "{folder} is not a folder",
    **dict.fromkeys((errno.EACCES, errno.EPERM), "no permission to write in {folder}"),
    errno.ENAMETOOLONG: "the name is too long",
    errno.EISDIR: "it is a folder",
}


class WriteError(OSError):
    """A file could not be written; what was there before still is, unless the message says otherwise."""

    def __init__(self, code: int, reason: str, path: AnyPath) -> None:
        super().__init__(code, reason, os.fspath(path))

    def __str__(self) -> str:
        return f"cannot write {self.filename}: {self.strerror}."


def write_error(error: OSError, path: AnyPath) -> WriteError:
    """The failure of a system call in words a user can act on."""
    if isinstance(error, WriteError):
        return error
    code = error.errno or errno.EIO
    reason = _REASONS.get(code, error.strerror or str(error)).format(folder=Path(path).parent)
    if os.path.isfile(path):
        reason += "; what was there before is unchanged"
    return WriteError(code, reason, path)


@contextmanager
def atomic_write(path: AnyPath) -> Iterator[IO[bytes]]:
    """A binary file that takes its name only once it is complete and on disk; raises WriteError.

    If anything fails, an exception in the block included, what had the name before is left as it was. The
    file has no ``fileno``, so that no library writes past it.
    """
    if _is_stream(path):
        # Devices and pipes get everything when the block ends.
        buffer = io.BytesIO()
        yield buffer
        # /dev/stdout may be a file that others append to: nothing of theirs is overwritten or cut off.
        _append(path, os.O_WRONLY | os.O_APPEND | getattr(os, "O_NOCTTY", 0), buffer.getbuffer())
        return
    new = NewFile(path)
    try:
        yield new.file
        new.publish()
    except Exception as error:
        # Libraries wrap a failed write in errors of their own, or replace it while they clean up.
        if new.failure is not None:
            raise write_error(new.failure, path) from error
        raise
    finally:
        new.release()


def check_writable(path: AnyPath) -> None:
    """Raise the WriteError that :func:`atomic_write` would raise for reasons that can be seen beforehand."""
    if not _is_stream(path):
        NewFile(path).release()


def write_text(path: AnyPath, text: str) -> None:
    """Write a text file in UTF-8 by :func:`atomic_write`."""
    with atomic_write(path) as file:
        file.write(text.encode("utf-8"))


def write_arrays(file: IO[bytes], arrays: Mapping[str, Any], compression: int = zipfile.ZIP_STORED) -> None:
    """Write what ``numpy.savez`` does; the archive is closed even after a failure (not so in numpy < 2)."""
    import numpy as np

    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, values in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(values), allow_pickle=False)


def append_text(path: AnyPath, text: str) -> None:
    """Add text to the end of a file, on disk when this returns; after an error the file is as it was."""
    _append(path, (_CREATE & ~os.O_EXCL) | os.O_APPEND, text.encode("utf-8"), is_file=True)


class NewFile(io.RawIOBase):
    """A file beside its target that gets its name when complete; until then none, or a hidden one.

    Write to ``file``. After a failed write, and once released, writes do nothing: a library that tidies up
    must not hide the first error, nor write to another's file.
    """

    def __init__(self, path: AnyPath) -> None:
        self._path, self._target = path, Path(os.path.realpath(path))
        stem = os.fsencode(self._target.name)[:150].decode("utf-8", "ignore")
        self._temporary = self._target.with_name(f".{stem}.{secrets.token_hex(4)}.isoweave-tmp")
        self._is_named = False
        self.fd = self._folder = -1
        self.failure: OSError | None = None
        try:
            self._mode = _mode_to_keep(self._target, path)
            if hasattr(os, "O_DIRECTORY"):
                with suppress(PermissionError):  # one may be allowed to write in a folder and not to read it
                    self._folder = os.open(self._target.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            if self._folder >= 0 and hasattr(os, "O_TMPFILE") and os.path.isdir("/proc/self/fd"):
                with suppress(OSError):  # not every file system has files without a name
                    self.fd = os.open(self._target.parent, os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC, 0o666)
            if self.fd < 0:
                self.fd = os.open(self._temporary, _CREATE, 0o666)
                self._is_named = True
        except OSError as error:
            self.release()
            raise write_error(error, path) from error
        self.file = io.BufferedWriter(self, 1 << 20)

    def writable(self) -> bool:
        return True

    seekable = writable

    def write(self, data: Any) -> int:
        if self.fd < 0 or self.failure is not None:
            return memoryview(data).nbytes
        try:
            return os.write(self.fd, data)
        except OSError as error:
            self.failure = error
            raise

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return 0 if self.fd < 0 else os.lseek(self.fd, offset, whence)

    def publish(self, *, is_new: bool = False) -> None:
        """Sync the file and give it its name; ``is_new`` raises FileExistsError if the name is taken."""
        try:
            if not self.file.closed:
                self.file.flush()
            if self.failure is not None:
                raise self.failure
            if self._mode is not None and hasattr(os, "fchmod"):
                os.fchmod(self.fd, self._mode)
            os.fsync(self.fd)
            self._take_name(is_new)
        except OSError as error:
            if is_new and isinstance(error, FileExistsError):
                raise
            raise write_error(error, self._path) from error
        try:
            if self._folder >= 0:
                os.fsync(self._folder)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # not every file system has that
                said = f"the file is complete, but may not survive a power failure: {error.strerror}"
                raise WriteError(error.errno or errno.EIO, said, self._path) from error

    def _take_name(self, is_new: bool) -> None:
        if not self._is_named:
            # Given the descriptor of a folder, Python follows the link in /proc to the file itself.
            place = self._target if is_new else self._temporary
            os.link(f"/proc/self/fd/{self.fd}", place, src_dir_fd=self._folder)
            if is_new:
                return
            self._is_named = True
        elif is_new:
            # Not by a link, which many network folders do not have: an empty file takes the name first.
            os.close(os.open(self._target, _CREATE, 0o666))
        os.replace(self._temporary, self._target)
        self._is_named = False

    def release(self) -> None:
        """Close everything; unless it was published, nothing is left."""
        for fd in (self.fd, self._folder):
            if fd >= 0:
                with suppress(OSError):  # the data are synced, or given up
                    os.close(fd)
        self.fd = self._folder = -1
        if self._is_named:
            with suppress(OSError):
                os.unlink(self._temporary)
            self._is_named = False


def _mode_to_keep(target: Path, path: AnyPath) -> int | None:
    """Permissions of the file that will be replaced, None if there is none."""
    try:
        mode = os.stat(target).st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    # What another process has removed since is not there to be protected.
    if not os.access(target, os.W_OK) and os.path.exists(target):
        raise WriteError(errno.EACCES, "it is write-protected", path)
    return stat.S_IMODE(mode) & 0o777


def _is_stream(path: AnyPath) -> bool:
    """Whether a name stands for a device, a pipe or an open file; what cannot be a name, NewFile judges."""
    folder = os.path.realpath(Path(path).parent)
    is_other = os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)
    return is_other or folder == "/dev" or folder.startswith("/proc/")


def _append(path: AnyPath, flags: int, data: Any, *, is_file: bool = False) -> None:
    """Write to what has its name already; a file is synced, and cut back to what it was if that fails."""
    try:
        fd = os.open(path, flags, 0o666)
        size, view = os.fstat(fd).st_size, memoryview(data)
        try:
            while view.nbytes:
                view = view[os.write(fd, view[: 1 << 20]) :]
            if is_file:
                os.fsync(fd)
        except BaseException:
            if is_file:
                with suppress(OSError):
                    os.ftruncate(fd, size)
            raise
        finally:
            with suppress(OSError):
                os.close(fd)
    except OSError as error:
        raise write_error(error, path) from error
