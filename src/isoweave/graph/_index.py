"""One index of feature vectors: the neighbours of its own points and those of new rows.

It holds the distinct points, numbered by a hash of their contents (see
:func:`isoweave.graph._duplicates.group_equal_rows`): no point finds itself among its duplicates, and what is
found does not depend on the order of the rows, not even where distances tie. The searches are

=============  ===========================================================================================
"tree"         up to ``TREE_DIMENSIONS`` features: k-d tree (Minkowski, haversine) or ball tree (canberra,
               mahalanobis, seuclidean; functions above 1,000 points)
"brute"        Euclidean and cosine, all pairs by matrix products; exact, see ``ProductSearch``
"approximate"  the same above ``EXACT_SAMPLES`` points with the extra ``knn``: HNSW index of faiss
"pairwise"     any metric, all pairs by scikit-learn
=============  ===========================================================================================
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial import cKDTree
from sklearn.metrics import pairwise_distances
from sklearn.neighbors import BallTree
from sklearn.utils import check_random_state

from isoweave._lazy import computed_once
from isoweave._parallel import ONE_THREAD, ThreadTeam
from isoweave._typing import AnyArray, FloatArray, IntArray
from isoweave._validation import check_option
from isoweave.graph._euclidean import (
    DEFAULT_SEED,
    Found,
    GraphSearch,
    ProductSearch,
    block_rows,
    n_candidates,
    nearest_of_all,
    own_numbers,
)
from isoweave.graph._features import MINKOWSKI_P, FeatureSpace, Metric, prepare_features

# Measured on 2 busy cores, 20,000 normal points, 10 neighbours: the k-d tree needs 0.05 s in 3 dimensions,
# 0.8 s in 8, 1.7 s in 10 and 12.6 s in 20; all pairs 1 to 2 s throughout. Trees gain with more points.
TREE_DIMENSIONS = 10
# A user's function is called for every pair up to here: it need not be a metric to be understood.
_FUNCTION_SAMPLES = 1000
# All pairs against HNSW on 2 busy cores: 20,000 MNIST images 5 s and 8 s, 40,000 images 21 s and 14 s; 60,000
# points of 50 features 4.7 s and 5.6 s. The first grows with the square of the number of points, the second
# hardly more than linearly, and takes half of that where the features can be projected (MNIST); over
# 99 % of the edges are found.
EXACT_SAMPLES = 50_000
# The last three by a ball tree, as functions are.
_TREE_METRICS = (*MINKOWSKI_P, "minkowski", "haversine", "canberra", "mahalanobis", "seuclidean")
# Dense metrics that scikit-learn computes by matrix products: their bits depend on the rows of a block.
_BY_PRODUCTS = ("cosine", "euclidean", "sqeuclidean", "nan_euclidean")

# From queries, their numbers if they are points of the index, k and a team to neighbours and distances.
Search = Callable[[Any, IntArray | None, int, ThreadTeam], Found]


@dataclass(frozen=True, eq=False)
class NeighborIndex:
    """Points that searches find neighbours among. Made by :func:`build_index`.

    Attributes
    ----------
    space : FeatureSpace
        The distinct points, with the metric.
    search : str
        "tree", "brute", "approximate" or "pairwise".
    """

    space: FeatureSpace
    search: str
    _find: Search

    def among_points(self, k: int, *, team: ThreadTeam, rows: IntArray | None = None) -> Found:
        """The ``k`` nearest other distinct points of every distinct point, or of some of them.

        Returns
        -------
        neighbors : int32 array of shape (len(rows), k)
            Groups, nearest first.
        distances : float64 array of shape (len(rows), k)
            In the user's metric.
        """
        points, first = self.space.points, self.space.groups.first
        own = np.arange(points.shape[0], dtype=np.int32) if rows is None else rows
        if k == 0:
            return np.empty((len(own), 0), dtype=np.int32), np.empty((len(own), 0))
        found = self._find(points if rows is None else points[rows], own, k, team)
        return self._checked(found, lambda i: f"sample {first[own[i]]}")

    def neighbors(self, X: Any, k: int, *, team: ThreadTeam) -> Found:
        """The ``k`` nearest distinct points of every row of X, or all if there are fewer.

        Returns
        -------
        indices : int32 array of shape (m, k)
            Of the samples the index was made from, nearest first; of duplicates the first.
        distances : float64 array of shape (m, k)
            In the user's metric; 0 only for identical points.
        """
        k = min(k, self.space.groups.n_groups)
        found = self._find(self.space.new_rows(X), None, k, team)
        groups, distances = self._checked(found, lambda i: f"row {i} of X")
        return self.space.groups.first[groups], distances

    def _checked(self, found: Found, name: Callable[[int], str]) -> Found:
        """Distances in the user's metric, which may be anything: name the first query that has none."""
        neighbors, distances = found[0], self.space.to_user(found[1])
        # Some formulas of correlation type come out a rounding below zero.
        distances[(distances < 0) & (distances > -1e-12)] = 0.0
        bad = ~(np.isfinite(distances) & (distances >= 0))
        if not bad.any():
            return neighbors, distances
        i, slot = divmod(int(np.argmax(bad)), distances.shape[1])
        j = neighbors[i, slot]
        if not 0 <= j < self.space.groups.n_groups:
            whose = name(i)
            raise ValueError(
                f"{whose[0].upper()}{whose[1:]} has only {slot} distinct others at a finite distance, "
                f"{distances.shape[1]} are needed. Check the metric, or lower n_neighbors."
            )
        raise ValueError(
            f"The metric gives {distances[i, slot]} between {name(i)} and sample "
            f"{self.space.groups.first[j]}; distances must be finite and not negative. Check the metric."
        )


