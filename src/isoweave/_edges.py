"""Edges in an embedding: their lengths, those that have none, and the scale that fits them best."""

from __future__ import annotations

import numpy as np

from isoweave._parallel import ONE_THREAD, ThreadTeam
from isoweave._typing import AnyArray, BoolArray, FloatArray, IntArray
from isoweave.energy import EdgeEnergy, FrameEnergy
from isoweave.graph import NeighborGraph

# Part of its length, at least of the median, below which an edge has no length in the map.
NO_LENGTH = 1e-6
_EDGES_AT_ONCE = 2**16


def at_lost_edges(graph: NeighborGraph, x: FloatArray, team: ThreadTeam) -> BoolArray:
    """Vertices with an edge that has no length in the map. Frames of a lower rank may not see it."""
    found = np.zeros(graph.n_vertices, dtype=np.bool_)
    team.run(_find_lost, len(graph.lengths), graph, x, found, grain=_EDGES_AT_ONCE)
    return found


def _find_lost(start: int, stop: int, graph: NeighborGraph, x: FloatArray, found: BoolArray) -> None:
    # Ranges that meet in a row write the same.
    for lo in range(start, stop, _EDGES_AT_ONCE):
        at = slice(lo, min(lo + _EDGES_AT_ONCE, stop))
        sources, lengths = graph.sources[at], graph.lengths[at]
        is_lost = (_measured(sources, graph.indices[at], x) <= NO_LENGTH * lengths) & (lengths > NO_LENGTH)
        found[sources[is_lost]] = True


def edge_factors(x: FloatArray, frames: FrameEnergy, graph: NeighborGraph, starts: AnyArray) -> FloatArray:
    """The one factor for every component that brings its edges nearest to their lengths (least squares)."""
    # Frames that cannot all fit average each other out, so that the minimum of their energy is too small: by
    # 12 % for images of digits in 13 dimensions, by 2 % for a Klein bottle, by .3 % for a swiss roll.
    weights = frames.weights if isinstance(frames, EdgeEnergy) else np.ones(len(graph.lengths))
    lengths = lengths_in(graph, x, frames.team)
    firsts, counts = graph.indptr[starts[:-1]], np.diff(graph.indptr[starts])

    def sums(weighted: FloatArray, other: FloatArray) -> FloatArray:
        # As np.sum adds each up; of many components, those with the same number of edges at once.
        if len(counts) == 1:
            return np.array([frames.team.dot(weighted, other)])
        found, values = np.empty(len(counts)), weighted * other
        for count in np.unique(counts):
            same = counts == count
            found[same] = values[firsts[same][:, None] + np.arange(count)].sum(axis=1)
        return found

    weighted = weights * lengths
    squares, products = sums(weighted, lengths), sums(weighted, graph.lengths)
    return np.divide(products, squares, out=np.ones_like(squares), where=squares > 0)


def lengths_in(graph: NeighborGraph, x: FloatArray, team: ThreadTeam = ONE_THREAD) -> FloatArray:
    """Of the edges in an embedding, shape (m,); so many at once that their differences take little memory."""
    lengths = np.empty(len(graph.lengths))
    team.run(_measure, len(lengths), graph.sources, graph.indices, x, lengths, grain=_EDGES_AT_ONCE)
    return lengths


def _measure(
    start: int, stop: int, sources: IntArray, indices: IntArray, x: FloatArray, lengths: FloatArray
) -> None:
    for lo in range(start, stop, _EDGES_AT_ONCE):
        at = slice(lo, min(lo + _EDGES_AT_ONCE, stop))
        lengths[at] = _measured(sources[at], indices[at], x)


def _measured(sources: IntArray, indices: IntArray, x: FloatArray) -> FloatArray:
    steps = x[indices] - x[sources]
    return np.sqrt(np.einsum("ec,ec->e", steps, steps))
