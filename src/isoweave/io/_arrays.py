"""Strict reading of .npy and .npz: plain types only, sizes checked before anything is allocated."""

from __future__ import annotations

import math
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from isoweave._typing import AnyArray
from isoweave.io._source import InputFileError, brief, changed, check_expansion, open_input, quoted

_MAX_HEADER_BYTES = 1 << 16
# One entry of the dictionary that is a .npy header. It is never evaluated: evaluating nested brackets can
# exhaust the interpreter's stack.
_HEADER_ENTRY = re.compile(
    r"""\s*(['"])(descr|fortran_order|shape)\1\s*:\s*
    (?:(['"])([^'"\\]*)\3|(True|False)|\(([0-9L,\s]*)\)|(\[.*))\s*(?:,|\Z)""",
    re.VERBOSE | re.DOTALL,
)
_ENTRY_GROUPS = {"descr": 4, "fortran_order": 5, "shape": 6}
_TYPE = re.compile(r"[<>|=]?(?:[biufcSU][0-9]{1,9}|\?)")
_MAX_DIMENSIONS = 32

# Larger arrays are mapped instead of read. A mapped file that another process truncates ends this one with
# SIGBUS, so small arrays, for which it would gain nothing, are read.
_MAP_BYTES = 1 << 30
_CHUNK_BYTES = 1 << 20
_MAX_MEMBERS = 4096
# No stream of deflate expands further (two bits for a match of 258 bytes).
_DEFLATE_LIMIT = 1032


@dataclass(frozen=True)
class _Header:
    shape: tuple[int, ...]
    is_fortran: bool
    descr: str
    dtype: np.dtype[Any] | None
    """None: a type that is not read (Python objects, records, dates)."""

    @property
    def n_bytes(self) -> int:
        return math.prod(self.shape) * (0 if self.dtype is None else self.dtype.itemsize)

    @property
    def float64_bytes(self) -> int:
        """Numbers become float64 sooner or later."""
        return 0 if self.dtype is None else math.prod(self.shape) * max(8, self.dtype.itemsize)


def read_npy(path: Path) -> AnyArray:
    """The array in a .npy file; one larger than 1 GiB is memory-mapped rather than read."""
    with open_input(path) as (file, size):
        header = _read_header(path, file, size, "")
        if header.n_bytes > _MAP_BYTES:
            order: Any = "F" if header.is_fortran else "C"
            return np.memmap(file, header.dtype, "r", file.tell(), header.shape, order)
        array = _read_data(path, file, header, "")
        if file.read(1):
            raise changed(path)
        return array


def read_npz(path: Path) -> dict[str, AnyArray]:
    """Every array of a .npz archive whose dtype is plain (numbers, booleans, strings).

    Arrays of Python objects are left out: reading them would run code from the file. The sizes of all
    arrays together are held against the size of the file before the first is read.
    """
    with open_input(path) as (file, size):
        return read_archive(path, file, size)


def read_archive(path: Path, file: IO[bytes], size: int) -> dict[str, AnyArray]:
    """The same from an open file, whose arrays may become as large as those of a file of ``size`` bytes."""
    arrays: dict[str, AnyArray] = {}
    with _stock(path, "not a .npz archive, or a damaged one"):
        archive = zipfile.ZipFile(file)
    with archive:
        members = {info.filename[: -len(".npy")]: info for info in _members(path, archive)}
        headers: dict[str, _Header] = {}
        for name, info in members.items():
            with _member(path, archive, info, name) as (stream, label):
                headers[name] = _read_header(path, stream, info.file_size, label)
        hint = "; numpy.savez (without _compressed) writes files that are as large as their arrays"
        total = sum(header.float64_bytes for header in headers.values())
        check_expansion(path, total, size, "the arrays of this archive", hint)
        for name, header in headers.items():
            if header.dtype is None:
                continue
            with _member(path, archive, members[name], name) as (stream, label):
                if _read_header(path, stream, members[name].file_size, label) != header:
                    raise changed(path)
                arrays[name] = _read_data(path, stream, header, label)
                if stream.read(1):  # at its end zipfile compares checksums
                    raise InputFileError(path, f"{label}there are more data than declared")
    return arrays


@contextmanager
def _stock(path: Path, what: str) -> Iterator[None]:
    """Errors of zipfile: a damaged archive makes it fail in a dozen ways."""
    try:
        yield
    except (InputFileError, MemoryError):
        raise
    except Exception as error:
        raise InputFileError(path, f"{what} ({brief(error)})") from error


@contextmanager
def _member(
    path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str
) -> Iterator[tuple[Any, str]]:
    label = f"array {quoted(name)}: "
    with _stock(path, f"{label}damaged .npz archive"), archive.open(info) as stream:
        yield stream, label


