"""Weights and anchors on the way to the components of a graph and back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from isoweave._typing import AnyArray, FloatArray, IntArray
from isoweave.embedding._known import Anchors, Known, positions_of
from isoweave.graph import NeighborGraph, pack_components
from isoweave.optimise import Anchoring

# Positions of one place given twice may differ by this part of the typical distance.
_SAME_PLACE = 1e-9
# Anchors farther from each other than this many typical distances: squares of squares overflow.
_FARTHEST = 1e75


@dataclass(frozen=True, eq=False)
class PartKnown:
    """What is known of one component, in its unit and numbering.

    Attributes
    ----------
    edge_weights : float64 array of shape (m,) or None
    vertex_weights : float64 array of shape (n,) or None
    anchoring : Anchoring or None
    """

    edge_weights: FloatArray | None = None
    vertex_weights: FloatArray | None = None
    anchoring: Anchoring | None = None

    def per_edge(self, graph: NeighborGraph) -> FloatArray | None:
        """Factor of every stored edge in the inner product, or None (eq. 18)."""
        if self.vertex_weights is None:
            return self.edge_weights
        of_source = self.vertex_weights[graph.sources]
        return of_source if self.edge_weights is None else self.edge_weights * of_source


class MergedKnown:
    """Weights and anchors after duplicates were merged and vertices renumbered.

    Parameters
    ----------
    known : Known
    graph : NeighborGraph
        The input.
    representative : int array of shape (n,)
        Merged vertex of every vertex of the input.
    unit : float
        What lengths were divided by.

    Attributes
    ----------
    origin : float64 array of shape (N,) or None
        Mean of the anchors' positions, which is the origin while the map is made: positions may be far from
        zero compared to their differences. None without anchors.
    weight_unit : float
    """

    def __init__(self, known: Known, graph: NeighborGraph, representative: IntArray, unit: float) -> None:
        self.weight_unit = known.weight_unit
        self.origin: FloatArray | None = None
        self._anchors = known.anchors
        self._representative = representative
        n_merged = int(representative.max()) + 1
        self._vertex: FloatArray | None = None
        if known.vertex_weights is not None:
            # Of duplicates the most trusted counts, for vertices as for edges.
            self._vertex = np.zeros(n_merged)
            np.maximum.at(self._vertex, representative, known.vertex_weights)
        self._edge: FloatArray | None = None
        self._n_merged = n_merged
        if known.edge_weights is not None:
            ends = representative[graph.sources].astype(np.int64), representative[graph.indices]
            keys = ends[0] * n_merged + ends[1]
            self._keys, at = np.unique(keys, return_inverse=True)
            self._edge = np.zeros(len(self._keys))
            np.maximum.at(self._edge, at.reshape(-1), known.edge_weights)
        # Anchor of every merged vertex, -1 without.
        self._place = np.full(n_merged, -1, dtype=np.int64)
        if known.anchors is not None:
            self.origin = known.anchors.positions.mean(axis=0)
            self._vertices, self._places, self._weights = _merge(
                known.anchors, representative, self.origin, unit
            )
            self._place[self._vertices] = np.arange(len(self._vertices))

    def part(self, part: NeighborGraph, vertices: AnyArray) -> PartKnown:
        """What is known of the component of these merged vertices."""
        edge = None
        if self._edge is not None:
            keys = vertices[part.sources].astype(np.int64) * self._n_merged + vertices[part.indices]
            edge = self._edge[positions_of(self._keys, keys)]
        anchoring = None
        inside = np.flatnonzero(self._place[vertices] >= 0)
        if len(inside):
            at = self._place[vertices[inside]]
            anchoring = Anchoring(inside.astype(np.int32), self._places[at], self._weights[at])
        return PartKnown(edge, None if self._vertex is None else self._vertex[vertices], anchoring)

    def has_anchor(self, vertices: AnyArray) -> bool:
        return bool((self._place[vertices] >= 0).any())

    def offsets(self, parts: list[AnyArray], placed: list[FloatArray]) -> list[FloatArray]:
        """Shifts of the components: those with anchors are in place, the others are laid beside them."""
        n_components = placed[0].shape[1]
        anchored = [self.has_anchor(vertices) for vertices in parts]
        if not any(anchored):
            return pack_components(placed) if len(parts) > 1 else [np.zeros(n_components)]
        shifts = [np.zeros(n_components) for _ in parts]
        for c, vertices in enumerate(parts):
            if anchored[c] and len(vertices) == 1:
                shifts[c] = self._places[self._place[vertices[0]]]
        inside = np.concatenate([placed[c] + shifts[c] for c in range(len(parts)) if anchored[c]])
        beside = [c for c in range(len(parts)) if not anchored[c]]
        if beside:
            packed = pack_components([inside, *(placed[c] for c in beside)])
            for c, shift in zip(beside, packed[1:], strict=True):
                shifts[c] = shift - packed[0]
        return shifts

    def finish(self, coordinates: FloatArray) -> FloatArray:
        """Coordinates of the input's vertices with the anchors' origin, hard anchors to the last bit."""
        if self._anchors is None or self.origin is None:
            return coordinates
        moved = coordinates + self.origin
        hard = np.isinf(self._anchors.weights)
        # Duplicates of an anchor lie where it lies.
        pinned = np.full(self._n_merged, -1, dtype=np.int64)
        pinned[self._representative[self._anchors.vertices[hard]]] = np.flatnonzero(hard)
        at = pinned[self._representative]
        moved[at >= 0] = self._anchors.positions[at[at >= 0]]
        return moved


def _merge(
    anchors: Anchors, representative: IntArray, origin: FloatArray, unit: float
) -> tuple[AnyArray, FloatArray, FloatArray]:
    """Merged vertices with anchors, their places in the unit of the graph, and weights.

    Of several anchors on one merged vertex, hard ones must agree and win; soft ones add up to one at their
    mean.
    """
    with np.errstate(over="ignore"):
        places = (anchors.positions - origin) / unit
    farthest = float(np.abs(places).max())
    if not farthest <= _FARTHEST:
        raise ValueError(
            f"anchor_positions are {farthest:.3g} times the median distance apart, over {_FARTHEST:g}; give "
            "them in the unit of the distances."
        )
    vertices, group = np.unique(representative[anchors.vertices], return_inverse=True)
    group = group.reshape(-1)
    if len(vertices) == len(group):
        order = np.argsort(group)
        return vertices, places[order], anchors.weights[order]
    merged = np.zeros((len(vertices), places.shape[1]))
    weights = np.zeros(len(vertices))
    for g in range(len(vertices)):
        inside = np.flatnonzero(group == g)
        hard = inside[np.isinf(anchors.weights[inside])]
        if len(hard):
            apart = np.abs(places[hard] - places[hard[0]]).max(axis=1)
            if apart.max() > _SAME_PLACE:
                a, b = anchors.vertices[hard[0]], anchors.vertices[hard[int(np.argmax(apart))]]
                raise ValueError(
                    f"Vertices {a} and {b} are duplicates (distance zero), but their anchor_positions differ "
                    f"by {apart.max() * unit:.3g}. Give them one position, or a finite anchor_weight."
                )
            merged[g], weights[g] = places[hard[0]], np.inf
        else:
            weights[g] = anchors.weights[inside].sum()
            merged[g] = (anchors.weights[inside] / weights[g]) @ places[inside]
    return vertices, merged, weights
