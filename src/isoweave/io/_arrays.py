"""Strict reading of .npy and .npz: plain types only, sizes checked before anything is allocated."""

from __future__ import annotations

import math
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from isoweave._typing import AnyArray
from isoweave.io._errors import InputFileError, brief, quoted
from isoweave.io._open import check_expansion, open_input

_MAGIC = b"\x93NUMPY"
_MAX_HEADER_BYTES = 1 << 16
# One entry of the dictionary that is a .npy header. It is never evaluated: evaluating nested brackets can
# exhaust the interpreter's stack.
_HEADER_ENTRY = re.compile(
    r"""\s*(['"])(descr|fortran_order|shape)\1\s*:\s*
    (?:(['"])([^'"\\]*)\3|(True|False)|\(([0-9L,\s]*)\)|(\[.*))\s*(,?)""",
    re.VERBOSE | re.DOTALL,
)
_TYPE = re.compile(r"[<>|=]?([?a-zA-Z])([0-9]{0,9})")
_TYPE_SIZES = {
    "b": (1,),
    "i": (1, 2, 4, 8),
    "u": (1, 2, 4, 8),
    "f": (2, 4, 8, 12, 16),
    "c": (8, 16, 24, 32),
}
_MAX_DIMENSIONS = 32

# Larger arrays are mapped instead of read. A mapped file that another process truncates ends this one with
# SIGBUS, so small arrays, for which it would gain nothing, are read.
_MAP_BYTES = 1 << 30
_CHUNK_BYTES = 1 << 20
_MAX_MEMBERS = 4096
# No stream of deflate expands further (two bits for a match of 258 bytes).
_DEFLATE_LIMIT = 1032


class Readable(Protocol):
    """Anything bytes can be read from."""

    def read(self, size: int, /) -> bytes: ...


@dataclass(frozen=True)
class _Header:
    shape: tuple[int, ...]
    is_fortran: bool
    descr: str
    dtype: np.dtype[Any] | None
    """None: a type that is not read (Python objects, records, dates)."""

    @property
    def count(self) -> int:
        return math.prod(self.shape)


def read_npy(path: Path) -> AnyArray:
    """The array in a .npy file; one larger than 1 GiB is memory-mapped rather than read."""
    with open_input(path) as (file, size):
        header = _read_header(path, file, size, "")
        if header.dtype is None:
            raise InputFileError(path, _unreadable(header))
        if header.count * header.dtype.itemsize > _MAP_BYTES:
            order: Any = "F" if header.is_fortran else "C"
            return np.memmap(file, header.dtype, "r", file.tell(), header.shape, order)
        array = _read_data(path, file, header, "")
        if file.read(1):
            raise InputFileError(path, "the file changed while it was read; try again")
        return array


def read_npz(path: Path) -> dict[str, AnyArray]:
    """Every array of a .npz archive whose dtype is plain (numbers, booleans, strings).

    Arrays of Python objects are left out: reading them would run code from the file. The sizes of all
    arrays together are held against the size of the file before the first is read.
    """
    arrays: dict[str, AnyArray] = {}
    with open_input(path) as (file, size):
        with _stock(path, "not a .npz archive, or a damaged one"):
            archive = zipfile.ZipFile(file)
        with archive:
            members = _check_members(path, archive)
            headers: dict[str, _Header] = {}
            for info in members:
                label = f"array {quoted(_name(info))}: "
                with _stock(path, f"{label}damaged .npz archive"), archive.open(info) as member:
                    headers[info.filename] = _read_header(path, member, info.file_size, label)
            total = sum(h.count * max(h.dtype.itemsize, 8) for h in headers.values() if h.dtype is not None)
            hint = "; numpy.savez (without _compressed) writes files that are as large as their arrays"
            check_expansion(path, total, size, "the arrays of this archive", hint)
            for info in members:
                header = headers[info.filename]
                label = f"array {quoted(_name(info))}: "
                if header.dtype is None:
                    continue
                with _stock(path, f"{label}damaged .npz archive"), archive.open(info) as member:
                    if _read_header(path, member, info.file_size, label) != header:
                        raise InputFileError(path, "the file changed while it was read; try again")
                    arrays[_name(info)] = _read_data(path, member, header, label)
                    if member.read(1):  # at its end zipfile compares checksums
                        raise InputFileError(path, f"{label}there are more data than declared")
    return arrays


