"""Sparse matrices from arrays that may be hostile: every index is checked before compiled code sees it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import scipy.sparse as sp

from isoweave._typing import AnyArray
from isoweave.io._errors import InputFileError, quoted
from isoweave.io._open import check_expansion

# A graph this much larger than its number of entries is a mistake (or an attack), not a data set.
_MAX_EMPTY_VERTICES = 1_000_000
_VERTICES_PER_ENTRY = 100
# Row pointers, and what it takes to make them, per row or column that is declared.
_BYTES_PER_VERTEX = 16
# Sparse features are held dense, up to this many bytes.
_MAX_DENSE_BYTES = 8 << 30

_CSR_KEYS = ("data", "indices", "indptr")


def is_sparse_npz(arrays: dict[str, AnyArray]) -> bool:
    """Whether an archive is a sparse matrix: written by scipy's save_npz, or bare CSR arrays."""
    return {"format", "shape"} <= arrays.keys() or all(
        key in arrays and arrays[key].ndim == 1 for key in _CSR_KEYS
    )


def sparse_from_arrays(path: Path, arrays: dict[str, AnyArray], file_size: int) -> sp.csr_array:
    """The sparse matrix of an archive in compressed rows, every index checked."""
    layout = _layout(path, arrays)
    for key in ("data", "row", "col") if layout == "coo" else _CSR_KEYS:
        kinds = "biuf" if key == "data" else "iu"
        if key not in arrays:
            raise InputFileError(path, f"sparse {layout} matrix without its array {key!r}")
        if arrays[key].ndim != 1 or arrays[key].dtype.kind not in kinds:
            raise InputFileError(
                path,
                f"array {key!r} of a sparse matrix must be 1-D {'numbers' if key == 'data' else 'integers'}, "
                f"got {arrays[key].dtype} of shape {arrays[key].shape}",
            )
    with np.errstate(all="ignore"):  # extended precision may overflow; infinite distances are refused later
        data = arrays["data"].astype(np.float64)
    n_rows, n_columns = _sparse_shape(path, arrays, layout)
    check_size(path, n_rows, n_columns, len(data), file_size)

    if layout == "coo":
        row = _checked_indices(path, "row", arrays["row"], n_rows, len(data))
        col = _checked_indices(path, "col", arrays["col"], n_columns, len(data))
        return csr_from_triplets(row, col, data, (n_rows, n_columns))
    n_major, n_minor = (n_rows, n_columns) if layout == "csr" else (n_columns, n_rows)
    indices = _checked_indices(path, "indices", arrays["indices"], n_minor, len(data))
    indptr = _checked_indptr(path, arrays["indptr"], n_major, len(data))
    major = np.repeat(np.arange(n_major), np.diff(indptr))
    row, col = (major, indices) if layout == "csr" else (indices, major)
    return csr_from_triplets(row, col, data, (n_rows, n_columns))


def _layout(path: Path, arrays: dict[str, AnyArray]) -> str:
    if "format" not in arrays:
        return "csr"
    array = arrays["format"]
    # scipy stores three bytes; anything longer is not looked at, text need not even be valid.
    if array.size == 1 and array.dtype.kind == "S" and array.dtype.itemsize <= 8:
        name = array.reshape(-1)[0].decode("ascii", "replace")
    elif array.size == 1 and array.dtype.kind == "U" and array.dtype.itemsize <= 32:
        codes = np.frombuffer(array.astype(array.dtype.newbyteorder("=")).tobytes(), dtype=np.uint32)
        name = "".join(chr(code) for code in codes if 0 < code < 128)
    else:
        name = f"{array.dtype} of shape {array.shape}"
    if name not in ("csr", "csc", "coo"):
        raise InputFileError(path, f"sparse format {quoted(name)} is not supported; save the matrix as csr")
    return name


def _sparse_shape(path: Path, arrays: dict[str, AnyArray], layout: str) -> tuple[int, int]:
    if "shape" not in arrays and layout == "csr":
        n = max(0, len(arrays["indptr"]) - 1)
        return n, n
    shape = arrays.get("shape")
    if shape is None or shape.shape != (2,) or shape.dtype.kind not in "iu" or (shape < 0).any():
        found = "none" if shape is None else f"{shape.dtype} of shape {shape.shape}"
        if shape is not None and shape.shape == (2,) and shape.dtype.kind == "i":
            found = f"{shape[0]} x {shape[1]}"
        raise InputFileError(path, f"array 'shape' of a sparse matrix must be two sizes, got {found}")
    return int(shape[0]), int(shape[1])


