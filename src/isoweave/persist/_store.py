"""A store is one file in the safetensors format: 8 bytes of length, a JSON header, the bytes of the arrays.

Written and read by hand: the safetensors package (0.8) takes only names, not files that are locked, copies
where we map, and writes arrays that are not C-contiguous wrongly. Values are JSON as it is, everything else
``{"$type": ...}``, arrays by name. Decoding makes values of the types named here and of no others.
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
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
import scipy.sparse as sp

import isoweave
from isoweave._files import AnyPath
from isoweave._memory import allowed_memory
from isoweave._stages import check_array, check_indices, check_pointers, checked_graph
from isoweave._typing import AnyArray
from isoweave.graph import NeighborGraph
from isoweave.optimise import StepRecord

FORMAT, VERSION = "isoweave", "1"
# Plain numbers whose layout is the same everywhere, by safetensors' names.
DTYPES = {
    **{"BOOL": "|b1", "U8": "|u1", "I8": "|i1", "U16": "<u2", "I16": "<i2", "U32": "<u4", "I32": "<i4"},
    **{"U64": "<u8", "I64": "<i8", "F16": "<f2", "F32": "<f4", "F64": "<f8"},
}
_CODES = {dtype: code for code, dtype in DTYPES.items()}
_METADATA = ("format", "format_version", "isoweave_version", "kind", "sha256", "fortran", "content")
_UNSIGNED = b"0" * 64
_MAX_HEADER, _MAX_CONTENT, _MAX_ARRAYS, _MAX_DEPTH = 64 << 20, 16 << 20, 10_000, 64
_PIECE_BYTES = 1 << 22
_TYPE, _MAX_NESTED = "$type", 12
_CSR, _GRAPH = ("data", "indices", "indptr"), ("indptr", "indices", "lengths")
# What float() takes without ever becoming slow; int() refuses long numbers itself.
_MAX_DIGITS = 1000


class StoreError(ValueError):
    """A stored file is damaged, of another kind, or of a version that cannot be read.

    ``path`` is the file, ``field`` the part of it that is at fault (or None), ``reason`` what is wrong.
    """

    def __init__(self, path: Path, field: str | None, reason: str) -> None:
        super().__init__(path, field, reason)  # what pickle makes it of again in another process
        self.path, self.field, self.reason = path, field, reason

    def __str__(self) -> str:
        return ": ".join(str(part) for part in self.args if part is not None)


def require(is_so: bool, path: Path, field: str | None, reason: str) -> None:
    """Raise StoreError unless something holds."""
    if not is_so:
        raise StoreError(path, field, reason)


def shown(value: object, length: int = 60) -> str:
    """A value from a file for a message: escaped, and cut short."""
    text = ascii(value)
    return text if len(text) <= length else text[: length - 3] + "..."


def _are_sizes(values: Any) -> bool:
    """Whether JSON can be a shape for numpy."""
    is_short = isinstance(values, list) and len(values) <= 32
    return is_short and all(type(value) is int and 0 <= value < 1 << 62 for value in values)


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

    @classmethod
    @contextmanager
    def open(cls, path: AnyPath, kind: str | None = None) -> Iterator[Store]:
        """The store in a file of this name."""
        path = Path(path)
        with open_store(path) as file:
            yield read_header(file, path, kind)

    def arrays(self, *, mmap: bool = False) -> dict[str, AnyArray]:
        """All arrays, or maps of them, after every byte of the file has been checked against the checksum."""
        size, memory = os.fstat(self.file.fileno()).st_size, allowed_memory().bytes
        # A file of holes claims any size.
        reason = f"{size:,} bytes, more than the machine's {memory:,.0f}; map the file instead (mmap=True)"
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
        code, end = _CODES[arrays[name].dtype.newbyteorder("<").str], at + arrays[name].nbytes
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


def is_store(path: AnyPath) -> bool:
    """Whether a file begins like those of isoweave."""
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
    except OSError as error:
        is_missing = isinstance(error, FileNotFoundError)
        said = "there is no such file" if is_missing else f"cannot be opened: {error.strerror}"
        raise StoreError(path, None, said) from error
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
    reason = f"written in format {shown(version)} by isoweave {shown(writer)}"
    reason += f"; isoweave {isoweave.__version__} reads format {VERSION!r} only"
    require(version == VERSION, path, "format_version", reason)
    for field in _METADATA:
        value = metadata.get(field)
        require(isinstance(value, str), path, field, f"must be text, found {shown(value)}")
    sha256, found_kind = metadata["sha256"], metadata["kind"]
    is_checksum = re.fullmatch("[0-9a-f]{64}", sha256) is not None
    require(is_checksum, path, "sha256", f"{shown(sha256)} is not a checksum")
    require(kind in (None, found_kind), path, "kind", f"must be {kind!r}, found {shown(found_kind)}")
    fortran = {name for name in _parsed(path, "fortran", metadata["fortran"], list) if isinstance(name, str)}
    content = _parsed(path, "content", metadata["content"], dict)
    places = _places(path, table, 8 + length, size, fortran)
    digest = hashlib.sha256(data.replace(sha256.encode("ascii"), _UNSIGNED, 1))
    return Store(path, file, found_kind, writer, content, places, sha256, digest)


def _places(path: Path, table: dict[str, Any], start: int, size: int, fortran: set[str]) -> dict[str, Any]:
    """Where the arrays are; they must lie one after the other without a gap up to the end of the file."""
    require(len(table) <= _MAX_ARRAYS, path, "arrays", f"{len(table)} arrays, more than {_MAX_ARRAYS}")
    spans = []
    for name, entry in table.items():
        where = f"arrays.{shown(name)[1:-1]}"
        is_whole = isinstance(entry, dict) and set(entry) == {"dtype", "shape", "data_offsets"}
        require(is_whole, path, where, f"must have dtype, shape and data_offsets, found {shown(entry)}")
        code, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
        is_known = isinstance(code, str) and code in DTYPES
        require(is_known, path, f"{where}.dtype", f"unknown type {shown(code)}")
        # Sizes beside a zero count too: numpy refuses them even though such an array is empty.
        is_shape = _are_sizes(shape) and math.prod(max(n, 1) for n in shape) < 1 << 59
        require(is_shape, path, f"{where}.shape", f"{shown(shape)} cannot be a shape")
        dtype = np.dtype(DTYPES[code])
        n_bytes = math.prod(shape) * dtype.itemsize
        is_span = _are_sizes(offsets) and len(offsets) == 2 and offsets[1] - offsets[0] == n_bytes
        require(is_span, path, f"{where}.data_offsets", f"{shown(offsets)} do not hold {n_bytes:,} bytes")
        order = "F" if name in fortran else "C"
        spans.append((*offsets, name, (dtype, tuple(shape), order, start + offsets[0])))
    at = 0
    spans.sort(key=lambda span: span[:2])
    for first, last, name, _ in spans:
        reason = f"begins at byte {first:,} of the data, expected {at:,}"
        require(first == at, path, f"arrays.{name}.data_offsets", reason)
        at = last
    require(start + at == size, path, None, f"has {size:,} bytes, the header says {start + at:,}")
    return {name: place for _, _, name, place in spans}


def _parsed(path: Path, field: str, data: bytes | str, kind: type) -> Any:
    """A stranger's JSON: bounded depth, no repeated keys, only numbers JSON has."""
    try:
        hooks: Any = {"object_pairs_hook": _object, "parse_constant": _float, "parse_float": _float}
        found = json.loads(data.decode("utf-8") if isinstance(data, bytes) else data, **hooks)
        level: list[Any] = [[found]]
        for _ in range(_MAX_DEPTH + 1):
            rows = (value.values() if isinstance(value, dict) else value for value in level)
            level = [value for row in rows for value in row if isinstance(value, dict | list)]
        if level:
            raise ValueError(f"nested more than {_MAX_DEPTH} levels deep")
    except (ValueError, RecursionError) as error:
        raise StoreError(path, field, f"not JSON: {error!s:.200}") from error
    require(isinstance(found, kind), path, field, f"must be a {kind.__name__}, found {shown(found)}")
    return found


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    counts = Counter(key for key, _ in pairs)
    if len(counts) != len(pairs):
        raise ValueError(f"key {shown(counts.most_common(1)[0][0])} is given twice")
    return dict(pairs)


