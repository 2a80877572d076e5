"""Distance graphs in GraphML: an attribute of every edge is its length. No entities, no other files."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.parsers import expat

import numpy as np
import scipy.sparse as sp

from isoweave.io._source import Fault, check_expansion, open_input, quoted
from isoweave.io._sparse import symmetric_from_edges
from isoweave.io._text import check_words, parse_number

# In this order, of those that are there; a weight may be a similarity, and has to be asked for.
_LENGTHS = ("length", "distance", "dist", "d")
_WEIGHT = "weight"
_BLOCK = 1 << 20
# A vertex or edge as Python holds it, at most this many times as large as its text.
_BYTES_PER_ITEM = 400


class _Reader:
    """What has been met so far: keys of edges by their names, vertices, ends and attributes of edges."""

    def __init__(self, file_size: int) -> None:
        self.keys: dict[str, str] = {}
        self.names: dict[str, int] = {}
        self.ends: list[tuple[int, int]] = []
        self.lines: list[int] = []
        self.values: list[dict[str, str]] = []
        self._size, self._key, self._in_edge = file_size, "", False
        self.parser = expat.ParserCreate(namespace_separator=" ")
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text
        self.parser.StartDoctypeDeclHandler = self._refuse

    def _refuse(self, *_: Any) -> None:
        raise Fault("a document type is declared, which GraphML does not need", self.parser.CurrentLineNumber)

    def _vertex(self, attributes: dict[str, str], name: str) -> int:
        if not attributes.get(name):
            raise Fault(f"no {name!r} where one is needed", self.parser.CurrentLineNumber)
        return self.names.setdefault(attributes[name], len(self.names))

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        kind = tag.rpartition(" ")[2]
        if kind == "key" and attributes.get("for") in ("edge", "all"):
            self.keys[attributes.get("attr.name", "").lower()] = attributes.get("id", "")
        elif kind == "node":
            self._vertex(attributes, "id")
        elif kind == "edge":
            self.ends.append((self._vertex(attributes, "source"), self._vertex(attributes, "target")))
            self.lines.append(self.parser.CurrentLineNumber)
            self.values.append({})
            self._in_edge = True
        elif kind == "data" and self._in_edge:
            self._key = attributes.get("key", "")
        items = len(self.names) + len(self.ends)
        if items % 65536 == 0:
            check_expansion(_BYTES_PER_ITEM * items, self._size, f"{items} vertices and edges")

    def _end(self, tag: str) -> None:
        kind = tag.rpartition(" ")[2]
        self._key = ""
        self._in_edge = self._in_edge and kind != "edge"

    def _text(self, text: str) -> None:
        if self._in_edge and self._key:
            self.values[-1][self._key] = self.values[-1].get(self._key, "") + text


def read_graphml(path: Path, as_graph: bool | None) -> tuple[sp.csr_array, tuple[str, ...]]:
    """The graph of a .graphml file and the names of its vertices.

    The attribute ``length``, ``distance``, ``dist`` or ``d`` of every edge is its length; ``weight`` is taken
    if it is said to be one (``as_graph``).
    """
    with open_input(path) as (file, size):
        reader = _Reader(size)
        try:
            while block := file.read(_BLOCK):
                reader.parser.Parse(block, False)
            reader.parser.Parse(b"", True)
        except expat.ExpatError as error:
            raise Fault(f"damaged XML: {expat.ErrorString(error.code)}", error.lineno) from error
    if not reader.ends:
        raise Fault("there are no edges; expected a GraphML file")
    wanted = next((name for name in (*_LENGTHS, _WEIGHT) if name in reader.keys), None)
    if wanted == _WEIGHT and not as_graph:
        raise Fault("edges have weights, which may be similarities; --graph reads them as lengths")
    if wanted is None:
        known = ", ".join(sorted(filter(None, reader.keys))) or "none"
        raise Fault(f"edges have no attribute {', '.join(_LENGTHS)} or weight; they have {known}")
    lengths = np.empty(len(reader.ends))
    for k, found in enumerate(reader.values):
        text = found.get(reader.keys[wanted], "").strip()
        value = parse_number(text)
        if value is None:
            said = f"is {quoted(text)}, not a number" if text else "is missing"
            raise Fault(f"the {wanted} of an edge {said}", reader.lines[k])
        lengths[k] = value
    names, lines = tuple(reader.names), np.array(reader.lines)
    check_words(names, size)
    return symmetric_from_edges(np.array(reader.ends), lengths, len(names), lines), names
