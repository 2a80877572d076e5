"""What the stages of an embedding hand on, as records of a checkpoint, and back.

A record may come from a file that somebody has tampered with: types, shapes and indices are checked, because
kernels trust them. The errors are plain; :func:`isoweave.embed.running` says which file they are about.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from isoweave._typing import AnyArray, FloatArray
from isoweave.graph import NeighborGraph
from isoweave.optimise import IterationResult, Record, steps_of, table_of

if TYPE_CHECKING:
    from isoweave._engine import ComponentResult


def arrays_of(name: str, value: Any) -> dict[str, AnyArray]:
    """An array, a sparse matrix, or a tuple or dataclass of these (a graph, say), as arrays by name."""
    if value is None:
        return {}
    if sp.issparse(value):
        rows = sp.csr_array(value)
        parts = {part: getattr(rows, part) for part in ("data", "indices", "indptr")}
    elif is_dataclass(value):
        parts = {part.name: getattr(value, part.name) for part in fields(value)}
    elif isinstance(value, tuple) and hasattr(value, "_asdict"):
        parts = value._asdict()
    else:
        return {name: np.asarray(value)}
    return {k: a for part, inner in parts.items() for k, a in arrays_of(f"{name}.{part}", inner).items()}


def graph_from(record: Record) -> NeighborGraph:
    """The graph in a record."""
    return checked_graph(*(record.arrays.get(f"graph.{name}") for name in ("indptr", "indices", "lengths")))


def checked_graph(indptr: Any, indices: Any, lengths: Any) -> NeighborGraph:
    """A graph of int32, int32 and float64 arrays that is as :class:`NeighborGraph` promises."""
    n = len(check_array("indptr", indptr, (np.int32,), (None,))) - 1
    check_array("indices", indices, (np.int32,), (None,))
    check_array("lengths", lengths, (np.float64,), indices.shape)
    check_pointers(indptr, max(n, 0), len(indices))
    check_indices("indices", indices, n)
    graph = NeighborGraph(indptr, indices, lengths)
    sources = graph.sources
    is_row_start = np.diff(sources, prepend=-1) != 0
    if ((np.diff(indices, prepend=-1) <= 0) & ~is_row_start).any():
        raise ValueError("indices must rise within every row")
    if (indices == sources).any():
        raise ValueError(f"indices: vertex {sources[indices == sources][0]} is joined to itself")
    reverse = graph.reverse
    if not np.array_equal(indices[reverse], sources) or not np.array_equal(sources[reverse], indices):
        raise ValueError("indices: an edge is stored in one direction only")
    if not np.isfinite(lengths).all() or (lengths < 0).any() or (lengths[reverse] != lengths).any():
        raise ValueError("lengths must be finite, not negative, and the same in both directions")
    return graph


def check_array(name: str, value: Any, kinds: Any, shape: tuple[int | None, ...]) -> AnyArray:
    """Raise unless ``value`` is an array of one of these types (None: any) and of this shape (None: any)."""
    if not isinstance(value, np.ndarray) or not (kinds is None or value.dtype in kinds):
        wanted = " or ".join(np.dtype(kind).name for kind in kinds or ())
        raise ValueError(f"{name} must be an array of {wanted}, found {getattr(value, 'dtype', type(value))}")
    if value.ndim != len(shape) or any(w not in (None, n) for w, n in zip(shape, value.shape, strict=True)):
        raise ValueError(f"{name} must have the shape {shape}, found {value.shape}")
    return value


def check_pointers(indptr: AnyArray, n: int, n_indices: int) -> None:
    """Raise unless these are the bounds of ``n`` rows of so many indices."""
    ends = (indptr[0], indptr[-1]) if len(indptr) == n + 1 else None
    if ends != (0, n_indices) or (np.diff(indptr) < 0).any():
        raise ValueError(f"indptr must rise from 0 to {n_indices} in {n + 1} values")


def check_indices(name: str, indices: AnyArray, n: int) -> None:
    """Raise unless all indices point into ``n`` things."""
    if indices.size and (indices.min() < 0 or indices.max() >= n):
        raise ValueError(f"{name} must lie in 0 .. {n - 1}, found {indices.min()} to {indices.max()}")


def finished_record(results: Sequence[ComponentResult | None]) -> Record:
    """All components that have a result, in one record: one each would cost more than most take to embed."""
    found = [result for result in results if result is not None]
    iterations = [result.iteration for result in found]
    # Few of them differ, and a header is no place for long lists.
    texts = [(result.iteration.status, result.start, result.solver) for result in found]
    known = {text: code for code, text in enumerate(dict.fromkeys(text for row in texts for text in row))}
    arrays = {
        "components": np.array([c for c, r in enumerate(results) if r is not None], dtype=np.int64),
        "texts": np.array([[known[text] for text in row] for row in texts], dtype=np.int64),
        "coordinates": np.concatenate([it.coordinates for it in iterations]),
        "alignments": np.concatenate([it.alignments for it in iterations]),
        "stretch": np.concatenate([result.stretch for result in found]),
        "numbers": np.array([(r.iteration.energy, r.mass, r.global_weight) for r in found]),
        "n_steps": np.array([len(it.history) for it in iterations], dtype=np.int64),
        "steps": table_of(step for it in iterations for step in it.history),
    }
    return Record({"texts": list(known)}, arrays)


def finished_from(
    record: Record | None, parts: Sequence[AnyArray], n_components: int
) -> dict[int, ComponentResult]:
    """Results by the number of the component."""
    from isoweave._engine import ComponentResult

    if record is None:
        return {}
    at = record.array("components", (None,), np.int64).tolist()
    codes = record.array("texts", (len(at), 3), np.int64)
    known = [str(text) for text in record.value("texts", list)]
    n_steps = record.array("n_steps", (len(at),), np.int64).tolist()
    inside = all(0 <= c < len(parts) for c in at) and all(0 <= code < len(known) for code in codes.flat)
    if not at or not inside or min(n_steps) < 1:
        raise ValueError("its components are not those of the graph")
    sizes = [len(parts[c]) for c in at]

    def rows_of(name: str, sizes: list[int], *inner: int) -> list[FloatArray]:
        return np.split(record.array(name, (sum(sizes), *inner)), np.cumsum(sizes)[:-1])

    coordinates, stretch = (rows_of(name, sizes, n_components) for name in ("coordinates", "stretch"))
    alignments, steps = rows_of("alignments", sizes, n_components, n_components), rows_of("steps", n_steps, 4)
    results: dict[int, ComponentResult] = {}
    for k, (energy, mass, weight) in enumerate(record.array("numbers", (len(at), 3)).tolist()):
        status, start, solver = (known[code] for code in codes[k])
        iteration = IterationResult(coordinates[k], alignments[k], energy, steps_of(steps[k]), status)
        results[at[k]] = ComponentResult(iteration, stretch[k], mass, start, solver, weight)
    return results
