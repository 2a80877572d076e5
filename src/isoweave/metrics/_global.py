"""Geodesics and what is compared with them: all distances of a map; and maps with known coordinates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from scipy.stats import kendalltau, rankdata
from sklearn.utils import check_random_state

from isoweave._typing import AnyArray, FloatArray
from isoweave._validation import check_integer
from isoweave.graph import NeighborGraph, geodesics, graph_from_matrix

GraphLike: TypeAlias = NeighborGraph | sp.sparray | sp.spmatrix

_ALL_ROWS_UP_TO = 5_000
_SAMPLED_PAIRS = 25_000_000
_FEWEST_ROWS, _MOST_ROWS = 50, 500
_SEED = 20_250
# Coordinates beyond have squares that overflow.
_LARGEST = 1e150
_KENDALL_PAIRS = 2_000_000
# Distances handled at once, 128 MiB.
_BLOCK_ENTRIES = 1 << 24


@dataclass(frozen=True, eq=False)
class GeodesicRows:
    """Shortest paths ``distances`` (r, n) from the increasing ``rows`` (r,); infinite between components."""

    rows: AnyArray
    distances: FloatArray


Reference: TypeAlias = GraphLike | GeodesicRows | FloatArray


def as_pair(graph: GraphLike, embedding: Any) -> tuple[NeighborGraph, FloatArray]:
    """A checked graph and the embedding of its vertices."""
    checked = graph_from_matrix(graph)
    return checked, as_points(embedding, "embedding", checked.n_vertices)


def as_points(points: Any, name: str, n: int | None = None) -> FloatArray:
    """A finite float64 array of shape (n, N); a 1-D array is read as one column."""
    array = np.asarray(points)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or array.shape[1] == 0 or not np.can_cast(array.dtype, np.float64, "same_kind"):
        got = f"shape {np.shape(points)} and dtype {array.dtype}"
        raise ValueError(f"{name} must be a real array of shape (n, N), got {got}.")
    if n is not None and len(array) != n:
        raise ValueError(f"{name} must have one row per vertex: expected {n} rows, got {len(array)}.")
    array = np.ascontiguousarray(array, dtype=np.float64)
    bad = np.flatnonzero(~np.isfinite(array).all(axis=1))
    if len(bad):
        got = f"{array[bad[0]]} in row {bad[0]} and {len(bad) - 1} more such rows"
        raise ValueError(f"{name} must be finite, got {got}.")
    largest = float(np.abs(array).max(initial=0.0))
    if largest > _LARGEST:
        raise ValueError(f"{name} must not exceed {_LARGEST:g}, whose square is a number; got {largest:.3g}.")
    return array


def neighbor_count(n_neighbors: int | None, n: int, graph: NeighborGraph | None = None) -> int:
    """An integer from 1 to n - 1; None takes the graph's smallest degree, which is k for a kNN graph."""
    if n_neighbors is None and graph is not None:
        n_neighbors = max(1, int(graph.degrees.min()))
    return check_integer("n_neighbors", n_neighbors, minimum=1, maximum=n - 1)


def sampler(random_state: Any) -> np.random.RandomState:
    """Source of randomness for samples; None is a fixed seed and not numpy's global state."""
    return check_random_state(_SEED if random_state is None else random_state)


