"""Functions of the package replaced for a while, wherever they are looked up."""

from __future__ import annotations

import pkgutil
import sys
from collections.abc import Callable
from contextlib import ExitStack
from importlib import import_module
from typing import Any
from unittest.mock import patch

import isoweave

# What a fit never uses is not imported for it.
_OUTER = ("__main__", "cli", "experiments", "io", "metrics", "parametric", "plot")


def resolve(name: str) -> tuple[Any, str, Any]:
    """Owner, attribute and value of a dotted name: a function of a module, or a method of a class in one."""
    path, _, last = name.rpartition(".")
    try:
        owner = import_module(path)
    except ModuleNotFoundError:
        module, _, kind = path.rpartition(".")
        owner = getattr(import_module(module), kind)
    return owner, last, getattr(owner, last)


def import_core() -> None:
    """Import every module a fit may use: one imported later would keep a replacement for good."""
    for found in pkgutil.walk_packages(isoweave.__path__, "isoweave."):
        if found.name.split(".")[1] not in _OUTER:
            import_module(found.name)


def replace(stack: ExitStack, name: str, wrap: Callable[[Any], Any]) -> None:
    """Put ``wrap(function)`` in the place of a function until the stack unwinds.

    Modules import functions by name, so it is replaced in every module of the package that holds it; a file
    that is split or renamed changes nothing here.
    """
    owner, last, function = resolve(name)
    wrapper = wrap(function)
    stack.enter_context(patch.object(owner, last, wrapper))
    for module_name, module in list(sys.modules.items()):
        if module_name.startswith("isoweave.") and module is not owner:
            for attribute, value in list(vars(module).items()):
                if value is function:
                    stack.enter_context(patch.object(module, attribute, wrapper))
