"""The part of the .parquet and .h5ad readers that touches pyarrow and libhdf5: a program of its own.

Both libraries can crash on a damaged file, loop, or allocate without bound, and nothing in their own process
can stop that. So they run in this one, which limits itself and writes a plain .npz archive to its standard
output, a file. If it refuses, that file holds ``refused: `` and the reason instead. It imports nothing of
isoweave, whose import would take longer than most files.

Usage: _worker.py parquet|h5ad graph|features FILE MAX_BYTES CPU_SECONDS
"""

from __future__ import annotations

import os
import re
import sys
import zipfile
from typing import IO, Any

_WORDS_AT_ONCE = 4096
_INDEX_COLUMN = re.compile(r"__index_level_[0-9]+__")  # how pandas names an index without a name


class Refused(Exception):
    """The file holds something that is not read; the message is for the user."""


def main(arguments: list[str]) -> None:
    """Read one file and write what it holds."""
    kind, what, path, max_bytes, cpu_seconds = arguments
    output = os.fdopen(os.dup(1), "wb")
    # Whatever a library prints must not get into the archive.
    os.dup2(2, 1)
    limit_resources(int(max_bytes), int(cpu_seconds))
    produce(kind, what == "graph", path, int(max_bytes), output)
    output.flush()
    # Tidying up after a damaged file can crash, and there is nothing left to do.
    os._exit(0)


def limit_resources(max_bytes: int, cpu_seconds: int) -> None:
    """Bound the memory, output and processor time of this process, where the system can."""
    try:
        import resource
    except ImportError:  # Windows
        return
    limits = {
        # The libraries themselves take about 300 MB of data, and some gigabytes of addresses never used.
        resource.RLIMIT_DATA: (1 << 29) + 3 * max_bytes,
        resource.RLIMIT_AS: (1 << 32) + 4 * max_bytes,
        resource.RLIMIT_FSIZE: (1 << 20) + max_bytes,
        resource.RLIMIT_CPU: cpu_seconds,
        resource.RLIMIT_CORE: 0,
    }
    for name, value in limits.items():
        _, hard = resource.getrlimit(name)
        soft = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(name, (soft, hard))


def produce(kind: str, as_graph: bool, path: str, max_bytes: int, output: IO[bytes]) -> None:
    """Write the archive of a file, or why there is none."""
    called = {"parquet": "Parquet", "h5ad": ".h5ad"}[kind]
    try:
        with zipfile.ZipFile(output, "w") as archive:
            (write_parquet if kind == "parquet" else write_h5ad)(archive, path, as_graph, max_bytes)
        return
    except Refused as error:
        reason = str(error)
    except MemoryError:
        reason = f"damaged {called} file, or one that takes far more memory than its size allows"
    except Exception as error:
        reason = f"not a {called} file, or a damaged one ({error})"
    output.seek(0)
    output.truncate()
    output.write(b"refused: " + " ".join(reason.split())[:500].encode("utf-8", "replace"))


def write_array(archive: zipfile.ZipFile, name: str, array: Any) -> None:
    from numpy.lib import format as npy

    with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
        npy.write_array(member, array, allow_pickle=False)


def write_text(archive: zipfile.ZipFile, name: str, words: list[bytes], max_bytes: int) -> None:
    import numpy

    width = max(map(len, words), default=1) or 1
    if width * len(words) > max_bytes:
        raise Refused(f"text of {width} characters is too long among {len(words)}; shorten it")
    if any(b"\0" in word for word in words):
        raise Refused("text with a NUL character is not supported")
    write_array(archive, name, numpy.array(words, dtype=f"S{width}"))


# Parquet: the numbers row by row, and each column of text.


