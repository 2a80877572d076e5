"""Compiled kernel of the transitions between overlapping frames."""

from __future__ import annotations

import numpy as np

from isoweave.engines.compile import kernel
from isoweave.engines.polar import polar


@kernel
def frame_transitions(start, stop, indptr, indices, rows, included, transitions, weights):
    """Orthogonal maps between the frames at the ends of every edge, for rows start..stop (eq. 14).

    ``transitions[e]`` is the orthogonal O that brings the frame of j to that of i over the vertices both see,
    i.e. minimises ``|X_i - X_j O^T|`` after centring, and ``weights[e]`` is the part of the overlap that
    it explains, in 0 .. 1. Over N vertices or fewer no orthogonal map is determined; then O is the normalised
    cross product of the overlaps, whose norm is at most one, with a weight of 1e-3.
    """
    n = len(indptr) - 1
    n_components = rows.shape[1]
    where = np.empty(n, dtype=np.int32)
    for v in range(n):
        where[v] = -1
    cross = np.empty((n_components, n_components))
    q = np.empty((n_components, n_components))
    columns = np.empty((n_components, n_components))
    rotation = np.empty((n_components, n_components))
    seen_i = np.empty(n_components)
    mean_i = np.empty(n_components)
    mean_j = np.empty(n_components)
    for i in range(start, stop):
        for e in range(indptr[i], indptr[i + 1]):
            if included[e]:
                where[indices[e]] = e
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            for r in range(n_components):
                mean_i[r] = mean_j[r] = 0.0
                for c in range(n_components):
                    cross[r, c] = 0.0
            square_i = square_j = 0.0
            count = 0
            # Common vertices: those in both rows, i itself (origin of its own frame)
            # and j (origin of the other).
            for f in range(indptr[j], indptr[j + 1]):
                v = indices[f]
                a = where[v]
                if not included[f] or (a < 0 and v != i):
                    continue
                count += 1
                for r in range(n_components):
                    seen_i[r] = rows[a, r] if v != i else 0.0
                for c in range(n_components):
                    y = rows[f, c]
                    mean_i[c] += seen_i[c]
                    mean_j[c] += y
                    square_i += seen_i[c] * seen_i[c]
                    square_j += y * y
                    for r in range(n_components):
                        cross[r, c] += seen_i[r] * y
            if included[e]:
                count += 1
                for c in range(n_components):
                    y = rows[e, c]
                    mean_i[c] += y
                    square_i += y * y
            for r in range(n_components):
                for c in range(n_components):
                    transitions[e, r, c] = 1.0 if r == c else 0.0
            weights[e] = 0.0
            if count == 0:
                continue
            for r in range(n_components):
                square_i -= mean_i[r] * mean_i[r] / count
                square_j -= mean_j[r] * mean_j[r] / count
                for c in range(n_components):
                    cross[r, c] -= mean_i[r] * mean_j[c] / count
            scale = np.sqrt(max(square_i, 0.0) * max(square_j, 0.0))
            if count <= n_components:
                # Too few vertices to tell a rotation from a reflection: what they do say, at little weight.
                weights[e] = 1e-3
                for r in range(n_components):
                    for c in range(n_components):
                        transitions[e, r, c] = cross[r, c] / scale if scale > 0.0 else 0.0
                continue
            polar(cross, q, columns, rotation)
            trace = 0.0
            for r in range(n_components):
                for c in range(n_components):
                    trace += q[r, c] * cross[r, c]
                    transitions[e, r, c] = q[r, c]
            if scale > 0.0:
                weights[e] = trace / scale
        for e in range(indptr[i], indptr[i + 1]):
            where[indices[e]] = -1
