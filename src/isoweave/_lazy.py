"""Attributes computed, and modules imported, when they are first asked for."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any


class LazyModule:
    """A module that is imported when something of it is used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._name), name)


if TYPE_CHECKING:
    computed_once = property
else:

    class computed_once:
        """Like :class:`functools.cached_property`, without its lock.

        In Python 3.11 one lock for all objects of a class is held while the value is computed: fits in
        several threads wait for each other, and the child of a fork waits forever if another thread of the
        parent was computing. Without it two threads may both compute a value; they get the same one.
        """

        def __init__(self, compute: Callable[[Any], Any]) -> None:
            self._compute, self._name, self.__doc__ = compute, compute.__name__, compute.__doc__

        def __get__(self, instance: Any, owner: Any = None) -> Any:
            if instance is None:
                return self
            # Into its own dictionary, where Python looks first; frozen dataclasses refuse plain assignment.
            return instance.__dict__.setdefault(self._name, self._compute(instance))
