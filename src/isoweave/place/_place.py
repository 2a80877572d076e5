"""New points in a finished map, from their distances to its points, given as rows or as a matrix."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from isoweave._parallel import ONE_THREAD, ThreadTeam
from isoweave._typing import AnyArray, FloatArray, IntArray
from isoweave.geometry import HUB_LIMIT
from isoweave.graph import (
    NeighborGraph,
    block_rows,
    merge_duplicates,
    nearest_of_all,
    normalise_lengths,
    rows_by_length,
)

Rows = tuple[AnyArray, AnyArray, FloatArray]

# In units of the map's median edge; squares of squares of more would overflow.
_LONGEST = 1e70


@dataclass(frozen=True, eq=False)
class FinishedMap:
    """A map that new points can be placed in. Made by :func:`finished_map`."""

    coordinates: FloatArray  #: of the g distinct vertices, in ``unit``, shape (g, N); NaN where it has none
    indptr: IntArray  #: of the graph of the distinct vertices, every row in order of length
    near: IntArray  #: its neighbours
    near_lengths: FloatArray  #: its lengths in ``unit``, multiplied by ``factors``
    labels: IntArray  #: component of every distinct vertex
    representative: IntArray  #: distinct vertex of every vertex of the input, shape (n,)
    factors: FloatArray  #: size of the map against the distances around a vertex: 1 where it keeps them
    unit: float  #: a power of two near the median length

    @property
    def n_vertices(self) -> int:
        return len(self.representative)

    def of_distinct(self, coordinates: FloatArray) -> FinishedMap:
        """The map of the distinct vertices alone, in units of ``unit``, with other coordinates."""
        own = np.arange(len(coordinates), dtype=np.int32)
        return replace(self, coordinates=coordinates.copy(), representative=own, unit=1.0)


@dataclass(frozen=True, eq=False)
class Placement:
    """Where m new points lie in a map, and how far to trust it."""

    coordinates: AnyArray  #: shape (m, N); NaN for points whose neighbours have no coordinates
    #: Root mean square mismatch of the distances and directions to the neighbours, relative to the distances:
    #: 0 is an exact fit. Infinite where fewer than N neighbours (or only one) leave the place open, NaN where
    #: the coordinates are.
    residual: FloatArray
    n_iter: IntArray  #: steps of the refinement
    n_used: IntArray  #: neighbours the point was placed by; 1 if it coincides with one of the map
    #: Distinct neighbours it has, 128 at most. Where ``n_used`` is smaller, the others lie on another sheet
    #: or component of the map.
    n_given: IntArray


def finished_map(
    graph: NeighborGraph,
    coordinates: Any,
    *,
    team: ThreadTeam = ONE_THREAD,
    labels: IntArray | None = None,
    keeps_lengths: bool = True,
) -> FinishedMap:
    """Prepare the map of a graph for :func:`place_points`; done once for any number of new points.

    Parameters
    ----------
    graph : NeighborGraph
    coordinates : array of shape (n, N)
    team : ThreadTeam
    labels : int32 array of shape (n,), optional
        Connected components; by default all vertices belong together.
    keeps_lengths : bool
        The map was made to keep the lengths of edges. Otherwise (``scale="geodesics"``, frames not
        calibrated) its size against them is measured, component by component, and new distances are
        multiplied by it.
    """
    places = np.asarray(coordinates, dtype=np.float64)
    if places.ndim != 2 or len(places) != graph.n_vertices:
        raise ValueError(
            f"coordinates must have one row for each of the {graph.n_vertices} vertices, got shape "
            f"{places.shape}."
        )
    unit, normal = normalise_lengths(graph)
    merged, representative = merge_duplicates(normal)
    firsts = np.unique(representative, return_index=True)[1]
    places = np.ascontiguousarray(places[firsts] / unit)
    parts = np.zeros(len(firsts), dtype=np.int32) if labels is None else labels[firsts].astype(np.int32)
    factors = np.ones(len(firsts)) if keeps_lengths else _map_factors(merged, places, parts)
    near, near_lengths = rows_by_length(merged, team)
    return FinishedMap(
        coordinates=places,
        indptr=merged.indptr,
        near=near,
        near_lengths=near_lengths * factors[merged.sources],
        labels=parts,
        representative=representative,
        factors=factors,
        unit=unit,
    )


def _map_factors(graph: NeighborGraph, coordinates: FloatArray, labels: IntArray) -> FloatArray:
    """Least-squares size of each component of the map against the lengths of its edges, per vertex."""
    apart = np.linalg.norm(coordinates[graph.indices] - coordinates[graph.sources], axis=1)
    of_edge = labels[graph.sources]
    cross = np.bincount(of_edge, np.nan_to_num(apart * graph.lengths), minlength=int(labels.max()) + 1)
    square = np.bincount(of_edge, graph.lengths * graph.lengths, minlength=len(cross))
    # Without any edge, all points being one, counts have no weights and are integers.
    found = np.divide(cross, square, out=np.ones(len(cross)), where=(cross > 0) & (square > 0))
    return found[labels]


def place_points(
    placed: FinishedMap, indptr: Any, indices: Any, distances: Any, *, team: ThreadTeam = ONE_THREAD
) -> Placement:
    """Place new points by their distances to points of the map (docs/new_points.md, N1 to N4).

    Every neighbour j sees the new point in some direction, which least squares in its own neighbourhood give;
    the new point is put where these directions and the distances fit best, the map held fixed. Points do not
    see each other: a point has the same bits alone and in any batch, on any number of threads.

    Parameters
    ----------
    placed : FinishedMap
    indptr : int array of shape (m + 1,)
    indices, distances : arrays of shape (e,)
        Row i of the sparse matrix of distances, ``indptr[i]`` to ``indptr[i + 1]``: the neighbours of the new
        point i among the vertices of the map, and how far they are; at least one. A distance of
        zero gives the new point that vertex's own place. Of more than 128 neighbours the nearest are used.
    team : ThreadTeam
    """
    from isoweave.engines import placing as kernels

    starts, neighbors, lengths = _checked_rows(placed, indptr, indices, distances)
    m, n_components = len(starts) - 1, placed.coordinates.shape[1]
    empty = np.flatnonzero(np.diff(starts) == 0)
    if len(empty):
        raise ValueError(
            f"New points need at least one neighbour each; {_listed(empty)} of the new distances "
            f"{'has' if len(empty) == 1 else 'have'} none. Leave them out or give them distances."
        )
    given, n_iter, n_used = (np.empty(m, dtype=np.int32) for _ in range(3))
    places, residual = np.empty((m, n_components)), np.empty(m)
    team.run(kernels.sort_rows, m, starts, neighbors, lengths, HUB_LIMIT, given)
    rows = (starts, given, neighbors, lengths)
    graph = (placed.indptr, placed.near, placed.near_lengths, HUB_LIMIT, placed.coordinates, placed.labels)
    team.run(kernels.place_rows, m, *rows, *graph, places, residual, n_iter, n_used, grain=64)
    return Placement(places * placed.unit, residual, n_iter, n_used, given)


def _checked_rows(
    placed: FinishedMap, indptr: Any, indices: Any, distances: Any
) -> tuple[AnyArray, IntArray, FloatArray]:
    """Rows over the distinct vertices, in the map's unit and size."""
    bounds, columns, values = np.asarray(indptr), np.asarray(indices), np.asarray(distances, dtype=np.float64)
    rises = bounds.ndim == 1 and len(bounds) > 0 and bounds[0] == 0 and np.all(np.diff(bounds) >= 0)
    if not rises or not bounds[-1] == len(columns) == len(values):
        raise ValueError(
            f"indptr must rise from 0 to the number of distances; it ends with {bounds[-1:]} for "
            f"{len(columns)} indices and {len(values)} distances."
        )
    rows = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    bad = ~(np.isfinite(values) & (values >= 0) & (values <= _LONGEST * placed.unit))
    if bad.any():
        at = int(np.argmax(bad))
        raise ValueError(
            f"The distance of new point {rows[at]} to point {columns[at]} of the map is {values[at]}; it "
            f"must be finite, not negative and at most {_LONGEST * placed.unit:.0g}. Leave out pairs whose "
            "distance is unknown."
        )
    outside = (columns < 0) | (columns >= placed.n_vertices)
    if outside.any():
        at = int(np.argmax(outside))
        raise ValueError(
            f"New point {rows[at]} has a distance to point {columns[at]}, but the map has the points 0 .. "
            f"{placed.n_vertices - 1}."
        )
    vertices = placed.representative[columns]
    return bounds.astype(np.int64), vertices, values / placed.unit * placed.factors[vertices]


