"""The command line; each command imports what it needs when it runs."""

from isoweave.cli import _fit as _fit, _maps as _maps, _reproduce as _reproduce
from isoweave.cli._app import app, main

__all__ = ["app", "main"]
