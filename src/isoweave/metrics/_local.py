"""What the embedding keeps around every vertex (edges, neighbourhoods, angles, labels), and all measures."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.stats import rankdata
from sklearn.metrics import accuracy_score, adjusted_rand_score, normalized_mutual_info_score
from sklearn.neighbors import NearestNeighbors

from isoweave._parallel import thread_team
from isoweave._typing import AnyArray, FloatArray
from isoweave.graph import NeighborGraph
from isoweave.metrics import _global as overall
from isoweave.metrics._global import GraphLike, Reference, as_pair, as_points, neighbor_count

# Edges below this share of the median length are duplicates in all but name: no relative error.
_NEGLIGIBLE = 1e-9
# Edges handled at once: bounds the memory for differences of coordinates.
_BLOCK = 1 << 20

METRIC_MEANINGS: dict[str, tuple[str, int]] = {
    "local_distance": ("relative error of edge lengths", -1),
    "local_angle": ("error of angles at vertices, degrees", -1),
    "local_metric": ("relative error of local Gram matrices", -1),
    "precision": ("neighbours in the map that are edges", 1),
    "recall": ("edges that are neighbours in the map", 1),
    "f1": ("harmonic mean of the two", 1),
    "trustworthiness": ("near in the map, near in the graph", 1),
    "continuity": ("near in the graph, near in the map", 1),
    "global_stress": ("relative error of all distances", -1),
    "pearson": ("correlation of distances with geodesics", 1),
    "spearman": ("the same of their ranks", 1),
    "kendall": ("agreement of their order, -1 to 1", 1),
    "parameter_error": ("left by an affine map onto the truth", -1),
    "procrustes_error": ("left by a rigid motion onto the truth", -1),
    "accuracy": ("labels the nearest neighbours vote for", 1),
    "nmi": ("mutual information of vote and labels", 1),
    "ari": ("adjusted Rand index of the two", 1),
}
"""What each metric says, in words that fit beside the number on 80 columns, and whether more (1) or less (-1)
is better."""


class NeighborhoodScores(NamedTuple):
    """Edges of the embedding's kNN graph against those of the input graph; 1 is best."""

    precision: float
    recall: float
    f1: float


class LabelScores(NamedTuple):
    """Agreement of the voted labels with the given ones; 1 is best."""

    accuracy: float
    nmi: float
    ari: float


def local_distance(graph: GraphLike, embedding: Any) -> float:
    """Mean over the edges of ``| |y_i - y_j| - d_ij | / d_ij``; NaN without edges.

    The graph is a NeighborGraph or a sparse matrix (n, n), the embedding an array (n, N). Edges shorter than
    1e-9 of the median length are left out.
    """
    checked, y = as_pair(graph, embedding)
    once = np.flatnonzero(checked.sources < checked.indices)
    if not len(once):
        return float("nan")
    once = once[checked.lengths[once] > _NEGLIGIBLE * np.median(checked.lengths[once])]
    total = 0.0
    for start in range(0, len(once), _BLOCK):
        edges = once[start : start + _BLOCK]
        lengths = checked.lengths[edges]
        reached = np.linalg.norm(y[checked.sources[edges]] - y[checked.indices[edges]], axis=1)
        total += float(np.sum(np.abs(reached - lengths) / lengths))
    return total / len(once) if len(once) else float("nan")


def neighborhood_scores(
    graph: GraphLike, embedding: Any, *, n_neighbors: int | None = None
) -> NeighborhoodScores:
    """Precision, recall and F1 of the embedding's kNN edges.

    The edges of the embedding's kNN graph (an edge when either end has it) are compared with those of the
    input graph; k is by default that graph's smallest degree, which is the k of a kNN graph, at least 1.
    """
    checked, y = as_pair(graph, embedding)
    n = checked.n_vertices
    k = neighbor_count(n_neighbors, n, checked)
    _, neighbors = _nearest(y, k)
    found = _edge_keys(np.repeat(np.arange(n), k), neighbors.ravel(), n)
    given = _edge_keys(checked.sources, checked.indices, n)
    common = len(np.intersect1d(found, given, assume_unique=True))
    precision = common / len(found)
    recall = common / len(given) if len(given) else float("nan")
    return NeighborhoodScores(precision, recall, 2.0 * common / (len(found) + len(given)))


