"""Features and distance graphs from arrays that may be hostile: checked before compiled code sees them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import scipy.sparse as sp

from isoweave._typing import AnyArray
from isoweave.io._source import InputFileError, check_expansion, quoted

# A graph this much larger than its number of entries is a mistake (or an attack), not a data set.
_MAX_EMPTY_VERTICES = 1_000_000
_VERTICES_PER_ENTRY = 100
# Row pointers, and what it takes to make them, per row or column that is declared.
_BYTES_PER_VERTEX = 16
# Sparse features are held dense, up to this many bytes.
_MAX_DENSE_BYTES = 8 << 30
# A dense matrix of distances is taken in blocks of this many values.
_BLOCK_VALUES = 1 << 22
_FEATURE_KEYS = ("X", "data", "features")
_CSR_KEYS = ("data", "indices", "indptr")


def matrix_from_npz(path: Path, arrays: dict[str, AnyArray]) -> AnyArray | sp.csr_array:
    """The matrix of an archive.

    A sparse one if scipy's save_npz wrote it or its arrays are those of CSR; else the array X, data or
    features, or the only 2-D array of numbers.
    """
    is_bare = all(key in arrays and arrays[key].ndim == 1 for key in _CSR_KEYS)
    if is_bare or {"format", "shape"} <= arrays.keys():
        return sparse_from_arrays(path, arrays, path.stat().st_size)
    matrices = [key for key, array in arrays.items() if array.ndim == 2 and array.dtype.kind in "biuf"]
    key = next((key for key in _FEATURE_KEYS if key in arrays and arrays[key].ndim >= 2), None)
    if key is None and len(matrices) == 1:
        key = matrices[0]
    if key is not None:
        return as_features(path, arrays[key], f"array {quoted(key)}: ")
    shown = [f"{quoted(name)} {array.shape}" for name, array in arrays.items()]
    found = ", ".join(shown[:10]) + (" ..." if len(shown) > 10 else "") or "nothing readable"
    wanted = "a 2-D array named X, data or features, or exactly one 2-D array"
    raise InputFileError(path, f"expected {wanted}; found {found}")


def _check_matrix(path: Path, array: AnyArray, label: str = "") -> None:
    if array.dtype.kind not in "biuf":
        raise InputFileError(path, f"{label}expected real numbers, the array has dtype {array.dtype}")
    if array.ndim != 2 or 0 in array.shape:
        wanted = "a 2-D array (samples x features)"
        raise InputFileError(path, f"{label}expected {wanted}, got shape {array.shape}")


def _as_float64(array: AnyArray) -> AnyArray:
    """Any real numbers as float64; what is too large becomes infinite, and is refused by later checks."""
    with np.errstate(all="ignore"):
        return array.astype(np.float64)


def as_features(path: Path, array: AnyArray, label: str = "") -> AnyArray:
    """Check that an array can serve as features; float32 stays, other numbers become float64."""
    _check_matrix(path, array, label)
    if array.dtype not in (np.float32, np.float64) or not array.dtype.isnative:
        array = _as_float64(array)
    finite = np.isfinite(array)
    if not finite.all():
        row, column = np.argwhere(~finite)[0]
        where = f"{array[row, column]} at row {row}, column {column}"
        raise InputFileError(path, f"{label}{where}; features must be finite numbers")
    return array


def graph_from_square(path: Path, array: AnyArray) -> sp.csr_array:
    """A square array of distances as a graph; zeros are missing edges, as in scipy.sparse.csgraph."""
    _check_matrix(path, array)
    check_square(path, array.shape)
    # Row by row in blocks, so that only the result is as large as the number of edges.
    step = max(1, _BLOCK_VALUES // len(array))
    starts = range(0, len(array), step)
    return sp.vstack([sp.csr_array(_as_float64(array[at : at + step])) for at in starts], format="csr")


def sparse_from_arrays(path: Path, arrays: dict[str, AnyArray], file_size: int) -> sp.csr_array:
    """The sparse matrix of an archive in compressed rows, every index checked."""
    layout = _layout(path, arrays)
    for key in ("data", "row", "col") if layout == "coo" else _CSR_KEYS:
        if key not in arrays:
            raise InputFileError(path, f"sparse {layout} matrix without its array {key!r}")
        found = arrays[key]
        wanted, kinds = ("numbers", "biuf") if key == "data" else ("integers", "iu")
        if found.ndim != 1 or found.dtype.kind not in kinds:
            said = f"must be 1-D {wanted}, got {found.dtype} of shape {found.shape}"
            raise InputFileError(path, f"array {key!r} of a sparse matrix {said}")
    data = _as_float64(arrays["data"])
    n_rows, n_columns = shape = _sparse_shape(path, arrays, layout)
    check_size(path, n_rows, n_columns, len(data), file_size)

    if layout == "coo":
        row = _checked_indices(path, "row", arrays["row"], n_rows, len(data))
        col = _checked_indices(path, "col", arrays["col"], n_columns, len(data))
        return csr_from_triplets(row, col, data, shape)
    n_major, n_minor = shape if layout == "csr" else shape[::-1]
    minor = _checked_indices(path, "indices", arrays["indices"], n_minor, len(data))
    indptr = _checked_indptr(path, arrays["indptr"], n_major, len(data))
    major = np.repeat(np.arange(n_major), np.diff(indptr))
    row, col = (major, minor) if layout == "csr" else (minor, major)
    return csr_from_triplets(row, col, data, shape)


def _layout(path: Path, arrays: dict[str, AnyArray]) -> str:
    if "format" not in arrays:
        return "csr"
    array = arrays["format"]
    name = f"{array.dtype} of shape {array.shape}"
    # scipy stores three bytes; text, which numpy keeps in four bytes a letter, need not even be valid.
    if array.size == 1 and array.dtype.kind in "SU":
        name = array.tobytes()[:32].replace(b"\0", b"").decode("ascii", "replace")
    if name not in ("csr", "csc", "coo"):
        raise InputFileError(path, f"sparse format {quoted(name)} is not supported; save the matrix as csr")
    return name


def _sparse_shape(path: Path, arrays: dict[str, AnyArray], layout: str) -> tuple[int, int]:
    if "shape" not in arrays and layout == "csr":
        n = max(0, len(arrays["indptr"]) - 1)
        return n, n
    shape = arrays.get("shape", np.empty(0))
    if shape.shape != (2,) or shape.dtype.kind not in "iu" or (shape < 0).any():
        found = f"{shape.dtype} of shape {shape.shape}"
        if shape.shape == (2,) and shape.dtype.kind == "i":
            found = f"{shape[0]} x {shape[1]}"
        raise InputFileError(path, f"array 'shape' of a sparse matrix must be two sizes, got {found}")
    return int(shape[0]), int(shape[1])


def _checked_indices(path: Path, name: str, indices: AnyArray, size: int, n_entries: int) -> AnyArray:
    if len(indices) != n_entries:
        raise InputFileError(path, f"array {name!r} has {len(indices)} values, 'data' has {n_entries}")
    outside = (indices < 0) | (indices >= size)
    if outside.any():
        at = int(np.argmax(outside))
        said = f"holds {indices[at]} at position {at}, outside 0 to {size - 1}"
        raise InputFileError(path, f"array {name!r} {said}")
    return indices.astype(np.int64)


def _checked_indptr(path: Path, indptr: AnyArray, n_major: int, n_entries: int) -> AnyArray:
    # Compared, not subtracted: differences of large 64-bit numbers wrap around and look innocent.
    is_sound = len(indptr) == n_major + 1 and indptr[0] == 0 and indptr[-1] == n_entries
    if not is_sound or (indptr[1:] < indptr[:-1]).any():
        raise InputFileError(
            path,
            f"array 'indptr' must rise from 0 to {n_entries} over {n_major + 1} values; "
            f"it has {len(indptr)}, from {indptr[:1]} to {indptr[-1:]}",
        )
    return indptr.astype(np.int64)


def check_square(path: Path, shape: tuple[int, ...]) -> None:
    if shape[0] != shape[1]:
        raise InputFileError(path, f"a distance graph needs a square matrix, got {shape[0]} x {shape[1]}")


def check_size(
    path: Path, n_rows: int, n_columns: int, n_entries: int, file_size: int, line: int | None = None
) -> None:
    """Refuse a sparse matrix whose declared size is out of proportion to what the file holds."""
    largest, what = max(n_rows, n_columns), f"a {n_rows} x {n_columns} matrix"
    if largest > max(_MAX_EMPTY_VERTICES, _VERTICES_PER_ENTRY * n_entries) or largest >= 2**31:
        raise InputFileError(path, f"{what} with only {n_entries} entries is refused", line)
    check_expansion(path, _BYTES_PER_VERTEX * largest, file_size, what)


def sorted_pairs(row: AnyArray, col: AnyArray, shape: tuple[int, int]) -> AnyArray:
    """Stable order of entries by row and then by column; all must lie inside ``shape``."""
    from isoweave.graph import counting_argsort

    order = counting_argsort(col, shape[1])
    return order[counting_argsort(row[order], shape[0])]


def csr_from_triplets(row: AnyArray, col: AnyArray, data: AnyArray, shape: tuple[int, int]) -> sp.csr_array:
    """Compressed rows with sorted columns; explicit zeros and repeated entries are kept as they are."""
    order = sorted_pairs(row, col, shape)
    indptr = np.zeros(shape[0] + 1, dtype=np.int64)
    np.cumsum(np.bincount(row, minlength=shape[0]), out=indptr[1:])
    index_type = np.int32 if max(*shape, len(data)) < 2**31 else np.int64
    return sp.csr_array((data[order], col[order].astype(index_type), indptr.astype(index_type)), shape=shape)


def as_distances(path: Path, matrix: sp.csr_array) -> sp.csr_array:
    """Check that a sparse matrix can serve as a distance graph: square, finite, no negative length."""
    check_square(path, matrix.shape)
    bad = ~(np.isfinite(matrix.data) & (matrix.data >= 0))
    if bad.any():
        at = int(np.argmax(bad))
        i, j = int(np.searchsorted(matrix.indptr, at, side="right")) - 1, matrix.indices[at]
        where = f"distance {matrix.data[at]} between vertices {i} and {j}"
        raise InputFileError(path, f"{where}; distances must be finite and not negative")
    return matrix


def densify(path: Path, matrix: sp.csr_array) -> AnyArray:
    """Sparse features as an ordinary array; repeated entries are summed, as sparse formats mean them."""
    n_bytes, what = 8 * matrix.shape[0] * matrix.shape[1], f"sparse features of shape {matrix.shape}"
    check_expansion(path, n_bytes, path.stat().st_size, f"{what}, held dense,")
    if n_bytes > _MAX_DENSE_BYTES:
        hint = "reduce them first (for example with TruncatedSVD)"
        raise InputFileError(path, f"{what} would take {n_bytes / 2**30:.0f} GiB held dense; {hint}")
    dense: AnyArray = matrix.toarray()
    return dense
