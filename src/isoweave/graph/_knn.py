"""Nearest-neighbour graphs of feature vectors and of dense distance matrices.

Every search runs on the distinct points, numbered by a hash of their contents (see
:func:`isoweave.graph._duplicates.group_equal_rows`): no point finds itself among its duplicates, and the
graph does not depend on the order of the rows, not even where distances tie. The searches are

=============  ===========================================================================================
"tree"         k-d tree (Minkowski, haversine) or ball tree, up to ``TREE_DIMENSIONS`` features
"brute"        all pairs by matrix products, Euclidean; exact, see :func:`_search_brute`
"approximate"  HNSW index of faiss (extra ``knn``), Euclidean, above ``EXACT_SAMPLES`` points
"pairwise"     all pairs by scikit-learn, any metric
=============  ===========================================================================================
"""

from __future__ import annotations

import importlib
import importlib.util
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import scipy.sparse as sp
from numba import njit
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist
from sklearn.metrics import pairwise_distances
from sklearn.metrics.pairwise import PAIRWISE_BOOLEAN_FUNCTIONS
from sklearn.neighbors import VALID_METRICS, BallTree
from sklearn.utils import check_array, check_random_state

from isoweave._parallel import ThreadTeam, thread_team
from isoweave._typing import AnyArray, FloatArray, IntArray
from isoweave._validation import check_integer, check_option, check_real
from isoweave.graph._duplicates import (
    PointGroups,
    group_equal_rows,
    group_pairs,
    groups_from_labels,
    spread_neighbors,
)
from isoweave.graph._graph import NeighborGraph
from isoweave.graph._validate import assemble_graph

# Measured on 2 busy cores, 20,000 normal points, 10 neighbours: the k-d tree needs 0.05 s in 3 dimensions,
# 0.8 s in 8, 1.7 s in 10 and 12.6 s in 20; all pairs 1 to 2 s throughout. Trees gain with more points.
TREE_DIMENSIONS = 10
# A user's function is called for every pair up to here: it need not be a metric to be understood.
_FUNCTION_SAMPLES = 1000
# All pairs against HNSW on 2 busy cores: 20,000 MNIST images 5 s and 8 s, 40,000 images 21 s and 14 s; 60,000
# points of 50 features 4.7 s and 5.6 s. The first grows with the square of the number of points, the second
# hardly more than linearly; 99.8 % of the edges are found.
EXACT_SAMPLES = 50_000
# Sparse features are made dense, and searched much faster, as long as they stay under 256 MiB.
_DENSE_ENTRIES = 2**25
# Used when random_state is None: the same call gives the same graph.
_DEFAULT_SEED = 20_170_921
_MINKOWSKI_P = {"manhattan": 1.0, "euclidean": 2.0, "chebyshev": math.inf}
_ALIASES = {"l1": "manhattan", "cityblock": "manhattan", "l2": "euclidean", "infinity": "chebyshev"}
_BALL_TREE_METRICS = ("canberra", "mahalanobis", "seuclidean")
_METHODS = ("auto", "exact", "approximate")
# From this version of faiss on, checked with 1 to 8 threads, the HNSW graph does not depend on the number of
# threads that build it. Older versions are given one.
_FAISS_DETERMINISTIC = (1, 15, 1)

