"""Files that may be hostile: the one error about them, how they are opened, sizes allowed; .npy and .npz.

Readers are written by hand because the stock ones measured worse: numpy and scipy believe the sizes that a
file declares, evaluate headers, and crash on some bytes.
"""

from __future__ import annotations

import gzip
import math
import os
import re
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Literal, TypeAlias

import numpy as np

from isoweave._typing import AnyArray

# What a file may become in memory, counted as float64: this many bytes whatever its size, and beyond that
# this many times its size. Compressed data rarely shrinks more than 100 times unless it is nearly all
# zeros; deflate can reach 1032 times, other methods any factor.
FREE_BYTES = 1 << 27
MAX_EXPANSION = 200
_SHOWN_CHARACTERS, _SHOWN_MESSAGE = 40, 160
_MAX_HEADER_BYTES, _MAX_MEMBERS, _CHUNK_BYTES = 1 << 16, 4096, 1 << 20
# A .npy header as every writer has it: type, order and up to 32 sizes. It is never evaluated: nested brackets
# can exhaust the stack.
_HEADER = re.compile(
    r"""\s*\{\s*['"]descr['"]\s*:\s*(['"][^'"\\]*['"]|\[[^{}]*\])\s*,\s*['"]fortran_order['"]\s*:\s*
    (True|False)\s*,\s*['"]shape['"]\s*:\s*\(((?:\s*[0-9]{1,18}\s*,){0,31}(?:\s*[0-9]{1,18})?)\s*\)
    \s*,?\s*\}\s*""",
    re.VERBOSE,
)
_TYPE = re.compile(r"[<>|=]?(?:[biufcSU][0-9]{1,9}|\?)")
_KNOWN_ERRORS = {FileNotFoundError: "no such file", IsADirectoryError: "is a folder, not a file"}
# Type (text: one that is not read, such as Python objects, records, dates), shape, order.
_Header: TypeAlias = tuple[np.dtype[Any] | str, tuple[int, ...], Literal["C", "F"]]


class InputFileError(ValueError):
    """A file could not be read as features, as a distance graph, or as whatever else was asked for.

    ``path`` is the file, ``reason`` what was wrong and what to do, without the file's name, ``line`` the
    1-based line of a fault in a text file, ``offset`` its byte from 0 in a binary one, where it is known.
    """

    def __init__(self, path: Path, reason: str, line: int | None = None, offset: int | None = None) -> None:
        super().__init__(path, reason, line, offset)  # what pickle makes it of again in another process
        self.path, self.reason, self.line, self.offset = path, reason, line, offset

    def __str__(self) -> str:
        where = "" if self.line is None else f", line {self.line}"
        where += "" if self.offset is None else f", byte {self.offset}"
        return f"{self.path}{where}: {self.reason}"


class Fault(Exception):
    """What is wrong with the file at hand: reason, line, byte; :func:`reading` adds its name."""


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn faults, and what the system says about a file, into :class:`InputFileError`."""
    try:
        yield
    except Fault as fault:
        raise InputFileError(path, *fault.args) from fault.__cause__
    except OSError as error:
        said = f"cannot be read ({error.strerror or brief(error)})"
        raise InputFileError(path, _KNOWN_ERRORS.get(type(error), said)) from error
    except MemoryError as error:
        raise InputFileError(path, "too large for this machine's memory") from error


@contextmanager
def within(part: object) -> Iterator[None]:
    """Say which array of a file a fault is in."""
    try:
        yield
    except Fault as fault:
        reason, *where = fault.args
        raise Fault(f"array {quoted(part)}: {reason}", *where) from fault.__cause__


def quoted(text: object) -> str:
    """The beginning of something a file holds, escaped: no file may send commands to a terminal."""
    whole = str(text)
    return repr(whole[:_SHOWN_CHARACTERS]) + ("..." if len(whole) > _SHOWN_CHARACTERS else "")


def brief(error: object) -> str:
    """One printable line with what a library said about a file."""
    text = ""
    with suppress(Exception):  # a message may itself hold text that cannot be decoded
        text = str(error)
    line = " ".join(text[: 4 * _SHOWN_MESSAGE].split())[:_SHOWN_MESSAGE]
    return "".join(c if c.isprintable() else "?" for c in line) or type(error).__name__


def memory_limit(file_size: int) -> int:
    """The most bytes that a file of this size may become."""
    return max(FREE_BYTES, MAX_EXPANSION * file_size)


def check_expansion(n_bytes: int, file_size: int, what: str, hint: str = "") -> None:
    """Refuse what would take far more memory than the file's size can justify, before it is read."""
    if n_bytes > memory_limit(file_size):
        most = f"{MAX_EXPANSION} times a file's size (or {FREE_BYTES >> 20} MiB)"
        said = f"{what} would take {n_bytes} bytes in memory, from a file of {file_size}"
        raise Fault(f"{said}; more than {most} is refused{hint}")


