"""Leading eigenpairs of small symmetric matrices, compiled."""

from __future__ import annotations

import numpy as np

from isoweave.engines.compile import helper

# Vectors iterated beside the wanted ones: what converges slowest is then not among the wanted.
EXTRA_VECTORS = 2
_MAX_SWEEPS = 40
_TOLERANCE = 1e-11


@helper
def full_spectrum(matrix, values, vectors):
    """The algebraically largest eigenpairs of ``matrix`` (m, m) by LAPACK, which computes all of them.

    ``values`` (n_wanted,) are written largest first, those beyond m are left alone; of ``vectors`` the first
    m rows and n_wanted columns are written.
    """
    m = len(matrix)
    all_values, all_vectors = np.linalg.eigh(matrix)
    for c in range(min(m, len(values))):
        values[c] = all_values[m - 1 - c]
        for a in range(m):
            vectors[a, c] = all_vectors[a, m - 1 - c]


@helper
def _project_out(rows, c, m):
    """Take the directions of the rows before c out of row c; what is left of its squared length."""
    for p in range(c):
        dot = 0.0
        for a in range(m):
            dot += rows[c, a] * rows[p, a]
        for a in range(m):
            rows[c, a] -= dot * rows[p, a]
    square = 0.0
    for a in range(m):
        square += rows[c, a] * rows[c, a]
    return square


@helper
def jacobi_eigh(matrix, vectors):
    """Cyclic Jacobi of a tiny symmetric matrix, in place: eigenvalues on the diagonal, vectors in columns."""
    n = len(matrix)
    for p in range(n):
        for q in range(n):
            vectors[p, q] = 1.0 if p == q else 0.0
    for _ in range(30):
        off = total = 0.0
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
                    matrix[k, p], matrix[k, q] = c * x - s * y, s * x + c * y
                for k in range(n):
                    x, y = matrix[p, k], matrix[q, k]
                    matrix[p, k], matrix[q, k] = c * x - s * y, s * x + c * y
                    x, y = vectors[k, p], vectors[k, q]
                    vectors[k, p], vectors[k, q] = c * x - s * y, s * x + c * y


@helper
def block_iteration(matrix, values, vectors, rows, image, small, rotation, order):
    """The same as :func:`full_spectrum` by block power iteration with a Rayleigh-Ritz step.

    For a few vectors of a matrix with a clear gap this is several times cheaper than the whole spectrum.
    False when it does not settle, or when most of the spectrum is wanted: then LAPACK must do it.

    ``rows`` and ``image`` are scratch for ``n_wanted + EXTRA_VECTORS`` vectors of length m or more, ``small``
    and ``rotation`` square and ``order`` int32 for as many numbers.
    """
    m = len(matrix)
    n_wanted = len(values)
    b = len(small)
    if 3 * b >= m:
        return False
    # Start: columns of largest diagonal after projecting out the ones taken (a pivoted Cholesky choice).
    weight = image[0]
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
        square = _project_out(rows, c, m)
        if not square > 0.0:
            return False
        norm = np.sqrt(square)
        for a in range(m):
            rows[c, a] /= norm
            weight[a] -= norm * rows[c, a] * rows[c, a]
        weight[best] = -np.inf
    for sweep in range(_MAX_SWEEPS):
        for c in range(b):
            before = 0.0
            for a in range(m):
                before += rows[c, a] * rows[c, a]
            # Gram-Schmidt, twice.
            _project_out(rows, c, m)
            square = _project_out(rows, c, m)
            if not square > 1e-24 * before:
                return False
            scale = 1.0 / np.sqrt(square)
            for a in range(m):
                rows[c, a] *= scale
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
            jacobi_eigh(small, rotation)
            for c in range(b):
                p = c
                while p > 0 and small[order[p - 1], order[p - 1]] < small[c, c]:
                    order[p] = order[p - 1]
                    p -= 1
                order[p] = c
            # Residual of each wanted pair, and a gap below them: power iteration finds large |values| first,
            # so a wanted value under the size of a dropped negative one would be wrong.
            worst = 0.0
            for c in range(n_wanted):
                k = order[c]
                value = small[k, k]
                residual = 0.0
                for a in range(m):
                    x = y = 0.0
                    for p in range(b):
                        x += rows[p, a] * rotation[p, k]
                        y += image[p, a] * rotation[p, k]
                    vectors[a, c] = x
                    y -= value * x
                    residual += y * y
                values[c] = value
                worst = max(worst, np.sqrt(residual))
            if values[n_wanted - 1] <= 0.0:
                return False
            if worst <= _TOLERANCE * values[0]:
                # What the block has not seen may hide a larger value only if it is large enough itself.
                for c in range(b):
                    power -= small[c, c] * small[c, c]
                return power < values[n_wanted - 1] * values[n_wanted - 1]
        for c in range(b):
            for a in range(m):
                rows[c, a] = image[c, a]
    return False
