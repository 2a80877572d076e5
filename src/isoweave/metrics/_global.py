"""Agreement of all distances, and of their order, with the graph's geodesics."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from scipy.stats import kendalltau, rankdata

from isoweave._typing import AnyArray, FloatArray
from isoweave.metrics._inputs import GeodesicRows, Reference, as_geodesics, as_points, neighbor_count, sampler

_KENDALL_PAIRS = 2_000_000
_BLOCK_ENTRIES = 1 << 24


def _block_rows(n: int) -> int:
    """Rows of n distances handled at once, about 128 MiB."""
    return max(1, _BLOCK_ENTRIES // max(1, n))


def distance_pairs(
    reference: Reference, embedding: Any, *, n_rows: int | None = None, random_state: Any = None
) -> tuple[FloatArray, FloatArray]:
    """Geodesic and embedded distance of every unordered pair with an end among the rows.

    Each pair is listed once, also when both of its ends are rows, so that all pairs of a sample are
    equally likely. Pairs in different components (infinite geodesics) are left out. See
    :func:`global_stress` for the parameters.

    Returns
    -------
    geodesic, embedded : arrays of shape (p,)
    """
    geodesics = as_geodesics(reference, n_rows=n_rows, random_state=random_state)
    y = as_points(embedding, "embedding", geodesics.n_vertices)
    rank = np.full(len(y), -1)
    rank[geodesics.rows] = np.arange(len(geodesics.rows))
    graph_parts, embedded_parts = [], []
    step = _block_rows(len(y))
    for start in range(0, len(geodesics.rows), step):
        block = slice(start, start + step)
        rows = geodesics.rows[block]
        distances = geodesics.distances[block]
        # A pair of two rows belongs to the later one; this also drops the diagonal.
        keep = (rank[None, :] < np.arange(start, start + len(rows))[:, None]) & np.isfinite(distances)
        graph_parts.append(distances[keep])
        embedded_parts.append(cdist(y[rows], y)[keep])
    return np.concatenate(graph_parts), np.concatenate(embedded_parts)


def global_stress(
    reference: Reference, embedding: Any, *, n_rows: int | None = None, random_state: Any = None
) -> float:
    """Relative root mean square difference between embedded and geodesic distances.

    Parameters
    ----------
    reference : NeighborGraph, sparse matrix, GeodesicRows or dense array of geodesics (n, n)
        The graph, or distances already computed by :func:`geodesic_rows`.
    embedding : array of shape (n, N)
    n_rows, random_state
        As in :func:`geodesic_rows`: above 5,000 points a seeded sample of rows is used.

    Returns
    -------
    float
        ``sqrt(sum (|y_i - y_j| - D_ij)^2 / sum D_ij^2)`` over unordered pairs; pairs in different
        components are left out.
    """
    return stress_of_pairs(*distance_pairs(reference, embedding, n_rows=n_rows, random_state=random_state))


def pearson(
    reference: Reference, embedding: Any, *, n_rows: int | None = None, random_state: Any = None
) -> float:
    """Pearson correlation of embedded and geodesic distances; see :func:`global_stress`."""
    return pearson_of_pairs(*distance_pairs(reference, embedding, n_rows=n_rows, random_state=random_state))


def spearman(
    reference: Reference, embedding: Any, *, n_rows: int | None = None, random_state: Any = None
) -> float:
    """Spearman rank correlation of embedded and geodesic distances; see :func:`global_stress`."""
    return spearman_of_pairs(*distance_pairs(reference, embedding, n_rows=n_rows, random_state=random_state))


def kendall(
    reference: Reference, embedding: Any, *, n_rows: int | None = None, random_state: Any = None
) -> float:
    """Kendall rank correlation (tau-b) of embedded and geodesic distances; see :func:`global_stress`.

    Above two million pairs (2,000 points) a seeded sample of two million is used, whose standard
    error is at most ``sqrt(2 / 2e6) = 0.001``.
    """
    pairs = distance_pairs(reference, embedding, n_rows=n_rows, random_state=random_state)
    return kendall_of_pairs(*pairs, random_state)


def stress_of_pairs(d: FloatArray, e: FloatArray) -> float:
    """:func:`global_stress` of distances from :func:`distance_pairs`."""
    total = float(np.sum(d**2))
    return float(np.sqrt(np.sum((e - d) ** 2) / total)) if total > 0.0 else float("nan")


def pearson_of_pairs(d: FloatArray, e: FloatArray) -> float:
    """Correlation of distances; NaN, without a warning, when either side is constant."""
    if len(d) < 2:
        return float("nan")
    d, e = d - d.mean(), e - e.mean()
    scale = float(np.sqrt(np.sum(d**2)) * np.sqrt(np.sum(e**2)))
    return float(np.clip(np.sum(d * e) / scale, -1.0, 1.0)) if scale > 0.0 else float("nan")


def spearman_of_pairs(d: FloatArray, e: FloatArray) -> float:
    return pearson_of_pairs(rankdata(d), rankdata(e))


def kendall_of_pairs(d: FloatArray, e: FloatArray, random_state: Any) -> float:
    if len(d) > _KENDALL_PAIRS:
        chosen = sampler(random_state).randint(len(d), size=_KENDALL_PAIRS)
        d, e = d[chosen], e[chosen]
    return float(kendalltau(d, e).statistic) if len(d) > 1 else float("nan")


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
    k = neighbor_count(n_neighbors, n)
    if 2 * k >= n:
        raise ValueError(f"n_neighbors must be below n / 2 = {n / 2:g} for ranks to mean anything, got {k}.")
    scores = []
    step = _block_rows(n)
    for start in range(0, len(geodesics.rows), step):
        rows = geodesics.rows[start : start + step]
        original = geodesics.distances[start : start + step].copy()
        embedded = cdist(y[rows], y)
        embedded[~np.isfinite(original)] = np.inf
        # Every point is its own rank 0, ahead of duplicates at distance 0.
        each = np.arange(len(rows))
        original[each, rows] = embedded[each, rows] = -1.0
        size = np.isfinite(original).sum(axis=1)
        by_original, by_embedded = (np.argsort(d, axis=1, kind="stable") for d in (original, embedded))
        lost = np.column_stack([_penalty(by_embedded, by_original, k), _penalty(by_original, by_embedded, k)])
        large = size > 2 * k
        worst = k * (2.0 * size[large] - 3.0 * k - 1.0) / 2.0
        scores.append(1.0 - lost[large] / worst[:, None])
    pooled = np.concatenate(scores)
    if not len(pooled):
        return float("nan"), float("nan")
    trust, cont = pooled.mean(axis=0)
    return float(trust), float(cont)


def _penalty(nearest_by: AnyArray, ranked_by: AnyArray, k: int) -> AnyArray:
    """Sum of ranks beyond k, by one order, of the k nearest by another; shape (rows,)."""
    rank = np.empty_like(ranked_by)
    np.put_along_axis(rank, ranked_by, np.arange(rank.shape[1])[None, :], axis=1)
    ranks = np.take_along_axis(rank, nearest_by[:, 1 : k + 1], axis=1)
    lost: AnyArray = np.maximum(ranks - k, 0).sum(axis=1)
    return lost
