"""A store is one file in the safetensors format: 8 bytes of length, a JSON header, the bytes of the arrays.

Written and read by hand: the safetensors package (0.8) takes only names, so that it can neither fill a file
that is locked before it has its name nor read the one we hold a lock on; it copies where we map; and it
writes arrays that are not C-contiguous with their numbers in the wrong places, without an error.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import mmap as mmap_module
import os
import re
import stat
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np

import isoweave
from isoweave._typing import AnyArray

FORMAT, VERSION = "isoweave", "1"
# Plain numbers whose layout is the same everywhere, by safetensors' names.
_DTYPES = {
    **{"BOOL": "|b1", "U8": "|u1", "I8": "|i1", "U16": "<u2", "I16": "<i2", "U32": "<u4", "I32": "<i4"},
    **{"U64": "<u8", "I64": "<i8", "F16": "<f2", "F32": "<f4", "F64": "<f8"},
}
CODES = {dtype: code for code, dtype in _DTYPES.items()}
_METADATA = ("format", "format_version", "isoweave_version", "kind", "sha256", "fortran", "content")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]{0,199}", re.ASCII)
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_UNSIGNED = b"0" * 64
_MAX_HEADER, _MAX_CONTENT, _MAX_ARRAYS, _MAX_DEPTH = 64 << 20, 16 << 20, 10_000, 64
_PIECE_BYTES = 1 << 22


class StoreError(ValueError):
    """A stored file is damaged, of another kind, or of a version that cannot be read.

    ``path`` is the file, ``field`` the part of it that is at fault (or None), ``reason`` what is wrong.
    """

    def __init__(self, path: Path, field: str | None, reason: str) -> None:
        self.path, self.field, self.reason = path, field, reason
        super().__init__(f"{path}: {reason}" if field is None else f"{path}: {field}: {reason}")

    def __reduce__(self) -> tuple[type[StoreError], tuple[Path, str | None, str]]:
        # ValueError would be unpickled from the message alone, which fails in a process pool.
        return type(self), (self.path, self.field, self.reason)


def shown(value: object, length: int = 60) -> str:
    """A value from a file for a message: escaped, and cut short."""
    text = ascii(value)
    return text if len(text) <= length else text[: length - 3] + "..."


@dataclass(frozen=True, eq=False)
class Store:
    """What an open file says it holds; ``table`` has the dtype, shape, order and place of every array."""

    path: Path
    file: io.FileIO
    kind: str
    isoweave_version: str
    content: dict[str, Any]
    table: dict[str, tuple[np.dtype[Any], tuple[int, ...], Literal["C", "F"], int]]
    sha256: str
    digest: Any

    def arrays(self, *, mmap: bool = False) -> dict[str, AnyArray]:
        """All arrays, or maps of them, after every byte of the file has been checked against the checksum."""
        size, memory = os.fstat(self.file.fileno()).st_size, _physical_memory()
        # A file of holes claims any size.
        reason = f"{size:,} bytes, more than the machine's {memory:,}; map the file instead (mmap=True)"
        require(mmap or size <= memory, self.path, "arrays", reason)
        whole = np.empty(0, np.uint8)
        if mmap:
            mapped = mmap_module.mmap(self.file.fileno(), 0, access=mmap_module.ACCESS_READ)
            whole = np.frombuffer(mapped, np.uint8)
        found: dict[str, AnyArray] = {}
        for name, (dtype, shape, order, start) in self.table.items():
            n_bytes = math.prod(shape) * dtype.itemsize
            flat = whole[start : start + n_bytes] if mmap else np.empty(n_bytes, np.uint8)
            self.file.seek(start)
            for at in range(0, n_bytes, _PIECE_BYTES):
                # In pieces, so that each is hashed while it is still in the cache.
                piece = flat[at : at + _PIECE_BYTES].data
                n_read = piece.nbytes if mmap else self.file.readinto(piece)
                require(n_read == piece.nbytes, self.path, f"arrays.{name}", "the file ends early")
                self.digest.update(piece)
            is_right = dtype.kind != "b" or flat.max(initial=0) <= 1
            require(is_right, self.path, f"arrays.{name}", "holds booleans that are neither 0 nor 1")
            array = flat.view(dtype).reshape(shape, order=order)
            found[name] = array if dtype.isnative else array.astype(dtype.newbyteorder("="))
        is_same = self.digest.hexdigest() == self.sha256
        require(is_same, self.path, "sha256", "the file has changed since it was written")
        return found


def _physical_memory() -> float:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not every system tells
        return math.inf


def write_store(
    file: IO[bytes], kind: str, content: Mapping[str, Any], arrays: Mapping[str, AnyArray]
) -> None:
    """Write JSON values and arrays to a file that can be sought; the same contents give the same bytes."""
    text = json.dumps(content, allow_nan=False)
    if len(text) > _MAX_CONTENT or len(arrays) > _MAX_ARRAYS:
        raise ValueError(
            f"{len(text):,} bytes of values and {len(arrays):,} arrays are more than a file may hold, "
            f"{_MAX_CONTENT:,} and {_MAX_ARRAYS:,}; store long lists as arrays."
        )
    # The widest first: then all are aligned without gaps, which the format does not allow.
    names = sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))
    # The format knows rows only; an array in columns is written transposed.
    fortran = [n for n in names if arrays[n].flags.f_contiguous and not arrays[n].flags.c_contiguous]
    values = (FORMAT, VERSION, isoweave.__version__, kind, _UNSIGNED.decode(), json.dumps(fortran), text)
    table: dict[str, Any] = {"__metadata__": dict(zip(_METADATA, values, strict=True))}
    at = 0
    for name in names:
        code, end = CODES[arrays[name].dtype.newbyteorder("<").str], at + arrays[name].nbytes
        table[name] = {"dtype": code, "shape": arrays[name].shape, "data_offsets": [at, end]}
        at = end
    header = json.dumps(table).encode("ascii")
    header += b" " * (-(8 + len(header)) % 64)
    digest = hashlib.sha256(header)
    file.write(len(header).to_bytes(8, "little") + header)
    for name in names:
        rows = arrays[name].T if name in fortran else arrays[name]
        flat = np.ascontiguousarray(rows, dtype=rows.dtype.newbyteorder("<")).reshape(-1).view(np.uint8)
        for start in range(0, len(flat), _PIECE_BYTES):
            piece = flat[start : start + _PIECE_BYTES].data
            file.write(piece)
            digest.update(piece)
    # The checksum stands within what it is the checksum of, which has zeros there.
    file.seek(8 + header.index(_UNSIGNED))
    file.write(digest.hexdigest().encode("ascii"))


def is_store(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins as those of isoweave do."""
    start = json.dumps({"__metadata__": {"format": FORMAT}})[:-2].encode("ascii")
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read(8 + len(start))[8:] == start


