"""Tables as text: strict cells, strict numbers, and faults that name the line and the cell."""

from __future__ import annotations

import csv
import os
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np

from isoweave._typing import AnyArray, FloatArray
from isoweave.io._arrays import read_npy, read_npz
from isoweave.io._source import Fault, brief, check_characters, open_input, quoted, reading

DELIMITERS = {".csv": ",", ".tsv": "\t", ".txt": None}
_BLOCK_BYTES = 1 << 19
_MAX_LINE_BYTES = 1 << 24
# All control characters but tab, line feed and carriage return. Python's str.split takes some of them, and
# characters beyond ASCII, for spaces; a reader that did would see cells no other program sees.
_CONTROL = bytes(c for c in (*range(32), 127) if c not in b"\t\n\r")
_SPACES = re.compile("[ \t]+")
# An array of n words takes 4 n times the longest one, and words rarely shrink as much as numbers.
_FREE_WORD_BYTES = 1 << 26
_MAX_WORD_EXPANSION = 32
# Numbers as people write them: 1,000  1.000,5  1 000  0,5  10 %  $5  (5)  1d5. What they mean depends on who
# wrote them, so they are refused; taken for words, they would silently become names or a header.
_WRITTEN_NUMBER = re.compile(
    r"\(?[+\u2212-]?[$€£¥]? ?"
    r"(?:\d{1,3}([,.'\u2019 \u00a0\u202f])\d{3}(?:\1\d{3})*(?:[.,]\d*)?|\d+[.,]?\d*|[.,]\d+)"
    r"(?:[eEdD][+\u2212-]?\d+)?[ \u00a0\u202f]?[%‰$€£¥]?\)?"
)
_MAX_NUMBER_LENGTH = 40
_HINT = "write plain numbers such as 1000, 0.1 or 1e5"
_LABEL_KEYS = ("labels", "label", "y", "target")
# A first column with one of these headers holds names of the vertices.
_NAME_HEADERS = ("", "vertex", "name", "id")
_MAX_COLUMNS = 1000
_Place: TypeAlias = Callable[[int], tuple[str, int]]


class Block(NamedTuple):
    """Some successive lines of a file, without their line ends."""

    first: int  # 1-based number of the first line
    lines: list[str]
    is_plain: bool  # all ASCII, without underscores or quotes: int and float accept only numbers


class Row(NamedTuple):
    """One line of a text file that holds data."""

    line: int
    cells: list[str]

    def check_length(self, n_cells: int, what: str = "") -> None:
        """Every row has as many cells as the first."""
        if len(self.cells) != n_cells:
            raise Fault(f"expected {n_cells} cells{what}, found {len(self.cells)}", self.line)

    def number(self, at: int, what: str = "") -> float:
        """The number in a cell; the fault if there is none says which cell holds what instead."""
        cell = self.cells[at]
        value = parse_number(cell)
        if value is None:
            shown = f"holds {quoted(cell)}, not a number" if cell else "is empty"
            hint = f"; {_HINT}" if is_written_number(cell) else ""
            raise Fault(f"cell {at + 1}{what} {shown}{hint}", self.line)
        return value


def read_blocks(path: Path, encoding: str = "utf-8", max_line_bytes: int | None = None) -> Iterator[Block]:
    """The lines of a text file, about half a megabyte at a time; they end with LF or CR LF."""
    limit = max_line_bytes or _MAX_LINE_BYTES
    with open_input(path) as (file, size):
        first = 1
        # Not beyond the size at the beginning, however fast somebody appends.
        while file.tell() < size and (raw := file.read(_BLOCK_BYTES)):
            raw += file.readline(limit)  # the rest of the last line; only this one can be too long
            if len(raw) - raw.rfind(b"\n", 0, -1) > limit + 1:
                raise Fault(f"line longer than {limit} bytes", first + raw.count(b"\n", 0, -1))
            block = _block(raw, first, encoding)
            yield block
            first += len(block.lines)