def _nearest(points: FloatArray, n_neighbors: int) -> tuple[FloatArray, AnyArray]:
    """Distances and indices, each (n, k), of every point's nearest others."""
    # Brute-force search expands |x - y|^2, so an offset would cost digits.
    centred = points - points.mean(axis=0)
    search = NearestNeighbors(n_neighbors=n_neighbors, n_jobs=-1).fit(centred)
    return search.kneighbors()


def _edge_keys(row: AnyArray, col: AnyArray, n: int) -> AnyArray:
    """One sorted integer per undirected edge."""
    low, high = np.minimum(row, col).astype(np.int64), np.maximum(row, col).astype(np.int64)
    return np.unique(low * n + high)


def local_angle(graph: GraphLike, embedding: Any, *, n_jobs: int | None = None) -> float:
    """Mean absolute error, in degrees, of the angles between neighbours.

    The angle at i between two neighbours j and k follows from the graph's geodesic distances among the three
    by the law of cosines (cosines beyond 1 are cut), and is compared with the angle between ``y_j - y_i``
    and ``y_k - y_i``. All pairs of all vertices weigh the same; those with a zero arm are left out (NaN when
    none is left). ``n_jobs`` threads, all cores by default, give the same bits.
    """
    return shape_errors(*as_pair(graph, embedding), n_jobs)[0]


def local_metric(graph: GraphLike, embedding: Any, *, n_jobs: int | None = None) -> float:
    """Relative error of the inner products between neighbours.

    With ``Y_i`` the rows ``y_j - y_i`` of the neighbours j of i and ``G_i`` the Gram matrix of their
    geodesic distances, ``G_i[j, k] = (D_ij^2 + D_ik^2 - D_jk^2) / 2``, it is
    ``sqrt(mean_i ||Y_i Y_i^T - G_i||_F^2 / ||G_i||_F^2)``. Vertices without a neighbour at a distance
    above 0 are left out. See :func:`local_angle` for the parameters.
    """
    return shape_errors(*as_pair(graph, embedding), n_jobs)[1]


def shape_errors(graph: NeighborGraph, embedding: FloatArray, n_jobs: int | None) -> tuple[float, float]:
    """:func:`local_angle` and :func:`local_metric` from one pass over the graph."""
    from isoweave.engines.paths import edge_geodesics, neighborhood_shapes

    n, m = graph.n_vertices, len(graph.indices)
    geodesics, gram_error, gram_size = np.empty((3, m))
    angle_sum, angle_count = np.zeros((2, n))
    sums = (angle_sum, angle_count, gram_error, gram_size)
    with thread_team(n_jobs) as team:
        team.run(edge_geodesics, n, graph.indptr, graph.indices, graph.lengths, geodesics)
        team.run(neighborhood_shapes, n, graph.indptr, graph.indices, geodesics, embedding, *sums)
    pairs = float(angle_count.sum())
    angle = float(np.degrees(angle_sum.sum() / pairs)) if pairs else float("nan")
    error = np.bincount(graph.indices, gram_error, minlength=n)
    size = np.bincount(graph.indices, gram_size, minlength=n)
    known = size > 0.0
    metric = float(np.sqrt(np.mean(error[known] / size[known]))) if known.any() else float("nan")
    return angle, metric


