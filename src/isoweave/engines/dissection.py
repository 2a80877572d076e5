"""Nested dissection: regions of a graph halved between two levels of a breadth-first search."""

import numpy as np

from isoweave.engines.compile import helper, kernel


@kernel
def bisect(start, stop, first_region, bounds, indptr, indices, region, members, queue, work, sizes):
    """Order the ``members`` of regions: one half, the other, their separator; ``sizes`` of the first two.

    Regions ``first_region + g`` have the members ``bounds[2 g] .. bounds[2 g + 1]``. Halves become regions of
    twice the number, and twice and one; separators region 0. ``work`` has the shape (4, n).
    """
    level, side = work[0], work[1]
    for g in range(start, stop):
        lo, hi, own = bounds[2 * g], bounds[2 * g + 1], first_region + g
        sizes[2 * g] = sizes[2 * g + 1] = 0
        if lo == hi:
            continue
        # The first search finds a vertex at the rim, from where levels are narrow.
        source = members[lo]
        for _ in range(2):
            for t in range(lo, hi):
                level[members[t]] = -1
            queue[lo], level[source] = source, 0
            used, unseen = lo + 1, lo
            for t in range(lo, hi):
                if t == used:
                    # The rest is not connected to what was found: no edge leads to its level.
                    while level[members[unseen]] >= 0:
                        unseen += 1
                    queue[t], level[members[unseen]] = members[unseen], level[queue[t - 1]] + 1
                    used += 1
                v = queue[t]
                for e in range(np.uint64(indptr[v]), np.uint64(indptr[v + 1])):
                    w = np.uint32(indices[e])
                    if region[w] == own and level[w] < 0:
                        level[w] = level[v] + 1
                        queue[used] = w
                        used += 1
            source = queue[hi - 1]
        # Behind the narrowest of the levels in the middle.
        begin, cut, narrowest, first, last = lo, -1, hi, lo, lo
        for t in range(lo + 1, hi + 1):
            if t == hi or level[queue[t]] != level[queue[begin]]:
                if (
                    5 * (t - lo) > 2 * (hi - lo)
                    and 5 * (begin - lo) < 3 * (hi - lo)
                    and t - begin < narrowest
                ):
                    cut, narrowest, first, last = level[queue[begin]], t - begin, begin, t
                begin = t
        for t in range(lo, hi):
            side[queue[t]] = 0 if t < last else 1
        _separate(first, last, cut + 1, own, indptr, indices, region, queue, work)
        for v in range(3):
            begin = lo if v == 0 else used
            used = begin
            for t in range(lo, hi):
                if side[queue[t]] == v:
                    members[used] = queue[t]
                    region[queue[t]] = 0 if v == 2 else 2 * own + v
                    used += 1
            if v < 2:
                sizes[2 * g + v] = used - begin


@helper
def _separate(first, last, beyond, own, indptr, indices, region, queue, work):
    """Set to 2 the side of the fewest vertices that touch all edges from a level to the one ``beyond``."""
    # As many as the edges of a largest matching (Koenig), which grows by alternating paths.
    level, side, mate, before = work[0], work[1], work[2], work[3]
    listed = np.empty(last - first, np.int32)
    for t in range(first, last):
        v = queue[t]
        mate[v] = -1
        for e in range(indptr[v], indptr[v + 1]):
            w = indices[e]
            if region[w] == own and level[w] == beyond:
                mate[w] = before[w] = -1
    # Those that find no mate, and all that alternating paths lead to from them, need no second look.
    for t in range(first, last):
        listed[0], n_listed, n_done, end = queue[t], 1, 0, -1
        while n_done < n_listed and end == -1:
            v = listed[n_done]
            n_done += 1
            for e in range(indptr[v], indptr[v + 1]):
                w = indices[e]
                if region[w] == own and level[w] == beyond and before[w] == -1:
                    before[w] = v
                    if mate[w] == -1:
                        end = w
                        break
                    listed[n_listed] = mate[w]
                    n_listed += 1
        if end == -1:
            continue
        # Marks of a path that was found are taken back, those of a failed search stay.
        w = end
        while w != -1:
            v = before[w]
            mate[v], mate[w], w = w, v, mate[v]
        for k in range(n_done):
            for e in range(indptr[listed[k]], indptr[listed[k] + 1]):
                w = indices[e]
                if region[w] == own and level[w] == beyond and before[w] == listed[k]:
                    before[w] = -1
    # What failed searches have seen is covered from beyond, other mates from the level itself.
    for t in range(first, last):
        v = queue[t]
        w = mate[v]
        if w != -1:
            if before[w] != -1:
                side[w] = 2
            else:
                side[v] = 2
