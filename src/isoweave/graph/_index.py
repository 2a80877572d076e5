"""One index of feature vectors: the neighbours of its own points and those of new rows.

It holds the distinct points, numbered by a hash of their contents: none finds itself among its duplicates,
and what is found does not depend on the order of the rows, not even where distances tie. Few features are
searched with a k-d tree (Minkowski) or a ball tree, many by matrix products ("brute"), above
``EXACT_SAMPLES`` points in cells ("approximate"); other metrics by scikit-learn, all pairs ("pairwise").
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse.csgraph import breadth_first_order, dijkstra
from scipy.spatial import cKDTree

from isoweave._memory import resident_bytes, resolve_limit, too_large
from isoweave._parallel import ONE_THREAD, ThreadTeam, resolve_n_jobs, thread_team
from isoweave._typing import FloatArray, IntArray
from isoweave._validation import check_integer
from isoweave.graph._cells import CellSearch
from isoweave.graph._components import merge_duplicates
from isoweave.graph._euclidean import Found, ProductSearch, block_rows, pairwise_search
from isoweave.graph._features import MINKOWSKI_P, FeatureSpace, Metric, prepare_features, spread_neighbors
from isoweave.graph._graph import NeighborGraph, assemble_graph

# 20,000 normal points, 10 neighbours: the k-d tree needs 0.05 s in 3 dimensions, 0.8 s in 8, 1.7 s in 10 and
# 12.6 s in 20; all pairs 1 to 2 s throughout. Trees gain with more points.
TREE_DIMENSIONS = 10
# A user's function is called for every pair up to here: it need not be a metric to be understood.
_FUNCTION_SAMPLES = 1000
# Above, the search would take much of the time of a fit: 9 s of processor for 30,000 MNIST images, 41 for
# 70,000, and 4 and 12 in cells, which hold over 99 % of the neighbours.
EXACT_SAMPLES = 20_000
# Of the intrinsic dimension: part of the points, those of the largest ratios, that is not fitted, and
# how many points at most are looked at.
_DISCARDED = 0.1
_MAX_SAMPLES = 10_000
# The two nearest may suggest a dimension so many times as high as all edges do, and the edges of a graph be
# those of random points: 1.1 to 1.7 for such, 2 and more for meshes, roads, grids.
_SAME_DIMENSION = 1.7
# Of the growth of balls: vertices that a graph must have, centres, vertices nearest by steps among which the
# nearest by length are sought, and how many vertices the inner and the outer ball have.
FEWEST_GROWN, _CENTRES, _BALL, _INNER, _OUTER = 500, 40, 1000, 40, 120
# Bytes of a search beside its arrays.
_ALLOWANCE = 8_000_000
# The last four by a ball tree, as functions are.
_TREE_METRICS = (*MINKOWSKI_P, "minkowski", "haversine", "canberra", "mahalanobis", "seuclidean")

# From queries, their numbers among the points (-1: none), k and a team to neighbours and distances.
Search = Callable[[Any, IntArray, int, ThreadTeam], Found]


@dataclass(frozen=True, eq=False)
class NeighborIndex:
    """Distinct points, with their metric, to find neighbours among. Made by :func:`build_index`."""

    space: FeatureSpace
    search: str
    _find: Search

    def among_points(self, k: int, *, team: ThreadTeam, rows: IntArray | None = None) -> Found:
        """The ``k`` nearest other distinct points (groups) of all or some of them, and their distances."""
        points, first = self.space.points, self.space.groups.first
        own = np.arange(points.shape[0], dtype=np.int32) if rows is None else rows
        if k == 0:
            return np.empty((len(own), 0), dtype=np.int32), np.empty((len(own), 0))
        found = self._find(points if rows is None else points[rows], own, k, team)
        return self._checked(found, lambda i: f"sample {first[own[i]]}")

    def neighbors(self, X: Any, k: int, *, team: ThreadTeam) -> Found:
        """The ``k`` nearest samples of every row of X, of duplicates the first, and their distances."""
        rows, k = self.space.new_rows(X), min(k, self.space.groups.n_groups)
        found = self._find(rows, np.full(rows.shape[0], -1, dtype=np.int32), k, team)
        groups, distances = self._checked(found, lambda i: f"row {i} of X")
        return self.space.groups.first[groups], distances

    def _checked(self, found: Found, name: Callable[[int], str]) -> Found:
        """Distances in the user's metric, which may be anything: name the first query that has none."""
        neighbors, distances = found[0], self.space.to_user(found[1])
        if distances.size == 0 or 0.0 <= distances.min() <= distances.max() < np.inf:
            return neighbors, distances
        # Some formulas of correlation type come out a rounding below zero.
        distances[(distances < 0) & (distances > -1e-12)] = 0.0
        bad = ~(np.isfinite(distances) & (distances >= 0))
        if not bad.any():
            return neighbors, distances
        i, slot = divmod(int(np.argmax(bad)), distances.shape[1])
        j = neighbors[i, slot]
        # Some searches mark what they have not found by -1, some by the number of points.
        is_found = 0 <= j < self.space.groups.n_groups
        other = f"sample {self.space.groups.first[j]}" if is_found else "none"
        raise ValueError(
            f"Neighbour {slot + 1} of {name(i)} is {other}, at distance {distances[i, slot]}; distances must "
            "be finite and not negative. Check the metric, or lower n_neighbors."
        )


