"""The command line: arguments and their help only.

Everything heavy is imported inside the commands, so that ``isoweave --help`` answers at once.
"""

from isoweave.cli import _app_maps as _app_maps
from isoweave.cli._app import app, main

__all__ = ["app", "main"]
