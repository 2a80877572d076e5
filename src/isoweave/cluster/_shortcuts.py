"""The shortcut filter on shares; :func:`isoweave.graph.drop_shortcuts` says what it does."""

from __future__ import annotations

from typing import Any

import numpy as np

from isoweave._parallel import ThreadTeam
from isoweave._typing import AnyArray, BoolArray, FloatArray
from isoweave.cluster._components import components_of
from isoweave.cluster._patch import Patch, around, kept_edges
from isoweave.cluster._share import RowRanges, Share
from isoweave.graph import ShortcutRule, are_paths, detour_limits, rejoining_edges, shared_neighborhood


def without_shortcuts(share: Share, team: ThreadTeam) -> tuple[Share, int]:
    """The share without shortcuts, and how many edges were dropped from the whole graph."""
    ranks, patch = share.ranks, Patch(share, around(share, 1))
    graph, own = patch.graph, patch.own_edges
    support = shared_neighborhood(graph, team)[own]
    degrees = graph.degrees
    smaller = np.minimum(degrees[graph.sources[own]], degrees[graph.indices[own]])
    typical = ranks.median(np.rint(support * smaller))
    trusted = support >= ShortcutRule.threshold(typical, ranks.median(support))
    rows = share.sources
    forward = rows + share.start < share.indices
    n_suspects = int(ranks.sum(int(np.count_nonzero(~trusted & forward))))
    if n_suspects == 0 or _is_measured_along(patch, forward):
        return share, 0
    limits = detour_limits(graph, team)[own]
    for n_rounds in range(n_suspects + ShortcutRule.max_rounds):
        suspects = np.flatnonzero(~trusted & forward)
        restored = np.empty(0, dtype=np.int64)
        if n_rounds < ShortcutRule.max_rounds:
            patch, found = _has_detour(patch, suspects, limits, trusted, team)
            restored = suspects[found]
        if not ranks.max(len(restored)):
            restored = _rejoining(share, suspects, rows[suspects], support, trusted)
        if not ranks.max(len(restored)):
            break
        trusted[restored] = True
        here = patch.on_edges(trusted)
        trusted = (here | here[patch.graph.reverse])[patch.own_edges]
    dropped = int(ranks.sum(int(np.count_nonzero(~trusted & forward))))
    return kept_edges(share, trusted), dropped


def _is_measured_along(patch: Patch, forward: BoolArray) -> bool:
    """Whether most edges, of some looked at, are paths over others."""
    ranks, edges = patch.share.ranks, np.flatnonzero(forward)
    own = RowRanges.of(ranks, len(edges))
    step = -(-own.n_vertices // ShortcutRule.looked_at)
    chosen = patch.own_edges.start + edges[-own.start % step :: step]
    paths, looked_at = ranks.sum(np.array([np.count_nonzero(are_paths(patch.graph, chosen)), len(chosen)]))
    return bool(paths > ShortcutRule.most_along * looked_at)


def _has_detour(
    patch: Patch, suspects: AnyArray, limits: FloatArray, trusted: BoolArray, team: ThreadTeam
) -> tuple[Patch, BoolArray]:
    """Suspects with a path of trusted edges within the limit; and a patch that was large enough to tell."""
    from isoweave.engines.paths import find_detours

    found = np.full(len(suspects), 3, dtype=np.int8)
    while True:
        graph, rim = patch.graph, patch.rim.astype(np.int8)
        left = np.flatnonzero(found == 3)
        here: Any = np.empty(len(left), dtype=np.int8)
        at = (patch.own_edges.start + suspects[left]).astype(np.int32)
        ball = (at, limits[suspects[left]], ShortcutRule.max_settled, ShortcutRule.max_scanned)
        is_trusted = patch.on_edges(trusted, mirrored=True)
        arrays = (graph.sources, graph.indptr, graph.indices, graph.lengths, is_trusted, rim, here)
        team.run(find_detours, len(left), *ball, *arrays, grain=2000)
        found[left] = here
        if not patch.share.ranks.max(bool((found == 3).any())):
            return patch, found > 0
        patch = Patch(patch.share, np.union1d(patch.known, patch.ids[rim == 2]))


def _rejoining(
    share: Share, suspects: AnyArray, rows: AnyArray, support: FloatArray, trusted: BoolArray
) -> AnyArray:
    """Suspects that join what trusted edges leave apart, as :func:`isoweave.graph.rejoining_edges`."""
    labels = components_of(share, trusted)[0]
    ends = np.stack((labels[rows], share.fetch(share.indices[suspects], labels)))
    across = suspects[ends[0] != ends[1]]
    ends = ends[:, ends[0] != ends[1]]
    # Few edges join parts: every rank gets all of them, in the order of the ranks, and finds the same.
    mine = (ends.T, support[across], share.lengths[across])
    own = RowRanges.of(share.ranks, len(across))
    pairs, support, lengths = (share.ranks.everywhere(part) for part in mine)
    chosen = rejoining_edges(pairs, support, lengths)
    return across[chosen[~own.are_away(chosen)] - own.start]