def build_index(
    X: Any,
    metric: Metric = "euclidean",
    metric_params: dict[str, Any] | None = None,
    *,
    team: ThreadTeam,
    random_state: Any = None,
) -> NeighborIndex:
    """Prepare the search among the rows of X, from which a metric takes what it needs (variances)."""
    space = prepare_features(X, metric, metric_params, team)
    name = _choose_search(space)
    find: Search = partial(pairwise_search, space)
    if name == "approximate":
        find = CellSearch(space.points, random_state, team)
    elif name == "brute":
        find = ProductSearch(space.points, team)
    elif name == "tree":
        find = _tree_search(space)
    return NeighborIndex(space, name, find)


def knn_graph(
    X: Any,
    n_neighbors: int = 10,
    *,
    metric: Metric = "euclidean",
    metric_params: dict[str, Any] | None = None,
    n_jobs: int | None = None,
    random_state: Any = None,
) -> NeighborGraph:
    """Graph that joins each point to its nearest neighbours, max-symmetrised.

    Two points are joined if either is among the other's ``n_neighbors`` nearest. Euclidean lengths have full
    relative accuracy. Identical points count once: each point is joined to its nearest *distinct* points,
    and to its own duplicates by edges of length zero, so that merging duplicates leaves the kNN graph of
    the distinct points. Ties for the last place are settled by the contents of the rows, not by their order.

    Parameters
    ----------
    X : array or sparse matrix of shape (n, n_features)
    n_neighbors : int
        Less than n.
    metric, metric_params : str or callable, dict or None
        Any metric of scikit-learn, or a function of two rows, and its keyword arguments. With more than 1,000
        points of at most 10 features a function is searched with a ball tree and must then obey the triangle
        inequality.
    n_jobs : int or None
        Number of threads; None and -1 mean all cores. Changes nothing but the time.
    random_state : int, RandomState or None
        Seed of the approximate search for more than 20,000 points of more than 10 Euclidean (or cosine)
        features, which finds 98.5 % of the neighbours or more; all others are exact. None is a fixed seed.

    Examples
    --------
    >>> knn_graph([[0.0], [1.0], [3.0], [3.0]], n_neighbors=1).lengths
    array([1., 1., 2., 2., 0., 0.])
    """
    k = check_integer("n_neighbors", n_neighbors, minimum=1)
    with thread_team(n_jobs) as team:
        index = build_index(X, metric, metric_params, team=team, random_state=random_state)
        groups = index.space.groups
        n = len(groups.members)
        if k >= n:
            raise ValueError(f"n_neighbors must be less than the number of samples, got {k} for {n} samples.")
        found = index.among_points(min(k, groups.n_groups - 1), team=team)
        return assemble_graph(n, *spread_neighbors(groups, *found, k, team), team=team)


