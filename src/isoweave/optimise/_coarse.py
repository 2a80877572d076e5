"""A coarser level: a sample of the vertices with their geodesics, and the way back to all vertices."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components, dijkstra

from isoweave._parallel import ThreadTeam
from isoweave._typing import AnyArray, FloatArray, IntArray
from isoweave.graph import NeighborGraph, graph_from_matrix, sums_of_lengths

# One vertex in this many is sampled: the paths between neighbours of the sample stay a few edges long, so
# what they zig-zag stays below an edge.
THINNING = 8
# Neighbours of a sampled vertex in the sample's graph, and anchors by which the other vertices are placed.
_SAMPLE_NEIGHBORS = 14
_ANCHORS = 8
_BALL_SLACK = 3
_BALLS_AT_ONCE = 8192
_SMOOTHING_SWEEPS = 5


@dataclass(frozen=True, eq=False)
class CoarseLevel:
    """A sample of the vertices of a graph.

    Attributes
    ----------
    sample : int32 array of shape (s,)
    graph : NeighborGraph
        Every sampled vertex joined to the nearest sampled ones, at their geodesic distances.
    anchors, distances : arrays of shape (n, a)
        Nearest sampled vertices (numbered within the sample) of every vertex, nearest first, and how far
        they are.
    filled : int32 array of shape (n,)
        How many of them there are.
    """

    sample: IntArray
    graph: NeighborGraph
    anchors: IntArray
    distances: FloatArray
    filled: IntArray

    def is_connected(self) -> bool:
        """Whether the sample's graph is in one piece; a patchy sample of a thin graph may not be."""
        return connected_components(self.graph.to_matrix(), directed=False)[0] == 1


def coarsen(graph: NeighborGraph, *, team: ThreadTeam, thinning: int = THINNING) -> CoarseLevel:
    """Sample a connected graph and measure geodesics around the sample."""
    from isoweave.engines import coarse as kernels

    n = graph.n_vertices
    sample = sample_vertices(graph, max(n // thinning, 2), team=team)
    n_sample = len(sample)
    is_sample = np.zeros(n, dtype=np.int32)
    is_sample[sample] = 1
    number = np.full(n, -1, dtype=np.int32)
    number[sample] = np.arange(n_sample, dtype=np.int32)
    anchors = np.empty((n, _ANCHORS), dtype=np.int32)
    nearest = np.empty((n, _ANCHORS))
    filled = np.zeros(n, dtype=np.int32)
    width = min(n, _BALL_SLACK * _SAMPLE_NEIGHBORS * thinning)
    edges: list[tuple[FloatArray, AnyArray, AnyArray]] = []
    for lo in range(0, n_sample, _BALLS_AT_ONCE):
        centres = sample[lo : lo + _BALLS_AT_ONCE]
        members = np.empty((len(centres), width), dtype=np.int32)
        distances = np.empty((len(centres), width))
        counts = np.empty(len(centres), dtype=np.int64)
        team.run(
            kernels.sample_balls,
            len(centres),
            centres,
            is_sample,
            _SAMPLE_NEIGHBORS,
            graph.indptr,
            graph.indices,
            graph.lengths,
            members,
            distances,
            counts,
            grain=32,
        )
        kernels.keep_nearest(lo, counts, members, distances, anchors, nearest, filled)
        ball, position = np.nonzero((np.arange(width) < counts[:, None]) & (distances > 0))
        found = number[members[ball, position]]
        hit = found >= 0
        edges.append((distances[ball[hit], position[hit]], lo + ball[hit], found[hit]))
    lengths, rows, columns = (np.concatenate(parts) for parts in zip(*edges, strict=True))
    matrix = sp.coo_array((lengths, (rows, columns)), shape=(n_sample, n_sample))
    # The two balls of a pair measure the same path, up to the last bit.
    return CoarseLevel(sample, graph_from_matrix(matrix, asymmetry="min"), anchors, nearest, filled)


def prolong(graph: NeighborGraph, level: CoarseLevel, places: FloatArray, *, team: ThreadTeam) -> FloatArray:
    """Coordinates of all vertices, shape (n, N), from those of the sample, shape (s, N).

    Every vertex is triangulated from its nearest anchors, and the noise of that is averaged away: left in,
    it would fold neighbourhoods over, and folds are local minima of the energy.
    """
    from isoweave.engines import coarse as kernels

    n = graph.n_vertices
    x = np.zeros((n, places.shape[1]))
    arrays = (level.filled, level.anchors, level.distances, np.ascontiguousarray(places))
    team.run(kernels.triangulate, n, *arrays, x)
    missing = level.filled == 0
    if missing.any():
        # Off the beaten track: the place of the nearest vertex that has one.
        _, _, nearest = dijkstra(
            graph.to_matrix(), indices=np.flatnonzero(~missing), min_only=True, return_predecessors=True
        )
        x[missing] = x[nearest[missing]]
    links = sp.csr_array((np.ones(len(graph.indices)), graph.indices, graph.indptr), shape=(n, n))
    for _ in range(_SMOOTHING_SWEEPS):
        x = 0.5 * x + 0.5 * (links @ x) / graph.degrees[:, None]
    return x


def sample_vertices(graph: NeighborGraph, size: int, *, team: ThreadTeam, seed: int = 11) -> IntArray:
    """A sample spread like the vertices themselves that does not depend on their numbering.

    Vertices are ranked by a scramble of the lengths around them, which all numberings share. Where lengths
    are all alike (grids) the ranks tie, and a random order decides.
    """
    sums = sums_of_lengths(graph, team)
    scramble = np.modf(sums / np.median(sums) * (1e6 * np.sqrt(2.0)))[0]
    ties = np.random.default_rng(seed).permutation(graph.n_vertices)
    return np.sort(np.lexsort((ties, scramble))[:size]).astype(np.int32)