def _float(text: str) -> float:
    value = float(text) if len(text) <= _MAX_DIGITS else math.inf
    if not math.isfinite(value):
        raise ValueError(f"{text[:30]} is not a JSON number, or is too large")
    return value


def encode(value: Any, where: str, arrays: dict[str, AnyArray], depth: int = 0) -> Any:
    """JSON for a value, whose arrays are added by name; TypeError with ``where`` if it cannot be stored."""
    if depth > _MAX_NESTED:
        raise ValueError(f"{where} is nested more than {_MAX_NESTED} levels deep.")
    if isinstance(value, str):
        return str(value)
    if value is None or type(value) in (bool, int, float):
        if isinstance(value, float) and not math.isfinite(value):
            return {_TYPE: "float", "value": repr(value)}
        if isinstance(value, int) and value.bit_length() > 2048:
            raise ValueError(f"{where} is an integer of {value.bit_length()} bits, more than 2048.")
        return value
    if type(value) is tuple and value and all(type(item) is StepRecord for item in value):
        table = np.array([astuple(step) for step in value], dtype=np.float64)
        return {_TYPE: "history", "name": _add(table, where, arrays)}
    if type(value) in (list, tuple):
        items = [encode(item, f"{where}.{at}", arrays, depth + 1) for at, item in enumerate(value)]
        return items if type(value) is list else {_TYPE: "tuple", "items": items}
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str) or key == _TYPE:
                raise TypeError(f"{where} has the key {shown(key)}, which cannot be stored.")
        return {key: encode(item, f"{where}.{key}", arrays, depth + 1) for key, item in value.items()}
    if isinstance(value, np.ndarray) and value.dtype.kind in "OU":
        items = value.ravel().tolist()
        others = [item for item in items if not isinstance(item, str)]
        if others:
            reason = f"is an array of objects, {shown(others[0])} among them: it cannot be stored."
            raise TypeError(f"{where} {reason}")
        return {_TYPE: "strings", "shape": list(value.shape), "items": items}
    if isinstance(value, np.ndarray | np.generic):
        kind = "array" if isinstance(value, np.ndarray) else "scalar"
        return {_TYPE: kind, "name": _add(np.asarray(value), where, arrays)}
    if sp.issparse(value):
        name = type(value).__name__
        if name not in ("csr_array", "csr_matrix") or value.ndim != 2:
            raise TypeError(f"{where} is a sparse {name} and cannot be stored; convert it to csr_array.")
        names = [_add(getattr(value, part), f"{where}.{part}", arrays) for part in _CSR]
        return {_TYPE: "sparse", "class": name, "shape": [int(n) for n in value.shape], "names": names}
    if type(value) is NeighborGraph:
        names = [_add(getattr(value, part), f"{where}.{part}", arrays) for part in _GRAPH]
        return {_TYPE: "graph", "names": names}
    kind = "a function" if callable(value) else f"of type {type(value).__name__}"
    raise TypeError(f"{where} is {kind} and cannot be stored: {shown(value)}.")


