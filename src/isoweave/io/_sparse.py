"""Features and graphs from arrays, edge lists and Matrix Market, checked before compiled code sees them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from isoweave._typing import AnyArray
from isoweave.io._source import Fault, check_expansion, quoted, within
from isoweave.io._text import check_words, is_number, next_row, parse_number, read_cells, read_rows

# Vertices without any edge are few in an honest file: not more than so many, or so many per entry.
MAX_EMPTY_VERTICES, VERTICES_PER_ENTRY = 1_000_000, 100
_PARTS = {"coo": ("row", "col", "data")} | dict.fromkeys(("csr", "csc"), ("indptr", "indices", "data"))
# A dense matrix of distances is taken in blocks of this many values.
_BLOCK_VALUES = 1 << 22
_TOP = 2**31 - 1
_WORD = re.compile(r"[^\W\d][\w .()\[\]/-]*")


def matrix_from_npz(path: Path, arrays: dict[str, AnyArray]) -> AnyArray | sp.csr_array:
    """A sparse matrix if scipy's save_npz wrote it; else X, data, features, or the only 2-D array."""
    if {"format", "shape"} <= arrays.keys():
        return _sparse_from_arrays(arrays, path.stat().st_size)
    matrices = [key for key, array in arrays.items() if array.ndim == 2 and array.dtype.kind in "biuf"]
    named = [key for key in ("X", "data", "features") if key in arrays and arrays[key].ndim >= 2]
    if not named and len(matrices) != 1:
        shown = [f"{quoted(name)} {array.shape}" for name, array in arrays.items()]
        found = ", ".join(shown[:10]) + (" ..." if len(shown) > 10 else "") or "nothing readable"
        wanted = "a 2-D array named X, data or features, or exactly one 2-D array"
        raise Fault(f"expected {wanted}; found {found}")
    key = (named or matrices)[0]
    with within(key):
        return as_features(arrays[key])


def _check_matrix(array: AnyArray) -> None:
    if array.dtype.kind not in "biuf":
        raise Fault(f"expected real numbers, the array has dtype {array.dtype}")
    if array.ndim != 2 or 0 in array.shape:
        raise Fault(f"expected a 2-D array (samples x features), got shape {array.shape}")


def first(bad: AnyArray) -> int | None:
    """Position of the first that is bad, None if none is."""
    return int(np.argmax(bad)) if bad.any() else None


def first_wrong_length(lengths: AnyArray) -> int | None:
    """Position of the first that is no distance: they must be finite and not negative."""
    return first(~((lengths >= 0) & (lengths < np.inf)))


def as_float64(array: AnyArray) -> AnyArray:
    """Any real numbers as float64; what is too large becomes infinite, and is refused by later checks."""
    with np.errstate(all="ignore"):
        return array.astype(np.float64)


def as_features(array: AnyArray) -> AnyArray:
    """Check that an array can serve as features; float32 stays, other numbers become float64."""
    _check_matrix(array)
    if array.dtype not in (np.float32, np.float64) or not array.dtype.isnative:
        array = as_float64(array)
    finite = np.isfinite(array)
    if not finite.all():
        row, column = np.argwhere(~finite)[0]
        where = f"{array[row, column]} at row {row}, column {column}"
        raise Fault(f"{where}; features must be finite numbers")
    return array


