"""The one exception every reader raises for a bad file."""

from __future__ import annotations

from pathlib import Path


class InputFileError(ValueError):
    """A file could not be read as features or as a distance graph.

    Attributes
    ----------
    path : pathlib.Path
    reason : str
        What was wrong and what to do, without the file's name.
    line : int or None
        1-based line of the first fault, for text files.
    """

    def __init__(self, path: Path, reason: str, line: int | None = None) -> None:
        self.path = path
        self.reason = reason
        self.line = line
        where = f"{path}, line {line}" if line is not None else str(path)
        super().__init__(f"{where}: {reason}")

    def __reduce__(self) -> tuple[type[InputFileError], tuple[Path, str, int | None]]:
        # ValueError would be unpickled from the message alone, which fails in a process pool.
        return type(self), (self.path, self.reason, self.line)
