"""Edges and neighbourhoods: what the embedding keeps of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from isoweave._typing import AnyArray
from isoweave.metrics._inputs import (
    GraphLike,
    as_graph,
    as_points,
    check_n_neighbors,
    default_n_neighbors,
    nearest,
)

# Edges below this share of the median length are duplicates in all but name: no relative error.
_NEGLIGIBLE = 1e-9
# Edges handled at once: bounds the memory for differences of coordinates.
_BLOCK = 1 << 20


class NeighborhoodScores(NamedTuple):
    """Edges of the embedding's kNN graph against those of the input graph; 1 is best."""

    precision: float
    recall: float
    f1: float


def local_distance(graph: GraphLike, embedding: Any) -> float:
    """Mean relative error of the edge lengths.

    Parameters
    ----------
    graph : NeighborGraph or sparse matrix of shape (n, n)
    embedding : array of shape (n, N)

    Returns
    -------
    float
        Mean over edges of ``| |y_i - y_j| - d_ij | / d_ij``; edges shorter than 1e-9 of the median
        length are left out. NaN when no edge is left.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from isoweave.metrics import local_distance
    >>> graph = sp.csr_array([[0.0, 1.0, 0.0], [1.0, 0.0, 2.0], [0.0, 2.0, 0.0]])
    >>> local_distance(graph, [0.0, 1.0, 2.0])
    0.25
    """
    checked = as_graph(graph)
    y = as_points(embedding, "embedding", checked.n_vertices)
    once = np.flatnonzero(checked.sources < checked.indices)
    if not len(once):
        return float("nan")
    once = once[checked.lengths[once] > _NEGLIGIBLE * np.median(checked.lengths[once])]
    total = 0.0
    for start in range(0, len(once), _BLOCK):
        edges = once[start : start + _BLOCK]
        lengths = checked.lengths[edges]
        reached = np.linalg.norm(y[checked.sources[edges]] - y[checked.indices[edges]], axis=1)
        total += float(np.sum(np.abs(reached - lengths) / lengths))
    return total / len(once) if len(once) else float("nan")


def neighborhood_scores(
    graph: GraphLike, embedding: Any, *, n_neighbors: int | None = None
) -> NeighborhoodScores:
    """Precision, recall and F1 of the embedding's kNN edges.

    The edges of the embedding's kNN graph, max-symmetrised (an edge when either end has it), are
    compared with the edges of the input graph.

    Parameters
    ----------
    graph : NeighborGraph or sparse matrix of shape (n, n)
    embedding : array of shape (n, N)
    n_neighbors : int, optional
        k of the embedding's graph; by default the input graph's smallest degree, which is its k when
        it is a max-symmetrised kNN graph (1 if it has an isolated vertex).

    Returns
    -------
    NeighborhoodScores
        Named tuple (precision, recall, f1).
    """
    checked = as_graph(graph)
    n = checked.n_vertices
    y = as_points(embedding, "embedding", n)
    k = check_n_neighbors(default_n_neighbors(checked) if n_neighbors is None else n_neighbors, n)
    _, neighbors = nearest(y, k)
    found = _edge_keys(np.repeat(np.arange(n), k), neighbors.ravel(), n)
    given = _edge_keys(checked.sources, checked.indices, n)
    common = len(np.intersect1d(found, given, assume_unique=True))
    precision = common / len(found)
    recall = common / len(given) if len(given) else float("nan")
    return NeighborhoodScores(precision, recall, 2.0 * common / (len(found) + len(given)))


def _edge_keys(row: AnyArray, col: AnyArray, n: int) -> AnyArray:
    """One sorted integer per undirected edge."""
    low, high = np.minimum(row, col).astype(np.int64), np.maximum(row, col).astype(np.int64)
    return np.unique(low * n + high)
