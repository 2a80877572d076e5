"""Strict reading of .npy and .npz: plain types only, sizes checked before anything is allocated."""

from __future__ import annotations

import math
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from isoweave._typing import AnyArray
from isoweave.io._source import Fault, brief, check_expansion, open_input, quoted, within

_MAX_HEADER_BYTES = 1 << 16
# A .npy header as every writer has it. It is never evaluated: nested brackets can exhaust the stack.
_HEADER = re.compile(
    r"""\s*\{\s*(['"])descr\1\s*:\s*(['"])([^'"\\]*)\2\s*,\s*(['"])fortran_order\4\s*:\s*(True|False)\s*,
    \s*(['"])shape\6\s*:\s*\(([0-9,\s]*)\)\s*,?\s*\}\s*""",
    re.VERBOSE,
)
_TYPE = re.compile(r"[<>|=]?(?:[biufcSU][0-9]{1,9}|\?)")
# Up to 32 sizes; a single one is followed by a comma.
_SHAPE = re.compile(r"(\s*[0-9]{1,18}\s*,){0,31}(\s*[0-9]{1,18}\s*,?)?\s*")

_CHUNK_BYTES = 1 << 20
_MAX_MEMBERS = 4096


class _Header(NamedTuple):
    shape: tuple[int, ...]
    is_fortran: bool
    descr: str
    dtype: np.dtype[Any] | None  # None: a type that is not read (Python objects, records, dates)

    def n_bytes(self, at_least: int = 1) -> int:
        return 0 if self.dtype is None else math.prod(self.shape) * max(at_least, self.dtype.itemsize)


def read_npy(path: Path) -> AnyArray:
    """The array in a .npy file."""
    with open_input(path) as (file, size):
        return _read_data(file, _read_header(file, size))


def read_npz(path: Path) -> dict[str, AnyArray]:
    """Every array of a .npz archive whose dtype is plain (numbers, booleans, strings)."""
    with open_input(path) as (file, size):
        return read_archive(file, size)


def read_archive(file: IO[bytes], size: int) -> dict[str, AnyArray]:
    """The arrays of an open archive, which may become as large as those of a file of ``size`` bytes.

    Arrays of Python objects are left out: reading them would run code from the file.
    """
    arrays: dict[str, AnyArray] = {}
    total, seen = 0, set()
    with _stock("not a .npz archive, or a damaged one"):
        archive = zipfile.ZipFile(file)
    with archive:
        members = archive.infolist()
        if len(members) > _MAX_MEMBERS:
            raise Fault(f"{len(members)} members; at most {_MAX_MEMBERS} are allowed")
        for info in members:
            name = info.filename.removesuffix(".npy")
            if name == info.filename:
                continue
            with within(name), _stock("damaged .npz archive"):
                if name in seen:
                    raise Fault("there are two of that name", offset=info.header_offset)
                seen.add(name)
                _check_member(archive, info)
                with archive.open(info) as stream:
                    header = _read_header(stream, info.file_size)
                    total += header.n_bytes(at_least=8)  # numbers become float64 sooner or later
                    hint = "; numpy.savez (without _compressed) writes files as large as their arrays"
                    check_expansion(total, size, "the arrays of this archive", hint)
                    if header.dtype is not None:
                        arrays[name] = _read_data(stream, header)
    return arrays


@contextmanager
def _stock(what: str) -> Iterator[None]:
    """Errors of zipfile: a damaged archive makes it fail in a dozen ways."""
    try:
        yield
    except (Fault, MemoryError):
        raise
    except Exception as error:
        raise Fault(f"{what} ({brief(error)})") from error


def _check_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> None:
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        # Others expand without bound, and numpy never writes them.
        raise Fault(f"compression method {info.compress_type} is not supported", offset=info.header_offset)
    if info.header_offset + info.compress_size > archive.start_dir:
        raise Fault("it reaches into the archive's directory", offset=info.header_offset)


def _read_header(file: IO[bytes], n_bytes: int) -> _Header:
    """Shape, order and type of an array, once its data is known to be all there."""
    damaged = "not a .npy array, or a damaged header"
    start = file.read(12)
    version = tuple(start[6:8])
    if not start.startswith(b"\x93NUMPY") or len(start) < 12:
        raise Fault(damaged)
    if version not in ((1, 0), (2, 0)):
        # Version 3 exists for structured arrays with Unicode field names, which hold no features.
        raise Fault(f".npy format version {version} is not supported", offset=6)
    first = 10 if version == (1, 0) else 12
    length = int.from_bytes(start[8:first], "little")
    if length > _MAX_HEADER_BYTES:
        raise Fault(f"a header of {length} bytes is refused", offset=8)
    raw = start[first:] + file.read(max(0, length - (12 - first)))
    text = raw[:length].decode("latin-1")
    match = _HEADER.fullmatch(text)
    if len(raw) < length:
        raise Fault(f"{damaged}: it is cut short")
    if match is None and re.match(r"\s*\{\s*'descr'\s*:\s*\[", text):
        raise Fault("structured arrays are not supported; save plain numbers")
    if match is None:
        raise Fault(f"{damaged}: {quoted(text.strip())}")
    descr, order, sizes = match[3], match[5], match[7]
    if not _SHAPE.fullmatch(sizes) or sizes.strip().isdigit():
        raise Fault(f"{damaged}: shape {quoted(sizes)}")
    shape = tuple(int(size) for size in sizes.split(",") if size.strip())
    header = _Header(shape, order == "True", descr, _parse_type(descr))
    # Empty arrays too: numpy multiplies the sizes that are not zero.
    if header._replace(shape=tuple(filter(None, shape))).n_bytes() >= 1 << 62:
        raise Fault(f"an array of shape {shape} is refused")
    found = n_bytes - first - length
    if header.dtype is not None and found != header.n_bytes():
        needs = f"shape {shape} of {header.dtype} needs {header.n_bytes()} bytes of data"
        raise Fault(f"{needs}, the file has {found}")
    return header


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


def _read_data(file: IO[bytes], header: _Header) -> AnyArray:
    if header.dtype is None:
        what = f"arrays of type {quoted(header.descr)} are not supported"
        if header.descr.lstrip("|<>=").startswith("O"):
            what = "the array holds Python objects (dtype object)"
        raise Fault(f"{what}; save it as numbers")
    flat: AnyArray = np.empty(math.prod(header.shape), dtype=header.dtype)
    target = memoryview(flat.view(np.uint8))  # type: ignore[arg-type]
    done = 0
    # In pieces: a file that is shorter than it says never fills what was set aside for it.
    while done < len(target):
        piece = file.read(min(_CHUNK_BYTES, len(target) - done))
        if not piece:
            raise Fault(f"{len(target) - done} bytes of data are missing")
        target[done : done + len(piece)] = piece
        done += len(piece)
    if file.read(1):  # at the end of an array zipfile compares checksums
        raise Fault("there is more data than declared")
    if flat.dtype.kind == "b":
        # A byte that is neither 0 nor 1 makes a boolean that is neither true nor false to numpy.
        flat = flat.view(np.uint8) != 0
    return flat.reshape(header.shape, order="F" if header.is_fortran else "C")
