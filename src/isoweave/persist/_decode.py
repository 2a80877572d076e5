"""JSON and arrays of a store as Python values: only of types named here, so that loading makes no other."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import numpy as np

from isoweave._typing import AnyArray
from isoweave.optimise import StepRecord
from isoweave.persist._encode import MAX_USES, NUMPY_SCALARS, SPARSE_CLASSES, SPARSE_PARTS, TYPE, check_width
from isoweave.persist._errors import StoreError, shown
from isoweave.persist._records import RECORDS, check_array

_FLOATS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_MT19937_WORDS = 624


class Decoder:
    """Makes values from the JSON and the arrays of one store.

    Parameters
    ----------
    path : pathlib.Path
        For messages.
    arrays : mapping of str to array
    is_newer : bool
        The store is of a newer minor version: fields unknown to us are optional, and left out.
    """

    def __init__(self, path: Path, arrays: Mapping[str, AnyArray], *, is_newer: bool = False) -> None:
        self._path = path
        self._is_newer = is_newer
        self._uses: Counter[str] = Counter()
        self._arrays = arrays
        self._makers = {
            "array": (self._array, ("name",)),
            "float": (self._float, ("value",)),
            "numpy": (self._numpy_scalar, ("dtype", "value")),
            "random_state": (self._random_state, ("key", "pos", "has_gauss", "gauss")),
            "record": (self._record, ("class", "fields")),
            "sparse": (self._sparse, ("class", "shape", "arrays")),
            "steps": (self._steps, ("fields", "table")),
            "strings": (self._strings, ("dtype", "shape", "bytes", "ends")),
            "tuple": (self._tuple, ("items",)),
        }

    def decode(self, value: Any, where: str) -> Any:
        """The value that was encoded; StoreError with ``where`` if it cannot be one."""
        if isinstance(value, list):
            return [self.decode(item, f"{where}.{at}") for at, item in enumerate(value)]
        if not isinstance(value, dict):
            return value
        if TYPE not in value:
            return {key: self.decode(item, f"{where}.{key}"[:200]) for key, item in value.items()}
        kind = value[TYPE]
        if not isinstance(kind, str) or kind not in self._makers:
            raise self.error(where, f"unknown type {shown(kind)}; a newer isoweave may know it")
        make, wanted = self._makers[kind]
        if set(value) != {TYPE, *wanted}:
            raise self.error(
                where, f"a {kind} has the fields {', '.join(wanted)}, found {shown(list(value))}"
            )
        try:
            return make(value, where)
        except StoreError:
            raise
        except (ValueError, TypeError, OverflowError) as error:
            raise self.error(where, f"is no valid {kind}: {error!s:.300}") from error

    def error(self, where: str, reason: str) -> StoreError:
        return StoreError(self._path, where, reason)

    def _named(self, name: Any) -> AnyArray:
        if not isinstance(name, str) or name not in self._arrays:
            raise ValueError(f"there is no array {shown(name)}")
        self._uses[name] += 1
        if self._uses[name] > MAX_USES:
            raise ValueError(f"array {name!r} is used more than {MAX_USES} times")
        return self._arrays[name]

    def _array(self, value: dict[str, Any], where: str) -> AnyArray:
        return self._named(value["name"])

    def _float(self, value: dict[str, Any], where: str) -> float:
        text = value["value"]
        if not isinstance(text, str) or text not in _FLOATS:
            raise ValueError(f"must be nan, inf or -inf, found {shown(text)}")
        return _FLOATS[text]

    def _tuple(self, value: dict[str, Any], where: str) -> tuple[Any, ...]:
        if not isinstance(value["items"], list):
            raise ValueError(f"items must be a list, found {shown(value['items'])}")
        return tuple(self.decode(value["items"], where))

    def _numpy_scalar(self, value: dict[str, Any], where: str) -> np.generic:
        if not isinstance(value["dtype"], str) or value["dtype"] not in NUMPY_SCALARS:
            raise ValueError(f"unknown dtype {shown(value['dtype'])}")
        dtype = np.dtype(value["dtype"]).newbyteorder("=")
        plain = self.decode(value["value"], where)
        wanted = {"b": bool, "i": int, "u": int, "f": float}[dtype.kind]
        if type(plain) is not wanted:
            raise ValueError(f"{shown(plain)} is no {dtype}")
        made: np.generic = dtype.type(plain)
        if made.item() != plain and plain == plain:
            raise ValueError(f"{shown(plain)} is no {dtype}")
        return made

    def _strings(self, value: dict[str, Any], where: str) -> AnyArray:
        text, ends = self._named(value["bytes"]), self._named(value["ends"])
        check_array("bytes", text, np.uint8, 1)
        check_array("ends", ends, np.int64, 1)
        starts = np.concatenate([[0], ends[:-1]]) if len(ends) else ends
        if (starts > ends).any() or (ends[-1] if len(ends) else 0) != len(text) or (ends < 0).any():
            raise ValueError("the ends of the strings must rise to the number of bytes")
        joined = text.tobytes()
        items = [
            joined[start:end].decode("utf-8", "surrogatepass")
            for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
        ]
        shape = self._shape(value["shape"], len(items))
        if value["dtype"] == "O":
            made = np.empty(len(items), dtype=object)
            made[:] = items
            return made.reshape(shape)
        if value["dtype"] != "U":
            raise ValueError(f"unknown dtype {shown(value['dtype'])}")
        check_width(items, len(text))
        return np.array(items, dtype=str).reshape(shape)

    def _shape(self, found: Any, size: int | None = None) -> tuple[int, ...]:
        if (
            not isinstance(found, list)
            or len(found) > 32
            or not all(type(part) is int and 0 <= part < 1 << 62 for part in found)
            or (size is not None and math.prod(found) != size)
        ):
            raise ValueError(f"{shown(found)} is no shape of it")
        return tuple(found)

    def _sparse(self, value: dict[str, Any], where: str) -> Any:
        name = value["class"]
        if not isinstance(name, str) or name not in SPARSE_CLASSES:
            raise ValueError(f"unknown class {shown(name)}")
        shape = self._shape(value["shape"])
        wanted = SPARSE_PARTS[name[:3]]
        if len(shape) != 2 or not isinstance(value["arrays"], dict) or set(value["arrays"]) != set(wanted):
            raise ValueError(f"a {name} has two sizes and the arrays {', '.join(wanted)}")
        data, *index = (self._named(value["arrays"][part]) for part in wanted)
        for part, array in zip(wanted[1:], index, strict=True):
            if array.ndim != 1 or array.dtype not in (np.int32, np.int64):
                raise ValueError(f"{part} must be a 1-D array of int32 or int64, found {array.dtype}")
        if data.ndim != 1 or len(data) != len(index[0]):
            raise ValueError("data and indices must be 1-D and of one length")
        bounds = {"csr": (shape[1],), "csc": (shape[0],), "coo": shape}[name[:3]]
        for part, array, limit in zip(wanted[1:], index, bounds, strict=False):
            if len(array) and (array.min() < 0 or array.max() >= limit):
                raise ValueError(f"{part} must lie in 0 .. {limit - 1}, found {array.min()} to {array.max()}")
        if name.startswith("coo"):
            if len(index[1]) != len(data):
                raise ValueError("row and col must be of one length")
            made = SPARSE_CLASSES[name]((data, tuple(index)), shape=shape)
        else:
            n_major = shape[0] if name.startswith("csr") else shape[1]
            pointer = index[1]
            if (
                len(pointer) != n_major + 1
                or pointer[0] != 0
                or pointer[-1] != len(data)
                or (np.diff(pointer) < 0).any()
            ):
                raise ValueError(f"indptr must rise from 0 to {len(data)} in {n_major + 1} values")
            made = SPARSE_CLASSES[name]((data, index[0], pointer), shape=shape)
        # The constructor narrows indices where it can; what was stored comes back as it was.
        for part, array in zip(wanted[1:], index, strict=True):
            setattr(made, part, array)
        return made

    def _record(self, value: dict[str, Any], where: str) -> Any:
        name = value["class"]
        if not isinstance(name, str) or name not in RECORDS:
            raise ValueError(f"unknown class {shown(name)}")
        record = RECORDS[name]
        made = record.type(**self.fields(record.type, value["fields"], where))
        record.check(made)
        return made

    def fields(self, type_: type, found: Any, where: str) -> dict[str, Any]:
        """Decoded values for a data class; what it has gained since, with a default, may be missing."""
        if not isinstance(found, dict):
            raise self.error(where, f"must be an object, found {shown(found)}")
        known = {field.name: field for field in fields(type_)}
        for name in found:
            if name not in known and not self._is_newer:
                raise self.error(where, f"{type_.__name__} has no field {shown(name)}")
        for name, field in known.items():
            if name not in found and field.default is MISSING and field.default_factory is MISSING:
                raise self.error(f"{where}.{name}", "is missing")
        return {name: self.decode(found[name], f"{where}.{name}") for name in known if name in found}

    def _steps(self, value: dict[str, Any], where: str) -> tuple[StepRecord, ...]:
        table, names = self._named(value["table"]), value["fields"]
        check_array("the table", table, np.float64, 2)
        known = {field.name: field for field in fields(StepRecord)}
        if not isinstance(names, list) or len(names) != table.shape[1]:
            raise ValueError(f"the table has {table.shape[1]} columns, the fields are {shown(names)}")
        for at, name in enumerate(names):
            is_known = isinstance(name, str) and (name in known or self._is_newer)
            if not is_known or name in names[:at]:
                raise ValueError(f"unknown or repeated field {shown(name)}")
        missing = [name for name, field in known.items() if name not in names and field.default is MISSING]
        if missing:
            raise ValueError(f"field {missing[0]!r} is missing")
        casts: dict[str, Callable[[float], Any]] = {
            name: _whole if field.type in ("int", int) else float for name, field in known.items()
        }
        return tuple(
            StepRecord(**{name: casts[name](x) for name, x in zip(names, row, strict=True) if name in casts})
            for row in table.tolist()
        )

    def _random_state(self, value: dict[str, Any], where: str) -> np.random.RandomState:
        key = self._named(value["key"])
        check_array("key", key, np.uint32, 1)
        pos, has_gauss, gauss = value["pos"], value["has_gauss"], self.decode(value["gauss"], where)
        # numpy trusts the position: outside the key it would read foreign memory.
        if len(key) != _MT19937_WORDS or type(pos) is not int or not 0 <= pos <= _MT19937_WORDS:
            raise ValueError(f"the state has {len(key)} words and stands at {shown(pos)}")
        if type(has_gauss) is not int or has_gauss not in (0, 1) or type(gauss) is not float:
            raise ValueError("the state holds a number that is none")
        made = np.random.RandomState(0)
        made.set_state(("MT19937", key, pos, has_gauss, gauss))
        return made


def _whole(value: float) -> int:
    if not math.isfinite(value) or value != int(value):
        raise ValueError(f"{value} is no whole number")
    return int(value)
