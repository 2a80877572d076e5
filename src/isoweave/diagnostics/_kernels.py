"""Compiled kernels of the diagnostics: triangles, loops around holes, curvature of balls."""

from __future__ import annotations

import numpy as np
from numba import njit

from isoweave.backends._neighborhoods import find_edge, heap_pop, heap_push


@njit(nogil=True, cache=True)
def count_triangles(start, stop, indptr, indices, counts):
    """Number of triangles i < j < k for every i in start..stop."""
    for i in range(start, stop):
        total = 0
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            if j <= i:
                continue
            p, q = e + 1, indptr[j]
            while p < indptr[i + 1] and q < indptr[j + 1]:
                if indices[p] < indices[q]:
                    p += 1
                elif indices[p] > indices[q]:
                    q += 1
                else:
                    total += 1
                    p += 1
                    q += 1
        counts[i] = total


@njit(nogil=True, cache=True)
def list_triangles(start, stop, indptr, indices, offsets, sides):
    """Stored edges (i, j), (j, k), (i, k) of the triangles i < j < k, from row ``offsets[i]`` on."""
    for i in range(start, stop):
        t = offsets[i]
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            if j <= i:
                continue
            p, q = e + 1, indptr[j]
            while p < indptr[i + 1] and q < indptr[j + 1]:
                if indices[p] < indices[q]:
                    p += 1
                elif indices[p] > indices[q]:
                    q += 1
                else:
                    sides[t, 0] = e
                    sides[t, 1] = q
                    sides[t, 2] = p
                    t += 1
                    p += 1
                    q += 1


@njit(nogil=True, cache=True)
def _grow_ball(i, limit, indptr, indices, lengths, distance, parent, place, stamp, mark, found, keys, items):
    """Settle the ``limit`` vertices nearest to i along the graph, i first, with the tree of shortest paths.

    ``parent[v]`` is the position of the stored edge that leads to v from the vertex before it, ``place[v]``
    the rank of v; ``stamp[v] == mark`` means reached, ``mark + 1`` settled. Returns how many are settled.
    """
    distance[i] = 0.0
    parent[i] = -1
    stamp[i] = mark
    keys[0] = 0.0
    items[0] = i
    size = 1
    count = 0
    while size > 0 and count < limit:
        d, u = keys[0], items[0]
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


@njit(nogil=True, cache=True)
def _find(link, a):
    """Root of a in a forest of parts, with the way to it shortened."""
    while link[a] != a:
        link[a] = link[link[a]]
        a = link[a]
    return a


@njit(nogil=True, cache=True)
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
    most, longest = loops.shape[1], loops.shape[2]
    distance = np.empty(n)
    parent = np.empty(n, dtype=np.int64)
    place = np.empty(n, dtype=np.int64)
    stamp = np.zeros(n, dtype=np.int64)
    found = np.empty(limit, dtype=np.int32)
    keys = np.empty(len(indices) + 1)
    items = np.empty(len(indices) + 1, dtype=np.int32)
    lower = np.empty(limit, dtype=np.int64)
    link = np.empty(limit, dtype=np.int64)
    mark = 0
    for a in range(start, stop):
        mark += 2
        count = _grow_ball(
            centres[a],
            limit,
            indptr,
            indices,
            lengths,
            distance,
            parent,
            place,
            stamp,
            mark,
            found,
            keys,
            items,
        )
        counts[a] = 0
        for b in range(1, count):
            v = found[b]
            n_lower = 0
            base = 0
            for e in range(indptr[v], indptr[v + 1]):
                u = indices[e]
                if stamp[u] == mark + 1 and place[u] < b:
                    if u == sources[parent[v]]:
                        base = n_lower
                    lower[n_lower] = e
                    link[n_lower] = n_lower
                    n_lower += 1
            for x in range(n_lower):
                for y in range(x):
                    rx, ry = _find(link, x), _find(link, y)
                    if rx != ry and find_edge(indptr, indices, indices[lower[x]], indices[lower[y]]) >= 0:
                        link[rx] = ry
            for x in range(n_lower):
                if link[x] != x or _find(link, base) == x or counts[a] == most:
                    continue
                # The vertex of this part that came first stands for it.
                first = x
                for y in range(n_lower):
                    if _find(link, y) == x and place[indices[lower[y]]] < place[indices[lower[first]]]:
                        first = y
                length = _close(v, lower[first], indices, sources, parent, place, loops[a, counts[a]])
                if length <= longest:
                    counts[a] += 1


@njit(nogil=True, cache=True)
def _close(v, closing, indices, sources, parent, place, loop):
    """Edges of the loop from v over ``closing`` and the tree back to v; returns their number."""
    loop[:] = -1
    loop[0] = closing
    length = 1
    away, back = indices[closing], v
    while away != back:
        if place[away] > place[back]:
            e = parent[away]
            away = sources[e]
            step = -2 - e
        else:
            e = parent[back]
            back = sources[e]
            step = e
        if length < len(loop):
            loop[length] = step
        length += 1
    return length


