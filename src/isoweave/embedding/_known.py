"""What the user knows beside the distances: how far to trust them, and where some vertices are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from isoweave._typing import AnyArray, FloatArray, IntArray
from isoweave._validation import check_real
from isoweave.embedding._options import EmbeddingOptions
from isoweave.graph import NeighborGraph

# Largest weight over the smallest: beyond, the Poisson problems lose the digits of the light edges.
_LARGEST_RATIO = 1e10
# Two directions of an edge may differ by rounding.
_RTOL = 1e-6


@dataclass(frozen=True, eq=False)
class Anchors:
    """Vertices of the input with known positions.

    Attributes
    ----------
    vertices : int64 array of shape (a,)
        Different from each other, at least one.
    positions : float64 array of shape (a, N)
        In the unit of the distances.
    weights : float64 array of shape (a,)
        Positive; infinite where the vertex must stay there.
    """

    vertices: AnyArray
    positions: FloatArray
    weights: FloatArray


@dataclass(frozen=True, eq=False)
class Known:
    """Checked weights and anchors of one graph.

    Attributes
    ----------
    edge_weights : float64 array of shape (m,) or None
        Per stored edge of the graph, the same in both directions, near 1.
    vertex_weights : float64 array of shape (n,) or None
        Near 1.
    anchors : Anchors or None
    weight_unit : float
        Power of two that weights, those of the anchors too, were divided by: no digit changes, and none of
        their products over- or underflows.
    """

    edge_weights: FloatArray | None
    vertex_weights: FloatArray | None
    anchors: Anchors | None
    weight_unit: float


def check_known(
    graph: NeighborGraph,
    n_components: int,
    *,
    edge_weights: Any = None,
    vertex_weights: Any = None,
    anchors: Any = None,
    anchor_positions: Any = None,
    anchor_weight: Any = None,
) -> Known | None:
    """Check what is known beside the distances; None if nothing is. See :func:`isoweave.embed_graph`."""
    points = check_anchors(graph.n_vertices, n_components, anchors, anchor_positions, anchor_weight)
    edges = None if edge_weights is None else _edge_weights(graph, edge_weights)
    vertices = None if vertex_weights is None else _vertex_weights(graph.n_vertices, vertex_weights)
    if points is None and edges is None and vertices is None:
        return None
    edge_unit, edges = _in_unit("edge_weights", edges)
    vertex_unit, vertices = _in_unit("vertex_weights", vertices)
    unit = edge_unit * vertex_unit
    if points is not None and unit != 1.0:
        points = Anchors(points.vertices, points.positions, points.weights / unit)
    return Known(edges, vertices, points, unit)


def check_fitting(options: EmbeddingOptions, known: Known) -> None:
    """Refuse options that contradict what is known."""
    if known.edge_weights is not None and options.inner_product == "paper":
        raise ValueError(
            "edge_weights need one weight per edge, but the paper's inner product has none; use "
            "inner_product='edge', or vertex_weights."
        )
    if known.anchors is not None and options.scale == "geodesics":
        raise ValueError(
            "scale='geodesics' would move the map off its anchors, which fix its size; use scale='edges'."
        )


def check_anchors(n: int, n_components: int, anchors: Any, positions: Any, weight: Any) -> Anchors | None:
    """Anchors from the forms that users give them in; None for none."""
    if anchors is None and positions is None:
        if weight is not None:
            raise ValueError(
                "anchor_weight was given without anchors; give anchors and anchor_positions too."
            )
        return None
    if anchors is None or positions is None:
        given, missing = (
            ("anchors", "anchor_positions") if positions is None else ("anchor_positions", "anchors")
        )
        raise ValueError(f"{given} was given without {missing}; they go together.")
    vertices = _anchor_vertices(anchors, n)
    places = np.asarray(positions)
    if places.dtype.kind not in "fiu":
        raise TypeError(f"anchor_positions must be a real array, got dtype {places.dtype}.")
    places = places.astype(np.float64)
    if places.shape != (len(vertices), n_components):
        raise ValueError(
            f"anchor_positions must have shape ({len(vertices)}, {n_components}), one row per anchor and one "
            f"column per dimension of the map, got {places.shape}."
        )
    if not np.isfinite(places).all():
        row, column = np.argwhere(~np.isfinite(places))[0]
        raise ValueError(
            f"anchor_positions must be finite, but row {row} (vertex {vertices[row]}), column {column} is "
            f"{places[row, column]}. Leave out anchors whose position is not known."
        )
    weights = _anchor_weights(weight, len(vertices))
    return Anchors(vertices, places, weights) if len(vertices) else None


def _anchor_vertices(anchors: Any, n: int) -> AnyArray:
    array = np.asarray(anchors)
    if array.dtype == np.bool_:
        if array.shape != (n,):
            raise ValueError(f"anchors as a mask must have shape ({n},), got {array.shape}.")
        return np.flatnonzero(array)
    if array.ndim != 1 or (array.dtype.kind not in "iu" and len(array)):
        raise TypeError(
            "anchors must be a one-dimensional array of vertex numbers or a mask, got shape "
            f"{array.shape} and dtype {array.dtype}."
        )
    array = array.astype(np.int64)
    outside = np.flatnonzero((array < 0) | (array >= n))
    if len(outside):
        raise ValueError(
            f"anchors must be vertices in 0 .. {n - 1}, but entry {outside[0]} is {array[outside[0]]}."
        )
    values, counts = np.unique(array, return_counts=True)
    if len(values) < len(array):
        raise ValueError(
            f"anchors names vertex {values[counts > 1][0]} more than once; give every anchor one position."
        )
    return array


def _anchor_weights(weight: Any, n_anchors: int) -> FloatArray:
    if weight is None:
        return np.full(n_anchors, np.inf)
    if np.ndim(weight) == 0:
        if isinstance(weight, float | np.floating) and np.isposinf(weight):
            return np.full(n_anchors, np.inf)
        number = check_real("anchor_weight", weight, minimum=0.0, include_minimum=False)
        return np.full(n_anchors, number)
    array = np.asarray(weight)
    if array.shape != (n_anchors,) or array.dtype.kind not in "fiu":
        raise ValueError(
            f"anchor_weight must be None, a number or a real array of shape ({n_anchors},), one per anchor, "
            f"got shape {array.shape} and dtype {array.dtype}."
        )
    array = array.astype(np.float64)
    bad = np.flatnonzero(~(array > 0))
    if len(bad):
        raise ValueError(
            f"anchor_weight must be positive (infinite holds the anchor), but entry {bad[0]} is "
            f"{array[bad[0]]}. Leave out anchors that should not count."
        )
    return array


def _vertex_weights(n: int, weights: Any) -> FloatArray:
    array = np.asarray(weights)
    if array.shape != (n,) or array.dtype.kind not in "fiu":
        raise ValueError(
            f"vertex_weights must be a real array of shape ({n},), got shape {array.shape} and dtype "
            f"{array.dtype}."
        )
    array = array.astype(np.float64)
    bad = np.flatnonzero(~((array > 0) & np.isfinite(array)))
    if len(bad):
        raise ValueError(
            f"vertex_weights must be positive and finite, but that of vertex {bad[0]} is {array[bad[0]]}."
        )
    return array


def _edge_weights(graph: NeighborGraph, weights: Any) -> FloatArray:
    """Weights in the order of the graph's stored edges."""
    n = graph.n_vertices
    if isinstance(weights, NeighborGraph):
        weights = weights.to_matrix()
    if not sp.issparse(weights) and not isinstance(weights, np.ndarray):
        raise TypeError(
            "edge_weights must be a sparse matrix with the pattern of the graph, or a dense array, got "
            f"{type(weights).__name__}."
        )
    if weights.shape != (n, n):
        raise ValueError(f"edge_weights must have shape ({n}, {n}) as the graph, got {weights.shape}.")
    if weights.dtype.kind not in "fiu":
        raise TypeError(f"edge_weights must be real, got dtype {weights.dtype}.")
    if sp.issparse(weights):
        forward = _at_edges(graph, weights)
    else:
        forward = weights[graph.sources, graph.indices].astype(np.float64)
    backward = forward[graph.reverse]
    values = np.where(np.isnan(forward), backward, forward)
    opposite = np.where(np.isnan(backward), forward, backward)
    bad = np.flatnonzero(~((values > 0) & np.isfinite(values)))
    if len(bad):
        e = bad[0]
        what = "has none" if np.isnan(values[e]) else f"has {values[e]}"
        raise ValueError(
            f"edge_weights must give every edge a positive, finite weight, but edge ({graph.sources[e]}, "
            f"{graph.indices[e]}) {what}. Take edges that should not count out of the graph."
        )
    differ = np.flatnonzero(np.abs(values - opposite) > _RTOL * np.maximum(values, opposite))
    if len(differ):
        e = differ[0]
        raise ValueError(
            f"edge_weights must be symmetric, but edge ({graph.sources[e]}, {graph.indices[e]}) has "
            f"{values[e]} one way and {opposite[e]} the other. Give one direction only, or both the same."
        )
    return np.maximum(values, opposite)


