"""What the stages of an embedding hand on, as records of a checkpoint, and back.

A record may come from a file of somebody else's making: types, shapes and indices are checked, because
kernels trust them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from isoweave._parallel import ThreadTeam
from isoweave._typing import AnyArray, FloatArray
from isoweave.energy import EdgeEnergy, FrameEnergy, PaperEnergy
from isoweave.geometry import LocalFrames
from isoweave.graph import NeighborGraph, PreparedGraph, normalise_lengths
from isoweave.optimise import IterationResult, Record, StepRecord, check_finite
from isoweave.options import EmbeddingOptions

if TYPE_CHECKING:
    from isoweave._component import ComponentResult

_GRAPH = ("indptr", "indices", "lengths")


def arrays_of(name: str, value: Any) -> dict[str, AnyArray]:
    """An array, a sparse matrix, a graph, or a tuple or dataclass of these, as arrays by name."""
    if value is None:
        return {}
    if isinstance(value, NeighborGraph):
        return {f"{name}.{part}": getattr(value, part) for part in _GRAPH}
    if sp.issparse(value):
        rows = sp.csr_array(value)
        return {f"{name}.data": rows.data, f"{name}.indices": rows.indices, f"{name}.indptr": rows.indptr}
    if hasattr(value, "__dataclass_fields__"):
        parts = {part: getattr(value, part) for part in value.__dataclass_fields__}
    elif isinstance(value, tuple) and hasattr(value, "_asdict"):
        parts = value._asdict()
    else:
        return {name: np.asarray(value)}
    found: dict[str, AnyArray] = {}
    for part, inner in parts.items():
        found |= arrays_of(f"{name}.{part}", inner)
    return found


def graph_from(record: Record) -> NeighborGraph:
    """The graph in a record."""
    indptr = record.array("graph.indptr", (None,), np.int32)
    indices = record.array("graph.indices", (None,), np.int32)
    lengths = record.array("graph.lengths", indices.shape)
    n = len(indptr) - 1
    if n < 0 or indptr[0] != 0 or indptr[-1] != len(indices) or (np.diff(indptr) < 0).any():
        raise _unusable("graph.indptr does not count the edges")
    _check_indices(indices, n, "graph.indices")
    if not np.isfinite(lengths).all() or lengths.min(initial=0.0) < 0:
        raise _unusable("graph.lengths has a value that is not a length")
    return NeighborGraph(indptr, indices, lengths)


def prepared_record(prepared: PreparedGraph) -> Record:
    """The graph in the order it is worked on, without duplicates and shortcuts."""
    arrays = arrays_of("graph", prepared.graph)
    return Record({}, {**arrays, "representative": prepared.representative, "dropped": prepared.dropped})


def prepared_from(record: Record, given: NeighborGraph) -> PreparedGraph:
    graph = graph_from(record)
    representative = record.array("representative", (given.n_vertices,), np.int32)
    dropped = record.array("dropped", (None, 2), np.int32)
    _check_indices(representative, graph.n_vertices, "representative")
    _check_indices(dropped, given.n_vertices, "dropped")
    return PreparedGraph(given, normalise_lengths(given)[0], graph, representative, dropped)


def frames_record(energy: FrameEnergy) -> Record:
    """Frames as the energy sees them, and the inner product."""
    frames = energy.frames
    arrays = {name: getattr(frames, name) for name in ("rows", "included", "spectrum", "fidelity")}
    if isinstance(energy, PaperEnergy):
        arrays["inverse"] = energy.inverse
    elif not np.array_equal(energy.weights, frames.included):
        arrays["weights"] = energy.weights
    return Record({}, arrays)


def frames_from(
    record: Record, graph: NeighborGraph, options: EmbeddingOptions, team: ThreadTeam
) -> FrameEnergy:
    """Frames and inner product of a graph. The inverse frames have gone into the inner product."""
    n, m, n_components = graph.n_vertices, len(graph.indices), options.n_components
    frames = LocalFrames(
        rows=record.array("rows", (m, n_components)),
        included=record.array("included", (m,), np.bool_),
        spectrum=record.array("spectrum", (n, n_components)),
        fidelity=record.array("fidelity", (n,)),
    )
    check_finite("frames of the checkpoint", "rows", frames.rows)
    if options.inner_product == "paper":
        return PaperEnergy(graph, frames, record.array("inverse", (m, n_components)), team)
    # All the same, which is the rule: one where there is a row.
    weights = frames.included.astype(np.float64)
    if "weights" in record.arrays:
        weights = record.array("weights", (m,))
    return EdgeEnergy(graph, frames, weights, team)


def finished_record(results: Sequence[ComponentResult | None]) -> Record:
    """All components that have a result, one after the other, in one record.

    A graph may have thousands of components; a record each would cost more than most of them take to embed.
    """
    at = [c for c, result in enumerate(results) if result is not None]
    found = [result for result in results if result is not None]
    iterations = [result.iteration for result in found]
    steps = [[(s.iteration, s.energy, s.gradient_norm, s.step) for s in it.history] for it in iterations]
    # Few of them differ, and a header is no place for long lists.
    texts = [(result.iteration.status, result.start, result.solver) for result in found]
    known = {text: code for code, text in enumerate(dict.fromkeys(text for row in texts for text in row))}
    arrays = {
        "components": np.array(at, dtype=np.int64),
        "texts": np.array([[known[text] for text in row] for row in texts], dtype=np.int64),
        "coordinates": np.concatenate([it.coordinates for it in iterations]),
        "alignments": np.concatenate([it.alignments for it in iterations]),
        "stretch": np.concatenate([result.stretch for result in found]),
        "energies": np.array([it.energy for it in iterations]),
        "masses": np.array([result.mass for result in found]),
        "n_steps": np.array([len(rows) for rows in steps], dtype=np.int64),
        "steps": np.array([row for rows in steps for row in rows], dtype=np.float64).reshape(-1, 4),
    }
    return Record({"texts": list(known)}, arrays)


def finished_from(
    record: Record | None, parts: Sequence[AnyArray], n_components: int
) -> dict[int, ComponentResult]:
    """Results by the number of the component."""
    from isoweave._component import ComponentResult

    if record is None:
        return {}
    at = record.array("components", (None,), np.int64).tolist()
    codes = record.array("texts", (len(at), 3), np.int64)
    known = [str(text) for text in record.value("texts", list)]
    n_steps = record.array("n_steps", (len(at),), np.int64).tolist()
    inside = all(0 <= c < len(parts) for c in at) and all(0 <= code < len(known) for code in codes.flat)
    if not inside or min(n_steps, default=1) < 1:
        raise _unusable("its components are not those of the graph")
    sizes = [len(parts[c]) for c in at]
    coordinates = _rows_of(record, sizes, "coordinates", (n_components,))
    alignments = _rows_of(record, sizes, "alignments", (n_components, n_components))
    stretch = _rows_of(record, sizes, "stretch", (n_components,))
    steps = _rows_of(record, n_steps, "steps", (4,))
    energies, masses = record.array("energies", (len(at),)), record.array("masses", (len(at),))
    results: dict[int, ComponentResult] = {}
    for k, c in enumerate(at):
        history = tuple(StepRecord(int(i), float(e), float(g), float(s)) for i, e, g, s in steps[k])
        status, start, solver = (known[code] for code in codes[k])
        iteration = IterationResult(coordinates[k], alignments[k], float(energies[k]), history, status)
        results[c] = ComponentResult(iteration, stretch[k], float(masses[k]), start, solver)
    return results


def _rows_of(record: Record, sizes: list[int], name: str, inner: tuple[int, ...]) -> list[FloatArray]:
    """Parts of an array that holds several one after the other."""
    whole: Any = record.array(name, (sum(sizes), *inner))
    return np.split(whole, np.cumsum(sizes)[:-1]) if sizes else []


def _check_indices(indices: AnyArray, n: int, name: str) -> None:
    if indices.size and (indices.min() < 0 or indices.max() >= n):
        raise _unusable(f"{name} points outside of 0 .. {n - 1}")


def _unusable(why: str) -> ValueError:
    return ValueError(f"The checkpoint cannot be used: {why}. Remove it to start afresh.")
