"""Edges in an embedding: those that have no length, and the scale that fits them best."""

from __future__ import annotations

import numpy as np

from isoweave._parallel import ThreadTeam
from isoweave._typing import AnyArray, BoolArray, FloatArray
from isoweave.energy import EdgeEnergy, FrameEnergy
from isoweave.geometry import edge_lengths
from isoweave.graph import NeighborGraph, PreparedGraph, is_edge

# Part of its length, at least of the median, below which an edge has no length in the map.
NO_LENGTH = 1e-6


def at_lost_edges(graph: NeighborGraph, x: FloatArray, team: ThreadTeam) -> BoolArray:
    """Vertices with an edge that has no length in the map. Frames of a lower rank may not see it."""
    is_lost = (edge_lengths(graph, x, team) <= NO_LENGTH * graph.lengths) & (graph.lengths > NO_LENGTH)
    found = np.zeros(graph.n_vertices, dtype=np.bool_)
    found[graph.sources[is_lost]] = True
    return found


def edge_factors(x: FloatArray, frames: FrameEnergy, graph: NeighborGraph, starts: AnyArray) -> FloatArray:
    """The one factor for every component that brings its edges nearest to their lengths (least squares)."""
    # Frames that cannot all fit average each other out, so that the minimum of their energy is too small: by
    # 12 % for images of digits in 13 dimensions, by 2 % for a Klein bottle, by .3 % for a swiss roll.
    weights = frames.weights if isinstance(frames, EdgeEnergy) else np.ones(len(graph.lengths))
    lengths = edge_lengths(graph, x, frames.team)
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


def measured_factors(prepared: PreparedGraph, parts: list[AnyArray], placed: list[FloatArray]) -> list[float]:
    """For every component the factor that brings its measured edges nearest to their lengths.

    Those along the graph are longer than straight lines, and the map too large with them.
    """
    given, n = prepared.given, prepared.graph.n_vertices
    points, label = np.zeros((n, placed[0].shape[1])), np.full(n, -1)
    for c, (vertices, local) in enumerate(zip(parts, placed, strict=True)):
        points[vertices], label[vertices] = local, c
    counted = (given.sources < given.indices) & ~is_edge(given, prepared.dropped)
    i, j = (prepared.representative[ends[counted]] for ends in (given.sources, given.indices))
    counted, lengths = label[i], given.lengths[counted] / prepared.unit
    found = np.linalg.norm(points[i] - points[j], axis=1)
    inside = counted >= 0
    products, squares = (
        np.bincount(counted[inside], (found * other)[inside], len(parts)) for other in (lengths, found)
    )
    return np.divide(products, squares, out=np.ones(len(parts)), where=squares > 0).tolist()