def graph_from_square(array: AnyArray) -> sp.csr_array:
    """A square array of distances as a graph; zeros are missing edges, as in scipy.sparse.csgraph."""
    _check_matrix(array)
    check_square(array.shape)
    # Row by row in blocks, so that only the result is as large as the number of edges.
    step = max(1, _BLOCK_VALUES // len(array))
    starts = range(0, len(array), step)
    return sp.vstack([sp.csr_array(as_float64(array[at : at + step])) for at in starts], format="csr")


def sparse_parts(
    kept: AnyArray, sizes: AnyArray, headers: Mapping[str, tuple[Any, Any]]
) -> tuple[str, tuple[str, ...], tuple[int, int]]:
    """Format, arrays and shape of a matrix by scipy, from its arrays "format" and "shape", headers of all."""
    layout = f"{kept.dtype} of shape {kept.shape}"
    # scipy stores three bytes; text, which numpy keeps in four bytes a letter, need not even be valid.
    if kept.size == 1 and kept.dtype.kind in "SU":
        layout = kept.tobytes()[:32].replace(b"\0", b"").decode("ascii", "replace")
    if layout not in _PARTS:
        raise Fault(f"sparse format {quoted(layout)} is not supported; save the matrix as csr")
    for key in _PARTS[layout]:
        if key not in headers:
            raise Fault(f"sparse {layout} matrix without its array {key!r}")
        check_part(key, *headers[key], " of a sparse matrix")
    if sizes.shape != (2,) or sizes.dtype.kind not in "iu" or (sizes < 0).any():
        found_sizes = quoted(sizes[:3].tolist() if sizes.ndim else sizes)
        raise Fault(f"array 'shape' of a sparse matrix must be two sizes, got {found_sizes}")
    return layout, _PARTS[layout], (int(sizes[0]), int(sizes[1]))


def check_part(name: str, dtype: Any, shape: tuple[int, ...], of: str = "") -> None:
    """Refuse vertices that are not whole numbers, and distances that are not numbers."""
    wanted, kinds = ("numbers", "biuf") if name in ("data", "distance") else ("integers", "iu")
    if len(shape) != 1 or getattr(dtype, "kind", "") not in kinds:
        raise Fault(f"array {name!r}{of} must be 1-D {wanted}, got {dtype} of shape {shape}")


def _sparse_from_arrays(arrays: dict[str, AnyArray], file_size: int) -> sp.csr_array:
    """The sparse matrix of an archive in compressed rows, every index checked."""
    headers = {name: (array.dtype, array.shape) for name, array in arrays.items()}
    layout, _, shape = sparse_parts(arrays["format"], arrays["shape"], headers)
    data = as_float64(arrays["data"])
    _check_size(shape, len(data), file_size)

    if layout == "coo":
        row = _checked_indices("row", arrays["row"], shape[0], len(data))
        col = _checked_indices("col", arrays["col"], shape[1], len(data))
        return _csr_from_triplets(row, col, data, shape)
    n_major, n_minor = shape if layout == "csr" else shape[::-1]
    minor = _checked_indices("indices", arrays["indices"], n_minor, len(data))
    indptr = arrays["indptr"]
    # Compared, not subtracted: differences of large 64-bit numbers wrap around and look innocent.
    is_sound = len(indptr) == n_major + 1 and indptr[0] == 0 and indptr[-1] == len(data)
    if not is_sound or (indptr[1:] < indptr[:-1]).any():
        said = f"must rise from 0 to {len(data)} over {n_major + 1} values; it has {len(indptr)}"
        raise Fault(f"array 'indptr' {said}, from {indptr[:1]} to {indptr[-1:]}")
    lengths: AnyArray = np.diff(indptr.astype(np.int64))
    major = np.repeat(np.arange(n_major), lengths)
    row, col = (major, minor) if layout == "csr" else (minor, major)
    return _csr_from_triplets(row, col, data, shape)


def _checked_indices(name: str, indices: AnyArray, size: int, n_entries: int) -> AnyArray:
    if len(indices) != n_entries:
        raise Fault(f"array {name!r} has {len(indices)} values, 'data' has {n_entries}")
    at = first((indices < 0) | (indices >= size))
    if at is not None:
        raise Fault(f"array {name!r} holds {indices[at]} at position {at}, outside 0 to {size - 1}")
    return indices.astype(np.int64)


def check_square(shape: tuple[int, ...]) -> None:
    if shape[0] != shape[1]:
        raise Fault(f"a distance graph needs a square matrix, got {shape[0]} x {shape[1]}")


def _check_size(shape: tuple[int, int], n_entries: int, file_size: int, line: int | None = None) -> None:
    """Refuse a sparse matrix whose declared size is out of proportion to what the file holds."""
    largest, what = max(shape), f"a {shape[0]} x {shape[1]} matrix"
    if largest > max(MAX_EMPTY_VERTICES, VERTICES_PER_ENTRY * n_entries) or largest > _TOP:
        raise Fault(f"{what} with only {n_entries} entries is refused", line)
    # Row pointers, and what it takes to make them.
    check_expansion(16 * largest, file_size, what)


def _csr_from_triplets(row: AnyArray, col: AnyArray, data: AnyArray, shape: tuple[int, int]) -> sp.csr_array:
    """Compressed rows with sorted columns; explicit zeros and repeated entries are kept as they are."""
    # By row and then by column; stable sorts are quick where entries are nearly in order.
    order = np.argsort(row * shape[1] + col, kind="stable")
    indptr = np.append(0, np.cumsum(np.bincount(row, minlength=shape[0])))
    index_type = np.int32 if max(*shape, len(data)) <= _TOP else np.int64
    return sp.csr_array((data[order], col[order].astype(index_type), indptr.astype(index_type)), shape=shape)


def as_distances(matrix: sp.csr_array) -> sp.csr_array:
    """Check that a sparse matrix can serve as a distance graph: square, finite, no negative length."""
    check_square(matrix.shape)
    at = first_wrong_length(matrix.data)
    if at is not None:
        i, j = int(np.searchsorted(matrix.indptr, at, side="right")) - 1, matrix.indices[at]
        where = f"distance {matrix.data[at]} between vertices {i} and {j}"
        raise Fault(f"{where}; distances must be finite and not negative")
    return matrix


def densify(matrix: sp.csr_array, file_size: int) -> AnyArray:
    """Sparse features as an ordinary array; repeated entries are summed, as sparse formats mean them."""
    n_bytes, what = 8 * matrix.shape[0] * matrix.shape[1], f"sparse features of shape {matrix.shape}"
    hint = "; reduce them first (for example with TruncatedSVD)"
    check_expansion(n_bytes, file_size, f"{what}, held dense,", hint)
    return matrix.toarray()


def _check_ends(ends: AnyArray, low: int, high: tuple[int, int], lines: AnyArray, what: str) -> None:
    bad = ~((ends >= low) & (ends <= high) & (ends == np.floor(ends)))
    if bad.any():
        at, k = np.argwhere(bad)[0]
        raise Fault(f"{what} {ends[at, k]:.16g} is not an integer from {low} to {high[k]}", int(lines[at]))


def _csr_from_entries(
    ends: AnyArray,
    values: AnyArray,
    shape: tuple[int, int],
    lines: AnyArray,
    is_symmetric: bool,
    may_repeat: bool = False,
) -> sp.csr_array:
    """A matrix from entries, each given once, or with one value if it ``may_repeat``; of either triangle."""
    i, j = ends.T.astype(np.int64)
    row, col = (np.maximum(i, j), np.minimum(i, j)) if is_symmetric else (i, j)
    order = np.argsort(row * shape[1] + col, kind="stable")
    row, col, values = row[order], col[order], values[order]
    repeated = np.zeros(len(row), dtype=bool)
    repeated[1:] = (row[1:] == row[:-1]) & (col[1:] == col[:-1])
    conflict = repeated & (values != np.roll(values, 1)) if may_repeat else repeated
    e = first(conflict)
    if e is not None:
        said = f"{values[e - 1]} (line {lines[order[e - 1]]}) and {values[e]}"
        raise Fault(f"two values for one pair: {said}; keep one", int(lines[order[e]]))
    row, col, values = row[~repeated], col[~repeated], values[~repeated]
    if is_symmetric:
        apart = row != col
        row, col = np.concatenate((row, col[apart])), np.concatenate((col, row[apart]))
        values = np.concatenate((values, values[apart]))
    return _csr_from_triplets(row, col, values, shape)


def read_edge_list(path: Path, delimiter: str | None) -> tuple[sp.csr_array, tuple[str, ...] | None]:
    """A symmetric distance graph from lines of two vertices and a distance, and the names of its vertices.

    If the vertices of the first edge are row numbers, all must be; names are numbered as they appear.
    """
    rows, size = read_rows(path, delimiter), path.stat().st_size
    wanted = "edges; expected lines of: i j distance"
    first = next_row(rows, wanted)
    # A header has a word where the distance belongs, and no numbers: "0 1 1.5x" is a mistake instead.
    if _WORD.fullmatch(first[1][-1]) and not any(map(is_number, first[1])):
        first = next_row(rows, wanted)
    is_named = any(parse_number(cell) is None for cell in first[1][:2])
    what = " (i, j, distance)" if is_named else " (row numbers i and j, distance)"
    found = read_cells(chain([first], rows), 3, 2 * is_named, what)
    ends, names, lines, lengths = found.numbers[:, :2], None, found.lines, found.numbers[:, -1]
    if is_named:
        number_of: dict[str, int] = {}
        both = chain.from_iterable(zip(*found.words, strict=True))
        ends = np.array([number_of.setdefault(name, len(number_of)) for name in both]).reshape(-1, 2)
        names = tuple(number_of)
        first_lines = lines[np.unique(ends, return_index=True)[1] // 2]
        if "" in names:
            raise Fault("empty vertex name", int(first_lines[names.index("")]))
        check_words(names, size, "vertex", first_lines)
    _check_ends(ends, 0, (_TOP, _TOP), lines, "vertex")
    n = int(ends.max()) + 1
    graph = symmetric_from_edges(ends, lengths, n, lines, size)
    return graph, names


def symmetric_from_edges(
    ends: AnyArray, lengths: AnyArray, n: int, lines: AnyArray, size: int | None = None
) -> sp.csr_array:
    """A graph of n vertices from its edges and the lines they stand on, of a file of ``size`` bytes."""
    at = first_wrong_length(lengths)
    if at is not None:
        raise Fault(f"distance {lengths[at]}; distances must be finite and not negative", int(lines[at]))
    if size is not None:
        _check_size((n, n), len(ends), size, int(lines[ends.max(axis=1).argmax()]))
    return _csr_from_entries(ends, lengths, (n, n), lines, is_symmetric=True, may_repeat=True)


def read_matrix_market(path: Path) -> sp.csr_array:
    """The matrix of a ``coordinate`` file; explicit zeros are kept, an entry given twice is a fault."""
    # By hand, because scipy's reader can crash the interpreter on a NUL byte.
    # Comments may be in any encoding; what is read as numbers must be ASCII and is checked there.
    rows = read_rows(path, None, comment="", encoding="latin-1")
    line, cells, _ = next(rows, (1, [], True))
    words = [cell.lower() for cell in cells]
    if line != 1 or len(words) != 5 or words[:2] != ["%%matrixmarket", "matrix"]:
        raise Fault("not a Matrix Market file: it must open with '%%MatrixMarket matrix'", 1)
    is_symmetric, is_known = words[4] == "symmetric", words[4] in ("general", "symmetric")
    if words[2] != "coordinate" or words[3] not in ("real", "integer") or not is_known:
        said = f"a matrix of type {quoted(' '.join(words[2:]))} is not supported"
        raise Fault(f"{said}; write it as coordinate, real (with lengths), general or symmetric", 1)
    row = next((row for row in rows if not row[1][0].startswith("%")), None)
    if row is None:
        raise Fault("the size line (rows columns entries) is missing")
    line, cells, _ = row
    sizes = read_cells([row], 3, what=" (rows, columns, entries)").numbers[0].tolist()
    if not all(0 <= size < 2**62 and size.is_integer() for size in sizes):
        raise Fault(f"the size line needs three integers, got {quoted(' '.join(cells))}", line)
    n_rows, n_columns, n_entries = map(int, sizes)
    file_size = path.stat().st_size
    if is_symmetric and n_rows != n_columns:
        raise Fault(f"a symmetric matrix cannot be {n_rows} x {n_columns}", line)
    # An entry takes at least six bytes ("1 1 1\n", the last line feed may be missing).
    if 6 * n_entries > file_size:
        raise Fault(f"the file is too short for the {n_entries} entries it declares", line)
    _check_size((n_rows, n_columns), n_entries, file_size, line)
    found = read_cells(rows, 3, what=" (row, column, value)")
    ends, values, lines = found.numbers[:, :2], found.numbers[:, 2], found.lines
    if len(lines) > n_entries:
        raise Fault(f"more entries than the {n_entries} declared", int(lines[n_entries]))
    if len(lines) < n_entries:
        raise Fault(f"{n_entries} entries declared, {len(lines)} found")
    _check_ends(ends, 1, (n_rows, n_columns), lines, "index")
    return _csr_from_entries(ends - 1, values, (n_rows, n_columns), lines, is_symmetric)
