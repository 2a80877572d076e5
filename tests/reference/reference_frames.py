"""Local frames by sets, Dijkstra's algorithm and a full eigen-decomposition, one vertex after the other."""

from __future__ import annotations

import heapq
from types import SimpleNamespace

import numpy as np

from reference_graphs import edges_of, row_of


def dijkstra_loop(graph, source, allowed=None):
    """Distances from a vertex along the graph (inside ``allowed``), as a dict in the order of settling."""
    settled, queue = {}, [(0.0, source)]
    while queue:
        d, u = heapq.heappop(queue)
        if u in settled:
            continue
        settled[u] = d
        for _, v, length in row_of(graph, u):
            if v not in settled and (allowed is None or v in allowed):
                heapq.heappush(queue, (d + length, v))
    return settled


def hops(graph, i, n_hops):
    """Vertices within some edges of i."""
    reached = {i}
    for _ in range(n_hops):
        reached |= {v for u in reached for _, v, _ in row_of(graph, u)}
    return reached


def kruskal(edges, n):
    """Edges (i, j) of a minimum spanning forest."""
    part, tree = list(range(n)), set()
    for i, j, _ in sorted(edges, key=lambda edge: edge[2]):
        old, new = part[i], part[j]
        if old != new:
            part = [new if p == old else p for p in part]
            tree.add((i, j))
    return tree


def members(graph, i, size, row_limit):
    """Frame and room of i: neighbours up to a limit (and forced ones), the nearest along the graph."""
    nearest = list(dijkstra_loop(graph, i))
    own = [v for _, v, _ in sorted(row_of(graph, i), key=lambda edge: edge[2])]
    frame = [i, *own[:row_limit]]
    hubs = {v for v in range(graph.n_vertices) if graph.degrees[v] > row_limit}
    if i in hubs:
        tree = kruskal(edges_of(graph), graph.n_vertices)
        frame += [v for v in own[row_limit:] if v in hubs and {(i, v), (v, i)} & tree]
    frame += [v for v in nearest if v not in frame][: max(0, size + 1 - len(frame))]
    return frame, set(frame) | set(nearest[: 2 * size + 1])


def frame_loop(graph, i, n_components, *, size=None, row_limit=10**9):
    """Neighbours in the frame of i, their coordinates, inverse rows, spectrum, fidelity.

    ``size=None`` is the paper's second-order neighbourhood with paths inside the third.
    """
    if size is None:
        frame, room = sorted(hops(graph, i, 2), key=lambda v: v != i), hops(graph, i, 3)
    else:
        frame, room = members(graph, i, size, row_limit)
    around, others = {v: dijkstra_loop(graph, v, room) for v in frame}, frame[1:]
    home = np.array([around[i][v] for v in others])
    among = np.array([[around[u][v] for v in others] for u in others])
    gram = 0.5 * (home[:, None] ** 2 + home**2 - among**2)
    values, vectors = np.linalg.eigh(gram)
    values, vectors = np.maximum(values[::-1][:n_components], 0.0), vectors[:, ::-1][:, :n_components]
    present = values > 1e-10 * values[0]
    roots = np.sqrt(np.where(present, values, 1.0))
    neighbors = [v for _, v, _ in row_of(graph, i) if v in others]
    own = vectors[[others.index(v) for v in neighbors]]
    width = n_components - len(values)
    return SimpleNamespace(
        neighbors=neighbors,
        rows=np.pad(own * np.where(present, roots, 0.0), ((0, 0), (0, width))),
        inverse=np.pad(own * np.where(present, 1.0 / roots, 0.0), ((0, 0), (0, width))),
        values=np.pad(values, (0, width)),
        fidelity=float(np.sum(values**2) / np.sum(gram**2)),
    )
