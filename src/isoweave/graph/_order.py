"""Orders of edges and vertices."""

from __future__ import annotations

import numpy as np
from scipy.sparse.csgraph import reverse_cuthill_mckee

from isoweave._parallel import ThreadTeam
from isoweave._typing import AnyArray, FloatArray, IntArray
from isoweave.graph._graph import NeighborGraph

# Smaller graphs fit into the cache in any order.
_SMALLEST_REORDERED = 20_000
# Rows up to this length are sorted by insertion in compiled code; compiling a sort for longer ones takes
# longer than numpy takes for all of them.
_LONGEST_INSERTED = 200


def rows_by_length(graph: NeighborGraph, team: ThreadTeam) -> tuple[IntArray, FloatArray]:
    """Neighbours and lengths of every row in order of length, shapes (m,)."""
    from isoweave.engines import neighborhoods as kernels

    near_indices = np.empty_like(graph.indices)
    near_lengths = np.empty_like(graph.lengths)
    arrays = (graph.indptr, graph.indices, graph.lengths)
    team.run(
        kernels.sort_rows_by_length, graph.n_vertices, _LONGEST_INSERTED, *arrays, near_indices, near_lengths
    )
    for i in np.flatnonzero(graph.degrees > _LONGEST_INSERTED):
        row = slice(graph.indptr[i], graph.indptr[i + 1])
        order = np.argsort(graph.lengths[row], kind="stable")
        near_indices[row] = graph.indices[row][order]
        near_lengths[row] = graph.lengths[row][order]
    return near_indices, near_lengths


def sums_of_lengths(graph: NeighborGraph, team: ThreadTeam) -> FloatArray:
    """Sum of the lengths at every vertex, shape (n,), the same bits in every numbering of the vertices."""
    _, near_lengths = rows_by_length(graph, team)
    sums = np.zeros(graph.n_vertices)
    filled = graph.degrees > 0
    sums[filled] = np.add.reduceat(near_lengths, graph.indptr[:-1][filled])
    return sums


def local_order(graph: NeighborGraph) -> AnyArray | None:
    """A numbering in which neighbours are near each other in memory; None where it would gain nothing."""
    if graph.n_vertices < _SMALLEST_REORDERED:
        return None
    return np.asarray(reverse_cuthill_mckee(graph.to_matrix(), symmetric_mode=True))


def renumber(graph: NeighborGraph, order: AnyArray) -> NeighborGraph:
    """The same graph with vertex ``order[r]`` in place r."""
    n = graph.n_vertices
    place = np.empty(n, dtype=np.int32)
    place[order] = np.arange(n, dtype=np.int32)
    matrix = graph.to_matrix()[order]
    matrix.indices = place[matrix.indices]
    matrix.has_sorted_indices = False
    matrix.sort_indices()
    return NeighborGraph(
        matrix.indptr.astype(np.int32, copy=False),
        matrix.indices.astype(np.int32, copy=False),
        np.ascontiguousarray(matrix.data),
    )
