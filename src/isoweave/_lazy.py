"""Attributes computed when they are first asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class computed_once(Generic[T]):
    """Like :class:`functools.cached_property`, without its lock.

    In Python 3.11 one lock for all objects of a class is held while the value is computed: fits in several
    threads wait for each other, and the child of a fork waits forever if another thread of the parent was
    computing. Without it two threads may both compute a value; they get the same, and one is kept.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> computed_once[T]: ...

    @overload
    def __get__(self, instance: object, owner: type | None = None) -> T: ...

    def __get__(self, instance: object | None, owner: type | None = None) -> T | computed_once[T]:
        if instance is None:
            return self
        # Into the object's own dictionary, where Python looks before it asks this descriptor again; frozen
        # dataclasses refuse ordinary assignment.
        value = self._compute(instance)
        return instance.__dict__.setdefault(self._name, value)
