"""Compiled kernel of the transitions between overlapping frames."""

from __future__ import annotations

import numpy as np
from numba import njit

from isoweave.backends._alignment import polar


@njit(nogil=True, cache=True)
def frame_transitions(start, stop, indptr, indices, rows, included, transitions, weights):
    """Orthogonal maps between the frames at the ends of every edge, for rows start..stop (eq. 14).

    ``transitions[e]`` is the orthogonal O that brings the frame of j to that of i over the vertices both see,
    i.e. minimises ``|X_i - X_j O^T|`` after centring, and ``weights[e]`` is the part of the overlap that
    it explains, in 0 .. 1. Over N vertices or fewer no orthogonal map is determined; then O is the normalised
    cross product of the overlaps, whose norm is at most one, with a weight of 1e-3.
    """
    n = len(indptr) - 1
    n_components = rows.shape[1]
    where = np.full(n, -1, dtype=np.int32)
    cross = np.empty((n_components, n_components))
    q = np.empty((n_components, n_components))
    columns = np.empty((n_components, n_components))
    turn = np.empty((n_components, n_components))
    mean_i = np.empty(n_components)
    mean_j = np.empty(n_components)
    for i in range(start, stop):
        for e in range(indptr[i], indptr[i + 1]):
            if included[e]:
                where[indices[e]] = e
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            cross[:] = 0.0
            mean_i[:] = 0.0
            mean_j[:] = 0.0
            square_i, square_j = 0.0, 0.0
            count = 0
            # Common vertices: those in both rows, i itself (origin of its own frame)
            # and j (origin of the other).
            for f in range(indptr[j], indptr[j + 1]):
                if not included[f]:
                    continue
                v = indices[f]
                a = where[v]
                if a < 0 and v != i:
                    continue
                count += 1
                for c in range(n_components):
                    x = rows[a, c] if v != i else 0.0
                    mean_i[c] += x
                    mean_j[c] += rows[f, c]
                    square_i += x * x
                    square_j += rows[f, c] ** 2
                    for r in range(n_components):
                        y = rows[a, r] if v != i else 0.0
                        cross[r, c] += y * rows[f, c]
            if included[e]:
                count += 1
                for c in range(n_components):
                    mean_i[c] += rows[e, c]
                    square_i += rows[e, c] ** 2
            if count == 0:
                weights[e] = 0.0
                for r in range(n_components):
                    for c in range(n_components):
                        transitions[e, r, c] = 1.0 if r == c else 0.0
                continue
            for r in range(n_components):
                square_i -= mean_i[r] * mean_i[r] / count
                square_j -= mean_j[r] * mean_j[r] / count
                for c in range(n_components):
                    cross[r, c] -= mean_i[r] * mean_j[c] / count
            scale = np.sqrt(max(square_i, 0.0) * max(square_j, 0.0))
            if count <= n_components:
                # Too few vertices to tell a turn from a reflection: what they do say, at little weight.
                weights[e] = 1e-3
                for r in range(n_components):
                    for c in range(n_components):
                        transitions[e, r, c] = cross[r, c] / scale if scale > 0.0 else 0.0
                continue
            polar(cross, q, columns, turn)
            trace = 0.0
            for r in range(n_components):
                for c in range(n_components):
                    trace += q[r, c] * cross[r, c]
                    transitions[e, r, c] = q[r, c]
            weights[e] = trace / scale if scale > 0.0 else 0.0
        for e in range(indptr[i], indptr[i + 1]):
            where[indices[e]] = -1
