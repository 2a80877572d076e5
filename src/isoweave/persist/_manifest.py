"""The manifest of a store: what it must hold, checked field by field."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import isoweave
from isoweave.persist._errors import StoreError, shown
from isoweave.persist._json import parse_json
from isoweave.persist._versions import FORMAT, MIGRATIONS, VERSION, migrate, parse_version, show_version

MANIFEST = "manifest.json"
CHECKSUM = "manifest.sha256"
# Plain numbers whose layout is the same everywhere; "|" has no byte order, "<" is little-endian.
DTYPES = (
    *("|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8"),
    *("<f2", "<f4", "<f8", "<c8", "<c16"),
)
MAX_ARRAYS = 10_000
_MAX_DIMENSIONS = 32
_MAX_SIZE = 1 << 62

_KIND = re.compile(r"[a-z][a-z0-9-]{0,39}", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}", re.ASCII)
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)


@dataclass(frozen=True)
class ArrayEntry:
    """One line of the table of arrays.

    Attributes
    ----------
    dtype : str
        One of ``DTYPES``.
    shape : tuple of int
    file : str
        Name of the .npy file, in the store's folder.
    bytes : int
        Size of that file.
    sha256 : str
        Of the whole file.
    """

    dtype: str
    shape: tuple[int, ...]
    file: str
    bytes: int
    sha256: str

    @property
    def data_bytes(self) -> int:
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True)
class Manifest:
    """Everything about a store except its arrays."""

    kind: str
    parameters: dict[str, Any]
    scalars: dict[str, Any]
    arrays: dict[str, ArrayEntry]
    isoweave_version: str
    format_version: tuple[int, int]

    def to_json(self) -> dict[str, Any]:
        """The fields in the order they are written."""
        return {
            "format": FORMAT,
            "format_version": show_version(self.format_version),
            "isoweave_version": self.isoweave_version,
            "kind": self.kind,
            "parameters": self.parameters,
            "scalars": self.scalars,
            "arrays": {
                name: {**vars(entry), "shape": list(entry.shape)} for name, entry in self.arrays.items()
            },
        }


_FIELDS = ("format", "format_version", "isoweave_version", "kind", "parameters", "scalars", "arrays")
_ENTRY_FIELDS = ("dtype", "shape", "file", "bytes", "sha256")


def is_kind(text: object) -> bool:
    """Whether a text can be a store's kind: lower case, digits and hyphens."""
    return isinstance(text, str) and _KIND.fullmatch(text) is not None


def is_array_name(text: object) -> bool:
    """Whether a text can name an array: it becomes the name of a file, on any system."""
    return isinstance(text, str) and _NAME.fullmatch(text) is not None


def parse_manifest(path: Path, data: bytes) -> Manifest:
    """The manifest of the store at ``path`` from the bytes of its file; StoreError names what is wrong."""
    try:
        found = parse_json(data)
    except ValueError as error:
        raise StoreError(path, MANIFEST, str(error)) from error
    if not isinstance(found, dict):
        raise StoreError(path, MANIFEST, f"must be an object, found {shown(found)}")
    version = _check_version(path, found)
    try:
        found = migrate(found, version, VERSION, MIGRATIONS)
    except Exception as error:  # a migration trusts fields that nobody has checked yet
        reason = f"cannot be brought from {show_version(version)} to {show_version(VERSION)}: {error!r:.200}"
        raise StoreError(path, "format_version", reason) from error
    ignore_unknown = version[0] == VERSION[0] and version[1] > VERSION[1]
    _check_fields(path, None, found, _FIELDS, ignore_unknown)
    for field in ("parameters", "scalars", "arrays"):
        if not isinstance(found[field], dict):
            raise StoreError(path, field, f"must be an object, found {shown(found[field])}")
    if not is_kind(found["kind"]):
        raise StoreError(path, "kind", f"must be a short name in lower case, found {shown(found['kind'])}")
    written_by = found["isoweave_version"]
    if not isinstance(written_by, str) or not 0 < len(written_by) <= 100:
        raise StoreError(path, "isoweave_version", f"must be a version, found {shown(written_by)}")
    return Manifest(
        kind=found["kind"],
        parameters=found["parameters"],
        scalars=found["scalars"],
        arrays=_check_arrays(path, found["arrays"], ignore_unknown),
        isoweave_version=written_by,
        format_version=version,
    )