def check_search_memory(n: int, d: int, k: int, limit: float | None, n_jobs: int | None = None) -> None:
    """Refuse a search for the k nearest of n points with d features that would exceed ``limit`` bytes."""
    resolved, resident = resolve_limit(limit), resident_bytes()
    # Distances of up to 256 points to all others, by every thread.
    blocks = 0 if d <= TREE_DIMENSIONS else 4 * n * block_rows(n)
    growth = 24 * n * d + max(80 * n * k, resolve_n_jobs(n_jobs) * blocks + 12 * n * k) + _ALLOWANCE
    if resident + growth > resolved.bytes:
        what = f"The search for {k} neighbours of {n:,} points with {d:,} features would need {{}} of memory"
        cures = "Lower n_neighbors (or denoise), or the number of features (PCA) or points. "
        raise too_large(what, growth, resident, resolved, cures)


def intrinsic_dimension(
    X: Any,
    *,
    metric: Metric = "euclidean",
    metric_params: dict[str, Any] | None = None,
    n_jobs: int | None = None,
) -> float:
    """Estimate the dimension of the manifold that points lie on; arguments as in :func:`knn_graph`.

    Where the density is constant on the scale of two neighbours, the ratio mu = r2 / r1 of a point's
    distances to its two nearest has the distribution F(mu) = 1 - mu^-d. The estimate is the slope of the
    line through the origin fitted to -log(1 - F) against log mu, without the tenth with the largest ratios
    (E. Facco et al., Scientific Reports 7, 12140, 2017). Duplicates count once. The estimate falls short in
    high dimensions, the more the fewer points there are: 13.6 for 10,000 MNIST images, 11.0 for 1,000.
    """
    with thread_team(n_jobs) as team:
        index = build_index(X, metric, metric_params, team=team)
        n = index.space.groups.n_groups
        if n < 3:
            raise ValueError(
                f"The intrinsic dimension needs at least 3 distinct points, got {n} among "
                f"{len(index.space.groups.members)} samples."
            )
        # Groups are numbered by a hash of their contents, so the first ones are a random sample.
        rows = np.arange(min(n, _MAX_SAMPLES), dtype=np.int32)
        _, distances = index.among_points(2, team=team, rows=rows)
    # A metric may put different rows at distance zero.
    distances = distances[distances[:, 0] > 0]
    return _fit(distances[:, 0], distances[:, 1])


def intrinsic_dimension_graph(graph: NeighborGraph) -> float:
    """The same from a distance graph, by the two shortest edges at each vertex.

    Duplicates are merged first; vertices with fewer than two edges are left out. Graphs whose edges are not
    those between the nearest of some random points (meshes, roads, grids) are told by the other edges, and
    there the estimate is the rate at which balls along the graph grow, if it has 500 vertices or more.
    """
    return estimate_dimension(graph)[0]


def estimate_dimension(graph: NeighborGraph) -> tuple[float, bool]:
    """Intrinsic dimension of a graph, and whether its edges join the nearest of random points."""
    graph, _ = merge_duplicates(graph)
    by_length = np.lexsort((graph.lengths, graph.sources))
    starts = graph.indptr[:-1][graph.degrees >= 2]
    if len(starts) < 3:
        raise ValueError(
            "The intrinsic dimension needs at least 3 distinct vertices with two or more edges, got "
            f"{len(starts)} among {graph.n_vertices}."
        )
    lengths = graph.lengths[by_length]
    try:
        estimate = _fit(lengths[starts], lengths[starts + 1])
    except ValueError:
        if graph.n_vertices < FEWEST_GROWN:
            raise
        estimate = np.inf
    is_sample = bool(np.isfinite(estimate)) and estimate <= _SAME_DIMENSION * _by_all_edges(graph, lengths)
    if is_sample or graph.n_vertices < FEWEST_GROWN:
        return estimate, is_sample
    return _growth(graph), False


def _by_all_edges(graph: NeighborGraph, by_length: FloatArray) -> float:
    """Maximum likelihood (E. Levina and P. Bickel, 2004) by as many edges as nearly all vertices have.

    In a graph of nearest neighbours these are the nearest; more would be the far ones that chose a vertex.
    """
    k = max(3, int(np.percentile(graph.degrees, 5)))
    starts = graph.indptr[:-1][graph.degrees >= k]
    if len(starts) == 0:
        return 0.0
    logs = np.log(by_length[starts[:, None] + np.arange(k)])
    spread = float(np.mean(logs[:, -1:] - logs[:, :-1])) * (k - 1) / (k - 2)
    return 1.0 / spread if spread > 0.0 else np.inf


