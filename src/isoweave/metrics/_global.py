"""Agreement of all distances with the graph's geodesics, and of maps with known coordinates."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from scipy.stats import kendalltau, rankdata

from isoweave._typing import AnyArray, FloatArray
from isoweave.metrics._inputs import GeodesicRows, Reference, as_geodesics, as_points, neighbor_count, sampler

_KENDALL_PAIRS = 2_000_000
# Distances handled at once, 128 MiB.
_BLOCK_ENTRIES = 1 << 24


def distance_pairs(reference: Reference, embedding: Any) -> tuple[FloatArray, FloatArray]:
    """Geodesic and embedded distances (p,) of every unordered pair with an end among the rows.

    Each pair is listed once, also when both of its ends are rows, so that all pairs of a sample are equally
    likely. Pairs in different components are left out. See :func:`global_stress` for the parameters.
    """
    geodesics = as_geodesics(reference)
    y = as_points(embedding, "embedding", geodesics.n_vertices)
    rank = np.full(len(y), -1)
    rank[geodesics.rows] = np.arange(len(geodesics.rows))
    graph_parts, embedded_parts = [], []
    step = max(1, _BLOCK_ENTRIES // len(y))
    for start in range(0, len(geodesics.rows), step):
        rows, distances = (a[start : start + step] for a in (geodesics.rows, geodesics.distances))
        # A pair of two rows belongs to the later one; this also drops the diagonal.
        keep = (rank[None, :] < np.arange(start, start + len(rows))[:, None]) & np.isfinite(distances)
        graph_parts.append(distances[keep])
        embedded_parts.append(cdist(y[rows], y)[keep])
    return np.concatenate(graph_parts), np.concatenate(embedded_parts)


def global_stress(reference: Reference, embedding: Any) -> float:
    """Relative root mean square difference between embedded and geodesic distances.

    ``sqrt(sum (|y_i - y_j| - D_ij)^2 / sum D_ij^2)`` over unordered pairs within components.

    Parameters
    ----------
    reference : NeighborGraph, sparse matrix, GeodesicRows or dense array of geodesics (n, n)
        Above 5,000 points of a graph a sample of rows is used; :func:`geodesic_rows` takes others.
    embedding : array of shape (n, N)
    """
    return stress_of_pairs(*distance_pairs(reference, embedding))


def pearson(reference: Reference, embedding: Any) -> float:
    """Pearson correlation of embedded and geodesic distances; see :func:`global_stress`."""
    return pearson_of_pairs(*distance_pairs(reference, embedding))


def spearman(reference: Reference, embedding: Any) -> float:
    """Spearman rank correlation of embedded and geodesic distances; see :func:`global_stress`."""
    return pearson_of_pairs(*map(rankdata, distance_pairs(reference, embedding)))


def kendall(reference: Reference, embedding: Any) -> float:
    """Kendall rank correlation (tau-b) of embedded and geodesic distances; see :func:`global_stress`.

    Above two million pairs a seeded sample of two million is used (standard error at most 0.001).
    """
    return kendall_of_pairs(*distance_pairs(reference, embedding))


def stress_of_pairs(d: FloatArray, e: FloatArray) -> float:
    """:func:`global_stress` of distances from :func:`distance_pairs`."""
    total = float(np.sum(d**2))
    return float(np.sqrt(np.sum((e - d) ** 2) / total)) if total > 0.0 else float("nan")


def pearson_of_pairs(d: FloatArray, e: FloatArray) -> float:
    """Correlation of distances; NaN, without a warning, when either side is constant."""
    if len(d) < 2:
        return float("nan")
    d, e = d - d.mean(), e - e.mean()
    scale = np.sqrt(np.sum(d**2)) * np.sqrt(np.sum(e**2))
    return float(np.clip(np.sum(d * e) / scale, -1.0, 1.0)) if scale > 0.0 else float("nan")


def kendall_of_pairs(d: FloatArray, e: FloatArray, random_state: Any = None) -> float:
    if len(d) > _KENDALL_PAIRS:
        chosen = sampler(random_state).randint(len(d), size=_KENDALL_PAIRS)
        d, e = d[chosen], e[chosen]
    return float(kendalltau(d, e).statistic) if len(d) > 1 else float("nan")


def trustworthiness(reference: Reference, embedding: Any, *, n_neighbors: int) -> float:
    """How far by geodesic rank the embedding's nearest neighbours were; 1 is best.

    ``1 - 2 / (n k (2 n - 3 k - 1)) sum_i sum_j max(0, r(i, j) - k)`` over the k nearest others j of i
    in the embedding, r their rank by graph geodesic distance; k is below n / 2. Each vertex is ranked
    within its component, whose size takes the place of n, and vertices of components of at most 2 k
    vertices are skipped (NaN when none is left). See :func:`global_stress`.
    """
    return rank_scores(as_geodesics(reference), embedding, n_neighbors)[0]


def continuity(reference: Reference, embedding: Any, *, n_neighbors: int) -> float:
    """How far by embedded rank the geodesically nearest neighbours ended up; 1 is best.

    :func:`trustworthiness` with the roles of the graph and the embedding exchanged.
    """
    return rank_scores(as_geodesics(reference), embedding, n_neighbors)[1]


def rank_scores(geodesics: GeodesicRows, embedding: Any, n_neighbors: int) -> tuple[float, float]:
    """Trustworthiness and continuity from one pass over the rows."""
    n = geodesics.n_vertices
    y = as_points(embedding, "embedding", n)
    k = neighbor_count(n_neighbors, n)
    if 2 * k >= n:
        raise ValueError(f"n_neighbors must be below n / 2 = {n / 2:g} for ranks to mean anything, got {k}.")
    scores, step = [], max(1, _BLOCK_ENTRIES // n)
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
    return tuple(pooled.mean(axis=0).tolist())


def _penalty(nearest_by: AnyArray, ranked_by: AnyArray, k: int) -> AnyArray:
    """Sum of ranks beyond k, by one order, of the k nearest by another; shape (rows,)."""
    rank = np.empty_like(ranked_by)
    np.put_along_axis(rank, ranked_by, np.arange(rank.shape[1])[None, :], axis=1)
    ranks = np.take_along_axis(rank, nearest_by[:, 1 : k + 1], axis=1)
    return np.maximum(ranks - k, 0).sum(axis=1)


def parameter_error(parameters: Any, embedding: Any) -> float:
    """Residual of the best affine map from the embedding (n, N) to the parameters (n, d).

    Over their variance: ``min_{B, c} ||P - Y B - c||_F^2 / ||P - mean||_F^2``, between 0 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> from isoweave.metrics import parameter_error
    >>> p = np.random.default_rng(3).normal(size=(50, 2))
    >>> parameter_error(p, p @ [[2.0, 1.0], [0.0, 3.0]] + 5.0) < 1e-25
    True
    """
    y = _centred(as_points(embedding, "embedding"))
    p = _centred(as_points(parameters, "parameters", len(y)))
    variance = _variance(p, "parameters")
    # Only the column space of y matters; numerically null directions must not be fitted.
    u, s, _ = np.linalg.svd(y, full_matrices=False)
    u = u[:, s > s[0] * max(y.shape) * np.finfo(np.float64).eps] if s[0] > 0.0 else u[:, :0]
    residual = p - u @ (u.T @ p)
    return min(1.0, float(np.sum(residual**2)) / variance)


def procrustes_error(truth: Any, embedding: Any) -> float:
    """Residual of the best rigid motion of the embedding (n, N) onto the truth (n, d), over its variance.

    It is ``min_{R orthogonal, c} ||T - Y R - c||_F^2 / ||T - mean||_F^2``, a squared ratio: rounding alone
    leaves about 1e-30. Reflections are free, scaling is not; the smaller dimension is padded with zeros.

    Examples
    --------
    >>> import numpy as np
    >>> from isoweave.metrics import procrustes_error
    >>> t = np.random.default_rng(3).normal(size=(50, 2))
    >>> procrustes_error(t, t @ [[0.0, 1.0], [1.0, 0.0]] + 5.0) < 1e-28
    True
    >>> round(procrustes_error(t, 1.1 * t), 12)
    0.01
    """
    y = _centred(as_points(embedding, "embedding"))
    t = _centred(as_points(truth, "truth", len(y)))
    variance = _variance(t, "truth")
    width = max(t.shape[1], y.shape[1])
    t, y = (np.pad(points, ((0, 0), (0, width - points.shape[1]))) for points in (t, y))
    u, _, vt = np.linalg.svd(y.T @ t)
    # The residual itself, never ||T||^2 + ||Y||^2 - 2 sum(s), which cancels below 1e-16.
    return float(np.sum((t - y @ (u @ vt)) ** 2)) / variance


def _centred(points: FloatArray) -> FloatArray:
    """Subtract the mean twice: the second pass removes the rounding of a large offset's mean."""
    centred = points - points.mean(axis=0)
    return centred - centred.mean(axis=0)


def _variance(points: FloatArray, name: str) -> float:
    variance = float(np.sum(points**2))
    if variance == 0.0:
        raise ValueError(f"{name} must not be constant: all {len(points)} rows are equal.")
    return variance