@contextmanager
def open_input(path: Path) -> Iterator[tuple[IO[bytes], int]]:
    """A regular file, opened for reading, and its size; refused at the end if it was written to meanwhile."""
    # Without O_NONBLOCK the opening of a pipe would not return; a regular file takes no notice of it.
    extra = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
    try:
        file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | extra))  # noqa: SIM115
    except ValueError as error:  # a NUL character in the name
        raise Fault(f"is not a file name ({brief(error)})") from error
    with file:
        before = os.fstat(file.fileno())
        if not stat.S_ISREG(before.st_mode):
            raise Fault("is not a regular file; copy its contents into one")
        yield file, before.st_size
        after = os.fstat(file.fileno())
        if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
            raise Fault("the file changed while it was read; try again")


def unpack(file: IO[bytes], output: IO[bytes], size: int) -> None:
    """Decompress a .gz file of this size, no further than a file of its size may become."""
    done, most = 0, memory_limit(size)
    try:
        with gzip.GzipFile(fileobj=file) as packed:
            while piece := packed.read(_CHUNK_BYTES):
                done += len(piece)
                check_expansion(done, size, f"more than {most} bytes unpacked")
                output.write(piece)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise Fault(f"not a .gz file, or a damaged one ({brief(error)})") from error


def words_from_array(array: AnyArray, n_words: int, file_size: int) -> tuple[str, ...]:
    """The names a 1-D array holds; numbers are written out."""
    if array.shape != (n_words,) or array.dtype.kind not in "biufSU":
        raise Fault(f"expected {n_words} names, got {array.dtype} of shape {array.shape}")
    # A string is an object of 50 bytes and more, however little space it took in the file.
    check_expansion(64 * n_words, file_size, f"{n_words} names")
    check_characters(array)
    try:
        return tuple(w.decode("utf-8") if isinstance(w, bytes) else str(w) for w in array.tolist())
    except UnicodeDecodeError as error:
        raise Fault(f"names that are not UTF-8 text ({error.reason})") from error


def check_characters(array: AnyArray) -> None:
    """Refuse an array of text with numbers in it that are no characters; Python cannot hold them."""
    if array.dtype.kind == "U":
        try:
            array.astype(array.dtype.newbyteorder("<")).tobytes().decode("utf-32-le")
        except UnicodeDecodeError as error:
            at = error.start // array.dtype.itemsize
            raise Fault(f"entry {at} holds what is not a character ({error.reason})") from error


def read_npy(path: Path) -> AnyArray:
    """The array in a .npy file."""
    with open_input(path) as (file, size):
        return _read_data(file, _read_header(file, size))


def read_npz(path: Path) -> dict[str, AnyArray]:
    """Every array of a .npz archive whose dtype is plain (numbers, booleans, strings)."""
    with open_input(path) as (file, size):
        return read_archive(file, size)


def read_archive(file: IO[bytes], size: int) -> dict[str, AnyArray]:
    """The arrays of an open archive, within the limits of a file of ``size`` bytes; never Python objects."""
    arrays: dict[str, AnyArray] = {}
    total = 0
    hint = "; numpy.savez (without _compressed) writes files as large as their arrays"
    for name, header, stream in _members(file):
        if isinstance(header[0], np.dtype):
            # Numbers become float64 sooner or later.
            total += math.prod(header[1]) * max(8, header[0].itemsize)
            with _damage(), within(name):
                check_expansion(total, size, "the arrays of this archive", hint)
                arrays[name] = _read_data(stream, header)
    return arrays


def read_headers(path: Path) -> dict[str, tuple[np.dtype[Any] | str, tuple[int, ...]]]:
    """Type and shape of every array of a .npz archive, whose data are not read."""
    with open_input(path) as (file, _):
        return {name: header[:2] for name, header, _ in _members(file)}


def _members(file: IO[bytes]) -> Iterator[tuple[str, _Header, IO[bytes]]]:
    """The arrays of an archive of not too many members, and what their data are read from."""
    seen: set[str] = set()
    with _damage():
        archive = zipfile.ZipFile(file)
        if len(archive.infolist()) > _MAX_MEMBERS:
            raise Fault(f"{len(archive.infolist())} members; at most {_MAX_MEMBERS} are allowed")
        for info in archive.infolist():
            name = info.filename.removesuffix(".npy")
            if name != info.filename:
                with within(name), _open_member(archive, info, name in seen) as stream:
                    seen.add(name)
                    yield name, _read_header(stream, info.file_size), stream


