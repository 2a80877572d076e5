"""Kernels of the cells: detours, balls, loops around holes, curvature of balls."""

import numpy as np

from isoweave.engines.compile import helper, kernel
from isoweave.engines.paths import find_edge, search_scratch, settle


@kernel
def shortest_detours(start, stop, indptr, indices, lengths, detours, counts):
    """Shortest path of two edges beside every stored edge (i, j) with i < j, and how many there are."""
    for i in range(start, stop):
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            if j <= i:
                continue
            p, q = indptr[i], indptr[j]
            while p < indptr[i + 1] and q < indptr[j + 1]:
                if indices[p] < indices[q]:
                    p += 1
                elif indices[p] > indices[q]:
                    q += 1
                else:
                    detours[e] = min(detours[e], lengths[p] + lengths[q])
                    counts[i] += 1
                    p, q = p + 1, q + 1


@helper
def _grow_ball(i, mark, graph, parent, place, found, scratch):
    """Settle the vertices nearest to i, i first, with the tree of shortest paths; how many there are."""
    # ``parent[v]`` is the stored edge to v from the vertex before it, ``place[v]`` the rank of v.
    indptr, indices, lengths = graph
    distance, stamp = scratch[:2]
    count = settle(i, len(found), stamp, mark + 1, 0.0, len(stamp), found, mark, graph, scratch)
    for b in range(count):
        place[found[b]] = b
        parent[found[b]] = -1
    for b in range(count):
        u = found[b]
        for e in range(indptr[u], indptr[u + 1]):
            v = indices[e]
            # Of equal paths the search takes the first.
            is_later = stamp[v] == mark + 1 and place[v] > b and parent[v] < 0
            if is_later and distance[u] + lengths[e] == distance[v]:
                parent[v] = e
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
    """Loops around the holes that triangles leave in the balls of ``centres[start..stop]``."""
    # Vertices join a ball in order of distance from its centre. The neighbours that v finds there are its
    # lower link; each part of it that triangles do not connect to the part with v's parent closes a new loop:
    # from v over the first vertex of that part down the tree of shortest paths, and up again to v. Every loop
    # within the ball is a sum of triangles and these. ``loops[a, c]`` holds the stored edges of loop c in the
    # order of travel, those against their direction as -2 - e, and -1 after the last; ``counts[a]`` the
    # number of loops. Loops beyond the number or of more edges than there is room for are left out.
    n = len(indptr) - 1
    _, most, longest = loops.shape
    parent, place, found = np.empty(n, np.int32), np.empty(n, np.int32), np.empty(limit, np.int32)
    graph, scratch = (indptr, indices, lengths), search_scratch(n, len(indices))
    stamp = scratch[1]
    lower, link = np.empty(limit, np.int32), np.empty(limit, np.int32)
    for a in range(start, stop):
        mark = 2 * (a + 1)
        count = _grow_ball(centres[a], mark, graph, parent, place, found, scratch)
        n_loops = 0
        for b in range(1, count):
            v = found[b]
            n_lower = base = 0
            for e in range(indptr[v], indptr[v + 1]):
                u = indices[e]
                if stamp[u] == mark + 1 and place[u] < b:
                    if u == sources[parent[v]]:
                        base = n_lower
                    lower[n_lower], link[n_lower] = e, n_lower
                    n_lower += 1
            for x in range(n_lower):
                u = indices[lower[x]]
                for y in range(x):
                    rx, ry = _root(link, x), _root(link, y)
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
                n_edges = _close_loop(v, lower[first], indices, sources, parent, place, loops[a, n_loops])
                if n_edges <= longest:
                    n_loops += 1
        counts[a] = n_loops


@helper
def _close_loop(v, closing, indices, sources, parent, place, loop):
    """Edges of the loop from v over ``closing`` and the tree back to v; returns their number."""
    loop[:] = -1
    loop[0] = closing
    length, away, back = 1, indices[closing], v
    while away != back:
        if place[away] > place[back]:
            step = -2 - parent[away]
            away = sources[parent[away]]
        else:
            step = parent[back]
            back = sources[step]
        if length < len(loop):
            loop[length] = step
        length += 1
    return length


