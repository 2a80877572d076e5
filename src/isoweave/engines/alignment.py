"""Kernels of the energy: alignments, residual fluxes, their divergence; transitions between frames.

In the plane polar factors have a formula, and kernels of their own: a fit compiles what its dimension needs.
There sums are in registers, and indices are unsigned, as in :mod:`isoweave.engines.sparse`.
"""

import numpy as np

from isoweave.engines.compile import helper, inlined, kernel
from isoweave.engines.lanes import LANES, SEVERAL, add_several_multiples, polar_lanes
from isoweave.engines.small import polar, polar_plane, squares
from isoweave.engines.vectors import aligned, get_from, put, put_from, spread

# Edges of a vertex that are held at a time: hubs have many.
_EDGES = 32
# What squares of singular values may add up to less than their number.
_ORTHOGONAL = 1e-12


def align_edges_in(n_components):
    """The kernel of best alignments for the diagonal inner product in so many dimensions."""
    return align_edges_plane if n_components == 2 else align_edges


@kernel
def align_edges_plane(start, stop, indptr, indices, weights, frame, coordinates, alignments, energies, flux):
    """As :func:`align_edges` in two dimensions."""
    b, q = np.empty((2, 2)), np.empty((2, 2))
    for i in range(start, stop):
        first, last = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
        x, y = coordinates[i, 0], coordinates[i, 1]
        b00 = b01 = b10 = b11 = total = 0.0
        for e in range(first, last):
            j, w = np.uint32(indices[e]), weights[e]
            u, v = coordinates[j, 0] - x, coordinates[j, 1] - y
            left, right = w * frame[e, 0], w * frame[e, 1]
            b00 += left * u
            b01 += left * v
            b10 += right * u
            b11 += right * v
        b[0, 0], b[0, 1], b[1, 0], b[1, 1] = b00, b01, b10, b11
        polar_plane(b, q, b, b)
        q00, q01, q10, q11 = q[0, 0], q[0, 1], q[1, 0], q[1, 1]
        for e in range(first, last):
            j, w, left, right = np.uint32(indices[e]), weights[e], frame[e, 0], frame[e, 1]
            u = coordinates[j, 0] - x - left * q00 - right * q10
            v = coordinates[j, 1] - y - left * q01 - right * q11
            flux[e, 0], flux[e, 1] = w * u, w * v
            total += w * u * u
            total += w * v * v
        energies[i] = total
        alignments[i, 0, 0], alignments[i, 0, 1] = q00, q01
        alignments[i, 1, 0], alignments[i, 1, 1] = q10, q11


@helper
def _differences(first, last, i, indices, coordinates, steps):
    """Rows of ``x_j - x_i`` for the edges first..last, with zeros behind them up to whole vectors."""
    n, width = coordinates.shape[1], steps.shape[1]
    for e in range(first, last):
        j = np.uint32(indices[e])
        if n < LANES:
            for c in range(n):
                steps[e - first, c] = coordinates[j, c] - coordinates[i, c]
            continue
        # The last columns by a vector that may overlap the one before.
        for column in range(0, n, LANES):
            c = min(column, n - LANES)
            step = get_from(coordinates, np.int64(j) * n + c) - get_from(coordinates, i * n + c)
            put_from(steps, (e - first) * width + c, step)


@helper
def _cross_product(i, indptr, indices, weights, frame, coordinates, steps, b):
    """``B = E^T W dphi`` of one vertex; rows of b are padded to whole vectors."""
    n, width = frame.shape[1], b.shape[1]
    b[:] = 0.0
    for first in range(indptr[i], indptr[i + 1], len(steps)):
        last = min(first + len(steps), indptr[i + 1])
        _differences(first, last, i, indices, coordinates, steps)
        for e in range(first, last):
            for at in range((e - first) * width, (e - first + 1) * width, LANES):
                put_from(steps, at, spread(weights[e]) * get_from(steps, at))
        for r in range(0, n, SEVERAL):
            for c in range(0, width, LANES):
                add_several_multiples(
                    b, r * width + c, 1.0, frame, first * n + r, n, steps, c, width, last - first,
                    min(SEVERAL, n - r), width, 1,
                )  # fmt: skip


