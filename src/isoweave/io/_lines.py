"""Lines of text files, in blocks, with everything refused that a table of numbers cannot hold."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from isoweave.io._errors import InputFileError
from isoweave.io._open import open_input

_BLOCK_BYTES = 1 << 19
_MAX_LINE_BYTES = 1 << 24
# All control characters but tab, line feed and carriage return. Python's str.split takes some of them, and
# characters beyond ASCII, for spaces; a reader that did would see cells no other program sees.
_CONTROL = bytes(c for c in (*range(32), 127) if c not in b"\t\n\r")
_SPACES = re.compile("[ \t]+")


@dataclass(frozen=True)
class Block:
    """Some successive lines of a file, without their line ends.

    Attributes
    ----------
    first : int
        1-based number of the first line.
    lines : list of str
    is_plain : bool
        All lines are ASCII, without underscores or quotes: ``int`` and ``float`` accept only numbers.
    """

    first: int
    lines: list[str]
    is_plain: bool


def read_blocks(
    path: Path, encoding: str = "utf-8", max_line_bytes: int = _MAX_LINE_BYTES
) -> Iterator[Block]:
    """The lines of a text file, about half a megabyte at a time.

    Lines end with a line feed, or carriage return and line feed. NUL and other control characters, single
    carriage returns and lines longer than 16 MiB are errors, and so is what is not UTF-8; ``"latin-1"``
    accepts any byte above 127.
    """
    with open_input(path) as (file, size):
        first, rest, total = 1, b"", 0
        while True:
            # The part read grows with an unfinished line, so that a long one is not copied over and over.
            piece = file.read(max(_BLOCK_BYTES, len(rest)))
            total += len(piece)
            if total > size:
                raise InputFileError(path, "the file changed while it was read; try again")
            cut = piece.rfind(b"\n") + 1
            # Only a line that is not finished with its block can be this long, or one within a long piece.
            if len(rest) + (piece.find(b"\n") if cut else len(piece)) > max_line_bytes:
                raise InputFileError(path, f"line longer than {max_line_bytes} bytes", first)
            if piece and not cut:
                rest += piece
                continue
            raw = rest + piece[:cut]
            rest = piece[cut:]
            if raw:
                block = _block(path, raw, first, encoding)
                yield block
                first += len(block.lines)
            if not piece:
                return


def _block(path: Path, raw: bytes, first: int, encoding: str) -> Block:
    if len(raw.translate(None, _CONTROL)) != len(raw):
        _raise_control(path, raw, first)
    if b"\r" in raw:
        raw = raw.replace(b"\r\n", b"\n")
        if b"\r" in raw.removesuffix(b"\r"):
            line = first + raw.count(b"\n", 0, raw.index(b"\r"))
            raise InputFileError(path, "carriage return inside a line; end lines with a line feed", line)
        raw = raw.removesuffix(b"\r")
    is_ascii = raw.isascii()
    if first == 1 and not is_ascii and encoding == "utf-8":
        raw = raw.removeprefix(b"\xef\xbb\xbf")  # a byte order mark can only open the file
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError as error:
        line_start = raw.rfind(b"\n", 0, error.start) + 1
        line = first + raw.count(b"\n", 0, error.start)
        raise InputFileError(
            path, f"not UTF-8 text (byte {error.start - line_start} of the line)", line
        ) from error
    lines = text.split("\n")
    if not lines[-1]:  # every block but the last of a file ends with a line feed
        lines.pop()
    return Block(first, lines, is_ascii and "_" not in text and '"' not in text)


def _raise_control(path: Path, raw: bytes, first: int) -> NoReturn:
    at = next(at for at, byte in enumerate(raw) if byte in _CONTROL)
    what = "NUL byte" if raw[at] == 0 else f"control character {raw[at]:#04x}"
    raise InputFileError(path, f"{what}: not a text file", first + raw.count(b"\n", 0, at))


def split_spaces(text: str) -> list[str]:
    """Cells between spaces and tabs; unlike ``str.split``, no other character counts as space."""
    return text.split() if text.isascii() else _SPACES.split(text.strip(" \t"))


def parse_number(text: str) -> float | None:
    """The number a cell holds, or None. Python's own extensions (1_000, Arabic digits) are not numbers."""
    if "_" in text or not text.isascii():
        return None
    try:
        return float(text)
    except ValueError:
        return None
