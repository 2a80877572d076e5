"""Nearest-neighbour graphs of feature vectors, and which search finds them.

Every search runs on the distinct points, numbered by a hash of their contents (see
:func:`isoweave.graph._duplicates.group_equal_rows`): no point finds itself among its duplicates, and the
graph does not depend on the order of the rows, not even where distances tie. The searches are

=============  ===========================================================================================
"tree"         k-d tree (Minkowski, haversine) or ball tree, up to ``TREE_DIMENSIONS`` features
"brute"        all pairs by matrix products, Euclidean; exact, see ``search_brute``
"approximate"  HNSW index of faiss (extra ``knn``), Euclidean, above ``EXACT_SAMPLES`` points
"pairwise"     all pairs by scikit-learn, any metric
=============  ===========================================================================================
"""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_random_state

from isoweave._parallel import ThreadTeam, thread_team
from isoweave._typing import FloatArray, IntArray
from isoweave._validation import check_integer, check_option
from isoweave.graph._duplicates import PointGroups, spread_neighbors
from isoweave.graph._features import METRIC_ALIASES, MINKOWSKI_P, FeatureSpace, Metric, prepare_features
from isoweave.graph._graph import NeighborGraph
from isoweave.graph._search import Found, search_pairwise, search_tree
from isoweave.graph._search_approximate import search_approximate
from isoweave.graph._search_brute import search_brute
from isoweave.graph._validate import assemble_graph

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
# Used when random_state is None: the same call gives the same graph.
_DEFAULT_SEED = 20_170_921
_BALL_TREE_METRICS = ("canberra", "mahalanobis", "seuclidean")
_METHODS = ("auto", "exact", "approximate")


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
    name = METRIC_ALIASES.get(metric, metric) if isinstance(metric, str) else None
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
        has_tree = euclidean or name in (*MINKOWSKI_P, "minkowski", "haversine", *_BALL_TREE_METRICS)
    if n_features <= TREE_DIMENSIONS and has_tree and not sparse:
        return "tree"
    if not euclidean:
        return "pairwise"
    if method == "auto" and n_samples > EXACT_SAMPLES and importlib.util.find_spec("faiss") is not None:
        return "approximate"
    return "brute"


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
    weighted = space.params and (space.metric in MINKOWSKI_P or "w" in space.params)
    if space.metric in ("sqeuclidean", "cosine") or weighted:
        search = "pairwise"  # could not be reduced to a plain metric by prepare_features
    if search == "approximate":
        random = check_random_state(_DEFAULT_SEED if random_state is None else random_state)
        found = search_approximate(points, k, rows, team, int(random.randint(2**31 - 1)))
    elif search == "brute":
        found = search_brute(points, k, rows, team)
    elif search == "tree":
        found = search_tree(space, k, rows, team)
    else:
        found = search_pairwise(space, k, rows, team)
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
