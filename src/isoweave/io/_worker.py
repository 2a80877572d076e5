"""The part of the .parquet and .h5ad readers that touches pyarrow and libhdf5: a program of its own.

Both can crash on a damaged file, loop, or allocate without bound. So they run in this process, which limits
itself and writes a plain .npz archive, or ``refused: `` and the reason, to its standard output, a file that
its caller checks. It imports nothing of isoweave, whose import would take longer than most files.

Usage: _worker.py parquet|h5ad graph|features|columns FILE MAX_BYTES CPU_SECONDS [GENE ...]
"""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Iterator, Sequence
from typing import IO, Any

_WORDS_AT_ONCE = 4096
GRAPH, FEATURES = ("obsp/distances",), ("obsm/X_pca", "X")
_INDEX_COLUMN = re.compile(r"__index_level_[0-9]+__")  # how pandas names an index without a name


class Refused(Exception):
    """The file holds something that is not read; the message is for the user."""


def main(arguments: list[str]) -> None:
    """Read one file and write what it holds."""
    kind, what, path, max_bytes, cpu_seconds, *genes = arguments
    output = os.fdopen(os.dup(1), "wb")
    # Whatever a library prints must not get into the archive.
    os.dup2(2, 1)
    limit_resources(int(max_bytes), int(cpu_seconds))
    produce(kind, what, path, int(max_bytes), output, genes)
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


def produce(kind: str, what: str, path: str, max_bytes: int, output: IO[bytes], genes: Sequence[str]) -> None:
    """Write the archive of a file (X or parts of a sparse matrix, vertex_names), or why there is none.

    Of "columns", those of obs that a page can show, and these genes.
    """
    import numpy

    called = {"parquet": "Parquet", "h5ad": ".h5ad"}[kind]
    try:
        if kind == "parquet":
            arrays = parquet_arrays(path, max_bytes)
        else:
            arrays = h5ad_arrays(path, what, genes, max_bytes)
        return numpy.savez(output, **arrays)
    except Refused as error:
        reason = str(error)
    except MemoryError:
        reason = f"damaged {called} file, or one that takes far more memory than its size allows"
    except Exception as error:
        reason = f"not a {called} file, or a damaged one ({error})"
    output.write(b"refused: " + " ".join(reason.split())[:500].encode("utf-8", "replace"))


def text_array(words: list[bytes], max_bytes: int) -> Any:
    """Words as an array of bytes, unless one very long one would blow it up."""
    import numpy

    width = max(map(len, words), default=1) or 1
    if width * len(words) > max_bytes:
        raise Refused(f"text of {width} characters is too long among {len(words)}; shorten it")
    if any(b"\0" in word for word in words):
        raise Refused("text with a NUL character is not supported")
    return numpy.array(words, dtype=f"S{width}")


def parquet_arrays(path: str, max_bytes: int) -> dict[str, Any]:
    """The columns of numbers as X, and names from the first column or from the index of pandas."""
    import numpy
    import pyarrow
    import pyarrow.parquet

    size = os.path.getsize(path)
    # Nothing in a footer is larger than the file, so these limits refuse only lies.
    limits = {"thrift_string_size_limit": size, "thrift_container_size_limit": size}
    opened = pyarrow.parquet.ParquetFile(path, **limits)
    is_text = text_columns(pyarrow.types, opened.schema_arrow)
    n_rows = opened.metadata.num_rows
    if not 0 <= n_rows * len(is_text) * 8 <= max_bytes:
        what = f"{n_rows} rows of {len(is_text)} columns"
        raise Refused(f"{what} would take far more memory than a file of {size} bytes may")
    table = opened.read(use_threads=False)
    table.validate(full=True)
    if table.column_names != list(is_text) or len(table) != n_rows:
        raise Refused(f"damaged Parquet file: {n_rows} rows declared, {len(table)} found")
    for name, column in zip(is_text, table.columns, strict=True):
        if column.null_count:
            row = column.is_null().to_numpy().argmax()
            raise Refused(f"column {name[:40]!r} has no value in row {row}")
    used = [name for name in is_text if not is_text[name] and not _INDEX_COLUMN.fullmatch(name)]
    arrays = {"X": numpy.empty((n_rows, len(used)))}
    for k, name in enumerate(used):
        arrays["X"][:, k] = table.column(name).to_numpy()
    for name in (name for name in is_text if is_text[name]):
        # A word in a dictionary may stand in every row.
        known: dict[str, bytes] = {}
        words = [known.setdefault(w, w.encode("utf-8")) for w in table.column(name).to_pylist()]
        arrays["vertex_names"] = text_array(words, max_bytes)
    return arrays


