"""All measures of one embedding."""

from __future__ import annotations

from typing import Any

from isoweave.metrics._alignment import parameter_error, procrustes_error
from isoweave.metrics._global import (
    distance_pairs,
    geodesic_rows,
    kendall_of_pairs,
    pearson_of_pairs,
    spearman_of_pairs,
    stress_of_pairs,
)
from isoweave.metrics._inputs import GraphLike, as_graph, as_points, check_n_neighbors, default_n_neighbors
from isoweave.metrics._labels import label_scores
from isoweave.metrics._local import local_distance, neighborhood_scores
from isoweave.metrics._ranks import rank_scores
from isoweave.metrics._shape import shape_errors


def evaluate(
    graph: GraphLike,
    embedding: Any,
    *,
    n_neighbors: int | None = None,
    labels: Any = None,
    truth: Any = None,
    parameters: Any = None,
    n_rows: int | None = None,
    random_state: Any = None,
    n_jobs: int | None = None,
) -> dict[str, float]:
    """Every metric that the given reference allows, by name.

    Parameters
    ----------
    graph : NeighborGraph or sparse matrix of shape (n, n)
        Symmetric distance graph; explicit zeros are edges.
    embedding : array of shape (n, N)
    n_neighbors : int, optional
        k for neighbourhoods and votes; the graph's smallest degree by default (at least 1).
    labels : array of shape (n,), optional
        Adds ``accuracy``, ``nmi``, ``ari``.
    truth : array of shape (n, d), optional
        Isometric coordinates; adds ``procrustes_error``, and ``parameter_error`` unless
        ``parameters`` are given.
    parameters : array of shape (n, d), optional
        Coordinates to be recovered up to an affine map; adds ``parameter_error``.
    n_rows : int, optional
        Vertices whose geodesics the global metrics use: all up to 5,000, above that a sample of
        ``25e6 / n``, at least 50 and at most 500 (see :func:`default_n_rows` for the error).
    random_state : int, RandomState or None
        Chooses the sample; None stands for a fixed seed.
    n_jobs : int, optional
        Threads of the angle and Gram computation; all cores by default.

    Returns
    -------
    dict of str to float
        ``n_neighbors`` and ``n_rows`` as used (integers), then the metrics. A value that is not defined
        (ranks when k is not below n / 2, correlations of constant distances) is NaN.

    Examples
    --------
    >>> from sklearn.neighbors import kneighbors_graph
    >>> from isoweave.datasets import swiss_roll
    >>> from isoweave.metrics import evaluate
    >>> roll = swiss_roll(200, random_state=7)
    >>> graph = kneighbors_graph(roll.data, 8, mode="distance")
    >>> scores = evaluate(graph.maximum(graph.T), roll.truth, truth=roll.truth)
    >>> scores["n_neighbors"], scores["procrustes_error"] < 1e-28
    (8, True)
    """
    checked = as_graph(graph)
    n = checked.n_vertices
    y = as_points(embedding, "embedding", n)
    k = check_n_neighbors(default_n_neighbors(checked) if n_neighbors is None else n_neighbors, n)
    shape = shape_errors(checked, y, n_jobs)
    scores = neighborhood_scores(checked, y, n_neighbors=k)
    geodesics = geodesic_rows(checked, n_rows=n_rows, random_state=random_state)
    trust, cont = rank_scores(geodesics, y, k) if 2 * k < n else (float("nan"), float("nan"))
    d, e = distance_pairs(geodesics, y)
    result: dict[str, float] = {
        "n_neighbors": k,
        "n_rows": len(geodesics.rows),
        "local_distance": local_distance(checked, y),
        "local_angle": shape.local_angle,
        "local_metric": shape.local_metric,
        "precision": scores.precision,
        "recall": scores.recall,
        "f1": scores.f1,
        "trustworthiness": trust,
        "continuity": cont,
        "global_stress": stress_of_pairs(d, e),
        "pearson": pearson_of_pairs(d, e),
        "spearman": spearman_of_pairs(d, e),
        "kendall": kendall_of_pairs(d, e, random_state),
    }
    if parameters is not None or truth is not None:
        result["parameter_error"] = parameter_error(truth if parameters is None else parameters, y)
    if truth is not None:
        result["procrustes_error"] = procrustes_error(truth, y)
    if labels is not None:
        result.update(label_scores(labels, y, n_neighbors=k)._asdict())
    return result