@kernel
def ball_curvature(
    start, stop, centres, limit, indptr, indices, lengths, sources, rows, transitions, usable, curvature
):
    """Mean sectional curvature of the balls around ``centres[start..stop]`` (eq. D8)."""
    # Frames and places are carried from the centre along the tree of shortest paths. With parallel transport
    # along every edge (a, b) of the ball, seen in the frame of the centre, as an angle (bivector) theta_ab,
    # curvature K rotates it by K times the area A_ab that the edge sweeps seen from the centre, up to the
    # choice of frames, which adds differences. So K is fitted against a flow without sources, which no choice
    # of frames changes: A damped to nothing at the rim, less its gradient part.
    n = len(indptr) - 1
    dim = rows.shape[1]
    planes = dim * (dim - 1) // 2
    parent, place, found = np.empty(n, np.int32), np.empty(n, np.int32), np.empty(limit, np.int32)
    graph, scratch = (indptr, indices, lengths), search_scratch(n, len(indices))
    distance, stamp = scratch[:2]
    rotation, spot = np.empty((limit, dim, dim)), np.empty((limit, dim))
    half, holonomy = np.empty((1, dim, dim)), np.empty((dim, dim))
    for a in range(start, stop):
        mark = 2 * (a + 1)
        count = _grow_ball(centres[a], mark, graph, parent, place, found, scratch)
        _carry(count, found, parent, place, sources, rows, transitions, rotation, spot)
        size = 0
        for b in range(count):
            size += indptr[found[b] + 1] - indptr[found[b]]
        tail, head = np.empty(size, np.int32), np.empty(size, np.int32)
        theta, area, flow = np.empty((size, planes)), np.empty((size, planes)), np.empty((size, planes))
        reach = distance[found[count - 1]]
        size = 0
        for b in range(1, count):
            for e in range(indptr[found[b]], indptr[found[b] + 1]):
                c = place[indices[e]]
                if stamp[indices[e]] != mark + 1 or c >= b or not usable[e]:
                    continue
                # From the centre to one end of the edge, over it, and home from the other end.
                _compose(rotation, b, transitions, e, half, 0)
                for r in range(dim):
                    for s in range(dim):
                        value = 0.0
                        for w in range(dim):
                            value += half[0, r, w] * rotation[c, s, w]
                        holonomy[r, s] = value
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
        cross = total = 0.0
        for k in range(planes):
            _subtract_gradient(count, size, tail, head, flow, k)
            for t in range(size):
                cross += theta[t, k] * flow[t, k]
                total += area[t, k] * flow[t, k]
        curvature[a] = cross / total if total > 0.0 else np.nan


@helper
def _compose(x, a, y, b, out, c):
    """``out[c] = x[a] y[b]`` of small matrices."""
    n = x.shape[1]
    for r in range(n):
        for s in range(n):
            value = 0.0
            for w in range(n):
                value += x[a, r, w] * y[b, w, s]
            out[c, r, s] = value


@helper
def _carry(count, found, parent, place, sources, rows, transitions, rotation, spot):
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
        _compose(rotation, a, transitions, e, rotation, b)


@helper
def _subtract_gradient(count, size, tail, head, flow, k):
    """Subtract from column k of a flow on edges its gradient part, by conjugate gradients."""
    degree, residual, potential = np.zeros(count), np.zeros(count), np.zeros(count)
    direction, product = np.zeros(count), np.zeros(count)
    for t in range(size):
        degree[tail[t]] += 1.0
        degree[head[t]] += 1.0
        residual[tail[t]] += flow[t, k]
        residual[head[t]] -= flow[t, k]
    norm = 0.0
    for a in range(count):
        if degree[a] > 0.0:
            direction[a] = residual[a] / degree[a]
            norm += residual[a] * direction[a]
    goal = 1e-6 * norm
    for _ in range(60):
        if norm <= goal:
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
