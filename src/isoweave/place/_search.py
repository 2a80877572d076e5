"""Neighbours of new feature vectors among those of a map.

The same metrics and the same kinds of search as :func:`isoweave.graph.knn_graph`. What a query finds depends
on that query alone: where matrix products round differently from batch to batch, candidates are measured
again by coordinate differences, and a query whose candidates are not provably all there is compared with all
points.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.spatial import cKDTree
from sklearn.metrics import pairwise_distances
from sklearn.neighbors import BallTree

from isoweave._parallel import ThreadTeam
from isoweave._typing import FloatArray, IntArray
from isoweave.graph._features import MINKOWSKI_P, FeatureSpace, Metric, prepare_features
from isoweave.graph._knn import choose_knn_search
from isoweave.graph._search import block_rows
from isoweave.place._search_euclidean import Found, Query, approximate_query, brute_query, smallest

# Dense metrics that scikit-learn computes by matrix products: one query at a time.
_BY_PRODUCTS = ("cosine", "euclidean", "sqeuclidean", "nan_euclidean")


@dataclass(frozen=True, eq=False)
class FeatureIndex:
    """Points of a map that new points find their neighbours among. Made by :func:`feature_index`.

    Attributes
    ----------
    space : FeatureSpace
        The distinct points, with the metric.
    search : str
        "tree", "brute", "approximate" or "pairwise".
    """

    space: FeatureSpace
    search: str
    _query: Query

    def neighbors(self, X: Any, k: int, *, team: ThreadTeam) -> tuple[IntArray, FloatArray]:
        """The ``k`` nearest distinct points of every row of X, or all if there are fewer.

        Returns
        -------
        indices : int32 array of shape (m, k)
            Of the samples the index was made from, nearest first; of duplicates the first.
        distances : float64 array of shape (m, k)
            In the user's metric; 0 only for identical points.
        """
        queries = _like_points(X, self.space)
        k = min(k, self.space.groups.n_groups)
        found, raw = self._query(queries, k, team)
        distances = self.space.to_user(raw)
        distances[(distances < 0) & (distances > -1e-12)] = 0.0
        bad = ~(np.isfinite(distances) & (distances >= 0))
        if bad.any():
            i, slot = divmod(int(np.argmax(bad)), k)
            raise ValueError(
                f"The metric gives {distances[i, slot]} between row {i} of X and sample "
                f"{self.space.groups.first[found[i, slot]]} of the fit; distances must be finite and not "
                "negative. Check the metric."
            )
        return self.space.groups.first[found], distances


def feature_index(
    X: Any, metric: Metric = "euclidean", metric_params: dict[str, Any] | None = None, *, team: ThreadTeam
) -> FeatureIndex:
    """Prepare the search among the rows of X; trees and indices are built here, once.

    Parameters
    ----------
    X : array or sparse matrix of shape (n, n_features)
    metric, metric_params
        As in :func:`isoweave.graph.knn_graph`; what a metric takes from the data (variances) it takes from X.
    team : ThreadTeam
    """
    space = prepare_features(X, metric, metric_params, team)
    points = space.points
    n, d = points.shape
    search = choose_knn_search(n, d, space.metric, sparse=sp.issparse(points))
    weighted = space.params and (space.metric in MINKOWSKI_P or "w" in space.params)
    if space.metric in ("sqeuclidean", "cosine") or weighted:
        search = "pairwise"
    if search == "approximate":
        query = approximate_query(points, team)
    elif search == "brute":
        query = brute_query(points)
    else:
        query = _tree_query(space) if search == "tree" else _pairwise_query(space)
    return FeatureIndex(space, search, query)


def _like_points(X: Any, space: FeatureSpace) -> Any:
    """New rows in the form of the points: dense or sparse, normalised, scaled, boolean."""
    if sp.issparse(space.points):
        return sp.csr_array(X, dtype=np.float64)
    rows = X.toarray() if sp.issparse(X) else np.asarray(X)
    if space.points.dtype == np.bool_:
        return rows != 0
    rows = np.ascontiguousarray(rows, dtype=np.float64)
    if space.cosine:
        norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
        bad = ~((norms > 0) & (norms < np.inf))
        if bad.any():
            raise ValueError(
                f"Row {int(np.argmax(bad))} of X has length {norms[bad][0]:g} and no direction, which "
                "metric='cosine' needs. Leave it out."
            )
        return rows / norms[:, None]
    return rows / space.scale


def _tree_query(space: FeatureSpace) -> Query:
    points = space.points
    if isinstance(space.metric, str) and (space.metric in MINKOWSKI_P or space.metric == "minkowski"):
        p = MINKOWSKI_P.get(space.metric) or float(space.params["p"])
        tree = cKDTree(points)

        def query_kd(queries: Any, k: int, team: ThreadTeam) -> Found:
            distances, neighbors = tree.query(queries, np.arange(1, k + 1), p=p, workers=team.n_threads)
            return neighbors.astype(np.int32), distances

        return query_kd
    ball = BallTree(points, metric=space.metric, **space.params)

    def query_ball(queries: Any, k: int, team: ThreadTeam) -> Found:
        neighbors, distances = np.empty((len(queries), k), dtype=np.int32), np.empty((len(queries), k))

        def work(lo: int, hi: int) -> None:
            distances[lo:hi], neighbors[lo:hi] = ball.query(queries[lo:hi], k)

        team.run(work, len(queries))
        return neighbors, distances

    return query_ball


def _pairwise_query(space: FeatureSpace) -> Query:
    points, metric = space.points, space.metric
    is_sparse = sp.issparse(points)
    step = 1 if metric in _BY_PRODUCTS and not is_sparse else block_rows(points.shape[0])

    def to_all(queries: Any) -> FloatArray:
        block = pairwise_distances(queries, points, metric=metric, **space.params)
        return np.ascontiguousarray(block, dtype=np.float64)

    def query(queries: Any, k: int, team: ThreadTeam) -> Found:
        if metric != "euclidean" or space.params or not is_sparse:
            return smallest(to_all, queries, k, team, step)
        # Products lose digits: a few more candidates, measured again.
        width = min(points.shape[0], k + max(8, k // 2))
        candidates, _ = smallest(to_all, queries, width, team, step)
        difference = queries[np.repeat(np.arange(queries.shape[0]), width)] - points[candidates.reshape(-1)]
        squares = np.asarray(difference.multiply(difference).sum(axis=1))
        distances = np.sqrt(squares).reshape(-1, width)
        order = np.lexsort((candidates, distances))[:, :k]
        return np.take_along_axis(candidates, order, axis=1), np.take_along_axis(distances, order, axis=1)

    return query
