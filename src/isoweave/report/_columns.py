"""Columns to colour by: those of the user, and what is known about the map itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from isoweave._typing import AnyArray, FloatArray
from isoweave.plot import main_stretch, natural_levels, vertex_errors, whole_classes
from isoweave.result import Embedding


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
    if columns is None:
        return []
    if hasattr(columns, "iter_columns"):  # polars
        pairs: Any = ((column.name, column.to_numpy()) for column in columns.iter_columns())
    elif hasattr(columns, "items"):
        pairs = columns.items()
    else:
        raise TypeError(
            f"columns must be a mapping of names to arrays or a data frame, got {type(columns).__name__}; "
            "a single column is columns={'label': labels}."
        )
    found: dict[str, Column] = {}
    for name, values in pairs:
        if str(name) in found:
            raise ValueError(f"Two columns are named {str(name)!r}.")
        found[str(name)] = _column(str(name), values, n)
    return list(found.values())


def _column(name: str, given: Any, n: int) -> Column:
    values = np.asarray(given)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1 or len(values) != n:
        raise ValueError(f"Column {name!r} must have shape ({n},), got {values.shape}.")
    if values.dtype.kind == "c":
        raise TypeError(f"Column {name!r} holds complex numbers; give their real and imaginary parts.")
    if values.dtype.kind in "iuf":
        return _numbers(name, values)
    entries = [None if _is_missing(value) else value for value in values.tolist()]
    is_number = [isinstance(value, int | float | None) and not isinstance(value, bool) for value in entries]
    if values.dtype.kind == "O" and all(is_number):
        return _numbers(name, np.array(entries, dtype=float))
    words = np.array(["" if value is None else _as_word(value) for value in entries])
    levels, codes = natural_levels(words)
    # An empty word is a missing one, and the first of all.
    empty = int("" in levels[:1])
    return Column(name, codes - empty, tuple(levels[empty:]))


def _numbers(name: str, values: AnyArray) -> Column:
    """Numbers, or classes where there are few distinct ones and all are whole."""
    classes = whole_classes(values)
    if classes is not None:
        return Column(name, classes[0], tuple(classes[1]))
    as_float = values.astype(np.float64)
    as_float[~np.isfinite(as_float)] = np.nan
    return Column(name, as_float)


def _is_missing(value: Any) -> bool:
    """None, NaN and what pandas has for missing values: unequal to itself, or no truth value at all."""
    try:
        return value is None or bool(value != value)
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
        classes = _numbers("component", np.asarray(source.component_labels))
        add("component", classes.values, levels=classes.levels)
    if source.graph is not None:
        add("degree", source.graph.degrees.astype(np.float64))
    return found
