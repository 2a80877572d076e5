"""Kernels that put the entries of large graphs into rows."""

from isoweave.engines.compile import helper, kernel


@kernel
def count_entries(start, stop, size, rows, cols, counts):
    """Entries of blocks start..stop, ``size`` in each, in the rows of either end: ``counts`` (blocks, n)."""
    for b in range(start, stop):
        for i in range(counts.shape[1]):
            counts[b, i] = 0
        for e in range(b * size, min((b + 1) * size, len(rows))):
            counts[b, rows[e]] += 1
            counts[b, cols[e]] += 1


@kernel
def place_blocks(start, stop, counts, totals):
    """Turn the counts of rows start..stop into the places of the blocks in them, and add them up."""
    for i in range(start, stop):
        total = 0
        for b in range(len(counts)):
            total, counts[b, i] = total + counts[b, i], total
        totals[i] = total


@kernel
def spread_entries(start, stop, size, rows, cols, values, starts, counts, columns, lengths):
    """Write the entries of blocks start..stop to the rows of both ends."""
    for b in range(start, stop):
        for e in range(b * size, min((b + 1) * size, len(rows))):
            i, j = rows[e], cols[e]
            at = starts[i] + counts[b, i]
            columns[at], lengths[at] = j, values[e]
            counts[b, i] += 1
            at = starts[j] + counts[b, j]
            columns[at], lengths[at] = i, values[e]
            counts[b, j] += 1


@helper
def _sort_row(lo, hi, columns, lengths):
    """By column, by insertion."""
    for a in range(lo + 1, hi):
        column, length, b = columns[a], lengths[a], a
        while b > lo and columns[b - 1] > column:
            columns[b], lengths[b] = columns[b - 1], lengths[b - 1]
            b -= 1
        columns[b], lengths[b] = column, length


@kernel
def merge_rows(start, stop, starts, columns, lengths, rule, rtol, counts, conflicts):
    """Sort rows start..stop and merge what is there twice: they shrink to ``counts`` entries."""
    # Lengths that differ by more than ``rtol`` are conflicts; of these the rule 1 keeps the least, 2 the mean
    # of least and largest, 0 the largest, as of all others.
    for i in range(start, stop):
        lo, hi = starts[i], starts[i + 1]
        _sort_row(lo, hi, columns, lengths)
        used, a = lo, lo
        conflicts[i] = False
        while a < hi:
            column, least, most = columns[a], lengths[a], lengths[a]
            a += 1
            while a < hi and columns[a] == column:
                least, most = min(least, lengths[a]), max(most, lengths[a])
                a += 1
            if most - least > rtol * most:
                conflicts[i] = True
                if rule > 0:
                    most = least if rule == 1 else 0.5 * least + 0.5 * most
            columns[used], lengths[used] = column, most
            used += 1
        counts[i] = used - lo


@kernel
def take_rows(start, stop, longest, order, place, indptr, indices, values, starts, columns, lengths):
    """Rows ``order[start..stop]`` of a graph, whose vertices go to ``place``; up to ``longest`` sorted."""
    for r in range(start, stop):
        lo, at = indptr[order[r]], starts[r]
        count = starts[r + 1] - at
        for a in range(count):
            columns[at + a], lengths[at + a] = place[indices[lo + a]], values[lo + a]
        if count <= longest:
            _sort_row(at, at + count, columns, lengths)
