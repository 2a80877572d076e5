"""Setting up multigrid and going through it: aggregates, prolongations, coarse matrices, sweeps.

Every kernel writes only the rows of its range. Rows of new matrices are counted first (``fill`` false), then
written where the counts say.
"""

import numpy as np

from isoweave.engines.compile import kernel
from isoweave.engines.sparse import add_three

# The two highest bits of a ticket: undecided, or in the set; neither is set near a vertex of the set.
UNDECIDED, CHOSEN = np.uint64(1 << 62), np.uint64(1 << 63)


@kernel
def largest_ticket(start, stop, indptr, indices, data, tickets, out):
    """The largest ticket of each vertex and those it has an entry with."""
    for i in range(start, stop):
        best = tickets[i]
        for e in range(indptr[i], indptr[i + 1]):
            if data[e] != 0.0:
                best = max(best, tickets[indices[e]])
        out[i] = best


@kernel
def decide(start, stop, around, tickets, n_left):
    """Choose vertices whose ticket is the largest ``around``, and drop those near a chosen one."""
    for i in range(start, stop):
        if tickets[i] & UNDECIDED:
            if around[i] == tickets[i]:
                tickets[i] ^= UNDECIDED | CHOSEN
            elif around[i] & CHOSEN:
                tickets[i] ^= UNDECIDED
            else:
                n_left[i] = 1


@kernel
def join(start, stop, indptr, indices, data, aggregates, out):
    """The aggregate of each vertex, or that of its strongest neighbour that has one, else -1."""
    for i in range(start, stop):
        mine, best = aggregates[i], 0.0
        if mine < 0:
            for e in range(indptr[i], indptr[i + 1]):
                its, strength = aggregates[indices[e]], abs(data[e])
                if its >= 0 and strength > 0.0 and (strength > best or (strength == best and its < mine)):
                    mine, best = its, strength
        out[i] = mine


@kernel
def smooth_rows(start, stop, indptr, indices, data, scale, aggregates, n_coarse, fill, ends, columns, values):
    """Rows of ``(I - diag(scale) A)`` with the columns of each aggregate added up."""
    place = np.empty(n_coarse, np.int64)
    place[:] = -1
    for i in range(start, stop):
        first = ends[i] if fill else np.int64(i) * n_coarse
        used = first
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            c, value = aggregates[j], -scale[i] * data[e]
            if i == j:
                value += 1.0
            if place[c] < first:
                place[c] = used
                used += 1
                if fill:
                    columns[place[c]], values[place[c]] = c, 0.0
            if fill:
                values[place[c]] += value
        if not fill:
            ends[i + 1] = used - first


@kernel
def galerkin_rows(
    start, stop, r_ptr, r_indices, r_data, indptr, indices, data, p_ptr, p_indices, p_data, fill, ends,
    columns, values,
):  # fmt: skip
    """Rows of ``R A P``."""
    n_coarse = len(r_ptr) - 1
    place = np.empty(n_coarse, np.int64)
    place[:] = -1
    for c in range(start, stop):
        first = ends[c] if fill else np.int64(c) * n_coarse
        used = first
        for r in range(r_ptr[c], r_ptr[c + 1]):
            i = r_indices[r]
            for e in range(indptr[i], indptr[i + 1]):
                value = r_data[r] * data[e]
                for p in range(np.uint64(p_ptr[indices[e]]), np.uint64(p_ptr[indices[e] + 1])):
                    k = p_indices[p]
                    if place[k] < first:
                        place[k] = used
                        used += 1
                        if fill:
                            columns[place[k]], values[place[k]] = k, 0.0
                    if fill:
                        values[place[k]] += value * p_data[p]
        if not fill:
            ends[c + 1] = used - first


# Columns of blocks three at a time; the last stands in for those that are not there.
@kernel
def sweep_rows(start, stop, indptr, indices, data, scale, rhs, x, out):
    """``out = x + diag(scale) (rhs - A x)``."""
    width = x.shape[1]
    for i in range(start, stop):
        first, last = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
        for k in range(0, width, 3):
            c0, c1, c2 = np.uint64(k), np.uint64(min(k + 1, width - 1)), np.uint64(min(k + 2, width - 1))
            sums = rhs[i, c0], rhs[i, c1], rhs[i, c2]
            t0, t1, t2 = add_three(first, last, -1.0, indices, data, x, c0, c1, c2, sums)
            t0, t1, t2 = x[i, c0] + scale[i] * t0, x[i, c1] + scale[i] * t1, x[i, c2] + scale[i] * t2
            out[i, c0], out[i, c1], out[i, c2] = t0, t1, t2


@kernel
def plus_product(start, stop, base, factor, indptr, indices, data, x, out):
    """``out = base + factor A x``."""
    width = x.shape[1]
    for i in range(start, stop):
        first, last = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
        for k in range(0, width, 3):
            c0, c1, c2 = np.uint64(k), np.uint64(min(k + 1, width - 1)), np.uint64(min(k + 2, width - 1))
            t0, t1, t2 = add_three(first, last, 1.0, indices, data, x, c0, c1, c2, (0.0, 0.0, 0.0))
            t0, t1, t2 = base[i, c0] + factor * t0, base[i, c1] + factor * t1, base[i, c2] + factor * t2
            out[i, c0], out[i, c1], out[i, c2] = t0, t1, t2