def _growth(graph: NeighborGraph) -> float:
    """Exponent of the number of vertices within a radius, from balls around some of them."""
    matrix, slopes = graph.to_matrix(), []
    for centre in np.linspace(0, graph.n_vertices - 1, _CENTRES).astype(np.int32):
        near = breadth_first_order(matrix, int(centre), directed=False, return_predecessors=False)[:_BALL]
        if len(near) > _OUTER:
            radii = np.sort(dijkstra(matrix[near][:, near], indices=0))
            slopes.append(np.log(radii[_OUTER] / radii[_INNER]) / np.log(_OUTER / _INNER))
    return 1.0 / float(np.mean(slopes)) if slopes else 0.0


def _fit(nearest: FloatArray, second: FloatArray) -> float:
    n = len(nearest)
    ratios = np.sort(np.log(second) - np.log(nearest))
    # F = i / n is 1 for the last point, whose logarithm does not exist.
    x = ratios[: max(0, min(n - 1, int(np.floor(n * (1 - _DISCARDED)))))]
    y = -np.log1p(-np.arange(1, len(x) + 1) / n)
    square = float(x @ x)
    if square == 0:
        raise ValueError(
            "The two nearest neighbours of the points are equally far (as on a grid), so their ratio says "
            "nothing about the dimension. Choose n_components yourself."
        )
    return float(x @ y) / square


def _choose_search(space: FeatureSpace) -> str:
    """Name of the search for these points."""
    (n, d), metric, params = space.points.shape, space.metric, space.params
    # What could not be reduced to a plain metric: weights, the cosine of rows of zeros, sparse features.
    plain = not (metric in ("sqeuclidean", "cosine") or (params and (metric in MINKOWSKI_P or "w" in params)))
    if not plain or space.is_sparse:
        return "pairwise"
    has_tree = n > _FUNCTION_SAMPLES if callable(metric) else metric in _TREE_METRICS
    if d <= TREE_DIMENSIONS and has_tree:
        return "tree"
    if metric != "euclidean":
        return "pairwise"
    return "approximate" if n > EXACT_SAMPLES else "brute"


def _tree_search(space: FeatureSpace) -> Search:
    """Neighbours from a k-d tree where the metric allows one, otherwise from a ball tree."""
    points, metric = space.points, space.metric
    exponents = MINKOWSKI_P | {"minkowski": float(space.params.get("p", 2))}
    p = None if callable(metric) else exponents.get(metric)
    if p is None:
        from sklearn.neighbors import BallTree

        tree: Any = BallTree(points, metric=metric, **space.params)
    else:
        tree = cKDTree(points)

    def search(queries: FloatArray, own: IntArray, k: int, team: ThreadTeam) -> Found:
        neighbors, distances = np.empty((len(own), k), dtype=np.int32), np.empty((len(own), k))
        # All points go in the order of the leaves: successive queries then touch the same part of the tree.
        order = tree.indices if p is not None and queries is tree.data else np.arange(len(own))
        is_new = bool((own < 0).all())
        n_found = k if is_new else k + 1
        ranks: Any = n_found if p is None else np.arange(1, n_found + 1)
        more = {} if p is None else {"p": p}

        def work(lo: int, hi: int) -> None:
            at = order[lo:hi]
            far, near = tree.query(queries[at], ranks, **more)
            if not is_new:
                # Each query's own entry goes, or the last one where it is missing.
                keep = near != own[at, None]
                keep[keep.all(axis=1), -1] = False
                far, near = far[keep].reshape(-1, k), near[keep].reshape(-1, k)
            distances[at], neighbors[at] = far, near

        # On the team's threads: those of cKDTree outlive an interrupted wait for them, and the process does
        # not outlive that. scikit-learn's object for mahalanobis holds a buffer that all queries write to.
        (ONE_THREAD if metric == "mahalanobis" else team).run(work, len(own))
        return neighbors, distances

    return search
