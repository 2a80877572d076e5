"""Carrying frames over a graph: transitions, rotations that agree, holonomy of loops, curvature of balls."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import minimum_spanning_tree

from isoweave._parallel import ThreadTeam, thread_team
from isoweave._typing import BoolArray, FloatArray
from isoweave._validation import check_integer
from isoweave.geometry import LocalFrames, calibrate_frames, local_frames
from isoweave.graph import NeighborGraph, assemble_graph, graph_from_matrix, nearest_entries
from isoweave.linalg import lowest_eigenvectors
from isoweave.optimise import connection_laplacian, frame_transitions, sample_vertices

# A transition that explains less of the overlap of two frames than this says nothing.
WEAKEST = 0.5
_POWER_SWEEPS = 12
# Balls whose curvature is measured: their size as a part of the vertices, and how many of them.
_BALL_PART = 8
_FEWEST_IN_BALL = 60
_CENTRES = 250
_FILLING_SWEEPS = 30


def nearest_along(graph: NeighborGraph, width: int, *, team: ThreadTeam) -> NeighborGraph:
    """Every vertex joined to the ``width`` nearest along the graph, and by a tree that keeps it connected."""
    tree = minimum_spanning_tree(graph.to_matrix()).tocoo()
    both = zip(nearest_entries(graph, width, team=team), (tree.row, tree.col, tree.data), strict=True)
    return assemble_graph(graph.n_vertices, *(np.concatenate(parts) for parts in both), asymmetry="min")


def loop_holonomy(graph: Any, loop: Any, n_components: int = 2, *, n_jobs: int | None = None) -> FloatArray:
    """What happens to a frame that is carried around a loop of edges (eq. D7).

    Parameters
    ----------
    graph : NeighborGraph or sparse matrix of shape (n, n)
        Distances.
    loop : sequence of int
        Vertices in order of travel; each is a neighbour of the next, the last of the first.
    n_components : int
        N, dimension of the frames.
    n_jobs : int or None
        Threads.

    Returns
    -------
    float64 array of shape (N, N)
        Orthogonal H: a vector v in the frame of ``loop[0]`` comes back as H v. The identity on flat data;
        determinant -1 where the frame comes back reflected. On a surface its angle is the integral of the
        curvature over what the loop encloses.

    Examples
    --------
    >>> import numpy as np
    >>> from isoweave.diagnostics import loop_holonomy
    >>> from isoweave.graph import knn_graph
    >>> graph = knn_graph(np.random.default_rng(5).uniform(size=(20, 2)), 19)
    >>> bool(np.allclose(loop_holonomy(graph, [0, 4, 9, 13]), np.eye(2), atol=1e-6))
    True
    """
    check_integer("n_components", n_components, minimum=1)
    checked = graph_from_matrix(graph)
    edges = _loop_edges(checked, loop)
    with thread_team(n_jobs) as team:
        frames = calibrate_frames(checked, local_frames(checked, n_components, team=team), "rows")
        transitions, _ = frame_transitions(checked, frames, team)
    holonomy = np.eye(n_components)
    for e in edges:
        # transitions[e] of e = (i, j) takes the frame of j to that of i.
        holonomy = holonomy @ transitions[e]
    return holonomy.T


def _loop_edges(graph: NeighborGraph, loop: Any) -> list[int]:
    """Positions of the stored edges along a loop."""
    vertices = np.asarray(loop)
    if vertices.ndim != 1 or vertices.dtype.kind not in "iu" or len(vertices) < 3:
        raise ValueError(f"loop must be a sequence of at least 3 vertices (integers), got {loop!r}.")
    edges = []
    for i, j in zip(vertices, np.roll(vertices, -1), strict=True):
        if not 0 <= i < graph.n_vertices:
            raise ValueError(
                f"loop names vertex {i}, but the graph has vertices 0 to {graph.n_vertices - 1}."
            )
        row = graph.indices[graph.indptr[i] : graph.indptr[i + 1]]
        at = int(np.searchsorted(row, j))
        if at == len(row) or row[at] != j:
            raise ValueError(f"loop goes from {i} to {j}, which are not neighbours in the graph.")
        edges.append(int(graph.indptr[i]) + at)
    return edges


def synchronize(graph: NeighborGraph, frames: LocalFrames, team: ThreadTeam) -> FloatArray:
    """Rotations that agree along as many edges as possible, shape (n, N, N).

    The spectral start (eqs. 15, 16) is improved by projected power iteration, which keeps the rotations of
    whole regions and mends those of single vertices where eigenvectors are small.
    """
    shape = (graph.n_vertices, frames.n_components, frames.n_components)
    laplacian = connection_laplacian(graph, frames, team)
    _, flat = lowest_eigenvectors(laplacian, frames.n_components, rough=True)
    transport = sp.csr_array(sp.diags_array(laplacian.diagonal()) - laplacian)
    for _ in range(_POWER_SWEEPS):
        flat = transport @ _nearest_orthogonal(flat.reshape(shape)).reshape(flat.shape)
    return _nearest_orthogonal(flat.reshape(shape))


def _nearest_orthogonal(blocks: FloatArray) -> FloatArray:
    u, _, vt = np.linalg.svd(blocks)
    return np.asarray(u @ vt)


def ball_curvature(
    graph: NeighborGraph, frames: LocalFrames, transitions: FloatArray, usable: BoolArray, team: ThreadTeam
) -> FloatArray:
    """Curvature around every vertex from the holonomy of a ball, shape (n,) (eq. D8).

    Balls around some of the vertices are measured; the others take the mean of the centres next to them.
    """
    from isoweave.engines import cells as kernels

    n = graph.n_vertices
    centres = sample_vertices(graph, min(n, _CENTRES), team=team)
    size = min(n, max(_FEWEST_IN_BALL, n // _BALL_PART))
    found = np.full(len(centres), np.nan)
    arrays = (graph.indptr, graph.indices, graph.lengths, graph.sources, frames.rows, transitions, usable)
    team.run(kernels.ball_curvature, len(centres), centres, size, *arrays, found, grain=16)
    known = np.zeros(n)
    known[centres] = np.where(np.isnan(found), 0.0, 1.0)
    values = np.zeros(n)
    values[centres] = np.where(np.isnan(found), 0.0, found)
    links = sp.csr_array((np.ones(len(graph.indices)), graph.indices, graph.indptr), shape=(n, n))
    for _ in range(_FILLING_SWEEPS):
        if known.all():
            break
        near, total = links @ known, links @ values
        fill = (known == 0.0) & (near > 0.0)
        values = np.where(fill, total / np.where(fill, near, 1.0), values)
        known = np.where(fill, 1.0, known)
    return np.where(known > 0.0, values, np.nan)