def label_scores(labels: Any, embedding: Any, *, n_neighbors: int) -> LabelScores:
    """Accuracy, normalised mutual information and adjusted Rand index of a neighbours' vote.

    Every point receives the label with the largest sum of weights among its k nearest others in the
    embedding. A neighbour at distance d weighs ``1 / (1 + exp(d / m))``, m the mean of all the
    distances to k nearest neighbours. Ties go to the label that sorts first. Labels (n,) are integers,
    strings or booleans.
    """
    y = as_points(embedding, "embedding")
    n = len(y)
    given = np.asarray(labels)
    if given.shape != (n,):
        raise ValueError(f"labels must have shape ({n},), one per vertex, got {given.shape}.")
    if given.dtype.kind == "f" and not np.isfinite(given).all():
        bad = int(np.flatnonzero(~np.isfinite(given))[0])
        raise ValueError(f"labels must be known, got {given[bad]} at {bad}.")
    k = neighbor_count(n_neighbors, n)
    classes, codes = np.unique(given, return_inverse=True)
    distances, neighbors = _nearest(y, k)
    mean = distances.mean()
    weights = 1.0 / (1.0 + np.exp(distances / mean)) if mean > 0.0 else np.full((n, k), 0.5)
    entries = (weights.ravel(), (np.repeat(np.arange(n), k), codes[neighbors].ravel()))
    votes = sp.coo_array(entries, shape=(n, len(classes)))
    voted = np.asarray(votes.tocsr().argmax(axis=1)).ravel()
    measures = (accuracy_score, normalized_mutual_info_score, adjusted_rand_score)
    return LabelScores(*(float(measure(codes, voted)) for measure in measures))


def evaluate(
    graph: GraphLike,
    embedding: Any,
    *,
    n_neighbors: int | None = None,
    labels: Any = None,
    truth: Any = None,
    parameters: Any = None,
    geodesics: Reference | None = None,
    ranks: bool = True,
    n_rows: int | None = None,
    random_state: Any = None,
    n_jobs: int | None = None,
) -> dict[str, float]:
    """Every metric that the given reference allows, by name.

    Parameters
    ----------
    graph : NeighborGraph or sparse matrix of shape (n, n); explicit zeros are edges
    embedding : array of shape (n, N)
    n_neighbors : int, optional
        k for neighbourhoods and votes; the graph's smallest degree by default (at least 1).
    labels : array of shape (n,), optional; adds ``accuracy``, ``nmi``, ``ari``
    truth : array of shape (n, d), optional
        Isometric coordinates; adds ``procrustes_error``, and ``parameter_error`` unless parameters are given.
    parameters : array of shape (n, d), optional
        Coordinates to be recovered up to an affine map; adds ``parameter_error``.
    geodesics : GeodesicRows or array of shape (n, n), optional
        What global metrics compare with; the graph's shortest paths by default.
    ranks : bool
        False leaves out ``trustworthiness``, ``continuity`` and ``spearman``, which take most of the time.
    n_rows, random_state
        Sample of vertices whose geodesics the global metrics use; see :func:`geodesic_rows`.
    n_jobs : int, optional
        Threads of the angle and Gram computation; all cores by default.

    Returns
    -------
    dict of str to float
        ``n_neighbors`` and ``n_rows`` as used, then the metrics; NaN where one is not defined (ranks when k
        is not below n / 2, correlations of constant distances).
    """
    checked, y = as_pair(graph, embedding)
    k = neighbor_count(n_neighbors, len(y), checked)
    paths = overall.as_geodesics(checked if geodesics is None else geodesics, n_rows, random_state)
    d, e = overall.distance_pairs(paths, y)
    result: dict[str, float] = {"n_neighbors": k, "n_rows": len(paths.rows)}
    result["local_distance"] = local_distance(checked, y)
    result["local_angle"], result["local_metric"] = shape_errors(checked, y, n_jobs)
    result |= neighborhood_scores(checked, y, n_neighbors=k)._asdict()
    if ranks:
        scores = overall.rank_scores(paths, y, k) if 2 * k < len(y) else (float("nan"), float("nan"))
        result["trustworthiness"], result["continuity"] = scores
    result["global_stress"] = overall.stress_of_pairs(d, e)
    result["pearson"] = overall.pearson_of_pairs(d, e)
    if ranks:
        result["spearman"] = overall.pearson_of_pairs(rankdata(d), rankdata(e))
    result["kendall"] = overall.kendall_of_pairs(d, e, random_state)
    if parameters is not None or truth is not None:
        result["parameter_error"] = overall.parameter_error(truth if parameters is None else parameters, y)
    if truth is not None:
        result["procrustes_error"] = overall.procrustes_error(truth, y)
    if labels is not None:
        result |= label_scores(labels, y, n_neighbors=k)._asdict()
    return result
