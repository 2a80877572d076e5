"""From the input graph to the components that are embedded, as the embedding itself makes them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from isoweave._parallel import ThreadTeam
from isoweave._typing import AnyArray, IntArray
from isoweave.graph import (
    NeighborGraph,
    connected_components,
    drop_shortcuts,
    is_edge,
    keep_edges,
    local_order,
    members_of,
    merge_duplicates,
    normalise_lengths,
    renumber,
    subgraph,
)


@dataclass(frozen=True, eq=False)
class Part:
    """One connected component.

    Attributes
    ----------
    graph : NeighborGraph
        Distinct vertices, positive lengths in the unit of :class:`Prepared`.
    vertices : int array
        Their numbers among the distinct vertices.
    """

    graph: NeighborGraph
    vertices: AnyArray


@dataclass(frozen=True, eq=False)
class Prepared:
    """The input graph without shortcuts and duplicates, in pieces.

    Attributes
    ----------
    unit : float
        Length of the unit in the input's unit; a power of two near the median length.
    graph : NeighborGraph
        Of the distinct vertices.
    representative : int32 array of shape (n,)
        Distinct vertex of every vertex of the input.
    firsts : int array of shape (n_distinct,)
        First vertex of the input of every distinct vertex.
    parts : tuple of Part
        Largest first.
    n_dropped : int
    """

    unit: float
    graph: NeighborGraph
    representative: IntArray
    firsts: AnyArray
    parts: tuple[Part, ...]
    n_dropped: int

    @property
    def embedded(self) -> tuple[Part, ...]:
        """Components of more than one vertex."""
        return tuple(part for part in self.parts if len(part.vertices) > 1)


def prepare(graph: NeighborGraph, dropped: IntArray | None, *, team: ThreadTeam) -> Prepared:
    """Merge duplicates, take out shortcuts, find components.

    Parameters
    ----------
    graph : NeighborGraph
    dropped : int array of shape (s, 2) or None
        Edges to leave out; None asks the shortcut filter.
    team : ThreadTeam
    """
    unit, normal = normalise_lengths(graph)
    n_dropped = 0
    if dropped is not None and len(dropped):
        gone = is_edge(graph, dropped)
        normal = keep_edges(normal, ~gone)
        n_dropped = int(np.count_nonzero(gone)) // 2
    merged, representative = merge_duplicates(normal)
    order = local_order(merged)
    if order is not None:
        merged = renumber(merged, order)
        representative = np.argsort(order).astype(np.int32)[representative]
    if dropped is None and merged.n_edges:
        report = drop_shortcuts(merged, team=team)
        merged, n_dropped = report.graph, len(report.dropped)
    n_parts, labels = connected_components(merged)
    members = members_of(labels)
    parts = tuple(Part(merged if n_parts == 1 else subgraph(merged, v), v) for v in members)
    firsts = np.unique(representative, return_index=True)[1]
    return Prepared(unit, merged, representative, firsts, parts, n_dropped)
