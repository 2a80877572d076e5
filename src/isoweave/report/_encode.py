"""Arrays as compact text that a browser turns into typed arrays."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np

from isoweave._typing import AnyArray

# Largest rounding error, as part of the range of the values, with which numbers are stored in 32 bits:
# nothing that can be seen on a screen or read in a table of six digits.
_FINE = 1e-7


def encode(array: AnyArray) -> dict[str, str]:
    """Type and base64 text of an array of int16, int32, float32 or float64, little-endian."""
    kind = f"{array.dtype.kind}{array.dtype.itemsize}"
    little = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
    return {"type": kind, "base64": base64.b64encode(little.tobytes()).decode("ascii")}


def encode_numbers(values: AnyArray) -> dict[str, str]:
    """Real numbers in 32 bits where that is fine enough, otherwise in 64."""
    values = np.asarray(values, dtype=np.float64)
    known = values[np.isfinite(values)]
    if len(known) == 0:
        return encode(values.astype(np.float32))
    with np.errstate(over="ignore", invalid="ignore"):
        short = known.astype(np.float32)
        spread = float(known.max() - known.min()) or abs(float(known[0]))
        error = float(np.max(np.abs(short.astype(np.float64) - known)))
        return encode(values.astype(np.float32) if error <= _FINE * spread else values)


def encode_codes(codes: AnyArray) -> dict[str, str]:
    """Integers from -1 upwards in 16 bits where they fit, otherwise in 32."""
    return encode(codes.astype(np.int16 if codes.max(initial=0) < 2**15 else np.int32))


def embed_json(data: Any) -> str:
    """JSON that can stand inside a script element: no character of it can end the element."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
