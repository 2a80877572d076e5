"""Approximate neighbours of many points: candidates from near cells, in a few directions, measured again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from isoweave._lazy import LazyModule
from isoweave._parallel import ONE_THREAD, ThreadTeam
from isoweave._typing import AnyArray, FloatArray, IntArray
from isoweave.graph._euclidean import (
    Found,
    ProductSearch,
    by_blocks,
    half_squares,
    nearest_by_scores,
    scores,
)

kernels = LazyModule("isoweave.engines.neighbors")
# Used when random_state is None: the same call gives the same graph.
_DEFAULT_SEED = 20_170_921
# Principal directions tried, in order, while there are so many times as many features.
_DIRECTIONS, _WORTHWHILE = (32, 48, 64, 96, 128), 1.5
# Candidates per wanted neighbour: of 70,000 MNIST images in 64 directions, 15 neighbours, 4 times as many
# hold 99.9 % of the true ones.
_CANDIDATES = 4
# Points whose true neighbours are looked for, and the share of these that has to be among the candidates, and
# again in the cells that are searched.
_SAMPLE, _LEAST_RECALL = 256, 0.997
# Points to a cell; points to a cell that the centres are found from, and rounds.
_CELL, _SEEN, _ROUNDS = 256, 64, 5


class CellSearch:
    """Neighbours of all points, nearly all of them right; those of new rows, or of some points, are exact.

    Points are projected to as few principal directions as a sample says keep the neighbours, and sorted into
    cells around centres (k-means). The points of a cell look for candidates in as many of the nearest cells
    as hold the neighbours of the sample. Candidates are measured again in all features.
    """

    def __init__(self, points: FloatArray, random_state: Any, team: ThreadTeam) -> None:
        from sklearn.utils import check_random_state

        random = check_random_state(_DEFAULT_SEED if random_state is None else random_state)
        self.seed = int(random.randint(2**31 - 1))
        self.exact = ProductSearch(points, team)

    def __call__(self, queries: FloatArray, own: IntArray, k: int, team: ThreadTeam) -> Found:
        if len(own) < len(self.exact.points) or own[0] < 0:
            return self.exact(queries, own, k, team)
        cells = build_cells(self.exact.single, k, team, self.seed)
        neighbors, distances = np.empty((len(own), k), dtype=np.int32), np.empty((len(own), k))
        width = min(_CANDIDATES * k, len(own) - 1)

        def work(first: int, last: int) -> None:
            for cell in range(first, last):
                rows, near = cells.candidates(cell, width)
                # While the candidates, which neighbours share, are in the cache.
                found = self.exact.measured(queries[rows], rows, near, k, ONE_THREAD)
                neighbors[rows], distances[rows] = found

        team.run(work, len(cells.starts) - 1, grain=1)
        missed = np.flatnonzero(neighbors[:, -1] < 0)
        if len(missed):
            neighbors[missed], distances[missed] = self.exact(queries[missed], own[missed], k, team)
        return neighbors, distances


@dataclass(frozen=True, eq=False)
class SortedCells:
    """Points in a few directions, sorted into cells."""

    order: IntArray  #: (n,), the points cell by cell.
    starts: AnyArray  #: (c + 1,), where each cell begins.
    searched: AnyArray  #: (c, s), the cells that the points of each look at.
    table: AnyArray  #: float32, (n, directions), in that order.
    halves: AnyArray  #: (n,), half the squared norms.

    def candidates(self, cell: int, width: int) -> tuple[IntArray, IntArray]:
        """The points of a cell, and for each the ``width`` nearest in the directions; -1 where too few."""
        here = np.arange(self.starts[cell], self.starts[cell + 1], dtype=np.int32)
        near = np.full((len(here), width), -1, dtype=np.int32)
        best = np.full((len(here), width), np.inf, dtype=np.float32)
        rows = self.table[here]
        for other in self.searched[cell]:
            at = slice(self.starts[other], self.starts[other + 1])
            away = scores(self.table[at], self.halves[at], rows)
            kernels.k_smallest(0, len(here), away, at.start, here, near, best)
        return self.order[here], np.where(near >= 0, self.order[near], np.int32(-1))


def build_cells(table: AnyArray, k: int, team: ThreadTeam, seed: int) -> SortedCells:
    """Cells in which the ``k`` nearest of each centred float32 point are to be found."""
    random, n = np.random.default_rng(seed), len(table)
    sample = np.sort(random.choice(n, min(n, _SAMPLE), replace=False)).astype(np.int32)
    wanted = nearest_by_scores(table, sample, k, team)
    projected = project(table, sample, wanted, team, random)
    centres = _centres(projected, -(-n // _CELL), random)
    label = by_blocks(lambda rows: _nearest_centre(rows, centres), projected, np.empty(n, np.int32), team)
    order = np.argsort(label, kind="stable").astype(np.int32)
    starts = np.searchsorted(label[order], np.arange(len(centres) + 1))
    # All cells by the distance of their centres from that of each, and where each stands in that list.
    nearest = np.argsort(scores(centres, half_squares(centres), centres), axis=1, kind="stable")
    rank = np.argsort(nearest, axis=1, kind="stable")
    ranks = np.sort(rank[label[sample][:, None], label[wanted]], axis=None)
    n_searched = 1 + int(ranks[int(np.ceil(_LEAST_RECALL * (len(ranks) - 1)))])
    ordered = projected[order]
    return SortedCells(order, starts, nearest[:, :n_searched], ordered, half_squares(ordered))


def project(table: AnyArray, sample: IntArray, wanted: IntArray, team: ThreadTeam, random: Any) -> AnyArray:
    """Centred points in as few principal directions as keep the neighbours, or all features.

    Neighbours are kept if nearly all that are ``wanted`` for the sample are among the candidates there.
    """
    n, n_features = table.shape
    width = min(_CANDIDATES * wanted.shape[1], n - 1)
    spread = table[np.sort(random.choice(n, min(n, 4000), replace=False))].astype(np.float64)
    directions = None
    for size in _DIRECTIONS:
        if _WORTHWHILE * size > n_features:
            break
        if directions is None:
            directions = np.linalg.eigh(spread.T @ spread)[1][:, ::-1]
        leading = np.ascontiguousarray(directions[:, :size], np.float32)
        out = np.empty((n, size), dtype=np.float32)
        projected = by_blocks(lambda rows, leading=leading: rows @ leading, table, out, team)
        found = nearest_by_scores(projected, sample, width, team)
        if (wanted[:, :, None] == found[:, None, :]).any(axis=2).mean() >= _LEAST_RECALL:
            return projected
    return table


def _centres(points: AnyArray, n_cells: int, random: Any) -> AnyArray:
    """Centres of cells of float32 points, by a few rounds of k-means on a sample."""
    seen = points[np.sort(random.choice(len(points), min(len(points), _SEEN * n_cells), replace=False))]
    centres = seen[random.choice(len(seen), n_cells, replace=False)]
    for _ in range(_ROUNDS):
        label, ones = _nearest_centre(seen, centres), np.ones(len(seen), dtype=np.float32)
        members = sp.csr_array((ones, (label, np.arange(len(seen)))), shape=(n_cells, len(seen)))
        counts = np.bincount(label, minlength=n_cells)[:, None]
        centres = np.where(counts > 0, members @ seen / np.maximum(counts, 1), centres).astype(np.float32)
    return centres


def _nearest_centre(rows: AnyArray, centres: AnyArray) -> IntArray:
    return np.argmin(scores(centres, half_squares(centres), rows), axis=1)
