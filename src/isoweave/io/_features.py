"""Arrays as features, and dense matrices of distances as graphs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import scipy.sparse as sp

from isoweave._typing import AnyArray
from isoweave.io._errors import InputFileError, quoted
from isoweave.io._sparse import as_distances

_FEATURE_KEYS = ("X", "data", "features")
# Rows are looked at in blocks of this many values, so that no mask is as large as the array.
_BLOCK_VALUES = 1 << 22


def _check_matrix(path: Path, array: AnyArray, label: str) -> None:
    if array.dtype.kind not in "biuf":
        raise InputFileError(path, f"{label}expected real numbers, the array has dtype {array.dtype}")
    if array.ndim != 2 or 0 in array.shape:
        raise InputFileError(
            path, f"{label}expected a 2-D array (samples x features), got shape {array.shape}"
        )


def as_float64(array: AnyArray) -> AnyArray:
    """Any real numbers as float64; what is too large becomes infinite, and is refused by later checks."""
    with np.errstate(all="ignore"):
        return array.astype(np.float64)


def as_features(path: Path, array: AnyArray, label: str = "") -> AnyArray:
    """Check that an array can serve as features; float32 stays, other numbers become float64."""
    _check_matrix(path, array, label)
    if array.dtype not in (np.float32, np.float64) or not array.dtype.isnative:
        array = as_float64(array)
    step = max(1, _BLOCK_VALUES // array.shape[1])
    for start in range(0, len(array), step):
        finite = np.isfinite(array[start : start + step])
        if not finite.all():
            row, column = np.argwhere(~finite)[0] + (start, 0)
            value = array[row, column]
            raise InputFileError(
                path, f"{label}{value} at row {row}, column {column}; features must be finite numbers"
            )
    return array


def features_from_npz(path: Path, arrays: dict[str, AnyArray]) -> AnyArray:
    """The features of an archive: array X, data or features, or the only 2-D array of numbers."""
    for key in _FEATURE_KEYS:
        if key in arrays and arrays[key].ndim >= 2:
            return as_features(path, arrays[key], f"array {key!r}: ")
    matrices = [key for key, array in arrays.items() if array.ndim == 2 and array.dtype.kind in "biuf"]
    if len(matrices) == 1:
        return as_features(path, arrays[matrices[0]], f"array {quoted(matrices[0])}: ")
    shown = [f"{quoted(key)} {array.shape}" for key, array in arrays.items()]
    found = ", ".join(shown[:10]) + (" ..." if len(shown) > 10 else "") or "nothing readable"
    raise InputFileError(
        path, f"expected a 2-D array named X, data or features, or exactly one 2-D array; found {found}"
    )


def graph_from_square(path: Path, array: AnyArray) -> sp.csr_array:
    """A square array of distances as a graph; zeros are missing edges, as in scipy.sparse.csgraph."""
    _check_matrix(path, array, "")
    n_rows, n_columns = array.shape
    if n_rows != n_columns:
        raise InputFileError(path, f"a distance graph needs a square matrix, got {n_rows} x {n_columns}")
    # Row by row in blocks, so that only the result is as large as the number of edges.
    indptr = np.zeros(n_rows + 1, dtype=np.int64)
    indices: list[AnyArray] = []
    lengths: list[AnyArray] = []
    step = max(1, _BLOCK_VALUES // n_columns)
    for start in range(0, n_rows, step):
        block = np.asarray(array[start : start + step])
        row, col = np.nonzero(block)
        indptr[start + 1 : start + 1 + len(block)] = np.bincount(row, minlength=len(block))
        indices.append(col.astype(np.int32))
        lengths.append(as_float64(block[row, col]))
    np.cumsum(indptr, out=indptr)
    index_type = np.int32 if indptr[-1] < 2**31 else np.int64
    parts = (
        np.concatenate(lengths),
        np.concatenate(indices).astype(index_type, copy=False),
        indptr.astype(index_type),
    )
    return as_distances(path, sp.csr_array(parts, shape=array.shape))
