"""Meshes as distance graphs: the corners of every face, joined at their distances. .obj, .off and .ply."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from isoweave._typing import AnyArray, FloatArray, IntArray
from isoweave.io._source import Fault, check_expansion, open_input, quoted
from isoweave.io._text import Row, next_row, parse_number, read_cells, read_rows

# Faces with more corners are joined around only: not all of them lie in one plane.
_MOST_CORNERS = 8
_MAX_HEADER_BYTES = 1 << 16
_PLY_TYPES = {
    **{"char": "i1", "uchar": "u1", "short": "i2", "ushort": "u2", "int": "i4", "uint": "u4"},
    **{"float": "f4", "double": "f8", "int8": "i1", "uint8": "u1", "int16": "i2", "uint16": "u2"},
    **{"int32": "i4", "uint32": "u4", "float32": "f4", "float64": "f8"},
}
_PLY_FORMATS = {"ascii": "", "binary_little_endian": "<", "binary_big_endian": ">"}
_CORNERS = ("vertex_indices", "vertex_index")
MESHES = (".obj", ".off", ".ply")


@dataclass(frozen=True, eq=False)
class Mesh:
    """Vertices in space, float64 (n, 3), and the corners of the triangles of its faces, int32 (m, 3)."""

    vertices: FloatArray
    triangles: IntArray


def read_mesh(path: Path) -> tuple[sp.csr_array, Mesh]:
    """The graph of a mesh: symmetric, the corners of every face joined at their distances; and the mesh."""
    read = {".obj": _read_obj, ".off": _read_off, ".ply": _read_ply}[path.suffix.lower()]
    places, faces = read(path)
    n = len(places)
    if n == 0 or not faces:
        raise Fault(f"the mesh has {n} vertices and {len(faces)} faces; both are needed")
    if not np.isfinite(places).all():
        vertex = int(np.argmin(np.isfinite(places).all(axis=1)))
        raise Fault(f"vertex {vertex} lies at {places[vertex].tolist()}; numbers must be finite")
    groups = list(_by_size(faces, n))
    pairs = np.unique(np.sort(np.concatenate([_pairs(group) for group in groups]), axis=1), axis=0)
    pairs = pairs[pairs[:, 0] < pairs[:, 1]]
    with np.errstate(over="ignore"):
        lengths = np.linalg.norm(places[pairs[:, 0]] - places[pairs[:, 1]], axis=1)
    ends = np.concatenate((pairs, pairs[:, ::-1]))
    graph = sp.csr_array((np.tile(lengths, 2), (ends[:, 0], ends[:, 1])), shape=(n, n))
    # A face of more corners is a fan around its first.
    fans = [group[:, [0, k, k + 1]] for group in groups for k in range(1, group.shape[1] - 1)]
    return graph, Mesh(places, np.concatenate([np.empty((0, 3), np.int64), *fans]).astype(np.int32))


def _by_size(faces: list[AnyArray], n: int) -> Iterator[AnyArray]:
    """Faces of equally many corners together, shape (m, corners), numbers of vertices checked."""
    sizes = np.array([len(face) for face in faces])
    for size in np.unique(sizes):
        group = np.stack([faces[f] for f in np.flatnonzero(sizes == size)]).astype(np.int64)
        bad = np.argwhere((group < 0) | (group >= n))
        if len(bad):
            face = int(np.flatnonzero(sizes == size)[bad[0, 0]])
            raise Fault(f"face {face} has the corner {group[tuple(bad[0])]}, but there are {n} vertices")
        yield group


def _pairs(group: AnyArray) -> AnyArray:
    n = group.shape[1]
    around = [(k, (k + 1) % n) for k in range(n)]
    chosen = list(combinations(range(n), 2)) if n <= _MOST_CORNERS else around
    return np.concatenate([group[:, [a, b]] for a, b in chosen]) if n > 1 else np.empty((0, 2), np.int64)


def _whole(text: str, what: str, line: int) -> int:
    value = parse_number(text)
    if value is None or not abs(value) < 2**31 or value != int(value):
        raise Fault(f"{what} {quoted(text)} is not a whole number of an ordinary size", line)
    return int(value)


def _places(rows: Iterable[Row]) -> FloatArray:
    """Coordinates of vertices: of each row the first three cells."""
    three = ((line, cells[:3], is_plain) for line, cells, is_plain in rows)
    return read_cells(three, 3, what=" (x, y, z)").numbers


def _face(cells: list[str], line: int) -> AnyArray:
    if len(cells) < 2:
        raise Fault(f"expected the corners of a face, found {len(cells)}", line)
    return np.array([_whole(cell, "corner", line) for cell in cells])


def _read_obj(path: Path) -> tuple[FloatArray, list[AnyArray]]:
    """Lines ``v x y z`` and ``f a b c``, counted from 1 or, if negative, back from the last vertex."""
    places: list[Row] = []
    faces: list[AnyArray] = []
    for line, cells, is_plain in read_rows(path, None):
        if cells[0] == "v":
            places.append((line, cells[1:], is_plain))
        elif cells[0] in ("f", "l"):
            corners = _face([cell.split("/")[0] for cell in cells[1:]], line)
            if (corners == 0).any():
                raise Fault("corners are counted from 1, found 0", line)
            faces.append(np.where(corners > 0, corners - 1, corners + len(places)))
    return _places(places), faces


def _read_off(path: Path) -> tuple[FloatArray, list[AnyArray]]:
    """``OFF``, the numbers of vertices and faces, the vertices, and the faces, each after its size."""
    rows = read_rows(path, None)
    line, cells, _ = next_row(rows, "mesh")
    if not cells[0].upper().endswith("OFF"):
        raise Fault(f"expected OFF, found {quoted(cells[0])}", line)
    if len(cells) == 1:
        line, cells, _ = next_row(rows, "numbers of vertices and faces")
    else:
        cells = cells[1:]
    if len(cells) < 2:
        raise Fault("expected the numbers of vertices and faces", line)
    n, m = (_whole(cell, "number", line) for cell in cells[:2])
    places = _places(_take(rows, n, "vertices"))
    return places, [_counted(c, at) for at, c, _ in _take(rows, m, "faces")]


def _take(rows: Iterator[Row], n: int, what: str) -> Iterator[Row]:
    for k in range(n):
        row = next(rows, None)
        if row is None:
            raise Fault(f"{n} {what} are declared, but there are {k}")
        yield row


def _counted(cells: list[str], line: int) -> AnyArray:
    """Corners after their number."""
    n = _whole(cells[0], "number of corners", line)
    if not 2 <= n < len(cells):
        raise Fault(f"expected {n} corners, found {len(cells) - 1}", line)
    return _face(cells[1 : n + 1], line)


def _read_ply(path: Path) -> tuple[FloatArray, list[AnyArray]]:
    """Text or binary; of the vertices x, y and z, of the faces the list of their corners."""
    with open_input(path) as (file, size):
        head = file.read(min(size, _MAX_HEADER_BYTES))
        found = re.search(rb"\nend_header[ \t]*\r?\n", head)
        if not head.startswith(b"ply") or found is None:
            raise Fault("not a .ply file: no header from 'ply' to 'end_header'")
        order, elements = _ply_header(head[: found.start()].decode("latin-1").split("\n")[1:])
        if order == "":
            n_lines = head[: found.end()].count(b"\n")
            return _ply_text(path, n_lines, elements)
        file.seek(found.end())
        body = file.read(size - found.end())
    return _ply_binary(body, order, elements, size)


def _ply_header(lines: list[str]) -> tuple[str, list[tuple[str, int, list[list[str]]]]]:
    """Byte order ("": text), and name, number and properties of every element."""
    order: str | None = None
    elements: list[tuple[str, int, list[list[str]]]] = []
    for line, text in enumerate(lines, 2):
        words = text.split()
        if words[:1] == ["format"] and len(words) > 1 and words[1] in _PLY_FORMATS:
            order = _PLY_FORMATS[words[1]]
        elif words[:1] == ["element"] and len(words) == 3:
            elements.append((words[1], _whole(words[2], "number", line), []))
        elif words[:1] == ["property"] and elements and len(words) in (3, 5):
            kinds = words[2:4] if words[1] == "list" else words[1:2]
            if any(kind not in _PLY_TYPES for kind in kinds):
                raise Fault(f"unknown type in {quoted(text)}", line)
            elements[-1][2].append(words[1:])
        elif words and words[0] not in ("comment", "obj_info"):
            raise Fault(f"cannot read {quoted(text)} of the header", line)
    if order is None:
        raise Fault("the header names no known format")
    return order, elements


def _columns(properties: list[list[str]]) -> list[int]:
    """Where x, y and z stand among the properties of a vertex."""
    names = [p[-1] for p in properties]
    if any(p[0] == "list" for p in properties) or not {"x", "y", "z"} <= set(names):
        raise Fault("vertices must have the properties x, y and z, and no lists")
    return [names.index(axis) for axis in "xyz"]


def _ply_text(path: Path, n_lines: int, elements: Any) -> tuple[FloatArray, list[AnyArray]]:
    rows = (row for row in read_rows(path, None, comment="") if row[0] > n_lines)
    places, faces = np.empty((0, 3)), list[AnyArray]()
    for name, count, properties in elements:
        own = _take(rows, count, f"elements {quoted(name)}")
        if name == "vertex":
            at = _columns(properties)
            places = _places((line, [c[k] for k in at if k < len(c)], plain) for line, c, plain in own)
        elif name == "face":
            faces = [_counted(cells, line) for line, cells, _ in own]
        for _ in own:  # of other elements the rows are passed over
            pass
    return places, faces


def _ply_binary(body: bytes, order: str, elements: Any, size: int) -> tuple[FloatArray, list[AnyArray]]:
    places, offset = np.empty((0, 3)), 0
    faces: list[AnyArray] = []
    for name, count, properties in elements:
        check_expansion(48 * max(count, 0), size, f"{count} elements {quoted(name)}")
        if not any(p[0] == "list" for p in properties):
            kind = np.dtype([(f"{k}", order + _PLY_TYPES[p[0]]) for k, p in enumerate(properties)])
            if count < 0 or offset + count * kind.itemsize > len(body):
                raise Fault(f"{count} elements {quoted(name)} are declared, but the file ends before")
            if name == "vertex":
                rows = np.frombuffer(body, kind, count, offset)
                places = np.column_stack([rows[f"{k}"].astype(np.float64) for k in _columns(properties)])
            offset += count * kind.itemsize
        elif len(properties) == 1 and (name != "face" or properties[0][-1] in _CORNERS):
            offset, lists = _ply_lists(body, offset, count, order, *properties[0][1:3])
            faces = lists if name == "face" else faces
        else:
            raise Fault(f"elements {quoted(name)} with lists beside other properties are not read")
    return places, faces


def _ply_lists(
    body: bytes, offset: int, count: int, order: str, size_type: str, item_type: str
) -> tuple[int, list[AnyArray]]:
    """Lists after their lengths, and where they end."""
    length, item = (np.dtype(order + _PLY_TYPES[name]) for name in (size_type, item_type))
    if length.kind == "f" or item.kind == "f":
        raise Fault("corners of faces must be whole numbers")
    lists: list[AnyArray] = []
    for face in range(count):
        start = offset + length.itemsize
        n = int(np.frombuffer(body, length, 1, offset)[0]) if start <= len(body) else -1
        if n < 2 or start + n * item.itemsize > len(body):
            raise Fault(f"face {face} is damaged, or the file ends before it")
        lists.append(np.frombuffer(body, item, n, start))
        offset = start + n * item.itemsize
    return offset, lists
