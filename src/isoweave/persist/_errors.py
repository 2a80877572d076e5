"""The one exception raised for a store that cannot be read."""

from __future__ import annotations

from pathlib import Path


class StoreError(ValueError):
    """A store is damaged, incomplete, of another kind, or of a version that cannot be read.

    Attributes
    ----------
    path : pathlib.Path
        The store.
    field : str or None
        Part of it that is at fault: a field of the manifest with dots between the levels, or a file's name.
    reason : str
        What is wrong, and what to do where something can be done.
    """

    def __init__(self, path: Path, field: str | None, reason: str) -> None:
        self.path = path
        self.field = field
        self.reason = reason
        super().__init__(f"{path}: {reason}" if field is None else f"{path}: {field}: {reason}")

    def __reduce__(self) -> tuple[type[StoreError], tuple[Path, str | None, str]]:
        # ValueError would be unpickled from the message alone, which fails in a process pool.
        return type(self), (self.path, self.field, self.reason)


def shown(value: object) -> str:
    """A value from a file for a message: escaped, and cut short."""
    text = ascii(value)
    return text if len(text) <= 60 else text[:57] + "..."
