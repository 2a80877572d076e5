"""The measures of the openproblems board for dimensionality reduction, block by block in linear memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from scipy.stats import rankdata
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.neighbors import NearestNeighbors

from isoweave._typing import AnyArray, FloatArray
from isoweave._validation import check_integer
from isoweave.metrics._global import as_points, pearson_of_pairs, ranks_of

# As on the board: cells that distances are compared among, neighbours, and the seed of the choice.
_WAYPOINTS, _K, _SEED = 10_000, 30, 0
# Distances handled at once, 32 MiB.
_BLOCK_ENTRIES = 1 << 22
# Distances whose first 13 binary digits agree count as equal in a correlation of ranks.
_DROPPED_BITS, _BINS = 9, 1 << 22
# Of the search for the width of a neighbourhood, as in UMAP.
_STEPS, _LEAST_WIDTH = 64, 1e-3

BOARD_MEANINGS: dict[str, tuple[str, int]] = {
    "waypoint_distance_correlation": ("ranks of all distances", 1),
    "centroid_distance_correlation": ("ranks: cells to centroids", 1),
    "label_distance_correlation": ("ranks: between centroids", 1),
    "density_preservation": ("correlation of local radii", 1),
    "continuity_at_k30": ("near in data, near in map", 1),
    "trustworthiness_at_k30": ("near in map, near in data", 1),
    "qnx_at_k30": ("share kept of 30 nearest", 1),
    "lcmc_at_k30": ("the same beyond chance", 1),
    "qnx_auc": ("share kept, mean over all k", 1),
    "qlocal": ("mean up to the best LCMC", 1),
    "qglobal": ("mean beyond it", 1),
}
"""What each measure of the board says, and that more is better (1)."""


def board_scores(
    features: Any,
    embedding: Any,
    *,
    labels: Any = None,
    n_waypoints: int = _WAYPOINTS,
    n_jobs: int | None = None,
) -> dict[str, float]:
    """Measures of the openproblems board: how a map keeps Euclidean distances and ranks of the features.

    Parameters
    ----------
    features : array or sparse matrix of shape (n, d)
        The board takes normalised counts of all genes.
    embedding : array of shape (n, N)
    labels : array of shape (n,), optional
        Cell types; without them there are no correlations with centroids.
    n_waypoints : int
        Points among which distances and ranks are compared: all, or this many chosen with a fixed seed.
    n_jobs : int, optional
        Threads of the neighbour search; all cores by default.

    Returns
    -------
    dict of str to float
        By the board's names (:data:`BOARD_MEANINGS`); NaN where undefined. Where n is at most ``n_waypoints``
        they are the board's, apart from ties in ranks of distances (1e-6), neighbours that the board
        approximates, and zeros that it writes over the first few distances to centroids. Memory grows with
        n, time with the square of the waypoints.
    """
    x = features.tocsr() if sp.issparse(features) else as_points(features, "features")
    n = x.shape[0]
    y = as_points(embedding, "embedding", n)
    count = check_integer("n_waypoints", n_waypoints, minimum=3)
    points = np.arange(n)
    if n > count:
        points = np.sort(np.random.RandomState(_SEED).choice(n, count, replace=False))
    # The differences of large squares are exact enough only around the origin.
    x, y = x if sp.issparse(x) else x - x.mean(axis=0), y - y.mean(axis=0)
    spaces = (x[points], y[points])
    result = {"waypoint_distance_correlation": _rank_correlation(*spaces)}
    if labels is not None:
        given = np.asarray(labels)
        if given.shape != (n,):
            raise ValueError(f"labels must have shape ({n},), one per point, got {given.shape}.")
        centres = [_centroids(space, given) for space in (x, y)]
        to_centres = [euclidean_distances(a, b) for a, b in zip(spaces, centres, strict=True)]
        result["centroid_distance_correlation"] = _spearman(*to_centres)
        result["label_distance_correlation"] = _spearman(*(cdist(a, a) for a in centres))
    if n > _K:
        radii = [_log_radii(space, n_jobs) for space in (x, y)]
        result["density_preservation"] = pearson_of_pairs(*radii)
    else:
        result["density_preservation"] = float("nan")
    return result | _coranking(*spaces)


def _blocks(a: Any, b: Any) -> Any:
    """Distances of some points to all, in both spaces, with the numbers of those points; 0 to themselves."""
    m = a.shape[0]
    for start in range(0, m, step := max(1, _BLOCK_ENTRIES // m)):
        rows = np.arange(start, min(m, start + step))
        found = [euclidean_distances(space[rows], space) for space in (a, b)]
        for distances in found:
            distances[np.arange(len(rows)), rows] = 0.0
        yield rows, *found


def _spearman(d: FloatArray, e: FloatArray) -> float:
    return pearson_of_pairs(rankdata(d), rankdata(e))


def _bins(distances: FloatArray) -> AnyArray:
    """Positive numbers are ordered as their bits are."""
    return distances.astype(np.float32).view(np.int32).ravel() >> _DROPPED_BITS


def _rank_correlation(a: Any, b: Any) -> float:
    """Spearman correlation of all distances, to itself included: ranks from counts, then a product."""
    if a.shape[0] ** 2 <= _BLOCK_ENTRIES:
        return _spearman(*next(_blocks(a, b))[1:])
    counts = np.zeros((2, _BINS), dtype=np.int64)
    for _, *found in _blocks(a, b):
        for count, distances in zip(counts, found, strict=True):
            count += np.bincount(_bins(distances), minlength=_BINS)
    middle = (a.shape[0] ** 2 + 1) / 2.0
    ranks = np.cumsum(counts, axis=1) - (counts - 1) / 2.0 - middle
    scale = np.sqrt(np.prod(np.sum(counts * ranks * ranks, axis=1)))
    total = 0.0
    for _, *found in _blocks(a, b):
        total += float(np.dot(*(rank[_bins(d)] for rank, d in zip(ranks, found, strict=True))))
    return total / float(scale) if scale > 0.0 else float("nan")


def _centroids(points: Any, labels: AnyArray) -> FloatArray:
    codes = np.unique(labels, return_inverse=True)[1]
    counts = np.bincount(codes)
    sums = sp.csr_array((np.ones(len(codes)), (codes, np.arange(len(codes))))) @ points
    return np.asarray(sums.toarray() if sp.issparse(sums) else sums) / counts[:, None]


def _log_radii(points: Any, n_jobs: int | None) -> FloatArray:
    """Logarithm of the mean distance to the neighbours, each counted as far as UMAP's fuzzy graph has it."""
    distances, neighbors = NearestNeighbors(n_neighbors=_K - 1, n_jobs=n_jobs).fit(points).kneighbors()
    n = len(neighbors)
    # The nearest that is no duplicate counts in full, and the width is such that log2(k) do in all.
    nearest = np.min(distances, axis=1, where=distances > 0.0, initial=np.inf)
    beyond = np.maximum(distances - np.where(np.isfinite(nearest), nearest, 0.0)[:, None], 0.0)
    low, high, width = np.zeros(n), np.full(n, np.inf), np.ones(n)
    for _ in range(_STEPS):
        total = np.exp(-beyond / width[:, None]).sum(axis=1)
        wide = total > np.log2(_K)
        high, low = np.where(wide, width, high), np.where(wide, low, width)
        width = np.where(np.isinf(high), 2.0 * width, (low + high) / 2.0)
    # Distances to oneself are among the mean ones there.
    width = np.maximum(width, _LEAST_WIDTH * distances.sum(axis=1) / _K)
    entries = np.repeat(np.arange(n), _K - 1), neighbors.ravel()
    strength = np.exp(-np.divide(beyond, width[:, None], out=np.zeros_like(beyond), where=beyond > 0.0))
    shape = {"shape": (n, n)}
    one_way = sp.csr_array((strength.ravel(), entries), **shape)
    lengths = sp.csr_array((distances.ravel(), entries), **shape)
    fuzzy = one_way + one_way.T - one_way * one_way.T
    weighted = fuzzy * lengths.maximum(lengths.T)
    return np.log(1e-8 + np.asarray(weighted.sum(axis=1)) / np.asarray(fuzzy.sum(axis=1)))


