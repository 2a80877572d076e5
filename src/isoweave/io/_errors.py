"""The one exception every reader raises for a bad file, and how its messages quote the file."""

from __future__ import annotations

from pathlib import Path

_SHOWN_CHARACTERS = 40
_SHOWN_MESSAGE = 160


class InputFileError(ValueError):
    """A file could not be read as features or as a distance graph.

    Attributes
    ----------
    path : pathlib.Path
    reason : str
        What was wrong and what to do, without the file's name.
    line : int or None
        1-based line of the first fault, for text files.
    offset : int or None
        Byte of the first fault counted from 0, for binary files, where it is known.
    """

    def __init__(self, path: Path, reason: str, line: int | None = None, offset: int | None = None) -> None:
        self.path = path
        self.reason = reason
        self.line = line
        self.offset = offset
        where = "" if line is None else f", line {line}"
        where += "" if offset is None else f", byte {offset}"
        super().__init__(f"{path}{where}: {reason}")

    def __reduce__(self) -> tuple[type[InputFileError], tuple[Path, str, int | None, int | None]]:
        # ValueError would be unpickled from the message alone, which fails in a process pool.
        return type(self), (self.path, self.reason, self.line, self.offset)


def quoted(text: object) -> str:
    """The beginning of something a file holds, in quotes, with what does not print escaped.

    A file must not be able to fill a terminal or to send it commands through an error message.
    """
    whole = text if isinstance(text, str) else str(text)
    short = whole[:_SHOWN_CHARACTERS]
    return repr(short) + ("..." if len(whole) > len(short) else "")


def brief(error: BaseException) -> str:
    """One printable line with what a library said about a file."""
    try:
        text = str(error)
    except Exception:  # a message may itself hold text that cannot be decoded
        text = ""
    line = " ".join(text[: 4 * _SHOWN_MESSAGE].split())
    line = "".join(c if c.isprintable() else "?" for c in line)[:_SHOWN_MESSAGE]
    return line or type(error).__name__
