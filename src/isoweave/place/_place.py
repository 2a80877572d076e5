"""New points in a finished map, from their distances to its points."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from isoweave._parallel import ONE_THREAD, ThreadTeam
from isoweave._typing import AnyArray, FloatArray, IntArray
from isoweave.geometry import HUB_LIMIT
from isoweave.graph import NeighborGraph, merge_duplicates, normalise_lengths, rows_by_length

# In units of the map's median edge; squares of squares of more would overflow.
_LONGEST = 1e70


@dataclass(frozen=True, eq=False)
class FinishedMap:
    """A map that new points can be placed in. Made by :func:`finished_map`.

    Attributes
    ----------
    coordinates : float64 array of shape (g, N)
        Of the distinct vertices, in ``unit``; NaN where the map has none.
    indptr, near, near_lengths : arrays of the graph of the distinct vertices
        Every row in order of length; lengths in ``unit`` and multiplied by ``factors``.
    labels : int32 array of shape (g,)
        Component of every distinct vertex.
    representative : int32 array of shape (n,)
        Distinct vertex of every vertex of the input.
    factors : float64 array of shape (g,)
        Size of the map against the distances around the vertex: 1 where the map keeps them.
    unit : float
        A power of two near the median length.
    """

    coordinates: FloatArray
    indptr: IntArray
    near: IntArray
    near_lengths: FloatArray
    labels: IntArray
    representative: IntArray
    factors: FloatArray
    unit: float

    @property
    def n_vertices(self) -> int:
        return len(self.representative)

    def of_distinct(self, coordinates: FloatArray) -> FinishedMap:
        """The map of the distinct vertices alone, in units of ``unit``, with other coordinates."""
        own = np.arange(len(coordinates), dtype=np.int32)
        return replace(self, coordinates=coordinates.copy(), representative=own, unit=1.0)


@dataclass(frozen=True, eq=False)
class Placement:
    """Where new points lie in a map, and how far to trust it.

    Attributes
    ----------
    coordinates : array of shape (m, N)
        NaN for points whose neighbours have no coordinates.
    residual : float64 array of shape (m,)
        Root mean square mismatch of the distances and directions to the neighbours, relative to the
        distances: 0 is an exact fit. Infinite where fewer than N neighbours (or only one) leave the place
        open, NaN where the coordinates are.
    n_iter : int32 array of shape (m,)
        Steps of the refinement.
    n_used : int32 array of shape (m,)
        Neighbours the point was placed by; 1 for a point that coincides with one of the map.
    n_given : int32 array of shape (m,)
        Distinct neighbours it has, 128 at most. Where ``n_used`` is smaller, the others lie on another sheet
        or component of the map.
    """

    coordinates: AnyArray
    residual: FloatArray
    n_iter: IntArray
    n_used: IntArray
    n_given: IntArray


def finished_map(
    graph: NeighborGraph,
    coordinates: Any,
    *,
    team: ThreadTeam = ONE_THREAD,
    labels: IntArray | None = None,
    keeps_lengths: bool = True,
) -> FinishedMap:
    """Prepare a map for :func:`place_points`; done once for any number of new points.

    Parameters
    ----------
    graph : NeighborGraph
        The graph that was embedded.
    coordinates : array of shape (n, N)
        Its map.
    team : ThreadTeam
    labels : int32 array of shape (n,), optional
        Connected components; by default all vertices belong together.
    keeps_lengths : bool
        The map was made to keep the lengths of edges. Otherwise (``scale="geodesics"``, frames not
        calibrated) its size against them is measured, component by component, and new distances are
        multiplied by it.

    Notes
    -----
    O(m log k) for a graph of m edges. The map holds a copy of the graph.
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
    found = np.divide(cross, square, out=np.ones_like(cross), where=(cross > 0) & (square > 0))
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
    team : ThreadTeam, optional

    Notes
    -----
    O(k d N^2 + k N^3) per point with k neighbours of degree d.

    Examples
    --------
    >>> import numpy as np
    >>> from isoweave import embed_graph
    >>> from isoweave.place import finished_map, place_points
    >>> import scipy.sparse as sp
    >>> square = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    >>> lengths = np.linalg.norm(square[:, None] - square, axis=-1)
    >>> result = embed_graph(sp.csr_array(lengths))
    >>> placed = finished_map(result.graph, result.coordinates)
    >>> centre = place_points(placed, [0, 4], [0, 1, 2, 3], np.full(4, np.sqrt(0.5)))
    >>> bool(np.allclose(centre.coordinates, result.coordinates.mean(axis=0)))
    True
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
    given = np.empty(m, dtype=np.int32)
    team.run(kernels.sort_rows, m, starts, neighbors, lengths, HUB_LIMIT, given)
    places = np.empty((m, n_components))
    residual = np.empty(m)
    n_iter, n_used = np.empty(m, dtype=np.int32), np.empty(m, dtype=np.int32)
    team.run(
        kernels.place_rows,
        m,
        starts,
        given,
        neighbors,
        lengths,
        placed.indptr,
        placed.near,
        placed.near_lengths,
        HUB_LIMIT,
        placed.coordinates,
        placed.labels,
        places,
        residual,
        n_iter,
        n_used,
        grain=64,
    )
    return Placement(places * placed.unit, residual, n_iter, n_used, given)


def _checked_rows(
    placed: FinishedMap, indptr: Any, indices: Any, distances: Any
) -> tuple[AnyArray, IntArray, FloatArray]:
    """Rows over the distinct vertices, in the map's unit and size."""
    bounds = np.asarray(indptr)
    values = np.asarray(distances, dtype=np.float64)
    columns = np.asarray(indices)
    if (
        bounds.ndim != 1
        or len(bounds) < 1
        or bounds[0] != 0
        or np.any(np.diff(bounds) < 0)
        or not bounds[-1] == len(columns) == len(values)
    ):
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
    if len(columns) and (columns.min() < 0 or columns.max() >= placed.n_vertices):
        at = int(np.argmax((columns < 0) | (columns >= placed.n_vertices)))
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
