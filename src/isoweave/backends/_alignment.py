"""Compiled kernels of the energy: orthogonal alignments, residual fluxes, their divergence."""

from __future__ import annotations

import numpy as np

from isoweave.backends._compile import helper, kernel

_TWO_600 = 2.0**600


@helper
def polar(b, q, columns, turn):
    """Orthogonal factor of the polar decomposition, ``q = U V^T`` for ``b = U S V^T`` (eq. 10).

    In the plane that is the rotation or the reflection, whichever has the larger trace with b. Otherwise
    one-sided Jacobi: rotate the columns of b until they are orthogonal. Directions in which b vanishes are
    completed to an orthonormal basis, so q is orthogonal for every b, the zero matrix included. ``columns``
    and ``turn`` are (N, N) scratch; their rows hold the vectors.
    """
    n = len(b)
    if n == 1:
        q[0, 0] = -1.0 if b[0, 0] < 0.0 else 1.0
        return
    largest = 0.0
    for p in range(n):
        for k in range(n):
            largest = max(largest, abs(b[k, p]))
    # The factor does not depend on the size of b, but squares must not vanish or overflow, and near the
    # smallest number a length has few digits.
    scale = _TWO_600 if largest < 1e-100 else 1.0 / _TWO_600 if largest > 1e100 else 1.0
    if n == 2:
        x = scale * (b[0, 0] + b[1, 1])
        y = scale * (b[1, 0] - b[0, 1])
        trace = np.hypot(x, y)
        mirrored = np.hypot(scale * (b[0, 0] - b[1, 1]), scale * (b[1, 0] + b[0, 1]))
        sign = 1.0
        if not trace >= mirrored:
            x = scale * (b[0, 0] - b[1, 1])
            y = scale * (b[1, 0] + b[0, 1])
            trace = mirrored
            sign = -1.0
        elif trace == 0.0:
            x = 1.0
            trace = 1.0
        q[0, 0] = x / trace
        q[1, 0] = y / trace
        q[0, 1] = -sign * q[1, 0]
        q[1, 1] = sign * q[0, 0]
        return
    for p in range(n):
        for k in range(n):
            columns[p, k] = scale * b[k, p]
            turn[p, k] = 1.0 if p == k else 0.0
    for _ in range(30):
        rotated = False
        for p in range(n - 1):
            for r in range(p + 1, n):
                alpha = 0.0
                beta = 0.0
                gamma = 0.0
                for k in range(n):
                    x = columns[p, k]
                    y = columns[r, k]
                    alpha += x * x
                    beta += y * y
                    gamma += x * y
                if abs(gamma) <= 1e-15 * np.sqrt(alpha) * np.sqrt(beta) or gamma == 0.0:
                    continue
                rotated = True
                zeta = 0.5 * (beta - alpha) / gamma
                t = 1.0 / (abs(zeta) + np.sqrt(1.0 + zeta * zeta))
                if zeta < 0.0:
                    t = -t
                c = 1.0 / np.sqrt(1.0 + t * t)
                s = c * t
                for k in range(n):
                    x = columns[p, k]
                    y = columns[r, k]
                    columns[p, k] = c * x - s * y
                    columns[r, k] = s * x + c * y
                    x = turn[p, k]
                    y = turn[r, k]
                    turn[p, k] = c * x - s * y
                    turn[r, k] = s * x + c * y
        if not rotated:
            break
    _normalise_columns(columns, q)
    for k in range(n):
        for r in range(n):
            value = 0.0
            for p in range(n):
                value += columns[p, k] * turn[p, r]
            q[k, r] = value


@helper
def _normalise_columns(columns, scratch):
    """Scale orthogonal rows to unit length; replace vanishing ones by a completion of the basis."""
    n = len(columns)
    squares = scratch[0]
    largest = 0.0
    for p in range(n):
        squares[p] = 0.0
        for k in range(n):
            squares[p] += columns[p, k] * columns[p, k]
        largest = max(largest, squares[p])
    for p in range(n):
        for k in range(n):
            columns[p, k] = columns[p, k] / np.sqrt(squares[p]) if squares[p] > 1e-26 * largest else 0.0
    for p in range(n):
        if squares[p] > 1e-26 * largest:
            continue
        # The unit vector that the rows present cover least is the safest one to add.
        best = 0
        coverage = np.inf
        for k in range(n):
            covered = 0.0
            for r in range(n):
                covered += columns[r, k] * columns[r, k]
            if covered < coverage - 1e-12:
                best = k
                coverage = covered
        columns[p, best] = 1.0
        # Gram-Schmidt, twice.
        for r in range(2 * n):
            if r % n == p:
                continue
            dot = 0.0
            for k in range(n):
                dot += columns[r % n, k] * columns[p, k]
            for k in range(n):
                columns[p, k] -= dot * columns[r % n, k]
        square = 0.0
        for k in range(n):
            square += columns[p, k] * columns[p, k]
        for k in range(n):
            columns[p, k] /= np.sqrt(square)


