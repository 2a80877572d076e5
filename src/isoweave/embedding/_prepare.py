"""Before the embedding of the components: checks, the unit, the order of work, shortcuts."""

from __future__ import annotations

import warnings

import numpy as np

from isoweave._parallel import ThreadTeam
from isoweave._typing import AnyArray, FloatArray, IntArray
from isoweave.embedding._known_parts import MergedKnown
from isoweave.embedding._options import EmbeddingOptions
from isoweave.embedding._parts import members
from isoweave.embedding._report import Reporter
from isoweave.graph import NeighborGraph, drop_shortcuts, local_order, merge_duplicates, renumber
from isoweave.optimise import Run

# Beyond this ratio of lengths fourth powers overflow, and nothing at the small end would be visible.
_LARGEST_RATIO = 1e70


def prepare_graph(
    graph: NeighborGraph,
    normal: NeighborGraph,
    options: EmbeddingOptions,
    team: ThreadTeam,
    run: Run,
    say: Reporter,
) -> tuple[NeighborGraph, IntArray, IntArray]:
    """The graph as it is worked on: without duplicates, in an order that suits the cache, without shortcuts.

    Returns
    -------
    graph : NeighborGraph
    representative : int32 array of shape (n,)
        Its vertex for every given one.
    dropped : int32 array of shape (s, 2)
        Given edges that the filter took out.
    """
    n = graph.n_vertices
    run.stage("order")
    merged, representative = merge_duplicates(normal)
    if merged.n_vertices < n:
        say(f"{n - merged.n_vertices} duplicates merged")
    order = local_order(merged)
    if order is not None:
        merged = renumber(merged, order)
        representative = np.argsort(order).astype(np.int32)[representative]
    dropped = np.empty((0, 2), dtype=np.int32)
    if not options.drop_shortcuts or not merged.n_edges:
        return merged, representative, dropped
    run.stage("shortcuts")
    report = drop_shortcuts(merged, team=team)
    if len(report.dropped):
        dropped = members(graph, representative, report.dropped)
        say(f"{len(dropped)} edges dropped as shortcuts")
    return report.graph, representative, dropped


def normalise_lengths(graph: NeighborGraph) -> tuple[float, NeighborGraph]:
    """Lengths in a unit near their median.

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


def checked_start(start: str | FloatArray, n: int, n_components: int) -> FloatArray | None:
    if isinstance(start, str):
        return None
    array = np.asarray(start)
    if array.shape != (n, n_components) or array.dtype.kind not in "fiu":
        raise ValueError(
            f"start must be a real array of shape ({n}, {n_components}), got shape {array.shape} and dtype "
            f"{array.dtype}."
        )
    array = array.astype(np.float64)
    if not np.isfinite(array).all():
        row, column = np.argwhere(~np.isfinite(array))[0]
        raise ValueError(f"start must be finite, but entry ({row}, {column}) is {array[row, column]}.")
    return array


def check_parts(
    options: EmbeddingOptions, parts: list[AnyArray], n_components: int, known: MergedKnown | None
) -> None:
    sizes = [len(part) for part in parts]
    # With a single point (all duplicates) there is nothing to embed, whatever N is.
    if sizes[0] > 1 and n_components > sizes[0] - 1:
        raise ValueError(
            f"n_components={n_components} is more than any neighbourhood can support: the largest component "
            f"has {sizes[0]} distinct points, which span at most {sizes[0] - 1} dimensions. "
            "Lower n_components."
        )
    n_parts = len(parts)
    if n_parts == 1:
        return
    what = f"The graph has {n_parts} connected components (sizes {', '.join(map(str, sizes[:5]))}"
    what += ", ...)." if n_parts > 5 else ")."
    if options.components == "error":
        raise ValueError(
            f"{what} Raise n_neighbors, or allow it with components='separate', 'largest' or 'bridge'."
        )
    fate = "each was embedded by itself and laid side by side; distances between them mean nothing"
    if options.components == "largest":
        fate = "only the largest was embedded; the other rows are NaN"
    elif known is not None and known.origin is not None:
        lost = sum(not known.has_anchor(part) for part in parts)
        if lost == 0:
            return
        fate = f"{lost} of them without anchors were laid beside the others; their places mean nothing"
    warnings.warn(f"{what} {fate[0].upper()}{fate[1:]} (see component_labels_).", UserWarning, stacklevel=4)
