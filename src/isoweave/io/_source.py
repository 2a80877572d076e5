"""Files that may be hostile: the one error about them, the one way to open them, and the sizes allowed.

Readers here are written by hand because the stock ones measured worse: numpy and scipy believe the sizes
that a file declares, evaluate headers, and crash on some bytes.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np

from isoweave._typing import AnyArray

# What a file may become in memory, counted as float64: this many bytes whatever its size, and beyond that
# this many times its size. Compressed data rarely shrinks more than 100 times unless it is nearly all
# zeros; deflate can reach 1032 times, other methods any factor.
FREE_BYTES = 1 << 27
MAX_EXPANSION = 200
# An array of n words takes 4 n times the longest one, and words rarely shrink as much as numbers.
_FREE_WORD_BYTES = 1 << 26
_MAX_WORD_EXPANSION = 32
_SHOWN_CHARACTERS = 40
_SHOWN_MESSAGE = 160


class InputFileError(ValueError):
    """A file could not be read as features, as a distance graph, or as whatever else was asked for.

    Attributes
    ----------
    path : pathlib.Path
    reason : str
        What was wrong and what to do, without the file's name.
    line : int or None
        1-based line of the first fault, for text files.
    offset : int or None
        Byte of the first fault counted from 0, for binary files, where it is known.
    """

    def __init__(self, path: Path, reason: str, line: int | None = None, offset: int | None = None) -> None:
        self.path, self.reason, self.line, self.offset = path, reason, line, offset
        where = "" if line is None else f", line {line}"
        where += "" if offset is None else f", byte {offset}"
        super().__init__(f"{path}{where}: {reason}")

    def __reduce__(self) -> tuple[type[InputFileError], tuple[Path, str, int | None, int | None]]:
        # ValueError would be unpickled from the message alone, which fails in a process pool.
        return type(self), (self.path, self.reason, self.line, self.offset)


def quoted(text: object) -> str:
    """The beginning of something a file holds, in quotes, with what does not print escaped.

    A file must not be able to fill a terminal or to send it commands through an error message.
    """
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


def check_expansion(path: Path, n_bytes: int, file_size: int, what: str, hint: str = "") -> None:
    """Refuse what would take far more memory than the file's size can justify, before it is read."""
    if n_bytes > memory_limit(file_size):
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
                raise InputFileError(path, "is not a regular file; copy its contents into one")
            with open(descriptor, "rb", closefd=False) as file:
                yield file, before.st_size
            after = os.fstat(descriptor)
            if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
                raise changed(path)
        finally:
            os.close(descriptor)


def changed(path: Path) -> InputFileError:
    """The error for a file that somebody writes to."""
    return InputFileError(path, "the file changed while it was read; try again")


def check_words(path: Path, words: Iterable[str], n_words: int, file_size: int, what: str = "a name") -> None:
    """Refuse names or labels that one very long word would blow up when they are held as an array."""
    longest = max(words, key=len, default="")
    if 4 * n_words * len(longest) > max(_FREE_WORD_BYTES, _MAX_WORD_EXPANSION * file_size):
        raise InputFileError(
            path,
            f"{what} {quoted(longest)} of {len(longest)} characters is too long among {n_words}; shorten it",
        )


def words_from_array(path: Path, array: AnyArray, n_words: int, label: str) -> tuple[str, ...]:
    """The names a 1-D array holds; numbers are written out."""
    if array.shape != (n_words,) or array.dtype.kind not in "biufSU":
        found = f"{array.dtype} of shape {array.shape}"
        raise InputFileError(path, f"{label}expected {n_words} names, got {found}")
    # A string is an object of 50 bytes and more, however little space it took in the file.
    check_expansion(path, 64 * n_words, path.stat().st_size, f"{n_words} names")
    if array.dtype.kind == "S":
        try:
            return tuple(word.decode("utf-8") for word in array.tolist())
        except UnicodeDecodeError as error:
            raise InputFileError(path, f"{label}names that are not UTF-8 text ({error.reason})") from error
    check_characters(path, array, label)
    return tuple(str(word) for word in array.tolist())


def check_characters(path: Path, array: AnyArray, label: str) -> None:
    """Refuse an array of text with numbers in it that are no characters; Python cannot hold them."""
    if array.dtype.kind != "U":
        return
    native = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("="), copy=False)
    codes = native.reshape(-1).view(np.uint32).reshape(-1, native.dtype.itemsize // 4)
    bad = (codes > 0x10FFFF) | ((codes >= 0xD800) & (codes <= 0xDFFF))
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise InputFileError(
            path, f"{label}entry {row} holds {codes[row, column]:#x}, which is not a character"
        )