def default_n_rows(n: int) -> int:
    """Number of vertices whose geodesics the global metrics use: all n up to 5,000, then sampled.

    Above 5,000 points ``25e6 / n`` rows, at least 50 and at most 500. The standard error of stress,
    correlations and rank scores (worst of three sets) was about 0.005 with 500 rows, 0.015 with 50 to 100.
    """
    return n if n <= _ALL_ROWS_UP_TO else min(_MOST_ROWS, max(_FEWEST_ROWS, _SAMPLED_PAIRS // n))


def geodesic_rows(graph: GraphLike, *, n_rows: int | None = None, random_state: Any = None) -> GeodesicRows:
    """Shortest paths from all vertices or a sample, for every global metric in place of the graph.

    ``n_rows`` is the number of source vertices, see :func:`default_n_rows`. ``random_state`` chooses them;
    None stands for a fixed seed, so that a metric depends on its arguments alone.
    """
    checked = graph_from_matrix(graph)
    n = checked.n_vertices
    count = default_n_rows(n) if n_rows is None else check_integer("n_rows", n_rows, minimum=1, maximum=n)
    rows = np.arange(n)
    if count < n:
        rows = np.sort(sampler(random_state).choice(n, size=count, replace=False))
    return GeodesicRows(rows, geodesics(checked, rows))


def as_geodesics(reference: Reference, n_rows: int | None = None, random_state: Any = None) -> GeodesicRows:
    """Geodesics of a graph, or checked geodesics given as such or as a dense (n, n) array."""
    if isinstance(reference, GeodesicRows):
        return reference
    if isinstance(reference, NeighborGraph) or sp.issparse(reference):
        return geodesic_rows(reference, n_rows=n_rows, random_state=random_state)
    distances = np.asarray(reference, dtype=np.float64)
    if distances.ndim != 2 or distances.shape[0] != distances.shape[1]:
        raise ValueError(f"geodesic distances must have shape (n, n), got {distances.shape}.")
    bad = np.argwhere(~(distances >= 0.0))
    if len(bad):
        i, j = bad[0]
        raise ValueError(f"geodesic distances must be >= 0, got {distances[i, j]} at ({i}, {j}).")
    return GeodesicRows(np.arange(len(distances)), distances)


def distance_pairs(reference: Reference, embedding: Any) -> tuple[FloatArray, FloatArray]:
    """Geodesic and embedded distances (p,) of every unordered pair with an end among the rows.

    Each pair is listed once, also when both of its ends are rows, so that all pairs of a sample are equally
    likely. Pairs in different components are left out. See :func:`global_stress` for the parameters.
    """
    paths = as_geodesics(reference)
    y = as_points(embedding, "embedding", paths.distances.shape[1])
    rank = np.full(len(y), -1)
    rank[paths.rows] = np.arange(len(paths.rows))
    graph_parts, embedded_parts = [], []
    step = max(1, _BLOCK_ENTRIES // len(y))
    for start in range(0, len(paths.rows), step):
        rows, distances = (a[start : start + step] for a in (paths.rows, paths.distances))
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


def rank_scores(paths: GeodesicRows, embedding: Any, n_neighbors: int) -> tuple[float, float]:
    """Trustworthiness and continuity from one pass over the rows."""
    n = paths.distances.shape[1]
    y = as_points(embedding, "embedding", n)
    k = neighbor_count(n_neighbors, n)
    if 2 * k >= n:
        raise ValueError(f"n_neighbors must be below n / 2 = {n / 2:g} for ranks to mean anything, got {k}.")
    scores, step = [], max(1, _BLOCK_ENTRIES // n)
    for start in range(0, len(paths.rows), step):
        rows = paths.rows[start : start + step]
        original = paths.distances[start : start + step].copy()
        embedded = cdist(y[rows], y)
        embedded[~np.isfinite(original)] = np.inf
        # Every point is its own rank 0, ahead of duplicates at distance 0.
        each = np.arange(len(rows))
        original[each, rows] = embedded[each, rows] = -1.0
        size = np.isfinite(original).sum(axis=1)
        ranks = [ranks_of(distances) for distances in (original, embedded)]
        # Every row has a point and its k nearest.
        near = [far[by <= k].reshape(-1, k + 1) for by, far in (ranks[::-1], ranks)]
        lost = np.column_stack([np.maximum(places - k, 0).sum(axis=1) for places in near])
        large = size > 2 * k
        worst = k * (2.0 * size[large] - 3.0 * k - 1.0) / 2.0
        scores.append(1.0 - lost[large] / worst[:, None])
    pooled = np.concatenate(scores)
    if not len(pooled):
        return float("nan"), float("nan")
    return tuple(pooled.mean(axis=0).tolist())


def ranks_of(distances: FloatArray) -> AnyArray:
    """Place of every entry in the order of its row, from 0; shape (rows, n)."""
    order = np.argsort(distances, axis=1, kind="stable")
    ranks = np.empty_like(order)
    np.put_along_axis(ranks, order, np.arange(order.shape[1])[None, :], axis=1)
    return ranks


def parameter_error(parameters: Any, embedding: Any) -> float:
    """Residual of the best affine map from the embedding (n, N) to the parameters (n, d).

    Over their variance: ``min_{B, c} ||P - Y B - c||_F^2 / ||P - mean||_F^2``, between 0 and 1.
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
