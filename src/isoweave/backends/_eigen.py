"""Leading eigenpairs of small symmetric matrices, compiled."""

from __future__ import annotations

import numpy as np
from numba import njit

_EXTRA_VECTORS = 2
_MAX_SWEEPS = 40
_TOLERANCE = 1e-11


@njit(nogil=True, cache=True)
def leading_eigenpairs(matrix, n_wanted):
    """The ``n_wanted`` algebraically largest eigenpairs, largest first.

    A few vectors of a matrix with a clear gap come from block power iteration with a Rayleigh-Ritz step,
    several times cheaper than the whole spectrum; when it does not settle, or when most of
    the spectrum is wanted, LAPACK computes all of it.

    Returns
    -------
    values : (n_wanted,)
    vectors : (m, n_wanted)
    """
    m = matrix.shape[0]
    if 3 * (n_wanted + _EXTRA_VECTORS) < m:
        done, values, vectors = _block_iteration(matrix, n_wanted)
        if done:
            return values, vectors
    all_values, all_vectors = np.linalg.eigh(matrix)
    values = np.empty(n_wanted)
    vectors = np.empty((m, n_wanted))
    for c in range(n_wanted):
        values[c] = all_values[m - 1 - c]
        for a in range(m):
            vectors[a, c] = all_vectors[a, m - 1 - c]
    return values, vectors


@njit(nogil=True, cache=True)
def _orthonormalise(rows):
    """Modified Gram-Schmidt, twice, on the rows; False when they are dependent."""
    b, m = rows.shape
    for c in range(b):
        before = 0.0
        for a in range(m):
            before += rows[c, a] * rows[c, a]
        for _ in range(2):
            for p in range(c):
                dot = 0.0
                for a in range(m):
                    dot += rows[c, a] * rows[p, a]
                for a in range(m):
                    rows[c, a] -= dot * rows[p, a]
        norm = 0.0
        for a in range(m):
            norm += rows[c, a] * rows[c, a]
        if not norm > 1e-24 * before:
            return False
        scale = 1.0 / np.sqrt(norm)
        for a in range(m):
            rows[c, a] *= scale
    return True


@njit(nogil=True, cache=True)
def jacobi_eigh(matrix, vectors):
    """Cyclic Jacobi of a tiny symmetric matrix, in place: eigenvalues on the diagonal, vectors in columns."""
    n = matrix.shape[0]
    for p in range(n):
        for q in range(n):
            vectors[p, q] = 1.0 if p == q else 0.0
    for _ in range(30):
        off = 0.0
        total = 0.0
        for p in range(n):
            total += matrix[p, p] * matrix[p, p]
            for q in range(p):
                off += matrix[p, q] * matrix[p, q]
        if not off > 1e-32 * total:
            return
        for p in range(n - 1):
            for q in range(p + 1, n):
                apq = matrix[p, q]
                if apq == 0.0:
                    continue
                theta = 0.5 * (matrix[q, q] - matrix[p, p]) / apq
                t = 1.0 / (abs(theta) + np.sqrt(1.0 + theta * theta))
                if theta < 0.0:
                    t = -t
                c = 1.0 / np.sqrt(1.0 + t * t)
                s = t * c
                for k in range(n):
                    x, y = matrix[k, p], matrix[k, q]
                    matrix[k, p] = c * x - s * y
                    matrix[k, q] = s * x + c * y
                for k in range(n):
                    x, y = matrix[p, k], matrix[q, k]
                    matrix[p, k] = c * x - s * y
                    matrix[q, k] = s * x + c * y
                    x, y = vectors[k, p], vectors[k, q]
                    vectors[k, p] = c * x - s * y
                    vectors[k, q] = s * x + c * y


@njit(nogil=True, cache=True)
def _block_iteration(matrix, n_wanted):
    """Block power iteration from the matrix's own largest columns.

    Rows of the work arrays are the vectors.
    """
    m = matrix.shape[0]
    b = n_wanted + _EXTRA_VECTORS
    values = np.empty(n_wanted)
    vectors = np.empty((m, n_wanted))
    rows = np.empty((b, m))
    image = np.empty((b, m))
    small = np.empty((b, b))
    turn = np.empty((b, b))
    # Start: columns of largest diagonal after projecting out the ones taken (a pivoted Cholesky choice).
    weight = np.empty(m)
    power = 0.0
    for a in range(m):
        weight[a] = matrix[a, a]
        for k in range(m):
            power += matrix[a, k] * matrix[a, k]
    for c in range(b):
        best = 0
        for a in range(m):
            if weight[a] > weight[best]:
                best = a
        for a in range(m):
            rows[c, a] = matrix[best, a]
        for p in range(c):
            dot = 0.0
            for a in range(m):
                dot += rows[c, a] * rows[p, a]
            for a in range(m):
                rows[c, a] -= dot * rows[p, a]
        norm = 0.0
        for a in range(m):
            norm += rows[c, a] * rows[c, a]
        if not norm > 0.0:
            return False, values, vectors
        norm = np.sqrt(norm)
        for a in range(m):
            rows[c, a] /= norm
            weight[a] -= norm * rows[c, a] * rows[c, a]
        weight[best] = -np.inf
    order = np.empty(b, dtype=np.int64)
    for sweep in range(_MAX_SWEEPS):
        if not _orthonormalise(rows):
            return False, values, vectors
        for c in range(b):
            for a in range(m):
                image[c, a] = 0.0
            for k in range(m):
                factor = rows[c, k]
                for a in range(m):
                    image[c, a] += factor * matrix[k, a]
        if sweep % 3 == 2:
            for p in range(b):
                for q in range(p + 1):
                    dot = 0.0
                    for a in range(m):
                        dot += rows[p, a] * image[q, a]
                    small[p, q] = dot
                    small[q, p] = dot
            jacobi_eigh(small, turn)
            for c in range(b):
                order[c] = c
            for c in range(1, b):
                k = order[c]
                p = c - 1
                while p >= 0 and small[order[p], order[p]] < small[k, k]:
                    order[p + 1] = order[p]
                    p -= 1
                order[p + 1] = k
            # Residual of each wanted pair, and a gap below them: power iteration finds large |values| first,
            # so a wanted value under the size of a dropped negative one would be wrong.
            worst = 0.0
            for c in range(n_wanted):
                k = order[c]
                value = small[k, k]
                residual = 0.0
                for a in range(m):
                    x = 0.0
                    y = 0.0
                    for p in range(b):
                        x += rows[p, a] * turn[p, k]
                        y += image[p, a] * turn[p, k]
                    vectors[a, c] = x
                    residual += (y - value * x) ** 2
                values[c] = value
                worst = max(worst, np.sqrt(residual))
            if values[n_wanted - 1] <= 0.0:
                return False, values, vectors
            if worst <= _TOLERANCE * values[0]:
                # What the block has not seen may hide a larger value only if it is large enough itself.
                unseen = power
                for c in range(b):
                    unseen -= small[c, c] * small[c, c]
                return unseen < values[n_wanted - 1] ** 2, values, vectors
        for c in range(b):
            for a in range(m):
                rows[c, a] = image[c, a]
    return False, values, vectors
