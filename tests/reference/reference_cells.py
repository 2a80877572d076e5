"""Triangles by plain loops, the parts of the energy by dense least squares."""

from itertools import combinations

import numpy as np

from reference_graphs import row_of


def triangles_loop(graph):
    """Sorted triples of vertices that are all joined."""
    near = [{v for _, v, _ in row_of(graph, i) if v > i} for i in range(graph.n_vertices)]
    return [(i, j, k) for i in range(len(near)) for j, k in combinations(sorted(near[i]), 2) if k in near[j]]


def split_dense(graph, frames, weights, alignments, coordinates, boundary):
    """Removable, disagreement, curl and loops by dense least squares, in the order of these names."""
    edges = np.flatnonzero(graph.sources < graph.indices)
    a, b = weights[edges, None], weights[graph.reverse[edges], None]
    rotated = np.einsum("er,erc->ec", frames.rows, alignments[graph.sources])
    there, home = rotated[edges], rotated[graph.reverse[edges]]
    both, root = np.sum(a * b / (a + b) * (there + home) ** 2), np.sqrt(a + b)
    form = root * (a * there - b * home) / (a + b)
    # Row e of the edge (i, j) is f_j - f_i.
    ends = np.eye(graph.n_vertices)
    gradient = root * (ends[graph.indices[edges]] - ends[graph.sources[edges]])
    exact = gradient @ np.linalg.lstsq(gradient, form, rcond=None)[0]
    curls = boundary.toarray().T / root
    coexact = curls @ np.linalg.lstsq(curls, form, rcond=None)[0]
    harmonic = form - exact - coexact
    removable = np.sum((exact - gradient @ coordinates) ** 2)
    return removable, both, np.sum(coexact**2), np.sum(harmonic**2)