Metric = str | Callable[..., float]


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

    Identical points count once: each point is joined to its ``n_neighbors`` nearest *distinct* points
    (and to further duplicates of those while it has fewer than ``n_neighbors`` neighbours), and to its
    own duplicates by edges of length zero. Of more than ``n_neighbors`` identical points only the first
    is joined to others. Merging duplicates therefore leaves the kNN graph of the distinct points, however
    many there are. Where several points tie for the last place, the choice depends on the contents of the
    rows, not on their order.

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
        if the extra ``knn`` is installed, and exact otherwise; see :func:`choose_knn_search`. Without
        the extra large searches take longer, nothing else changes.

    Returns
    -------
    NeighborGraph

    Examples
    --------
    >>> graph = knn_graph([[0.0], [1.0], [3.0], [3.0]], n_neighbors=1)
    >>> graph.to_matrix().toarray()[0]
    array([0., 1., 0., 0.])
    >>> graph.n_edges
    3
    """
    k = check_integer("n_neighbors", n_neighbors, minimum=1)
    check_option("method", method, _METHODS)
    with thread_team(n_jobs) as team:
        space = prepare_features(X, metric, metric_params, team)
        n = len(space.groups.members)
        if k >= n:
            raise ValueError(f"n_neighbors must be less than the number of samples, got {k} for {n} samples.")
        neighbors, distances = search_neighbors(
            space, min(k, space.groups.n_groups - 1), team, method=method, random_state=random_state
        )
    rows, cols, lengths = spread_neighbors(space.groups, neighbors, distances, k)
    return assemble_graph(n, rows, cols, lengths, asymmetry="max")


def choose_knn_search(
    n_samples: int,
    n_features: int,
    metric: Metric = "euclidean",
    *,
    sparse: bool = False,
    method: str = "auto",
) -> str:
    """Name of the search :func:`knn_graph` uses: "tree", "brute", "approximate" or "pairwise".

    Minkowski metrics use a k-d tree up to 10 dense features; so do haversine and, with a ball tree, canberra,
    mahalanobis, seuclidean, and functions for more than 1,000 samples. The Euclidean, squared Euclidean and
    cosine metrics then go by all pairs through matrix products up to 50,000 samples and by an approximate
    index above, if faiss is installed. Everything else is computed pair by pair.

    Parameters
    ----------
    n_samples, n_features : int
    metric : str or callable
    sparse : bool
        Whether the features are too large to be made dense.
    method : {"auto", "exact", "approximate"}

    Examples
    --------
    >>> choose_knn_search(100_000, 3)
    'tree'
    """
    check_option("method", method, _METHODS)
    name = _ALIASES.get(metric, metric) if isinstance(metric, str) else None
    euclidean = name in ("euclidean", "sqeuclidean", "cosine") and not sparse
    if method == "approximate":
        if not euclidean:
            raise ValueError(
                "method='approximate' needs dense features and metric 'euclidean', 'sqeuclidean' or "
                f"'cosine', got {'sparse features' if sparse else f'metric={metric!r}'}. Use method='exact'."
            )
        if importlib.util.find_spec("faiss") is None:
            raise ImportError(
                "method='approximate' needs faiss: pip install 'isoweave[knn]', or method='exact'."
            )
        return "approximate"
    if name is None:
        has_tree = n_samples > _FUNCTION_SAMPLES
    else:
        has_tree = euclidean or name in (*_MINKOWSKI_P, "minkowski", "haversine", *_BALL_TREE_METRICS)
    if n_features <= TREE_DIMENSIONS and has_tree and not sparse:
        return "tree"
    if not euclidean:
        return "pairwise"
    if method == "auto" and n_samples > EXACT_SAMPLES and importlib.util.find_spec("faiss") is not None:
        return "approximate"
    return "brute"


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

    Returns
    -------
    NeighborGraph

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
    k_distinct = min(k, n_groups - 1)
    neighbors = np.empty((n_groups, k_distinct), dtype=np.int32)
    distances = np.empty((n_groups, k_distinct))

    def search(start: int, stop: int) -> None:
        block = np.ascontiguousarray(matrix[first[start:stop]][:, first], dtype=np.float64)
        own = np.arange(start, stop, dtype=np.int32)
        _k_smallest(0, stop - start, block, own, neighbors[start:stop], distances[start:stop])

    step = _block_rows(n)
    for lo in range(0, n_groups, step):
        search(lo, min(lo + step, n_groups))
    rows, cols, _ = spread_neighbors(groups, neighbors, distances, k)
    lengths = np.maximum(np.maximum(matrix[rows, cols], matrix[cols, rows]).astype(np.float64), 0.0)
    return assemble_graph(n, rows, cols, lengths, asymmetry="max")


# Preparation of features


@dataclass(frozen=True, eq=False)
class FeatureSpace:
    """Distinct points in the form the searches want them, and the way back to the user's distances.

    Attributes
    ----------
    points : float64 (bool for boolean metrics) array or CSR array of shape (n_groups, n_features)
    groups : PointGroups
        Which samples each distinct point stands for.
    metric : str or callable
        Metric between ``points``; plain "euclidean" where the user's is a function of it.
    params : dict
        Its keyword arguments.
    squared : bool
        The user asked for squared distances.
    cosine : bool
        The points were normalised, and the user asked for half of squared distances.
    scale : float
        Power of two the points were divided by, so that squares neither overflow nor vanish.
    """

    points: Any
    groups: PointGroups
    metric: Metric
    params: dict[str, Any]
    squared: bool = False
    cosine: bool = False
    scale: float = 1.0

    def to_user(self, distances: FloatArray) -> FloatArray:
        """Distances in the user's metric from those between ``points``."""
        if self.squared:
            return (distances * self.scale) ** 2
        if self.cosine:
            # Parallel rows differ in their last bits once normalised; they are duplicates all the same.
            return np.where(distances < 1e-15, 0.0, 0.5 * distances**2)
        return distances * self.scale


