"""Columns that points can be coloured by."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from isoweave._typing import AnyArray, FloatArray
from isoweave.plot import main_stretch, vertex_errors
from isoweave.result import Embedding

# Whole numbers of so few distinct values are labels rather than quantities.
_MOST_CLASSES = 20


@dataclass(frozen=True, eq=False)
class Column:
    """One property of every point: numbers, NaN where missing, or codes of levels, -1 where missing."""

    name: str
    values: AnyArray
    levels: tuple[str, ...] | None = None
    # Numbers around 1, drawn on a logarithmic scale with 1 in the middle.
    is_ratio: bool = False


def user_columns(columns: Any, n: int) -> list[Column]:
    """Columns from a mapping or a data frame of pandas or polars, checked."""
    return [_column(name, values, n) for name, values in _items(columns)]


def _items(columns: Any) -> Iterator[tuple[str, Any]]:
    if columns is None:
        return
    if hasattr(columns, "iter_columns"):  # polars
        pairs: Any = ((column.name, column.to_numpy()) for column in columns.iter_columns())
    elif hasattr(columns, "items"):
        pairs = columns.items()
    else:
        raise TypeError(
            f"columns must be a mapping of names to arrays or a data frame, got {type(columns).__name__}; "
            "a single column is columns={'label': labels}."
        )
    seen: set[str] = set()
    for name, values in pairs:
        if str(name) in seen:
            raise ValueError(f"Two columns are named {str(name)!r}.")
        seen.add(str(name))
        yield str(name), values


def _column(name: str, given: Any, n: int) -> Column:
    values = np.asarray(given)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1 or len(values) != n:
        raise ValueError(f"Column {name!r} must have shape ({n},), got {values.shape}.")
    if values.dtype.kind in "iuf":
        return _numbers(name, values)
    if values.dtype.kind == "O" and all(_is_number(value) or _is_missing(value) for value in values.tolist()):
        return _numbers(
            name, np.array([np.nan if _is_missing(v) else v for v in values.tolist()], dtype=float)
        )
    if values.dtype.kind == "c":
        raise TypeError(f"Column {name!r} holds complex numbers; give their real and imaginary parts.")
    missing = np.array([_is_missing(value) for value in values.tolist()], dtype=bool)
    words = np.array(["" if gone else _as_word(value) for gone, value in zip(missing, values, strict=True)])
    missing |= words == ""
    levels, codes = np.unique(words[~missing], return_inverse=True)
    placed = np.full(n, -1, dtype=np.int64)
    placed[~missing] = codes.reshape(-1)
    return Column(name, placed, tuple(str(level) for level in levels))


def _numbers(name: str, values: AnyArray) -> Column:
    """Numbers, or classes where there are few distinct ones and all are whole."""
    as_float = values.astype(np.float64)
    as_float[~np.isfinite(as_float)] = np.nan
    known = as_float[~np.isnan(as_float)]
    levels = np.unique(known) if len(known) else known
    if 0 < len(levels) <= _MOST_CLASSES and np.all(levels == np.round(levels)):
        codes = np.where(np.isnan(as_float), -1, np.searchsorted(levels, as_float))
        return Column(name, codes, tuple(f"{level:.0f}" for level in levels))
    return Column(name, as_float)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_missing(value: Any) -> bool:
    """None, NaN and what pandas has for missing values: unequal to itself, or no truth value at all."""
    if value is None:
        return True
    try:
        return bool(value != value)
    except (TypeError, ValueError):
        return True


def _as_word(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def map_columns(
    source: Embedding,
    misfit: FloatArray | None,
    stretch: FloatArray | None,
    curvature: FloatArray | None,
    taken: set[str],
) -> list[Column]:
    """What is known about the map itself, by names that are not taken."""
    found: list[Column] = []

    def add(name: str, values: AnyArray, **options: Any) -> None:
        found.append(Column(f"{name} (map)" if name in taken else name, values, **options))

    if stretch is not None:
        add("stretch", np.where(source.is_placed, main_stretch(stretch), np.nan), is_ratio=True)
    if misfit is not None:
        add("misfit", misfit)
    if source.graph is not None:
        add("edge error", vertex_errors(source.kept_graph("edge error"), source.coordinates))
    if curvature is not None and np.isfinite(curvature).any():
        add("curvature", np.where(np.isfinite(curvature), curvature, np.nan))
    if source.component_labels is not None and np.max(source.component_labels, initial=0) > 0:
        labels = np.asarray(source.component_labels)
        if labels.max() < _MOST_CLASSES:
            add("component", labels, levels=tuple(str(c) for c in range(int(labels.max()) + 1)))
        else:
            add("component", labels.astype(np.float64))
    if source.graph is not None:
        add("degree", source.graph.degrees.astype(np.float64))
    return found