def write_parquet(archive: zipfile.ZipFile, path: str, as_graph: bool, max_bytes: int) -> None:
    import numpy
    import pyarrow
    import pyarrow.parquet

    size = os.path.getsize(path)
    # Nothing in a footer is larger than the file, so these limits refuse only lies.
    limits = {"thrift_string_size_limit": size, "thrift_container_size_limit": size}
    opened = pyarrow.parquet.ParquetFile(path, **limits)
    kinds = column_kinds(pyarrow.types, opened.schema_arrow)
    (check_edge_columns if as_graph else check_feature_columns)(kinds)
    n_rows = opened.metadata.num_rows
    if not 0 <= n_rows * len(kinds) * 8 <= max_bytes:
        what = f"{n_rows} rows of {len(kinds)} columns"
        raise Refused(f"{what} would take far more memory than a file of {size} bytes may")
    table = opened.read(use_threads=False)
    table.validate(full=True)
    if table.column_names != list(kinds) or len(table) != n_rows:
        raise Refused(f"damaged Parquet file: {n_rows} rows declared, {len(table)} found")
    for name, column in zip(kinds, table.columns, strict=True):
        if column.null_count:
            row = column.is_null().to_numpy().argmax()
            raise Refused(f"column {name[:40]!r} has no value in row {row}")
    used = [name for name, kind in kinds.items() if kind == "n" and not _INDEX_COLUMN.fullmatch(name)]
    numbers = numpy.empty((n_rows, len(used)))
    for k, name in enumerate(used):
        numbers[:, k] = table.column(name).to_numpy()
    write_array(archive, "numbers", numbers)
    for name, kind in kinds.items():
        if kind == "t":
            # A word in a dictionary may stand in every row.
            known: dict[str, bytes] = {}
            words = [known.setdefault(w, w.encode("utf-8")) for w in table.column(name).to_pylist()]
            write_text(archive, f"text{len(archive.filelist)}", words, max_bytes)


def column_kinds(types: Any, schema: Any) -> dict[str, str]:
    """For each column n (numbers) or t (text); anything else is refused."""
    kinds: dict[str, str] = {}
    for name, kind in zip(schema.names, schema.types, strict=True):
        plain = kind.value_type if types.is_dictionary(kind) else kind
        if name in kinds:
            raise Refused(f"two columns are named {name[:40]!r}")
        if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind):
            kinds[name] = "n"
        elif types.is_string(plain) or types.is_large_string(plain):
            kinds[name] = "t"
        else:
            raise Refused(f"column {name[:40]!r} has type {str(kind)[:40]}; only numbers and text are read")
    return kinds


def check_feature_columns(kinds: dict[str, str]) -> None:
    for position, (name, kind) in enumerate(kinds.items()):
        if kind == "t" and position > 0 and not _INDEX_COLUMN.fullmatch(name):
            raise Refused(f"column {name[:40]!r} holds text; only the first column may hold names")
    if all(kind == "t" or _INDEX_COLUMN.fullmatch(name) for name, kind in kinds.items()):
        shown = ", ".join(repr(name[:40]) for name in list(kinds)[:10])
        raise Refused(f"no column of numbers among {shown or 'none'}")


def check_edge_columns(kinds: dict[str, str]) -> None:
    if len(kinds) != 3:
        raise Refused(f"an edge list has 3 columns (i, j, distance), found {len(kinds)}")
    (_, i_kind), (_, j_kind), (name, kind) = kinds.items()
    if kind == "t":
        raise Refused(f"column {name[:40]!r} must hold distances, it holds text")
    if i_kind != j_kind:
        raise Refused("columns i and j must both hold names or both hold row numbers")


# HDF5: one dense array X, or format, shape, data, indices and indptr of a sparse matrix; names of the rows.


def write_h5ad(archive: zipfile.ZipFile, path: str, as_graph: bool, max_bytes: int) -> None:
    import h5py
    import numpy

    left = max_bytes
    with h5py.File(path, "r") as file:
        for name, found in find_matrix(h5py, numpy, file, as_graph).items():
            if isinstance(found, h5py.Dataset):
                left -= check_dataset(h5py, name, found, left)
            write_array(archive, name, numpy.asarray(found))
        names = find_names(h5py, file)
        if names is not None:
            left -= check_dataset(h5py, "the index of obs", names, left, is_text=True)
            words: list[bytes] = []
            for start in range(0, names.shape[0], _WORDS_AT_ONCE):
                words += names[start : start + _WORDS_AT_ONCE].tolist()
                left -= sum(map(len, words[start:]))
                if left < 0:
                    raise Refused("the text of this file would take far more memory than its size allows")
            write_text(archive, "vertex_names", words, max_bytes)


