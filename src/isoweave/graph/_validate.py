"""Sparse matrices of local distances to :class:`NeighborGraph`, with every check of their contents."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from isoweave._typing import AnyArray, FloatArray, IntArray
from isoweave._validation import check_option, check_real
from isoweave.graph._graph import NeighborGraph, row_starts

ASYMMETRY_POLICIES = ("error", "max", "min", "mean")

# Vertices and stored edges (two per undirected edge) are numbered by int32 in every kernel.
MAX_STORED_EDGES = 2**31 - 1


def graph_from_matrix(matrix: Any, *, asymmetry: str = "error", rtol: float = 1e-6) -> NeighborGraph:
    """Check a sparse matrix of distances and turn it into an undirected graph.

    Every stored entry off the diagonal is an edge, **explicit zeros included**: they join duplicates.
    (In the DIA and BSR formats zeros fill up diagonals and blocks; there they are no edges.) An edge
    stored in one direction only counts in both, which is the max-symmetrisation of a kNN graph. An edge
    stored several times, in both directions or as repeated entries, keeps its length if all values
    agree to ``rtol``; otherwise ``asymmetry`` decides. Repeated entries are never summed.

    Parameters
    ----------
    matrix : scipy sparse matrix or array of shape (n, n)
        Any format, real or integer values, 32- or 64-bit indices, sorted or not. It is not modified and
        shares no memory with the result.
    asymmetry : {"error", "max", "min", "mean"}
        What to do with an edge whose stored values differ: refuse, take the largest, the smallest, or
        the mean of the largest and the smallest.
    rtol : float
        Relative difference that counts as rounding (the larger value is then taken). Raised to 16 units
        of rounding of the matrix's own type: 2e-6 for float32.

    Raises
    ------
    TypeError
        Not a scipy sparse matrix, or boolean or non-numeric values.
    ValueError
        Not square, fewer than 2 vertices, complex, or an entry that is NaN, infinite, negative, on the
        diagonal and not zero, or in conflict with its opposite; the first such entry is named.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> matrix = sp.coo_array(([1.0, 2.0], ([0, 1], [1, 2])), shape=(3, 3))
    >>> graph = graph_from_matrix(matrix)
    >>> graph.n_vertices, graph.n_edges
    (3, 2)
    """
    check_option("asymmetry", asymmetry, ASYMMETRY_POLICIES)
    rtol = check_real("rtol", rtol, minimum=0, maximum=1, include_maximum=False)
    if isinstance(matrix, NeighborGraph):
        return matrix
    _check_kind(matrix)
    n = matrix.shape[0]
    if np.issubdtype(matrix.dtype, np.floating):
        rtol = max(rtol, 16 * float(np.finfo(matrix.dtype).eps))

    if matrix.format in ("csr", "csc"):
        fast = _symmetric_as_it_is(matrix, rtol)
        if fast is not None:
            return fast
    rows, cols, values = _entries(matrix)
    if not len(rows) == len(cols) == len(values):
        raise ValueError(
            f"The matrix holds {len(rows)} row numbers, {len(cols)} column numbers and {len(values)} values; "
            "there must be one of each per entry. Build it again from its entries."
        )
    _check_values(rows, cols, values)
    off_diagonal = rows != cols
    if not off_diagonal.all():
        at = np.flatnonzero(~off_diagonal & (values != 0))
        if len(at):
            raise ValueError(
                f"Diagonal entry ({rows[at[0]]}, {cols[at[0]]}) is {values[at[0]]:g}; the distance of a "
                "vertex to itself must be zero. Remove the diagonal, for example with matrix.setdiag(0)."
            )
        rows, cols, values = rows[off_diagonal], cols[off_diagonal], values[off_diagonal]
    return assemble_graph(n, rows, cols, values, asymmetry=asymmetry, rtol=rtol)


def assemble_graph(
    n: int,
    rows: AnyArray,
    cols: AnyArray,
    values: FloatArray,
    *,
    asymmetry: str = "max",
    rtol: float = 0.0,
) -> NeighborGraph:
    """Graph of n vertices from entries whose ends differ, in any order and with repetitions.

    Each is taken in both directions; equal pairs are made one as ``asymmetry`` and ``rtol`` say, see
    :func:`graph_from_matrix`.
    """
    # Every edge as (smaller, larger) end. Two stable counting sorts, by larger and then by smaller end, are
    # linear in the number of entries and, unlike scipy's A.maximum(A.T), neither sum repeated entries nor
    # drop explicit zeros.
    small = np.minimum(rows, cols).astype(np.int32, copy=False)
    large = np.maximum(rows, cols).astype(np.int32, copy=False)
    order = counting_argsort(large, n)
    order = order[counting_argsort(small[order], n)]
    small, large, lengths = small[order], large[order], values[order]
    first = np.ones(len(order), dtype=np.bool_)
    first[1:] = (small[1:] != small[:-1]) | (large[1:] != large[:-1])
    if not first.all():
        starts = np.flatnonzero(first)
        small, large = small[starts], large[starts]
        lengths, smallest = np.maximum.reduceat(lengths, starts), np.minimum.reduceat(lengths, starts)
        conflict = lengths - smallest > rtol * lengths
        if asymmetry == "error" and conflict.any():
            at = int(np.argmax(conflict))
            _raise_conflict(rows, cols, values, int(small[at]), int(large[at]), rtol)
        elif asymmetry == "min":
            lengths = np.where(conflict, smallest, lengths)
        elif asymmetry == "mean":
            lengths = np.where(conflict, 0.5 * smallest + 0.5 * lengths, lengths)
    return _mirror(n, small, large, lengths)


def _mirror(n: int, small: IntArray, large: IntArray, lengths: FloatArray) -> NeighborGraph:
    """Graph of edges given once each, sorted by smaller and then by larger end."""
    m = len(small)
    if 2 * m > MAX_STORED_EDGES:
        raise ValueError(
            f"The graph has {m} edges, more than the {MAX_STORED_EDGES // 2} that 32-bit indices can number. "
            "Use fewer neighbours per vertex."
        )
    upper, lower = row_starts(small, n), row_starts(large, n)
    order = counting_argsort(large, n)
    # In each row the edges to smaller vertices come first, then those to larger ones.
    here = np.arange(m, dtype=np.int32)
    at_upper = here + lower[1:][small]
    at_lower = here + upper[:-1][large[order]]
    indices, both = np.empty(2 * m, dtype=np.int32), np.empty(2 * m)
    indices[at_upper], both[at_upper] = large, lengths
    indices[at_lower], both[at_lower] = small[order], lengths[order]
    return NeighborGraph(upper + lower, indices, both)


def counting_argsort(keys: AnyArray, n: int) -> NDArray[np.intp]:
    """Stable argsort of integers in ``0 .. n``, linear in their number."""
    # Reading the keys as a matrix with one entry per row and turning it into column order is exactly a
    # counting sort, and scipy has it compiled; it takes a third of the time of numpy's lexsort.
    m = len(keys)
    index_type = np.int32 if max(m, n) < 2**31 else np.int64
    table = sp.csr_array(
        (np.ones(m, dtype=np.int8), keys.astype(index_type, copy=False), np.arange(m + 1, dtype=index_type)),
        shape=(m, n),
    )
    return np.asarray(table.tocsc().indices)


def _check_kind(matrix: Any) -> None:
    """Refuse what is not a square, real, sparse matrix of at least two vertices."""
    if not sp.issparse(matrix):
        raise TypeError(
            f"Expected a scipy sparse matrix of distances, got {type(matrix).__name__}. A dense array does "
            "not say which zeros are edges: pass scipy.sparse.csr_array(matrix) if none is, or give the full "
            "distance matrix to the estimator with metric='precomputed'."
        )
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"A distance graph must be a square matrix, got shape {matrix.shape}.")
    if matrix.shape[0] < 2:
        raise ValueError(f"A distance graph needs at least 2 vertices, got shape {matrix.shape}.")
    if matrix.shape[0] > MAX_STORED_EDGES:
        raise ValueError(f"At most {MAX_STORED_EDGES} vertices are supported, got {matrix.shape[0]}.")
    kind = matrix.dtype.kind
    if kind == "c":
        raise ValueError(
            f"Complex data not supported: the matrix has dtype {matrix.dtype}; distances must be real."
        )
    if kind not in "fiu":
        hint = " A boolean adjacency has no lengths: multiply it by them." if kind == "b" else ""
        raise TypeError(f"Distances must be real numbers, got a matrix of dtype {matrix.dtype}.{hint}")


def _entries(matrix: Any) -> tuple[AnyArray, AnyArray, FloatArray]:
    """Row, column and value of every stored entry, in storage order."""
    if matrix.format in ("csr", "csc"):
        _check_compressed(matrix)
        major = np.repeat(np.arange(matrix.shape[0], dtype=np.int32), np.diff(matrix.indptr))
        minor = np.asarray(matrix.indices[: len(major)])
        rows, cols = (major, minor) if matrix.format == "csr" else (minor, major)
        values = matrix.data[: len(major)]
    else:
        coo = matrix.tocoo(copy=False)
        rows, cols, values = coo.row, coo.col, coo.data
        if matrix.format == "bsr":
            filled = values != 0
            rows, cols, values = rows[filled], cols[filled], values[filled]
        if matrix.format == "coo":
            _check_range(matrix.shape[0], rows, cols)
    return rows, cols, _as_float64(values)


def _as_float64(values: Any) -> FloatArray:
    """The values as float64; a signalling NaN of float32 is no warning, it is named later with its place."""
    with np.errstate(invalid="ignore"):
        return np.asarray(values).astype(np.float64, copy=False)


def _symmetric_as_it_is(matrix: Any, rtol: float) -> NeighborGraph | None:
    """The graph of a sorted, symmetric matrix without repeated or diagonal entries; else None."""
    _check_compressed(matrix)
    n = matrix.shape[0]
    indptr, m = matrix.indptr, int(matrix.indptr[-1])
    if m > MAX_STORED_EDGES:
        return None
    indices, data = matrix.indices[:m], _as_float64(matrix.data[:m])
    rising = np.ones(m, dtype=np.bool_)
    np.greater(indices[1:], indices[:-1], out=rising[1:])
    rising[indptr[:-1][indptr[:-1] < m]] = True
    if not rising.all():
        return None
    # The arrays of a CSR and of a CSC matrix describe transposes of each other; for a symmetric matrix
    # it does not matter which, and conversion to the other order must give the same arrays back.
    transposed = sp.csr_array((data, indices, indptr), shape=(n, n)).tocsc()
    if not (np.array_equal(transposed.indptr, indptr) and np.array_equal(transposed.indices, indices)):
        return None
    opposite = transposed.data
    if (
        np.any(indices == np.repeat(np.arange(n, dtype=np.int32), np.diff(indptr)))
        or not np.isfinite(data).all()
        or (m and data.min() < 0)
        or np.any(np.abs(data - opposite) > rtol * np.maximum(data, opposite))
    ):
        return None
    return NeighborGraph(
        np.array(indptr, dtype=np.int32), np.array(indices, dtype=np.int32), np.maximum(data, opposite)
    )


def _check_compressed(matrix: Any) -> None:
    """A hand-made CSR or CSC matrix may point outside itself, which would crash compiled code."""
    n = matrix.shape[0]
    indptr, indices = matrix.indptr, matrix.indices
    if len(indptr) != n + 1 or indptr[0] != 0 or np.any(indptr[1:] < indptr[:-1]):
        raise ValueError(
            f"The matrix is not a valid {matrix.format.upper()} matrix: indptr must have {n + 1} entries, "
            "start at 0 and never decrease."
        )
    m = int(indptr[-1])
    if m > len(indices) or m > len(matrix.data):
        raise ValueError(
            f"The matrix is not a valid {matrix.format.upper()} matrix: indptr declares {m} entries, but "
            f"there are {len(indices)} indices and {len(matrix.data)} values."
        )
    _check_range(n, indices[:m])


def _check_range(n: int, *indices_of_entries: AnyArray) -> None:
    for indices in indices_of_entries:
        if len(indices) and (indices.min() < 0 or indices.max() >= n):
            at = int(np.argmax((indices < 0) | (indices >= n)))
            raise ValueError(f"Stored entry {at} has index {indices[at]}, outside 0 .. {n - 1}.")


def _check_values(rows: AnyArray, cols: AnyArray, values: FloatArray) -> None:
    if np.isfinite(values).all() and (not len(values) or values.min() >= 0):
        return
    at = int(np.argmax(~(np.isfinite(values) & (values >= 0))))
    value = values[at]
    what = "NaN" if np.isnan(value) else "infinite" if np.isinf(value) else "negative"
    raise ValueError(
        f"Entry ({rows[at]}, {cols[at]}) is {value}: {what} distances are not allowed. Leave out pairs "
        "whose distance is unknown instead of storing them."
    )


def _raise_conflict(
    rows: AnyArray, cols: AnyArray, values: FloatArray, i: int, j: int, rtol: float
) -> NoReturn:
    forward = values[(rows == i) & (cols == j)]
    backward = values[(rows == j) & (cols == i)]
    stored = " and ".join(
        f"entry ({a}, {b}) = {', '.join(repr(float(v)) for v in found[:4])}"
        for a, b, found in ((i, j, forward), (j, i, backward))
        if len(found)
    )
    raise ValueError(
        f"The distances of one edge disagree: {stored}; they differ by more than rounding "
        f"(rtol = {rtol:g}). Choose asymmetry='max', 'min' or 'mean' to resolve such edges."
    )