def prepare_features(
    X: Any, metric: Metric, metric_params: dict[str, Any] | None, team: ThreadTeam
) -> FeatureSpace:
    """Check features and metric, and find the distinct points."""
    name, params = _check_metric(metric, metric_params)
    features = _check_features(X, name)
    params = _complete_params(name, params, features)
    squared = cosine = False
    scale = 1.0
    boolean = name in PAIRWISE_BOOLEAN_FUNCTIONS
    if boolean:
        features = (features != 0).astype(np.float64)
    elif name == "cosine" and not params and not sp.issparse(features):
        norms = np.sqrt(np.einsum("ij,ij->i", features, features))
        # A row of zeros has no direction; what then happens is left to scikit-learn.
        if norms.min() > 0 and norms.max() < math.inf:
            features, name, cosine = features / norms[:, None], "euclidean", True
    elif name in ("euclidean", "sqeuclidean") and not params:
        squared, name = name == "sqeuclidean", "euclidean"
        largest = max(float(features.max()), -float(features.min()))
        if largest > 2.0**400 or 0 < largest < 2.0**-400:
            scale = math.ldexp(1.0, math.frexp(largest)[1])
            features = features / scale
    groups = group_equal_rows(features, team)
    points = features[groups.first]
    return FeatureSpace(
        points.astype(np.bool_) if boolean else points, groups, name, params, squared, cosine, scale
    )


def _check_metric(metric: Metric, metric_params: dict[str, Any] | None) -> tuple[Metric, dict[str, Any]]:
    if metric_params is not None and not isinstance(metric_params, dict):
        raise TypeError(f"metric_params must be a dict or None, got {type(metric_params).__name__}.")
    params = dict(metric_params or {})
    if callable(metric):
        return metric, params
    if metric == "precomputed":
        raise ValueError(
            "metric='precomputed' is for distances, not features: use graph_from_matrix for a sparse "
            "distance graph or knn_from_distances for a full distance matrix."
        )
    known = (set(VALID_METRICS["brute"]) | set(_ALIASES)) - {"precomputed"}
    name = check_option("metric", metric, sorted(known))
    name = _ALIASES.get(name, name)
    if name == "minkowski":
        p = params.setdefault("p", 2)
        if p != math.inf:
            check_real("metric_params['p']", p, minimum=1)
        for simpler, exponent in _MINKOWSKI_P.items():
            if p == exponent and params.get("w") is None:
                return simpler, {}
    return name, params