@kernel
def align_edges(start, stop, indptr, indices, weights, frame, coordinates, alignments, energies, flux):
    """Best alignments for the diagonal inner product, with energies and fluxes (eqs. 9, 10, 12).

    For every vertex i: ``B = E^T W dphi``, ``Q = polar(B)``, the residual ``dphi_ij - E_ij Q`` of each edge,
    ``energies[i] = sum_j w_ij |residual|^2`` and ``flux[ij] = w_ij residual``. The energy is summed from
    residuals, not from the difference of norms, so that it keeps its digits when it is tiny.
    """
    n = frame.shape[1]
    b = np.empty((n, n))
    q = np.empty((n, n))
    columns = np.empty((n, n))
    turn = np.empty((n, n))
    for i in range(start, stop):
        for r in range(n):
            for c in range(n):
                b[r, c] = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            w = weights[e]
            for r in range(n):
                left = w * frame[e, r]
                for c in range(n):
                    b[r, c] += left * (coordinates[j, c] - coordinates[i, c])
        polar(b, q, columns, turn)
        total = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            w = weights[e]
            for c in range(n):
                value = coordinates[j, c] - coordinates[i, c]
                for r in range(n):
                    value -= frame[e, r] * q[r, c]
                total += w * value * value
                flux[e, c] = w * value
        energies[i] = total
        for r in range(n):
            for c in range(n):
                alignments[i, r, c] = q[r, c]


@kernel
def align_rank(start, stop, indptr, indices, inverse, frame, coordinates, alignments, energies, flux):
    """As :func:`align_edges` for the paper's inner product ``W_i = P_i P_i^T``.

    ``r_i = P_i^T (dphi_i - E_i Q_i)`` is what the energy sees of the residual, ``flux_i = P_i r_i``.
    """
    n = frame.shape[1]
    b = np.empty((n, n))
    q = np.empty((n, n))
    differential = np.empty((n, n))
    transport = np.empty((n, n))
    columns = np.empty((n, n))
    turn = np.empty((n, n))
    for i in range(start, stop):
        for r in range(n):
            for c in range(n):
                differential[r, c] = 0.0
                transport[r, c] = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            for r in range(n):
                left = inverse[e, r]
                for c in range(n):
                    differential[r, c] += left * (coordinates[j, c] - coordinates[i, c])
                    transport[r, c] += left * frame[e, c]
        for r in range(n):
            for c in range(n):
                value = 0.0
                for k in range(n):
                    value += transport[k, r] * differential[k, c]
                b[r, c] = value
        polar(b, q, columns, turn)
        total = 0.0
        for r in range(n):
            for c in range(n):
                value = differential[r, c]
                for k in range(n):
                    value -= transport[r, k] * q[k, c]
                b[r, c] = value
                total += value * value
        energies[i] = total
        for e in range(indptr[i], indptr[i + 1]):
            for c in range(n):
                value = 0.0
                for r in range(n):
                    value += inverse[e, r] * b[r, c]
                flux[e, c] = value
        for r in range(n):
            for c in range(n):
                alignments[i, r, c] = q[r, c]


@kernel
def divergence(start, stop, indptr, reverse, flux, out):
    """Adjoint of the differences: ``out_i = sum_j flux_ji - flux_ij`` (eq. 7)."""
    n = flux.shape[1]
    for i in range(start, stop):
        for c in range(n):
            out[i, c] = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            back = reverse[e]
            for c in range(n):
                out[i, c] += flux[back, c] - flux[e, c]


@kernel
def normal_equations(start, stop, indptr, indices, included, frame, coordinates, gram, cross):
    """Per vertex ``E^T E`` and ``E^T dphi`` of the least-squares differential (eq. 17)."""
    n = frame.shape[1]
    for i in range(start, stop):
        for r in range(n):
            for c in range(n):
                gram[i, r, c] = 0.0
                cross[i, r, c] = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            if not included[e]:
                continue
            j = indices[e]
            for r in range(n):
                for c in range(n):
                    gram[i, r, c] += frame[e, r] * frame[e, c]
                    cross[i, r, c] += frame[e, r] * (coordinates[j, c] - coordinates[i, c])
