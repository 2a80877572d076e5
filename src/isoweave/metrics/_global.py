"""Agreement of all distances with the graph's geodesics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import dijkstra
from scipy.spatial.distance import cdist
from scipy.stats import kendalltau, rankdata
from sklearn.utils import check_random_state

from isoweave._typing import AnyArray, FloatArray
from isoweave.graph._graph import NeighborGraph
from isoweave.metrics._inputs import GraphLike, as_graph, as_points

ALL_ROWS_UP_TO = 5_000
"""Largest graph whose geodesics are computed from every vertex."""
_SAMPLED_PAIRS = 25_000_000
_FEWEST_ROWS, _MOST_ROWS = 50, 500
_KENDALL_PAIRS = 2_000_000
_SEED = 20_250
_BLOCK_ENTRIES = 1 << 24


@dataclass(frozen=True, eq=False)
class GeodesicRows:
    """Shortest-path distances from some vertices to all.

    Attributes
    ----------
    rows : intp array of shape (r,)
        The vertices the paths start from, increasing.
    distances : float64 array of shape (r, n)
        Infinite between components.
    """

    rows: AnyArray
    distances: FloatArray

    @property
    def n_vertices(self) -> int:
        return int(self.distances.shape[1])


Reference: TypeAlias = GraphLike | GeodesicRows | FloatArray


def default_n_rows(n: int) -> int:
    """Number of vertices whose geodesics the global metrics use: all n up to 5,000, then sampled.

    Above 5,000 points ``25e6 / n`` rows, at least 50 and at most 500. The standard error of
    stress, the correlations and the rank scores (worst of torus, swiss roll and the 5-D set, 8 samples
    each, poor embeddings) was about 0.005 with 500 rows and 0.015 with 50 to 100.
    """
    if n <= ALL_ROWS_UP_TO:
        return n
    return min(_MOST_ROWS, max(_FEWEST_ROWS, _SAMPLED_PAIRS // n))


def block_rows(n: int) -> int:
    """Rows of n distances handled at once, about 128 MiB."""
    return max(1, _BLOCK_ENTRIES // max(1, n))


def sampler(random_state: Any) -> np.random.RandomState:
    """Source of randomness for samples; None is a fixed seed and not numpy's global state."""
    rng: np.random.RandomState = check_random_state(_SEED if random_state is None else random_state)
    return rng


def geodesic_rows(graph: GraphLike, *, n_rows: int | None = None, random_state: Any = None) -> GeodesicRows:
    """Shortest-path distances of the graph, from all vertices or from a random sample.

    Parameters
    ----------
    graph : NeighborGraph or sparse matrix of shape (n, n)
    n_rows : int, optional
        Number of source vertices; see :func:`default_n_rows`.
    random_state : int, RandomState or None
        Chooses the sample; unused when every row is computed. None stands for a fixed seed, so that
        a metric depends on its arguments alone.

    Returns
    -------
    GeodesicRows
        Can be given to every global metric in place of the graph, so that paths are found once.
    """
    checked = as_graph(graph)
    n = checked.n_vertices
    count = default_n_rows(n) if n_rows is None else n_rows
    if not 1 <= count <= n:
        raise ValueError(f"n_rows must be between 1 and the number of vertices {n}, got {n_rows!r}.")
    if count == n:
        rows = np.arange(n)
    else:
        rows = np.sort(sampler(random_state).choice(n, size=count, replace=False))
    return GeodesicRows(rows, np.atleast_2d(dijkstra(checked.to_matrix(), indices=rows)))


def as_geodesics(
    reference: Reference, *, n_rows: int | None = None, random_state: Any = None
) -> GeodesicRows:
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


def distance_pairs(geodesics: GeodesicRows, embedding: Any) -> tuple[FloatArray, FloatArray]:
    """Geodesic and embedded distance of every unordered pair with an end among the rows.

    Each pair is listed once, also when both of its ends are rows, so that all pairs of a sample are
    equally likely. Pairs in different components (infinite geodesics) are left out.
    """
    y = as_points(embedding, "embedding", geodesics.n_vertices)
    rank = np.full(len(y), -1)
    rank[geodesics.rows] = np.arange(len(geodesics.rows))
    graph_parts, embedded_parts = [], []
    step = block_rows(len(y))
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
    d, e = distance_pairs(as_geodesics(reference, n_rows=n_rows, random_state=random_state), embedding)
    return stress_of_pairs(d, e)


def pearson(
    reference: Reference, embedding: Any, *, n_rows: int | None = None, random_state: Any = None
) -> float:
    """Pearson correlation of embedded and geodesic distances; see :func:`global_stress`."""
    d, e = distance_pairs(as_geodesics(reference, n_rows=n_rows, random_state=random_state), embedding)
    return pearson_of_pairs(d, e)


def spearman(
    reference: Reference, embedding: Any, *, n_rows: int | None = None, random_state: Any = None
) -> float:
    """Spearman rank correlation of embedded and geodesic distances; see :func:`global_stress`."""
    d, e = distance_pairs(as_geodesics(reference, n_rows=n_rows, random_state=random_state), embedding)
    return spearman_of_pairs(d, e)


def kendall(
    reference: Reference, embedding: Any, *, n_rows: int | None = None, random_state: Any = None
) -> float:
    """Kendall rank correlation (tau-b) of embedded and geodesic distances; see :func:`global_stress`.

    Above two million pairs (2,000 points) a seeded sample of two million is used, whose standard
    error is at most ``sqrt(2 / 2e6) = 0.001``.
    """
    d, e = distance_pairs(as_geodesics(reference, n_rows=n_rows, random_state=random_state), embedding)
    return kendall_of_pairs(d, e, random_state)


def stress_of_pairs(d: FloatArray, e: FloatArray) -> float:
    total = float(np.sum(d**2))
    return float(np.sqrt(np.sum((e - d) ** 2) / total)) if total > 0.0 else float("nan")


def pearson_of_pairs(d: FloatArray, e: FloatArray) -> float:
    """NaN, without a warning, when either side is constant."""
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