def _complete_params(metric: Metric, params: dict[str, Any], features: Any) -> dict[str, Any]:
    """Fill in what a metric takes from the data, before duplicates are left out and blocks are cut."""
    if sp.issparse(features):
        return params
    if metric == "seuclidean" and "V" not in params:
        return params | {"V": np.var(features, axis=0, ddof=1)}
    if metric == "mahalanobis" and "V" not in params and "VI" not in params:
        covariance = np.atleast_2d(np.cov(features.T))
        if np.linalg.matrix_rank(covariance) < len(covariance):
            raise ValueError(
                f"metric='mahalanobis' needs the inverse of the covariance of the {len(covariance)} "
                "features, which is singular. Pass metric_params={'VI': ...} or leave out dependent features."
            )
        return params | {"VI": np.linalg.inv(covariance)}
    return params


def _check_features(X: Any, metric: Metric) -> Any:
    """Finite float64 features, dense or canonical CSR, without negative zeros."""
    features = check_array(
        X,
        accept_sparse="csr",
        dtype=np.float64,
        ensure_all_finite=False,
        ensure_min_samples=2,
        input_name="X",
    )
    if sp.issparse(features):
        features = sp.csr_array(features, copy=True)
        features.sum_duplicates()
        features.eliminate_zeros()
        if features.shape[0] * features.shape[1] <= _DENSE_ENTRIES:
            features = features.toarray()
    values = features.data if sp.issparse(features) else features
    bad = np.isinf(values) if metric == "nan_euclidean" else ~np.isfinite(values)
    if bad.any():
        at = int(np.argmax(bad))
        if sp.issparse(features):
            row, col = int(np.searchsorted(features.indptr, at, side="right")) - 1, int(features.indices[at])
        else:
            row, col = divmod(at, features.shape[1])
        value = values.reshape(-1)[at]
        remedy = " or use metric='nan_euclidean'" if np.isnan(value) else ""
        raise ValueError(
            f"Input X contains {'NaN' if np.isnan(value) else 'infinity'}: X[{row}, {col}] is {value}. "
            f"Remove or impute such values{remedy}."
        )
    return features if sp.issparse(features) else np.ascontiguousarray(features) + 0.0


# Searches: each returns the k nearest other points of the given rows and their distances, nearest first

Found = tuple[IntArray, FloatArray]


def search_neighbors(
    space: FeatureSpace,
    k: int,
    team: ThreadTeam,
    *,
    rows: IntArray | None = None,
    method: str = "auto",
    random_state: Any = None,
) -> Found:
    """The ``k`` nearest distinct points of every distinct point, or of some of them.

    Returns
    -------
    neighbors : int32 array of shape (len(rows), k)
        Groups, nearest first.
    distances : float64 array of shape (len(rows), k)
        In the user's metric, checked.
    """
    points = space.points
    n = points.shape[0]
    rows = np.arange(n, dtype=np.int32) if rows is None else rows
    if k == 0:
        return np.empty((len(rows), 0), dtype=np.int32), np.empty((len(rows), 0))
    search = choose_knn_search(n, points.shape[1], space.metric, sparse=sp.issparse(points), method=method)
    weighted = space.params and (space.metric in _MINKOWSKI_P or "w" in space.params)
    if space.metric in ("sqeuclidean", "cosine") or weighted:
        search = "pairwise"  # could not be reduced to a plain metric by prepare_features
    if search == "approximate":
        random = check_random_state(_DEFAULT_SEED if random_state is None else random_state)
        found = _search_approximate(points, k, rows, team, int(random.randint(2**31 - 1)))
    elif search == "brute":
        found = _search_brute(points, k, rows, team)
    elif search == "tree":
        found = _search_tree(space, k, rows, team)
    else:
        found = _search_pairwise(space, k, rows, team)
    distances = space.to_user(found[1])
    # Some formulas of correlation type come out a rounding below zero.
    distances[(distances < 0) & (distances > -1e-12)] = 0.0
    _check_found(space.groups, rows, found[0], distances)
    return found[0], distances