@helper
def _residuals(first, last, i, indices, frame, coordinates, q, steps):
    """Rows of ``x_j - x_i - E_ij Q`` for the edges first..last, with zeros behind them."""
    n, width = frame.shape[1], steps.shape[1]
    _differences(first, last, i, indices, coordinates, steps)
    for e in range(first, last, SEVERAL):
        for c in range(0, width, LANES):
            add_several_multiples(
                steps, (e - first) * width + c, -1.0, frame, e * n, 1, q, c, width, n,
                min(SEVERAL, last - e), width, n,
            )  # fmt: skip


@kernel
def align_edges(start, stop, indptr, indices, weights, frame, coordinates, alignments, energies, flux):
    """Best alignments for the diagonal inner product, with energies and fluxes (eqs. 9, 10, 12)."""
    # For every vertex i: ``B = E^T W dphi``, ``Q = polar(B)``, ``energies[i] = sum_j w_ij |residual|^2`` and
    # ``flux[ij] = w_ij residual`` with the residual ``dphi_ij - E_ij Q``. The energy is summed from
    # residuals, not from the difference of norms, so that it keeps its digits when it is tiny. Polar factors
    # of several vertices are computed side by side: what one gets does not depend on the others.
    n = frame.shape[1]
    # Rows end on whole vectors.
    n_vectors = (n + LANES - 1) // LANES
    width = n_vectors * LANES
    steps, sums = aligned(_EDGES * n_vectors).reshape(_EDGES, width), aligned(1)
    b, q = aligned(n * n_vectors).reshape(n, width), aligned(n * n_vectors).reshape(n, width)
    x, y = aligned(n * n).reshape(n, n, LANES), aligned(n * n).reshape(n, n, LANES)
    gram, row = aligned(n * n).reshape(n, n, LANES), aligned(n).reshape(n, LANES)
    columns, rotation = np.empty((n, n)), np.empty((n, n))
    for first in range(start, stop, LANES):
        last = min(first + LANES, stop)
        for i in range(first, last):
            _cross_product(i, indptr, indices, weights, frame, coordinates, steps, b)
            for r in range(n):
                for c in range(n):
                    x[r, c, i - first] = b[r, c]
        found = polar_lanes(x, y, gram, row)
        for i in range(first, last):
            if row[0, i - first] > n - _ORTHOGONAL:
                for r in range(n):
                    for c in range(n):
                        q[r, c] = found[r, c, i - first]
            else:
                _cross_product(i, indptr, indices, weights, frame, coordinates, steps, b)
                polar(b, q, columns, rotation)
            total = spread(0.0)
            for lo in range(indptr[i], indptr[i + 1], _EDGES):
                hi = min(lo + _EDGES, indptr[i + 1])
                _residuals(lo, hi, i, indices, frame, coordinates, q, steps)
                for e in range(lo, hi):
                    w = spread(weights[e])
                    for at in range((e - lo) * width, (e - lo + 1) * width, LANES):
                        residual = get_from(steps, at)
                        put_from(steps, at, w * residual)
                        total += w * residual * residual
                    for c in range(n):
                        flux[e, c] = steps[e - lo, c]
            put(sums, 0, total)
            energies[i] = sums.sum()
            for r in range(n):
                for c in range(n):
                    alignments[i, r, c] = q[r, c]


@kernel
def align_rank(start, stop, indptr, indices, inverse, frame, coordinates, alignments, energies, flux):
    """As :func:`align_edges` for the paper's inner product ``W_i = P_i P_i^T``."""
    # ``r_i = P_i^T (dphi_i - E_i Q_i)`` is what the energy sees of the residual, ``flux_i = P_i r_i``.
    n = frame.shape[1]
    b, q, columns, rotation = squares(n)
    differential, transport = np.empty((n, n)), np.empty((n, n))
    for i in range(start, stop):
        differential[:] = 0.0
        transport[:] = 0.0
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
                alignments[i, r, c] = q[r, c]
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


