"""Files that may be hostile: the one error about them, the one way to open them, and the sizes allowed.

Readers here are written by hand because the stock ones measured worse: numpy and scipy believe the sizes
that a file declares, evaluate headers, and crash on some bytes.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from isoweave._typing import AnyArray

# What a file may become in memory, counted as float64: this many bytes whatever its size, and beyond that
# this many times its size. Compressed data rarely shrinks more than 100 times unless it is nearly all
# zeros; deflate can reach 1032 times, other methods any factor.
FREE_BYTES = 1 << 27
MAX_EXPANSION = 200
_SHOWN_CHARACTERS = 40
_SHOWN_MESSAGE = 160


class InputFileError(ValueError):
    """A file could not be read as features, as a distance graph, or as whatever else was asked for.

    ``path`` is the file, ``reason`` what was wrong and what to do, without the file's name, ``line`` the
    1-based line of a fault in a text file, ``offset`` its byte from 0 in a binary one, where it is known.
    """

    def __init__(self, path: Path, reason: str, line: int | None = None, offset: int | None = None) -> None:
        self.path, self.reason, self.line, self.offset = path, reason, line, offset
        where = "" if line is None else f", line {line}"
        where += "" if offset is None else f", byte {offset}"
        super().__init__(f"{path}{where}: {reason}")

    def __reduce__(self) -> tuple[type[InputFileError], tuple[Path, str, int | None, int | None]]:
        # ValueError would be unpickled from the message alone, which fails in a process pool.
        return type(self), (self.path, self.reason, self.line, self.offset)


class Fault(Exception):
    """What is wrong with the file at hand; :func:`reading` adds its name."""

    def __init__(self, reason: str, line: int | None = None, offset: int | None = None) -> None:
        self.reason, self.line, self.offset = reason, line, offset
        super().__init__(reason)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn faults, and what the system says about a file, into :class:`InputFileError`."""
    try:
        yield
    except Fault as fault:
        raise InputFileError(path, fault.reason, fault.line, fault.offset) from fault.__cause__
    except FileNotFoundError as error:
        raise InputFileError(path, "no such file") from error
    except IsADirectoryError as error:
        raise InputFileError(path, "is a folder, not a file") from error
    except OSError as error:
        raise InputFileError(path, f"cannot be read ({error.strerror or brief(error)})") from error
    except MemoryError as error:
        raise InputFileError(path, "too large for this machine's memory") from error


@contextmanager
def within(part: object) -> Iterator[None]:
    """Say which array of a file a fault is in."""
    try:
        yield
    except Fault as fault:
        said = f"array {quoted(part)}: {fault.reason}"
        raise Fault(said, fault.line, fault.offset) from fault.__cause__


def quoted(text: object) -> str:
    """The beginning of something a file holds, escaped: no file may send commands to a terminal."""
    whole = str(text)
    return repr(whole[:_SHOWN_CHARACTERS]) + ("..." if len(whole) > _SHOWN_CHARACTERS else "")


def brief(error: object) -> str:
    """One printable line with what a library said about a file."""
    try:
        text = str(error)
    except Exception:  # a message may itself hold text that cannot be decoded
        text = ""
    line = " ".join(text[: 4 * _SHOWN_MESSAGE].split())[:_SHOWN_MESSAGE]
    return "".join(c if c.isprintable() else "?" for c in line) or type(error).__name__


def memory_limit(file_size: int) -> int:
    """The most bytes that a file of this size may become."""
    return max(FREE_BYTES, MAX_EXPANSION * file_size)


def check_expansion(n_bytes: int, file_size: int, what: str, hint: str = "") -> None:
    """Refuse what would take far more memory than the file's size can justify, before it is read."""
    if n_bytes > memory_limit(file_size):
        raise Fault(
            f"{what} would take {n_bytes} bytes in memory, from a file of {file_size}; more than "
            f"{MAX_EXPANSION} times a file's size (or {FREE_BYTES >> 20} MiB) is refused{hint}"
        )


@contextmanager
def open_input(path: Path) -> Iterator[tuple[IO[bytes], int]]:
    """A regular file, opened for reading, and its size; refused at the end if it was written to meanwhile."""
    # Without O_NONBLOCK the opening of a pipe would not return; a regular file takes no notice of it.
    extra = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
    try:
        file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | extra))  # noqa: SIM115
    except ValueError as error:  # a NUL character in the name
        raise Fault(f"is not a file name ({brief(error)})") from error
    with file:
        before = os.fstat(file.fileno())
        if not stat.S_ISREG(before.st_mode):
            raise Fault("is not a regular file; copy its contents into one")
        yield file, before.st_size
        after = os.fstat(file.fileno())
        if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
            raise changed()


def changed() -> Fault:
    """A file that somebody writes to."""
    return Fault("the file changed while it was read; try again")


def words_from_array(array: AnyArray, n_words: int, file_size: int) -> tuple[str, ...]:
    """The names a 1-D array holds; numbers are written out."""
    if array.shape != (n_words,) or array.dtype.kind not in "biufSU":
        raise Fault(f"expected {n_words} names, got {array.dtype} of shape {array.shape}")
    # A string is an object of 50 bytes and more, however little space it took in the file.
    check_expansion(64 * n_words, file_size, f"{n_words} names")
    if array.dtype.kind == "S":
        try:
            return tuple(word.decode("utf-8") for word in array.tolist())
        except UnicodeDecodeError as error:
            raise Fault(f"names that are not UTF-8 text ({error.reason})") from error
    check_characters(array)
    return tuple(str(word) for word in array.tolist())


def check_characters(array: AnyArray) -> None:
    """Refuse an array of text with numbers in it that are no characters; Python cannot hold them."""
    if array.dtype.kind == "U":
        try:
            array.astype(array.dtype.newbyteorder("<")).tobytes().decode("utf-32-le")
        except UnicodeDecodeError as error:
            at = error.start // array.dtype.itemsize
            raise Fault(f"entry {at} holds what is not a character ({error.reason})") from error
