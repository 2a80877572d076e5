"""What makes two runs the same: input, parameters and versions, as JSON."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

import isoweave
from isoweave._typing import AnyArray

# Packages whose code the numbers go through: another version may round differently.
_PACKAGES = ("numpy", "scipy", "numba", "scikit-learn", "pyamg", "faiss-cpu", "scikit-sparse")
_PIECE_BYTES = 1 << 22


def fingerprint(inputs: Mapping[str, AnyArray], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """All that a result depends on, by field: ``versions.*``, ``input.*`` (SHA-256) and ``parameters.*``."""
    fields: dict[str, Any] = {f"versions.{name}": text for name, text in versions().items()}
    fields |= {f"input.{name}": _describe(array) for name, array in inputs.items()}
    fields |= {f"parameters.{name}": _plain(value) for name, value in parameters.items()}
    return fields


def versions() -> dict[str, str]:
    """Versions of everything that computes; "none" for what is not installed."""
    found = {"isoweave": isoweave.__version__, "python": ".".join(platform.python_version_tuple()[:2])}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "none"
    return found


def first_difference(stored: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[str, Any, Any] | None:
    """The first field in which two fingerprints differ and what each has there; None if they are the same."""
    for field in (*now, *(field for field in stored if field not in now)):
        # As JSON has them: a tuple that has been written is a list.
        before, after = stored.get(field, "(missing)"), now.get(field, "(missing)")
        if json.dumps(before, sort_keys=True) != json.dumps(after, sort_keys=True):
            return field, before, after
    return None


def _describe(array: AnyArray) -> str:
    """Type, shape and SHA-256 of the numbers, in rows."""
    shape = " x ".join(map(str, array.shape)) or "scalar"
    rows = np.atleast_2d(array)
    digest = hashlib.sha256()
    # In pieces, so that an array in another order is never copied as a whole.
    step = max(1, _PIECE_BYTES * len(rows) // max(rows.nbytes, 1))
    for at in range(0, len(rows), step):
        digest.update(np.ascontiguousarray(rows[at : at + step]).reshape(-1).view(np.uint8).data)
    return f"{array.dtype} {shape}, sha256 {digest.hexdigest()}"


def _plain(value: Any) -> Any:
    """A value as JSON that differs where the value does."""
    if isinstance(value, np.ndarray):
        return _describe(value)
    if isinstance(value, np.generic):
        return _plain(value.item())
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if np.isfinite(value) else repr(value)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    # A function is its name: what it computes cannot be compared.
    return f"{getattr(value, '__module__', '?')}.{getattr(value, '__qualname__', type(value).__qualname__)}"
