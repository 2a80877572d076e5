"""Versions of the format: what can be read, and how older stores are brought up to date.

A version is ``major.minor``. A new minor version only adds fields that a reader may ignore; anything else is
a new major version, which comes with a migration from the one before. So a reader

- takes its own major version, whatever the minor (unknown fields are refused, unless the store's minor
  version is newer than the reader's: then they are ignored);
- takes every older major version, through the migrations;
- refuses a newer major version and says so.

In all versions the store is a folder with ``manifest.json`` that has ``format`` and ``format_version``, and
``manifest.sha256`` beside it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

FORMAT = "isoweave-store"
VERSION = (1, 0)

Migration: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]

# From a major version to the next: a manifest as it was read (arrays are described in it, not held) to one
# the next version would have written. A migration is never changed once a release has it.
MIGRATIONS: dict[int, Migration] = {}

_VERSION = re.compile(r"([1-9][0-9]{0,3})\.(0|[1-9][0-9]{0,3})", re.ASCII)


def parse_version(text: object) -> tuple[int, int] | None:
    """Major and minor of ``"1.0"``; None if it is no version."""
    match = _VERSION.fullmatch(text) if isinstance(text, str) else None
    return None if match is None else (int(match[1]), int(match[2]))


def show_version(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


def migrate(
    manifest: dict[str, Any],
    found: tuple[int, int],
    version: tuple[int, int],
    migrations: Mapping[int, Migration],
) -> dict[str, Any]:
    """A manifest of an older major version as the present one would have written it.

    Parameters
    ----------
    manifest : dict
        Its checksum has been verified, its fields have not been looked at.
    found : (int, int)
        Its version, not newer in its major part than ``version``.
    version : (int, int)
    migrations : mapping of int to callable
        By the major version they start from.

    Returns
    -------
    dict
        The manifest itself where nothing is to be done.

    Raises
    ------
    LookupError
        A migration is missing.
    """
    for major in range(found[0], version[0]):
        if major not in migrations:
            raise LookupError(f"no migration from format {major} to {major + 1}")
        manifest = migrations[major](manifest)
        manifest["format_version"] = f"{major + 1}.0"
    return manifest