def _block(raw: bytes, first: int, encoding: str) -> Block:
    if len(raw.translate(None, _CONTROL)) != len(raw):
        at = next(at for at, byte in enumerate(raw) if byte in _CONTROL)
        what = "NUL byte" if raw[at] == 0 else f"control character {raw[at]:#04x}"
        raise Fault(f"{what}: not a text file", first + raw.count(b"\n", 0, at))
    if b"\r" in raw:
        raw = raw.replace(b"\r\n", b"\n")
        if b"\r" in raw.removesuffix(b"\r"):
            line = first + raw.count(b"\n", 0, raw.index(b"\r"))
            raise Fault("carriage return inside a line; end lines with a line feed", line)
        raw = raw.removesuffix(b"\r")
    is_ascii = raw.isascii()
    if first == 1 and not is_ascii and encoding == "utf-8":
        raw = raw.removeprefix(b"\xef\xbb\xbf")  # a byte order mark can only open the file
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError as error:
        at = error.start - raw.rfind(b"\n", 0, error.start) - 1
        line = first + raw.count(b"\n", 0, error.start)
        raise Fault(f"not UTF-8 text (byte {at} of the line)", line) from error
    lines = text.split("\n")
    if not lines[-1]:  # every block but the last of a file ends with a line feed
        lines.pop()
    return Block(first, lines, is_ascii and "_" not in text and '"' not in text)


def split_block(block: Block, delimiter: str | None, comment: str = "#") -> Iterator[Row]:
    """Lines split into stripped cells, at runs of white space if ``delimiter`` is None.

    Blank lines and comments are left out. Between delimiters cells may be quoted, and end on their line.
    """
    for line, text in enumerate(block.lines, block.first):
        if text.startswith(comment) or not text.strip(" \t"):
            continue
        if delimiter is None:
            # Unlike for str.split, no other character counts as space.
            yield Row(line, text.split() if text.isascii() else _SPACES.split(text.strip(" \t")))
            continue
        cells = text.split(delimiter)
        if '"' in text:
            try:
                cells = next(csv.reader([text], delimiter=delimiter, strict=True, skipinitialspace=True))
            except csv.Error as error:
                raise Fault(f"badly quoted cell ({brief(error)})", line) from error
        has_spaces = " " in text or "\t" in text
        yield Row(line, [cell.strip(" \t") for cell in cells] if has_spaces else cells)


def first_row(
    blocks: Iterator[Block], delimiter: str | None, comment: str = "#", skip: int = 0
) -> tuple[Row | None, Iterator[Block]]:
    """The first row after some lines, None if there is none, and the blocks that begin with it."""
    for block in blocks:
        rest = Block(block.first + skip, block.lines[skip:], block.is_plain)
        skip = 0
        for row in split_block(rest, delimiter, comment):
            rest = Block(row.line, rest.lines[row.line - rest.first :], block.is_plain)
            return row, chain([rest], blocks)
    return None, blocks


class Cells(NamedTuple):
    """The rows of a table, a list of words for each column of them."""

    words: list[list[str]]
    numbers: FloatArray
    lines: AnyArray


def read_cells(
    blocks: Iterable[Block], delimiter: str | None, n_cells: int, n_words: int = 0, what: str = ""
) -> Cells:
    """Rows of some words and then numbers, all equally long."""
    words: list[list[str]] = [[] for _ in range(n_words)]
    values, lines = array("d"), array("q")
    for block in blocks:
        found = None if n_words else _plain_numbers(block, delimiter, n_cells)
        if found is not None:
            values.extend(found)
            lines.extend(range(block.first, block.first + len(block.lines)))
            continue
        for row in split_block(block, delimiter):
            row.check_length(n_cells, what)
            for column, word in zip(words, row.cells, strict=False):
                column.append(word)
            try:
                if not block.is_plain:
                    raise ValueError
                values.extend([*map(float, row.cells[n_words:])])
            except ValueError:  # slower, stricter, and it says which cell is at fault
                values.extend([row.number(at, what) for at in range(n_words, n_cells)])
            lines.append(row.line)
    return Cells(words, np.asarray(values).reshape(len(lines), n_cells - n_words), np.asarray(lines))


