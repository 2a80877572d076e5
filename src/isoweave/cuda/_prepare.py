"""The graph as it is worked on, prepared on the device: unit, shortcuts, whether it is connected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from isoweave.cuda._graph import DeviceGraph, team_memory
from isoweave.cuda._solver import Csr, aggregates
from isoweave.graph import (
    NeighborGraph,
    PreparedGraph,
    ShortcutRule,
    check_ratio,
    rejoining_edges,
)

# The balls of a first search for detours are this large, in entries; later ones as large as need be.
_FIRST_BALL, _LARGEST_BALL = 1024, 1 << 16
_LARGEST_EXPONENT = 1000
_RELAXATIONS = 8
# Of the levels by which vertices are renumbered: the smallest, and how much one must shrink.
_FEWEST_LOCAL, _LEAST_SHRINKING = 64, 0.8


def prepare_on_device(
    graph: NeighborGraph, drop: bool, device: Any, on_stage: Callable[[str], object]
) -> PreparedGraph | None:
    """As :func:`isoweave.graph.prepare_graph`, but for the numbering; None where that must do it.

    That is where duplicates have to be merged, or the graph is not connected.
    """
    with device.busy():
        given = DeviceGraph.of(graph, device)
        xp, lengths = device.xp, given.lengths
        least, most = float(lengths.min()), float(lengths.max())
        middle = float(xp.partition(lengths, len(lengths) // 2)[len(lengths) // 2])
        exponent = int(np.frexp(middle)[1])
        if least == 0.0 or abs(exponent) > _LARGEST_EXPONENT or not is_connected(given):
            return None
        check_ratio(least, most)
        normal = DeviceGraph(device, given.indptr, given.indices, lengths * 2.0**-exponent)
        pairs = np.empty((0, 2), dtype=np.int32)
        if drop:
            on_stage("shortcuts")
            normal, pairs = without_shortcuts(normal)
        number = local_numbers(normal)
        normal = normal.renumber(number)
        prepared = PreparedGraph(graph, 2.0**exponent, normal.to_host(), device.get(number), pairs)
        # The filter keeps what is connected together.
        prepared.__dict__["labels"] = np.zeros(graph.n_vertices, dtype=np.int32)
        prepared.graph.__dict__["on_device"] = normal
    return prepared


def local_numbers(graph: DeviceGraph) -> Any:
    """New numbers of the vertices, by which neighbours lie near each other in memory, shape (n,).

    Neighbourhoods become the vertices of a coarser graph, and so on; what is in one is numbered together.
    """
    device, xp = graph.device, graph.device.xp
    matrix, levels = Csr(graph.indptr, graph.indices, 1.0 / graph.lengths), []
    sources = graph.sources
    while matrix.n > _FEWEST_LOCAL:
        aggregate, n_coarse = aggregates(device, matrix)
        if n_coarse > _LEAST_SHRINKING * matrix.n:
            break
        levels.append(aggregate)
        keys = xp.unique(aggregate[sources].astype(xp.int64) * n_coarse + aggregate[matrix.indices])
        sources, indices = (keys // n_coarse).astype(xp.int32), (keys % n_coarse).astype(xp.int32)
        bounds = xp.arange(n_coarse + 1, dtype=xp.int64) * n_coarse
        matrix = Csr(xp.searchsorted(keys, bounds).astype(xp.int32), indices, xp.ones(len(keys)))
    number = xp.arange(matrix.n, dtype=xp.int32)
    for aggregate in reversed(levels):
        order = xp.argsort(number[aggregate], kind="stable")
        number = xp.empty(len(order), dtype=xp.int32)
        number[order] = xp.arange(len(order), dtype=xp.int32)
    return number


def is_connected(graph: DeviceGraph, used: Any = None) -> bool:
    """Whether all vertices are joined, by the edges in use (m,)."""
    return not bool(_labels(graph, used).any())


def _labels(graph: DeviceGraph, used: Any = None) -> Any:
    """The smallest vertex of its component, for every vertex."""
    xp, kernels = graph.device.xp, graph.device.module("shortcuts.cu")
    labels, changed = xp.arange(graph.n_vertices, dtype=xp.int32), xp.ones(1, xp.int32)
    while int(changed[0]):
        changed[:] = 0
        for _ in range(_RELAXATIONS):
            arrays = (graph.n_vertices, graph.indptr, graph.indices, used, labels, changed)
            kernels.each("spread_labels", graph.n_vertices, *arrays)
    return labels


def without_shortcuts(graph: DeviceGraph) -> tuple[DeviceGraph, Any]:
    """As :func:`isoweave.graph.drop_shortcuts`."""
    device, xp, m = graph.device, graph.device.xp, len(graph.indices)
    counts, share = xp.empty(m, xp.int32), xp.empty(m)
    kernels = device.module("shortcuts.cu")
    kernels.each("common_neighbors", m, m, graph.sources, graph.indptr, graph.indices, counts, share)
    threshold = ShortcutRule.threshold(float(xp.median(counts)), float(xp.median(share)))
    trusted = share >= threshold
    forward = graph.sources < graph.indices
    suspects = xp.flatnonzero(~trusted & forward).astype(xp.int32)
    if len(suspects) and _is_measured_along(graph, forward):
        return graph, np.empty((0, 2), dtype=np.int32)
    limits: Any = _detour_limits(graph) if len(suspects) else None
    n_rounds = 0
    while len(suspects):
        found = _has_detour(graph, suspects, limits[suspects], trusted)
        restored = suspects[found & (n_rounds < ShortcutRule.max_rounds)]
        if len(restored) == 0:
            labels = _labels(graph, trusted)
            ends = xp.stack((labels[graph.sources[suspects]], labels[graph.indices[suspects]]), axis=1)
            joining = rejoining_edges(*map(device.get, (ends, share[suspects], graph.lengths[suspects])))
            restored = suspects[device.put(joining)]
        if len(restored) == 0:
            break
        trusted[restored] = True
        trusted[graph.reverse[restored]] = True
        suspects = xp.flatnonzero(~trusted & forward).astype(xp.int32)
        n_rounds += 1
    if len(suspects) == 0:
        return graph, np.empty((0, 2), dtype=np.int32)
    pairs = device.get(xp.stack((graph.sources[suspects], graph.indices[suspects]), axis=1))
    return graph.keep(trusted), np.ascontiguousarray(pairs)


def _is_measured_along(graph: DeviceGraph, forward: Any) -> bool:
    """Whether most edges, of some looked at, are paths over others."""
    device, xp = graph.device, graph.device.xp
    edges = xp.flatnonzero(forward)
    edges = edges[:: -(-len(edges) // ShortcutRule.looked_at)].astype(xp.int32)
    detours = xp.empty(len(edges))
    arrays = (edges, graph.sources, graph.indptr, graph.indices, graph.lengths, detours)
    device.module("shortcuts.cu").each("shortest_detours", len(edges), len(edges), *arrays)
    n_paths = int((graph.lengths[edges] >= ShortcutRule.path * detours).sum())
    return n_paths > ShortcutRule.most_along * len(edges)


def _detour_limits(graph: DeviceGraph) -> Any:
    xp, lengths = graph.device.xp, graph.by_length[1]
    middle = xp.minimum(graph.indptr[:-1] + graph.degrees // 2, len(lengths) - 1)
    median = xp.where(graph.degrees > 0, lengths[middle], 0.0)
    typical = xp.maximum(median[graph.sources], median[graph.indices])
    return xp.maximum(graph.lengths, typical) + ShortcutRule.detour * typical


def _has_detour(graph: DeviceGraph, suspects: Any, limits: Any, trusted: Any) -> Any:
    """Suspects with a path of trusted edges within the limit, or with too full a ball to tell."""
    device, xp, kernels = graph.device, graph.device.xp, graph.device.module("shortcuts.cu")
    found = xp.empty(len(suspects), xp.int32)
    edges = (graph.sources, graph.indptr, graph.indices, graph.lengths, trusted, found)
    kernels.each("short_detours", len(suspects), len(suspects), suspects, limits, *edges)
    items, capacity = xp.flatnonzero(found == 0).astype(xp.int32), _FIRST_BALL
    while len(items):
        words = 3 * capacity
        scratch, more = team_memory(device, words, len(items), 2048, part=4)
        bounds = (ShortcutRule.max_settled, ShortcutRule.max_scanned, capacity, words, scratch)
        arrays = (items, suspects, limits, *bounds, *edges)
        kernels.teams("find_detours", len(items), len(items), *arrays, **more)
        items, capacity = items[found[items] < 0], min(8 * capacity, _LARGEST_BALL)
    return found > 0