def build_index(
    X: Any,
    metric: Metric = "euclidean",
    metric_params: dict[str, Any] | None = None,
    *,
    team: ThreadTeam,
    method: str = "auto",
    random_state: Any = None,
) -> NeighborIndex:
    """Prepare the search among the rows of X; trees are built on first use and kept.

    Parameters
    ----------
    X : array or sparse matrix of shape (n, n_features)
    metric, metric_params, method, random_state
        As in :func:`isoweave.graph.knn_graph`; what a metric takes from the data (variances) it takes from X.
    team : ThreadTeam
    """
    space = prepare_features(X, metric, metric_params, team)
    name = _choose_search(space, method)
    if name == "approximate":
        random = check_random_state(DEFAULT_SEED if random_state is None else random_state)
        return NeighborIndex(space, name, GraphSearch(space.points, int(random.randint(2**31 - 1))))
    if name == "brute":
        return NeighborIndex(space, name, ProductSearch(space.points))
    return NeighborIndex(space, name, _TreeSearch(space) if name == "tree" else _PairwiseSearch(space))


def _choose_search(space: FeatureSpace, method: str) -> str:
    """Name of the search for these points."""
    check_option("method", method, ("auto", "exact", "approximate"))
    (n, d), metric = space.points.shape, space.metric
    euclidean = metric in ("euclidean", "sqeuclidean", "cosine") and not space.is_sparse
    has_faiss = importlib.util.find_spec("faiss") is not None
    if method == "approximate" and not euclidean:
        got = "sparse features" if space.is_sparse else f"metric={metric!r}"
        raise ValueError(
            "method='approximate' needs dense features and metric 'euclidean', 'sqeuclidean' or 'cosine', "
            f"got {got}. Use method='exact'."
        )
    if method == "approximate" and not has_faiss:
        raise ImportError("method='approximate' needs faiss: pip install 'isoweave[knn]', or method='exact'.")
    weighted = space.params and (metric in MINKOWSKI_P or "w" in space.params)
    if metric in ("sqeuclidean", "cosine") or weighted:
        return "pairwise"  # could not be reduced to a plain metric by prepare_features
    if method == "approximate":
        return "approximate"
    if callable(metric):
        has_tree = n > _FUNCTION_SAMPLES
    else:
        has_tree = metric in _TREE_METRICS
    if d <= TREE_DIMENSIONS and has_tree and not space.is_sparse:
        return "tree"
    if not euclidean:
        return "pairwise"
    return "approximate" if method == "auto" and n > EXACT_SAMPLES and has_faiss else "brute"


class _TreeSearch:
    """Neighbours from a k-d tree where the metric allows one, otherwise from a ball tree."""

    def __init__(self, space: FeatureSpace) -> None:
        self.space = space
        name = space.metric if isinstance(space.metric, str) else ""
        self.p = MINKOWSKI_P.get(name) or (float(space.params["p"]) if name == "minkowski" else None)

    @computed_once
    def _tree(self) -> Any:
        if self.p is not None:
            return cKDTree(self.space.points)
        return BallTree(self.space.points, metric=self.space.metric, **self.space.params)

    def __call__(self, queries: FloatArray, own: IntArray | None, k: int, team: ThreadTeam) -> Found:
        if self.space.metric == "mahalanobis":
            # scikit-learn's object for it holds a buffer that all queries of a tree write to.
            team = ONE_THREAD
        if own is None:
            return _query(self._tree, queries, k, team, self.p)
        if self.space.metric == "haversine":
            # The order of great-circle distances is that of chords, for which there is a faster tree.
            sphere = _on_sphere(self.space.points)
            rows = sphere if len(own) == len(sphere) else sphere[own]
            chords = _query(cKDTree(sphere), rows, k + 1, team, 2.0)
            neighbors, _ = _without_self(*chords, own)
            return neighbors, _great_circle(queries[:, None, :], self.space.points[neighbors])
        return _without_self(*_query(self._tree, queries, k + 1, team, self.p), own)


