"""Distances from new points to the points of a map, given as a matrix."""

from __future__ import annotations

from typing import Any

import numpy as np

from isoweave._parallel import ONE_THREAD
from isoweave._typing import AnyArray, FloatArray, IntArray
from isoweave.graph import block_rows, nearest_of_all

Rows = tuple[AnyArray, AnyArray, FloatArray]


def sparse_rows(matrix: Any) -> Rows:
    """Rows of a sparse matrix of distances as ``indptr, indices, distances``; stored zeros are kept.

    Repeated entries are kept as they are, never summed. In the DIA and BSR formats zeros only fill up
    diagonals and blocks, and are left out.

    Parameters
    ----------
    matrix : scipy sparse matrix or array of shape (m, n)
    """
    if matrix.dtype.kind not in "fiu":
        raise TypeError(f"Distances must be real numbers, got a matrix of dtype {matrix.dtype}.")
    if matrix.format == "csr":
        # A matrix made by hand may point outside itself.
        matrix.check_format(full_check=True)
        end = int(matrix.indptr[-1])
        return matrix.indptr, matrix.indices[:end], np.asarray(matrix.data[:end], dtype=np.float64)
    if matrix.format == "csc":
        matrix.check_format(full_check=True)
    entries = matrix.tocoo(copy=False)
    rows, columns, values = entries.row, entries.col, entries.data
    if matrix.format in ("bsr", "dia"):
        filled = values != 0
        rows, columns, values = rows[filled], columns[filled], values[filled]
    order = np.argsort(rows, kind="stable")
    indptr = np.concatenate(([0], np.cumsum(np.bincount(rows, minlength=matrix.shape[0]))))
    return indptr, columns[order], np.asarray(values[order], dtype=np.float64)


def nearest_columns(matrix: AnyArray, columns: IntArray, k: int) -> Rows:
    """The ``k`` nearest of the given columns in every row of a dense matrix of distances.

    Negative values within rounding (the root of the type's precision times the row's largest) are zero.

    Parameters
    ----------
    matrix : array of shape (m, n)
        Finite.
    columns : int array
        One for every distinct point; duplicates must not take the places of others.
    k : int
    """
    precision = np.finfo(matrix.dtype if matrix.dtype.kind == "f" else np.float64).eps

    def to_all(lo: int, hi: int) -> FloatArray:
        block = np.ascontiguousarray(matrix[lo:hi], dtype=np.float64)
        limit = -np.sqrt(precision) * np.abs(block).max(axis=1, keepdims=True)
        if (block < limit).any():
            i, j = np.argwhere(block < limit)[0]
            raise ValueError(
                f"Negative values in data: the distance of new point {lo + i} to point {j} is {block[i, j]}; "
                "distances must not be negative."
            )
        return np.ascontiguousarray(np.maximum(block, 0.0)[:, columns])

    m, k = len(matrix), min(k, len(columns))
    nobody = np.full(m, -1, dtype=np.int32)
    nearest, distances = nearest_of_all(to_all, nobody, k, ONE_THREAD, block_rows(matrix.shape[1]))
    return np.arange(m + 1) * k, columns[nearest.reshape(-1)], distances.reshape(-1)
