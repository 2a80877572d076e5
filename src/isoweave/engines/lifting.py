"""Kernels of the lifted start: the Gauss-Newton matrix of the distances, in blocks of N x N per edge."""

import numpy as np

from isoweave.engines.compile import kernel


@kernel
def gauss_newton(start, stop, indptr, indices, lengths, both, pull, n_kept, coordinates, values):
    """Rows of the vertices start..stop of the matrix of eq. 31, into ``values``.

    A vertex has N rows; in each come the N columns of the vertex itself and those of its neighbours in turn.
    """
    n_components = coordinates.shape[1]
    step = np.empty(n_components)
    for i in range(start, stop):
        width = n_components * (indptr[i + 1] - indptr[i] + 1)
        first = n_components * n_components * (indptr[i] + i)
        for a in range(n_components):
            for b in range(n_components):
                values[first + a * width + b] = pull if a == b and a >= n_kept else 0.0
        for e in range(indptr[i], indptr[i + 1]):
            square = 0.0
            for c in range(n_components):
                step[c] = coordinates[i, c] - coordinates[indices[e], c]
                square += step[c] * step[c]
            # Edges that are too long resist turning, those that are too short would push.
            across = max(0.0, 1.0 - lengths[e] / np.sqrt(square)) if square > 0.0 else 0.0
            along = (1.0 - across) / square if square > 0.0 else 0.0
            at = first + n_components * (e - indptr[i] + 1)
            for a in range(n_components):
                for b in range(n_components):
                    entry = both[e] * (along * step[a] * step[b] + (across if a == b else 0.0))
                    values[at + a * width + b] = -entry
                    values[first + a * width + b] += entry