def _check_found(groups: PointGroups, rows: IntArray, neighbors: IntArray, distances: FloatArray) -> None:
    """A metric may return anything; name the first sample for which it gives no distances."""
    bad = ~(np.isfinite(distances) & (distances >= 0))
    if not bad.any():
        return
    at, slot = divmod(int(np.argmax(bad)), distances.shape[1])
    i, j, value = groups.first[rows[at]], neighbors[at, slot], distances[at, slot]
    if j < 0:
        raise ValueError(
            f"Sample {i} has only {slot} distinct others at a finite distance, {distances.shape[1]} are "
            "needed. Check the metric, or lower n_neighbors."
        )
    raise ValueError(
        f"The metric gives {value} between samples {i} and {groups.first[j]}; distances must be finite "
        "and not negative. Check the metric."
    )


def _search_tree(space: FeatureSpace, k: int, rows: IntArray, team: ThreadTeam) -> Found:
    points = space.points
    if space.metric == "haversine":
        # The order of great-circle distances is that of chords, for which there is a faster tree.
        neighbors, _ = _search_kd_tree(_on_sphere(points), k, rows, team, 2.0)
        return neighbors, _great_circle(points[rows][:, None, :], points[neighbors])
    if isinstance(space.metric, str) and (space.metric in _MINKOWSKI_P or space.metric == "minkowski"):
        p = _MINKOWSKI_P.get(space.metric) or float(space.params["p"])
        return _search_kd_tree(points, k, rows, team, p)
    ball_tree = BallTree(points, metric=space.metric, **space.params)
    neighbors, distances = np.empty((len(rows), k + 1), dtype=np.int32), np.empty((len(rows), k + 1))

    def query(lo: int, hi: int) -> None:
        distances[lo:hi], neighbors[lo:hi] = ball_tree.query(points[rows[lo:hi]], k + 1)

    _over_blocks(team, len(rows), len(points), query)
    return _without_self(neighbors, distances, rows)


def _search_kd_tree(points: FloatArray, k: int, rows: IntArray, team: ThreadTeam, p: float) -> Found:
    tree = cKDTree(points)
    if len(rows) < len(points):
        distances, neighbors = tree.query(points[rows], k + 1, p=p, workers=team.n_threads)
        return _without_self(neighbors, distances, rows)
    # In the order of the leaves: successive queries then touch the same part of the tree.
    order = tree.indices
    neighbors, distances = np.empty((len(rows), k + 1), dtype=np.int32), np.empty((len(rows), k + 1))
    distances[order], neighbors[order] = tree.query(points[order], k + 1, p=p, workers=team.n_threads)
    return _without_self(neighbors, distances, rows)


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


def _without_self(neighbors: AnyArray, distances: FloatArray, rows: IntArray) -> Found:
    """Drop each row's own entry, or the last one where it is missing."""
    drop = neighbors == rows[:, None]
    drop[~drop.any(axis=1), -1] = True
    shape = (len(rows), neighbors.shape[1] - 1)
    return neighbors[~drop].reshape(shape).astype(np.int32), distances[~drop].reshape(shape)


def _search_pairwise(space: FeatureSpace, k: int, rows: IntArray, team: ThreadTeam) -> Found:
    points = space.points
    n = points.shape[0]
    # scikit-learn's Euclidean distances lose digits; only sparse features too large to be made dense come
    # here with them, and then a few candidates more are fetched and measured again.
    inexact = space.metric == "euclidean" and not space.params
    width = _n_candidates(k, n) if inexact else k
    neighbors, distances = np.empty((len(rows), width), dtype=np.int32), np.empty((len(rows), width))

    def search(lo: int, hi: int) -> None:
        block = pairwise_distances(points[rows[lo:hi]], points, metric=space.metric, **space.params)
        block = np.ascontiguousarray(block, dtype=np.float64)
        _k_smallest(0, hi - lo, block, rows[lo:hi], neighbors[lo:hi], distances[lo:hi])
        if inexact:
            difference = points[np.repeat(rows[lo:hi], width)] - points[neighbors[lo:hi].reshape(-1)]
            squares = np.asarray(difference.multiply(difference).sum(axis=1))
            distances[lo:hi] = np.sqrt(squares).reshape(hi - lo, width)

    _over_blocks(team, len(rows), n, search)
    if inexact:
        order = np.lexsort((neighbors, distances))[:, :k]
        return np.take_along_axis(neighbors, order, axis=1), np.take_along_axis(distances, order, axis=1)
    return neighbors, distances


