"""The exception for a checkpoint that cannot be gone on from."""

from __future__ import annotations

from pathlib import Path


class CheckpointError(ValueError):
    """A checkpoint belongs to another run, is in use, or is in the way.

    Attributes
    ----------
    path : pathlib.Path
        The folder.
    field : str or None
        The first field in which the runs differ.
    stored, now : object
        What it was then and what it is now.
    """

    def __init__(
        self, path: Path, reason: str, field: str | None = None, stored: object = None, now: object = None
    ) -> None:
        self.path, self.reason, self.field, self.stored, self.now = path, reason, field, stored, now
        super().__init__(f"checkpoint {path}: {reason}")

    def __reduce__(self) -> tuple[type[CheckpointError], tuple[object, ...]]:
        return type(self), (self.path, self.reason, self.field, self.stored, self.now)
