"""Components of a graph that have consecutive vertices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from isoweave._lazy import computed_once
from isoweave._typing import AnyArray, FloatArray
from isoweave.graph import NeighborGraph, geodesics_from


@dataclass(frozen=True, eq=False)
class Blocks:
    """Components of a graph that have consecutive vertices: the first of each, and the number of all."""

    starts: AnyArray

    @computed_once
    def sizes(self) -> AnyArray:
        return np.diff(self.starts)

    @computed_once
    def runs(self) -> list[tuple[slice, int, int, int]]:
        """Consecutive components of equal size: which they are, their first vertex and last, and the size."""
        firsts = np.flatnonzero(np.diff(self.sizes, prepend=-1)).tolist()
        return [
            (slice(a, b), int(self.starts[a]), int(self.starts[b]), int(self.sizes[a]))
            for a, b in pairwise([*firsts, len(self.sizes)])
        ]

    @computed_once
    def offsets(self) -> AnyArray:
        """Where the tables with an entry for every two vertices of a component begin, and their end."""
        return np.concatenate([[0], np.cumsum(self.sizes**2)])


def mean_degrees(graph: NeighborGraph, blocks: Blocks) -> list[float]:
    """Of every component."""
    return (np.diff(graph.indptr[blocks.starts]) / blocks.sizes).tolist()


def farthest_first(nearest: FloatArray, away: Callable[[int, AnyArray], FloatArray], count: int) -> AnyArray:
    """Vertices (k, count) of k sets of n, each farthest from those before; the first by ``nearest`` (k, n).

    ``away(a, at)`` are the distances (k, n) from the a-th ones, ``at``.
    """
    order = np.empty((len(nearest), count), dtype=np.int32)
    for a in range(count):
        at = order[:, a] = np.argmax(nearest, axis=1)
        distances = away(a, at)
        nearest = distances if a == 0 else np.minimum(nearest, distances)
    return order


def geodesic_tables(graph: NeighborGraph, blocks: Blocks) -> list[FloatArray]:
    """Geodesics within components, (k, n, n) for every run of k of equal size."""
    from isoweave.engines import paths as kernels

    if len(blocks.sizes) == 1:
        # A graph that is alone needs no other kernel.
        return [geodesics_from(graph, np.arange(graph.n_vertices, dtype=np.int32))[None]]
    tables, arrays = np.empty(blocks.offsets[-1]), (graph.indptr, graph.indices, graph.lengths)
    kernels.geodesics_within(0, len(blocks.sizes), blocks.starts, blocks.offsets, *arrays, tables)
    runs = ((blocks.offsets[which.start], blocks.offsets[which.stop], n) for which, _, _, n in blocks.runs)
    return [tables[first:last].reshape(-1, n, n) for first, last, n in runs]
