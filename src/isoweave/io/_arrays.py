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
# A .npy header as every writer has it. It is never evaluated: nested brackets can exhaust the stack.
_HEADER = re.compile(
    r"""\s*\{\s*(['"])descr\1\s*:\s*(['"])([^'"\\]*)\2\s*,\s*(['"])fortran_order\4\s*:\s*(True|False)\s*,
    \s*(['"])shape\6\s*:\s*\(([0-9L,\s]*)\)\s*,?\s*\}\s*""",
    re.VERBOSE,
)
_TYPE = re.compile(r"[<>|=]?(?:[biufcSU][0-9]{1,9}|\?)")
_MAX_DIMENSIONS = 32

# Larger arrays are mapped instead of read. A mapped file that another process truncates ends this one with
# SIGBUS, so small arrays, for which it would gain nothing, are read.
_MAP_BYTES = 1 << 30
_CHUNK_BYTES = 1 << 20
_MAX_MEMBERS = 4096


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
            mapped: Any = np.memmap
            order = "F" if header.is_fortran else "C"
            return mapped(file, header.dtype, "r", file.tell(), header.shape, order)  # type: ignore[no-any-return]
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
        members = _members(path, archive)
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
                    raise InputFileError(path, f"{label}there is more data than declared")
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


def _members(path: Path, archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """The members that are arrays, once what the archive says about them makes sense."""
    everything = archive.infolist()
    if len(everything) > _MAX_MEMBERS:
        raise InputFileError(path, f"{len(everything)} members; at most {_MAX_MEMBERS} are allowed")
    members: dict[str, zipfile.ZipInfo] = {}
    for info in everything:
        if not info.filename.endswith(".npy"):
            continue
        name, fault = info.filename[: -len(".npy")], ""
        if name in members:
            fault = "there are two of that name"
        elif info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            # Others expand without bound, and numpy never writes them.
            fault = f"compression method {info.compress_type} is not supported"
        elif info.header_offset + info.compress_size > archive.start_dir:
            fault = "it reaches into the archive's directory"
        if fault:
            raise InputFileError(path, f"array {quoted(name)}: {fault}", offset=info.header_offset)
        members[name] = info
    return members


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
    match = _HEADER.fullmatch(text)
    if match is None:
        if re.match(r"\s*\{\s*'descr'\s*:\s*\[", text):
            raise InputFileError(path, f"{label}structured arrays are not supported; save plain numbers")
        raise InputFileError(path, f"{damaged}: {quoted(text.strip())}")
    descr, order, sizes = match[3], match[5], match[7]
    dtype, shape = _parse_type(descr), _parse_shape(sizes)
    if shape is None:
        raise InputFileError(path, f"{damaged}: shape {quoted(sizes)}")
    # Empty arrays too: numpy multiplies the sizes that are not zero.
    itemsize = 1 if dtype is None else dtype.itemsize
    if math.prod(size for size in shape if size) * itemsize >= 1 << 62:
        raise InputFileError(path, f"{label}an array of shape {shape} is refused")
    return _Header(shape, order == "True", descr, dtype)


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
        what = f"arrays of type {quoted(header.descr)} are not supported"
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