def find_matrix(h5py: Any, numpy: Any, file: Any, as_graph: bool) -> dict[str, Any]:
    """The arrays of the matrix asked for, by the names they get."""
    places = ("obsp/distances",) if as_graph else ("obsm/X_pca", "X")
    where, found = "", None
    for where in places:
        found = element(h5py, file, where)
        if found is not None:
            break
    if found is None and as_graph:
        raise Refused('there is no obsp["distances"]; make it with scanpy.pp.neighbors, or read features')
    if found is None:
        raise Refused('there is neither obsm["X_pca"] nor X')
    if isinstance(found, h5py.Dataset):
        if as_graph:
            raise Refused(f"{where} is dense; distances must be a sparse matrix")
        return {"X": found}
    layout = str(found.attrs.get("encoding-type", ""))[:20].removesuffix("_matrix")
    if layout not in ("csr", "csc"):
        raise Refused(f"{where} is stored as {layout!r}; only arrays and csr or csc matrices are read")
    stored = found.attrs.get_id("shape") if "shape" in found.attrs else None
    if stored is None or stored.dtype.kind not in "iu" or stored.shape != (2,):
        raise Refused(f"{where} has no valid shape")
    arrays = {"format": numpy.array(layout.encode("ascii")), "shape": numpy.asarray(found.attrs["shape"])}
    for part in ("data", "indices", "indptr"):
        arrays[part] = element(h5py, found, part)
        if not isinstance(arrays[part], h5py.Dataset):
            raise Refused(f"{where} has no array {part}")
    return arrays


def element(h5py: Any, group: Any, path: str) -> Any:
    """A group or dataset of this file, None if there is none; links to other places are not followed."""
    for part in filter(None, path.split("/")):
        if not isinstance(group, h5py.Group):
            return None
        link = group.get(part, getlink=True)
        if link is None:
            return None
        if not isinstance(link, h5py.HardLink):
            raise Refused(f"{path} is a link to another location or file, which is not followed")
        group = group[part]
    return group


def check_dataset(h5py: Any, name: str, dataset: Any, max_bytes: int, is_text: bool = False) -> int:
    """Refuse a dataset of no plain type, in another file, or too large; returns its size in memory."""
    created = dataset.id.get_create_plist()
    if created.get_layout() == h5py.h5d.VIRTUAL or created.get_external_count():
        raise Refused(f"{name} is stored in other files, which are not read")
    if is_text:
        if h5py.check_string_dtype(dataset.dtype) is None or dataset.ndim != 1:
            raise Refused("the names of the observations are not text")
    elif dataset.dtype.kind not in "biuf" or dataset.ndim not in (1, 2):
        raise Refused(f"{name} holds {dataset.dtype} of shape {dataset.shape}; only numbers are read")
    n_bytes = chunk = max(8, dataset.dtype.itemsize)
    for size in dataset.shape:
        n_bytes *= size
    for size in dataset.chunks or ():
        chunk *= size
    if max(n_bytes, chunk) > max_bytes:
        what = f"{name} of shape {dataset.shape} in chunks of {dataset.chunks}"
        raise Refused(f"{what} would take far more memory than the size of this file allows")
    return n_bytes


def find_names(h5py: Any, file: Any) -> Any:
    """The dataset with the names of the rows, None where the file has none or has them in an old form."""
    obs = element(h5py, file, "obs")
    if not isinstance(obs, h5py.Group) or "_index" not in obs.attrs:
        return None
    column = obs.attrs["_index"]
    if not isinstance(column, str):
        raise Refused("the index of obs has no usable name")
    # A name with a slash is a path: h5py makes groups of all but its last part.
    found = element(h5py, obs, column)
    if isinstance(found, h5py.Group):  # a nullable array of strings, as anndata writes those of pandas 3
        found = element(h5py, found, "values")
    return found if isinstance(found, h5py.Dataset) else None


if __name__ == "__main__":
    main(sys.argv[1:])
