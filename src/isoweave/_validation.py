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

    Parameters
    ----------
    name : str
        Name of the parameter, for the message.
    value : object
        Python or numpy integer. Booleans, floats (even whole ones) and strings are refused.
    minimum, maximum : int or None
        Bounds, both inclusive.

    Returns
    -------
    int

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

    Parameters
    ----------
    name : str
        Name of the parameter, for the message.
    value : object
        Python or numpy integer or float. Booleans, complex numbers and strings are refused.
    minimum, maximum : float or None
        Bounds.
    include_minimum, include_maximum : bool
        Whether the bound itself is allowed.

    Returns
    -------
    float

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

    Parameters
    ----------
    name : str
        Name of the parameter, for the message.
    value : object
        What the user passed.
    options : iterable of str
        Allowed values, in the order the message should list them.

    Returns
    -------
    str

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