def open_array(archive: zipfile.ZipFile, name: str, start: int = 0) -> Callable[[int], AnyArray]:
    """A function that gives the next so many values of a 1-D array, from ``start`` on."""
    info = archive.getinfo(f"{name}.npy")
    with _damage(), within(name):
        stream = _open_member(archive, info, False)
        dtype, shape, _ = _read_header(stream, info.file_size)
        if not isinstance(dtype, np.dtype) or len(shape) > 1:
            raise Fault(f"{dtype} of shape {shape} cannot be read in ranges")
        stream.seek(start * dtype.itemsize, os.SEEK_CUR)

    def take(count: int) -> AnyArray:
        with _damage(), within(name):
            data = stream.read(count * dtype.itemsize)
            if len(data) < count * dtype.itemsize:
                raise Fault(f"{count * dtype.itemsize - len(data)} bytes are missing")
        return np.frombuffer(data, dtype)

    return take


@contextmanager
def _damage() -> Iterator[None]:
    """A damaged archive makes zipfile fail in a dozen ways: all of them are faults."""
    try:
        yield
    except (Fault, MemoryError):
        raise
    except Exception as error:
        raise Fault(f"not a .npz archive, or a damaged one ({brief(error)})") from error


def _open_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, is_second: bool) -> IO[bytes]:
    if is_second:
        raise Fault("there are two of that name", None, info.header_offset)
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        # Others expand without bound, and numpy never writes them.
        raise Fault(f"compression method {info.compress_type} is not supported", None, info.header_offset)
    if info.header_offset + info.compress_size > archive.start_dir:
        raise Fault("it reaches into the archive's directory", None, info.header_offset)
    return archive.open(info)


def _read_header(file: IO[bytes], n_bytes: int) -> _Header:
    """What is known of an array, once its data is known to be all there."""
    damaged = "not a .npy array, or a damaged header"
    start = file.read(12)
    version = tuple(start[6:8])
    if not start.startswith(b"\x93NUMPY") or len(start) < 12:
        raise Fault(damaged)
    if version not in ((1, 0), (2, 0)):
        # Version 3 exists for structured arrays with Unicode field names, which hold no features.
        raise Fault(f".npy format version {version} is not supported", None, 6)
    first = 10 if version == (1, 0) else 12
    length = int.from_bytes(start[8:first], "little")
    if length > _MAX_HEADER_BYTES:
        raise Fault(f"a header of {length} bytes is refused", None, 8)
    text = (start[first:] + file.read(max(0, length - (12 - first)))).decode("latin-1")
    match = _HEADER.fullmatch(text[:length])
    if match is None or len(text) < length:
        raise Fault(f"{damaged}: {quoted(text[:length].strip())}")
    shape = tuple(int(size) for size in match[3].split(",") if size.strip())
    dtype = _parse_type(match[1].strip("'\""))
    itemsize = dtype.itemsize if isinstance(dtype, np.dtype) else 1
    # Empty arrays too: numpy multiplies the sizes that are not zero.
    if math.prod(filter(None, shape)) * itemsize >= 1 << 62:
        raise Fault(f"an array of shape {shape} is refused")
    needed, found = math.prod(shape) * itemsize, n_bytes - first - length
    if isinstance(dtype, np.dtype) and found != needed:
        raise Fault(f"shape {shape} of {dtype} needs {needed} bytes of data, the file has {found}")
    return dtype, shape, "F" if match[2] == "True" else "C"


def _parse_type(descr: str) -> np.dtype[Any] | str:
    """The type a header names if it is of numbers, booleans or text, otherwise its name."""
    if _TYPE.fullmatch(descr):
        with suppress(TypeError, ValueError):  # no such size, or precision that this machine does not have
            dtype: np.dtype[Any] = np.dtype(descr)
            # Text of width 0 would let an empty file hold any number of words.
            if 0 < dtype.itemsize < 1 << 30:
                return dtype
    return descr


def _read_data(file: IO[bytes], header: _Header) -> AnyArray:
    dtype, shape, order = header
    if not isinstance(dtype, np.dtype):
        what = f"arrays of type {quoted(dtype)} are not supported"
        if dtype.lstrip("|<>=").startswith("O"):
            what = "the array holds Python objects"
        raise Fault(f"{what}; save it as numbers")
    flat: AnyArray = np.empty(math.prod(shape), dtype=dtype)
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
    return flat.reshape(shape, order=order)
