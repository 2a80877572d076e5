"""Opening files that may be hostile, and the sizes a reader will go to."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from isoweave.io._errors import InputFileError, brief

# What a file may become in memory, counted as float64: this many bytes whatever its size, and beyond that
# this many times its size. Compressed data rarely shrinks more than 100 times unless it is nearly all
# zeros; deflate can reach 1032 times, other methods any factor.
FREE_BYTES = 1 << 27
MAX_EXPANSION = 200


def check_expansion(path: Path, n_bytes: int, file_size: int, what: str, hint: str = "") -> None:
    """Refuse what would take far more memory than the file's size can justify, before it is read."""
    if n_bytes > max(FREE_BYTES, MAX_EXPANSION * file_size):
        raise InputFileError(
            path,
            f"{what} would take {n_bytes} bytes in memory, from a file of {file_size}; more than "
            f"{MAX_EXPANSION} times a file's size (or {FREE_BYTES >> 20} MiB) is refused{hint}",
        )


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn what the system says about a file into :class:`InputFileError`."""
    try:
        yield
    except FileNotFoundError as error:
        raise InputFileError(path, "no such file") from error
    except OSError as error:
        raise InputFileError(path, f"cannot be read ({error.strerror or brief(error)})") from error
    except MemoryError as error:
        raise InputFileError(path, "too large for this machine's memory") from error


@contextmanager
def open_input(path: Path) -> Iterator[tuple[IO[bytes], int]]:
    """A regular file, opened for reading, and its size in bytes.

    Folders, pipes, sockets and devices are refused: they have no size to hold memory against, and opening a
    pipe waits for its other end. A file that was written to in the meantime is refused at the end, since
    what was read may be half of one version and half of another.
    """
    with reading(path):
        # Without O_NONBLOCK the opening of a pipe would not return; a regular file takes no notice of it.
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        try:
            descriptor = os.open(path, flags | getattr(os, "O_NOCTTY", 0))
        except ValueError as error:  # a NUL character in the name
            raise InputFileError(path, f"is not a file name ({brief(error)})") from error
        try:
            before = os.fstat(descriptor)
            if stat.S_ISDIR(before.st_mode):
                raise InputFileError(path, "is a folder, not a file")
            if not stat.S_ISREG(before.st_mode):
                raise InputFileError(path, "is not a regular file; copy what it gives into one")
            with open(descriptor, "rb", closefd=False) as file:
                yield file, before.st_size
            after = os.fstat(descriptor)
            if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
                raise InputFileError(path, "the file changed while it was read; try again")
        finally:
            os.close(descriptor)
