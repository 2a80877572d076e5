"""Some of the kernels in plain numpy, for small problems: there compiling takes longer than it ever saves.

The bits are those of the kernels: sums are taken one by one in the same order, which is what ``np.bincount``
does, and no two operations are joined. So which of the two runs is a matter of time alone. Numba, which takes
longer to import than a small fit, is not needed here.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import numpy as np

# Stored entries of a graph, a matrix or features up to which a problem is small.
FEW = 2**15
# Vertices from which on a small connected graph has a factor of LAPACK, as a band, and for which a band is
# rarely too wide. Smaller ones have that of :mod:`isoweave.engines.cholesky`, as many at once have it, each
# with the bits that it has alone.
LEAST_BANDED, MOST_BANDED = 514, 2_500
# Rows per partial sum. Sums are taken over chunks of this fixed size and then over chunks, so their
# bits depend neither on the number of threads nor on the ranges the threads were given.
CHUNK = 1024
# Distances this close are equal: which of two such vertices comes first depends on the numbering and on the
# order of a sum, so neither may be taken without the other.
TIE = 1.0 + 1e-9
# Wanted directions from which on frames come from tridiagonal matrices, before which from power iterations.
SEVERAL = 4
# As FEW, for kernels that are the dearest to compile.
SOME = 2**16
# Entries that a process handles here, in all its small problems together, before it compiles a kernel that
# has a twin: about what takes as long here as to compile it.
WORTH_COMPILING = {
    "local_mds.local_mds": 2**18,
    "paths.find_detours": 2**18,
    "paths.nearest_lists": 2**18,
    "alignment.align_edges_plane": 2**23,
    "alignment.frame_transitions_plane": 2**20,
    "sparse.dot_chunks": 2**22,
    "sparse.multiply_rows": 2**23,
    "stress.edge_stress": 2**23,
}
_handled = dict.fromkeys(WORTH_COMPILING, 0)


def is_spared(name: str, n_entries: int) -> bool:
    """Whether a kernel, "module.function", is better not compiled, nor loaded, for a problem of this size."""
    module, function = name.split(".")
    loaded: Any = getattr(sys.modules.get(f"isoweave.engines.{module}"), function, None)
    is_loaded = loaded is not None and bool(loaded.signatures)
    if is_loaded or n_entries > SOME or _handled[name] > WORTH_COMPILING[name]:
        return False
    _handled[name] += n_entries
    return True


def expect(n_entries: int) -> None:
    """Of that many entries, in problems that are small each, are more than is worth doing here."""
    if n_entries > SOME:
        _handled.update({name: limit + 1 for name, limit in WORTH_COMPILING.items()})


def choose(name: str, n_entries: int) -> Any:
    """That kernel, or the function of the same name and arguments here."""
    module, function = name.split(".")
    if is_spared(name, n_entries):
        return globals()[function]
    return getattr(import_module(f"isoweave.engines.{module}"), function)


def sum_rows(rows: Any, values: Any, out: Any) -> None:
    """``out[i] = sum of values[e] with rows[e] == i``, for values of shape (m, c)."""
    for c in range(out.shape[1]):
        out[:, c] = np.bincount(rows, values[:, c], len(out))


def divergence(sources: Any, reverse: Any, flux: Any, out: Any) -> None:
    """As :func:`isoweave.engines.alignment.divergence`."""
    with np.errstate(all="ignore"):
        sum_rows(sources, flux[reverse] - flux, out)


def multiply_rows(start: int, stop: int, indptr: Any, indices: Any, data: Any, x: Any, out: Any) -> None:
    """As :func:`isoweave.engines.sparse.multiply_rows`."""
    edges, rows = _edges(start, stop, indptr)
    with np.errstate(all="ignore"):
        sum_rows(rows, data[edges][:, None] * x[indices[edges]], out[start:stop])


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


def dot_chunks(start: int, stop: int, a: Any, b: Any, partial: Any) -> None:
    """As :func:`isoweave.engines.sparse.dot_chunks`."""
    rows = slice(start * CHUNK, min(stop * CHUNK, len(a)))
    with np.errstate(all="ignore"):
        sum_rows(np.arange(rows.stop - rows.start) // CHUNK, a[rows] * b[rows], partial[start:stop])


def edge_stress(
    start: int, stop: int, indptr: Any, indices: Any, reverse: Any, lengths: Any, weights: Any,
    coordinates: Any, energies: Any, half_gradient: Any,
) -> None:  # fmt: skip
    """As :func:`isoweave.engines.stress.edge_stress`."""
    edges, rows = _edges(start, stop, indptr)
    with np.errstate(all="ignore"):
        steps = coordinates[start + rows] - coordinates[indices[edges]]
        squares = np.zeros(len(rows))
        for step in steps.T:
            squares += step * step
        distances = np.sqrt(squares)
        excess = distances - lengths[edges]
        energies[start:stop] = np.bincount(rows, weights[edges] * excess * excess, stop - start)
        both = weights[edges] + weights[reverse[edges]]
        pulls = np.where(distances > 0.0, both * excess / distances, 0.0)
        sum_rows(rows, pulls[:, None] * steps, half_gradient[start:stop])


def align_edges_plane(
    start: int, stop: int, indptr: Any, indices: Any, weights: Any, frame: Any, coordinates: Any,
    alignments: Any, energies: Any, flux: Any,
) -> None:  # fmt: skip
    """As :func:`isoweave.engines.alignment.align_edges_plane`."""
    edges, rows = _edges(start, stop, indptr)
    frame, weight = frame[edges], weights[edges][:, None]
    with np.errstate(all="ignore"):
        steps = coordinates[indices[edges]] - coordinates[start + rows]
        cross, left = np.empty((stop - start, 2, 2)), weight * frame
        for r in range(2):
            sum_rows(rows, left[:, r : r + 1] * steps, cross[:, r])
        q = alignments[start:stop] = polar_plane(cross)
        turned = q[rows]
        residual = steps - frame[:, :1] * turned[:, 0] - frame[:, 1:] * turned[:, 1]
        flux[edges] = weight * residual
        squares = flux[edges] * residual
        energies[start:stop] = np.bincount(np.repeat(rows, 2), squares.ravel(), stop - start)


def polar_plane(b: Any) -> Any:
    """As :func:`isoweave.engines.small.polar_plane` of matrices (n, 2, 2)."""
    largest = np.abs(b).max(axis=(1, 2), initial=0.0)
    scale = np.where(largest < 1e-100, 2.0**600, np.where(largest > 1e100, 2.0**-600, 1.0))
    x, y = scale * (b[:, 0, 0] + b[:, 1, 1]), scale * (b[:, 1, 0] - b[:, 0, 1])
    u, v = scale * (b[:, 0, 0] - b[:, 1, 1]), scale * (b[:, 1, 0] + b[:, 0, 1])
    trace, mirrored = np.hypot(x, y), np.hypot(u, v)
    turns = trace >= mirrored
    x, y, trace = np.where(turns, x, u), np.where(turns, y, v), np.where(turns, trace, mirrored)
    nothing, sign = turns & (trace == 0.0), np.where(turns, 1.0, -1.0)
    x, trace = np.where(nothing, 1.0, x), np.where(nothing, 1.0, trace)
    q = np.empty_like(b)
    q[:, 0, 0], q[:, 1, 0] = x / trace, y / trace
    q[:, 0, 1], q[:, 1, 1] = -sign * q[:, 1, 0], sign * q[:, 0, 0]
    return q


def frame_transitions_plane(
    start: int, stop: int, indptr: Any, indices: Any, rows: Any, included: Any, transitions: Any, weights: Any
) -> None:
    """As :func:`isoweave.engines.alignment.frame_transitions_plane`, in two dimensions."""
    n, sources = len(indptr) - 1, np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    keys, (edges, _) = sources * n + indices, _edges(start, stop, indptr)
    i, j = sources[edges], indices[edges]
    # Vertices that both frames see: those in both rows, and i itself, the origin of its own.
    edge, step = repeat_and_count(indptr[j + 1] - indptr[j])
    there = indptr[j][edge] + step
    wanted = i[edge] * n + indices[there]
    here = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    is_origin, found = indices[there] == i[edge], (keys[here] == wanted) & included[here]
    common = included[there] & (found | is_origin)
    edge, there, here, is_origin = edge[common], there[common], here[common], is_origin[common]
    seen, other, m = np.where(is_origin[:, None], 0.0, rows[here]), rows[there], len(i)
    count = np.bincount(edge, minlength=m) + included[edges]
    means, squares, cross = np.empty((2, m, 2)), np.empty((2, m)), np.empty((m, 2, 2))
    with np.errstate(all="ignore"):
        for a, mean, square in zip((seen, other), means, squares, strict=True):
            sum_rows(edge, a, mean)
            square[:] = np.bincount(np.repeat(edge, 2), (a * a).ravel(), m)
        for r in range(2):
            sum_rows(edge, seen[:, r : r + 1] * other, cross[:, r])
        # And j, the origin of the other.
        own = np.where(included[edges][:, None], rows[edges], 0.0)
        for c in range(2):
            means[0, :, c] += own[:, c]
            squares[0] += own[:, c] * own[:, c]
        for r in range(2):
            squares -= means[:, :, r] * means[:, :, r] / count
            for c in range(2):
                cross[:, r, c] -= means[0, :, r] * means[1, :, c] / count
        scale = np.sqrt(np.maximum(squares[0], 0.0) * np.maximum(squares[1], 0.0))
        q, trace = polar_plane(cross), np.zeros(m)
        for r in range(2):
            for c in range(2):
                trace += q[:, r, c] * cross[:, r, c]
        few, none = count <= 2, count == 0
        q[few] = np.where(scale[few] > 0.0, cross[few].T / scale[few], 0.0).T
        q[none] = np.eye(2)
        found = np.where(scale > 0.0, trace / scale, 0.0)
    transitions[edges], weights[edges] = q, np.where(none, 0.0, np.where(few, 1e-3, found))


def _edges(start: int, stop: int, indptr: Any) -> tuple[slice, Any]:
    """The edges of some rows, and the row of each, counted from ``start``."""
    counts = np.diff(indptr[start : stop + 1])
    return slice(indptr[start], indptr[stop]), np.repeat(np.arange(stop - start), counts)