def read_npy_stream(path: Path, stream: Readable, n_bytes: int, label: str) -> AnyArray:
    """An array in .npy format that takes the next ``n_bytes`` of a stream; the caller has bounded them."""
    header = _read_header(path, stream, n_bytes, label)
    if header.dtype is None:
        raise InputFileError(path, label + _unreadable(header))
    return _read_data(path, stream, header, label)


def _name(info: zipfile.ZipInfo) -> str:
    return info.filename[: -len(".npy")]


@contextmanager
def _stock(path: Path, what: str) -> Iterator[None]:
    """Errors of zipfile: a damaged archive makes it fail in a dozen ways."""
    try:
        yield
    except (InputFileError, MemoryError):
        raise
    except Exception as error:
        raise InputFileError(path, f"{what} ({brief(error)})") from error


def _check_members(path: Path, archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    """The members that are arrays, once what the archive says about them makes sense."""
    everything = archive.infolist()
    if len(everything) > _MAX_MEMBERS:
        raise InputFileError(path, f"{len(everything)} members; at most {_MAX_MEMBERS} are read")
    end = 0
    for info in sorted(everything, key=lambda info: info.header_offset):
        if info.header_offset < end:
            raise InputFileError(
                path, f"member {quoted(info.filename)} overlaps the one before it", offset=info.header_offset
            )
        # The local header has 30 bytes and at least the name; its extra field is not known here.
        end = info.header_offset + 30 + len(info.filename) + info.compress_size
    if end > archive.start_dir:
        raise InputFileError(path, f"members end at byte {end}, in the archive's directory", offset=end)
    members = [info for info in everything if info.filename.endswith(".npy")]
    seen: set[str] = set()
    for info in members:
        fault = _member_fault(info)
        if info.filename in seen:
            fault = "there are two of that name"
        if fault:
            raise InputFileError(path, f"array {quoted(_name(info))}: {fault}", offset=info.header_offset)
        seen.add(info.filename)
    return members


def _member_fault(info: zipfile.ZipInfo) -> str:
    if info.flag_bits & 0x1:
        return "it is encrypted"
    if info.compress_type == zipfile.ZIP_STORED:
        return "" if info.file_size == info.compress_size else "it is stored, but its two sizes differ"
    if info.compress_type != zipfile.ZIP_DEFLATED:
        return f"compression method {info.compress_type} is not read; numpy writes only stored and deflated"
    if info.file_size > _DEFLATE_LIMIT * (info.compress_size + 1):
        return f"{info.compress_size} compressed bytes cannot become the {info.file_size} declared"
    return ""


def _read_header(path: Path, file: Readable, n_bytes: int, label: str) -> _Header:
    """Shape, order and type of an array, once its data is known to be all there."""
    start = file.read(12)
    version = tuple(start[6:8])
    if not start.startswith(_MAGIC) or len(start) < 12:
        raise InputFileError(path, f"{label}not a .npy array, or a damaged header")
    if version not in ((1, 0), (2, 0)):
        # Version 3 exists for structured arrays with Unicode field names, which hold no features.
        raise InputFileError(path, f"{label}.npy format version {version} is not supported", offset=6)
    first = 10 if version == (1, 0) else 12
    length = int.from_bytes(start[8:first], "little")
    if length > _MAX_HEADER_BYTES:
        raise InputFileError(path, f"{label}a header of {length} bytes is refused", offset=8)
    text = start[first:] + file.read(max(0, length - (12 - first)))
    if len(text) < length:
        raise InputFileError(path, f"{label}not a .npy array, or a damaged header: it is cut short")
    header = _parse_header(path, text[:length].decode("latin-1"), label)
    if header.dtype is None:
        return header
    expected = header.count * header.dtype.itemsize
    found = n_bytes - first - length
    if expected != found:
        raise InputFileError(
            path,
            f"{label}shape {header.shape} of {header.dtype} needs {expected} bytes of data, the file has "
            f"{found}",
        )
    return header


def _parse_header(path: Path, text: str, label: str) -> _Header:
    damaged = f"{label}not a .npy array, or a damaged header: "
    body = text.strip()
    entries: dict[str, str] = {}
    if not (body.startswith("{") and body.endswith("}")):
        raise InputFileError(path, f"{damaged}{quoted(body)}")
    position, end = 1, len(body) - 1
    while position < end and body[position:end].strip():
        match = _HEADER_ENTRY.match(body, position, end)
        if match is None or match[2] in entries:
            raise InputFileError(path, f"{damaged}{quoted(body[position:])}")
        key = match[2]
        kind = {"descr": 4, "fortran_order": 5, "shape": 6}[key]
        if key == "descr" and match[7] is not None:
            raise InputFileError(path, f"{label}structured arrays are not read; save plain numbers")
        if match[kind] is None or (not match[8] and body[match.end() : end].strip()):
            raise InputFileError(path, f"{damaged}{quoted(body[position:])}")
        entries[key] = match[kind]
        position = match.end()
    if len(entries) != 3:
        raise InputFileError(
            path, f"{damaged}it needs descr, fortran_order and shape, and has {len(entries)}"
        )
    dtype = _parse_type(entries["descr"])
    shape = _parse_shape(entries["shape"])
    if shape is None:
        raise InputFileError(path, f"{damaged}shape {quoted(entries['shape'])}")
    # Empty arrays too: numpy multiplies the sizes that are not zero.
    itemsize = 1 if dtype is None else dtype.itemsize
    if math.prod(size for size in shape if size) * itemsize >= 1 << 62:
        raise InputFileError(path, f"{label}an array of shape {shape} is refused")
    return _Header(shape, entries["fortran_order"] == "True", entries["descr"], dtype)


def _parse_shape(text: str) -> tuple[int, ...] | None:
    sizes = [size.strip().removesuffix("L") for size in text.split(",")]  # Python 2 wrote 3L
    if sizes[-1] == "":
        sizes.pop()
    elif len(sizes) == 1:
        return None
    if len(sizes) > _MAX_DIMENSIONS or not all(re.fullmatch("[0-9]{1,18}", size) for size in sizes):
        return None
    return tuple(int(size) for size in sizes)


def _parse_type(descr: str) -> np.dtype[Any] | None:
    """The type a header names, None unless it is of numbers, booleans or text."""
    match = _TYPE.fullmatch(descr)
    if match is None:
        return None
    kind, size = match[1], int(match[2] or 0)
    if kind == "?" and not size:
        return np.dtype(np.bool_)
    # Text of width 0 would let an empty file hold any number of words.
    is_text = kind in "SU" and 0 < size < 1 << 28
    if not is_text and size not in _TYPE_SIZES.get(kind, ()):
        return None
    try:
        return np.dtype(descr)
    except TypeError:  # extended precision that this machine does not have
        return None


def _unreadable(header: _Header) -> str:
    if header.descr.lstrip("|<>=").startswith("O"):
        return "the array holds Python objects (dtype object); save it as numbers"
    return f"arrays of type {quoted(header.descr)} are not read; save it as numbers"


def _read_data(path: Path, file: Readable, header: _Header, label: str) -> AnyArray:
    assert header.dtype is not None
    flat: AnyArray = np.empty(header.count, dtype=header.dtype)
    target = memoryview(flat.view(np.uint8))  # type: ignore[arg-type]
    done = 0
    # In pieces: a file that is shorter than it says never fills what was set aside for it.
    while done < len(target):
        piece = file.read(min(_CHUNK_BYTES, len(target) - done))
        if not piece:
            raise InputFileError(path, f"{label}{len(target) - done} bytes of data are missing")
        target[done : done + len(piece)] = piece
        done += len(piece)
    if flat.dtype.kind == "b":
        # A byte that is neither 0 nor 1 makes a boolean that is neither true nor false to numpy.
        flat = flat.view(np.uint8) != 0
    if header.is_fortran:
        return flat.reshape(header.shape[::-1]).T
    return flat.reshape(header.shape)
