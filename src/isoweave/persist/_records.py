"""Data classes that may stand in a store, each with the check that makes a stranger's copy safe to use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from isoweave._typing import AnyArray
from isoweave.graph import NeighborGraph
from isoweave.optimise import StepRecord


@dataclass(frozen=True)
class Record:
    """A data class: its name in stores, which never changes, and what must hold for its fields.

    ``check`` raises ValueError. It must leave nothing by which a compiled kernel could read outside an array.
    """

    name: str
    type: type
    check: Callable[[Any], None]


def check_array(name: str, value: Any, dtype: Any, ndim: int) -> None:
    """Raise unless ``value`` is an array of that type and number of dimensions."""
    if not isinstance(value, np.ndarray) or value.dtype != dtype or value.ndim != ndim:
        found = (
            f"{value.dtype} of shape {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__
        )
        raise ValueError(f"{name} must be a {ndim}-D array of {np.dtype(dtype)}, found {found}")


def check_graph(graph: NeighborGraph) -> None:
    """Raise unless the arrays are a graph as :class:`NeighborGraph` promises."""
    check_array("indptr", graph.indptr, np.int32, 1)
    check_array("indices", graph.indices, np.int32, 1)
    check_array("lengths", graph.lengths, np.float64, 1)
    indptr, indices, lengths = graph.indptr, graph.indices, graph.lengths
    if len(indptr) < 1 or indptr[0] != 0 or indptr[-1] != len(indices) or (np.diff(indptr) < 0).any():
        raise ValueError(f"indptr must rise from 0 to {len(indices)}, the number of indices")
    if len(lengths) != len(indices):
        raise ValueError(f"{len(lengths)} lengths for {len(indices)} indices")
    n = len(indptr) - 1
    if len(indices) and (indices.min() < 0 or indices.max() >= n):
        raise ValueError(f"indices must lie in 0 .. {n - 1}, found {indices.min()} to {indices.max()}")
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


def _check_step(step: StepRecord) -> None:
    if type(step.iteration) is not int or not all(
        isinstance(value, float) for value in (step.energy, step.gradient_norm, step.step)
    ):
        raise ValueError("a step has a whole number and three numbers")


RECORDS = {
    record.name: record
    for record in (
        Record("NeighborGraph", NeighborGraph, check_graph),
        Record("StepRecord", StepRecord, _check_step),
    )
}


def check_rows(name: str, value: AnyArray, n: int) -> None:
    """Raise unless an array has a row for every vertex."""
    if value.ndim < 1 or len(value) != n:
        raise ValueError(f"{name} must have {n} rows, found shape {value.shape}")
