"""Shortest paths and the local Gram matrices that stand in for feature vectors."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.sparse.csgraph import dijkstra

from isoweave._typing import AnyArray, FloatArray
from isoweave.graph import NeighborGraph

# All distances of this many vertices take 1.1 GiB.
MAX_DENSE_VERTICES = 12_000


def all_geodesics(graph: NeighborGraph) -> FloatArray:
    """Shortest-path distances between all vertices of a connected graph, shape (n, n), symmetric."""
    distances: FloatArray = dijkstra(graph.to_matrix(), directed=True)
    # A path summed from its other end may differ in the last bit.
    np.minimum(distances, distances.T, out=distances)
    return distances


def neighborhoods(
    graph: NeighborGraph, geodesics: FloatArray, n_least: int
) -> Iterator[tuple[int, AnyArray]]:
    """Every vertex with its neighbours, filled up to ``n_least`` by the vertices nearest along the graph.

    The methods were made for k nearest neighbours with k free; given a graph, k is what it is, and some of
    them have no answer below a number that grows with N.
    """
    n_least = min(n_least, graph.n_vertices - 1)
    for i in range(graph.n_vertices):
        members = graph.indices[graph.indptr[i] : graph.indptr[i + 1]]
        if len(members) < n_least:
            distances = geodesics[i].copy()
            distances[i] = -1.0
            distances[members] = -1.0  # stay in, whatever is nearer
            order = np.argsort(distances, kind="stable")
            members = np.setdiff1d(order[: n_least + 1], [i])
        yield i, members


def gram_about(i: int, members: AnyArray, geodesics: FloatArray) -> FloatArray:
    """Inner products of the members as seen from vertex i: law of cosines on geodesics; (d, d)."""
    to_i = geodesics[i, members] ** 2
    among = geodesics[np.ix_(members, members)] ** 2
    gram: FloatArray = 0.5 * (to_i[:, None] + to_i - among)
    return gram


def tangent_coordinates(members: AnyArray, geodesics: FloatArray, n_components: int) -> FloatArray:
    """Leading eigenvectors (d, N) of the members' centred Gram matrix: classical MDS, columns orthonormal.

    What the singular vectors of centred feature vectors are for methods on features.
    """
    squared = geodesics[np.ix_(members, members)] ** 2
    means = squared.mean(axis=0)
    gram = -0.5 * (squared - means - means[:, None] + means.mean())
    _, vectors = np.linalg.eigh(gram)
    leading: FloatArray = vectors[:, ::-1][:, :n_components]
    return leading
