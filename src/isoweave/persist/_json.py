"""JSON of a stranger: bounded size and depth, no repeated keys, only numbers that JSON has."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from typing import Any, NoReturn

import numpy as np

from isoweave.persist._errors import shown

MAX_BYTES = 4 << 20
MAX_DEPTH = 64

# A string that is never closed goes on to the end, so that every byte is looked at once.
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)', re.DOTALL)
# What int() and float() take without ever becoming slow.
_MAX_DIGITS = 1000


def parse_json(data: bytes) -> Any:
    """The value a text holds.

    Raises
    ------
    ValueError
        With the reason; never anything else, whatever the bytes are.
    """
    if len(data) > MAX_BYTES:
        raise ValueError(f"{len(data):,} bytes of JSON, more than {MAX_BYTES:,}")
    depth = _depth(data)
    if depth > MAX_DEPTH:
        raise ValueError(f"nested {depth} levels deep, more than {MAX_DEPTH}")
    try:
        return json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_object,
            parse_constant=_constant,
            parse_float=_float,
            parse_int=_int,
        )
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 at byte {error.start}") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at line {error.lineno}, column {error.colno}") from error


def dump_json(value: Any) -> bytes:
    """Text that :func:`parse_json` reads back as the same value; the same value gives the same bytes."""
    data = json.dumps(value, indent=1, allow_nan=False).encode("ascii") + b"\n"
    if len(data) > MAX_BYTES or _depth(data) > MAX_DEPTH:
        raise ValueError(
            f"{len(data):,} bytes of JSON, {_depth(data)} levels deep: more than the {MAX_BYTES:,} bytes and "
            f"{MAX_DEPTH} levels a manifest may have; hold long lists as arrays."
        )
    return data


def _depth(data: bytes) -> int:
    """Deepest nesting of brackets outside strings, found before any parser recurses into them."""
    text = np.frombuffer(_STRING.sub(b"", data), dtype=np.uint8)
    opened = (text == ord("[")) | (text == ord("{"))
    closed = (text == ord("]")) | (text == ord("}"))
    return int(np.cumsum(opened.astype(np.int64) - closed).max(initial=0))


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"key {shown(twice)} is given twice")
    return found


def _constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def _int(text: str) -> int:
    if len(text) > _MAX_DIGITS:
        raise ValueError(f"number of {len(text)} digits")
    return int(text)


def _float(text: str) -> float:
    value = float(text) if len(text) <= _MAX_DIGITS else math.inf
    if not math.isfinite(value):
        raise ValueError(f"number {text[:30]} is too large or too long")
    return value