def _plain_numbers(block: Block, delimiter: str | None, n_cells: int) -> array[float] | None:
    """All numbers of a block at once; None, for line by line, if there is anything else in it."""
    rows = [text.split(delimiter) for text in block.lines] if block.is_plain else [[]]
    try:
        has_all = all(len(cells) == n_cells for cells in rows)
        return array("d", map(float, chain.from_iterable(rows))) if has_all else None
    except ValueError:  # a comment, or a fault
        return None


def parse_number(text: str) -> float | None:
    """The number a cell holds, or None. Python's own extensions (1_000, Arabic digits) are not numbers."""
    if "_" in text or not text.isascii():
        return None
    try:
        return float(text)
    except ValueError:
        return None


def is_written_number(text: str) -> bool:
    """Whether a cell holds a number in a notation that is not read: 1,000 or 10% or 1d5."""
    is_like_one = len(text) <= _MAX_NUMBER_LENGTH and _WRITTEN_NUMBER.fullmatch(text) is not None
    return is_like_one and parse_number(text) is None


def _is_number(text: str) -> bool:
    return parse_number(text) is not None or is_written_number(text)


def check_words(words: Sequence[str], file_size: int, place: _Place | None = None, hint: str = "") -> None:
    """Refuse words that one very long one would blow up as an array, and numbers that are not plain.

    ``place`` tells cell and line of a word; without it all may look like numbers: the file calls them names.
    """
    longest = max(words, key=len, default="")
    if 4 * len(words) * len(longest) > max(_FREE_WORD_BYTES, _MAX_WORD_EXPANSION * file_size):
        said = f"{quoted(longest)} of {len(longest)} characters is too long among {len(words)}"
        raise Fault(f"the word {said}; shorten it")
    if place and all(not word or _is_number(word) for word in words):
        at = next((k for k, word in enumerate(words) if is_written_number(word)), None)
        if at is not None:
            where, line = place(at)
            raise Fault(f"{where} holds {quoted(words[at])}, not a number; {_HINT}{hint}", line)


def _check_header(row: Row, hint: str = ", or put # before the line if it is a header") -> None:
    """A row without numbers is a header only if nothing in it may be meant as a number."""
    for at, cell in enumerate(row.cells, 1):
        if is_written_number(cell) and row.cells[0].lower() not in _NAME_HEADERS:
            raise Fault(f"cell {at} holds {quoted(cell)}, not a number; {_HINT}{hint}", row.line)


def read_table(path: Path, delimiter: str | None, is_named: bool = False) -> Cells:
    """Rows of finite numbers, after a name each if ``is_named``, or if the first entry is not a number.

    A first row without a number is a header, and so is one whose first cell is empty (pandas' index).
    """
    header, blocks = first_row(read_blocks(path), delimiter)
    if header is None:
        raise Fault("the file holds no rows")
    row: Row | None = header
    if not header.cells[0] or all(parse_number(cell) is None for cell in header.cells[is_named:]):
        _check_header(header)
        row, blocks = first_row(blocks, delimiter, skip=1)
    if row is None:
        raise Fault("no number in any row; expected rows of numbers", header.line)
    n_names = int(is_named or not header.cells[0] or parse_number(row.cells[0]) is None)
    if len(header.cells) == n_names:
        hint = "not a number (expected commas in .csv, tabs in .tsv)"
        raise Fault(f"cell 1 holds {quoted(row.cells[0])}, {hint}", row.line)
    found = read_cells(blocks, delimiter, len(header.cells), n_names)
    bad = ~np.isfinite(found.numbers)
    if bad.any():
        i, j = np.argwhere(bad)[0]
        said = f"cell {j + 1 + n_names} holds {found.numbers[i, j]}; numbers must be finite"
        raise Fault(said, int(found.lines[i]))
    for names in found.words:
        says_names = is_named or (row is not header and header.cells[0].lower() in _NAME_HEADERS)
        place = None if says_names else lambda at: ("cell 1", int(found.lines[at]))
        hint = ", or add a header with 'name' over them if they are names"
        check_words(names, path.stat().st_size, place, hint)
    return found


