"""Which rank gets which vertex: cells of neighbouring vertices, and recursive bisection of the map of cells.

Cells grow around seeds, a hop at a time. The graph of cells is small and known to every rank; it is halved
along its longest direction until there is a part for every rank, all with about as many edges. Components
that are small beside a rank's share stay whole.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.sparse import csgraph

from isoweave._typing import AnyArray, FloatArray
from isoweave.cluster._share import RowEdges, first_of_each, scrambled, spread

# So many vertices in a cell, unless there would be fewer cells than this for a rank, or more than ever.
_CELL_VERTICES, _CELLS_PER_RANK, _MOST_CELLS = 1000, 64, 200_000
# A component that would fill less than this part of a rank stays on one.
_WHOLE = 0.25
_SMOOTHINGS, _TURNS = 40, 8


def target_ranks(rows: RowEdges, alive: AnyArray, label: AnyArray, sizes: AnyArray) -> AnyArray:
    """Rank that each vertex of these rows should go to; ``alive`` are those that go anywhere.

    ``label`` is the component of every vertex, ``sizes`` how many vertices each component has.
    """
    ranks = rows.ranks
    if ranks.size == 1:
        return np.zeros(len(alive), dtype=np.int64)
    weight = np.where(alive, 1.0 + np.diff(rows.indptr), 0.0)
    is_whole = sizes <= _WHOLE * sizes.sum() / ranks.size
    loose = alive & ~is_whole[label]
    target = np.zeros(len(alive), dtype=np.int64)
    load: FloatArray = np.zeros(ranks.size)
    if not is_whole.all():
        cell, n_cells = _grown(rows, loose, label, len(sizes), int(sizes[~is_whole].sum()))
        near, cell_weights = _cell_graph(rows, loose, cell, n_cells, weight)
        part = bisect(near, cell_weights, ranks.size)
        target[loose] = part[cell[loose]]
        _straighten(rows, loose, target)
        load = _sums(part, cell_weights, ranks.size)
    if is_whole.any():
        part = _filled(load, ranks.sum(_sums(label[alive], weight[alive], len(sizes))), is_whole)
        whole = alive & is_whole[label]
        target[whole] = part[label[whole]]
    return target


def _sums(where: AnyArray, weights: FloatArray, count: int) -> FloatArray:
    """Sums of weights; of none numpy makes whole numbers, which other ranks would misread."""
    return np.bincount(where, weights, count).astype(np.float64)


def _straighten(rows: RowEdges, loose: AnyArray, target: AnyArray) -> None:
    """Let vertices at the ragged border of two parts join the one that most of their neighbours are in."""
    sources, halo = rows.sources, rows.halo(rows.indices)
    for turn in range(_TURNS):
        there = halo.fetch(target)
        # Half of them at a time: two neighbours that change places have gained nothing.
        free = loose & (rows.own % 2 == turn % 2)
        border = np.zeros(len(loose), dtype=np.bool_)
        border[sources[there != target[sources]]] = True
        edges = (border & free)[sources]
        votes, counts = np.unique(sources[edges] * rows.ranks.size + there[edges], return_counts=True)
        voter, choice = np.divmod(votes, rows.ranks.size)
        # Of equals the own part wins, then the first.
        best = first_of_each(voter, -counts, choice != target[voter], choice)
        target[voter[best]] = choice[best]


def _filled(load: FloatArray, weights: FloatArray, is_whole: AnyArray) -> AnyArray:
    """Ranks of whole components: one after the other into what a fair share leaves free."""
    fair = (load.sum() + weights[is_whole].sum()) / len(load)
    ends = np.cumsum(np.maximum(fair - load, 0.0))
    middles = np.cumsum(np.where(is_whole, weights, 0.0)) - 0.5 * weights
    return np.minimum(np.searchsorted(ends, middles * (1.0 - 1e-12)), len(load) - 1)


def _grown(
    rows: RowEdges, loose: AnyArray, label: AnyArray, n_labels: int, n_loose: int
) -> tuple[AnyArray, int]:
    """Cell of every loose vertex, that of its nearest seed in hops, and how many cells there are."""
    ranks, first, n = rows.ranks, rows.start, len(loose)
    n_cells = min(max(n_loose // _CELL_VERTICES, _CELLS_PER_RANK * ranks.size), _MOST_CELLS)
    is_seed = loose & (scrambled(rows.own) < 2.0**52 * n_cells / n_loose)
    # A component without any of them gets its smallest vertex for a seed.
    seeded = ranks.max(np.bincount(label[is_seed], minlength=n_labels))
    lacking = np.flatnonzero(loose & (seeded[label] == 0))
    smallest = np.full(len(seeded), np.iinfo(np.int64).max)
    np.minimum.at(smallest, label[lacking], lacking + first)
    smallest = ranks.min(smallest)
    is_seed[lacking[smallest[label[lacking]] == lacking + first]] = True
    seeds = ranks.everywhere(np.flatnonzero(is_seed) + first)
    cell = np.full(n, -1, dtype=np.int64)
    cell[is_seed] = np.searchsorted(seeds, np.flatnonzero(is_seed) + first)
    frontier = np.flatnonzero(is_seed)
    while ranks.sum(len(frontier)):
        counts = rows.indptr[frontier + 1] - rows.indptr[frontier]
        ends = rows.indices[spread(rows.indptr[frontier], counts)]
        there, found = ranks.send(rows.owner_of(ends), ends, np.repeat(cell[frontier], counts))
        there -= first
        new = cell[there] < 0
        there, found = there[new], found[new]
        frontier = np.unique(there)
        cell[frontier] = len(seeds)
        np.minimum.at(cell, there, found)
    return cell, len(seeds)


def _cell_graph(
    rows: RowEdges, loose: AnyArray, cell: AnyArray, n_cells: int, weight: FloatArray
) -> tuple[sp.csr_array, FloatArray]:
    """How many edges join each pair of cells, and the weights of the cells, known to all ranks."""
    ranks, here, there = rows.ranks, cell[rows.sources], rows.fetch(rows.indices, cell)
    apart = (here != there) & (here >= 0)
    keys, counts = np.unique(here[apart] * n_cells + there[apart], return_counts=True)
    keys, counts = ranks.everywhere(keys), ranks.everywhere(counts)
    shape = (n_cells, n_cells)
    near = sp.coo_array((counts.astype(np.float64), (keys // n_cells, keys % n_cells)), shape=shape).tocsr()
    return near, ranks.sum(_sums(cell[loose], weight[loose], n_cells))


def bisect(near: sp.csr_array, weights: FloatArray, n_parts: int) -> AnyArray:
    """Part of every vertex of a small graph: halved along its longest direction until there are enough."""
    part = np.zeros(near.shape[0], dtype=np.int64)
    todo = [(np.arange(near.shape[0]), 0, n_parts)]
    while todo:
        vertices, first, count = todo.pop()
        if count == 1 or len(vertices) == 0:
            part[vertices] = first
            continue
        ordered = vertices[_along(near[vertices][:, vertices].tocsr())]
        left = count // 2
        middles = np.cumsum(weights[ordered]) - 0.5 * weights[ordered]
        cut = int(np.searchsorted(middles, weights[ordered].sum() * left / count))
        todo.append((np.sort(ordered[:cut]), first, left))
        todo.append((np.sort(ordered[cut:]), first + left, count - left))
    return part


def _along(near: sp.csr_array) -> AnyArray:
    """Order of the vertices along the longest direction of the graph, one component after the other."""
    n_groups, group = csgraph.connected_components(near, directed=False)
    position = np.zeros(near.shape[0])
    for g in range(n_groups):
        inside = np.flatnonzero(group == g)
        own = near[inside][:, inside]
        one = int(np.argmax(_hops(own, 0)))
        from_one = _hops(own, one)
        position[inside] = _smoothed(own, from_one - _hops(own, int(np.argmax(from_one))))
    return np.lexsort((position, group))


def _smoothed(near: sp.csr_array, position: FloatArray) -> FloatArray:
    """Means over neighbours, many times: level lines become short, and hardly any two positions are equal."""
    degree = np.maximum(near.sum(axis=1), 1.0)
    for _ in range(_SMOOTHINGS):
        position = 0.5 * (position + (near @ position) / degree)
    return position


def _hops(near: sp.csr_array, start: int) -> FloatArray:
    return np.asarray(csgraph.dijkstra(near, unweighted=True, indices=start))
