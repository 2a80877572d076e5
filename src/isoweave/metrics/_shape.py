"""Angles and inner products inside neighbourhoods."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from isoweave._parallel import thread_team
from isoweave._typing import FloatArray
from isoweave.graph._graph import NeighborGraph
from isoweave.metrics._inputs import GraphLike, as_graph, as_points
from isoweave.metrics._paths import edge_geodesics, neighborhood_shapes


class ShapeErrors(NamedTuple):
    """Errors of angles (degrees) and of local Gram matrices (relative)."""

    local_angle: float
    local_metric: float


def local_angle(graph: GraphLike, embedding: Any, *, n_jobs: int | None = None) -> float:
    """Mean absolute error, in degrees, of the angles between neighbours.

    The angle at i between two neighbours j and k follows from the graph's geodesic distances among
    the three by the law of cosines (cosines beyond 1 are cut), and is compared with the angle between
    ``y_j - y_i`` and ``y_k - y_i``. All pairs of all vertices weigh the same.

    Parameters
    ----------
    graph : NeighborGraph or sparse matrix of shape (n, n)
    embedding : array of shape (n, N)
    n_jobs : int, optional
        Threads; all cores by default. The result does not depend on it.

    Returns
    -------
    float
        Degrees. Pairs with a zero arm, in the graph or in the embedding, are left out; NaN when no
        pair is left.

    Notes
    -----
    The cost is n short searches and the number of pairs, the sum of squared degrees; no matrix of
    distances is stored.
    """
    checked = as_graph(graph)
    return shape_errors(checked, as_points(embedding, "embedding", checked.n_vertices), n_jobs).local_angle


def local_metric(graph: GraphLike, embedding: Any, *, n_jobs: int | None = None) -> float:
    """Relative error of the inner products between neighbours.

    With ``Y_i`` the rows ``y_j - y_i`` of the neighbours j of i and ``G_i`` the Gram matrix of their
    geodesic distances, ``G_i[j, k] = (D_ij^2 + D_ik^2 - D_jk^2) / 2``, it is
    ``sqrt(mean_i ||Y_i Y_i^T - G_i||_F^2 / ||G_i||_F^2)``. Vertices without a neighbour at a distance
    above 0 are left out. See :func:`local_angle` for the parameters and the cost.
    """
    checked = as_graph(graph)
    return shape_errors(checked, as_points(embedding, "embedding", checked.n_vertices), n_jobs).local_metric


def shape_errors(graph: NeighborGraph, embedding: FloatArray, n_jobs: int | None = None) -> ShapeErrors:
    """Both measures from one pass over the graph."""
    n, m = graph.n_vertices, len(graph.indices)
    geodesics = np.empty(m)
    angle_sum, angle_count = np.zeros(n), np.zeros(n)
    gram_error, gram_size = np.empty(m), np.empty(m)
    with thread_team(n_jobs) as team:
        team.run(edge_geodesics, n, graph.indptr, graph.indices, graph.lengths, geodesics)
        team.run(
            neighborhood_shapes,
            n,
            graph.indptr,
            graph.indices,
            geodesics,
            embedding,
            angle_sum,
            angle_count,
            gram_error,
            gram_size,
        )
    pairs = float(angle_count.sum())
    angle = float(np.degrees(angle_sum.sum() / pairs)) if pairs else float("nan")
    error = np.bincount(graph.indices, gram_error, minlength=n)
    size = np.bincount(graph.indices, gram_size, minlength=n)
    known = size > 0.0
    metric = float(np.sqrt(np.mean(error[known] / size[known]))) if known.any() else float("nan")
    return ShapeErrors(angle, metric)
