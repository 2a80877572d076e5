"""Reading a store that may be damaged, hostile, half replaced, or in the middle of being replaced."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isoweave._file_parts import lock, open_folder, unlock
from isoweave._typing import AnyArray
from isoweave.persist._errors import StoreError
from isoweave.persist._json import MAX_BYTES
from isoweave.persist._manifest import CHECKSUM, MANIFEST, Manifest, parse_manifest
from isoweave.persist._npy import Folder, read_array
from isoweave.persist._versions import VERSION
from isoweave.persist._write import previous_name, recover

_CHECKSUM_LINE = re.compile(rb"([0-9a-f]{64})  manifest\.json\n")
_ATTEMPTS = 20


@dataclass(frozen=True, eq=False)
class Store:
    """What a store holds.

    Attributes
    ----------
    path : pathlib.Path
    kind : str
    parameters, scalars : mapping of str to JSON values
    arrays : mapping of str to array
        Read-only if they are mapped.
    isoweave_version : str
        That wrote it.
    format_version : (int, int)
    """

    path: Path
    kind: str
    parameters: Mapping[str, Any]
    scalars: Mapping[str, Any]
    arrays: Mapping[str, AnyArray]
    isoweave_version: str
    format_version: tuple[int, int]

    @property
    def is_newer(self) -> bool:
        """Whether it was written in a newer minor version than ours, and may hold fields we do not know."""
        return self.format_version > VERSION


def read_store(path: str | os.PathLike[str], kind: str | None = None, *, mmap: bool = False) -> Store:
    """Read a store and check every byte of it.

    If a writer was killed while it replaced the store, what it left is put in order first, with a warning if
    that brings back the previous store.

    Parameters
    ----------
    path : path-like
    kind : str, optional
        What the store must hold; None takes any.
    mmap : bool
        Map the arrays instead of reading them into memory: they are read-only then, and the files must not be
        edited while they are in use. Their checksums are verified all the same.

    Returns
    -------
    Store

    Raises
    ------
    StoreError
        Whatever is wrong with it.

    Examples
    --------
    >>> import tempfile
    >>> from isoweave.persist import write_store
    >>> path = Path(tempfile.mkdtemp()) / "numbers"
    >>> write_store(path, "example", scalars={"unit": 2.5})
    >>> read_store(path, "example").scalars
    {'unit': 2.5}
    """
    path = Path(path)
    for attempt in range(_ATTEMPTS):
        with _opened(path) as folder:
            try:
                return _read(folder, kind, mmap)
            except StoreError:
                # A writer may have put a new store in its place, and removed the one we were reading.
                if attempt == _ATTEMPTS - 1 or not _is_replaced(path, folder):
                    raise
        time.sleep(0.002 * attempt)
    raise AssertionError("the last attempt returns or raises")


@contextmanager
def _opened(path: Path) -> Iterator[Folder]:
    for _ in range(4):
        place = _find(path)
        try:
            if not stat.S_ISDIR(os.stat(place).st_mode):
                reason = "is a file; a store is a folder. (An .npz file is opened with numpy.load.)"
                raise StoreError(path, None, reason)
            fd = open_folder(place) if os.open in os.supports_dir_fd else None
            break
        except FileNotFoundError:
            time.sleep(0.002)  # a writer may have moved it since we looked
        except OSError as error:
            raise StoreError(path, None, f"cannot be read: {error.strerror}") from error
    else:
        raise StoreError(path, None, "there is no such store")
    try:
        yield Folder(place, fd)
    finally:
        if fd is not None:
            os.close(fd)


def _is_replaced(path: Path, folder: Folder) -> bool:
    if folder.fd is None:
        return False
    try:
        # Our descriptor keeps the old folder's number from being given to another.
        return not os.path.samestat(os.stat(path), os.fstat(folder.fd))
    except OSError:
        return True


def _find(path: Path) -> Path:
    """Where the store is: at its path, or still aside if it cannot be put back."""
    target = Path(os.path.realpath(path))
    previous = previous_name(target)
    if not os.path.lexists(previous):
        return path
    # Without the lock it may be a living writer that has the store aside, for an instant.
    with suppress(OSError):
        folder = open_folder(target.parent)
        if folder is not None:
            try:
                if lock(folder):
                    try:
                        if recover(target):
                            warnings.warn(
                                f"{path}: a writer was stopped while it replaced this store; the previous "
                                "one has been put back.",
                                UserWarning,
                                stacklevel=4,
                            )
                    finally:
                        unlock(folder)
            finally:
                os.close(folder)
    return path if os.path.lexists(target) or not os.path.lexists(previous) else previous


def _read(folder: Folder, kind: str | None, mmap: bool) -> Store:
    manifest = _read_manifest(folder)
    if kind is not None and manifest.kind != kind:
        raise StoreError(folder.path, "kind", f"must be {kind!r}, found {manifest.kind!r}")
    if not mmap:
        _check_memory(folder.path, manifest)
    return Store(
        path=folder.path,
        kind=manifest.kind,
        parameters=manifest.parameters,
        scalars=manifest.scalars,
        arrays={name: read_array(folder, name, entry, mmap=mmap) for name, entry in manifest.arrays.items()},
        isoweave_version=manifest.isoweave_version,
        format_version=manifest.format_version,
    )


def _read_manifest(folder: Folder) -> Manifest:
    data = _read_small(folder, MANIFEST, MAX_BYTES)
    match = _CHECKSUM_LINE.fullmatch(_read_small(folder, CHECKSUM, 1000))
    if match is None:
        raise StoreError(folder.path, CHECKSUM, f"must be the line that sha256sum prints for {MANIFEST}")
    if hashlib.sha256(data).hexdigest().encode("ascii") != match[1]:
        reason = f"has changed since it was written: {CHECKSUM} has another SHA-256"
        raise StoreError(folder.path, MANIFEST, reason)
    return parse_manifest(folder.path, data)


def _read_small(folder: Folder, file: str, limit: int) -> bytes:
    with folder.open(file, file) as (opened, size):
        data = opened.read(limit + 1) if size <= limit else b""
        if size > limit or len(data) > limit:
            raise StoreError(folder.path, file, f"has {size:,} bytes, more than {limit:,}")
        return data


def _check_memory(path: Path, manifest: Manifest) -> None:
    """Refuse what the machine cannot hold; a file of holes claims any size."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not every system tells
        return
    needed = sum(entry.data_bytes for entry in manifest.arrays.values())
    if needed > memory:
        reason = f"{needed:,} bytes, more than the machine's {memory:,}; map the files instead (mmap=True)"
        raise StoreError(path, "arrays", reason)