def _coranking(a: Any, b: Any) -> dict[str, float]:
    """What the co-ranking matrix says, of which only counts of the larger rank and two sums are kept."""
    m = a.shape[0]
    larger = np.zeros(m, dtype=np.int64)
    lost = np.zeros(2)
    for rows, *found in _blocks(a, b):
        ranks = []
        for distances in found:
            # Every point is its own rank 0, ahead of duplicates.
            distances[np.arange(len(rows)), rows] = -1.0
            ranks.append(ranks_of(distances))
        larger += np.bincount(np.maximum(*ranks).ravel(), minlength=m)
        for k, (near, far) in enumerate((ranks[::-1], ranks)):
            lost[k] += np.maximum(far[near <= _K] - _K, 0).sum()
    sizes = np.arange(1, m)
    kept = np.cumsum(larger[1:]) / (sizes * m)
    beyond = kept - sizes / (m - 1)
    best = int(np.argmax(beyond)) + 1
    if m <= _K + 1:
        trust = continuity = at = lcmc = float("nan")
    else:
        worst = m * (_K * (2 * m - 3 * _K - 1) if m > 2 * _K else (m - _K) * (m - _K - 1))
        trust, continuity = (1.0 - 2.0 * lost / worst).tolist()
        at, lcmc = float(kept[_K - 1]), float(beyond[_K - 1])
    return {
        "continuity_at_k30": continuity,
        "trustworthiness_at_k30": trust,
        "qnx_at_k30": at,
        "lcmc_at_k30": lcmc,
        "qnx_auc": float(kept.mean()),
        "qlocal": float(kept[:best].mean()),
        "qglobal": float(kept[best:].mean()) if best < m - 1 else float("nan"),
    }
