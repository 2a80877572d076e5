"""The command line: arguments and their help only.

Everything heavy is imported inside the commands, so that ``isoweave --help`` answers at once.
"""

from isoweave.cli._app import app, main

__all__ = ["app", "main"]
