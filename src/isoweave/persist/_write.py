"""Writing a store so that a reader finds the old one or the new one, whole, whenever the writer is stopped.

The new store is written beside the old one under a temporary name and synced, file by file, then the folder.
Only then, with the enclosing folder locked::

    1  rename  store      -> .store.isoweave-previous     (if there is an old one)
    2  rename  temporary  -> store
    3  sync the enclosing folder
    4  rename  .store.isoweave-previous -> a temporary name, and remove that

Killed before 1: the old store is in place. Between 1 and 2: there is no store, but the previous one is whole;
readers and writers put it back (:func:`recover`). After 2: the new store is in place; the previous one, if it
is still there, is in nobody's way and is removed by the next reader or writer. Temporary names are
removed by the next writer, which can tell a living writer's by its lock.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

import isoweave
from isoweave._file_parts import (
    hidden_name,
    lock,
    open_folder,
    remove,
    sweep,
    sync_folder,
    temporary_name,
    unlock,
)
from isoweave._files import WriteError, write_error
from isoweave._typing import AnyArray
from isoweave.persist._json import dump_json
from isoweave.persist._manifest import (
    CHECKSUM,
    DTYPES,
    MANIFEST,
    MAX_ARRAYS,
    Manifest,
    is_array_name,
    is_kind,
)
from isoweave.persist._npy import stored_dtype, write_array, write_file
from isoweave.persist._versions import FORMAT, VERSION

_LOCK_SECONDS = 20.0


def write_store(
    path: str | os.PathLike[str],
    kind: str,
    *,
    parameters: Mapping[str, Any] | None = None,
    scalars: Mapping[str, Any] | None = None,
    arrays: Mapping[str, AnyArray] | None = None,
) -> None:
    """Write a store: a folder with a JSON manifest and one .npy file per array.

    It appears under its name only when it is complete and on disk; a store that had the name is replaced then
    and left as it was if anything fails. The same contents give the same bytes.

    Parameters
    ----------
    path : path-like
        The folder to make. Its parent must exist. If it exists itself, it must be a store or empty.
    kind : str
        What it holds ("embedding", "estimator", ...): lower case, digits, hyphens.
    parameters, scalars : mapping of str to JSON values, optional
        Finite numbers, text, true, false, null, and lists and objects of them.
    arrays : mapping of str to array, optional
        Numbers or booleans, by names of letters, digits, dots, underscores and hyphens.

    Raises
    ------
    TypeError, ValueError
        Something cannot be stored; nothing has been written.
    WriteError
        An OSError with one line of text: disk full, no permission, ...

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "numbers"
    >>> write_store(path, "example", scalars={"unit": 2.5}, arrays={"x": np.arange(3)})
    >>> sorted(file.name for file in path.iterdir())
    ['manifest.json', 'manifest.sha256', 'x.npy']
    """
    if not is_kind(kind):
        raise ValueError(f"kind must be lower-case letters, digits and hyphens, got {kind!r}.")
    plain = _plain_arrays(arrays or {})
    # Written once without the arrays' checksums, so that what JSON cannot hold is found before any file is.
    head = Manifest(kind, dict(parameters or {}), dict(scalars or {}), {}, isoweave.__version__, VERSION)
    dump_json(head.to_json())
    try:
        _write(Path(os.path.realpath(path)), path, head, plain)
    except OSError as error:
        raise write_error(error, path) from error


def _plain_arrays(arrays: Mapping[str, AnyArray]) -> dict[str, AnyArray]:
    if len(arrays) > MAX_ARRAYS:
        raise ValueError(f"a store holds at most {MAX_ARRAYS} arrays, got {len(arrays)}.")
    seen: dict[str, str] = {}
    for name, array in arrays.items():
        if not is_array_name(name):
            raise ValueError(f"an array's name must be letters, digits, '.', '_' and '-', got {name!r}.")
        other = seen.setdefault(name.lower(), name)
        if other != name:
            raise ValueError(f"arrays {other!r} and {name!r} would share a file where case does not count.")
        if not isinstance(array, np.ndarray) or stored_dtype(array) not in DTYPES:
            found = array.dtype if isinstance(array, np.ndarray) else type(array).__name__
            raise TypeError(
                f"array {name!r} must be a numpy array of plain numbers or booleans, got {found}."
            )
    return dict(arrays)


def _write(target: Path, path: str | os.PathLike[str], head: Manifest, arrays: dict[str, AnyArray]) -> None:
    # Another writer may be replacing the store at this moment; what counts is the check under the lock.
    with suppress(FileNotFoundError):
        before = os.lstat(target)
        try:
            _check_target(target, path)
        except WriteError:
            after = os.lstat(target)
            # Half of the old folder and half of the new one were looked at, unless it is still the same.
            if (before.st_ino, before.st_ctime_ns) == (after.st_ino, after.st_ctime_ns):
                raise
    sweep(target)
    folder = open_folder(target.parent)
    try:
        with _temporary_folder(target) as temporary:
            entries = {name: write_array(temporary, f"{name}.npy", array) for name, array in arrays.items()}
            data = dump_json(Manifest(**{**vars(head), "arrays": entries}).to_json())
            write_file(temporary / MANIFEST, data)
            write_file(temporary / CHECKSUM, checksum_line(data))
            _sync(temporary)
            with locked(folder, path):
                mode = _check_target(target, path)
                if mode is not None:
                    os.chmod(temporary, mode)
                _swap(temporary, target, folder)
    finally:
        if folder is not None:
            with suppress(OSError):
                os.close(folder)


def checksum_line(data: bytes) -> bytes:
    """What ``sha256sum manifest.json`` prints; ``sha256sum -c`` can check it."""
    return f"{hashlib.sha256(data).hexdigest()}  {MANIFEST}\n".encode("ascii")


def previous_name(target: Path) -> Path:
    """Where the old store is while the new one takes its place."""
    return hidden_name(target, "isoweave-previous")


def _swap(temporary: Path, target: Path, folder: int | None) -> None:
    recover(target)
    previous = previous_name(target)
    try:
        if os.path.lexists(target):
            os.rename(target, previous)
        os.rename(temporary, target)
        sync_folder(folder)
    except BaseException:
        # Whichever of the calls failed, everything gets the name back that it had.
        with suppress(OSError):
            if not os.path.lexists(temporary):
                os.rename(target, temporary)
        with suppress(OSError):
            if os.path.lexists(previous):
                os.rename(previous, target)
        raise
    _retire(previous, target)


def recover(target: Path) -> bool:
    """Clear up after a writer that was killed while it swapped; call it with the enclosing folder locked.

    Returns
    -------
    bool
        Whether the previous store was put back.
    """
    previous = previous_name(target)
    if not os.path.lexists(previous):
        return False
    if os.path.lexists(target):
        _retire(previous, target)
        return False
    os.rename(previous, target)
    return True


def _retire(previous: Path, target: Path) -> None:
    # Renamed first: a store half removed must not be taken for the previous one. What cannot be removed now
    # is left to the next writer; the new store is in place either way.
    doomed = temporary_name(target)
    with suppress(OSError):
        os.rename(previous, doomed)
        remove(doomed)


@contextmanager
def _temporary_folder(target: Path) -> Iterator[Path]:
    """A new folder beside the target, locked while we live, gone afterwards unless it was renamed."""
    while True:
        temporary = temporary_name(target)
        os.mkdir(temporary)
        # A sweep that comes before the lock may take the folder for garbage; then another one is made.
        try:
            held = open_folder(temporary)
        except FileNotFoundError:
            continue
        except BaseException:
            remove(temporary)
            raise
        try:
            if held is None or (lock(held) is not False and os.path.lexists(temporary)):
                yield temporary
                return
        except BaseException:
            remove(temporary)
            raise
        finally:
            if held is not None:
                with suppress(OSError):
                    os.close(held)


def _sync(folder: Path) -> None:
    fd = open_folder(folder)
    if fd is not None:
        try:
            sync_folder(fd)
        finally:
            os.close(fd)


@contextmanager
def locked(folder: int | None, path: str | os.PathLike[str]) -> Iterator[None]:
    """Keep other writers in the same folder out; where there are no locks, go on without."""
    deadline = time.monotonic() + _LOCK_SECONDS
    while folder is not None and lock(folder) is False:
        if time.monotonic() > deadline:
            reason = f"another process has kept the folder {Path(path).parent} locked for {_LOCK_SECONDS:g} s"
            raise WriteError(errno.EAGAIN, reason, path)
        time.sleep(0.005)
    try:
        yield
    finally:
        if folder is not None:
            unlock(folder)


def _check_target(target: Path, path: str | os.PathLike[str]) -> int | None:
    """Permissions of the store that is there; refuse to replace anything that is not a store."""
    if not target.name:
        raise WriteError(errno.EINVAL, "a store needs a name", path)
    try:
        mode = os.lstat(target).st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISDIR(mode):
        raise WriteError(errno.EEXIST, "a file has that name; a store is a folder", path)
    if not os.access(target, os.W_OK):
        raise WriteError(errno.EACCES, "the store is write-protected", path)
    names = sorted(os.listdir(target))
    foreign = [
        name
        for name in names
        if name not in (MANIFEST, CHECKSUM, ".DS_Store")
        and not (name.endswith(".npy") and stat.S_ISREG(os.lstat(target / name).st_mode))
    ]
    if foreign or (names and not _opens_as_manifest(target / MANIFEST)):
        what = f"holds {foreign[0]}" if foreign else f"has no {MANIFEST} of a store"
        reason = f"the folder exists and {what}; only a store is replaced. Choose another name, or remove it"
        raise WriteError(errno.EEXIST, reason, path)
    return stat.S_IMODE(mode)


def _opens_as_manifest(path: Path) -> bool:
    # Damaged stores may be replaced too, so that only the opening is looked at.
    try:
        with path.open("rb") as file:
            return f'"format": "{FORMAT}"'.encode("ascii") in file.read(200)
    except OSError:
        return False
