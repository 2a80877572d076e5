"""Checks of single values that users pass: integers, real numbers, named options.

Each returns the value in its plain Python form, so that callers go on with an ``int``, ``float`` or
``str`` whatever numpy scalar came in, and raises an error that names the parameter, the value received
and what is allowed.
"""

from __future__ import annotations

import difflib
import math
import numbers
import operator
from collections.abc import Iterable
from typing import Any

import numpy as np


def check_integer(name: str, value: Any, *, minimum: int | None = None, maximum: int | None = None) -> int:
    """Return ``value`` as an ``int`` within the given bounds.

    Examples
    --------
    >>> check_integer("n_neighbors", 10, minimum=1)
    10
    """
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} must be an integer, got {_describe(value)}.")
    number = operator.index(value)
    if (minimum is not None and number < minimum) or (maximum is not None and number > maximum):
        raise ValueError(f"{name} must be an integer {_integer_range(minimum, maximum)}, got {number}.")
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
    """Return ``value`` as a finite ``float`` within the given bounds.

    Examples
    --------
    >>> check_real("tol", 1e-6, minimum=0, include_minimum=False)
    1e-06
    """
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a real number, got {_describe(value)}.")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    too_small = minimum is not None and (number < minimum or (number == minimum and not include_minimum))
    too_large = maximum is not None and (number > maximum or (number == maximum and not include_maximum))
    if not math.isfinite(number) or too_small or too_large:
        bounds = []
        if minimum is not None:
            bounds.append(f"{'>=' if include_minimum else '>'} {minimum}")
        if maximum is not None:
            bounds.append(f"{'<=' if include_maximum else '<'} {maximum}")
        wanted = " ".join(["a finite number", " and ".join(bounds)]).rstrip()
        raise ValueError(f"{name} must be {wanted}, got {value!r}.")
    return number


def check_option(name: str, value: Any, options: Iterable[str]) -> str:
    """Return ``value`` if it is one of ``options``; a near miss is suggested in the error.

    Examples
    --------
    >>> check_option("components", "largest", ("separate", "largest", "bridge", "error"))
    'largest'
    """
    allowed = list(options)
    listed = ", ".join(repr(option) for option in allowed)
    if not isinstance(value, str):
        raise TypeError(f"{name} must be one of {listed}, got {_describe(value)}.")
    if value in allowed:
        return value
    close = difflib.get_close_matches(value.lower(), allowed, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    raise ValueError(f"{name} must be one of {listed}, got {value!r}.{hint}")


def check_vertices(name: str, value: Any, n: int) -> Any:
    """Vertex numbers from numbers or a mask: int64 of shape (k,), distinct, in 0 .. n - 1."""
    array = np.asarray(value)
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
        raise ValueError(
            f"{name} must name vertices in 0 .. {n - 1}, but entry {outside[0]} is {array[outside[0]]}."
        )
    values, counts = np.unique(array, return_counts=True)
    if len(values) < len(array):
        raise ValueError(f"{name} names vertex {values[counts > 1][0]} more than once; name each once.")
    return array


def _integer_range(minimum: int | None, maximum: int | None) -> str:
    if minimum is not None and maximum is not None:
        return f"from {minimum} to {maximum}"
    return f">= {minimum}" if minimum is not None else f"<= {maximum}"


def _describe(value: Any) -> str:
    """The value and its type, cut short: a whole array in a message helps nobody."""
    text = repr(value)
    if len(text) > 60:
        text = text[:57] + "..."
    return f"{text} of type {type(value).__name__}"
