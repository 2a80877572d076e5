"""Compiled kernels of the energy: alignments, residual fluxes, their divergence."""

from __future__ import annotations

import numpy as np

from isoweave.engines.compile import kernel
from isoweave.engines.polar import MANY_DIMENSIONS, newton_polar, polar


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
    rotation = np.empty((n, n))
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
        if n < MANY_DIMENSIONS or not newton_polar(b, q, columns, rotation):
            polar(b, q, columns, rotation)
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
    rotation = np.empty((n, n))
    for i in range(start, stop):
        for r in range(n):
            for c in range(n):
                differential[r, c] = transport[r, c] = 0.0
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
        polar(b, q, columns, rotation)
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
                gram[i, r, c] = cross[i, r, c] = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            if not included[e]:
                continue
            j = indices[e]
            for r in range(n):
                for c in range(n):
                    gram[i, r, c] += frame[e, r] * frame[e, c]
                    cross[i, r, c] += frame[e, r] * (coordinates[j, c] - coordinates[i, c])
