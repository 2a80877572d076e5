"""Tables as text: strict cells, strict numbers, and faults that name the line and the cell."""

from __future__ import annotations

import csv
import os
import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np

from isoweave._typing import AnyArray, FloatArray
from isoweave.io._source import Fault, brief, check_characters, open_input, quoted, read_npy, reading

DELIMITERS = {".csv": ",", ".tsv": "\t", ".txt": None}
_MAX_LINE_BYTES = 1 << 24
# All control characters but tab. Python's str.split takes some of them, and characters beyond ASCII, for
# spaces; a reader that did would see cells no other program sees.
_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
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
# A first column with one of these headers holds names of the vertices.
_NAME_HEADERS = ("", "vertex", "name", "id")


class Row(NamedTuple):
    """One line of a text file that holds data."""

    line: int
    cells: list[str]
    is_plain: bool = True  # all ASCII, without underscores: float accepts only numbers

    def number(self, at: int, what: str = "") -> float:
        """The number in a cell; the fault if there is none says which cell holds what instead."""
        cell = self.cells[at]
        value = parse_number(cell)
        if value is None:
            shown = f"holds {quoted(cell)}, not a number" if cell else "is empty"
            hint = f"; {_HINT}" if is_written_number(cell) else ""
            raise Fault(f"cell {at + 1}{what} {shown}{hint}", self.line)
        return value


def read_rows(
    path: Path, delimiter: str | None, comment: str = "#", encoding: str = "utf-8"
) -> Iterator[Row]:
    """The lines of a text file split into stripped cells, without blank lines and comments.

    Cells end at runs of white space if ``delimiter`` is None, and if it is "auto" at what the first row has:
    commas, tabs or spaces. Between delimiters cells may be quoted, and end on their line.
    """
    with open_input(path) as (file, size):
        line = done = 0
        # Not beyond the size at the beginning, however fast somebody appends.
        while done < size and (raw := file.readline(_MAX_LINE_BYTES + 1)):
            line, done = line + 1, done + len(raw)
            text = _decoded(raw, line, encoding)
            if not text.strip(" \t") or (comment and text.startswith(comment)):
                continue
            if delimiter == "auto":
                delimiter = next((mark for mark in ",\t" if mark in text), None)
            is_ascii = text.isascii()
            if delimiter is None:
                # Unlike for str.split, no other character counts as space.
                cells = text.split() if is_ascii else _SPACES.split(text.strip(" \t"))
            else:
                cells = _quoted_cells(text, delimiter, line) if '"' in text else text.split(delimiter)
                if " " in text or "\t" in text:
                    cells = [cell.strip(" \t") for cell in cells]
            yield Row(line, cells, is_ascii and "_" not in text)


def _decoded(raw: bytes, line: int, encoding: str) -> str:
    """A line without its end, which is LF or CR LF, and the byte order mark that may open a file."""
    if len(raw) > _MAX_LINE_BYTES:
        raise Fault(f"line longer than {_MAX_LINE_BYTES} bytes", line)
    raw = raw.removesuffix(b"\n").removesuffix(b"\r")
    found = _CONTROL.search(raw)
    if found is not None and found[0] == b"\r":
        raise Fault("carriage return inside a line; end lines with a line feed", line)
    if found is not None:
        what = "NUL byte" if found[0] == b"\0" else f"control character {found[0][0]:#04x}"
        raise Fault(f"{what}: not a text file", line)
    if line == 1 and encoding == "utf-8":
        raw = raw.removeprefix(b"\xef\xbb\xbf")
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError as error:
        raise Fault(f"not UTF-8 text (byte {error.start} of the line)", line) from error


def _quoted_cells(text: str, delimiter: str, line: int) -> list[str]:
    try:
        return next(csv.reader([text], delimiter=delimiter, strict=True, skipinitialspace=True))
    except csv.Error as error:
        raise Fault(f"badly quoted cell ({brief(error)})", line) from error


class Cells(NamedTuple):
    """The rows of a table, a list of words for each column of them."""

    words: list[list[str]]
    numbers: FloatArray
    lines: AnyArray


def read_cells(rows: Iterable[Row], n_cells: int, n_words: int = 0, what: str = "") -> Cells:
    """Rows of some words and then numbers, all equally long."""
    words: list[list[str]] = [[] for _ in range(n_words)]
    values, lines = array("d"), array("q")
    for row in rows:
        if len(row.cells) != n_cells:
            raise Fault(f"expected {n_cells} cells{what}, found {len(row.cells)}", row.line)
        for column, word in zip(words, row.cells, strict=False):
            column.append(word)
        try:
            if not row.is_plain:
                raise ValueError
            values.extend([*map(float, row.cells[n_words:])])
        except ValueError:  # slower, stricter, and it says which cell is at fault
            values.extend([row.number(at, what) for at in range(n_words, n_cells)])
        lines.append(row.line)
    return Cells(words, np.asarray(values).reshape(len(lines), n_cells - n_words), np.asarray(lines))


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


def check_words(words: Sequence[str], file_size: int, where: str = "", lines: AnyArray | None = None) -> None:
    """Refuse words that one very long one would blow up as an array, and numbers that are not plain.

    ``lines`` are those of the words; without them all may look like numbers: the file calls them names.
    """
    longest = max(words, key=len, default="")
    if 4 * len(words) * len(longest) > max(_FREE_WORD_BYTES, _MAX_WORD_EXPANSION * file_size):
        said = f"{quoted(longest)} of {len(longest)} characters is too long among {len(words)}"
        raise Fault(f"the word {said}; shorten it")
    if lines is not None and all(not word or _is_number(word) for word in words):
        for word, line in zip(words, lines, strict=True):
            if is_written_number(word):
                hint = ", or put 'name' over them if they are names" if where == "cell 1" else ""
                raise Fault(f"{where} holds {quoted(word)}, not a number; {_HINT}{hint}", int(line))