def _search_brute(points: FloatArray, k: int, rows: IntArray, team: ThreadTeam) -> Found:
    """Exact Euclidean neighbours, by matrix products in single precision where that is provably enough.

    Products give |x - y|^2 with an error bounded by the norms. A row's candidates are measured again
    from coordinate differences; it is settled if no point outside them can be nearer than its k-th
    neighbour, given the bound. The other rows go on to double precision and then to differences
    throughout.
    """
    n, d = points.shape
    width = _n_candidates(k, n)
    neighbors, distances = np.empty((len(rows), k), dtype=np.int32), np.empty((len(rows), k))
    centred = points - points.mean(axis=0)
    norms = np.sqrt(np.einsum("ij,ij->i", centred, centred))
    radius = norms.max()
    pending = np.arange(len(rows))
    for dtype in (np.float32, np.float64):
        # Scaled into the unit ball: no overflow in single precision.
        table = (centred / radius).astype(dtype)
        halves = (0.5 * (norms / radius) ** 2).astype(dtype)
        queries = rows[pending]
        candidates = np.empty((len(queries), width), dtype=np.int32)
        scores = np.empty((len(queries), width), dtype=dtype)
        _over_blocks(team, len(queries), n, _ProductSearch(table, halves, queries, candidates, scores))
        found = _measure(points, queries, candidates, k, team)
        neighbors[pending], distances[pending] = found
        if width == n - 1:
            return neighbors, distances
        length = norms[queries] / radius
        error = (d + 4) * float(np.finfo(dtype).eps) * (length + 0.5)
        outside = 2 * (scores[:, -1].astype(np.float64) - error) + length**2
        pending = pending[outside < (found[1][:, -1] / radius) ** 2 * (1 - 1e-9)]
        if len(pending) == 0:
            return neighbors, distances
    queries = rows[pending]
    candidates = np.empty((len(queries), width), dtype=np.int32)
    values = np.empty((len(queries), width))

    def search(lo: int, hi: int) -> None:
        _k_smallest(
            0,
            hi - lo,
            cdist(points[queries[lo:hi]], points),
            queries[lo:hi],
            candidates[lo:hi],
            values[lo:hi],
        )

    _over_blocks(team, len(queries), n, search)
    neighbors[pending], distances[pending] = _measure(points, queries, candidates, k, team)
    return neighbors, distances


@dataclass(frozen=True, eq=False)
class _ProductSearch:
    """Candidates of a block of rows by the score |y|^2 / 2 - x.y, which orders y as |x - y| does."""

    table: AnyArray
    halves: AnyArray
    queries: IntArray
    candidates: IntArray
    scores: AnyArray

    def __call__(self, lo: int, hi: int) -> None:
        block = self.table[self.queries[lo:hi]] @ self.table.T
        np.subtract(self.halves, block, out=block)
        _k_smallest(0, hi - lo, block, self.queries[lo:hi], self.candidates[lo:hi], self.scores[lo:hi])


def _search_approximate(points: FloatArray, k: int, rows: IntArray, team: ThreadTeam, seed: int) -> Found:
    """Euclidean neighbours from a navigable graph of all points (HNSW, faiss)."""
    faiss: Any = importlib.import_module("faiss")
    n, d = points.shape
    width = _n_candidates(k, n) + 1
    centred = points - points.mean(axis=0)
    table = (centred / np.abs(centred).max()).astype(np.float32)
    index = faiss.IndexHNSWFlat(d, 16)
    index.hnsw.rng = faiss.RandomGenerator(seed)
    index.hnsw.efConstruction = 100
    index.hnsw.efSearch = max(64, 3 * width)
    threads_before = faiss.omp_get_max_threads()
    try:
        version = tuple(int(part) for part in faiss.__version__.split(".")[:3] if part.isdigit())
        faiss.omp_set_num_threads(team.n_threads if version >= _FAISS_DETERMINISTIC else 1)
        index.add(table)
        faiss.omp_set_num_threads(team.n_threads)
        _, candidates = index.search(table[rows], width)
    finally:
        faiss.omp_set_num_threads(threads_before)
    neighbors, distances = _measure(points, rows, candidates.astype(np.int32), k, team)
    missed = np.flatnonzero(neighbors[:, -1] < 0)
    if len(missed):
        neighbors[missed], distances[missed] = _search_brute(points, k, rows[missed], team)
    return neighbors, distances