def read_columns(path: str | os.PathLike[str]) -> tuple[dict[str, AnyArray], tuple[str, ...] | None]:
    """Read a table with a header: one row per point, one column per property.

    Parameters
    ----------
    path : path-like
        .csv (commas) or .tsv (tabs); :class:`InputFileError` if it is neither, or damaged.

    Returns
    -------
    values : dict of str to array of shape (n,)
        float64 where every cell is a number or empty (then NaN), otherwise strings.
    names : tuple of n str or None
        Names of the rows, if the first column is headed by nothing, "vertex", "name" or "id".
    """
    path = Path(path)
    with reading(path):
        delimiter = _delimiter(path, "columns", (".csv", ".tsv"))
        header, blocks = first_row(read_blocks(path), delimiter)
        if header is None:
            raise Fault("the file holds no rows")
        _check_heads(header)
        row, blocks = first_row(blocks, delimiter, skip=1)
        if row is None:
            raise Fault("there is a header, but no row below it", header.line)
        found = read_cells(blocks, delimiter, len(header.cells), len(header.cells))
        columns, size = dict(zip(header.cells, found.words, strict=True)), path.stat().st_size
        names = columns.pop(header.cells[0]) if header.cells[0].lower() in _NAME_HEADERS else None
        check_words(names or (), size)
        values = {
            head: _values(words, found, size, f"column {quoted(head)}") for head, words in columns.items()
        }
        return values, None if names is None else tuple(names)


def _values(cells: list[str], found: Cells, file_size: int, where: str) -> AnyArray:
    """Numbers, NaN for what is empty, or words where not every cell is a number."""
    numbers = [parse_number(cell) if cell else np.nan for cell in cells]
    if None not in numbers and any(cells):
        return np.array(numbers, dtype=np.float64)
    check_words(cells, file_size, lambda at: (where, int(found.lines[at])))
    return np.array(cells, dtype=str)


def _check_heads(header: Row) -> None:
    heads = header.cells
    numbers = [cell for cell in heads if parse_number(cell) is not None]
    fault = ""
    if numbers:
        fault = f"the first row must name the columns, but holds the number {quoted(numbers[0])}"
    elif len(heads) > _MAX_COLUMNS:
        fault = f"{len(heads)} columns; at most {_MAX_COLUMNS} are allowed"
    elif len(set(heads)) < len(heads):
        fault = f"two columns are named {quoted(max(heads, key=heads.count))}"
    elif "" in heads[1:]:
        fault = f"column {heads.index('', 1) + 1} has no name"
    elif len(heads) == 1 and heads[0].lower() in _NAME_HEADERS:
        fault = "there are names of rows, but no columns"
    if fault:
        raise Fault(fault, header.line)
    _check_header(header, "; the first row must name the columns")


