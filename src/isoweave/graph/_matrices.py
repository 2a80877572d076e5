"""Matrices of distances, sparse or dense, to :class:`NeighborGraph`, with every check of their contents."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from isoweave._parallel import ONE_THREAD
from isoweave._typing import AnyArray, FloatArray
from isoweave._validation import check_integer, check_option, check_real
from isoweave.graph._euclidean import block_rows, nearest_of_all
from isoweave.graph._features import PointGroups, spread_neighbors
from isoweave.graph._graph import (
    MAX_STORED_EDGES,
    NeighborGraph,
    assemble_graph,
    counting_argsort,
    join,
    row_starts,
)


def graph_from_matrix(matrix: Any, *, asymmetry: str = "error", rtol: float = 1e-6) -> NeighborGraph:
    """Check a sparse matrix of distances and turn it into an undirected graph.

    Every stored entry off the diagonal is an edge, **explicit zeros included**: they join duplicates.
    (In the DIA and BSR formats zeros fill up diagonals and blocks; there they are no edges.) An edge
    stored in one direction only counts in both, which is the max-symmetrisation of a kNN graph. An edge
    stored several times keeps its length if all values agree to ``rtol``; otherwise ``asymmetry`` decides.
    Repeated entries are never summed. The matrix is not modified and shares no memory with the result.

    Parameters
    ----------
    matrix : scipy sparse matrix or array of shape (n, n)
        Real or integer, in any format.
    asymmetry : {"error", "max", "min", "mean"}
        What to do with an edge whose stored values differ: refuse, take the largest, the smallest, or
        the mean of the largest and the smallest.
    rtol : float
        Relative difference that counts as rounding (the larger value is then taken). Raised to 16 units
        of rounding of the matrix's own type: 2e-6 for float32.
    """
    check_option("asymmetry", asymmetry, ("error", "max", "min", "mean"))
    rtol = check_real("rtol", rtol, minimum=0, maximum=1, include_maximum=False)
    if isinstance(matrix, NeighborGraph):
        return matrix
    if not sp.issparse(matrix):
        raise TypeError(
            f"Expected a scipy sparse matrix of distances, got {type(matrix).__name__}. A dense array does "
            "not say which zeros are edges: pass scipy.sparse.csr_array(matrix) if none is, or give the full "
            "distance matrix to the estimator with metric='precomputed'."
        )
    _check_kind(matrix)
    if matrix.dtype.kind == "f":
        rtol = max(rtol, 16 * float(np.finfo(matrix.dtype).eps))
    checked = _checked(matrix)
    graph = _as_it_is(checked, rtol) if checked.format != "coo" else None
    if graph is not None:
        return graph
    coo = checked.tocoo(copy=False)
    rows, cols, values = coo.row, coo.col, coo.data
    bad = ~(np.isfinite(values) & (values >= 0))
    if bad.any():
        at = int(np.argmax(bad))
        what = "NaN" if np.isnan(values[at]) else "infinite" if np.isinf(values[at]) else "negative"
        raise ValueError(
            f"Entry ({rows[at]}, {cols[at]}) is {values[at]}: {what} distances are not allowed. Leave out "
            "pairs whose distance is unknown instead of storing them."
        )
    diagonal = rows == cols
    if values[diagonal].any():
        i, value = rows[diagonal & (values != 0)][0], values[diagonal & (values != 0)][0]
        raise ValueError(
            f"Diagonal entry ({i}, {i}) is {value:g}; the distance of a vertex to itself must be zero. "
            "Remove the diagonal, for example with matrix.setdiag(0)."
        )
    if diagonal.any():
        rows, cols, values = rows[~diagonal], cols[~diagonal], values[~diagonal]
    return assemble_graph(matrix.shape[0], rows, cols, values, asymmetry=asymmetry, rtol=rtol)


def _check_kind(matrix: Any) -> None:
    """Refuse what is not a square matrix of real numbers for at least two vertices."""
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"Distances must form a square matrix, got shape {matrix.shape}.")
    if matrix.shape[0] < 2:
        raise ValueError(f"Distances are needed of at least 2 vertices, got shape {matrix.shape}.")
    kind = matrix.dtype.kind
    if kind == "c":
        raise ValueError(f"Complex data not supported: distances must be real, got dtype {matrix.dtype}.")
    if kind not in "fiu":
        hint = " A boolean adjacency has no lengths: multiply it by them." if kind == "b" else ""
        raise TypeError(f"Distances must be real numbers, got a matrix of dtype {matrix.dtype}.{hint}")


def _checked(matrix: Any) -> Any:
    """The matrix as CSR or CSC if it is one, else as COO; values float64, entries in storage order."""
    form, shape = matrix.format, matrix.shape
    # A signalling NaN of float32 is no warning; it is named later with its place.
    with np.errstate(invalid="ignore"):
        try:
            # A matrix made by hand may point outside itself, which would crash compiled code.
            if form in ("csr", "csc"):
                data = np.asarray(matrix.data).astype(np.float64, copy=False)
                kind = sp.csr_array if form == "csr" else sp.csc_array
                compressed = kind((data, matrix.indices, matrix.indptr), shape=shape)
                compressed.check_format(full_check=True)
                return compressed
            coo = matrix.tocoo(copy=False)
            values = np.asarray(coo.data).astype(np.float64, copy=False)
            filled = values != 0 if form == "bsr" else slice(None)
            return sp.coo_array((values[filled], (coo.row[filled], coo.col[filled])), shape=shape)
        except ValueError as error:
            raise ValueError(
                f"The matrix is not a valid {form.upper()} matrix: {error}. Build it again from its entries."
            ) from error


def _as_it_is(matrix: Any, rtol: float) -> NeighborGraph | None:
    """The graph of a CSR or CSC matrix that is sorted, symmetric and without a diagonal; else None."""
    if matrix.nnz > MAX_STORED_EDGES or not matrix.has_canonical_format:
        return None
    # A symmetric matrix has the same arrays in both formats.
    transposed = matrix.T.asformat(matrix.format)
    data, opposite = matrix.data, transposed.data
    rows = np.repeat(np.arange(matrix.shape[0], dtype=np.int32), np.diff(matrix.indptr))
    is_graph = (
        np.array_equal(matrix.indptr, transposed.indptr)
        and np.array_equal(matrix.indices, transposed.indices)
        and not np.any(matrix.indices == rows)
        and data.min(initial=0.0) >= 0
        and data.max(initial=0.0) < np.inf
        and np.all(np.abs(data - opposite) <= rtol * np.maximum(data, opposite))
    )
    arrays = (matrix.indptr.astype(np.int32), matrix.indices.astype(np.int32), np.maximum(data, opposite))
    return NeighborGraph(*arrays) if is_graph else None


def knn_from_distances(D: Any, n_neighbors: int = 10) -> NeighborGraph:
    """Nearest-neighbour graph of points known by all their distances.

    Distances are finite and symmetric, zero on the diagonal, up to the square root of the type's precision
    times the largest one, which is the error of the usual formula. Lengths are the larger of the two entries.
    Duplicates (entries of exactly zero) count once, as in :func:`knn_graph`. Ties for the last place are
    settled by the points' other distances, not by their numbers.

    Examples
    --------
    >>> knn_from_distances([[0, 1, 3], [1, 0, 2], [3, 2, 0]], n_neighbors=1).lengths
    array([1., 1., 2., 2.])
    """
    k = check_integer("n_neighbors", n_neighbors, minimum=1)
    if sp.issparse(D):
        raise TypeError(
            f"Expected a dense distance matrix, got {type(D).__name__}; pass sparse matrices to "
            "graph_from_matrix."
        )
    matrix = np.asarray(D)
    _check_kind(matrix)
    n = len(matrix)
    if k >= n:
        raise ValueError(f"n_neighbors must be less than the number of points, got {k} for {n} points.")
    keys, zero_rows, zero_cols = _check_distances(matrix)
    n_groups, labels = join(n, zero_rows, zero_cols)
    # Groups in the order of a function of their distances, so that ties are settled by geometry.
    number = np.argsort(np.argsort(keys[np.unique(labels, return_index=True)[1]], kind="stable"))[labels]
    members = counting_argsort(number, n_groups).astype(np.int32)
    groups = PointGroups(members, row_starts(number, n_groups))
    first, own = groups.first, np.arange(n_groups, dtype=np.int32)

    def to_all(lo: int, hi: int) -> FloatArray:
        return np.ascontiguousarray(matrix[first[lo:hi]][:, first], dtype=np.float64)

    found = nearest_of_all(to_all, own, min(k, n_groups - 1), ONE_THREAD, block_rows(n))
    rows, cols, _ = spread_neighbors(groups, *found, k)
    lengths = np.maximum(np.maximum(matrix[rows, cols], matrix[cols, rows]).astype(np.float64), 0.0)
    return assemble_graph(n, rows, cols, lengths)


def _check_distances(matrix: AnyArray) -> tuple[FloatArray, AnyArray, AnyArray]:
    """Check all entries; return a key of each row to settle ties by, and the pairs at distance zero."""
    n = len(matrix)
    blocks = [slice(lo, min(lo + block_rows(n), n)) for lo in range(0, n, block_rows(n))]

    def refuse(bad: AnyArray, offset: int, why: str) -> None:
        if bad.any():
            i, j = np.argwhere(bad)[0] + (offset, 0)
            why = why.format(f"({j}, {i}) is {matrix[j, i]}")
            raise ValueError(f"Entry ({i}, {j}) of the distance matrix is {matrix[i, j]}; {why}.")

    precision = np.finfo(matrix.dtype if matrix.dtype.kind == "f" else np.float64).eps
    # Not a number, and then no test but the first fails, if an entry is none.
    tol = float(np.sqrt(precision)) * float(np.maximum(matrix.max(), 0))
    keys = np.empty(n)
    zeros: list[tuple[AnyArray, AnyArray]] = []
    for rows in blocks:
        block = matrix[rows].astype(np.float64)
        refuse(~np.isfinite(block), rows.start, "distances must be finite")
        own = np.eye(len(block), n, rows.start, dtype=np.bool_)
        # Roots, because plain sums of whole numbers are often equal.
        keys[rows] = np.sqrt(np.maximum(block, 0)).sum(axis=1)
        refuse(block < -tol, rows.start, "Negative values in data: distances must not be negative")
        refuse(own & (block > tol), rows.start, "the diagonal must be zero")
        apart = np.abs(block - matrix[:, rows].T) > tol
        refuse(apart, rows.start, "entry {}: distances must be symmetric")
        at = np.nonzero((block <= 0) & ~own)
        zeros.append((at[0] + rows.start, at[1]))
    zero_rows, zero_cols = (np.concatenate(side) for side in zip(*zeros, strict=True))
    return keys, zero_rows, zero_cols