def _listed(rows: AnyArray) -> str:
    """The first few rows, in words."""
    shown = ", ".join(map(str, rows[:5]))
    return f"row {shown}" if len(rows) == 1 else f"rows {shown}{', ...' if len(rows) > 5 else ''}"


def sparse_rows(matrix: Any) -> Rows:
    """Rows of a sparse matrix of distances as ``indptr, indices, distances``; stored zeros are kept.

    Repeated entries are kept as they are, never summed. In the DIA and BSR formats zeros only fill up
    diagonals and blocks, and are left out.
    """
    if matrix.dtype.kind not in "fiu":
        raise TypeError(f"Distances must be real numbers, got a matrix of dtype {matrix.dtype}.")
    if matrix.format == "csr":
        # A matrix made by hand may point outside itself.
        matrix.check_format(full_check=True)
        end = int(matrix.indptr[-1])
        return matrix.indptr, matrix.indices[:end], np.asarray(matrix.data[:end], dtype=np.float64)
    if matrix.format == "csc":
        matrix.check_format(full_check=True)
    entries = matrix.tocoo(copy=False)
    rows, columns, values = entries.row, entries.col, entries.data
    if matrix.format in ("bsr", "dia"):
        filled = values != 0
        rows, columns, values = rows[filled], columns[filled], values[filled]
    order = np.argsort(rows, kind="stable")
    indptr = np.concatenate(([0], np.cumsum(np.bincount(rows, minlength=matrix.shape[0]))))
    return indptr, columns[order], np.asarray(values[order], dtype=np.float64)