def _n_candidates(k: int, n: int) -> int:
    """How many points to fetch for ``k`` neighbours where the order is not exact."""
    return min(n - 1, k + max(8, k // 2))


def _over_blocks(team: ThreadTeam, n_rows: int, n_points: int, task: Callable[[int, int], None]) -> None:
    """Call ``task(lo, hi)`` for blocks of rows that do not depend on the number of threads."""
    step = _block_rows(n_points)

    def work(start: int, stop: int) -> None:
        for block in range(start, stop):
            task(block * step, min((block + 1) * step, n_rows))

    team.run(work, -(-n_rows // step), grain=1)


def _block_rows(n_points: int) -> int:
    # A block of all distances of so many rows takes 128 to 256 MiB at most.
    return min(256, max(8, 2**25 // n_points))


def _measure(points: FloatArray, rows: IntArray, candidates: IntArray, k: int, team: ThreadTeam) -> Found:
    """The ``k`` nearest of each row's candidates by coordinate differences; -1 and inf where too few."""
    neighbors, distances = np.empty((len(rows), k), dtype=np.int32), np.empty((len(rows), k))
    team.run(_measure_rows, len(rows), points, rows, candidates, neighbors, distances)
    return neighbors, distances


@njit(nogil=True, cache=True)
def _measure_rows(start, stop, points, rows, candidates, neighbors, distances):  # type: ignore[no-untyped-def]
    k = neighbors.shape[1]
    for r in range(start, stop):
        i = rows[r]
        neighbors[r] = -1
        distances[r] = np.inf
        for c in range(candidates.shape[1]):
            j = candidates[r, c]
            if j < 0 or j == i:
                continue
            total = 0.0
            for a in range(points.shape[1]):
                step = points[i, a] - points[j, a]
                total += step * step
            length = np.sqrt(total)
            slot = k
            while slot > 0 and (
                length < distances[r, slot - 1]
                or (length == distances[r, slot - 1] and j < neighbors[r, slot - 1])
            ):
                slot -= 1
            for q in range(k - 1, slot, -1):
                distances[r, q] = distances[r, q - 1]
                neighbors[r, q] = neighbors[r, q - 1]
            if slot < k:
                distances[r, slot] = length
                neighbors[r, slot] = j


@njit(nogil=True, cache=True)
def _k_smallest(start, stop, scores, own, indices, values):  # type: ignore[no-untyped-def]
    """Smallest entries of each row of ``scores`` but its own, sorted; ties go to the lower index."""
    k = indices.shape[1]
    for r in range(start, stop):
        indices[r] = -1
        values[r] = np.inf
        worst = values[r, k - 1]
        for j in range(scores.shape[1]):
            score = scores[r, j]
            if score < worst and j != own[r]:
                slot = k - 1
                while slot > 0 and values[r, slot - 1] > score:
                    values[r, slot] = values[r, slot - 1]
                    indices[r, slot] = indices[r, slot - 1]
                    slot -= 1
                values[r, slot] = score
                indices[r, slot] = j
                worst = values[r, k - 1]


# Dense distance matrices


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
    blocks = [slice(lo, min(lo + _block_rows(n), n)) for lo in range(0, n, _block_rows(n))]
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
            _raise_entry(matrix, block < -tol, rows.start, "Negative values in data: distances must not be negative")
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