def _query(tree: Any, queries: FloatArray, k: int, team: ThreadTeam, p: float | None) -> Found:
    """Neighbours from a k-d tree (with its exponent) or a ball tree, in pieces on the team's own threads.

    The threads of cKDTree outlive an interrupted wait for them, and the process does not outlive that.
    """
    m = len(queries)
    neighbors, distances = np.empty((m, k), dtype=np.int32), np.empty((m, k))
    # All points go in the order of the leaves: successive queries then touch the same part of the tree.
    order = tree.indices if p is not None and queries is tree.data else np.arange(m)

    def work(lo: int, hi: int) -> None:
        at = order[lo:hi]
        found = tree.query(queries[at], k) if p is None else tree.query(queries[at], np.arange(1, k + 1), p=p)
        distances[at], neighbors[at] = found

    team.run(work, m)
    return neighbors, distances


def _on_sphere(points: FloatArray) -> FloatArray:
    """Unit vectors of (latitude, longitude) in radians."""
    if points.shape[1] != 2:
        raise ValueError(
            "metric='haversine' is for two features, latitude and longitude in radians, "
            f"got {points.shape[1]}."
        )
    latitude, longitude = points.T
    across = np.cos(latitude)
    return np.column_stack([across * np.cos(longitude), across * np.sin(longitude), np.sin(latitude)])


def _great_circle(a: FloatArray, b: FloatArray) -> FloatArray:
    """Angle between points (latitude, longitude), accurate however near they are."""
    sines = np.sin(0.5 * (a - b)) ** 2
    chord = sines[..., 0] + np.cos(a[..., 0]) * np.cos(b[..., 0]) * sines[..., 1]
    return 2 * np.arcsin(np.sqrt(np.minimum(chord, 1.0)))


def _without_self(neighbors: AnyArray, distances: FloatArray, own: IntArray) -> Found:
    """Drop each query's own entry, or the last one where it is missing."""
    drop = neighbors == own[:, None]
    drop[~drop.any(axis=1), -1] = True
    shape = (len(own), neighbors.shape[1] - 1)
    return neighbors[~drop].reshape(shape), distances[~drop].reshape(shape)


class _PairwiseSearch:
    """Neighbours in any metric of scikit-learn, from the distances of all pairs."""

    def __init__(self, space: FeatureSpace) -> None:
        self.space = space

    def __call__(self, queries: Any, own: IntArray | None, k: int, team: ThreadTeam) -> Found:
        space, points = self.space, self.space.points
        (n, _), m = points.shape, queries.shape[0]
        # A new row is to find the same in any batch.
        alone = own is None and space.metric in _BY_PRODUCTS and not space.is_sparse
        # scikit-learn's Euclidean distances lose digits; only sparse features too large to be made dense come
        # here with them, and then a few candidates more are fetched and measured again.
        inexact = space.metric == "euclidean" and not space.params
        width = n_candidates(k, n if own is None else n - 1) if inexact else k

        def to_all(lo: int, hi: int) -> FloatArray:
            block = pairwise_distances(queries[lo:hi], points, metric=space.metric, **space.params)
            return np.ascontiguousarray(block, dtype=np.float64)

        neighbors, distances = nearest_of_all(
            to_all, own_numbers(own, m), width, team, 1 if alone else block_rows(n)
        )
        if not inexact:
            return neighbors, distances
        step = block_rows(n)
        for lo in range(0, m, step):
            near = neighbors[lo : lo + step]
            difference = queries[np.repeat(np.arange(lo, lo + len(near)), width)] - points[near.reshape(-1)]
            squares = np.asarray(difference.multiply(difference).sum(axis=1))
            distances[lo : lo + step] = np.sqrt(squares).reshape(-1, width)
        order = np.lexsort((neighbors, distances))[:, :k]
        return np.take_along_axis(neighbors, order, axis=1), np.take_along_axis(distances, order, axis=1)
