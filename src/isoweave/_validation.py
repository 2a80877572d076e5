"""Checks of values that users pass; each returns the plain Python form, whatever numpy scalar came in."""

from __future__ import annotations

import difflib
import math
import numbers
import operator
from collections.abc import Iterable
from typing import Any

import numpy as np


def check_integer(name: str, value: Any, *, minimum: int | None = None, maximum: int | None = None) -> int:
    """Return ``value`` as an ``int`` within the given bounds."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} must be an integer, got {_describe(value)}.")
    number = operator.index(value)
    if (minimum is not None and number < minimum) or (maximum is not None and number > maximum):
        allowed = f">= {minimum}" if maximum is None else f"<= {maximum}"
        if minimum is not None and maximum is not None:
            allowed = f"from {minimum} to {maximum}"
        raise ValueError(f"{name} must be an integer {allowed}, got {number}.")
    return number


def check_real(
    name: str,
    value: Any,
    *,
    minimum: float | None = None,
    maximum: float | None = None,
    include_minimum: bool = True,
    include_maximum: bool = True,
) -> float:
    """Return ``value`` as a finite ``float`` within the given bounds."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a real number, got {_describe(value)}.")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    bounds = []
    is_right = math.isfinite(number)
    if minimum is not None:
        is_right &= number >= minimum if include_minimum else number > minimum
        bounds.append(f"{'>=' if include_minimum else '>'} {minimum}")
    if maximum is not None:
        is_right &= number <= maximum if include_maximum else number < maximum
        bounds.append(f"{'<=' if include_maximum else '<'} {maximum}")
    if not is_right:
        wanted = f"a finite number {' and '.join(bounds)}".rstrip()
        raise ValueError(f"{name} must be {wanted}, got {value!r}.")
    return number


def check_option(name: str, value: Any, options: Iterable[str]) -> str:
    """Return ``value`` if it is one of ``options``; a near miss is suggested in the error."""
    allowed = list(options)
    listed = ", ".join(repr(option) for option in allowed)
    if not isinstance(value, str):
        raise TypeError(f"{name} must be one of {listed}, got {_describe(value)}.")
    if value in allowed:
        return value
    close = difflib.get_close_matches(value.lower(), allowed, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    raise ValueError(f"{name} must be one of {listed}, got {value!r}.{hint}")


def as_array(name: str, value: Any) -> Any:
    """Whatever numpy makes an array of; it says nothing about whose rows are not equally long."""
    try:
        return np.asarray(value)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{name} must be an array, got {_describe(value)}: {error}") from error


def check_array(name: str, value: Any, shape: tuple[int, ...], what: str = "") -> Any:
    """Numbers as float64 of this shape; ``what`` explains the shape in the error."""
    array = as_array(name, value)
    if array.dtype.kind not in "fiu" or array.shape != shape:
        wanted = f"a real array of shape {shape}{', ' if what else ''}{what}"
        raise ValueError(f"{name} must be {wanted}, got shape {array.shape} and dtype {array.dtype}.")
    return array.astype(np.float64)


def check_vertices(name: str, value: Any, n: int) -> Any:
    """Vertex numbers from numbers or a mask: int64 of shape (k,), distinct, in 0 .. n - 1."""
    array = as_array(name, value)
    if array.dtype == np.bool_:
        if array.shape != (n,):
            raise ValueError(f"{name} as a mask must have shape ({n},), got {array.shape}.")
        return np.flatnonzero(array)
    if array.ndim != 1 or (array.dtype.kind not in "iu" and len(array)):
        raise TypeError(
            f"{name} must be a one-dimensional array of vertex numbers or a mask, got shape {array.shape} "
            f"and dtype {array.dtype}."
        )
    array = array.astype(np.int64)
    outside = np.flatnonzero((array < 0) | (array >= n))
    if len(outside):
        at = f"entry {outside[0]} is {array[outside[0]]}"
        raise ValueError(f"{name} must name vertices in 0 .. {n - 1}, but {at}.")
    values, counts = np.unique(array, return_counts=True)
    if len(values) < len(array):
        raise ValueError(f"{name} names vertex {values[counts > 1][0]} more than once; name each once.")
    return array


def _describe(value: Any) -> str:
    """The value and its type, cut short: a whole array in a message helps nobody."""
    text = repr(value)
    return f"{text if len(text) <= 60 else text[:57] + '...'} of type {type(value).__name__}"