def _at_edges(graph: NeighborGraph, weights: Any) -> FloatArray:
    """Stored weights at the graph's edges, NaN where none is stored in that direction."""
    n = graph.n_vertices
    entries = sp.coo_array(weights)
    rows, columns = entries.row, entries.col
    off = rows != columns
    keys = rows[off].astype(np.int64) * n + columns[off]
    values = entries.data[off].astype(np.float64)
    at = positions_of(edge_keys(graph), keys)
    if (at < 0).any():
        wrong = int(np.argmax(at < 0))
        raise ValueError(
            f"edge_weights has an entry ({keys[wrong] // n}, {keys[wrong] % n}), but the graph has no such "
            "edge; give it the pattern of the graph."
        )
    if len(np.unique(at)) < len(at):
        raise ValueError("edge_weights stores some edges more than once; sum or choose before passing it.")
    # NaN that the user stored is not a missing entry: it must not be filled from the other direction.
    if np.isnan(values).any():
        wrong = int(np.argmax(np.isnan(values)))
        raise ValueError(f"edge_weights is NaN at ({keys[wrong] // n}, {keys[wrong] % n}).")
    found = np.full(len(graph.indices), np.nan)
    found[at] = values
    return found


def edge_keys(graph: NeighborGraph) -> AnyArray:
    """One number per stored edge, rising."""
    return graph.sources.astype(np.int64) * graph.n_vertices + graph.indices


def positions_of(sorted_keys: AnyArray, keys: AnyArray) -> IntArray:
    """Where each key stands among the sorted ones, -1 where it does not."""
    at = np.searchsorted(sorted_keys, keys)
    inside = at < len(sorted_keys)
    hit = np.zeros(len(keys), dtype=np.bool_)
    hit[inside] = sorted_keys[at[inside]] == keys[inside]
    return np.where(hit, at, -1)


def _in_unit(name: str, weights: FloatArray | None) -> tuple[float, FloatArray | None]:
    """A power of two near the median, and the weights divided by it."""
    if weights is None or len(weights) == 0:
        return 1.0, None
    low, high = float(weights.min()), float(weights.max())
    if high / _LARGEST_RATIO > low:
        raise ValueError(
            f"{name} span from {low:.3g} to {high:.3g}, a ratio over {_LARGEST_RATIO:g}; take out what "
            "should not count instead of giving it next to nothing."
        )
    middle = float(np.partition(weights, len(weights) // 2)[len(weights) // 2])
    exponent = int(np.clip(np.frexp(middle)[1] - 1, -500, 500))
    return float(np.ldexp(1.0, exponent)), np.ldexp(weights, -exponent)