def _add(value: AnyArray, where: str, arrays: dict[str, AnyArray]) -> str:
    if value.dtype.newbyteorder("<").str not in _CODES:
        raise TypeError(f"{where} is an array of {value.dtype} and cannot be stored.")
    stem = re.sub(r"[^A-Za-z0-9_.-]", "_", where)[:60].lstrip(".-") or "array"
    name, number = stem, 1
    while name in arrays or name == "__metadata__":
        number += 1
        name = f"{stem}-{number}"
    arrays[name] = np.asarray(value)  # a memory map is an array like any other
    return name


def decode(path: Path, arrays: Mapping[str, AnyArray], content: Any) -> Any:
    """The values that were encoded; every array may stand in one place. StoreError says where a fault is."""
    left = dict(arrays)

    def take(name: Any) -> AnyArray:
        if not isinstance(name, str) or name not in left:
            raise ValueError(f"there is no array {shown(name)}, or it is used elsewhere")
        return left.pop(name)

    def made(value: Any, where: str) -> Any:
        try:
            return value_of(value, where)
        except StoreError:
            raise
        except (ValueError, TypeError, OverflowError) as error:
            kind = value[_TYPE] if isinstance(value, dict) else "value"
            raise StoreError(path, where, f"is not a valid {shown(kind)}: {error!s:.300}") from error

    def value_of(value: Any, where: str) -> Any:
        match value:
            case list():
                return [made(item, f"{where}.{at}") for at, item in enumerate(value)]
            case dict() if _TYPE not in value:
                return {k: made(item, f"{where}.{shown(k)[1:-1]}"[:200]) for k, item in value.items()}
            case {"$type": "float", "value": "nan" | "inf" | "-inf" as text}:
                return float(text)
            case {"$type": "tuple", "items": list(items)}:
                return tuple(made(items, where))
            case {"$type": "array", "name": str(name)}:
                return take(name)
            case {"$type": "scalar", "name": str(name)}:
                return check_array("it", take(name), None, ())[()]
            case {"$type": "strings", "shape": list(shape), "items": list(items)}:
                return _strings(shape, items)
            case {"$type": "history", "name": str(name)}:
                return history_from(take(name))
            case {"$type": "graph", "names": [_, _, _] as names}:
                return checked_graph(*map(take, names))
            case {
                "$type": "sparse",
                "class": "csr_array" | "csr_matrix" as name,
                "names": [_, _, _] as names,
            }:
                return _sparse(getattr(sp, name), value.get("shape"), *map(take, names))
            case {"$type": kind}:
                raise StoreError(path, where, f"unknown type {shown(kind)}, or incomplete")
        return value

    return made(content, "content")


