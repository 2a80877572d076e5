"""Strict reading of .npy and .npz, and the checks all readers share."""

from __future__ import annotations

import math
import zipfile
import zlib
from pathlib import Path
from typing import IO, Any

import numpy as np
import scipy.sparse as sp

from isoweave._typing import AnyArray
from isoweave.io._errors import InputFileError

# A graph this much larger than its number of entries is a mistake (or an attack), not a data set.
_MAX_EMPTY_VERTICES = 1_000_000
_VERTICES_PER_ENTRY = 100
# Sparse features are held dense, up to this many bytes.
_MAX_DENSE_BYTES = 8 << 30

_FEATURE_KEYS = ("X", "data", "features")
_CSR_KEYS = ("data", "indices", "indptr")


def read_npy(path: Path) -> AnyArray:
    """The array in a .npy file; larger files are memory-mapped rather than read."""
    with path.open("rb") as file:
        shape, _, dtype = _read_header(path, file, path.stat().st_size, "")
        if dtype.hasobject:
            raise InputFileError(path, "the array holds Python objects (dtype object); save it as numbers")
        is_large = math.prod(shape) * dtype.itemsize > 1 << 26
        if not is_large:
            file.seek(0)
            return np.lib.format.read_array(file, allow_pickle=False)
    array: AnyArray = np.load(path, mmap_mode="r", allow_pickle=False)
    return array


def read_npz(path: Path) -> dict[str, AnyArray]:
    """Every array of a .npz archive whose dtype is plain (numbers, booleans, strings).

    Arrays of Python objects are left out: reading them would run code from the file.
    """
    arrays: dict[str, AnyArray] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                if not info.filename.endswith(".npy"):
                    continue
                name = info.filename[: -len(".npy")]
                with archive.open(info) as file:
                    _, _, dtype = _read_header(path, file, info.file_size, f"array {name!r}: ")
                if dtype.hasobject:
                    continue
                with archive.open(info) as file:
                    arrays[name] = np.lib.format.read_array(file, allow_pickle=False)
    except InputFileError:
        raise
    except zipfile.BadZipFile as error:
        raise InputFileError(path, f"not a .npz archive, or a damaged one ({error})") from error
    except (ValueError, EOFError, RuntimeError, NotImplementedError, zlib.error) as error:
        raise InputFileError(path, f"damaged .npz archive ({error})") from error
    return arrays


def _read_header(
    path: Path, file: IO[bytes], n_bytes: int, label: str
) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, order and dtype of an array, once its data is known to be all there."""
    try:
        version = np.lib.format.read_magic(file)
        if version == (1, 0):
            header = np.lib.format.read_array_header_1_0(file)
        elif version == (2, 0):
            header = np.lib.format.read_array_header_2_0(file)
        else:
            # Version 3 exists for structured arrays with Unicode field names, which hold no features.
            raise InputFileError(path, f"{label}.npy format version {version} is not supported")
    except InputFileError:
        raise
    except Exception as error:  # the header is a Python literal: a damaged one fails in many ways
        raise InputFileError(path, f"{label}not a .npy array, or a damaged header ({error})") from error
    shape, _, dtype = header
    if any(size < 0 for size in shape):
        raise InputFileError(path, f"{label}negative size in shape {shape}")
    expected = math.prod(shape) * dtype.itemsize
    found = n_bytes - file.tell()
    if not dtype.hasobject and expected != found:
        raise InputFileError(
            path, f"{label}shape {shape} of {dtype} needs {expected} bytes of data, the file has {found}"
        )
    return header


def _check_matrix(path: Path, array: AnyArray, label: str) -> None:
    if array.dtype.kind not in "biuf":
        raise InputFileError(path, f"{label}expected real numbers, the array has dtype {array.dtype}")
    if array.ndim != 2 or 0 in array.shape:
        raise InputFileError(
            path, f"{label}expected a 2-D array (samples x features), got shape {array.shape}"
        )


def as_features(path: Path, array: AnyArray, label: str = "") -> AnyArray:
    """Check that an array can serve as features; float32 stays, other numbers become float64."""
    _check_matrix(path, array, label)
    if array.dtype not in (np.float32, np.float64) or not array.dtype.isnative:
        array = array.astype(np.float64)
    # In blocks of rows, so that a memory-mapped file is never held whole as a mask.
    step = max(1, (1 << 22) // array.shape[1])
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
        return as_features(path, arrays[matrices[0]], f"array {matrices[0]!r}: ")
    found = ", ".join(f"{key} {array.shape}" for key, array in arrays.items()) or "nothing readable"
    raise InputFileError(
        path, f"expected a 2-D array named X, data or features, or exactly one 2-D array; found {found}"
    )


def is_sparse_npz(arrays: dict[str, AnyArray]) -> bool:
    """Whether an archive is a sparse matrix: written by scipy's save_npz, or bare CSR arrays."""
    return {"format", "shape"} <= arrays.keys() or all(
        key in arrays and arrays[key].ndim == 1 for key in _CSR_KEYS
    )


