"""Names of vertices and labels of points: checked, because they are printed and written out again."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from isoweave._typing import AnyArray
from isoweave.io._errors import InputFileError, quoted
from isoweave.io._open import check_expansion

# An array of n words takes 4 n times the longest one. Up to this many bytes that is allowed whatever the
# file's size, beyond it up to this many times the file's size.
_FREE_BYTES = 1 << 26
_MAX_EXPANSION = 32


def check_words(path: Path, words: Iterable[str], n_words: int, file_size: int, what: str = "a name") -> None:
    """Refuse names or labels that one very long word would blow up when they are held as an array."""
    longest = max(words, key=len, default="")
    check_width(path, len(longest), n_words, file_size, f"{what} {quoted(longest)}")


def check_width(path: Path, width: int, n_words: int, file_size: int, what: str) -> None:
    """The same for words whose longest has ``width`` characters."""
    if 4 * n_words * width > max(_FREE_BYTES, _MAX_EXPANSION * file_size):
        raise InputFileError(path, f"{what} of {width} characters is refused beside {n_words}; shorten it")


def words_from_array(
    path: Path, array: AnyArray, n_words: int, file_size: int, label: str
) -> tuple[str, ...]:
    """The names a 1-D array holds; numbers are written out. Numbers that are no characters are an error."""
    if array.shape != (n_words,) or array.dtype.kind not in "biufSU":
        raise InputFileError(
            path, f"{label}expected {n_words} names, got {array.dtype} of shape {array.shape}"
        )
    # A string is an object of 50 bytes and more, however little space it took in the file.
    check_expansion(path, 64 * n_words, file_size, f"{n_words} names")
    if array.dtype.kind == "S":
        try:
            return tuple(word.decode("utf-8") for word in array.tolist())
        except UnicodeDecodeError as error:
            raise InputFileError(path, f"{label}names that are not UTF-8 text ({error.reason})") from error
    if array.dtype.kind == "U":
        check_characters(path, array, label)
    return tuple(str(word) for word in array.tolist())


def check_characters(path: Path, array: AnyArray, label: str) -> None:
    """Refuse an array of text with numbers in it that are no characters; Python cannot hold them."""
    native = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("="), copy=False)
    width = native.dtype.itemsize // 4
    codes = native.reshape(-1).view(np.uint32).reshape(-1, width)
    bad = (codes > 0x10FFFF) | ((codes >= 0xD800) & (codes <= 0xDFFF))
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise InputFileError(path, f"{label}entry {row} holds {codes[row, column]:#x}, which is no character")
