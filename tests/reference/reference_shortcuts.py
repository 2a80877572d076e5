"""The rule of the shortcut filter, edge by edge."""

from __future__ import annotations

import numpy as np

from reference_frames import dijkstra_loop, kruskal
from reference_graphs import edges_of, graph_of, row_of

SUPPORT, CHANCE, FEWEST_COMMON, DETOUR = 0.6, 1.5, 5, 8.0


def support_loop(graph):
    """Common neighbours of every edge (i, j), i < j: their number and share of the smaller neighbourhood."""
    around = [{v for _, v, _ in row_of(graph, i)} for i in range(graph.n_vertices)]
    counts = {(i, j): len(around[i] & around[j]) for i, j, _ in edges_of(graph)}
    shares = {(i, j): c / min(len(around[i]), len(around[j])) for (i, j), c in counts.items()}
    return counts, shares


def suspects_loop(graph):
    """Edges (i, j), i < j, whose ends share too few neighbours."""
    counts, shares = support_loop(graph)
    typical = np.median(list(counts.values()))
    if typical < FEWEST_COMMON:
        return set()
    threshold = min(SUPPORT, 1.0 - CHANCE / np.sqrt(typical)) * np.median(list(shares.values()))
    return {edge for edge, share in shares.items() if share < threshold}


def dropped_loop(graph):
    """Edges the filter removes, sorted."""
    n = graph.n_vertices
    lengths = {(i, j): d for i, j, d in edges_of(graph)}
    rows = [sorted(d for _, _, d in row_of(graph, i)) for i in range(n)]
    typical = [own[len(own) // 2] if own else 0.0 for own in rows]
    suspects = suspects_loop(graph)
    _, shares = support_loop(graph)
    while suspects:
        trusted = [(i, j, d) for (i, j), d in lengths.items() if (i, j) not in suspects]
        rest = graph_of(trusted, n) if trusted else None
        restored = set()
        for i, j in suspects:
            usual = max(typical[i], typical[j])
            found = {} if rest is None else dijkstra_loop(rest, i)
            if found.get(j, np.inf) <= max(lengths[i, j], usual) + DETOUR * usual:
                restored.add((i, j))
        if not restored:
            # Suspects that a spanning forest needs once all trusted edges are in it: best supported, then
            # shortest.
            free = [(i, j, -1.0) for i, j, _ in trusted]
            ranked = sorted(suspects, key=lambda edge: (-shares[edge], lengths[edge]))
            paid = [(i, j, float(rank)) for rank, (i, j) in enumerate(ranked)]
            restored = kruskal(free + paid, n) & suspects
        if not restored:
            break
        suspects -= restored
    return sorted(suspects)
