"""Distance graphs made on purpose: sensor networks, and graphs with false edges."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import dijkstra
from scipy.spatial import cKDTree
from scipy.special import gammaln

from isoweave._typing import AnyArray
from isoweave.datasets._dataset import GraphDataset
from isoweave.datasets._synthetic import check_common


def sensor_network(
    n_samples: int = 500,
    *,
    radius: float | None = None,
    n_anchors: int = 4,
    noise: float = 0.0,
    n_dims: int = 2,
    hole: float = 0.0,
    random_state: Any = None,
) -> GraphDataset:
    """Sensors uniform in the unit cube that measure their distances to those within a radius.

    Parameters
    ----------
    n_samples : int
    radius : float, optional
        Radio range. By default the range that gives a sensor far from the border 20 neighbours on
        average.
    n_anchors : int
        Sensors whose positions are known, chosen at random.
    noise : float
        Relative range error: a distance is multiplied by ``1 + noise * g``, g standard normal, one
        draw per edge, and never falls below 1 % of the true one.
    n_dims : int
        Dimension of the cube.
    hole : float
        Radius of a ball around the centre of the cube without sensors, under 0.5: shortest paths go round
        it.
    random_state : int, RandomState or None

    Returns
    -------
    GraphDataset
        ``graph`` (unit-disk graph, possibly with several components), ``truth`` (n, n_dims) and
        ``anchors``, increasing vertex numbers.

    Examples
    --------
    >>> from isoweave.datasets import sensor_network
    >>> net = sensor_network(200, n_anchors=3, noise=0.05, random_state=7)
    >>> net.graph.shape, net.truth.shape, len(net.anchors)
    ((200, 200), (200, 2), 3)
    """
    rng = check_common(n_samples, noise, random_state)
    if n_dims < 1:
        raise ValueError(f"n_dims must be at least 1, got {n_dims}.")
    if not 0 <= n_anchors <= n_samples:
        raise ValueError(f"n_anchors must be between 0 and n_samples = {n_samples}, got {n_anchors}.")
    if not 0.0 <= hole < 0.5:
        raise ValueError(f"hole must be a radius from 0 to under 0.5, got {hole!r}.")
    if radius is None:
        log_ball = 0.5 * n_dims * np.log(np.pi) - gammaln(0.5 * n_dims + 1.0)
        volume = 1.0 - (np.exp(log_ball) * hole**n_dims if hole else 0.0)
        radius = float(np.exp((np.log(20.0 * volume / n_samples) - log_ball) / n_dims))
    if not 0.0 < radius < np.inf:
        raise ValueError(f"radius must be positive and finite, got {radius!r}.")
    truth = rng.uniform(size=(n_samples, n_dims))
    while hole:
        inside = np.linalg.norm(truth - 0.5, axis=1) < hole
        if not inside.any():
            break
        truth[inside] = rng.uniform(size=(np.count_nonzero(inside), n_dims))
    pairs = cKDTree(truth).query_pairs(radius, output_type="ndarray")
    # The tree's order is its own business; sorted pairs tie each draw of noise to its edge.
    pairs = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
    lengths = np.linalg.norm(truth[pairs[:, 0]] - truth[pairs[:, 1]], axis=1)
    if noise:
        lengths = lengths * np.maximum(1.0 + noise * rng.normal(size=len(pairs)), 0.01)
    anchors = np.sort(rng.choice(n_samples, size=n_anchors, replace=False))
    return GraphDataset("sensor_network", symmetric_graph(pairs, lengths, n_samples), truth, anchors)


def add_shortcuts(
    graph: sp.sparray | sp.spmatrix,
    data: AnyArray,
    n_shortcuts: int,
    *,
    detour: float = 5.0,
    random_state: Any = None,
) -> tuple[sp.csr_array, AnyArray]:
    """Add edges between points near in space but far apart along the graph.

    From a random vertex the shortcut goes to the point nearest in space among those whose distance
    along the graph is more than ``detour`` times the distance in space; its length is the distance in
    space.

    Parameters
    ----------
    graph : sparse matrix of shape (n, n)
        Symmetric distance graph.
    data : array of shape (n, D)
        The points it was made from.
    n_shortcuts : int
    detour : float
    random_state : int, RandomState or None

    Returns
    -------
    graph : csr_array of shape (n, n)
    edges : integer array of shape (n_shortcuts, 2)
        The added edges, smaller vertex first.

    Raises
    ------
    ValueError
        When the graph has fewer such pairs of vertices.
    """
    rng = check_common(max(1, n_shortcuts), 0.0, random_state)
    matrix = sp.coo_array(graph)
    # As in symmetric_graph.
    matrix.row, matrix.col = matrix.row.astype(np.int32), matrix.col.astype(np.int32)
    points = np.asarray(data, dtype=np.float64)
    n = matrix.shape[0]
    if points.ndim != 2 or len(points) != n:
        raise ValueError(f"data must have shape ({n}, D), one row per vertex, got {points.shape}.")
    searched = matrix.tocsr()
    found: dict[tuple[int, int], float] = {}
    for i in rng.permutation(n):
        if len(found) == n_shortcuts:
            break
        straight = np.linalg.norm(points - points[i], axis=1)
        along = dijkstra(searched, indices=int(i))
        straight[~(np.isfinite(along) & (along > detour * straight))] = np.inf
        j = int(np.argmin(straight))
        if np.isfinite(straight[j]):
            found[min(int(i), j), max(int(i), j)] = float(straight[j])
    if len(found) < n_shortcuts:
        raise ValueError(
            f"n_shortcuts = {n_shortcuts} asked for, but only {len(found)} vertices have a point whose "
            f"distance along the graph is over {detour:g} times that in space; lower detour."
        )
    edges = np.array(list(found), dtype=np.intp).reshape(-1, 2)
    row, col = matrix.row, matrix.col
    once = row < col
    pairs = np.vstack([np.column_stack([row[once], col[once]]), edges])
    lengths = np.concatenate([matrix.data[once], list(found.values())])
    return symmetric_graph(pairs, lengths, n), edges


def symmetric_graph(pairs: AnyArray, lengths: AnyArray, n: int) -> sp.csr_array:
    """Both directions of every edge (each pair listed once) in CSR with sorted columns; zeros kept."""
    # The searches of SciPy 1.12 take no larger numbers.
    row = np.concatenate([pairs[:, 0], pairs[:, 1]]).astype(np.int32)
    col = np.concatenate([pairs[:, 1], pairs[:, 0]]).astype(np.int32)
    values = np.concatenate([lengths, lengths]).astype(np.float64)
    matrix = sp.csr_array((values, (row, col)), shape=(n, n))
    matrix.sort_indices()
    return matrix