def _check_header(row: Row, hint: str = ", or put # before the line if it is a header") -> None:
    """A row without numbers is a header only if nothing in it may be meant as a number."""
    for at, cell in enumerate(row.cells, 1):
        if is_written_number(cell) and row.cells[0].lower() not in _NAME_HEADERS:
            raise Fault(f"cell {at} holds {quoted(cell)}, not a number; {_HINT}{hint}", row.line)


def read_table(path: Path, delimiter: str | None, is_named: bool = False) -> Cells:
    """Rows of finite numbers, after a name each if ``is_named``, or if the first entry is not a number.

    A first row without a number is a header, and so is one whose first cell is empty (pandas' index).
    """
    rows = read_rows(path, delimiter)
    header = row = next(rows, None)
    if header is None:
        raise Fault("the file holds no rows")
    if not header.cells[0] or all(parse_number(cell) is None for cell in header.cells[is_named:]):
        _check_header(header)
        row = next(rows, None)
    if row is None:
        raise Fault("no number in any row; expected rows of numbers", header.line)
    n_names = int(is_named or not header.cells[0] or parse_number(row.cells[0]) is None)
    if len(header.cells) == n_names:
        hint = "not a number (expected commas in .csv, tabs in .tsv)"
        raise Fault(f"cell 1 holds {quoted(row.cells[0])}, {hint}", row.line)
    found = read_cells(chain([row], rows), len(header.cells), n_names)
    bad = ~np.isfinite(found.numbers)
    if bad.any():
        i, j = np.argwhere(bad)[0]
        said = f"cell {j + 1 + n_names} holds {found.numbers[i, j]}; numbers must be finite"
        raise Fault(said, int(found.lines[i]))
    says_names = is_named or (row is not header and header.cells[0].lower() in _NAME_HEADERS)
    for names in found.words:
        check_words(names, path.stat().st_size, "cell 1", None if says_names else found.lines)
    return found


def read_columns(path: str | os.PathLike[str]) -> tuple[dict[str, AnyArray], tuple[str, ...] | None]:
    """Read a table (.csv or .tsv) with a header: one row per point, one column per property.

    Returns
    -------
    values : dict of str to array of shape (n,)
        float64 where every cell is a number or empty (then NaN), otherwise strings.
    names : tuple of n str or None
        Names of the rows, if the first column is headed by nothing, "vertex", "name" or "id".
    """
    path = Path(path)
    with reading(path):
        rows = read_rows(path, _delimiter(path, "columns", (".csv", ".tsv")))
        header = next(rows, None)
        if header is None:
            raise Fault("the file holds no rows")
        _check_heads(header)
        found = read_cells(rows, len(header.cells), len(header.cells))
        if not len(found.lines):
            raise Fault("there is a header, but no row below it", header.line)
        columns, size = dict(zip(header.cells, found.words, strict=True)), path.stat().st_size
        names = columns.pop(header.cells[0]) if header.cells[0].lower() in _NAME_HEADERS else None
        check_words(names or (), size)
        values = {k: _values(words, found.lines, size, f"column {quoted(k)}") for k, words in columns.items()}
        return values, None if names is None else tuple(names)


def _values(cells: list[str], lines: AnyArray, file_size: int, where: str) -> AnyArray:
    """Numbers, NaN for what is empty, or words where not every cell is a number."""
    numbers = [parse_number(cell) if cell else np.nan for cell in cells]
    if None not in numbers and any(cells):
        return np.array(numbers, dtype=np.float64)
    check_words(cells, file_size, where, lines)
    return np.array(cells, dtype=str)


def _check_heads(header: Row) -> None:
    heads = header.cells
    numbers = [cell for cell in heads if parse_number(cell) is not None]
    fault = ""
    if numbers:
        fault = f"the first row must name the columns, but holds the number {quoted(numbers[0])}"
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
    """Read one label per vertex, shape (n,): numbers, or strings where not every label is a number.

    From .npy, or from the last cell of every row of .csv, .tsv or .txt. There a first row that is no number
    is a header if all others are numbers; words have no header. :class:`InputFileError` for anything else.
    """
    path = Path(path)
    with reading(path):
        if path.suffix.lower() == ".npy":
            return _checked_labels(read_npy(path))
        rows = read_rows(path, _delimiter(path, "labels", (".npy", *DELIMITERS)))
        first = next(rows, None)
        if first is None:
            raise Fault("the file holds no labels")
        words, _, lines = read_cells(chain([first], rows), len(first.cells), len(first.cells))
        cells = words[-1]
        if "" in cells:
            raise Fault("no label in the last cell", int(lines[cells.index("")]))
        if len(cells) > 1 and not _is_number(cells[0]) and all(map(_is_number, cells[1:])):
            cells, lines = cells[1:], lines[1:]
        return _checked_labels(_values(cells, lines, path.stat().st_size, "the last cell"), lines)


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
    """Read anchors from .csv, .tsv or .txt: a row for each, its vertex first and then its coordinates.

    Vertices are given by name if there are ``names``, otherwise by number, counted from 0. A first row whose
    coordinates are not numbers is a header.

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