def open_store(path: Path, flags: int = os.O_RDONLY) -> io.FileIO:
    """Open an existing regular file; pipes and devices are refused, not waited for."""
    for name in ("O_NONBLOCK", "O_CLOEXEC", "O_BINARY", "O_NOCTTY"):
        flags |= getattr(os, name, 0)
    try:
        fd = os.open(path, flags)
    except FileNotFoundError as error:
        raise StoreError(path, None, "there is no such file") from error
    except OSError as error:
        raise StoreError(path, None, f"cannot be opened: {error.strerror}") from error
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return io.FileIO(fd, "rb")
    os.close(fd)
    raise StoreError(path, None, "is not a regular file")


def read_header(file: io.FileIO, path: Path, kind: str | None = None) -> Store:
    """What an open file says it holds, checked against the size of the file and against itself."""
    size = os.fstat(file.fileno()).st_size
    file.seek(0)
    length = int.from_bytes(file.read(8), "little")
    foreign = "is not a file of isoweave"
    require(2 <= length <= min(size - 8, _MAX_HEADER), path, None, foreign)
    data = file.read(length)
    table = _parsed(path, "header", data, dict)
    metadata = table.pop("__metadata__", None)
    require(isinstance(metadata, dict) and metadata.get("format") == FORMAT, path, None, foreign)
    version, writer = metadata.get("format_version"), metadata.get("isoweave_version")
    reason = (
        f"written in format {shown(version)} by isoweave {shown(writer)}; "
        f"isoweave {isoweave.__version__} reads format {VERSION!r} only"
    )
    require(version == VERSION, path, "format_version", reason)
    for field in _METADATA:
        value = metadata.get(field)
        require(isinstance(value, str), path, field, f"must be text, found {shown(value)}")
    unknown = [field for field in metadata if field not in _METADATA]
    require(not unknown, path, "header", f"unknown field {shown(unknown[:1])}")
    sha256, found_kind = metadata["sha256"], metadata["kind"]
    require(_SHA256.fullmatch(sha256) is not None, path, "sha256", f"{shown(sha256)} is not a checksum")
    require(kind in (None, found_kind), path, "kind", f"must be {kind!r}, found {shown(found_kind)}")
    fortran = [name for name in _parsed(path, "fortran", metadata["fortran"], list) if isinstance(name, str)]
    return Store(
        path=path,
        file=file,
        kind=found_kind,
        isoweave_version=writer,
        content=_parsed(path, "content", metadata["content"], dict),
        table=_places(path, table, 8 + length, size, frozenset(fortran)),
        sha256=sha256,
        digest=hashlib.sha256(data.replace(sha256.encode("ascii"), _UNSIGNED, 1)),
    )