def nearest_columns(matrix: AnyArray, columns: IntArray, k: int) -> Rows:
    """The ``k`` nearest of the given columns in every row of a finite dense matrix of distances.

    ``columns`` has one for every distinct point: duplicates must not take the places of others. Negative
    values within rounding (the root of the type's precision times the row's largest) are zero.
    """
    precision = np.finfo(matrix.dtype if matrix.dtype.kind == "f" else np.float64).eps

    def to_all(lo: int, hi: int) -> FloatArray:
        block = np.ascontiguousarray(matrix[lo:hi], dtype=np.float64)
        limit = -np.sqrt(precision) * np.abs(block).max(axis=1, keepdims=True)
        if (block < limit).any():
            i, j = np.argwhere(block < limit)[0]
            raise ValueError(
                f"Negative values in data: the distance of new point {lo + i} to point {j} is {block[i, j]}; "
                "distances must not be negative."
            )
        return np.ascontiguousarray(np.maximum(block, 0.0)[:, columns])

    m, k = len(matrix), min(k, len(columns))
    nobody = np.full(m, -1, dtype=np.int32)
    nearest, distances = nearest_of_all(to_all, nobody, k, ONE_THREAD, block_rows(matrix.shape[1]))
    return np.arange(m + 1) * k, columns[nearest.reshape(-1)], distances.reshape(-1)