def text_columns(types: Any, schema: Any) -> dict[str, bool]:
    """Whether each column is text; those that are neither that nor numbers, or no features, are refused."""
    found: dict[str, bool] = {}
    for name, kind in zip(schema.names, schema.types, strict=True):
        plain = kind.value_type if types.is_dictionary(kind) else kind
        found[name] = bool(types.is_string(plain) or types.is_large_string(plain))
        is_number = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)
        if not found[name] and not is_number:
            raise Refused(f"column {name[:40]!r} has type {str(kind)[:40]}; only numbers and text are read")
    if len(found) < len(schema.names):
        raise Refused(f"two columns are named {max(schema.names, key=schema.names.count)[:40]!r}")
    used = [is_text for name, is_text in found.items() if not _INDEX_COLUMN.fullmatch(name)]
    if False not in used or True in used[1:]:
        shown = [f"{name[:40]!r} ({'text' if found[name] else 'numbers'})" for name in found]
        wanted = "features are columns of numbers, after at most one of text, which holds names"
        raise Refused(f"{wanted}; found {', '.join(shown[:10]) or 'none'}")
    return found


def h5ad_arrays(path: str, what: str, genes: Sequence[str], max_bytes: int) -> dict[str, Any]:
    """A matrix and its names, or the columns of obs, as anndata 0.7 and later write them."""
    import h5py

    with h5py.File(path, "r") as file:
        opened = H5ad(h5py, file, max_bytes)
        if what == "columns":
            return opened.columns(genes)
        arrays, datasets = opened.matrix(*(GRAPH if what == "graph" else FEATURES))
        arrays |= {name: opened.numbers(name, found) for name, found in datasets.items()}
        names = opened.names("obs")
        return arrays if names is None else arrays | {"vertex_names": names}


