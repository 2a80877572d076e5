"""Neighbourhoods compared by rank."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from isoweave._typing import AnyArray, FloatArray
from isoweave.metrics._global import GeodesicRows, Reference, as_geodesics, block_rows
from isoweave.metrics._inputs import as_points, check_n_neighbors


def trustworthiness(
    reference: Reference,
    embedding: Any,
    *,
    n_neighbors: int,
    n_rows: int | None = None,
    random_state: Any = None,
) -> float:
    """How far by geodesic rank the embedding's nearest neighbours were; 1 is best.

    ``1 - 2 / (n k (2 n - 3 k - 1)) sum_i sum_j max(0, r(i, j) - k)`` over the k nearest others j of i
    in the embedding, r their rank by graph geodesic distance.

    Parameters
    ----------
    reference : NeighborGraph, sparse matrix, GeodesicRows or dense array of geodesics (n, n)
    embedding : array of shape (n, N)
    n_neighbors : int
        k, below n / 2.
    n_rows, random_state
        As in :func:`isoweave.metrics.geodesic_rows`: above 5,000 points the mean over a seeded sample
        of vertices i is taken.

    Returns
    -------
    float
        Pairs in different components are left out: each vertex is ranked within its component, whose
        size takes the place of n, and vertices of components of at most 2 k vertices are skipped. NaN
        when none is left.
    """
    geodesics = as_geodesics(reference, n_rows=n_rows, random_state=random_state)
    return rank_scores(geodesics, embedding, n_neighbors)[0]


def continuity(
    reference: Reference,
    embedding: Any,
    *,
    n_neighbors: int,
    n_rows: int | None = None,
    random_state: Any = None,
) -> float:
    """How far by embedded rank the geodesically nearest neighbours ended up; 1 is best.

    :func:`trustworthiness` with the roles of the graph and the embedding exchanged.
    """
    geodesics = as_geodesics(reference, n_rows=n_rows, random_state=random_state)
    return rank_scores(geodesics, embedding, n_neighbors)[1]


def rank_scores(geodesics: GeodesicRows, embedding: Any, n_neighbors: int) -> tuple[float, float]:
    """Trustworthiness and continuity from one pass over the rows."""
    n = geodesics.n_vertices
    y = as_points(embedding, "embedding", n)
    k = check_n_neighbors(n_neighbors, n)
    if 2 * k >= n:
        raise ValueError(f"n_neighbors must be below n / 2 = {n / 2:g} for ranks to mean anything, got {k}.")
    scores = []
    step = block_rows(n)
    for start in range(0, len(geodesics.rows), step):
        rows = geodesics.rows[start : start + step]
        original = geodesics.distances[start : start + step].copy()
        embedded = cdist(y[rows], y)
        embedded[~np.isfinite(original)] = np.inf
        # Every point is its own rank 0, ahead of duplicates at distance 0.
        each = np.arange(len(rows))
        original[each, rows] = embedded[each, rows] = -1.0
        size = np.isfinite(original).sum(axis=1)
        by_original, by_embedded = _order(original), _order(embedded)
        lost = np.column_stack([_penalty(by_embedded, by_original, k), _penalty(by_original, by_embedded, k)])
        large = size > 2 * k
        worst = k * (2.0 * size[large] - 3.0 * k - 1.0) / 2.0
        scores.append(1.0 - lost[large] / worst[:, None])
    pooled = np.concatenate(scores)
    if not len(pooled):
        return float("nan"), float("nan")
    trust, cont = pooled.mean(axis=0)
    return float(trust), float(cont)


def _order(distances: FloatArray) -> AnyArray:
    return np.argsort(distances, axis=1, kind="stable")


def _penalty(nearest_by: AnyArray, ranked_by: AnyArray, k: int) -> AnyArray:
    """Sum of ranks beyond k, by one order, of the k nearest by another; shape (rows,)."""
    rank = np.empty_like(ranked_by)
    np.put_along_axis(rank, ranked_by, np.arange(rank.shape[1])[None, :], axis=1)
    ranks = np.take_along_axis(rank, nearest_by[:, 1 : k + 1], axis=1)
    lost: AnyArray = np.maximum(ranks - k, 0).sum(axis=1)
    return lost