def _members(path: Path, archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    """The members that are arrays, once what the archive says about them makes sense."""
    everything = archive.infolist()
    if len(everything) > _MAX_MEMBERS:
        raise InputFileError(path, f"{len(everything)} members; at most {_MAX_MEMBERS} are read")
    end = 0
    for info in sorted(everything, key=lambda info: info.header_offset):
        if info.header_offset < end:
            what = f"member {quoted(info.filename)} overlaps the one before it"
            raise InputFileError(path, what, offset=info.header_offset)
        # The local header has 30 bytes and at least the name; its extra field is not known here.
        end = info.header_offset + 30 + len(info.filename) + info.compress_size
    if end > archive.start_dir:
        raise InputFileError(path, f"members end at byte {end}, in the archive's directory", offset=end)
    members = [info for info in everything if info.filename.endswith(".npy")]
    seen: set[str] = set()
    for info in members:
        fault = "there are two of that name" if info.filename in seen else _member_fault(info)
        if fault:
            name = quoted(info.filename[: -len(".npy")])
            raise InputFileError(path, f"array {name}: {fault}", offset=info.header_offset)
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


def _read_header(path: Path, file: IO[bytes], n_bytes: int, label: str) -> _Header:
    """Shape, order and type of an array, once its data is known to be all there."""
    damaged = f"{label}not a .npy array, or a damaged header"
    start = file.read(12)
    version = tuple(start[6:8])
    if not start.startswith(b"\x93NUMPY") or len(start) < 12:
        raise InputFileError(path, damaged)
    if version not in ((1, 0), (2, 0)):
        # Version 3 exists for structured arrays with Unicode field names, which hold no features.
        raise InputFileError(path, f"{label}.npy format version {version} is not supported", offset=6)
    first = 10 if version == (1, 0) else 12
    length = int.from_bytes(start[8:first], "little")
    if length > _MAX_HEADER_BYTES:
        raise InputFileError(path, f"{label}a header of {length} bytes is refused", offset=8)
    text = start[first:] + file.read(max(0, length - (12 - first)))
    if len(text) < length:
        raise InputFileError(path, f"{damaged}: it is cut short")
    header = _parse_header(path, text[:length].decode("latin-1"), label, damaged)
    found = n_bytes - first - length
    if header.dtype is not None and found != header.n_bytes:
        needs = f"shape {header.shape} of {header.dtype} needs {header.n_bytes} bytes of data"
        raise InputFileError(path, f"{label}{needs}, the file has {found}")
    return header


def _parse_header(path: Path, text: str, label: str, damaged: str) -> _Header:
    body = text.strip()
    if not (body.startswith("{") and body.endswith("}")):
        raise InputFileError(path, f"{damaged}: {quoted(body)}")
    inner, at = body[1:-1].strip(), 0
    entries: dict[str, str] = {}
    while at < len(inner):
        match = _HEADER_ENTRY.match(inner, at)
        if match is not None and match[2] == "descr" and match[7] is not None:
            raise InputFileError(path, f"{label}structured arrays are not read; save plain numbers")
        value = None if match is None else match[_ENTRY_GROUPS[match[2]]]
        if match is None or value is None or match[2] in entries:
            raise InputFileError(path, f"{damaged}: {quoted(inner[at:])}")
        entries[match[2]] = value
        at = match.end()
    if len(entries) != 3:
        needs = "it needs descr, fortran_order and shape"
        raise InputFileError(path, f"{damaged}: {needs}, and has {len(entries)}")
    dtype = _parse_type(entries["descr"])
    shape = _parse_shape(entries["shape"])
    if shape is None:
        raise InputFileError(path, f"{damaged}: shape {quoted(entries['shape'])}")
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
    if _TYPE.fullmatch(descr) is None:
        return None
    try:
        dtype: np.dtype[Any] = np.dtype(descr)
    except (TypeError, ValueError):  # no such size, or precision that this machine does not have
        return None
    # Text of width 0 would let an empty file hold any number of words.
    return dtype if 0 < dtype.itemsize < 1 << 30 else None


def _read_data(path: Path, file: IO[bytes], header: _Header, label: str) -> AnyArray:
    if header.dtype is None:
        what = f"arrays of type {quoted(header.descr)} are not read"
        if header.descr.lstrip("|<>=").startswith("O"):
            what = "the array holds Python objects (dtype object)"
        raise InputFileError(path, f"{label}{what}; save it as numbers")
    flat: AnyArray = np.empty(math.prod(header.shape), dtype=header.dtype)
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
