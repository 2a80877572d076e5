"""Text files line by line, and the tables of numbers in them: .csv, .tsv, .txt."""

from __future__ import annotations

import csv
import re
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, NoReturn

import numpy as np

from isoweave._typing import AnyArray
from isoweave.io._source import InputFileError, brief, changed, check_words, open_input, quoted

DELIMITERS = {".csv": ",", ".tsv": "\t", ".txt": None}
_BLOCK_BYTES = 1 << 19
_MAX_LINE_BYTES = 1 << 24
# All control characters but tab, line feed and carriage return. Python's str.split takes some of them, and
# characters beyond ASCII, for spaces; a reader that did would see cells no other program sees.
_CONTROL = bytes(c for c in (*range(32), 127) if c not in b"\t\n\r")
_SPACES = re.compile("[ \t]+")


class Block(NamedTuple):
    """Some successive lines of a file, without their line ends."""

    first: int
    """1-based number of the first line."""
    lines: list[str]
    is_plain: bool
    """All lines are ASCII, without underscores or quotes: ``int`` and ``float`` accept only numbers."""


class Row(NamedTuple):
    """One line of a text file that holds data."""

    line: int
    cells: list[str]


def read_blocks(path: Path, encoding: str = "utf-8", max_line_bytes: int | None = None) -> Iterator[Block]:
    """The lines of a text file, about half a megabyte at a time.

    Lines end with a line feed, or carriage return and line feed. NUL and other control characters, single
    carriage returns and lines longer than 16 MiB are errors, and so is what is not UTF-8; ``"latin-1"``
    accepts any byte above 127.
    """
    max_line_bytes = max_line_bytes or _MAX_LINE_BYTES
    with open_input(path) as (file, size):
        first, rest, total = 1, b"", 0
        while True:
            # The part read grows with an unfinished line, so that a long one is not copied over and over.
            piece = file.read(max(_BLOCK_BYTES, len(rest)))
            total += len(piece)
            if total > size:
                raise changed(path)
            cut = piece.rfind(b"\n") + 1
            # Only a line that is not finished with its block can be this long, or one within a long piece.
            if len(rest) + (piece.find(b"\n") if cut else len(piece)) > max_line_bytes:
                raise InputFileError(path, f"line longer than {max_line_bytes} bytes", first)
            if piece and not cut:
                rest += piece
                continue
            raw, rest = rest + piece[:cut], piece[cut:]
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
        at = error.start - raw.rfind(b"\n", 0, error.start) - 1
        line = first + raw.count(b"\n", 0, error.start)
        raise InputFileError(path, f"not UTF-8 text (byte {at} of the line)", line) from error
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


def read_rows(path: Path, delimiter: str | None) -> Iterator[Row]:
    """Lines split into stripped cells, at runs of white space if ``delimiter`` is None.

    Blank lines and comments (#) are left out. Cells may be quoted with double quotes where a delimiter is
    given; a quoted cell ends on its line.
    """
    for block in read_blocks(path):
        yield from split_block(path, block, delimiter)


def split_block(path: Path, block: Block, delimiter: str | None) -> Iterator[Row]:
    """The rows of one block, as :func:`read_rows`."""
    for line, text in enumerate(block.lines, block.first):
        if text.startswith("#") or not text.strip(" \t"):
            continue
        if delimiter is None:
            yield Row(line, split_spaces(text))
        elif '"' not in text:
            cells = text.split(delimiter)
            if " " in text or "\t" in text:
                cells = [cell.strip(" \t") for cell in cells]
            yield Row(line, cells)
        else:
            try:
                cells = next(csv.reader([text], delimiter=delimiter, strict=True, skipinitialspace=True))
            except csv.Error as error:
                raise InputFileError(path, f"badly quoted cell ({brief(error)})", line) from error
            yield Row(line, [cell.strip(" \t") for cell in cells])


def check_n_cells(path: Path, row: Row, n_cells: int, what: str = "") -> None:
    """Every row has as many cells as the first."""
    if len(row.cells) != n_cells:
        raise InputFileError(path, f"expected {n_cells} cells{what}, found {len(row.cells)}", row.line)


def read_table(path: Path, delimiter: str | None) -> tuple[AnyArray, tuple[str, ...] | None]:
    """Features of shape (n, d) from text, and the rows' names if the file has any.

    A first row without a single number is a header, and so is one whose first cell is empty (the way
    pandas writes its index). A first column holds names rather than features when its header cell is
    empty or its first entry is not a number.
    """
    rows = read_rows(path, delimiter)
    row = header = next(rows, None)
    if row is None or header is None:
        raise InputFileError(path, "the file holds no rows")
    if not row.cells[0] or all(parse_number(cell) is None for cell in row.cells):
        row = next(rows, None)
        if row is None:
            raise InputFileError(path, "no number in any row; expected rows of numbers", header.line)
    n_names = int(not header.cells[0] or parse_number(row.cells[0]) is None)
    n_cells = len(header.cells)
    if n_cells == n_names:
        hint = f"{quoted(row.cells[0])} is not a number (expected commas in .csv, tabs in .tsv)"
        raise InputFileError(path, hint, row.line)

    values, lines, names = array("d"), array("q"), []
    while row is not None:
        check_n_cells(path, row, n_cells)
        names += row.cells[:n_names]
        _append_numbers(path, values, row, n_names)
        lines.append(row.line)
        row = next(rows, None)
    features = np.frombuffer(values, dtype=np.float64).reshape(-1, n_cells - n_names)
    bad = ~np.isfinite(features)
    if bad.any():
        i, j = np.argwhere(bad)[0]
        what = f"cell {j + 1 + n_names} holds {features[i, j]}; features must be finite numbers"
        raise InputFileError(path, what, lines[i])
    check_words(path, names, len(names), path.stat().st_size)
    return features, tuple(names) if n_names else None


def _append_numbers(path: Path, values: array[float], row: Row, start: int) -> None:
    cells = row.cells[start:]
    joined = "".join(cells)
    try:
        # One test per row for what float() accepts and a strict reader does not.
        if "_" in joined or not joined.isascii():
            raise ValueError
        values.extend(map(float, cells))
    except ValueError:
        for position, cell in enumerate(cells, start + 1):
            if parse_number(cell) is None:
                shown = "is empty" if not cell else f"holds {quoted(cell)}, not a number"
                raise InputFileError(path, f"cell {position} {shown}", row.line) from None
        raise
