"""The part of the .parquet and .h5ad readers that touches pyarrow and libhdf5: a program of its own.

Both libraries can crash on a damaged file, loop, or allocate without bound, and nothing in their own process
can stop that. So they run in this one, which limits itself, and sends plain arrays through its standard
output to ``_isolated.py``. It imports nothing of isoweave, whose import would take longer than most files.

Usage: _worker.py parquet|graph|features FILE MAX_BYTES CPU_SECONDS

The output is a sequence of frames: one byte with the length of a name, the name, eight bytes with the length
of what follows, and that: text with a NUL byte after each word, or the size of an array in .npy format, which
follows in frames called ``part``. The last frame is ``end``, or at any time ``error`` with a message.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable, Iterator
from typing import IO, Any

_PIECE_BYTES = 1 << 23
_WORDS_AT_ONCE = 4096


class Refused(Exception):
    """The file holds something that is not read; the message is for the user."""


def main(arguments: list[str]) -> None:
    """Read one file and send what it holds."""
    what, path, max_bytes, cpu_seconds = arguments
    output = os.fdopen(os.dup(1), "wb")
    # Whatever a library prints must not get between the frames.
    os.dup2(2, 1)
    limit_resources(int(max_bytes), int(cpu_seconds))
    produce(what, path, int(max_bytes), output)
    output.flush()
    # Tidying up after a damaged file can crash, and there is nothing left to do.
    os._exit(0)


def limit_resources(max_bytes: int, cpu_seconds: int) -> None:
    """Bound the memory and processor time of this process, where the system can."""
    try:
        import resource
    except ImportError:  # Windows
        return
    limits = {
        # The libraries themselves take about 300 MB of data, and some gigabytes of addresses never used.
        resource.RLIMIT_DATA: (1 << 29) + 3 * max_bytes,
        resource.RLIMIT_AS: (1 << 32) + 4 * max_bytes,
        resource.RLIMIT_CPU: cpu_seconds,
        resource.RLIMIT_CORE: 0,
    }
    for name, value in limits.items():
        _, hard = resource.getrlimit(name)
        soft = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(name, (soft, hard))


def produce(what: str, path: str, max_bytes: int, output: IO[bytes]) -> None:
    """Write the frames of a file; every exception becomes one."""
    kind = "Parquet" if what == "parquet" else ".h5ad"
    try:
        frames = parquet_frames(path, max_bytes) if what == "parquet" else h5ad_frames(path, what, max_bytes)
        for piece in frames:
            output.write(piece)
        output.write(head("end", 0))
    except Refused as error:
        send_error(output, str(error))
    except MemoryError:
        send_error(output, f"damaged {kind} file, or one that takes far more memory than its size allows")
    except Exception as error:
        send_error(output, f"not a {kind} file, or a damaged one ({error})")


def send_error(output: IO[bytes], text: str) -> None:
    raw = " ".join(text.split())[:500].encode("utf-8", "replace")
    output.write(head("error", len(raw)) + raw)


def head(name: str, size: int) -> bytes:
    """What opens a frame."""
    return bytes([len(name)]) + name.encode("ascii") + size.to_bytes(8, "little")


def array_head(name: str, dtype: Any, shape: tuple[int, ...]) -> bytes:
    """What opens an array; its numbers follow in C order, each :func:`part` some of them."""
    size = dtype.itemsize
    for length in shape:
        size *= length
    text = f"{{'descr': '{dtype.str}', 'fortran_order': False, 'shape': {shape}, }}\n".encode("ascii")
    header = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text
    return head(name, 8) + (len(header) + size).to_bytes(8, "little") + part(header)


def part(data: bytes) -> bytes:
    """Some bytes of an array."""
    return head("part", len(data)) + data


def words_frame(words: Iterable[Any], max_bytes: int, name: str = "words") -> bytes:
    """A frame with words in UTF-8."""
    text = io.BytesIO()
    for word in words:
        raw = word if isinstance(word, bytes) else str(word).encode("utf-8")
        if b"\0" in raw:
            raise Refused("text with a NUL character is not read")
        text.write(raw + b"\0")
        if text.tell() > max_bytes:
            raise Refused("the text of this file would take far more memory than its size allows")
    return head(name, text.tell()) + text.getvalue()


# Parquet: the columns, all numbers row by row, then for each column of text its words and their numbers.


def parquet_frames(path: str, max_bytes: int) -> Iterator[bytes]:
    import numpy
    import pyarrow
    import pyarrow.parquet

    size = os.path.getsize(path)
    # Nothing in a footer is larger than the file, so these limits refuse only lies.
    limits = {"thrift_string_size_limit": size, "thrift_container_size_limit": size}
    opened = pyarrow.parquet.ParquetFile(path, **limits)
    names, kinds = opened.schema_arrow.names, column_kinds(pyarrow, opened.schema_arrow)
    n_rows = opened.metadata.num_rows
    if not 0 <= n_rows * max(1, len(names)) * 8 <= max_bytes:
        raise Refused(
            f"{n_rows} rows of {len(names)} columns would take far more memory than {size} bytes of file may"
        )
    yield words_frame(map(str.__add__, kinds, names), max_bytes, "columns")
    numbers = [c for c, kind in enumerate(kinds) if kind == "n"]
    yield array_head("numbers", numpy.dtype("<f8"), (n_rows, len(numbers)))
    batch_rows = max(1, min(1 << 16, _PIECE_BYTES // 8 // max(1, len(names))))
    if numbers:
        columns = [names[c] for c in numbers]
        for start, batch in batches(opened, columns, batch_rows, n_rows):
            block = numpy.empty((len(batch), len(numbers)))
            for k, column in enumerate(batch.columns):
                check_nulls(columns[k], column, start)
                block[:, k] = column.to_numpy(zero_copy_only=False)
            yield part(block.tobytes())
    for c, kind in enumerate(kinds):
        if kind == "t":
            # One word may stand in every row, so it stays in its dictionary, where there is one.
            groups = range(opened.metadata.num_row_groups)
            encodings = {e for g in groups for e in opened.metadata.row_group(g).column(c).encodings}
            coded = [names[c]] if any("DICTIONARY" in e for e in encodings) else None
            text = pyarrow.parquet.ParquetFile(path, read_dictionary=coded, **limits)
            yield from text_frames(numpy, text, names[c], n_rows, max_bytes)


def column_kinds(pyarrow: Any, schema: Any) -> list[str]:
    """For each column n (numbers) or t (text); anything else is refused."""
    types, kinds = pyarrow.types, []
    for name, kind in zip(schema.names, schema.types, strict=True):
        plain = kind.value_type if types.is_dictionary(kind) else kind
        if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind):
            kinds.append("n")
        elif types.is_string(plain) or types.is_large_string(plain):
            kinds.append("t")
        else:
            raise Refused(f"column {name[:40]!r} has type {str(kind)[:40]}; only numbers and text are read")
    if len(set(schema.names)) != len(kinds):
        twice = next(name for name in schema.names if schema.names.count(name) > 1)
        raise Refused(f"two columns are named {twice[:40]!r}")
    return kinds


def batches(opened: Any, columns: list[str], batch_rows: int, n_rows: int) -> Iterator[tuple[int, Any]]:
    """Parts of a table with the number of their first row; together they have all rows."""
    done = 0
    for batch in opened.iter_batches(batch_size=batch_rows, columns=columns, use_threads=False):
        if batch.num_columns != len(columns) or done + len(batch) > n_rows:
            raise Refused("damaged Parquet file: there are more data than it declares")
        yield done, batch
        done += len(batch)
    if done != n_rows:
        raise Refused(f"damaged Parquet file: {n_rows} rows declared, {done} found")


def check_nulls(name: str, column: Any, start: int) -> None:
    if column.null_count:
        row = start + column.is_null().to_numpy(zero_copy_only=False).argmax()
        raise Refused(f"column {name[:40]!r} has no value in row {row}")


def text_frames(numpy: Any, opened: Any, name: str, n_rows: int, max_bytes: int) -> Iterator[bytes]:
    number_of: dict[str, int] = {}
    n_bytes = 0
    codes = numpy.empty(n_rows, dtype="<i4")
    for start, batch in batches(opened, [name], _WORDS_AT_ONCE, n_rows):
        column = batch.column(0)
        check_nulls(name, column, start)
        column.validate(full=True)
        is_coded = hasattr(column, "dictionary")
        here = []
        for word in (column.dictionary if is_coded else column).to_pylist():
            if word not in number_of:
                n_bytes += 100 + 4 * len(word)
                if n_bytes > max_bytes:
                    raise Refused("the text of this file would take far more memory than its size allows")
            here.append(number_of.setdefault(word, len(number_of)))
        found = numpy.array(here, dtype="<i4")
        codes[start : start + len(batch)] = found[column.indices.to_numpy()] if is_coded else found
    yield words_frame(number_of, max_bytes)
    yield array_head("codes", codes.dtype, codes.shape) + part(codes.tobytes())


# HDF5: one dense array, or the three arrays of a sparse matrix; then the names of the observations.


def h5ad_frames(path: str, what: str, max_bytes: int) -> Iterator[bytes]:
    import h5py
    import numpy

    with h5py.File(path, "r") as file:
        left = max_bytes
        for name, dataset in h5ad_parts(h5py, numpy, file, what == "graph"):
            if isinstance(dataset, h5py.Dataset):
                left -= check_dataset(h5py, name, dataset, left)
            yield from array_frame(numpy, name, dataset)
        names = observation_names(h5py, file)
        if names is not None:
            left -= check_dataset(h5py, "the index of obs", names, left, is_text=True)
            starts = range(0, names.shape[0], _WORDS_AT_ONCE)
            yield words_frame((w for s in starts for w in names[s : s + _WORDS_AT_ONCE].tolist()), left)


def h5ad_parts(h5py: Any, numpy: Any, file: Any, as_graph: bool) -> Iterator[tuple[str, Any]]:
    """Arrays to send, by the names they get: ``dense``, or ``csr`` (the shape), ``data``, ``indices`` ..."""
    places = ("obsp/distances",) if as_graph else ("obsm/X_pca", "X")
    found, where = None, ""
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
        yield "dense", found
        return
    layout = str(found.attrs.get("encoding-type", found.attrs.get("h5sparse_format", "")))[:20]
    layout = layout.removesuffix("_matrix")
    if layout not in ("csr", "csc"):
        raise Refused(f"{where} is stored as {layout!r}; only arrays and csr or csc matrices are read")
    key = "shape" if "shape" in found.attrs else "h5sparse_shape"
    stored = found.attrs.get_id(key) if key in found.attrs else None
    if stored is None or stored.dtype.kind not in "iu" or stored.shape != (2,):
        raise Refused(f"{where} does not say its shape")
    yield layout, numpy.asarray(found.attrs[key])
    for part in ("data", "indices", "indptr"):
        dataset = element(h5py, found, part)
        if not isinstance(dataset, h5py.Dataset):
            raise Refused(f"{where} has no array {part}")
        yield part, dataset


def element(h5py: Any, group: Any, path: str) -> Any:
    """A group or dataset of this file, None if there is none; links to other places are not followed."""
    for part in path.split("/"):
        if not isinstance(group, h5py.Group):
            return None
        link = group.get(part, getlink=True)
        if link is None:
            return None
        if not isinstance(link, h5py.HardLink):
            raise Refused(f"{path} is a link to another place or file, which is not followed")
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
        raise Refused(
            f"{name} of shape {dataset.shape} in chunks of {dataset.chunks} would take far more memory than "
            "the size of this file allows"
        )
    return n_bytes


def array_frame(numpy: Any, name: str, dataset: Any) -> Iterator[bytes]:
    """A frame with one array, a few megabytes at a time, in whole chunks so that none is read twice."""
    kind = numpy.dtype(dataset.dtype.str)
    shape = tuple(map(int, dataset.shape))
    yield array_head(name, kind, shape)
    if 0 in shape:
        return
    rows_of_chunk = (getattr(dataset, "chunks", None) or (1,))[0]
    fitting = _PIECE_BYTES // (kind.itemsize * (shape[1] if len(shape) == 2 else 1))
    step = max(1, fitting // rows_of_chunk) * rows_of_chunk
    for start in range(0, shape[0], step):
        yield part(numpy.ascontiguousarray(dataset[start : start + step], dtype=kind).tobytes())


def observation_names(h5py: Any, file: Any) -> Any:
    """The dataset with the names of the rows, None where the file has none or has them in an old form."""
    obs = element(h5py, file, "obs")
    if not isinstance(obs, h5py.Group) or "_index" not in obs.attrs:
        return None
    column = obs.attrs["_index"]
    if not isinstance(column, str) or "/" in column:
        raise Refused("the index of obs has no usable name")
    found = element(h5py, obs, column)
    return found if isinstance(found, h5py.Dataset) else None


if __name__ == "__main__":
    main(sys.argv[1:])
