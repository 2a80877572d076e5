"""Neighbours of features of few dimensions, on the device."""

from __future__ import annotations

from typing import Any

import numpy as np

from isoweave.cuda._device import CudaDevice, DeviceError, find_device
from isoweave.cuda._graph import joined
from isoweave.graph import TREE_DIMENSIONS, NeighborGraph

# Points of a leaf and the most neighbours, as the kernels have them; fewer points are as fast on the CPU.
_LEAF, _MOST_NEIGHBORS, _FEWEST_POINTS = 8, 63, 20_000
# Bytes per stored entry while a graph is put together, and per point and feature of the tree.
_ENTRY_BYTES, _FEATURE_BYTES = 100, 100
# Squares of numbers in between are finite and positive.
_LARGEST, _SMALLEST = 2.0**400, 2.0**-400


def knn_on_device(X: Any, n_neighbors: int, metric: Any, metric_params: Any) -> NeighborGraph | None:
    """As :func:`isoweave.graph.knn_graph`, to the bit; None where the CPU has to do it.

    That is where the metric is not Euclidean, features are many, points are few, identical, or equally far
    from another, or the device cannot be used (``engine="cuda"`` then refuses the fit that follows).
    """
    is_plain = isinstance(metric, str) and metric == "euclidean" and not metric_params
    if not is_plain or not isinstance(X, np.ndarray):
        return None
    n, d = X.shape
    if not (d <= TREE_DIMENSIONS and n_neighbors <= _MOST_NEIGHBORS and n >= _FEWEST_POINTS):
        return None
    try:
        device = find_device()
        if n * (_ENTRY_BYTES * n_neighbors + _FEATURE_BYTES * d) > device.free_bytes():
            return None
        with device.busy():
            return neighbor_graph(np.ascontiguousarray(X, dtype=np.float64), n_neighbors, device)
    except DeviceError:
        return None


def neighbor_graph(X: Any, k: int, device: CudaDevice) -> NeighborGraph | None:
    """The graph of the k nearest; None where points coincide, last places are shared, numbers are extreme."""
    xp, (n, d) = device.xp, X.shape
    points = device.put(X) + 0.0
    least, most = points.min(axis=0), points.max(axis=0)
    extent, size = float((most - least).max()), float(xp.maximum(-least, most).max())
    if not (_SMALLEST < size < _LARGEST and extent > 0.0):
        return None
    kernels, bits = device.module("neighbors.cu", d), min(63 // d, 31)
    keys = xp.empty(n, xp.uint64)
    kernels.each("morton_keys", n, n, bits, 2.0**bits / extent, points, least, keys)
    order = xp.argsort(keys, kind="stable").astype(xp.int32)
    points = xp.ascontiguousarray(points[order])
    n_leaves = 1 << max(0, int(np.ceil(np.log2(-(-n // _LEAF)))))
    boxes, first = xp.empty((2 * n_leaves, 2, d)), n_leaves
    while first >= 1:
        count = (n, first, 2 * first, int(first == n_leaves))
        kernels.each("make_boxes", first, *count, points, boxes)
        first //= 2
    neighbors, distances = xp.empty((n, k), xp.int32), xp.empty((n, k))
    unclear = xp.zeros(1, xp.int32)
    kernels.each("nearest", n, n, k, n_leaves, points, boxes, order, neighbors, distances, unclear)
    if int(unclear[0]):
        return None
    rows = xp.repeat(xp.arange(n, dtype=xp.int32), k)
    return joined(device, n, rows, neighbors.reshape(-1), distances.reshape(-1)).to_host()
