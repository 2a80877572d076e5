"""What the user knows beside the distances: how far to trust them, and where some vertices are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from isoweave import graph as graphs
from isoweave._typing import AnyArray, FloatArray
from isoweave._validation import as_array, check_array, check_vertices
from isoweave.energy import AnchorEnergy
from isoweave.graph import NeighborGraph, PreparedGraph, edge_keys, positions_of
from isoweave.options import EmbeddingOptions

# Largest weight over the smallest: beyond, the Poisson problems lose the digits of the light edges.
_LARGEST_RATIO = 1e10
# Two directions of an edge may differ by rounding.
_RTOL = 1e-6
# Positions of one vertex given twice may differ by this part of the typical distance.
_SAME_PLACE = 1e-9
# Anchors farther from each other than this many typical distances: squares of squares overflow.
_FARTHEST = 1e75


@dataclass(frozen=True, eq=False)
class Anchors:
    """Vertices whose positions are known; the embedding is then in their coordinates.

    N + 1 of them or more, not all in a hyperplane, fix it; fewer leave it free to rotate. Components without
    anchors are laid beside the others.

    Attributes
    ----------
    index : int array of shape (a,) or bool array of shape (n,)
        The vertices, by number or as a mask.
    positions : array of shape (a, N)
        In the order of ``index`` (of the true entries of a mask), in the unit of the distances.
    weight : float or array of shape (a,), default=None
        None or infinite: anchors stay exactly where they are. Otherwise they are pulled there with ``weight``
        times the squared distance; 1 counts as one direction of one edge of weight 1.
    """

    index: Any
    positions: Any
    weight: Any = None


class Weights(NamedTuple):
    """How far to trust the distances, where both edges and vertices have weights.

    Attributes
    ----------
    edges : sparse matrix of shape (n, n) or None
        Positive, with the pattern of the graph, one direction or both. An edge of weight 2 counts as two.
        Only ratios matter; inverse variances are a good choice.
    vertices : array of shape (n,) or None
        How much the neighbourhood of every vertex counts, positive.
    """

    edges: Any = None
    vertices: Any = None


@dataclass(frozen=True, eq=False)
class Known:
    """Checked weights and anchors of a graph: the user's, that without duplicates, or one of its components.

    ``edge_weights``, the same in both directions, and ``vertex_weights`` are near 1: all weights were divided
    by ``weight_unit``, a power of two, so that none of their products over- or underflows.
    """

    edge_weights: FloatArray | None = None
    vertex_weights: FloatArray | None = None
    anchors: AnchorEnergy | None = None
    weight_unit: float = 1.0

    @property
    def origin(self) -> FloatArray | float:
        """Mean of the anchors, and origin while the map is made: they may be far from zero."""
        return 0.0 if self.anchors is None else self.anchors.positions.mean(axis=0)

    def per_edge(self, graph: NeighborGraph) -> FloatArray | None:
        """Factor of every stored edge in the inner product, or None (eq. 18)."""
        if self.vertex_weights is None:
            return self.edge_weights
        of_source = self.vertex_weights[graph.sources]
        return of_source if self.edge_weights is None else self.edge_weights * of_source

    def merged(self, prepared: PreparedGraph) -> Known:
        """Of the prepared graph: duplicates merged, vertices renumbered, anchors in its unit and sorted."""
        given, representative, n = prepared.given, prepared.representative, prepared.graph.n_vertices
        vertex = edge = anchors = None
        # Of duplicates the most trusted counts, for vertices as for edges.
        if self.vertex_weights is not None:
            vertex = np.zeros(n)
            np.maximum.at(vertex, representative, self.vertex_weights)
        if self.edge_weights is not None:
            keys = representative[given.sources].astype(np.int64) * n + representative[given.indices]
            found, at = np.unique(keys, return_inverse=True)
            largest = np.zeros(len(found))
            np.maximum.at(largest, at.reshape(-1), self.edge_weights)
            edge = largest[positions_of(found, edge_keys(prepared.graph))]
        if self.anchors is not None:
            stand_for = representative[self.anchors.vertices]
            anchors = merge_anchors(self.anchors, stand_for, self.origin, prepared.unit, n)
        return Known(edge, vertex, anchors, self.weight_unit)

    def part(self, graph: NeighborGraph, vertices: AnyArray) -> Known:
        """Of the component of ``graph`` with these vertices."""
        vertex = edge = anchors = None
        if self.vertex_weights is not None:
            vertex = self.vertex_weights[vertices]
        if self.edge_weights is not None:
            # A component has all edges of its vertices.
            edge = self.edge_weights[graphs.edges_of(graph.indptr, vertices)]
        if self.anchors is not None and self.has_anchor(vertices):
            at = positions_of(self.anchors.vertices, vertices)
            inside, at = np.flatnonzero(at >= 0).astype(np.int32), at[at >= 0]
            places, weights = self.anchors.positions[at], self.anchors.weights[at]
            anchors = AnchorEnergy(inside, places, weights, len(vertices))
        return Known(edge, vertex, anchors, self.weight_unit)

    def has_anchor(self, vertices: AnyArray) -> bool:
        return self.anchors is not None and bool((positions_of(self.anchors.vertices, vertices) >= 0).any())

    def offsets(self, parts: list[AnyArray], placed: list[FloatArray]) -> list[FloatArray]:
        """Shifts of the components: those with anchors are in place, the others are laid beside them."""
        shifts = [np.zeros(placed[0].shape[1]) for _ in parts]
        fixed = [c for c, vertices in enumerate(parts) if self.has_anchor(vertices)]
        if not fixed or self.anchors is None:
            return graphs.pack_components(placed) if len(parts) > 1 else shifts
        for c in fixed:
            if len(parts[c]) == 1:
                shifts[c] = self.anchors.positions[positions_of(self.anchors.vertices, parts[c])[0]]
        inside = np.concatenate([placed[c] + shifts[c] for c in fixed])
        beside = sorted(set(range(len(parts))) - set(fixed))
        if beside:
            packed = graphs.pack_components([inside, *(placed[c] for c in beside)])
            for c, shift in zip(beside, packed[1:], strict=True):
                shifts[c] = shift - packed[0]
        return shifts

    def finish(self, coordinates: FloatArray, representative: AnyArray) -> FloatArray:
        """Coordinates of the user's vertices with the anchors' origin, hard anchors to the last bit."""
        if self.anchors is None:
            return coordinates
        moved = coordinates + self.origin
        hard = np.flatnonzero(np.isinf(self.anchors.weights))
        # Duplicates of an anchor lie where it lies.
        pinned = np.full(int(representative.max()) + 1, -1, dtype=np.int64)
        pinned[representative[self.anchors.vertices[hard]]] = hard
        at = pinned[representative]
        moved[at >= 0] = self.anchors.positions[at[at >= 0]]
        return moved


def check_known(
    graph: NeighborGraph, options: EmbeddingOptions, anchors: Any = None, weights: Any = None
) -> Known:
    """Check what is known beside the distances. See :func:`isoweave.embed_graph`."""
    points = None if anchors is None else check_anchors(graph.n_vertices, options.n_components, anchors)
    edges, vertices = weights if isinstance(weights, Weights) else (weights, None)
    if edges is weights and not sp.issparse(edges) and as_array("weights", edges).ndim == 1:
        # A matrix weighs edges, a vector vertices.
        edges, vertices = None, weights
    edges = None if edges is None else _edge_weights(graph, edges)
    if vertices is not None:
        vertices = check_array("vertex weights", vertices, (graph.n_vertices,))
        bad = np.flatnonzero(~((vertices > 0) & np.isfinite(vertices)))
        if len(bad):
            what = f"that of vertex {bad[0]} is {vertices[bad[0]]}"
            raise ValueError(f"vertex weights must be positive and finite, but {what}.")
    if edges is not None and options.inner_product == "paper":
        raise ValueError(
            "edge weights need an inner product with one weight per edge, which the paper's does not have; "
            "use inner_product='edge', or weights of the vertices."
        )
    if edges is not None and options.along_graph is not None:
        raise ValueError(
            "edge weights and along_graph do not go together: paths have no weight. Leave one of them out."
        )
    if points is not None and options.scale == "geodesics":
        raise ValueError(
            "scale='geodesics' would move the map off its anchors, which fix its size; use scale='edges'."
        )
    edge_unit, edges = _in_unit("edge weights", edges)
    vertex_unit, vertices = _in_unit("vertex weights", vertices)
    unit = edge_unit * vertex_unit
    if points is not None and unit != 1.0:
        points = replace(points, weights=points.weights / unit)
    return Known(edges, vertices, points, unit)


def check_anchors(n: int, n_components: int, anchors: Any) -> AnchorEnergy | None:
    """Check the anchors of a graph of ``n`` vertices; None if there are none."""
    if not isinstance(anchors, Anchors):
        raise TypeError(
            "anchors must be isoweave.Anchors(index, positions), the vertices and where they are, got "
            f"{type(anchors).__name__}."
        )
    vertices = check_vertices("anchors.index", anchors.index, n)
    shape, what = (len(vertices), n_components), "one row per anchor and one column per dimension of the map"
    places = check_array("positions of anchors", anchors.positions, shape, what)
    if not np.isfinite(places).all():
        row, column = np.argwhere(~np.isfinite(places))[0]
        raise ValueError(
            f"positions of anchors must be finite, but row {row} (vertex {vertices[row]}), column {column} "
            f"is {places[row, column]}. Leave out anchors whose position is not known."
        )
    weight = as_array("weight of anchors", np.inf if anchors.weight is None else anchors.weight)
    weight = np.full(len(vertices), weight) if weight.ndim == 0 else weight
    weights = check_array("weight of anchors", weight, (len(vertices),), "one per anchor, or a number")
    bad = np.flatnonzero(~(weights > 0))
    if len(bad):
        raise ValueError(
            f"weight of anchors must be positive (infinite holds the anchor), but entry {bad[0]} is "
            f"{weights[bad[0]]}. Leave out anchors that should not count."
        )
    return AnchorEnergy(vertices, places, weights, n) if len(vertices) else None


def _edge_weights(graph: NeighborGraph, weights: Any) -> FloatArray:
    """Weights in the order of the graph's stored edges."""
    n = graph.n_vertices
    if not sp.issparse(weights) and not isinstance(weights, np.ndarray):
        raise TypeError(
            "edge weights must be a sparse matrix with the pattern of the graph, or a dense array, got "
            f"{type(weights).__name__}."
        )
    if weights.shape != (n, n):
        raise ValueError(f"edge weights must have shape ({n}, {n}) like the graph, got {weights.shape}.")
    if weights.dtype.kind not in "fiu":
        raise TypeError(f"edge weights must be real, got dtype {weights.dtype}.")
    if sp.issparse(weights):
        entries = sp.coo_array(weights)
        off = entries.row != entries.col
        rows, cols, values = entries.row[off], entries.col[off], entries.data[off].astype(np.float64)
    else:
        rows, cols = graph.sources, graph.indices
        values = weights[rows, cols].astype(np.float64)
    bad = np.flatnonzero(~((values > 0) & np.isfinite(values)))
    if len(bad):
        raise ValueError(
            f"edge weights must be positive and finite, but that of edge ({rows[bad[0]]}, {cols[bad[0]]}) is "
            f"{values[bad[0]]}. Remove edges that should not count."
        )
    # An edge may be given in one direction or in both, if these agree.
    found, low = (
        graphs.assemble_graph(n, rows, cols, values, asymmetry=a, rtol=_RTOL) for a in ("max", "min")
    )
    given, wanted = edge_keys(found), edge_keys(graph)
    for keys, others, what in ((given, wanted, "are given for"), (wanted, given, "are missing for")):
        odd = np.setdiff1d(keys, others)
        if len(odd):
            raise ValueError(
                f"edge weights must have the pattern of the graph, but they {what} "
                f"({odd[0] // n}, {odd[0] % n})."
            )
    differ = np.flatnonzero(found.lengths != low.lengths)
    if len(differ):
        e = differ[0]
        raise ValueError(
            f"edge weights must be symmetric, but edge ({graph.sources[e]}, {graph.indices[e]}) has both "
            f"{low.lengths[e]} and {found.lengths[e]}. Give one direction only, or both the same."
        )
    return found.lengths