def _strings(shape: list[Any], items: list[Any]) -> AnyArray:
    if not _are_sizes(shape) or math.prod(shape) != len(items) or not all(isinstance(i, str) for i in items):
        raise ValueError(f"{len(items)} items are not texts of shape {shown(shape)}")
    # Never in cells of one width, which may take far more memory than the characters.
    made = np.empty(len(items), dtype=object)
    made[:] = items
    return made.reshape(shape)


def history_from(table: AnyArray) -> tuple[StepRecord, ...]:
    numbers = check_array("history", table, (np.float64,), (None, 4))[:, 0]
    if not np.isfinite(numbers).all() or (numbers != np.floor(numbers)).any():
        raise ValueError("history: steps must have whole numbers")
    return tuple(StepRecord(int(row[0]), *row[1:]) for row in table.tolist())


def _sparse(made: Any, shape: Any, data: AnyArray, indices: AnyArray, indptr: AnyArray) -> Any:
    if not _are_sizes(shape) or len(shape) != 2:
        raise ValueError(f"no matrix has the shape {shown(shape)}")
    check_array("data", data, None, (None,))
    check_array("indices", indices, (np.int32, np.int64), data.shape)
    check_pointers(check_array("indptr", indptr, (np.int32, np.int64), (None,)), shape[0], len(data))
    check_indices("indices", indices, shape[1])
    matrix = made((data, indices, indptr), shape=tuple(shape))
    # The constructor narrows indices where it can; what was stored comes back as it was.
    matrix.indices, matrix.indptr = indices, indptr
    return matrix
