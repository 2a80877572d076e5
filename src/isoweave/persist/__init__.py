"""Stores: folders of a JSON manifest and plain arrays, written as a whole and checked byte by byte.

:func:`save` and :func:`load` keep embeddings and estimators; :func:`write_store` and :func:`read_store` keep
any numbers. The format is described in docs/saving.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from isoweave._files import WriteError
from isoweave.persist._errors import StoreError
from isoweave.persist._mixin import StoredMixin
from isoweave.persist._read import Store, read_store
from isoweave.persist._write import write_store

if TYPE_CHECKING:
    from isoweave.persist._objects import load, load_estimator, save

__all__ = [
    "Store",
    "StoreError",
    "StoredMixin",
    "WriteError",
    "load",
    "load_estimator",
    "read_store",
    "save",
    "write_store",
]


def __getattr__(name: str) -> Any:
    """Import what knows the engine on first use: stores alone need no more than numpy."""
    if name in ("load", "load_estimator", "save"):
        from isoweave.persist import _objects

        return getattr(_objects, name)
    raise AttributeError(f"module 'isoweave.persist' has no attribute {name!r}")