class H5ad:
    """An open .h5ad file, of which no more than ``max_bytes`` are read in all."""

    def __init__(self, h5py: Any, file: Any, max_bytes: int) -> None:
        self.h5py, self.file, self.max_bytes, self.left = h5py, file, max_bytes, max_bytes

    def columns(self, genes: Sequence[str]) -> dict[str, Any]:
        """Columns of obs (c/NAME) as numbers, words, or codes of words (l/NAME), and genes of X."""
        arrays: dict[str, Any] = {}
        obs = self.element("obs")
        if not isinstance(obs, self.h5py.Group):
            raise Refused("there is no obs, the table of properties of the observations")
        index = obs.attrs.get("_index")
        for name in obs.attrs.get("column-order", []):
            found = self.element(name, obs) if name != index else None
            parts: dict[str, Any] = {"c": found}
            if isinstance(found, self.h5py.Group):
                parts = {"c": self.element("codes", found), "l": self.element("categories", found)}
            if all(map(self.is_column, parts.values())):
                for letter, part in parts.items():
                    read = self.numbers if part.dtype.kind in "biuf" else self.words
                    arrays[f"{letter}/{name}"] = read(name, part)
        arrays |= {f"c/{gene}": values for gene, values in self.genes(genes)}
        names = self.names("obs")
        return arrays if names is None else arrays | {"vertex_names": names}

    def genes(self, genes: Sequence[str]) -> Iterator[tuple[str, Any]]:
        """Values of these genes in all cells, from X."""
        import numpy
        import scipy.sparse

        if not genes:
            return
        words = self.names("var")
        if words is None:
            raise Refused("var has no names of genes")
        at = {word.decode("utf-8", "replace"): k for k, word in reversed(list(enumerate(words.tolist())))}
        for gene in genes:
            if gene not in at:
                raise Refused(f"there is no gene {gene[:40]!r} among the {len(words)} of var")
        known, parts = self.matrix("X")
        if "X" in parts:
            # Of which a few columns are read.
            self.checked_size("X", parts["X"])
            if parts["X"].ndim != 2:
                raise Refused(f"X has the shape {parts['X'].shape}; only matrices are read")
            for gene in genes:
                yield gene, numpy.asarray(parts["X"][:, at[gene]], dtype=float)
            return
        make = {b"csr": scipy.sparse.csr_array, b"csc": scipy.sparse.csc_array}[known["format"]]
        data, *pattern = (self.numbers(name, part) for name, part in parts.items())
        try:
            matrix = make((data.astype(float), *pattern), shape=tuple(known["shape"]))
            matrix.check_format(full_check=True)
        except ValueError as error:
            raise Refused("the parts of the sparse matrix X do not fit together") from error
        for gene in genes:
            yield gene, matrix[:, [at[gene]]].toarray()[:, 0]

    def matrix(self, *places: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """What is known of the first matrix of these that is there; its datasets, by the names they get."""
        as_graph = places == GRAPH
        elements = ((where, self.element(where)) for where in places)
        where, found = next((pair for pair in elements if pair[1] is not None), ("", None))
        if found is None and as_graph:
            raise Refused('there is no obsp["distances"]; make it with scanpy.pp.neighbors, or read features')
        if found is None:
            raise Refused('there is neither obsm["X_pca"] nor X')
        if isinstance(found, self.h5py.Dataset) and as_graph:
            raise Refused(f"{where} is dense; distances must be a sparse matrix")
        if isinstance(found, self.h5py.Dataset):
            return {}, {"X": found}
        layout = str(found.attrs.get("encoding-type", ""))[:20].removesuffix("_matrix")
        stored = found.attrs.get_id("shape") if "shape" in found.attrs else None
        parts = {part: self.element(part, found) for part in ("data", "indices", "indptr")}
        is_whole = all(isinstance(part, self.h5py.Dataset) for part in parts.values())
        if layout not in ("csr", "csc") or stored is None or stored.dtype.kind not in "iu" or not is_whole:
            said = f"{where} is stored as {layout!r}"
            raise Refused(f"{said}; only arrays and whole csr or csc matrices with a shape are read")
        return {"format": layout.encode("ascii"), "shape": found.attrs["shape"]}, parts

    def names(self, of: str) -> Any:
        """The names of the rows of obs or var as bytes, None if there are none, or some of an old form."""
        table = self.element(of)
        if not isinstance(table, self.h5py.Group) or "_index" not in table.attrs:
            return None
        column = table.attrs["_index"]
        if not isinstance(column, str):
            raise Refused(f"the index of {of} has no usable name")
        # A name with a slash is a path: h5py makes groups of all but its last part.
        found = self.element(column, table)
        if isinstance(
            found, self.h5py.Group
        ):  # a nullable array of strings, as anndata writes those of pandas 3
            found = self.element("values", found)
        return self.words(f"the index of {of}", found) if isinstance(found, self.h5py.Dataset) else None

    def element(self, path: str, group: Any = None) -> Any:
        """A group or dataset of this file, None if there is none; links to other places are not followed."""
        group = self.file if group is None else group
        for part in filter(None, path.split("/")):
            link = group.get(part, getlink=True) if isinstance(group, self.h5py.Group) else None
            if link is None:
                return None
            if not isinstance(link, self.h5py.HardLink):
                raise Refused(f"{path} is a link to another location or file, which is not followed")
            group = group[part]
        return group

    def is_column(self, found: Any) -> bool:
        """Whether this is a dataset of a number or a word for each of something."""
        if not isinstance(found, self.h5py.Dataset) or found.ndim != 1:
            return False
        return found.dtype.kind in "biuf" or self.h5py.check_string_dtype(found.dtype) is not None

    def numbers(self, name: str, dataset: Any) -> Any:
        """The array of a dataset of numbers."""
        import numpy

        self.spend(self.checked_size(name, dataset), name)
        return numpy.asarray(dataset)

    def words(self, name: str, dataset: Any) -> Any:
        """Text of a dataset as an array of bytes."""
        self.spend(self.checked_size(name, dataset, is_text=True), name)
        words: list[bytes] = []
        for start in range(0, dataset.shape[0], _WORDS_AT_ONCE):
            words += dataset[start : start + _WORDS_AT_ONCE].tolist()
            self.spend(sum(map(len, words[start:])), name)
        return text_array(words, self.max_bytes)

    def spend(self, n_bytes: int, name: str) -> None:
        """Refuse to go beyond what may be read in all."""
        self.left -= n_bytes
        if self.left < 0:
            raise Refused(f"{name} would take far more memory than the size of this file allows")

    def checked_size(self, name: str, dataset: Any, is_text: bool = False) -> int:
        """Bytes of a dataset in memory; it is refused if it is of no plain type, elsewhere, or too large."""
        created = dataset.id.get_create_plist()
        if created.get_layout() == self.h5py.h5d.VIRTUAL or created.get_external_count():
            raise Refused(f"{name} is stored in other files, which are not read")
        is_string = self.h5py.check_string_dtype(dataset.dtype) is not None
        if not (
            is_string and dataset.ndim == 1 if is_text else dataset.dtype.kind in "biuf" and dataset.ndim
        ):
            wanted = "text in one dimension is" if is_text else "arrays of numbers are"
            raise Refused(f"{name} holds {dataset.dtype} of shape {dataset.shape}; only {wanted} read")
        width = max(8, dataset.dtype.itemsize)
        n_bytes, chunk = (width * math.prod(shape) for shape in (dataset.shape, dataset.chunks or ()))
        if max(n_bytes, chunk) > self.max_bytes:
            what = f"{name} of shape {dataset.shape} in chunks of {dataset.chunks}"
            raise Refused(f"{what} would take far more memory than the size of this file allows")
        return n_bytes


if __name__ == "__main__":
    main(sys.argv[1:])