def _checked_indices(path: Path, name: str, indices: AnyArray, size: int, n_entries: int) -> AnyArray:
    if len(indices) != n_entries:
        raise InputFileError(path, f"array {name!r} has {len(indices)} values, 'data' has {n_entries}")
    outside = (indices < 0) | (indices >= size)
    if outside.any():
        position = int(np.argmax(outside))
        raise InputFileError(
            path, f"array {name!r} holds {indices[position]} at position {position}, outside 0 to {size - 1}"
        )
    return indices.astype(np.int64)


def _checked_indptr(path: Path, indptr: AnyArray, n_major: int, n_entries: int) -> AnyArray:
    # Compared, not subtracted: differences of large 64-bit numbers wrap around and look innocent.
    if (
        len(indptr) != n_major + 1
        or indptr[0] != 0
        or indptr[-1] != n_entries
        or (indptr[1:] < indptr[:-1]).any()
    ):
        raise InputFileError(
            path,
            f"array 'indptr' must rise from 0 to {n_entries} over {n_major + 1} values; "
            f"it has {len(indptr)}, from {indptr[:1]} to {indptr[-1:]}",
        )
    return indptr.astype(np.int64)


def check_size(
    path: Path, n_rows: int, n_columns: int, n_entries: int, file_size: int, line: int | None = None
) -> None:
    """Refuse a sparse matrix whose declared size is out of proportion to what the file holds."""
    largest = max(n_rows, n_columns)
    if largest > max(_MAX_EMPTY_VERTICES, _VERTICES_PER_ENTRY * n_entries) or largest >= 2**31:
        raise InputFileError(
            path, f"a {n_rows} x {n_columns} matrix with only {n_entries} entries is refused", line
        )
    check_expansion(path, _BYTES_PER_VERTEX * largest, file_size, f"a {n_rows} x {n_columns} matrix")


def sorted_pairs(row: AnyArray, col: AnyArray, shape: tuple[int, int]) -> AnyArray:
    """Stable order of entries by row and then by column; all must lie inside ``shape``."""
    order = _counting_order(col, shape[1])
    return order[_counting_order(row[order], shape[0])]


def _counting_order(keys: AnyArray, n: int) -> AnyArray:
    # A matrix with one entry per row, turned into column order, is a counting sort that scipy has compiled;
    # it takes a third of the time of numpy's lexsort.
    m = len(keys)
    index_type = np.int32 if max(m, n) < 2**31 else np.int64
    parts = (np.ones(m, np.int8), keys.astype(index_type), np.arange(m + 1, dtype=index_type))
    return np.asarray(sp.csr_array(parts, shape=(m, n)).tocsc().indices)


def csr_from_triplets(row: AnyArray, col: AnyArray, data: AnyArray, shape: tuple[int, int]) -> sp.csr_array:
    """Compressed rows with sorted columns; explicit zeros and repeated entries are kept as they are."""
    order = sorted_pairs(row, col, shape)
    indptr = np.zeros(shape[0] + 1, dtype=np.int64)
    np.cumsum(np.bincount(row, minlength=shape[0]), out=indptr[1:])
    index_type = np.int32 if max(*shape, len(data)) < 2**31 else np.int64
    return sp.csr_array((data[order], col[order].astype(index_type), indptr.astype(index_type)), shape=shape)


def as_distances(path: Path, matrix: sp.csr_array, label: str = "") -> sp.csr_array:
    """Check that a sparse matrix can serve as a distance graph: square, finite, no negative length."""
    n_rows, n_columns = matrix.shape
    if n_rows != n_columns:
        raise InputFileError(
            path, f"{label}a distance graph needs a square matrix, got {n_rows} x {n_columns}"
        )
    bad = ~(np.isfinite(matrix.data) & (matrix.data >= 0))
    if bad.any():
        position = int(np.argmax(bad))
        i = int(np.searchsorted(matrix.indptr, position, side="right")) - 1
        raise InputFileError(
            path,
            f"{label}distance {matrix.data[position]} between vertices {i} and {matrix.indices[position]}; "
            "distances must be finite and not negative",
        )
    return matrix


def densify(path: Path, matrix: sp.csr_array, file_size: int) -> AnyArray:
    """Sparse features as an ordinary array; repeated entries are summed, as sparse formats mean them."""
    n_bytes = 8 * matrix.shape[0] * matrix.shape[1]
    check_expansion(path, n_bytes, file_size, f"sparse features of shape {matrix.shape}, held dense,")
    if n_bytes > _MAX_DENSE_BYTES:
        raise InputFileError(
            path,
            f"sparse features of shape {matrix.shape} would take {n_bytes / 2**30:.0f} GiB held dense; "
            "reduce them first (for example with TruncatedSVD)",
        )
    dense: AnyArray = matrix.toarray()
    return dense