def sparse_from_npz(path: Path, arrays: dict[str, AnyArray]) -> sp.csr_array:
    """The sparse matrix of an archive in compressed rows, every index checked."""
    layout = "csr"
    if "format" in arrays:
        item = arrays["format"].item() if arrays["format"].size == 1 else None
        layout = item.decode("ascii", "replace") if isinstance(item, bytes) else str(item)
    if layout not in ("csr", "csc", "coo"):
        raise InputFileError(path, f"sparse format {layout!r} is not supported; save the matrix as csr")
    needed = ("data", "row", "col") if layout == "coo" else _CSR_KEYS
    for key in needed:
        kinds = "biuf" if key == "data" else "iu"
        if key not in arrays:
            raise InputFileError(path, f"sparse {layout} matrix without its array {key!r}")
        if arrays[key].ndim != 1 or arrays[key].dtype.kind not in kinds:
            raise InputFileError(
                path,
                f"array {key!r} of a sparse matrix must be 1-D {'numbers' if key == 'data' else 'integers'}, "
                f"got {arrays[key].dtype} of shape {arrays[key].shape}",
            )
    data = arrays["data"].astype(np.float64)
    n_rows, n_columns = _sparse_shape(path, arrays, layout)
    check_size(path, n_rows, n_columns, len(data))

    if layout == "coo":
        row = _checked_indices(path, "row", arrays["row"], n_rows, len(data))
        col = _checked_indices(path, "col", arrays["col"], n_columns, len(data))
        return csr_from_triplets(row, col, data, (n_rows, n_columns))
    n_major, n_minor = (n_rows, n_columns) if layout == "csr" else (n_columns, n_rows)
    indices = _checked_indices(path, "indices", arrays["indices"], n_minor, len(data))
    indptr = arrays["indptr"].astype(np.int64)
    if len(indptr) != n_major + 1 or indptr[0] != 0 or indptr[-1] != len(data) or (np.diff(indptr) < 0).any():
        raise InputFileError(
            path,
            f"array 'indptr' must rise from 0 to {len(data)} over {n_major + 1} values; "
            f"it has {len(indptr)}, from {indptr[:1]} to {indptr[-1:]}",
        )
    major = np.repeat(np.arange(n_major), np.diff(indptr))
    row, col = (major, indices) if layout == "csr" else (indices, major)
    return csr_from_triplets(row, col, data, (n_rows, n_columns))


def _sparse_shape(path: Path, arrays: dict[str, AnyArray], layout: str) -> tuple[int, int]:
    if "shape" not in arrays and layout == "csr":
        n = len(arrays["indptr"]) - 1
        return n, n
    shape = arrays.get("shape")
    if shape is None or shape.shape != (2,) or shape.dtype.kind not in "iu" or (shape < 0).any():
        raise InputFileError(path, f"array 'shape' of a sparse matrix must be two sizes, got {shape}")
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


def check_size(path: Path, n_rows: int, n_columns: int, n_entries: int, line: int | None = None) -> None:
    """Refuse a sparse matrix whose declared size is out of proportion to what the file holds."""
    largest = max(n_rows, n_columns)
    if largest > max(_MAX_EMPTY_VERTICES, _VERTICES_PER_ENTRY * n_entries) or largest >= 2**31:
        raise InputFileError(
            path, f"a {n_rows} x {n_columns} matrix with only {n_entries} entries is refused", line
        )


def csr_from_triplets(row: AnyArray, col: AnyArray, data: AnyArray, shape: tuple[int, int]) -> sp.csr_array:
    """Compressed rows with sorted columns; explicit zeros and repeated entries are kept as they are."""
    order = np.lexsort((col, row))
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


def densify(path: Path, matrix: sp.csr_array) -> AnyArray:
    """Sparse features as an ordinary array."""
    n_bytes = matrix.shape[0] * matrix.shape[1] * 8
    if n_bytes > _MAX_DENSE_BYTES:
        raise InputFileError(
            path,
            f"sparse features of shape {matrix.shape} would take {n_bytes / 2**30:.0f} GiB held dense; "
            "reduce them first (for example with TruncatedSVD)",
        )
    return as_features(path, matrix.toarray())


def graph_from_square(path: Path, array: AnyArray) -> sp.csr_array:
    """A square array of distances as a graph; zeros are missing edges, as in scipy.sparse.csgraph."""
    _check_matrix(path, array, "")
    row, col = np.nonzero(array)
    return as_distances(path, csr_from_triplets(row, col, array[row, col].astype(np.float64), array.shape))
