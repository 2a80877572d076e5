"""Arrays in .npy files, written and read by hand: no pickle, no parsed header, every byte accounted for."""

from __future__ import annotations

import errno
import hashlib
import io
import mmap as mmap_module
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from isoweave._file_parts import write_all
from isoweave._typing import AnyArray
from isoweave.persist._errors import StoreError, shown
from isoweave.persist._manifest import ArrayEntry

_MAGIC = b"\x93NUMPY\x01\x00"
_ALIGNMENT = 64
_PIECE_BYTES = 1 << 22


def stored_dtype(array: AnyArray) -> str:
    """The dtype an array has in a store: its own, little-endian."""
    return array.dtype.newbyteorder("<").str


def npy_header(dtype: str, shape: tuple[int, ...], fortran_order: bool) -> bytes:
    """The opening of a .npy file of version 1.0, padded so that the data are aligned."""
    sizes = ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "")
    text = f"{{'descr': '{dtype}', 'fortran_order': {fortran_order}, 'shape': ({sizes}), }}".encode("ascii")
    padding = -(len(_MAGIC) + 2 + len(text) + 1) % _ALIGNMENT
    text += b" " * padding + b"\n"
    return _MAGIC + len(text).to_bytes(2, "little") + text


def write_array(path: Path, file: str, array: AnyArray) -> ArrayEntry:
    """Write an array to ``path / file``, sync it, and say what the manifest has to know.

    Arrays that are contiguous in Fortran order stay so; others are written in C order.
    """
    dtype = stored_dtype(array)
    fortran_order = bool(array.flags.f_contiguous and not array.flags.c_contiguous)
    plain = np.ascontiguousarray(array.T if fortran_order else array, dtype=dtype)
    header = npy_header(dtype, array.shape, fortran_order)
    content = plain.reshape(-1).view(np.uint8).data
    digest = hashlib.sha256(header)
    digest.update(content)
    write_file(path / file, header, content)
    return ArrayEntry(dtype, array.shape, file, len(header) + content.nbytes, digest.hexdigest())


def write_file(path: Path, *pieces: Any) -> None:
    """Write a new file and sync it."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        for piece in pieces:
            write_all(fd, piece)
        os.fsync(fd)
    except BaseException:
        os.close(fd)
        raise
    os.close(fd)


@dataclass(frozen=True)
class Folder:
    """The folder of a store that is being read.

    Attributes
    ----------
    path : pathlib.Path
        For messages, and to open files where ``fd`` is None.
    fd : int or None
        Open descriptor: files come from this folder even if another takes its name.
    """

    path: Path
    fd: int | None

    @contextmanager
    def open(self, file: str, field: str) -> Iterator[tuple[io.FileIO, int]]:
        """A file and its size; links, devices and pipes are refused, not followed."""
        flags = os.O_RDONLY
        for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY", "O_NOCTTY"):
            flags |= getattr(os, name, 0)
        try:
            if self.fd is None and os.path.islink(self.path / file):
                raise OSError(errno.ELOOP, "is a symbolic link")
            place = file if self.fd is not None else self.path / file
            with io.FileIO(os.open(place, flags, dir_fd=self.fd), "rb") as opened:
                status = os.fstat(opened.fileno())
                if not stat.S_ISREG(status.st_mode):
                    raise StoreError(self.path, field, f"{file} is not a regular file")
                yield opened, status.st_size
        except FileNotFoundError as error:
            raise StoreError(self.path, field, f"file {file} is missing") from error
        except OSError as error:
            reason = f"file {file} cannot be read: {error.strerror}"
            if error.errno in (errno.ELOOP, errno.EMLINK):
                reason = f"{file} is a symbolic link, which a store never holds"
            raise StoreError(self.path, field, reason) from error


def read_array(folder: Folder, name: str, entry: ArrayEntry, *, mmap: bool) -> AnyArray:
    """An array of a store; every size is checked against the file before memory is taken."""
    path, where = folder.path, f"arrays.{name}"
    with folder.open(entry.file, where) as (file, size):
        if size != entry.bytes:
            reason = f"{entry.file} has {size:,} bytes, the manifest says {entry.bytes:,}"
            raise StoreError(path, f"{where}.bytes", reason)
        digest = hashlib.sha256()
        order, offset = _read_header(path, where, entry, file, digest)
        if offset + entry.data_bytes != size:
            raise StoreError(
                path,
                f"{where}.shape",
                f"{entry.shape} of {entry.dtype} needs {entry.data_bytes:,} bytes of data, "
                f"{entry.file} has {size - offset:,}",
            )
        flat: AnyArray
        if mmap and entry.data_bytes:
            mapped = mmap_module.mmap(file.fileno(), 0, access=mmap_module.ACCESS_READ)
            flat = np.frombuffer(mapped, dtype=np.uint8, offset=offset)
            for start in range(0, len(flat), _PIECE_BYTES):
                digest.update(flat[start : start + _PIECE_BYTES].data)
        else:
            flat = _read_data(path, where, entry, file, digest)
    if digest.hexdigest() != entry.sha256:
        reason = f"{entry.file} has changed since it was written (found {digest.hexdigest()})"
        raise StoreError(path, f"{where}.sha256", reason)
    if entry.dtype == "|b1" and flat.max(initial=0) > 1:
        raise StoreError(path, where, f"{entry.file} holds booleans that are neither 0 nor 1")
    array = flat.view(entry.dtype).reshape(entry.shape, order=order)
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def _read_data(path: Path, where: str, entry: ArrayEntry, file: io.FileIO, digest: Any) -> AnyArray:
    try:
        flat = np.empty(entry.data_bytes, dtype=np.uint8)
    except MemoryError as error:
        reason = f"{entry.data_bytes:,} bytes do not fit in memory; map the file instead (mmap=True)"
        raise StoreError(path, where, reason) from error
    view, done = flat.data, 0
    while done < len(view):
        # In pieces, so that each is hashed while it is still in the cache.
        count = file.readinto(view[done : done + _PIECE_BYTES])
        if not count:
            raise StoreError(path, where, f"{entry.file} ends early, at byte {done:,} of the data")
        digest.update(view[done : done + count])
        done += count
    return flat


def _read_header(path: Path, where: str, entry: ArrayEntry, file: io.FileIO, digest: Any) -> tuple[Any, int]:
    """Order of the data ("C" or "F") and where they begin.

    The file must open with the very bytes that its entry would be written with: nothing is parsed.
    """
    for order in ("C", "F"):
        header = npy_header(entry.dtype, entry.shape, order == "F")
        file.seek(0)
        if file.read(len(header)) == header:
            digest.update(header)
            return order, len(header)
    reason = f"{entry.file} does not open as a .npy file with {entry.dtype} of shape {shown(entry.shape)}"
    raise StoreError(path, where, reason)
