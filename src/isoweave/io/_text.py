"""Tables as text: strict cells, strict numbers, and faults that name the line and the cell."""

from __future__ import annotations

import csv
import os
import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import IO, NamedTuple, TypeAlias

import numpy as np

from isoweave._typing import AnyArray, FloatArray
from isoweave.io._source import Fault, brief, check_characters, open_input, quoted, read_npy, reading

DELIMITERS = {".csv": ",", ".tsv": "\t", ".txt": None}
# Text is read in blocks of whole lines.
_BLOCK_BYTES, _MAX_LINE_BYTES = 1 << 16, 1 << 24
# All control characters but tab and the ends of lines. Python's str.split takes some of them, and characters
# beyond ASCII, for spaces; a reader that did would see cells no other program sees.
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\r(?!\n)")
_SPACES = re.compile("[ \t]+")
_VERTEX = re.compile("0|[1-9][0-9]{0,17}")
# An array of n words takes 4 n times the longest one, and words rarely shrink as much as numbers.
_FREE_WORD_BYTES, _MAX_WORD_EXPANSION = 1 << 26, 32
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
# Headers of the ends of an edge, and of a third column that is a distance, or may be something else.
_ENDS = {("source", "target"), ("from", "to"), ("i", "j"), ("u", "v"), ("src", "dst"), ("node1", "node2")}
_DISTANCES = ("distance", "distances", "dist", "length", "d", "km", "miles", "metres", "meters")
_AMBIGUOUS = ("weight", "weights", "w", "value", "cost")
# A decimal comma, as programs write it that separate cells by semicolons.
_COMMA_NUMBER = re.compile(r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?")
# Rows that are looked at to tell what a table is.
_LOOKED_AT = 1000
_ASK = "; choose --graph (as_graph=True) or --features (as_graph=False)"

# Line, cells, and whether all is ASCII without underscores: then float takes nothing but numbers.
Row: TypeAlias = tuple[int, list[str], bool]


def read_rows(
    path: Path, delimiter: str | None, comment: str = "#", encoding: str = "utf-8"
) -> Iterator[Row]:
    """The lines of a text file split into stripped cells, without blank lines and comments.

    Cells end at runs of white space if ``delimiter`` is None, and if it is "auto" at what the first row has:
    commas, tabs or spaces. Between delimiters cells may be quoted, and end on their line. Where commas are
    expected and the first row has semicolons, these count, and commas are decimal points.
    """
    line, decimal_commas, is_first = 0, False, True
    with open_input(path) as (file, size):
        for block in _blocks(file, size, encoding):
            is_ascii = block.isascii()
            is_plain, has_spaces = is_ascii and "_" not in block, " " in block or "\t" in block
            for text in block.replace("\r\n", "\n").split("\n"):
                line += 1
                if not text or (comment and text.startswith(comment)) or not text.strip(" \t"):
                    continue
                if is_first and delimiter in (",", "auto") and ";" in text and _has_semicolons(text):
                    delimiter, decimal_commas = ";", True
                is_first = False
                if delimiter == "auto":
                    delimiter = next((mark for mark in ",\t" if mark in text), None)
                if delimiter is None:
                    # Unlike for str.split, no other character counts as space.
                    cells = text.split() if is_ascii else _SPACES.split(text.strip(" \t"))
                else:
                    cells = _quoted_cells(text, delimiter, line) if '"' in text else text.split(delimiter)
                    if has_spaces:
                        cells = [cell.strip(" \t") for cell in cells]
                    if decimal_commas and "," in text:
                        cells = [c.replace(",", ".") if _COMMA_NUMBER.fullmatch(c) else c for c in cells]
                yield line, cells, is_plain


def _has_semicolons(text: str) -> bool:
    """Whether semicolons separate the cells of a row: in none of them a comma separates anything."""
    cells = text.split(";")
    return all("," not in cell or _COMMA_NUMBER.fullmatch(cell.strip(" \t")) for cell in cells)


def is_edge_list(path: Path, delimiter: str | None) -> bool:
    """Whether a table is headed as a list of edges; what only looks like one is asked about."""
    rows = list(islice(read_rows(path, delimiter), _LOOKED_AT + 1))
    if len(rows) < 2 or any(len(cells) != 3 for _, cells, _ in rows):
        return False
    (line, heads, _), body = rows[0], rows[1:]
    names = tuple(head.lower() for head in heads)
    if names[:2] in _ENDS and names[2] in _DISTANCES:
        return True
    if names[:2] in _ENDS and names[2] in _AMBIGUOUS:
        said = f"the header {', '.join(heads)} is that of a list of edges{_ASK}"
        raise Fault(f"{said}; weights of a graph must be distances, not similarities", line)
    entries = [cells for _, cells, _ in (rows if parse_number(heads[2]) is not None else body)]
    ends = [cells[:2] for cells in entries]
    whole = all(end.isascii() and end.isdigit() for pair in ends for end in pair)
    if whole and len(entries) > 2 and all(a != b for a, b in ends) and _is_like_a_graph(ends):
        raise Fault(f"the first two of three columns hold row numbers, as in a list of edges{_ASK}", line)
    return False


def _is_like_a_graph(ends: list[list[str]]) -> bool:
    """Whether no pair comes twice, and there are at least as many pairs as vertices, all but one."""
    vertices = {end for pair in ends for end in pair}
    return len({frozenset(pair) for pair in ends}) == len(ends) and len(ends) >= len(vertices) - 1


def next_row(rows: Iterator[Row], what: str) -> Row:
    """The next row of a file that must have one."""
    for row in rows:
        return row
    raise Fault(f"the file holds no {what}")


def _blocks(file: IO[bytes], size: int, encoding: str) -> Iterator[str]:
    """The text in pieces of whole lines, without the line feed that ends each of them."""
    done, line, rest = 0, 1, b""
    # Not beyond the size at the beginning, however fast somebody appends.
    while done < size and (piece := file.read(min(max(_BLOCK_BYTES, len(rest)), size - done))):
        done += len(piece)
        block, feed, rest = (rest + piece).rpartition(b"\n")
        if feed:
            yield _decoded(block, line, encoding)
        line += block.count(b"\n") + len(feed)
        if len(rest) > _MAX_LINE_BYTES:
            raise Fault(f"line longer than {_MAX_LINE_BYTES} bytes", line)
    yield _decoded(rest, line, encoding)


def _decoded(block: bytes, first: int, encoding: str) -> str:
    """Lines from number ``first`` on, without the byte order mark that may open a file."""
    block = block.removesuffix(b"\r")
    found = _CONTROL.search(block)
    if found is not None:
        reason = f"control character {found[0][0]:#04x}: not a text file"
        if found[0] == b"\r":
            reason = "carriage return inside a line; end lines with a line feed"
        elif found[0] == b"\0":
            reason = "NUL byte: not a text file"
        raise Fault(reason, first + block.count(b"\n", 0, found.start()))
    if first == 1 and encoding == "utf-8":
        block = block.removeprefix(b"\xef\xbb\xbf")
    try:
        return block.decode(encoding)
    except UnicodeDecodeError as error:
        at = error.start - block.rfind(b"\n", 0, error.start) - 1
        line = first + block.count(b"\n", 0, error.start)
        raise Fault(f"not UTF-8 text (byte {at} of the line)", line) from error


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
    words: list[str] = []
    values, lines = array("d"), array("q")
    for line, cells, is_plain in rows:
        if len(cells) != n_cells:
            raise Fault(f"expected {n_cells} cells{what}, found {len(cells)}", line)
        if n_words:
            words += cells[:n_words]
            cells = cells[n_words:]
        try:
            if not is_plain:
                raise ValueError
            values.fromlist([*map(float, cells)])
        except ValueError:  # slower, stricter, and it says which cell is at fault
            for at, cell in enumerate(cells, n_words + 1):
                if (value := parse_number(cell)) is None:
                    raise _not_a_number(cell, f"cell {at}{what}", line) from None
                values.append(value)
        lines.append(line)
    columns = [words[k::n_words] for k in range(n_words)]
    return Cells(columns, np.asarray(values).reshape(len(lines), n_cells - n_words), np.asarray(lines))


def parse_number(text: str) -> float | None:
    """The number a cell holds, or None. Python's own extensions (1_000, Arabic digits) are not numbers."""
    if "_" in text or not text.isascii():
        return None
    try:
        return float(text)
    except ValueError:
        return None


def _is_written_number(text: str) -> bool:
    """Whether a cell holds a number in a notation that is not read: 1,000 or 10% or 1d5."""
    is_like_one = len(text) <= _MAX_NUMBER_LENGTH and _WRITTEN_NUMBER.fullmatch(text) is not None
    return is_like_one and parse_number(text) is None


def is_number(text: str) -> bool:
    """Whether a cell holds a number in any notation."""
    return parse_number(text) is not None or _is_written_number(text)


def _not_a_number(text: str, where: str, line: int, hint: str = "") -> Fault:
    said = f"holds {quoted(text)}, not a number" if text else "is empty"
    return Fault(f"{where} {said}" + (f"; {_HINT}{hint}" if _is_written_number(text) else ""), line)


def check_words(words: Sequence[str], file_size: int, where: str = "", lines: AnyArray | None = None) -> None:
    """Refuse words that would blow up as an array and, unless the file calls them names, written numbers."""
    longest = max(words, key=len, default="")
    if 4 * len(words) * len(longest) > max(_FREE_WORD_BYTES, _MAX_WORD_EXPANSION * file_size):
        said = f"{quoted(longest)} of {len(longest)} characters is too long among {len(words)}"
        raise Fault(f"the word {said}; shorten it")
    if lines is not None and all(not word or is_number(word) for word in words):
        for word, line in zip(words, lines, strict=True):
            if _is_written_number(word):
                hint = ", or put 'name' over them if they are names" if where == "cell 1" else ""
                raise _not_a_number(word, where, int(line), hint)


def _check_header(row: Row, hint: str = ", or put # before the line if it is a header") -> None:
    """A row without numbers is a header only if nothing in it may be meant as a number."""
    line, cells, _ = row
    for at, cell in enumerate(cells, 1):
        if _is_written_number(cell) and cells[0].lower() not in _NAME_HEADERS:
            raise _not_a_number(cell, f"cell {at}", line, hint)


def read_table(path: Path, delimiter: str | None, is_named: bool = False) -> Cells:
    """Rows of finite numbers, after a name each if ``is_named``, or if the first entry is not a number.

    A first row without a number is a header, and so are one whose first cell is empty (pandas' index) and
    ``0,1,2`` (its columns).
    """
    rows = read_rows(path, delimiter)
    header = next_row(rows, "rows")
    row: Row | None = header
    heads = header[1]
    if not heads[0] or all(parse_number(cell) is None for cell in heads[is_named:]):
        _check_header(header)
        row = next(rows, None)
    elif not is_named and heads == [*map(str, range(len(heads)))]:
        # What pandas writes over columns without names; unless it might be a row of whole numbers.
        second = next(rows, None)
        if second is not None and (len(heads) > 2 or not all(map(str.isdigit, second[1]))):
            row = second
        elif second is not None:
            rows = chain([second], rows)
    if row is None:
        raise Fault("no number in any row; expected rows of numbers", header[0])
    line, cells, _ = row
    n_names = int(is_named or not heads[0] or parse_number(cells[0]) is None)
    if len(heads) == n_names:
        hint = "not a number (expected commas in .csv, tabs in .tsv)"
        raise Fault(f"cell 1 holds {quoted(cells[0])}, {hint}", line)
    found = read_cells(chain([row], rows), len(heads), n_names)
    bad = ~np.isfinite(found.numbers)
    if bad.any():
        i, j = np.argwhere(bad)[0]
        said = f"cell {j + 1 + n_names} holds {found.numbers[i, j]}; numbers must be finite"
        raise Fault(said, int(found.lines[i]))
    says_names = is_named or (row is not header and heads[0].lower() in _NAME_HEADERS)
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
        header = next_row(rows, "rows")
        line, heads, _ = header
        has_names = heads[0].lower() in _NAME_HEADERS
        numbers = [head for head in heads if parse_number(head) is not None]
        if numbers:
            said = f"holds the number {quoted(numbers[0])}"
            raise Fault(f"the first row must name the columns, but {said}", line)
        if len(set(heads)) < len(heads):
            raise Fault(f"two columns are named {quoted(max(heads, key=heads.count))}", line)
        if "" in heads[1:]:
            raise Fault(f"column {heads.index('', 1) + 1} has no name", line)
        if len(heads) == has_names:
            raise Fault("there are names of rows, but no columns", line)
        _check_header(header, "; the first row must name the columns")
        found, size = read_cells(rows, len(heads), len(heads)), path.stat().st_size
        if not len(found.lines):
            raise Fault("there is a header, but no row below it", line)
        columns = dict(zip(heads, found.words, strict=True))
        names = columns.pop(heads[0]) if has_names else None
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


def read_labels(path: str | os.PathLike[str]) -> AnyArray:
    """Read one label per vertex, shape (n,): numbers, or strings where not every label is a number.

    From .npy, or from the last cell of every row of .csv, .tsv or .txt. There a first row that is no number
    is a header if all others are numbers; words have no header. :class:`InputFileError` for anything else.
    """
    path = Path(path)
    with reading(path):
        lines: AnyArray | None = None
        if path.suffix.lower() == ".npy":
            labels = read_npy(path)
        else:
            rows = read_rows(path, _delimiter(path, "labels", (".npy", *DELIMITERS)))
            first = next_row(rows, "labels")
            words, _, lines = read_cells(chain([first], rows), len(first[1]), len(first[1]))
            cells = words[-1]
            if "" in cells:
                raise Fault("no label in the last cell", int(lines[cells.index("")]))
            if len(cells) > 1 and not is_number(cells[0]) and all(map(is_number, cells[1:])):
                cells, lines = cells[1:], lines[1:]
            labels = _values(cells, lines, path.stat().st_size, "the last cell")
        if labels.ndim == 2 and labels.shape[1] == 1:
            labels = labels[:, 0]
        if labels.ndim != 1 or len(labels) == 0:
            raise Fault(f"expected one label per vertex, got shape {labels.shape}")
        if labels.dtype.kind not in "biufUS":
            raise Fault(f"labels must be numbers or words, got dtype {labels.dtype}")
        check_characters(labels)
        if labels.dtype.kind == "f" and not np.isfinite(labels).all():
            row = int(np.argmin(np.isfinite(labels)))
            said = f"label {labels[row]} of row {row} is neither a number nor a word"
            raise Fault(said, None if lines is None else int(lines[row]))
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
        number = {} if names is None else {name: k for k, name in enumerate(names)}
        line_of: dict[int, int] = {}
        for name, line in zip(found.words[0], found.lines.tolist(), strict=True):
            vertex = number.get(name, -1)
            # No table of all numbers: there may be a hundred million.
            if names is None and _VERTEX.fullmatch(name) and int(name) < n_vertices:
                vertex = int(name)
            if vertex < 0:
                wanted = f"a vertex number from 0 to {n_vertices - 1}" if names is None else "a vertex's name"
                raise Fault(f"expected {wanted}, found {quoted(name)}", line)
            if line_of.setdefault(vertex, line) != line:
                before = line_of[vertex]
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
    twice = [name for row, name in enumerate(names) if row_of[name] != row]
    missing = [name for name in vertex_names if name not in row_of]
    with reading(path):
        if twice:
            raise Fault(f"the name {quoted(twice[0])} occurs in more than one row")
        if missing:
            raise Fault(f"no row is named {quoted(missing[0])}, but a vertex of the graph is")
    return np.array([row_of[name] for name in vertex_names], dtype=np.intp)
