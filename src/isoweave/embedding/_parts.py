"""From components back to the vertices of the input."""

from __future__ import annotations

import numpy as np

from isoweave._typing import AnyArray, FloatArray, IntArray
from isoweave.embedding._component import ComponentResult
from isoweave.embedding._known_parts import MergedKnown
from isoweave.embedding._options import EmbeddingOptions
from isoweave.graph import NeighborGraph, pack_components
from isoweave.optimise import Callback, IterationState, StepRecord
from isoweave.optimise._state import check_finite
from isoweave.result import Embedding

# Worst last: the status of an embedding is that of its worst component.
_STATUSES = ("converged", "stalled", "max_iter", "stopped", "interrupted")


def split(labels: IntArray, n_parts: int) -> list[AnyArray]:
    """Vertices of every component, in one pass."""
    order = np.argsort(labels, kind="stable")
    return np.split(order, np.cumsum(np.bincount(labels, minlength=n_parts))[:-1])


def members(graph: NeighborGraph, representative: IntArray, dropped: IntArray) -> IntArray:
    """Edges of the input between the groups of duplicates whose merged edges were dropped."""
    n_groups = int(representative.max()) + 1
    low, high = representative[graph.sources], representative[graph.indices]
    keys = low.astype(np.int64) * n_groups + high
    mask = np.isin(keys, dropped[:, 0].astype(np.int64) * n_groups + dropped[:, 1])
    pairs = np.sort(np.column_stack((graph.sources[mask], graph.indices[mask])), axis=1)
    return np.unique(pairs, axis=0).astype(np.int32)


def in_users_terms(
    callback: Callback,
    place: AnyArray,
    unit: float,
    part: int,
    n_parts: int,
    known: MergedKnown | None = None,
) -> Callback:
    """The user's callback, given coordinates in the order and unit of the input.

    ``place`` is the row of every input vertex within the component at work, -1 outside of it.
    """
    inside = place >= 0
    origin = 0.0 if known is None or known.origin is None else known.origin
    weight_unit = 1.0 if known is None else known.weight_unit

    def call(state: IterationState) -> object:
        coordinates = np.full((len(place), state.coordinates.shape[1]), np.nan)
        # Beyond the largest number it is infinite, as the error at the end will say.
        with np.errstate(over="ignore"):
            coordinates[inside] = state.coordinates[place[inside]] * unit + origin
        stage = state.stage if n_parts == 1 else f"{state.stage} (component {part + 1} of {n_parts})"
        energy = state.energy * unit * unit * weight_unit
        return callback(IterationState(stage, state.iteration, energy, state.gradient_norm, coordinates))

    return call


def _in_unit(coordinates: FloatArray, unit: float) -> FloatArray:
    """Coordinates in the unit of the input, which must be able to hold them."""
    with np.errstate(over="ignore"):
        scaled = coordinates * unit
    if not np.isfinite(scaled).all():
        raise ValueError(
            f"The map of these distances (median near {unit:.1g}) extends beyond the largest number, "
            f"{np.finfo(np.float64).max:.2g}; divide the distances by a power of ten."
        )
    return scaled


def assemble(
    graph: NeighborGraph,
    options: EmbeddingOptions,
    unit: float,
    representative: IntArray,
    labels: IntArray,
    parts: list[AnyArray],
    results: list[ComponentResult | None],
    dropped: IntArray,
    known: MergedKnown | None = None,
) -> Embedding:
    """Put the components in place, give duplicates their coordinates, restore the unit."""
    n_components = options.n_components
    n_merged = len(labels)
    coordinates = np.full((n_merged, n_components), np.nan)
    alignments = np.broadcast_to(np.eye(n_components), (n_merged, n_components, n_components)).copy()
    stretch = np.ones((n_merged, n_components))
    placed = [
        r.iteration.coordinates if r is not None else np.zeros((len(v), n_components))
        for v, r in zip(parts, results, strict=True)
    ]
    if options.components == "largest":
        parts, placed, results = parts[:1], placed[:1], results[:1]
    if known is not None:
        offsets = known.offsets(parts, placed)
    else:
        offsets = pack_components(placed) if len(parts) > 1 else [np.zeros(n_components)]
    check_finite("layout", "shifts of the components", np.array(offsets))
    energy = mass = 0.0
    weight_unit = 1.0 if known is None else known.weight_unit
    status = 0
    history: tuple[StepRecord, ...] = (StepRecord(0, 0.0, 0.0, 0.0),)
    for c, (vertices, local, offset, result) in enumerate(zip(parts, placed, offsets, results, strict=True)):
        coordinates[vertices] = _in_unit(local + offset, unit)
        if result is None:
            continue
        alignments[vertices] = result.iteration.alignments
        stretch[vertices] = result.stretch
        energy += result.iteration.energy
        mass += result.mass
        status = max(status, _STATUSES.index(result.iteration.status))
        if c == 0:
            history = tuple(
                StepRecord(r.iteration, r.energy * unit * unit * weight_unit, r.gradient_norm, r.step)
                for r in result.iteration.history
            )
    first = results[0]
    coordinates = coordinates[representative]
    return Embedding(
        coordinates=coordinates if known is None else known.finish(coordinates),
        alignments=alignments[representative],
        energy=energy * unit * unit * weight_unit,
        # In the unit near the median, where neither over- nor underflows.
        relative_energy=energy / mass if mass > 0 else 0.0,
        history=history,
        status=_STATUSES[status],
        component_labels=labels[representative],
        stretch=stretch[representative],
        dropped_edges=dropped,
        graph=graph,
        start="none" if first is None else first.start,
        solver="none" if first is None else first.solver,
    )
