"""Python values as JSON and arrays: what JSON has as it is, everything else as an object with ``$type``.

Arrays are named after where they stand and go into a table beside the JSON. The way back is in ``_decode``.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import scipy.sparse as sp

from isoweave._typing import AnyArray
from isoweave.optimise import StepRecord
from isoweave.persist._errors import shown
from isoweave.persist._manifest import DTYPES
from isoweave.persist._npy import stored_dtype
from isoweave.persist._records import RECORDS

TYPE = "$type"
# How often one array may be referred to: a small manifest must not make a reader work through a large array
# thousands of times.
MAX_USES = 8
_MAX_DEPTH = 12
NUMPY_SCALARS = frozenset(DTYPES) - {"<c8", "<c16"}
SPARSE_PARTS = {
    "csr": ("data", "indices", "indptr"),
    "csc": ("data", "indices", "indptr"),
    "coo": ("data", "row", "col"),
}
SPARSE_CLASSES = {
    f"{layout}_{kind}": getattr(sp, f"{layout}_{kind}")
    for layout in SPARSE_PARTS
    for kind in ("array", "matrix")
}


class Encoder:
    """Turns values into JSON and collects the arrays they hold.

    Attributes
    ----------
    arrays : dict of str to array
        An array met again, under any name, is kept once.
    """

    def __init__(self) -> None:
        self.arrays: dict[str, AnyArray] = {}
        self._names: dict[tuple[Any, ...], str] = {}
        self._uses: Counter[str] = Counter()
        self._taken: set[str] = set()

    def encode(self, value: Any, where: str, depth: int = 0) -> Any:
        """JSON for a value.

        Parameters
        ----------
        value : object
        where : str
            Name of the parameter or attribute, for arrays and messages.

        Raises
        ------
        TypeError
            The value has no stored form; the message says where it stands.
        """
        if depth > _MAX_DEPTH:
            raise ValueError(f"{where} is nested more than {_MAX_DEPTH} levels deep.")
        if value is None or isinstance(value, str) or type(value) in (bool, int, float):
            return self._plain(value, where)
        if isinstance(value, np.generic):
            return self._numpy_scalar(value, where)
        if isinstance(value, np.ndarray):
            return self._array(value, where)
        if sp.issparse(value):
            return self._sparse(value, where)
        if isinstance(value, np.random.RandomState):
            return self._random_state(value, where)
        if isinstance(value, tuple) and value and all(type(item) is StepRecord for item in value):
            return self._steps(value, where)
        if type(value) in (list, tuple):
            items = [self.encode(item, f"{where}.{at}", depth + 1) for at, item in enumerate(value)]
            return items if isinstance(value, list) else {TYPE: "tuple", "items": items}
        if isinstance(value, dict):
            return self._dict(value, where, depth)
        record = next((r for r in RECORDS.values() if type(value) is r.type), None)
        if record is not None:
            parts = {
                field.name: self.encode(getattr(value, field.name), f"{where}.{field.name}", depth + 1)
                for field in fields(record.type)
            }
            return {TYPE: "record", "class": record.name, "fields": parts}
        kind = "a function" if callable(value) else f"of type {type(value).__name__}"
        raise TypeError(f"{where} is {kind} and cannot be stored: {shown(value)}.")

    def _plain(self, value: Any, where: str) -> Any:
        if isinstance(value, str):
            return str(value)
        if isinstance(value, float) and not math.isfinite(value):
            return {TYPE: "float", "value": repr(value)}
        if isinstance(value, int) and value.bit_length() > 2048:
            raise ValueError(f"{where} is an integer of {value.bit_length()} bits, more than 2048.")
        return value

    def _numpy_scalar(self, value: np.generic, where: str) -> Any:
        if isinstance(value, np.str_):
            return str(value)
        dtype = value.dtype.newbyteorder("<").str
        if dtype not in NUMPY_SCALARS:
            raise TypeError(f"{where} is a numpy scalar of type {value.dtype} and cannot be stored.")
        return {TYPE: "numpy", "dtype": dtype, "value": self._plain(value.item(), where)}

    def _array(self, value: AnyArray, where: str) -> Any:
        if value.dtype.kind in "OU":
            return self._strings(value, where)
        return {TYPE: "array", "name": self._add(value, where)}

    def _add(self, value: AnyArray, where: str) -> str:
        if stored_dtype(value) not in DTYPES:
            raise TypeError(f"{where} is an array of {value.dtype} and cannot be stored.")
        value = np.asarray(value)  # a memory map is an array like any other
        key = (value.__array_interface__["data"][0], value.shape, value.strides, value.dtype.str)
        known = self._names.get(key)
        if value.size and known is not None and self._uses[known] < MAX_USES:
            self._uses[known] += 1
            return known
        stem = re.sub(r"[^A-Za-z0-9_.-]", "_", where)[:60].lstrip(".-") or "array"
        name, number = stem, 1
        while name.lower() in self._taken:
            number += 1
            name = f"{stem}-{number}"
        self._taken.add(name.lower())
        self.arrays[name] = value
        self._names[key] = name
        self._uses[name] = 1
        return name

    def _strings(self, value: AnyArray, where: str) -> Any:
        """Text of any length as UTF-8 and the positions where each string ends."""
        items = value.ravel().tolist()
        wrong = next((item for item in items if not isinstance(item, str)), None)
        if wrong is not None:
            raise TypeError(
                f"{where} is an array of objects, {shown(wrong)} among them: it cannot be stored."
            )
        encoded = [item.encode("utf-8", "surrogatepass") for item in items]
        ends = np.cumsum([len(item) for item in encoded], dtype=np.int64)
        if value.dtype.kind == "U":
            check_width(items, int(ends[-1]) if len(ends) else 0)
        return {
            TYPE: "strings",
            "dtype": value.dtype.kind,
            "shape": list(value.shape),
            "bytes": self._add(np.frombuffer(b"".join(encoded), dtype=np.uint8), f"{where}.bytes"),
            "ends": self._add(ends, f"{where}.ends"),
        }

    def _sparse(self, value: Any, where: str) -> Any:
        name = type(value).__name__
        if name not in SPARSE_CLASSES or value.ndim != 2:
            raise TypeError(f"{where} is a sparse {name} and cannot be stored; convert it to csr_array.")
        parts = {
            part: self._add(getattr(value, part), f"{where}.{part}") for part in SPARSE_PARTS[value.format]
        }
        return {TYPE: "sparse", "class": name, "shape": [int(size) for size in value.shape], "arrays": parts}

    def _random_state(self, value: np.random.RandomState, where: str) -> Any:
        state: Any = value.get_state(legacy=False)
        if state["bit_generator"] != "MT19937":
            raise TypeError(f"{where} uses the generator {state['bit_generator']} and cannot be stored.")
        return {
            TYPE: "random_state",
            "key": self._add(state["state"]["key"], f"{where}.key"),
            "pos": int(state["state"]["pos"]),
            "has_gauss": int(state["has_gauss"]),
            "gauss": self._plain(float(state["gauss"]), where),
        }

    def _steps(self, value: tuple[StepRecord, ...], where: str) -> Any:
        names = [field.name for field in fields(StepRecord)]
        table = np.array([[getattr(step, name) for name in names] for step in value], dtype=np.float64)
        return {TYPE: "steps", "fields": names, "table": self._add(table, where)}

    def _dict(self, value: dict[Any, Any], where: str, depth: int) -> Any:
        for key in value:
            if not isinstance(key, str) or key == TYPE:
                raise TypeError(f"{where} has the key {shown(key)}, which cannot be stored.")
        return {key: self.encode(item, f"{where}.{key}", depth + 1) for key, item in value.items()}


def check_width(items: Sequence[str], n_bytes: int) -> None:
    """Refuse an array of fixed-width text that is 100 times larger than its text: one string is too long."""
    longest = max(map(len, items), default=0)
    if longest * len(items) > 100 * n_bytes + 10_000:
        raise ValueError(
            f"one of {len(items)} strings has {longest} characters, and every cell is made as wide; "
            "use an array of objects (dtype=object)."
        )