@kernel
def divergence(start, stop, indptr, reverse, flux, out):
    """Adjoint of the differences: ``out_i = sum_j flux_ji - flux_ij`` (eq. 7)."""
    n = flux.shape[1]
    for i in range(start, stop):
        if n == 2:
            x = y = 0.0
            for e in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
                opposite = np.uint32(reverse[e])
                x += flux[opposite, 0] - flux[e, 0]
                y += flux[opposite, 1] - flux[e, 1]
            out[i, 0], out[i, 1] = x, y
            continue
        if n >= LANES:
            # The last columns by a vector that may overlap the one before.
            for column in range(0, n, LANES):
                c = min(column, n - LANES)
                total = spread(0.0)
                for e in range(indptr[i], indptr[i + 1]):
                    total += get_from(flux, reverse[e] * n + c) - get_from(flux, e * n + c)
                put_from(out, i * n + c, total)
            continue
        out[i] = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            back = reverse[e]
            for c in range(n):
                out[i, c] += flux[back, c] - flux[e, c]


def frame_transitions_in(n_components):
    """The kernel of transitions in so many dimensions."""
    return frame_transitions_plane if n_components <= 2 else frame_transitions


@kernel
def frame_transitions_plane(start, stop, indptr, indices, rows, included, transitions, weights):
    """As :func:`frame_transitions` in one or two dimensions."""
    _transitions(polar_plane, start, stop, indptr, indices, rows, included, transitions, weights)


@kernel
def frame_transitions(start, stop, indptr, indices, rows, included, transitions, weights):
    """Orthogonal maps between the frames at the ends of every edge, for rows start..stop (eq. 14)."""
    _transitions(polar, start, stop, indptr, indices, rows, included, transitions, weights)


@inlined
def _transitions(polar, start, stop, indptr, indices, rows, included, transitions, weights):
    """Those maps and their weights for rows start..stop."""
    # ``transitions[e]`` is the orthogonal O that brings the frame of j to that of i over the vertices both
    # see, i.e. minimises ``|X_i - X_j O^T|`` after centring, and ``weights[e]`` is the part of the overlap
    # that it explains, in 0 .. 1. Over N vertices or fewer no orthogonal map is determined; then O is the
    # normalised cross product of the overlaps, whose norm is at most one, with a weight of 1e-3.
    n = rows.shape[1]
    where = np.empty(len(indptr) - 1, dtype=np.int32)
    where[:] = -1
    cross, q, columns, rotation = squares(n)
    seen_i, mean_i, mean_j = np.empty(n), np.empty(n), np.empty(n)
    for i in range(start, stop):
        for e in range(indptr[i], indptr[i + 1]):
            if included[e]:
                where[indices[e]] = e
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            mean_i[:] = 0.0
            mean_j[:] = 0.0
            cross[:] = 0.0
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
                for r in range(n):
                    seen_i[r] = rows[a, r] if v != i else 0.0
                for c in range(n):
                    y = rows[f, c]
                    mean_i[c] += seen_i[c]
                    mean_j[c] += y
                    square_i += seen_i[c] * seen_i[c]
                    square_j += y * y
                    for r in range(n):
                        cross[r, c] += seen_i[r] * y
            if included[e]:
                count += 1
                for c in range(n):
                    y = rows[e, c]
                    mean_i[c] += y
                    square_i += y * y
            if count == 0:
                weights[e] = 0.0
                for r in range(n):
                    for c in range(n):
                        transitions[e, r, c] = 1.0 if r == c else 0.0
                continue
            for r in range(n):
                square_i -= mean_i[r] * mean_i[r] / count
                square_j -= mean_j[r] * mean_j[r] / count
                for c in range(n):
                    cross[r, c] -= mean_i[r] * mean_j[c] / count
            scale = np.sqrt(max(square_i, 0.0) * max(square_j, 0.0))
            if count <= n:
                # Too few vertices to tell a rotation from a reflection: what they do say, at little weight.
                weights[e] = 1e-3
                for r in range(n):
                    for c in range(n):
                        transitions[e, r, c] = cross[r, c] / scale if scale > 0.0 else 0.0
                continue
            polar(cross, q, columns, rotation)
            trace = 0.0
            for r in range(n):
                for c in range(n):
                    trace += q[r, c] * cross[r, c]
                    transitions[e, r, c] = q[r, c]
            weights[e] = trace / scale if scale > 0.0 else 0.0
        for e in range(indptr[i], indptr[i + 1]):
            where[indices[e]] = -1
