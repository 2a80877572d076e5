"""Nearest-neighbour graphs of feature vectors and of dense distance matrices."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
import scipy.sparse as sp

from isoweave._parallel import ONE_THREAD, thread_team
from isoweave._typing import AnyArray, FloatArray
from isoweave._validation import check_integer
from isoweave.graph._duplicates import group_pairs, groups_from_labels, spread_neighbors
from isoweave.graph._euclidean import block_rows, nearest_of_all
from isoweave.graph._features import Metric
from isoweave.graph._graph import NeighborGraph
from isoweave.graph._index import build_index
from isoweave.graph._validate import assemble_graph


def knn_graph(
    X: Any,
    n_neighbors: int = 10,
    *,
    metric: Metric = "euclidean",
    metric_params: dict[str, Any] | None = None,
    n_jobs: int | None = None,
    random_state: Any = None,
    method: str = "auto",
) -> NeighborGraph:
    """Graph that joins each point to its nearest neighbours, max-symmetrised.

    Two points are joined if either is among the other's ``n_neighbors`` nearest. Euclidean lengths are
    computed from coordinate differences, so they have full relative accuracy.

    Identical points count once: each point is joined to its ``n_neighbors`` nearest *distinct* points,
    and to its own duplicates by edges of length zero, so that merging duplicates leaves the kNN graph of
    the distinct points. Where several points tie for the last place, the choice depends on the contents of
    the rows, not on their order.

    Parameters
    ----------
    X : array or sparse matrix of shape (n, n_features)
    n_neighbors : int
        Less than n.
    metric : str or callable
        Any metric of scikit-learn, or a function of two rows. With more than 1,000 points of at most 10
        features a function is searched with a ball tree and must then obey the triangle inequality.
    metric_params : dict or None
        Keyword arguments of the metric.
    n_jobs : int or None
        Number of threads; None and -1 mean all cores. Changes nothing but the time.
    random_state : int, RandomState or None
        Seed of the approximate search. None is a fixed seed.
    method : {"auto", "exact", "approximate"}
        "auto" is approximate for more than 50,000 points of more than 10 Euclidean (or cosine) features
        if the extra ``knn`` is installed, and exact otherwise. Without the extra large searches take
        longer, nothing else changes.

    Examples
    --------
    >>> graph = knn_graph([[0.0], [1.0], [3.0], [3.0]], n_neighbors=1)
    >>> graph.to_matrix().toarray()[0]
    array([0., 1., 0., 0.])
    >>> graph.n_edges
    3
    """
    k = check_integer("n_neighbors", n_neighbors, minimum=1)
    with thread_team(n_jobs) as team:
        index = build_index(X, metric, metric_params, team=team, method=method, random_state=random_state)
        groups = index.space.groups
        n = len(groups.members)
        if k >= n:
            raise ValueError(f"n_neighbors must be less than the number of samples, got {k} for {n} samples.")
        neighbors, distances = index.among_points(min(k, groups.n_groups - 1), team=team)
    rows, cols, lengths = spread_neighbors(groups, neighbors, distances, k)
    return assemble_graph(n, rows, cols, lengths, asymmetry="max")


def knn_from_distances(D: Any, n_neighbors: int = 10) -> NeighborGraph:
    """Nearest-neighbour graph of points known by all their distances.

    Rounding is forgiven: asymmetry, a diagonal and negative values up to the square root of the type's
    precision times the largest distance, which is the error of the usual formula for pairwise distances.
    Lengths are the larger of the two entries. Duplicates (entries of exactly zero) count once, as in
    :func:`knn_graph`. Ties for the last place are settled by the points' other distances, not by their
    numbers.

    Parameters
    ----------
    D : array of shape (n, n)
        Distances between all pairs, finite and symmetric, zero on the diagonal.
    n_neighbors : int
        Less than n.

    Examples
    --------
    >>> knn_from_distances([[0, 1, 3], [1, 0, 2], [3, 2, 0]], n_neighbors=1).to_matrix().toarray()
    array([[0., 1., 0.],
           [1., 0., 2.],
           [0., 2., 0.]])
    """
    k = check_integer("n_neighbors", n_neighbors, minimum=1)
    matrix = _check_square(D)
    n = len(matrix)
    if k >= n:
        raise ValueError(f"n_neighbors must be less than the number of points, got {k} for {n} points.")
    keys, zero_rows, zero_cols = _check_distance_matrix(matrix)
    n_groups, labels = group_pairs(n, zero_rows, zero_cols)
    # Groups in the order of a function of their distances, so that ties are settled by geometry.
    order = np.argsort(np.argsort(keys[np.unique(labels, return_index=True)[1]], kind="stable"))
    groups = groups_from_labels(order[labels], n_groups)
    first = groups.first

    def to_all(lo: int, hi: int) -> FloatArray:
        return np.ascontiguousarray(matrix[first[lo:hi]][:, first], dtype=np.float64)

    own = np.arange(n_groups, dtype=np.int32)
    found = nearest_of_all(to_all, own, min(k, n_groups - 1), ONE_THREAD, block_rows(n))
    rows, cols, _ = spread_neighbors(groups, *found, k)
    lengths = np.maximum(np.maximum(matrix[rows, cols], matrix[cols, rows]).astype(np.float64), 0.0)
    return assemble_graph(n, rows, cols, lengths, asymmetry="max")


def _check_square(D: Any) -> AnyArray:
    if sp.issparse(D):
        raise TypeError(
            f"Expected a dense distance matrix, got {type(D).__name__}; pass sparse matrices to "
            "graph_from_matrix."
        )
    matrix = np.asarray(D)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"A distance matrix must be square, got shape {matrix.shape}.")
    if matrix.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: the distance matrix has dtype {matrix.dtype}.")
    if matrix.dtype.kind not in "fiu":
        raise TypeError(f"Distances must be real numbers, got an array of dtype {matrix.dtype}.")
    if len(matrix) < 2:
        raise ValueError(f"A distance matrix needs at least 2 points, got shape {matrix.shape}.")
    return matrix


def _check_distance_matrix(matrix: AnyArray) -> tuple[FloatArray, AnyArray, AnyArray]:
    """Check all entries; return a key of each row to settle ties by, and the pairs at distance zero."""
    n = len(matrix)
    blocks = [slice(lo, min(lo + block_rows(n), n)) for lo in range(0, n, block_rows(n))]
    precision = np.finfo(matrix.dtype if matrix.dtype.kind == "f" else np.float64).eps
    largest = 0.0
    for rows in blocks:
        bad = ~np.isfinite(matrix[rows])
        if bad.any():
            _raise_entry(matrix, bad, rows.start, "distances must be finite")
        largest = max(largest, float(matrix[rows].max()))
    tol = float(np.sqrt(precision)) * largest
    keys = np.empty(n)
    zeros: list[tuple[AnyArray, AnyArray]] = []
    for rows in blocks:
        block = matrix[rows].astype(np.float64)
        # Roots, because plain sums of whole numbers are often equal.
        keys[rows] = np.sqrt(np.maximum(block, 0)).sum(axis=1)
        if (block < -tol).any():
            _raise_entry(
                matrix, block < -tol, rows.start, "Negative values in data: distances must not be negative"
            )
        own = np.zeros_like(block, dtype=np.bool_)
        own[np.arange(len(block)), np.arange(rows.start, rows.stop)] = True
        if (own & (block > tol)).any():
            _raise_entry(matrix, own & (block > tol), rows.start, "the diagonal must be zero")
        apart = np.abs(block - matrix[:, rows].T) > tol
        if apart.any():
            i, j = np.argwhere(apart)[0] + (rows.start, 0)
            _raise_entry(
                matrix, apart, rows.start, f"entry ({j}, {i}) is {matrix[j, i]}: distances must be symmetric"
            )
        at = np.nonzero((block <= 0) & ~own)
        zeros.append((at[0] + rows.start, at[1]))
    return keys, np.concatenate([a for a, _ in zeros]), np.concatenate([b for _, b in zeros])


def _raise_entry(matrix: AnyArray, bad: AnyArray, offset: int, why: str) -> NoReturn:
    i, j = np.argwhere(bad)[0] + (offset, 0)
    raise ValueError(f"Entry ({i}, {j}) of the distance matrix is {matrix[i, j]}; {why}.")
