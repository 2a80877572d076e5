"""A distance graph as every later stage works on it, and the way back to the caller's vertices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from isoweave._lazy import computed_once
from isoweave._parallel import ONE_THREAD, ThreadTeam
from isoweave._typing import AnyArray, IntArray
from isoweave.graph._components import connected_components
from isoweave.graph._duplicates import merge_duplicates
from isoweave.graph._graph import NeighborGraph, is_edge, keep_edges, subgraph
from isoweave.graph._order import local_order, renumber
from isoweave.graph._shortcuts import drop_shortcuts

# Beyond this ratio of lengths fourth powers overflow, and nothing at the small end would be visible.
_LARGEST_RATIO = 1e70


@dataclass(frozen=True, eq=False)
class PreparedGraph:
    """A graph in a unit of its own, duplicates merged, ordered for the cache, shortcuts removed.

    Attributes
    ----------
    given : NeighborGraph
        What the caller passed, in the caller's unit and numbering.
    unit : float
        A power of two near the median length; lengths of ``graph`` are multiples of it.
    graph : NeighborGraph
        Of the distinct vertices, with positive lengths.
    representative : int32 array of shape (n,)
        Distinct vertex of every given one.
    dropped : int32 array of shape (s, 2)
        Edges i < j of ``given`` that were left out as shortcuts.
    """

    given: NeighborGraph
    unit: float
    graph: NeighborGraph
    representative: IntArray
    dropped: IntArray

    @computed_once
    def firsts(self) -> AnyArray:
        """First given vertex of every distinct one."""
        return np.unique(self.representative, return_index=True)[1]

    @computed_once
    def labels(self) -> IntArray:
        """Connected component of every distinct vertex, largest first."""
        return connected_components(self.graph)[1]

    @computed_once
    def parts(self) -> list[AnyArray]:
        """Distinct vertices of every component, largest first."""
        return members_of(self.labels)

    def part(self, c: int) -> NeighborGraph:
        """Graph of component c."""
        return self.graph if len(self.parts) == 1 else subgraph(self.graph, self.parts[c])


def members_of(labels: IntArray) -> list[AnyArray]:
    """Vertices of every label, in rising order."""
    order = np.argsort(labels, kind="stable")
    return np.split(order, np.cumsum(np.bincount(labels))[:-1])


def normalise_lengths(graph: NeighborGraph) -> tuple[float, NeighborGraph]:
    """A unit near the median length, and the graph in it.

    The unit is a power of two: no digit changes, and no later stage over- or underflows.
    """
    positive = graph.lengths[graph.lengths > 0]
    if len(positive) == 0:
        return 1.0, graph
    # The upper of the two middle lengths, because their mean may overflow; the unit must be a number too.
    middle = np.partition(positive, len(positive) // 2)[len(positive) // 2]
    exponent = min(int(np.frexp(middle)[1]), np.finfo(np.float64).maxexp - 1)
    if positive.max() / _LARGEST_RATIO > positive.min():
        raise ValueError(
            f"distances span from {positive.min():.3g} to {positive.max():.3g}, a ratio over "
            f"{_LARGEST_RATIO:.0g}; rescale or remove the extreme ones."
        )
    lengths = np.ldexp(graph.lengths, -exponent)
    return float(np.ldexp(1.0, exponent)), NeighborGraph(graph.indptr, graph.indices, lengths)


def prepare_graph(
    graph: NeighborGraph,
    dropped: bool | AnyArray = True,
    *,
    team: ThreadTeam = ONE_THREAD,
    on_stage: Callable[[str], object] = lambda name: None,
) -> PreparedGraph:
    """Choose the unit, merge duplicates, order the vertices, remove shortcuts.

    Parameters
    ----------
    graph : NeighborGraph
    dropped : bool or int array of shape (s, 2)
        True asks the shortcut filter, False keeps every edge; an array names the edges to leave out.
    team : ThreadTeam
    on_stage : callable
        Called with "order" and "shortcuts" as these stages begin.
    """
    on_stage("order")
    unit, normal = normalise_lengths(graph)
    gone = np.empty((0, 2), dtype=np.int32)
    if not isinstance(dropped, bool) and len(dropped):
        named = is_edge(graph, dropped)
        normal = keep_edges(normal, ~named)
        gone = _undirected(graph, named)
    merged, representative = merge_duplicates(normal)
    order = local_order(merged)
    if order is not None:
        merged = renumber(merged, order)
        representative = np.argsort(order).astype(np.int32)[representative]
    if dropped is True and merged.n_edges:
        on_stage("shortcuts")
        report = drop_shortcuts(merged, team=team)
        merged = report.graph
        if len(report.dropped):
            gone = _between_groups(graph, representative, report.dropped)
    return PreparedGraph(graph, unit, merged, representative, gone)


def _between_groups(graph: NeighborGraph, representative: IntArray, pairs: IntArray) -> IntArray:
    """Given edges between the groups of duplicates whose merged edges are named."""
    n_groups = int(representative.max()) + 1
    low, high = representative[graph.sources], representative[graph.indices]
    keys = low.astype(np.int64) * n_groups + high
    mask = np.isin(keys, pairs[:, 0].astype(np.int64) * n_groups + pairs[:, 1])
    return _undirected(graph, mask)


def _undirected(graph: NeighborGraph, mask: AnyArray) -> IntArray:
    """Masked stored edges, each once as i < j."""
    pairs = np.sort(np.column_stack((graph.sources[mask], graph.indices[mask])), axis=1)
    return np.unique(pairs, axis=0).astype(np.int32)
