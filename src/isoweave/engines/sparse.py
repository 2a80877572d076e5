"""Products of sparse matrices and blocks, sums over columns, sweeps.

Columns are summed in registers, two or three at a time, and indices are made unsigned to spare numba's test
for negative ones: together two to four times faster than the general loop.
"""

import numpy as np

from isoweave.engines.compile import inlined, kernel
from isoweave.engines.lanes import LANES, set_gathered
from isoweave.engines.paths import find_edge
from isoweave.engines.plain import CHUNK


@inlined
def add_three(first, last, sign, indices, data, x, c0, c1, c2, sums):
    """Add to three sums the products of a row, its entries first..last, times a sign, with three columns."""
    t0, t1, t2 = sums
    for e in range(first, last):
        j, weight = np.uint32(indices[e]), sign * data[e]
        t0 += weight * x[j, c0]
        t1 += weight * x[j, c1]
        t2 += weight * x[j, c2]
    return t0, t1, t2


@kernel
def multiply_rows(start, stop, indptr, indices, data, x, out):
    """Rows ``start .. stop`` of ``out = A x`` for a CSR matrix and a block ``x``."""
    width = x.shape[1]
    for i in range(start, stop):
        first, last = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
        if width == 2:
            a0, a1 = 0.0, 0.0
            for e in range(first, last):
                j, weight = np.uint32(indices[e]), data[e]
                a0 += weight * x[j, 0]
                a1 += weight * x[j, 1]
            out[i, 0], out[i, 1] = a0, a1
            continue
        if width >= LANES:
            # By vectors, of which the last may share columns with the one before.
            for k in range(0, width, LANES):
                c = min(k, width - LANES)
                set_gathered(out, i * width + c, 1.0, data, first, indices, x, c, width, last - first)
            continue
        # Three at a time; the last stands in for those that are not there.
        for k in range(0, width, 3):
            c0, c1, c2 = np.uint64(k), np.uint64(min(k + 1, width - 1)), np.uint64(min(k + 2, width - 1))
            sums = add_three(first, last, 1.0, indices, data, x, c0, c1, c2, (0.0, 0.0, 0.0))
            out[i, c0], out[i, c1], out[i, c2] = sums


@kernel
def look_at_rows(start, stop, indptr, indices, data, diagonal, facts):
    """Of rows start..stop of a matrix: sum, sum of sizes, largest, and largest difference from its mirror."""
    for i in range(start, stop):
        total = size = largest = gap = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            j, value = indices[e], data[e]
            total += value
            size += abs(value)
            largest = max(largest, abs(value))
            mirror = find_edge(indices, indptr[j], indptr[j + 1], i)
            gap = max(gap, abs(value - (data[mirror] if mirror >= 0 else 0.0)))
            if i == j:
                diagonal[i] = value
        facts[i, 0], facts[i, 1], facts[i, 2], facts[i, 3] = total, size, largest, gap


@kernel
def project(labels, sizes, block, out):
    """``block`` less the mean of every column over the rows of each label, which is added up row by row."""
    means = np.zeros((len(sizes), block.shape[1]))
    for i in range(len(block)):
        for k in range(block.shape[1]):
            means[labels[i], k] += block[i, k]
    for c in range(len(sizes)):
        for k in range(block.shape[1]):
            means[c, k] /= sizes[c]
    for i in range(len(block)):
        for k in range(block.shape[1]):
            out[i, k] = block[i, k] - means[labels[i], k]


@kernel
def dot_chunks(start, stop, a, b, partial):
    """Column sums of ``a b`` over the rows of each chunk."""
    n, width = a.shape
    for c in range(start, stop):
        partial[c] = 0.0
        for i in range(np.uint64(c * CHUNK), np.uint64(min(n, (c + 1) * CHUNK))):
            for k in range(np.uint64(width)):
                partial[c, k] += a[i, k] * b[i, k]


@kernel
def scale_rows(start, stop, scale, x, out):
    for i in range(start, stop):
        for k in range(x.shape[1]):
            out[i, k] = scale[i] * x[i, k]


@kernel
def advance_chunks(start, stop, step, p, q, x, r):
    """x += step p and r -= step q."""
    n, width = p.shape
    for i in range(np.uint64(start * CHUNK), np.uint64(min(n, stop * CHUNK))):
        for k in range(np.uint64(width)):
            x[i, k] += step[k] * p[i, k]
            r[i, k] -= step[k] * q[i, k]


@kernel
def direction_chunks(start, stop, beta, z, p):
    """p = z + beta p."""
    n, width = p.shape
    for i in range(np.uint64(start * CHUNK), np.uint64(min(n, stop * CHUNK))):
        for k in range(np.uint64(width)):
            p[i, k] = z[i, k] + beta[k] * p[i, k]
