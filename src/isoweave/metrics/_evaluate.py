"""All measures of one embedding."""

from __future__ import annotations

from typing import Any

from scipy.stats import rankdata

from isoweave.metrics._global import (
    GraphLike,
    Reference,
    as_geodesics,
    as_pair,
    distance_pairs,
    kendall_of_pairs,
    neighbor_count,
    parameter_error,
    pearson_of_pairs,
    procrustes_error,
    rank_scores,
    stress_of_pairs,
)
from isoweave.metrics._local import label_scores, local_distance, neighborhood_scores, shape_errors

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
    graph : NeighborGraph or sparse matrix of shape (n, n)
        Explicit zeros are edges.
    embedding : array of shape (n, N)
    n_neighbors : int, optional
        k for neighbourhoods and votes; the graph's smallest degree by default (at least 1).
    labels : array of shape (n,), optional
        Adds ``accuracy``, ``nmi``, ``ari``.
    truth : array of shape (n, d), optional
        Isometric coordinates; adds ``procrustes_error``, and ``parameter_error`` unless parameters are given.
    parameters : array of shape (n, d), optional
        Coordinates to be recovered up to an affine map; adds ``parameter_error``.
    geodesics : GeodesicRows or array of shape (n, n), optional
        What global metrics compare with; the graph's shortest paths by default.
    ranks : bool
        False leaves out ``trustworthiness``, ``continuity`` and ``spearman``, which take most of the time.
    n_rows : int, optional
        Vertices whose geodesics the global metrics use; see :func:`default_n_rows`.
    random_state : int, RandomState or None
        Chooses the sample; None stands for a fixed seed.
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
    paths = as_geodesics(checked if geodesics is None else geodesics, n_rows, random_state)
    d, e = distance_pairs(paths, y)
    result: dict[str, float] = {"n_neighbors": k, "n_rows": len(paths.rows)}
    result["local_distance"] = local_distance(checked, y)
    result["local_angle"], result["local_metric"] = shape_errors(checked, y, n_jobs)
    result |= neighborhood_scores(checked, y, n_neighbors=k)._asdict()
    if ranks:
        scores = rank_scores(paths, y, k) if 2 * k < len(y) else (float("nan"), float("nan"))
        result["trustworthiness"], result["continuity"] = scores
    result["global_stress"] = stress_of_pairs(d, e)
    result["pearson"] = pearson_of_pairs(d, e)
    if ranks:
        result["spearman"] = pearson_of_pairs(rankdata(d), rankdata(e))
    result["kendall"] = kendall_of_pairs(d, e, random_state)
    if parameters is not None or truth is not None:
        result["parameter_error"] = parameter_error(truth if parameters is None else parameters, y)
    if truth is not None:
        result["procrustes_error"] = procrustes_error(truth, y)
    if labels is not None:
        result |= label_scores(labels, y, n_neighbors=k)._asdict()
    return result
