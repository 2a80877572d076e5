"""Carrying frames over a graph: transitions, orientation, synchronised turns, curvature."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import breadth_first_order, connected_components, minimum_spanning_tree
from scipy.sparse.linalg import splu

from isoweave._parallel import ThreadTeam
from isoweave._typing import AnyArray, BoolArray, FloatArray
from isoweave.frames import LocalFrames
from isoweave.graph import NeighborGraph, rows_by_length
from isoweave.graph._validate import assemble_graph
from isoweave.iteration import connection_laplacian, lowest_eigenvectors, sample_vertices

# A transition that explains less of the overlap of two frames than this says nothing.
WEAKEST = 0.5
_EXTRA_VECTORS = 6
_INVERSE_SWEEPS = 25
_STANDSTILL = 3e-3
_POWER_SWEEPS = 12
# Regions of one orientation: how many are turned over, and the share of broken edges their vertices may have.
_REGION_SWEEPS = 5
_MOST_REGIONS = 12
_SMALLEST_REGION = 4
_CALM = 0.2
# Balls whose curvature is measured: their size as a part of the vertices, and how many of them.
_BALL_PART = 8
_FEWEST_IN_BALL = 60
_CENTRES = 250
_FILLING_SWEEPS = 30


def nearest_along(graph: NeighborGraph, width: int, *, team: ThreadTeam) -> NeighborGraph:
    """Every vertex joined to the ``width`` nearest along the graph, and by what keeps the graph connected."""
    from isoweave.backends import _neighborhoods as kernels

    n = graph.n_vertices
    width = min(width, n - 1)
    near_indices, near_lengths = rows_by_length(graph, team)
    columns = np.empty((n, width), dtype=np.int32)
    distances = np.empty((n, width))
    team.run(kernels.nearest_lists, n, graph.indptr, near_indices, near_lengths, columns, distances)
    rows = np.repeat(np.arange(n, dtype=np.int32), width)
    found = columns.ravel() >= 0
    tree = minimum_spanning_tree(graph.to_matrix()).tocoo()
    return assemble_graph(
        n,
        np.concatenate((rows[found], tree.row)),
        np.concatenate((columns.ravel()[found], tree.col)),
        np.concatenate((distances.ravel()[found], tree.data)),
        asymmetry="min",
    )


def frame_transitions(
    graph: NeighborGraph, frames: LocalFrames, team: ThreadTeam
) -> tuple[FloatArray, FloatArray]:
    """Orthogonal maps between the frames at the ends of every edge, and how much they explain (eq. 14)."""
    from isoweave.backends import _transitions as kernels

    dimension, m = frames.n_components, len(graph.indices)
    transitions = np.empty((m, dimension, dimension))
    weights = np.empty(m)
    arrays = (graph.indptr, graph.indices, frames.rows, frames.included)
    team.run(kernels.frame_transitions, graph.n_vertices, *arrays, transitions, weights)
    return transitions, np.minimum(weights, weights[graph.reverse])


def synchronise(graph: NeighborGraph, frames: LocalFrames, team: ThreadTeam) -> FloatArray:
    """Turns that agree along as many edges as possible, shape (n, N, N).

    The spectral start (eqs. 15, 16) is improved by projected power iteration, which keeps the turns of whole
    regions and mends those of single vertices where eigenvectors are small.
    """
    n, dimension = graph.n_vertices, frames.n_components
    laplacian = connection_laplacian(graph, frames, team)
    vectors = _lowest_vectors(laplacian, dimension)
    turns = _nearest_orthogonal(vectors.reshape(n, dimension, dimension))
    transport = sp.csr_array(sp.diags_array(laplacian.diagonal()) - laplacian)
    for _ in range(_POWER_SWEEPS):
        flat = transport @ turns.reshape(n * dimension, dimension)
        turns = _nearest_orthogonal(flat.reshape(n, dimension, dimension))
    return turns


def _lowest_vectors(matrix: sp.csr_array, n_wanted: int) -> FloatArray:
    """Roughly the lowest eigenvectors of a positive semi-definite matrix, shape (size, n_wanted).

    Block inverse iteration, given up once the eigenvalues hardly move: what is left of other vectors is mended
    by power iteration.
    """
    size = matrix.shape[0]
    shift = 1e-9 * max(float(matrix.diagonal().mean()), np.finfo(float).tiny)
    factor = splu(
        sp.csc_array(matrix + shift * sp.eye_array(size)),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )
    block = np.random.default_rng(7).standard_normal((size, min(n_wanted + _EXTRA_VECTORS, size)))
    before = np.full(n_wanted, np.inf)
    for _ in range(_INVERSE_SWEEPS):
        block, _ = np.linalg.qr(factor.solve(block))
        small = block.T @ (matrix @ block)
        values, turn = np.linalg.eigh(0.5 * (small + small.T))
        block = block @ turn
        now = np.maximum(values[:n_wanted], shift)
        if np.all(before - now <= _STANDSTILL * now):
            break
        before = now
    return block[:, :n_wanted]


def _nearest_orthogonal(blocks: FloatArray) -> FloatArray:
    u, _, vt = np.linalg.svd(blocks)
    return u @ vt


def orientation(
    graph: NeighborGraph, triangles: AnyArray, transitions: FloatArray, weights: FloatArray
) -> tuple[float, float]:
    """Coherence of the frames, and the share of edges where a consistent orientation breaks."""
    n = graph.n_vertices
    usable = weights >= WEAKEST
    sign = np.sign(np.linalg.det(transitions))
    known = usable[triangles].all(axis=1)
    reflects = known & (sign[triangles].prod(axis=1) < 0)
    coherence = 1.0 - np.count_nonzero(reflects) / max(np.count_nonzero(known), 1)
    # Edges in order: in some triangle, and in none that reflects. Triangles name one direction of an edge.
    clear = np.zeros(len(graph.indices), dtype=bool)
    clear[triangles[known].ravel()] = True
    clear[triangles[reflects].ravel()] = False
    once = np.flatnonzero(clear)
    if len(once) == 0:
        return coherence, 0.0
    ends = (graph.sources[once], graph.indices[once])
    links = sp.csr_array((sign[once], ends), shape=(n, n))
    links = sp.csr_array(links + links.T)
    # Sides handed on along a tree of the edges whose frames agree best, and sides that agree best in the
    # mean: one doubtful edge leads the first astray, a long thin shape the second.
    doubt = sp.csr_array((2.0 - weights[once], ends), shape=(n, n))
    tree = sp.csr_array(minimum_spanning_tree(doubt))
    signed = sp.csr_array(sp.diags_array(np.abs(links).sum(axis=1)) - links)
    starts = (_sides(tree + tree.T, links), lowest_eigenvectors(signed, 1)[1][:, 0])
    broken = min(_fewest_broken(links, np.where(side < 0.0, -1.0, 1.0)) for side in starts)
    return coherence, broken / len(once)


def _fewest_broken(links: sp.csr_array, side: FloatArray) -> int:
    """Edges whose signs are not kept, after sides have been improved vertex by vertex and region by region.

    Votes of neighbours straighten the borders between regions of opposite sides. Where the border cuts the
    graph, as it does unless there is only one side, turning a whole region over removes it.
    """
    ends = links.tocoo()
    side = _vote(links, side)
    broken = _count_broken(ends, side)
    for _ in range(_REGION_SWEEPS):
        wrong = ends.data * side[ends.row] * side[ends.col] < 0
        degrees = np.maximum(np.bincount(ends.row, minlength=len(side)), 1)
        calm = np.bincount(ends.row, weights=wrong, minlength=len(side)) < _CALM * degrees
        inside = calm[ends.row] & calm[ends.col] & ~wrong
        kept = sp.csr_array((np.ones(np.count_nonzero(inside)), (ends.row[inside], ends.col[inside])), links.shape)
        _, labels = connected_components(kept, directed=False)
        sizes = np.bincount(labels)
        improved = False
        for region in np.argsort(-sizes, kind="stable")[1 : 1 + _MOST_REGIONS]:
            if sizes[region] < _SMALLEST_REGION:
                break
            turned = _vote(links, np.where(labels == region, -side, side))
            fewer = _count_broken(ends, turned)
            if fewer < broken:
                side, broken, improved = turned, fewer, True
        if not improved:
            break
    return broken


def _vote(links: sp.csr_array, side: FloatArray) -> FloatArray:
    for _ in range(_POWER_SWEEPS):
        votes = links @ side
        side = np.where(votes == 0.0, side, np.sign(votes))
    return side


def _count_broken(ends: sp.coo_array, side: FloatArray) -> int:
    """Undirected edges whose sign is not kept."""
    return int(np.count_nonzero(ends.data * side[ends.row] * side[ends.col] < 0)) // 2


def _sides(forest: sp.csr_array, signs: sp.csr_array) -> FloatArray:
    """One of +1 and -1 for every vertex, so that the signs along the edges of a forest are kept."""
    n = forest.shape[0]
    side = np.zeros(n)
    _, labels = connected_components(forest, directed=False)
    for root in np.unique(labels, return_index=True)[1]:
        order, before = breadth_first_order(forest, root, directed=False)
        side[root] = 1.0
        if len(order) > 1:
            along = np.asarray(signs[order[1:], before[order[1:]]]).ravel()
            for v, u, s in zip(order[1:], before[order[1:]], along, strict=True):
                side[v] = s * side[u]
    return side


def ball_curvature(
    graph: NeighborGraph, frames: LocalFrames, transitions: FloatArray, usable: BoolArray, team: ThreadTeam
) -> FloatArray:
    """Curvature around every vertex from the holonomy of a ball, shape (n,).

    Balls around some of the vertices are measured; the others take the mean of the centres next to them.
    """
    from isoweave.diagnostics import _kernels as kernels

    n = graph.n_vertices
    if frames.n_components == 1:
        return np.full(n, np.nan)
    centres = sample_vertices(graph, min(n, _CENTRES), team=team)
    found = np.full(len(centres), np.nan)
    size = min(n, max(_FEWEST_IN_BALL, n // _BALL_PART))
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
