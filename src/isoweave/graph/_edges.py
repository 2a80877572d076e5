"""Which edges are meant, and how long they are in a map."""

from __future__ import annotations

import numpy as np

from isoweave._typing import AnyArray, BoolArray, FloatArray, IntArray
from isoweave.graph._graph import NeighborGraph


def is_edge(graph: NeighborGraph, pairs: AnyArray) -> BoolArray:
    """Stored edges that are among the given pairs, in either direction, shape (m,)."""
    n = graph.n_vertices
    low = np.minimum(graph.sources, graph.indices).astype(np.int64)
    keys = low * n + np.maximum(graph.sources, graph.indices)
    ends = np.sort(np.asarray(pairs, dtype=np.int64), axis=1)
    return np.isin(keys, ends[:, 0] * n + ends[:, 1])


def edge_distortion(edges: AnyArray, lengths: FloatArray, points: FloatArray) -> FloatArray:
    """Length in a map over given length, minus 1, of edges (E, 2), shape (E,).

    0 for duplicates that coincide, infinite for duplicates that do not, NaN where an end has no coordinates.
    """
    steps = points[edges[:, 1]] - points[edges[:, 0]]
    # Divided first: squares of very large or small coordinates are no numbers.
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.linalg.norm(steps / lengths[:, None], axis=1)
    apart = np.where((steps == 0.0).all(axis=1), 0.0, np.inf)
    apart[np.isnan(steps).any(axis=1)] = np.nan
    return np.where(lengths == 0.0, apart, ratio - 1.0)


def edge_keys(graph: NeighborGraph) -> AnyArray:
    """One number per stored edge, rising."""
    return graph.sources.astype(np.int64) * graph.n_vertices + graph.indices


def positions_of(sorted_keys: AnyArray, keys: AnyArray) -> IntArray:
    """Where each key stands among the sorted ones, -1 where it does not."""
    at = np.searchsorted(sorted_keys, keys)
    inside = at < len(sorted_keys)
    hit = np.zeros(len(keys), dtype=np.bool_)
    hit[inside] = sorted_keys[at[inside]] == keys[inside]
    return np.where(hit, at, -1)