def _places(
    path: Path, table: dict[str, Any], start: int, size: int, fortran: frozenset[str]
) -> dict[str, Any]:
    """Where the arrays are; they must lie one after the other without a gap up to the end of the file."""
    require(len(table) <= _MAX_ARRAYS, path, "arrays", f"{len(table)} arrays, more than {_MAX_ARRAYS}")
    spans = []
    for name, entry in table.items():
        where = f"arrays.{shown(name)[1:-1]}"
        require(_NAME.fullmatch(name) is not None, path, where, "cannot be the name of an array")
        is_whole = isinstance(entry, dict) and set(entry) == {"dtype", "shape", "data_offsets"}
        require(is_whole, path, where, f"must have dtype, shape and data_offsets, found {shown(entry)}")
        code, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
        is_known = isinstance(code, str) and code in _DTYPES
        require(is_known, path, f"{where}.dtype", f"unknown type {shown(code)}")
        # Sizes beside a zero count too: numpy refuses them even though such an array is empty.
        is_shape = are_sizes(shape) and math.prod(max(n, 1) for n in shape) < 1 << 59
        require(is_shape, path, f"{where}.shape", f"{shown(shape)} cannot be a shape")
        dtype = np.dtype(_DTYPES[code])
        n_bytes = math.prod(shape) * dtype.itemsize
        is_span = are_sizes(offsets) and len(offsets) == 2 and offsets[1] - offsets[0] == n_bytes
        require(is_span, path, f"{where}.data_offsets", f"{shown(offsets)} do not hold {n_bytes:,} bytes")
        order = "F" if name in fortran else "C"
        spans.append((*offsets, name, (dtype, tuple(shape), order, start + offsets[0])))
    at = 0
    for first, last, name, _ in sorted(spans, key=lambda span: span[:2]):
        reason = f"begins at byte {first:,} of the data, expected {at:,}"
        require(first == at, path, f"arrays.{name}.data_offsets", reason)
        at = last
    require(start + at == size, path, None, f"has {size:,} bytes, the header says {start + at:,}")
    return {name: place for _, _, name, place in sorted(spans, key=lambda span: span[:2])}


def require(is_so: bool, path: Path, field: str | None, reason: str) -> None:
    """Raise StoreError unless something holds."""
    if not is_so:
        raise StoreError(path, field, reason)


def are_sizes(values: Any) -> bool:
    """Whether JSON can be a shape for numpy."""
    is_short = isinstance(values, list) and len(values) <= 32
    return is_short and all(type(value) is int and 0 <= value < 1 << 62 for value in values)


def _parsed(path: Path, field: str, data: bytes | str, kind: type) -> Any:
    try:
        found = parse_json(data if isinstance(data, bytes) else data.encode("utf-8"))
    except ValueError as error:
        raise StoreError(path, field, str(error)) from error
    require(isinstance(found, kind), path, field, f"must be a {kind.__name__}, found {shown(found)}")
    return found


# A string that is never closed goes on to the end, so that every byte is looked at once.
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)', re.DOTALL)
# What int() and float() take without ever becoming slow.
_MAX_DIGITS = 1000


def parse_json(data: bytes) -> Any:
    """A stranger's JSON: bounded depth, no repeated keys, only numbers JSON has; raises ValueError only."""
    text = np.frombuffer(_STRING.sub(b"", data), dtype=np.uint8)
    rises = np.isin(text, list(b"[{")).astype(np.int64) - np.isin(text, list(b"]}"))
    # Before any parser recurses into them.
    depth = int(np.cumsum(rises).max(initial=0))
    if depth > _MAX_DEPTH:
        raise ValueError(f"nested {depth} levels deep, more than {_MAX_DEPTH}")
    hooks: Any = {
        "object_pairs_hook": _object,
        "parse_constant": _float,
        "parse_float": _float,
        "parse_int": _int,
    }
    try:
        return json.loads(data.decode("utf-8"), **hooks)
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 at byte {error.start}") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at line {error.lineno}, column {error.colno}") from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"key {shown(twice)} is given twice")
    return found


def _int(text: str) -> int:
    if len(text) > _MAX_DIGITS:
        raise ValueError(f"number of {len(text)} digits")
    return int(text)


def _float(text: str) -> float:
    value = float(text) if len(text) <= _MAX_DIGITS else math.inf
    if not math.isfinite(value):
        raise ValueError(f"{text[:30]} is not a JSON number, or is too large")
    return value