def read_labels(path: str | os.PathLike[str]) -> AnyArray:
    """Read one label per vertex: numbers or words.

    Parameters
    ----------
    path : path-like
        .npy; .npz with an array ``labels``, ``label``, ``y`` or ``target``, or a single one; .csv, .tsv or
        .txt with the label in the last cell of every row. A first row with no number in it is taken for a
        header if the labels are numbers; words have no header. :class:`InputFileError` for anything else.

    Returns
    -------
    array of shape (n,)
        Numbers, or strings where not every label is a number.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    with reading(path):
        if suffix == ".npy":
            return _checked_labels(read_npy(path))
        if suffix == ".npz":
            arrays = read_npz(path)
            keys = [key for key in _LABEL_KEYS if key in arrays] or list(arrays)
            if keys and (keys[0] in _LABEL_KEYS or len(arrays) == 1):
                return _checked_labels(arrays[keys[0]])
            found = ", ".join(quoted(name) for name in keys[:10]) or "no arrays"
            raise Fault(f"no array named {', '.join(_LABEL_KEYS)} among {found}")
        return _labels_from_text(path, _delimiter(path, "labels", (".npy", ".npz", *DELIMITERS)))


def _labels_from_text(path: Path, delimiter: str | None) -> AnyArray:
    row, blocks = first_row(read_blocks(path), delimiter)
    if row is None:
        raise Fault("the file holds no labels")
    found = read_cells(blocks, delimiter, len(row.cells), len(row.cells))
    cells = found.words[-1]
    if "" in cells:
        raise Fault("no label in the last cell", int(found.lines[cells.index("")]))
    # All but the first a number: the first is a header.
    if len(cells) > 1 and not _is_number(cells[0]) and all(map(_is_number, cells[1:])):
        found = found._replace(lines=found.lines[1:])
        del cells[0]
    return _checked_labels(_values(cells, found, path.stat().st_size, "the last cell"), found.lines)


def _checked_labels(labels: AnyArray, lines: AnyArray | None = None) -> AnyArray:
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1 or len(labels) == 0:
        raise Fault(f"expected one label per vertex, got shape {labels.shape}")
    if labels.dtype.kind not in "biufUS":
        raise Fault(f"labels must be numbers or words, got dtype {labels.dtype}")
    check_characters(labels)
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        row = int(np.argmin(np.isfinite(labels)))
        line = None if lines is None else int(lines[row])
        raise Fault(f"label {labels[row]} of row {row} is neither a number nor a word", line)
    return labels


def read_anchors(
    path: str | os.PathLike[str], n_vertices: int, names: Sequence[str] | None = None
) -> tuple[AnyArray, FloatArray]:
    """Read anchors: one row per anchor, its vertex first and then its coordinates.

    Parameters
    ----------
    path : path-like
        .csv, .tsv or .txt; :class:`InputFileError` for anything else. A first row whose coordinates are not
        numbers is a header.
    n_vertices : int
    names : sequence of n_vertices str, optional
        Names of the vertices; without any, vertices are given by number, counted from 0.

    Returns
    -------
    anchors : int64 array of shape (a,)
    positions : float64 array of shape (a, N)
    """
    path = Path(path)
    with reading(path):
        found = read_table(path, _delimiter(path, "anchors", tuple(DELIMITERS)), is_named=True)
        number = {name: k for k, name in enumerate(map(str, range(n_vertices)) if names is None else names)}
        line_of: dict[int, int] = {}
        for name, line in zip(found.words[0], found.lines.tolist(), strict=True):
            if name not in number:
                wanted = f"a vertex number from 0 to {n_vertices - 1}" if names is None else "a vertex's name"
                raise Fault(f"expected {wanted}, found {quoted(name)}", line)
            if line_of.setdefault(number[name], line) != line:
                before = line_of[number[name]]
                raise Fault(f"vertex {quoted(name)} was already given on line {before}", line)
    return np.array(list(line_of), dtype=np.int64), found.numbers


def _delimiter(path: Path, what: str, suffixes: tuple[str, ...]) -> str | None:
    suffix = path.suffix.lower()
    if suffix not in suffixes:
        known = f"{', '.join(suffixes[:-1])} or {suffixes[-1]}"
        raise Fault(f"{what} are read from {known}, not {quoted(suffix)}")
    return DELIMITERS[suffix]


def match_names(
    path: Path, names: Sequence[str] | None, vertex_names: Sequence[str] | None
) -> AnyArray | None:
    """Order that puts the rows of ``path`` in the order of the graph's vertices; None: as they are.

    Where either has no names, rows and vertices correspond by position.
    """
    if names is None or vertex_names is None or tuple(names) == tuple(vertex_names):
        return None
    row_of = {name: row for row, name in enumerate(names)}
    with reading(path):
        for row, name in enumerate(names):
            if row_of[name] != row:
                raise Fault(f"the name {quoted(name)} occurs in more than one row")
        for name in vertex_names:
            if name not in row_of:
                raise Fault(f"no row is named {quoted(name)}, but a vertex of the graph is")
    return np.array([row_of[name] for name in vertex_names], dtype=np.intp)
