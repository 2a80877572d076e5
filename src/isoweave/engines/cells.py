"""Compiled kernels of the cells: triangles, balls, loops around holes, curvature of balls."""

from __future__ import annotations

import numpy as np

from isoweave.engines.compile import helper, kernel
from isoweave.engines.neighborhoods import find_edge, heap_pop, heap_push


@kernel
def list_triangles(start, stop, indptr, indices, offsets, sides):
    """Stored edges (i, j), (j, k), (i, k) of the triangles i < j < k, from row ``offsets[i]`` on.

    With empty ``sides`` they are only counted, into ``offsets``.
    """
    counting = len(sides) == 0
    for i in range(start, stop):
        t = 0 if counting else offsets[i]
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            if j <= i:
                continue
            p = e + 1
            q = indptr[j]
            while p < indptr[i + 1] and q < indptr[j + 1]:
                if indices[p] < indices[q]:
                    p += 1
                elif indices[p] > indices[q]:
                    q += 1
                else:
                    if not counting:
                        sides[t, 0] = e
                        sides[t, 1] = q
                        sides[t, 2] = p
                    t += 1
                    p += 1
                    q += 1
        if counting:
            offsets[i] = t


@kernel
def shortest_detours(start, stop, indptr, indices, lengths, detours, counts):
    """Shortest path of two edges beside every stored edge (i, j) with i < j, and how many there are."""
    for i in range(start, stop):
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            if j <= i:
                continue
            p = indptr[i]
            q = indptr[j]
            while p < indptr[i + 1] and q < indptr[j + 1]:
                if indices[p] < indices[q]:
                    p += 1
                elif indices[p] > indices[q]:
                    q += 1
                else:
                    detours[e] = min(detours[e], lengths[p] + lengths[q])
                    counts[i] += 1
                    p += 1
                    q += 1


@helper
def grow_ball(i, limit, indptr, indices, lengths, distance, parent, place, stamp, mark, found, keys, items):
    """Settle the ``limit`` vertices nearest to i along the graph, i first, with the tree of shortest paths.

    ``parent[v]`` is the position of the stored edge that leads to v from the vertex before it, ``place[v]``
    the rank of v; ``stamp[v] == mark`` means reached, ``mark + 1`` settled. Returns how many are settled.
    ``keys`` and ``items`` hold every stored edge and one more.
    """
    distance[i] = 0.0
    parent[i] = -1
    stamp[i] = mark
    keys[0] = 0.0
    items[0] = i
    size = 1
    count = 0
    while size > 0 and count < limit:
        d = keys[0]
        u = items[0]
        size = heap_pop(keys, items, size)
        if stamp[u] == mark + 1:
            continue
        stamp[u] = mark + 1
        place[u] = count
        found[count] = u
        count += 1
        for e in range(indptr[u], indptr[u + 1]):
            v = indices[e]
            t = d + lengths[e]
            if stamp[v] < mark or (stamp[v] == mark and t < distance[v]):
                stamp[v] = mark
                distance[v] = t
                parent[v] = e
                size = heap_push(keys, items, size, t, v)
    return count


@helper
def _root(link, a):
    """Root of a in a forest of parts, with the way to it shortened."""
    while link[a] != a:
        link[a] = link[link[a]]
        a = link[a]
    return a


