"""Some of the kernels in plain numpy, for small problems: there compiling takes longer than it ever saves.

The bits are those of the kernels: sums are taken one by one in the same order, which is what ``np.bincount``
does, and no two operations are joined.
"""

from __future__ import annotations

from typing import Any

import numpy as np

# Stored entries of a graph, a matrix or features up to which a problem is small.
FEW = 2**15


def sum_rows(rows: Any, values: Any, out: Any) -> None:
    """``out[i] = sum of values[e] with rows[e] == i``, for values of shape (m, c)."""
    for c in range(out.shape[1]):
        out[:, c] = np.bincount(rows, values[:, c], len(out))


def divergence(sources: Any, reverse: Any, flux: Any, out: Any) -> None:
    """As :func:`isoweave.engines.alignment.divergence`."""
    with np.errstate(all="ignore"):
        sum_rows(sources, flux[reverse] - flux, out)


def normal_equations(
    sources: Any, indices: Any, included: Any, frame: Any, coordinates: Any, gram: Any, cross: Any
) -> None:
    """As :func:`isoweave.engines.alignment.normal_equations`."""
    rows, columns, frame = sources[included], indices[included], frame[included]
    with np.errstate(all="ignore"):
        steps = coordinates[columns] - coordinates[rows]
        for r in range(frame.shape[1]):
            sum_rows(rows, frame[:, r : r + 1] * frame, gram[:, r])
            sum_rows(rows, frame[:, r : r + 1] * steps, cross[:, r])


def multiply(indptr: Any, indices: Any, data: Any, x: Any, out: Any) -> None:
    """As :func:`isoweave.engines.sparse.multiply_rows`."""
    rows = np.repeat(np.arange(len(out)), np.diff(indptr))
    with np.errstate(all="ignore"):
        sum_rows(rows, data[:, None] * x[indices], out)


def project(labels: Any, sizes: Any, block: Any, out: Any) -> None:
    """As :func:`isoweave.engines.sparse.project`."""
    means = np.empty((len(sizes), block.shape[1]))
    sum_rows(labels, block, means)
    with np.errstate(all="ignore"):
        np.subtract(block, (means / sizes[:, None])[labels], out=out)


def repeat_and_count(counts: Any) -> tuple[Any, Any]:
    """Each index as often as its count says, and 0, 1, 2 ... along each run."""
    index = np.repeat(np.arange(len(counts)), counts)
    return index, np.arange(len(index)) - np.repeat(np.cumsum(counts) - counts, counts)


def permute(indptr: Any, indices: Any, order: Any) -> tuple[Any, Any, Any]:
    """As :func:`isoweave.engines.cholesky.permute`."""
    place = np.full(len(indptr) - 1, -1, np.int32)
    place[order] = np.arange(len(order))
    counts = indptr[order + 1] - indptr[order]
    rows, step = repeat_and_count(counts)
    entries = indptr[order][rows] + step
    kept = place[indices[entries]] >= 0
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows[kept], minlength=len(order)))])
    entries = entries[kept]
    return starts.astype(np.int32), place[indices[entries]], entries.astype(np.int32)


def common_neighbors(sources: Any, indptr: Any, indices: Any, share: Any) -> None:
    """As :func:`isoweave.engines.paths.common_neighbors`."""
    degrees, keys = np.diff(indptr), sources.astype(np.int64) * len(indptr) + indices
    forward = np.flatnonzero(sources < indices)
    i, j = sources[forward], indices[forward]
    short, long = np.where(degrees[i] <= degrees[j], (i, j), (j, i))
    edge, step = repeat_and_count(degrees[short])
    wanted = long[edge].astype(np.int64) * len(indptr) + indices[indptr[short][edge] + step]
    found = keys[np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)] == wanted
    share[forward] = np.bincount(edge[found], minlength=len(forward)) / degrees[short]


def hash_rows(bits: Any, hashes: Any) -> None:
    """As :func:`isoweave.engines.neighbors.hash_rows`."""
    hashes[:] = 0
    for column in bits.T:
        x = hashes + column + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        hashes[:] = x ^ (x >> np.uint64(31))
