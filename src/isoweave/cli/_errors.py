"""Turning expected errors and warnings into one line each."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from isoweave.cli._signals import exit_code


def one_line(message: object) -> str:
    """A message without line breaks or runs of spaces."""
    return " ".join(str(message).split())


def option_mismatch(name: str, input_file: Path, kind: str) -> ValueError:
    """Error for an option of the estimator that does not go with what the file holds."""
    option = f"--{name.replace('_', '-')}"
    if kind == "graph":
        return ValueError(
            f"{option} is for features, but {input_file} holds a distance graph; leave it out, or read the "
            "file with --features."
        )
    return ValueError(
        f"{option} is for distance graphs, but {input_file} holds features; leave it out, or read the file "
        "with --graph."
    )


@contextmanager
def reported(verbose: bool = False) -> Iterator[None]:
    """Print an error of the user's making as one line on standard error and exit with code 2.

    The library raises ValueError and TypeError for bad input, ImportError for a missing extra and OSError
    for files. Anything else is a fault of ours and keeps its traceback, as all do if ``verbose``.
    """
    try:
        yield
    except (ValueError, TypeError, ImportError, OSError, MemoryError) as error:
        if verbose:
            raise
        message = one_line(error) or type(error).__name__
        print(f"isoweave: error: {message}", file=sys.stderr)
        raise typer.Exit(2) from error
    except KeyboardInterrupt as error:
        what = one_line(error) or "interrupted"
        hint = "; go on with the same command and --resume" if "kept in" in what else ""
        print(f"isoweave: {what}{hint}", file=sys.stderr)
        raise typer.Exit(exit_code(error)) from error


@contextmanager
def printed_warnings(quiet: bool) -> Iterator[None]:
    """Print each warning as one line on standard error as it comes, or not at all."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if quiet else "default")
        # In place of Python's own format, which quotes a source line that means nothing to a user.
        warnings.showwarning = lambda message, *_, **__: print(
            f"isoweave: warning: {one_line(message)}", file=sys.stderr
        )
        yield
