"""Python values as JSON and arrays, and back: what JSON has as it is, everything else as ``{"$type": ...}``.

Arrays are named after where they stand. Decoding makes values of the types named here and of no others.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from isoweave._typing import AnyArray
from isoweave.graph import NeighborGraph
from isoweave.optimise import StepRecord
from isoweave.persist._format import CODES, StoreError, are_sizes, shown

_TYPE = "$type"
_MAX_DEPTH = 12
_SPARSE_PARTS = {
    "csr": ("data", "indices", "indptr"),
    "csc": ("data", "indices", "indptr"),
    "coo": ("data", "row", "col"),
}
_SPARSE = tuple(f"{layout}_{kind}" for layout in _SPARSE_PARTS for kind in ("array", "matrix"))
_GRAPH = ("indptr", "indices", "lengths")
_STEP = tuple(field.name for field in fields(StepRecord))
# Text in cells of one width may take far more memory than its characters.
_MAX_TEXT_BYTES = 1 << 30


class Encoder:
    """Turns values into JSON and collects the arrays they hold, by name, in ``arrays``."""

    def __init__(self) -> None:
        self.arrays: dict[str, AnyArray] = {}

    def encode(self, value: Any, where: str, depth: int = 0) -> Any:
        """JSON for a value; TypeError with ``where`` it stands if it cannot be stored."""
        if depth > _MAX_DEPTH:
            raise ValueError(f"{where} is nested more than {_MAX_DEPTH} levels deep.")
        if isinstance(value, str):
            return str(value)
        if value is None or type(value) in (bool, int, float):
            if isinstance(value, float) and not math.isfinite(value):
                return {_TYPE: "float", "value": repr(value)}
            if isinstance(value, int) and value.bit_length() > 2048:
                raise ValueError(f"{where} is an integer of {value.bit_length()} bits, more than 2048.")
            return value
        if type(value) is tuple and value and all(type(item) is StepRecord for item in value):
            table = np.array([[getattr(step, name) for name in _STEP] for step in value], dtype=np.float64)
            return {_TYPE: "history", "name": self._add(table, where)}
        if type(value) in (list, tuple):
            items = [self.encode(item, f"{where}.{at}", depth + 1) for at, item in enumerate(value)]
            return items if type(value) is list else {_TYPE: "tuple", "items": items}
        if isinstance(value, dict):
            for key in value:
                if not isinstance(key, str) or key == _TYPE:
                    raise TypeError(f"{where} has the key {shown(key)}, which cannot be stored.")
            return {key: self.encode(item, f"{where}.{key}", depth + 1) for key, item in value.items()}
        if isinstance(value, np.ndarray) and value.dtype.kind in "OU":
            items = value.ravel().tolist()
            for item in items:
                if not isinstance(item, str):
                    reason = f"is an array of objects, {shown(item)} among them: it cannot be stored."
                    raise TypeError(f"{where} {reason}")
            return {_TYPE: "strings", "dtype": value.dtype.kind, "shape": list(value.shape), "items": items}
        if isinstance(value, np.ndarray | np.generic):
            kind = "array" if isinstance(value, np.ndarray) else "scalar"
            return {_TYPE: kind, "name": self._add(np.asarray(value), where)}
        if sp.issparse(value):
            name = type(value).__name__
            if name not in _SPARSE or value.ndim != 2:
                raise TypeError(f"{where} is a sparse {name} and cannot be stored; convert it to csr_array.")
            parts = [self._add(getattr(value, p), f"{where}.{p}") for p in _SPARSE_PARTS[value.format]]
            return {_TYPE: "sparse", "class": name, "shape": [int(n) for n in value.shape], "names": parts}
        if type(value) is NeighborGraph:
            return {_TYPE: "graph", "names": [self._add(getattr(value, p), f"{where}.{p}") for p in _GRAPH]}
        if isinstance(value, np.random.RandomState):
            name, key, pos, has_gauss, gauss = value.get_state()
            if name != "MT19937":
                raise TypeError(f"{where} uses the generator {name} and cannot be stored.")
            # The normal number in waiting is infinite at times, which JSON is not.
            state = {
                "key": key,
                "pos": int(pos),
                "has_gauss": int(has_gauss),
                "gauss": np.array(float(gauss)),
            }
            return {_TYPE: "random_state", "state": self.encode(state, where, depth + 1)}
        kind = "a function" if callable(value) else f"of type {type(value).__name__}"
        raise TypeError(f"{where} is {kind} and cannot be stored: {shown(value)}.")

    def _add(self, value: AnyArray, where: str) -> str:
        if value.dtype.newbyteorder("<").str not in CODES:
            raise TypeError(f"{where} is an array of {value.dtype} and cannot be stored.")
        stem = re.sub(r"[^A-Za-z0-9_.-]", "_", where)[:60].lstrip(".-") or "array"
        name, number = stem, 1
        while name in self.arrays or name == "__metadata__":
            number += 1
            name = f"{stem}-{number}"
        self.arrays[name] = np.asarray(value)  # a memory map is an array like any other
        return name


class Decoder:
    """Makes values from the JSON and the arrays of one store; every array may stand in one place."""

    def __init__(self, path: Path, arrays: Mapping[str, AnyArray]) -> None:
        self._path = path
        self._arrays = dict(arrays)

    def decode(self, value: Any, where: str) -> Any:
        """The value that was encoded; StoreError with ``where`` it stands if it cannot be one."""
        try:
            return self._decode(value, where)
        except StoreError:
            raise
        except (ValueError, TypeError, OverflowError) as error:
            kind = value[_TYPE] if isinstance(value, dict) else "value"
            raise StoreError(self._path, where, f"is not a valid {shown(kind)}: {error!s:.300}") from error

    def _decode(self, value: Any, where: str) -> Any:
        match value:
            case list():
                return [self.decode(item, f"{where}.{at}") for at, item in enumerate(value)]
            case dict() if _TYPE not in value:
                return {k: self.decode(item, f"{where}.{shown(k)[1:-1]}"[:200]) for k, item in value.items()}
            case {"$type": "float", "value": "nan" | "inf" | "-inf" as text}:
                return float(text)
            case {"$type": "tuple", "items": list(items)}:
                return tuple(self.decode(items, where))
            case {"$type": "array", "name": str(name)}:
                return self._take(name)
            case {"$type": "scalar", "name": str(name)}:
                return check_array("it", self._take(name), None, ())[()]
            case {"$type": "strings", "dtype": "O" | "U" as kind, "shape": list(shape), "items": list(items)}:
                return _strings(kind, shape, items)
            case {"$type": "history", "name": str(name)}:
                return _history(self._take(name))
            case {"$type": "graph", "names": [str(), str(), str()] as names}:
                return _graph(*map(self._take, names))
            case {
                "$type": "sparse",
                "class": str(name),
                "shape": list(shape),
                "names": [str(), str(), str()],
            }:
                return _sparse(name, shape, *map(self._take, value["names"]))
            case {"$type": "random_state", "state": dict(state)}:
                return _random_state(**self.decode(state, where))
            case {"$type": kind}:
                raise StoreError(self._path, where, f"unknown type {shown(kind)}, or incomplete")
        return value

    def _take(self, name: str) -> AnyArray:
        if name not in self._arrays:
            raise ValueError(f"there is no array {shown(name)}, or it is used elsewhere")
        return self._arrays.pop(name)


def check_array(name: str, value: Any, kinds: Any, shape: tuple[int | None, ...]) -> AnyArray:
    """Raise unless ``value`` is an array of one of these types (None: any) and of this shape (None: any)."""
    if not isinstance(value, np.ndarray) or not (kinds is None or value.dtype in kinds):
        wanted = " or ".join(np.dtype(kind).name for kind in kinds or ())
        raise ValueError(f"{name} must be an array of {wanted}, found {getattr(value, 'dtype', type(value))}")
    if value.ndim != len(shape) or any(w not in (None, n) for w, n in zip(shape, value.shape, strict=True)):
        raise ValueError(f"{name} must have the shape {shape}, found {value.shape}")
    return value


def check_indices(name: str, indices: AnyArray, n: int) -> None:
    """Raise unless all indices point into ``n`` things."""
    if indices.size and (indices.min() < 0 or indices.max() >= n):
        raise ValueError(f"{name} must lie in 0 .. {n - 1}, found {indices.min()} to {indices.max()}")


def _strings(kind: str, shape: list[Any], items: list[Any]) -> AnyArray:
    if not are_sizes(shape) or math.prod(shape) != len(items) or not all(isinstance(i, str) for i in items):
        raise ValueError(f"{len(items)} items are not texts of shape {shown(shape)}")
    made = np.empty(len(items), dtype=object)
    made[:] = items
    if kind == "O":
        return made.reshape(shape)
    if 4 * max(map(len, items), default=0) * len(items) > _MAX_TEXT_BYTES:
        raise ValueError(f"cells as wide as the longest text take more than {_MAX_TEXT_BYTES:,} bytes")
    return made.astype(str).reshape(shape)


def _history(table: AnyArray) -> tuple[StepRecord, ...]:
    check_array("the table", table, (np.float64,), (None, len(_STEP)))
    numbers = table[:, 0]
    if not np.isfinite(numbers).all() or (numbers != np.floor(numbers)).any():
        raise ValueError("steps must have whole numbers")
    return tuple(StepRecord(int(row[0]), *row[1:]) for row in table.tolist())


def _check_pointers(indptr: AnyArray, n: int, n_indices: int) -> None:
    ends = (indptr[0], indptr[-1]) if len(indptr) == n + 1 else None
    if ends != (0, n_indices) or (np.diff(indptr) < 0).any():
        raise ValueError(f"indptr must rise from 0 to {n_indices} in {n + 1} values")


def _sparse(name: str, shape: list[Any], data: AnyArray, inner: AnyArray, outer: AnyArray) -> Any:
    if name not in _SPARSE or not are_sizes(shape) or len(shape) != 2:
        raise ValueError(f"there is no {shown(name)} of shape {shown(shape)}")
    wanted = _SPARSE_PARTS[name[:3]]
    check_array("data", data, None, (None,))
    check_array(wanted[1], inner, (np.int32, np.int64), data.shape)
    check_array(wanted[2], outer, (np.int32, np.int64), (None,))
    if name.startswith("coo"):
        check_array("col", outer, None, data.shape)
        check_indices("row", inner, shape[0])
        check_indices("col", outer, shape[1])
        made = getattr(sp, name)((data, (inner, outer)), shape=tuple(shape))
    else:
        n_outer, n_inner = shape if name.startswith("csr") else shape[::-1]
        _check_pointers(outer, n_outer, len(data))
        check_indices("indices", inner, n_inner)
        made = getattr(sp, name)((data, inner, outer), shape=tuple(shape))
    # The constructor narrows indices where it can; what was stored comes back as it was.
    setattr(made, wanted[1], inner)
    setattr(made, wanted[2], outer)
    return made


def _graph(indptr: AnyArray, indices: AnyArray, lengths: AnyArray) -> NeighborGraph:
    """A graph as :class:`NeighborGraph` promises it: kernels trust that."""
    check_array("indptr", indptr, (np.int32,), (None,))
    check_array("indices", indices, (np.int32,), (None,))
    check_array("lengths", lengths, (np.float64,), indices.shape)
    n = len(indptr) - 1
    _check_pointers(indptr, max(n, 0), len(indices))
    check_indices("indices", indices, n)
    graph = NeighborGraph(indptr, indices, lengths)
    sources = graph.sources
    is_row_start = np.diff(sources, prepend=-1) != 0
    if ((np.diff(indices, prepend=-1) <= 0) & ~is_row_start).any():
        raise ValueError("indices must rise within every row")
    if (indices == sources).any():
        raise ValueError(f"vertex {sources[indices == sources][0]} is joined to itself")
    reverse = graph.reverse
    if not np.array_equal(indices[reverse], sources) or not np.array_equal(sources[reverse], indices):
        raise ValueError("an edge is stored in one direction only")
    if not np.isfinite(lengths).all() or (lengths < 0).any() or (lengths[reverse] != lengths).any():
        raise ValueError("lengths must be finite, not negative, and the same in both directions")
    return graph


def _random_state(key: Any, pos: Any, has_gauss: Any, gauss: Any) -> np.random.RandomState:
    check_array("key", key, (np.uint32,), (624,))
    check_array("gauss", gauss, (np.float64,), ())
    # numpy trusts the position: outside the key it would read foreign memory.
    if type(pos) is not int or not 0 <= pos <= len(key) or has_gauss not in (0, 1):
        raise ValueError(
            f"a state of 624 words cannot be at position {shown(pos)}, or has_gauss {shown(has_gauss)}"
        )
    made = np.random.RandomState(0)
    made.set_state(("MT19937", key, pos, int(has_gauss), float(gauss)))
    return made
