"""Compiled kernel of the curvature of balls."""

from __future__ import annotations

import numpy as np

from isoweave.engines.cells import grow_ball
from isoweave.engines.compile import helper, kernel


@kernel
def ball_curvature(
    start, stop, centres, limit, indptr, indices, lengths, sources, rows, transitions, usable, curvature
):
    """Mean sectional curvature of the balls around ``centres[start..stop]`` (eq. D8).

    Frames and places are carried from the centre along the tree of shortest paths. With parallel transport
    along every edge (a, b) of the ball, seen in the frame of the centre, as an angle (bivector) theta_ab,
    curvature K turns it by K times the area A_ab that the edge sweeps seen from the centre, up to the choice
    of frames, which adds differences. So K is fitted against a flow without sources, which no choice of
    frames changes: A damped to nothing at the rim, less its gradient part.
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
    turn = np.empty((limit, dim, dim))
    spot = np.empty((limit, dim))
    half = np.empty((dim, dim))
    holonomy = np.empty((dim, dim))
    mark = 0
    for a in range(start, stop):
        mark += 2
        count = grow_ball(
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
        carry(count, found, parent, place, sources, rows, transitions, turn, spot)
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
                            value += turn[b, r, w] * transitions[e, w, s]
                        half[r, s] = value
                for r in range(dim):
                    for s in range(dim):
                        value = 0.0
                        for w in range(dim):
                            value += half[r, w] * turn[c, s, w]
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
        cross = 0.0
        total = 0.0
        for k in range(planes):
            subtract_gradient(count, size, tail, head, flow, k)
            for t in range(size):
                cross += theta[t, k] * flow[t, k]
                total += area[t, k] * flow[t, k]
        curvature[a] = cross / total if total > 0.0 else np.nan


@helper
def carry(count, found, parent, place, sources, rows, transitions, turn, spot):
    """Frames and places of a ball's vertices in the frame of its centre, along the tree."""
    dim = rows.shape[1]
    for r in range(dim):
        spot[0, r] = 0.0
        for c in range(dim):
            turn[0, r, c] = 1.0 if r == c else 0.0
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