@njit(nogil=True, cache=True)
def ball_curvature(
    start, stop, centres, limit, indptr, indices, lengths, sources, rows, transitions, usable, curvature
):
    """Mean sectional curvature of the balls around ``centres[start..stop]``.

    Frames and places are carried from the centre along the tree of shortest paths. With parallel transport
    along every edge (a, b) of the ball, seen in the frame of the centre, as an angle (bivector) theta_ab,
    curvature K turns it by K times the area A_ab that the edge sweeps seen from the centre, up to the choice
    of frames, which adds differences. So K is fitted against a flow without sources, which no choice of frames
    changes: A damped to nothing at the rim, less its gradient part.
    """
    n = len(indptr) - 1
    dim = rows.shape[1]
    planes = dim * (dim - 1) // 2
    distance = np.empty(n)
    parent = np.empty(n, dtype=np.int64)
    place = np.empty(n, dtype=np.int64)
    stamp = np.zeros(n, dtype=np.int64)
    found = np.empty(limit, dtype=np.int32)
    keys = np.empty(len(indices) + 1)
    items = np.empty(len(indices) + 1, dtype=np.int32)
    turn = np.empty((limit, dim, dim))
    spot = np.empty((limit, dim))
    room = 1024
    tail = np.empty(room, dtype=np.int64)
    head = np.empty(room, dtype=np.int64)
    theta = np.empty((room, planes))
    area = np.empty((room, planes))
    flow = np.empty((room, planes))
    holonomy = np.empty((dim, dim))
    mark = 0
    for a in range(start, stop):
        mark += 2
        count = _grow_ball(
            centres[a],
            limit,
            indptr,
            indices,
            lengths,
            distance,
            parent,
            place,
            stamp,
            mark,
            found,
            keys,
            items,
        )
        _carry(count, found, parent, place, sources, rows, transitions, turn, spot)
        reach = distance[found[count - 1]]
        size = 0
        for b in range(1, count):
            v = found[b]
            for e in range(indptr[v], indptr[v + 1]):
                u = indices[e]
                if stamp[u] != mark + 1 or place[u] >= b or not usable[e]:
                    continue
                if size == room:
                    room *= 2
                    tail, head = _doubled(tail), _doubled(head)
                    theta, area, flow = _doubled_rows(theta), _doubled_rows(area), _doubled_rows(flow)
                c = place[u]
                _holonomy(turn[b], transitions[e], turn[c], holonomy)
                k = 0
                square = 0.0
                for r in range(dim):
                    square += 0.5 * (spot[b, r] * spot[b, r] + spot[c, r] * spot[c, r])
                    for s in range(r):
                        theta[size, k] = 0.5 * (holonomy[r, s] - holonomy[s, r])
                        area[size, k] = 0.5 * (spot[b, r] * spot[c, s] - spot[b, s] * spot[c, r])
                        k += 1
                damp = max(0.0, 1.0 - square / (reach * reach))
                for k in range(planes):
                    flow[size, k] = damp * area[size, k]
                tail[size], head[size] = b, c
                size += 1
        _remove_gradient(count, size, tail, head, flow)
        cross, square = 0.0, 0.0
        for t in range(size):
            for k in range(planes):
                cross += theta[t, k] * flow[t, k]
                square += area[t, k] * flow[t, k]
        curvature[a] = cross / square if square > 0.0 else np.nan


@njit(nogil=True, cache=True)
def _doubled(a):
    out = np.empty(2 * len(a), dtype=a.dtype)
    out[: len(a)] = a
    return out


@njit(nogil=True, cache=True)
def _doubled_rows(a):
    out = np.empty((2 * len(a), a.shape[1]))
    out[: len(a)] = a
    return out


@njit(nogil=True, cache=True)
def _carry(count, found, parent, place, sources, rows, transitions, turn, spot):
    """Frames and places of a ball's vertices in the frame of its centre, along the tree."""
    dim = rows.shape[1]
    turn[0] = 0.0
    spot[0] = 0.0
    for r in range(dim):
        turn[0, r, r] = 1.0
    for b in range(1, count):
        e = parent[found[b]]
        a = place[sources[e]]
        for r in range(dim):
            spot[b, r] = spot[a, r]
            for c in range(dim):
                spot[b, r] += turn[a, r, c] * rows[e, c]
                value = 0.0
                for s in range(dim):
                    value += turn[a, r, s] * transitions[e, s, c]
                turn[b, r, c] = value


@njit(nogil=True, cache=True)
def _holonomy(out_turn, transition, home_turn, holonomy):
    """From the centre to one end of an edge, over the edge, and home from the other end."""
    dim = len(holonomy)
    for r in range(dim):
        for c in range(dim):
            value = 0.0
            for s in range(dim):
                for t in range(dim):
                    value += out_turn[r, s] * transition[s, t] * home_turn[c, t]
            holonomy[r, c] = value


@njit(nogil=True, cache=True)
def _remove_gradient(count, size, tail, head, flow):
    """Subtract from a flow on edges its gradient part, by conjugate gradients on the ball's Laplacian."""
    planes = flow.shape[1]
    degree = np.zeros(count)
    for t in range(size):
        degree[tail[t]] += 1.0
        degree[head[t]] += 1.0
    for k in range(planes):
        residual = np.zeros(count)
        for t in range(size):
            residual[tail[t]] += flow[t, k]
            residual[head[t]] -= flow[t, k]
        potential = np.zeros(count)
        direction = np.zeros(count)
        norm = 0.0
        for a in range(count):
            if degree[a] > 0.0:
                direction[a] = residual[a] / degree[a]
                norm += residual[a] * direction[a]
        goal = 1e-6 * norm
        product = np.empty(count)
        for _ in range(60):
            if norm <= goal or norm == 0.0:
                break
            product[:] = 0.0
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
