"""Local frames by sets, Dijkstra's algorithm and a full eigen-decomposition, one vertex after the other."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

from reference_graphs import edges_of, row_of


def dijkstra_loop(graph, source, allowed=None):
    """Distances from a vertex along the graph (inside ``allowed``), as a dict in the order of settling."""
    settled = {}
    queue = [(0.0, source)]
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
    root = list(range(n))

    def find(v):
        while root[v] != v:
            v = root[v]
        return v

    tree = set()
    for i, j, _ in sorted(edges, key=lambda edge: edge[2]):
        if find(i) != find(j):
            root[find(i)] = find(j)
            tree.add((i, j))
    return tree


@dataclass
class ReferenceFrame:
    """Frame of one vertex: its neighbours in it, their coordinates, inverse rows, spectrum."""

    neighbors: list[int]
    rows: np.ndarray
    inverse: np.ndarray
    values: np.ndarray
    fidelity: float


def members_by_rank(graph, i, size, row_limit):
    """Frame and room of i: neighbours up to a limit (and forced ones), the nearest along the graph."""
    nearest = list(dijkstra_loop(graph, i))
    own = [v for _, v, _ in sorted(row_of(graph, i), key=lambda edge: edge[2])]
    frame = [i, *own[:row_limit]]
    hubs = {v for v in range(graph.n_vertices) if graph.degrees[v] > row_limit}
    if i in hubs:
        tree = kruskal(edges_of(graph), graph.n_vertices)
        frame += [
            v for v in own[row_limit:] if v in hubs and ((i, v) in tree or (v, i) in tree) and v not in frame
        ]
    for v in nearest:
        if len(frame) < size + 1 and v not in frame:
            frame.append(v)
    room = set(frame) | set(nearest[: 2 * size + 1])
    return frame, room


def members_by_hops(graph, i):
    return sorted(hops(graph, i, 2), key=lambda v: v != i), hops(graph, i, 3)


def frame_loop(graph, i, n_components, *, size=None, row_limit=10**9):
    """Frame of one vertex; ``size=None`` is the paper's second-order neighbourhood."""
    frame, room = members_by_hops(graph, i) if size is None else members_by_rank(graph, i, size, row_limit)
    around = {v: dijkstra_loop(graph, v, room) for v in frame}
    others = frame[1:]
    gram = np.empty((len(others), len(others)))
    for a, u in enumerate(others):
        for b, v in enumerate(others):
            gram[a, b] = 0.5 * (around[i][u] ** 2 + around[i][v] ** 2 - around[u][v] ** 2)
    values, vectors = np.linalg.eigh(gram)
    values, vectors = values[::-1][:n_components], vectors[:, ::-1][:, :n_components]
    values = np.maximum(values, 0.0)
    present = values > 1e-10 * values[0]
    roots = np.sqrt(np.where(present, values, 1.0))
    neighbors = [v for _, v, _ in row_of(graph, i) if v in others]
    at = [others.index(v) for v in neighbors]
    width = n_components - len(values)
    return ReferenceFrame(
        neighbors=neighbors,
        rows=np.pad(vectors[at] * np.where(present, roots, 0.0), ((0, 0), (0, width))),
        inverse=np.pad(vectors[at] * np.where(present, 1.0 / roots, 0.0), ((0, 0), (0, width))),
        values=np.pad(values, (0, width)),
        fidelity=float(np.sum(values**2) / np.sum(gram**2)),
    )