@kernel
def hole_loops(start, stop, centres, limit, indptr, indices, lengths, sources, loops, counts):
    """Loops around the holes that triangles leave in the balls of ``centres[start..stop]``.

    Vertices join a ball in order of distance from its centre. The neighbours that v finds there are its lower
    link; each part of the lower link that triangles do not connect to the part with v's parent closes a new
    loop: from v over the first vertex of that part down the tree of shortest paths, and up again to v. Every
    loop within the ball is a sum of triangles and these. ``loops[a, c]`` holds the stored edges of loop c in
    the order of travel, those against their direction as -2 - e, and -1 after the last; ``counts[a]`` the
    number of loops. Loops of more edges than there is room for, or beyond the number there is room for, are
    left out.
    """
    n = len(indptr) - 1
    most = loops.shape[1]
    longest = loops.shape[2]
    distance = np.empty(n)
    parent = np.empty(n, dtype=np.int32)
    place = np.empty(n, dtype=np.int32)
    stamp = np.zeros(n, dtype=np.int32)
    found = np.empty(limit, dtype=np.int32)
    keys = np.empty(len(indices) + 1)
    items = np.empty(len(indices) + 1, dtype=np.int32)
    lower = np.empty(limit, dtype=np.int32)
    link = np.empty(limit, dtype=np.int32)
    mark = 0
    for a in range(start, stop):
        mark += 2
        count = grow_ball(
            centres[a], limit, indptr, indices, lengths,
            distance, parent, place, stamp, mark, found, keys, items,
        )  # fmt: skip
        n_loops = 0
        for b in range(1, count):
            v = found[b]
            n_lower = base = 0
            for e in range(indptr[v], indptr[v + 1]):
                u = indices[e]
                if stamp[u] == mark + 1 and place[u] < b:
                    if u == sources[parent[v]]:
                        base = n_lower
                    lower[n_lower] = e
                    link[n_lower] = n_lower
                    n_lower += 1
            for x in range(n_lower):
                u = indices[lower[x]]
                for y in range(x):
                    rx = _root(link, x)
                    ry = _root(link, y)
                    if rx != ry and find_edge(indices, indptr[u], indptr[u + 1], indices[lower[y]]) >= 0:
                        link[rx] = ry
            for x in range(n_lower):
                if link[x] != x or _root(link, base) == x or n_loops == most:
                    continue
                # The vertex of this part that came first stands for it.
                first = x
                for y in range(n_lower):
                    if _root(link, y) == x and place[indices[lower[y]]] < place[indices[lower[first]]]:
                        first = y
                if close_loop(v, lower[first], indices, sources, parent, place, loops, a, n_loops) <= longest:
                    n_loops += 1
        counts[a] = n_loops


@helper
def close_loop(v, closing, indices, sources, parent, place, loops, a, c):
    """Edges of the loop from v over ``closing`` and the tree back to v; returns their number."""
    room = loops.shape[2]
    for b in range(room):
        loops[a, c, b] = -1
    loops[a, c, 0] = closing
    length = 1
    away = indices[closing]
    back = v
    while away != back:
        if place[away] > place[back]:
            e = parent[away]
            away = sources[e]
            step = -2 - e
        else:
            e = parent[back]
            back = sources[e]
            step = e
        if length < room:
            loops[a, c, length] = step
        length += 1
    return length


