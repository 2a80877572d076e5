"""What the stages of an embedding hand on, as records of a journal, and back.

A record may come from a file of somebody else's making: types, shapes and indices are checked, because
kernels trust them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from isoweave._typing import AnyArray, FloatArray, IntArray
from isoweave.embedding._known import Known
from isoweave.embedding._options import EmbeddingOptions
from isoweave.energy import InnerProduct
from isoweave.energy._inner_product import EdgeInnerProduct, RankInnerProduct
from isoweave.geometry import LocalFrames
from isoweave.graph import NeighborGraph
from isoweave.optimise import Record
from isoweave.optimise._state import check_finite


def graph_arrays(graph: NeighborGraph, name: str = "graph") -> dict[str, AnyArray]:
    """The arrays of a graph by name."""
    return {
        f"{name}.indptr": graph.indptr,
        f"{name}.indices": graph.indices,
        f"{name}.lengths": graph.lengths,
    }


def known_arrays(known: Known | None) -> dict[str, AnyArray]:
    """Weights and anchors by name."""
    if known is None:
        return {}
    found = {
        "edge_weights": known.edge_weights,
        "vertex_weights": known.vertex_weights,
        "weight_unit": np.array(known.weight_unit),
    }
    if known.anchors is not None:
        found |= {
            "anchors": known.anchors.vertices,
            "anchor_positions": known.anchors.positions,
            "anchor_weight": known.anchors.weights,
        }
    return {name: array for name, array in found.items() if array is not None}


def graph_from(record: Record, name: str = "graph") -> NeighborGraph:
    """The graph in a record."""
    indptr = record.array(f"{name}.indptr", (None,), np.int32)
    indices = record.array(f"{name}.indices", (None,), np.int32)
    lengths = record.array(f"{name}.lengths", indices.shape)
    n = len(indptr) - 1
    if n < 0 or indptr[0] != 0 or indptr[-1] != len(indices) or (np.diff(indptr) < 0).any():
        raise _unusable(f"{name}.indptr does not count the edges")
    _check_indices(indices, n, f"{name}.indices")
    if not np.isfinite(lengths).all() or lengths.min(initial=0.0) < 0:
        raise _unusable(f"{name}.lengths holds what is no length")
    return NeighborGraph(indptr, indices, lengths)


def prepared_record(filtered: NeighborGraph, representative: IntArray, dropped: IntArray) -> Record:
    """The graph in the order it is worked on, without duplicates and shortcuts."""
    arrays = {**graph_arrays(filtered), "representative": representative, "dropped": dropped}
    return Record({}, arrays)


def prepared_from(record: Record, n_given: int) -> tuple[NeighborGraph, IntArray, IntArray]:
    """Graph, representative of every given vertex, and the edges that were dropped."""
    graph = graph_from(record)
    representative = record.array("representative", (n_given,), np.int32)
    dropped = record.array("dropped", (None, 2), np.int32)
    _check_indices(representative, graph.n_vertices, "representative")
    _check_indices(dropped, n_given, "dropped")
    return graph, representative, dropped


def frames_record(frames: LocalFrames, inner: InnerProduct) -> Record:
    """Frames as the energy sees them, and the inner product."""
    arrays = {
        "rows": frames.rows,
        "included": frames.included,
        "spectrum": frames.spectrum,
        "fidelity": frames.fidelity,
    }
    if isinstance(inner, RankInnerProduct):
        arrays["inverse"] = inner.inverse
    elif not np.array_equal(inner.weights, frames.included):
        arrays["weights"] = inner.weights
    return Record({}, arrays)


def frames_from(
    record: Record, graph: NeighborGraph, options: EmbeddingOptions
) -> tuple[LocalFrames, InnerProduct]:
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
        return frames, RankInnerProduct(record.array("inverse", (m, n_components)))
    if "weights" in record.arrays:
        return frames, EdgeInnerProduct(record.array("weights", (m,)))
    # All the same, which is the rule: one where there is a row.
    return frames, EdgeInnerProduct(frames.included.astype(np.float64))


def _check_indices(indices: AnyArray, n: int, name: str) -> None:
    if indices.size and (indices.min() < 0 or indices.max() >= n):
        raise _unusable(f"{name} points outside of 0 .. {n - 1}")


def _unusable(why: str) -> ValueError:
    return ValueError(f"The checkpoint cannot be used: {why}. Remove it to start afresh.")


def rows_of(record: Record, sizes: list[int], name: str, inner: tuple[int, ...]) -> list[FloatArray]:
    """Parts of an array that holds several one after the other."""
    whole: Any = record.array(name, (sum(sizes), *inner))
    return np.split(whole, np.cumsum(sizes)[:-1]) if sizes else []
