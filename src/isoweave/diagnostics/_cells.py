"""Two-dimensional cells of a graph: triangles, and loops around the holes that triangles leave."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from isoweave._parallel import ThreadTeam
from isoweave._typing import AnyArray
from isoweave.graph import NeighborGraph
from isoweave.optimise import sample_vertices

# Loops among this many nearest vertices of some vertex are local, or among this part of all vertices if that
# is less; longer ones belong to the shape.
_BALL = 150
_BALL_PART = 10
# One vertex in three is the centre of a ball: balls overlap widely.
_CENTRE_PART = 3
_LOOPS_PER_BALL = 24
_LONGEST_LOOP = 24
# Up to here every vertex is one.
_SMALL = 600
# Room for no triangles: they are only counted.
_NONE = np.empty((0, 3), dtype=np.int32)


@dataclass(frozen=True, eq=False)
class CellComplex:
    """Oriented cells as loops of undirected edges."""

    # Positions of the stored edges (i, j) with i < j; their order numbers the E undirected edges.
    edges: AnyArray
    # +1 where the loop of a cell runs along an edge from i to j, -1 where against it, shape (cells, E).
    # Applied to a 1-form on the edges it is the curl; the curl of differences is zero.
    boundary: sp.csr_array
    # Stored edges (i, j), (j, k), (i, k) of the triangles i < j < k, which are the first cells.
    triangles: AnyArray


def build_cells(graph: NeighborGraph, *, team: ThreadTeam, ball: int | None = None) -> CellComplex:
    """Triangles of a graph, and loops that fill the small holes between them.

    Every loop among the ``ball`` nearest vertices of a centre (by default 150 or a tenth of all, around every
    third vertex) is a sum of triangles and of the loops listed. Cost is linear for bounded degrees.
    """
    from isoweave.engines import cells as kernels

    n = graph.n_vertices
    edges = np.flatnonzero(graph.sources < graph.indices)
    number = np.empty(len(graph.indices), dtype=np.int64)
    number[edges] = np.arange(len(edges))
    number[graph.reverse[edges]] = np.arange(len(edges))

    triangles = list_triangles(graph, team=team)
    if ball is None:
        ball = min(_BALL, -(-n // _BALL_PART))
    centres = np.arange(n, dtype=np.int32)
    if n > _SMALL:
        centres = sample_vertices(graph, n // _CENTRE_PART, team=team)
    loops = np.empty((len(centres), _LOOPS_PER_BALL, _LONGEST_LOOP), dtype=np.int32)
    counts = np.empty(len(centres), dtype=np.int32)
    arrays = (graph.indptr, graph.indices, graph.lengths, graph.sources)
    team.run(kernels.hole_loops, len(centres), centres, min(ball, n), *arrays, loops, counts, grain=64)
    kept = loops[np.arange(_LOOPS_PER_BALL) < counts[:, None]]
    cell, step = np.nonzero(kept != -1)
    along = kept[cell, step] >= 0
    stored = np.where(along, kept[cell, step], -2 - kept[cell, step])
    upwards = graph.sources[stored] < graph.indices[stored]

    rows = np.concatenate((np.repeat(np.arange(len(triangles)), 3), len(triangles) + cell))
    columns = np.concatenate((number[triangles].ravel(), number[stored]))
    signs = np.concatenate((np.tile((1.0, 1.0, -1.0), len(triangles)), np.where(along == upwards, 1.0, -1.0)))
    shape = (len(triangles) + len(kept), len(edges))
    return CellComplex(edges, sp.csr_array((signs, (rows, columns)), shape=shape), triangles)


def count_triangles(graph: NeighborGraph, *, team: ThreadTeam) -> AnyArray:
    """Triangles of which every vertex is the first, shape (n,)."""
    from isoweave.engines import cells as kernels

    counts = np.zeros(graph.n_vertices, dtype=np.int64)
    team.run(kernels.list_triangles, graph.n_vertices, graph.indptr, graph.indices, counts, _NONE)
    return counts


def list_triangles(graph: NeighborGraph, *, team: ThreadTeam) -> AnyArray:
    """Stored edges (i, j), (j, k), (i, k) of all triangles i < j < k, shape (n_triangles, 3)."""
    from isoweave.engines import cells as kernels

    counts = count_triangles(graph, team=team)
    triangles = np.empty((int(counts.sum()), 3), dtype=np.int32)
    starts = np.cumsum(counts) - counts
    team.run(kernels.list_triangles, graph.n_vertices, graph.indptr, graph.indices, starts, triangles)
    return triangles