@kernel
def ball_curvature(
    start, stop, centres, limit, indptr, indices, lengths, sources, rows, transitions, usable, curvature
):
    """Mean sectional curvature of the balls around ``centres[start..stop]`` (eq. D8).

    Frames and places are carried from the centre along the tree of shortest paths. With parallel transport
    along every edge (a, b) of the ball, seen in the frame of the centre, as an angle (bivector) theta_ab,
    curvature K rotates it by K times the area A_ab that the edge sweeps seen from the centre, up to the
    choice of frames, which adds differences. So K is fitted against a flow without sources, which no choice
    of frames changes: A damped to nothing at the rim, less its gradient part.
    """
    n = len(indptr) - 1
    dim = rows.shape[1]
    planes = dim * (dim - 1) // 2
    distance = np.empty(n)
    parent = np.empty(n, dtype=np.int32)
    place = np.empty(n, dtype=np.int32)
    stamp = np.zeros(n, dtype=np.int32)
    found = np.empty(limit, dtype=np.int32)
    keys = np.empty(len(indices) + 1)
    items = np.empty(len(indices) + 1, dtype=np.int32)
    rotation = np.empty((limit, dim, dim))
    spot = np.empty((limit, dim))
    half = np.empty((dim, dim))
    holonomy = np.empty((dim, dim))
    mark = 0
    for a in range(start, stop):
        mark += 2
        count = grow_ball(
            centres[a], limit, indptr, indices, lengths,
            distance, parent, place, stamp, mark, found, keys, items,
        )  # fmt: skip
        carry(count, found, parent, place, sources, rows, transitions, rotation, spot)
        size = 0
        for b in range(1, count):
            v = found[b]
            for e in range(indptr[v], indptr[v + 1]):
                if stamp[indices[e]] == mark + 1 and place[indices[e]] < b and usable[e]:
                    size += 1
        tail = np.empty(size, dtype=np.int32)
        head = np.empty(size, dtype=np.int32)
        theta = np.empty((size, planes))
        area = np.empty((size, planes))
        flow = np.empty((size, planes))
        reach = distance[found[count - 1]]
        t = 0
        for b in range(1, count):
            v = found[b]
            for e in range(indptr[v], indptr[v + 1]):
                u = indices[e]
                if stamp[u] != mark + 1 or place[u] >= b or not usable[e]:
                    continue
                c = place[u]
                # From the centre to one end of the edge, over it, and home from the other end.
                for r in range(dim):
                    for s in range(dim):
                        value = 0.0
                        for w in range(dim):
                            value += rotation[b, r, w] * transitions[e, w, s]
                        half[r, s] = value
                for r in range(dim):
                    for s in range(dim):
                        value = 0.0
                        for w in range(dim):
                            value += half[r, w] * rotation[c, s, w]
                        holonomy[r, s] = value
                k = 0
                square = 0.0
                for r in range(dim):
                    square += 0.5 * (spot[b, r] * spot[b, r] + spot[c, r] * spot[c, r])
                    for s in range(r):
                        theta[t, k] = 0.5 * (holonomy[r, s] - holonomy[s, r])
                        area[t, k] = 0.5 * (spot[b, r] * spot[c, s] - spot[b, s] * spot[c, r])
                        k += 1
                damp = max(0.0, 1.0 - square / (reach * reach))
                for k in range(planes):
                    flow[t, k] = damp * area[t, k]
                tail[t] = b
                head[t] = c
                t += 1
        cross = total = 0.0
        for k in range(planes):
            subtract_gradient(count, size, tail, head, flow, k)
            for t in range(size):
                cross += theta[t, k] * flow[t, k]
                total += area[t, k] * flow[t, k]
        curvature[a] = cross / total if total > 0.0 else np.nan


@helper
def carry(count, found, parent, place, sources, rows, transitions, rotation, spot):
    """Frames and places of a ball's vertices in the frame of its centre, along the tree."""
    dim = rows.shape[1]
    for r in range(dim):
        spot[0, r] = 0.0
        for c in range(dim):
            rotation[0, r, c] = 1.0 if r == c else 0.0
    for b in range(1, count):
        e = parent[found[b]]
        a = place[sources[e]]
        for r in range(dim):
            spot[b, r] = spot[a, r]
            for c in range(dim):
                spot[b, r] += rotation[a, r, c] * rows[e, c]
                value = 0.0
                for s in range(dim):
                    value += rotation[a, r, s] * transitions[e, s, c]
                rotation[b, r, c] = value


@helper
def subtract_gradient(count, size, tail, head, flow, k):
    """Subtract from column k of a flow on edges its gradient part, by conjugate gradients."""
    degree = np.zeros(count)
    residual = np.zeros(count)
    for t in range(size):
        degree[tail[t]] += 1.0
        degree[head[t]] += 1.0
        residual[tail[t]] += flow[t, k]
        residual[head[t]] -= flow[t, k]
    potential = np.zeros(count)
    direction = np.zeros(count)
    product = np.zeros(count)
    norm = 0.0
    for a in range(count):
        if degree[a] > 0.0:
            direction[a] = residual[a] / degree[a]
            norm += residual[a] * direction[a]
    goal = 1e-6 * norm
    for _ in range(60):
        if norm <= goal:
            break
        for a in range(count):
            product[a] = 0.0
        curve = 0.0
        for t in range(size):
            step = direction[tail[t]] - direction[head[t]]
            product[tail[t]] += step
            product[head[t]] -= step
            curve += step * step
        if curve <= 0.0:
            break
        new = 0.0
        for a in range(count):
            potential[a] += norm / curve * direction[a]
            residual[a] -= norm / curve * product[a]
            if degree[a] > 0.0:
                new += residual[a] * residual[a] / degree[a]
        for a in range(count):
            if degree[a] > 0.0:
                direction[a] = residual[a] / degree[a] + new / norm * direction[a]
        norm = new
    for t in range(size):
        flow[t, k] -= potential[tail[t]] - potential[head[t]]