def _check_version(path: Path, found: dict[str, Any]) -> tuple[int, int]:
    for field in ("format", "format_version"):
        if field not in found:
            raise StoreError(path, field, "is missing; this is not an isoweave store")
    if found["format"] != FORMAT:
        raise StoreError(path, "format", f"must be {FORMAT!r}, found {shown(found['format'])}")
    version = parse_version(found["format_version"])
    if version is None:
        text = shown(found["format_version"])
        raise StoreError(path, "format_version", f"must be 'major.minor', found {text}")
    if version[0] > VERSION[0]:
        raise StoreError(
            path,
            "format_version",
            f"written in format {show_version(version)} by isoweave {shown(found.get('isoweave_version'))}; "
            f"isoweave {isoweave.__version__} reads formats up to {VERSION[0]}.x; a newer one is needed.",
        )
    return version


def _check_fields(
    path: Path, where: str | None, found: Mapping[str, Any], wanted: tuple[str, ...], ignore_unknown: bool
) -> None:
    for field in wanted:
        if field not in found:
            raise StoreError(path, field if where is None else f"{where}.{field}", "is missing")
    unknown = [field for field in found if field not in wanted]
    if unknown and not ignore_unknown:
        known = ", ".join(wanted)
        raise StoreError(path, where, f"unknown field {shown(unknown[0])}; the fields are {known}")


def _check_arrays(path: Path, found: dict[str, Any], ignore_unknown: bool) -> dict[str, ArrayEntry]:
    if len(found) > MAX_ARRAYS:
        raise StoreError(path, "arrays", f"{len(found)} arrays, more than {MAX_ARRAYS}")
    entries: dict[str, ArrayEntry] = {}
    files: dict[str, str] = {}
    for name, entry in found.items():
        if not is_array_name(name):
            raise StoreError(path, "arrays", f"{shown(name)} cannot name an array")
        where = f"arrays.{name}"
        if not isinstance(entry, dict):
            raise StoreError(path, where, f"must be an object, found {shown(entry)}")
        _check_fields(path, where, entry, _ENTRY_FIELDS, ignore_unknown)
        entries[name] = _check_entry(path, where, entry)
        # Names that differ in case only are one file on some systems.
        other = files.setdefault(entries[name].file.lower(), name)
        if other != name:
            raise StoreError(path, f"{where}.file", f"is the file of array {other} too")
    return entries


def _check_entry(path: Path, where: str, entry: dict[str, Any]) -> ArrayEntry:
    dtype, shape, file = entry["dtype"], entry["shape"], entry["file"]
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise StoreError(path, f"{where}.dtype", f"must be one of {', '.join(DTYPES)}, found {shown(dtype)}")
    if not isinstance(shape, list) or len(shape) > _MAX_DIMENSIONS or not all(map(_is_size, shape)):
        reason = f"must be at most {_MAX_DIMENSIONS} sizes, found {shown(shape)}"
        raise StoreError(path, f"{where}.shape", reason)
    # Sizes beside a zero count too: numpy refuses them even though such an array is empty.
    if math.prod(max(size, 1) for size in shape) * np.dtype(dtype).itemsize > _MAX_SIZE:
        raise StoreError(path, f"{where}.shape", f"is too large: {shown(shape)}")
    # A name without any separator stays in the store's folder.
    if not is_array_name(file) or not file.endswith(".npy"):
        reason = f"must be the plain name of a .npy file, found {shown(file)}"
        raise StoreError(path, f"{where}.file", reason)
    if not _is_size(entry["bytes"]):
        raise StoreError(path, f"{where}.bytes", f"must be a size, found {shown(entry['bytes'])}")
    digest = entry["sha256"]
    if not isinstance(digest, str) or _SHA256.fullmatch(digest) is None:
        raise StoreError(path, f"{where}.sha256", f"must be 64 hexadecimal digits, found {shown(digest)}")
    return ArrayEntry(dtype, tuple(shape), file, entry["bytes"], digest)


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_SIZE
