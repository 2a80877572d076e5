"""Whether frames can be given one orientation: reflections around long loops."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import breadth_first_order, connected_components, dijkstra, minimum_spanning_tree

from isoweave._parallel import ThreadTeam
from isoweave._typing import AnyArray, BoolArray, FloatArray
from isoweave.diagnostics._transport import WEAKEST
from isoweave.graph import NeighborGraph
from isoweave.linalg import lowest_eigenvectors
from isoweave.optimise import sample_vertices

# Vertices per patch, and divisions of the graph into patches, whose median counts: one of them may be misled
# where frames are doubtful.
_PATCH = 6
_LAYOUTS = 5
_VOTES = 6
# Two patches count as joined by this many edges, of which the majority must exceed the rest by this part.
_FEWEST_JOINS = 3
_MAJORITY = 0.5


def orientation(
    graph: NeighborGraph,
    triangles: AnyArray,
    transitions: FloatArray,
    weights: FloatArray,
    *,
    team: ThreadTeam,
) -> tuple[float, float]:
    """Coherence of the frames, and the share of joins between patches that reflect (eq. D9).

    Coherence is the share of the triangles around which frames come back unreflected; the other share is 0
    where one orientation fits all patches. A single vertex with a frame of nearly one direction (at a border,
    in a gap of the sampling) may look reflected from one side only. Patches of a few vertices, each given one
    orientation of its own, outvote such vertices; what is left between patches belongs to the shape.
    """
    sign = np.sign(np.linalg.det(transitions))
    known = (weights >= WEAKEST)[triangles].all(axis=1)
    reflects = known & (sign[triangles].prod(axis=1) < 0)
    coherence = 1.0 - int(np.count_nonzero(reflects)) / max(int(np.count_nonzero(known)), 1)
    # Edges in order: in some triangle, and in none that reflects. Triangles name one direction of an edge.
    clear = np.zeros(len(graph.indices), dtype=bool)
    clear[triangles[known].ravel()] = True
    clear[triangles[reflects].ravel()] = False
    if not clear.any():
        return coherence, 0.0
    signs = _symmetric(graph, clear, sign)
    size = max(graph.n_vertices // _PATCH, 1)
    lengths = _symmetric(graph, clear, graph.lengths)
    taken = np.empty(0, dtype=np.int32)
    found = []
    for layout in range(1, _LAYOUTS + 1):
        sample = sample_vertices(graph, layout * size, team=team)
        centres, taken = np.setdiff1d(sample, taken), sample
        owner, side = _patches(lengths, signs, centres)
        found.append(_broken_share(_joins(signs, owner, side)))
    return coherence, float(np.median(found))


def _symmetric(graph: NeighborGraph, chosen: BoolArray, values: FloatArray) -> sp.csr_array:
    """Values of the chosen stored edges, in both directions, shape (n, n)."""
    n = graph.n_vertices
    once = sp.csr_array((values[chosen], (graph.sources[chosen], graph.indices[chosen])), shape=(n, n))
    return sp.csr_array(once + once.T)


def _patches(lengths: sp.csr_array, signs: sp.csr_array, centres: AnyArray) -> tuple[AnyArray, FloatArray]:
    """Patch of every vertex (-1 for none) and its side (+1, -1; 0 for none) within the patch."""
    n = signs.shape[0]
    distance, before, source = dijkstra(lengths, indices=centres, min_only=True, return_predecessors=True)
    # As small as SciPy's searches of graphs want them, 1.12 at least.
    number = np.full(n, -1, dtype=np.int32)
    number[centres] = np.arange(len(centres))
    reached = np.isfinite(distance)
    owner = np.where(reached, number[np.where(reached, source, 0)], -1)
    side = np.zeros(n)
    side[centres] = 1.0
    order = np.argsort(distance, kind="stable")
    order = order[reached[order] & (before[order] >= 0)]
    for v, s in zip(order, np.asarray(signs[before[order], order]).ravel(), strict=True):
        side[v] = s * side[before[v]]
    # Then by the majority of the neighbours within the patch.
    ends = signs.tocoo()
    within = owner[ends.row] == owner[ends.col]
    votes = sp.csr_array((ends.data[within], (ends.row[within], ends.col[within])), shape=(n, n))
    for _ in range(_VOTES):
        total = votes @ side
        side = np.where(total == 0.0, side, np.sign(total))
    return owner, side


def _joins(signs: sp.csr_array, owner: AnyArray, side: FloatArray) -> sp.csr_array:
    """Sum of the signs between the sides of neighbouring patches, where they have a clear majority."""
    ends = signs.tocoo()
    between = (owner[ends.row] != owner[ends.col]) & (owner[ends.row] >= 0) & (owner[ends.col] >= 0)
    rows, columns = ends.row[between], ends.col[between]
    size = int(owner.max()) + 1
    at = (owner[rows], owner[columns])
    agreement = sp.csr_array((ends.data[between] * side[rows] * side[columns], at), shape=(size, size))
    count = sp.csr_array((np.ones(len(rows)), at), shape=(size, size)).tocoo()
    total = np.asarray(agreement[count.row, count.col]).ravel()
    kept = (count.data >= _FEWEST_JOINS) & (np.abs(total) >= _MAJORITY * count.data)
    return sp.csr_array((total[kept], (count.row[kept], count.col[kept])), shape=(size, size))


def _broken_share(joins: sp.csr_array) -> float:
    """Least weight of joins whose sign no choice of sides keeps, over the weight of all, as found."""
    ends = joins.tocoo()
    whole = float(np.abs(ends.data).sum())
    if whole == 0.0:
        return 0.0
    # Sides passed along the strongest joins, and sides that agree best in the mean: one wrong join misleads
    # the first, a long thin shape the second.
    weakness = sp.csr_array((1.0 / np.abs(ends.data), (ends.row, ends.col)), shape=joins.shape)
    tree = sp.csr_array(minimum_spanning_tree(weakness))
    signed = sp.csr_array(sp.diags_array(np.abs(joins).sum(axis=1)) - joins)
    least = np.inf
    for start in (_sides(sp.csr_array(tree + tree.T), joins), lowest_eigenvectors(signed, 1)[1][:, 0]):
        side = np.where(start < 0.0, -1.0, 1.0)
        for _ in range(_VOTES):
            broken = ends.data * side[ends.row] * side[ends.col] < 0.0
            least = min(least, float(np.abs(ends.data[broken]).sum()) / whole)
            votes = joins @ side
            side = np.where(votes == 0.0, side, np.sign(votes))
    return least


def _sides(forest: sp.csr_array, signs: sp.csr_array) -> FloatArray:
    """One of +1 and -1 for every vertex, so that the signs along the edges of a forest are kept."""
    side = np.zeros(forest.shape[0])
    _, labels = connected_components(forest, directed=False)
    for root in np.unique(labels, return_index=True)[1]:
        order, before = breadth_first_order(forest, root, directed=False)
        side[root] = 1.0
        if len(order) > 1:
            along = np.sign(np.asarray(signs[order[1:], before[order[1:]]]).ravel())
            for v, u, s in zip(order[1:], before[order[1:]], along, strict=True):
                side[v] = s * side[u]
    return side