def _in_unit(name: str, weights: FloatArray | None) -> tuple[float, FloatArray | None]:
    """A power of two near the median, and the weights divided by it."""
    if weights is None or len(weights) == 0:
        return 1.0, None
    low, high = float(weights.min()), float(weights.max())
    if high / _LARGEST_RATIO > low:
        raise ValueError(
            f"{name} span from {low:.3g} to {high:.3g}, a ratio over {_LARGEST_RATIO:g}; leave out what "
            "should not count instead of giving it a tiny weight."
        )
    middle = float(np.partition(weights, len(weights) // 2)[len(weights) // 2])
    exponent = int(np.clip(np.frexp(middle)[1] - 1, -500, 500))
    return float(np.ldexp(1.0, exponent)), np.ldexp(weights, -exponent)


def merge_anchors(
    anchors: AnchorEnergy, stand_for: AnyArray, origin: FloatArray | float, unit: float, n: int
) -> AnchorEnergy:
    """Anchors of the merged vertices that they ``stand_for``, rising.

    Of several on one vertex, hard ones agree and win, soft ones add up.
    """
    with np.errstate(over="ignore"):
        places = (anchors.positions - origin) / unit
    farthest = float(np.abs(places).max())
    if not farthest <= _FARTHEST:
        raise ValueError(
            f"positions of anchors are {farthest:.3g} times the median distance apart, over {_FARTHEST:g}; "
            "give them in the unit of the distances."
        )
    vertices, group = np.unique(stand_for, return_inverse=True)
    group = group.reshape(-1)
    order = np.argsort(group)
    if len(vertices) == len(group):
        return AnchorEnergy(vertices, places[order], anchors.weights[order], n)
    merged, weights = np.zeros((len(vertices), places.shape[1])), np.zeros(len(vertices))
    for g in range(len(vertices)):
        inside = np.flatnonzero(group == g)
        weights[g] = anchors.weights[inside].sum()
        if np.isfinite(weights[g]):
            merged[g] = (anchors.weights[inside] / weights[g]) @ places[inside]
            continue
        hard = inside[np.isinf(anchors.weights[inside])]
        merged[g] = places[hard[0]]
        apart = np.abs(places[hard] - merged[g]).max(axis=1)
        if apart.max() > _SAME_PLACE:
            a, b = anchors.vertices[hard[0]], anchors.vertices[hard[int(np.argmax(apart))]]
            raise ValueError(
                f"Vertices {a} and {b} are duplicates (distance zero), but their positions differ by "
                f"{apart.max() * unit:.3g}. Give them one position, or a finite weight."
            )
    return AnchorEnergy(vertices, merged, weights, n)
