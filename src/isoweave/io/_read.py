"""One entry point for every file the command line can embed.

Parquet and AnnData files are read in a process of their own (``_worker.py``), whose output is not believed.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal, TypeAlias

import numpy as np
import scipy.sparse as sp

from isoweave._typing import AnyArray
from isoweave.io import _source, _sparse
from isoweave.io._graphml import read_graphml
from isoweave.io._mesh import MESHES, Mesh, read_mesh
from isoweave.io._source import Fault, InputFileError, quoted, reading
from isoweave.io._text import DELIMITERS, is_edge_list, read_table

_Found: TypeAlias = tuple[AnyArray | sp.csr_array, tuple[str, ...] | None]
_SUFFIXES = ".npy .npz .csv .tsv .txt .parquet .h5ad .mtx .edges .graphml .obj .off .ply, and .gz of these"
_NEEDED = {
    "parquet": ("pyarrow", ".parquet files need pyarrow: pip install 'isoweave[parquet]', or use .npy."),
    "h5ad": ("h5py", ".h5ad files need h5py: pip install 'isoweave[anndata]', or use .npz or .npy."),
}
_WORKER = Path(__file__).with_name("_worker.py")
# Processor seconds of the worker: for its start, and one more per megabyte. Waiting is limited more
# generously, because a busy machine is no fault of the file.
_CPU_SECONDS = 4
_WAIT_FACTOR = 10


@dataclass(frozen=True, eq=False)
class LoadedInput:
    """What a file held: ``features`` (finite floats) or a distance ``graph``, and the ``names`` of its rows.

    Lengths of the graph are finite and not negative, zero lengths are explicit. ``mesh`` is what it was made
    from, if it was.
    """

    features: AnyArray | None = None
    graph: sp.csr_array | None = None
    names: tuple[str, ...] | None = None
    mesh: Mesh | None = None

    @property
    def kind(self) -> Literal["features", "graph"]:
        return "features" if self.graph is None else "graph"

    @property
    def n_rows(self) -> int:
        source = self.features if self.graph is None else self.graph
        assert source is not None
        return int(source.shape[0])


def read_input(path: str | os.PathLike[str], *, as_graph: bool | None = None) -> LoadedInput:
    r"""Read features or a distance graph; the file's suffix determines the format.

    ======================  ===========================================  ===============================
    suffix                  features                                     distance graph
    ======================  ===========================================  ===============================
    .npy .parquet           2-D array, columns of numbers                square array, zero: no edge
    .npz                    array X, data or features, or the only 2-D   scipy's save_npz (csr, csc, coo)
    .csv .tsv .txt          rows of numbers, header and names allowed    edge list ``i j distance``
    .h5ad                   obsm["X_pca"], else X                        obsp["distances"]
    .mtx                    coordinate matrix that is not square         square coordinate matrix
    .edges                                                               edge list
    .graphml                                                             attribute length of every edge
    .obj .off .ply                                                       corners of every face
    ======================  ===========================================  ===============================

    ``as_graph`` True reads a graph, False features; by default a square sparse .npz, a square .mtx, .edges,
    meshes, and tables headed ``source, target, distance`` or the like are graphs. Other tables that look like
    lists of edges are refused until it is given. Any of these may be compressed (.csv.gz), and a .csv may
    have semicolons, with commas for decimal points. :class:`InputFileError` names the file, the line or byte
    where it is known, and the reason. Whatever the file holds, nothing else is raised, but ImportError if an
    extra is missing.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp(), "triangle.edges")
    >>> _ = file.write_text("a b 3\nb c 4\na c 5\n")
    >>> loaded = read_input(file)
    >>> loaded.names, loaded.graph.toarray().tolist()
    (('a', 'b', 'c'), [[0.0, 3.0, 5.0], [3.0, 0.0, 4.0], [5.0, 4.0, 0.0]])
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix == ".gz":
        return _read_compressed(path, as_graph)
    with reading(path):
        if as_graph is None and suffix in DELIMITERS:
            as_graph = is_edge_list(path, DELIMITERS[suffix])
        if suffix in MESHES and as_graph is not False:
            graph, mesh = read_mesh(path)
            return LoadedInput(graph=_sparse.as_distances(graph), mesh=mesh)
        found, names = _read_matrix(path, suffix, as_graph)
        if as_graph is None:
            is_square = sp.issparse(found) and found.shape[0] == found.shape[1]
            as_graph = is_square and suffix in (".npz", ".mtx", ".edges", ".graphml")
        if as_graph:
            graph = _sparse.graph_from_square(found) if isinstance(found, np.ndarray) else found
            return LoadedInput(graph=_sparse.as_distances(graph), names=names)
        dense = found if isinstance(found, np.ndarray) else _sparse.densify(found, path.stat().st_size)
        return LoadedInput(features=_sparse.as_features(dense), names=names)


def _read_compressed(path: Path, as_graph: bool | None) -> LoadedInput:
    """Of a .gz file what is in it, in a file of its own for as long as it takes."""
    with tempfile.TemporaryDirectory(prefix="isoweave-") as folder:
        inner = Path(folder) / Path(path.stem).name
        with reading(path), _source.open_input(path) as (file, size), open(inner, "wb") as output:
            _source.unpack(file, output, size)
        try:
            if inner.suffix.lower() == ".gz":
                raise InputFileError(path, "is compressed twice; unpack it once")
            return read_input(inner, as_graph=as_graph)
        except InputFileError as error:
            raise InputFileError(path, error.reason, error.line, error.offset) from error.__cause__


def _read_matrix(path: Path, suffix: str, as_graph: bool | None) -> _Found:
    """The matrix of a file in whatever form it has there, and the names of its rows."""
    if suffix == ".npy":
        return _source.read_npy(path), None
    if suffix == ".npz":
        return _sparse.matrix_from_npz(path, _source.read_npz(path)), None
    if suffix == ".mtx":
        return _sparse.read_matrix_market(path), None
    if suffix == ".graphml" and as_graph is not False:
        return read_graphml(path, as_graph)
    if suffix in (".parquet", ".h5ad"):
        arrays, size = _isolated_arrays(path, suffix[1:], "graph" if as_graph else "features")
        words = arrays.pop("vertex_names", None)
        found = _sparse.matrix_from_npz(path, arrays)
        return found, None if words is None else _source.words_from_array(words, found.shape[0], size)
    if suffix in DELIMITERS and not as_graph:
        cells = read_table(path, DELIMITERS[suffix])
        return cells.numbers, tuple(cells.words[0]) if cells.words else None
    if suffix in DELIMITERS or (suffix == ".edges" and as_graph is not False):
        return _sparse.read_edge_list(path, DELIMITERS.get(suffix) or "auto")
    kind = "features" if suffix in (".edges", ".graphml", *MESHES) else "files"
    if suffix in (".gpkg", ".shp", ".geojson"):
        raise Fault("roads are read with geopandas: isoweave.from_geopandas(geopandas.read_file(FILE))")
    raise Fault(f"cannot read {kind} with suffix {quoted(suffix)}; known suffixes: {_SUFFIXES}")


def check_installed(kind: str) -> None:
    """Refuse a kind of file whose library is not there."""
    package, message = _NEEDED[kind]
    if importlib.util.find_spec(package) is None:
        raise ImportError(message)


def read_annotations(
    path: str | os.PathLike[str], genes: Sequence[str] = ()
) -> tuple[dict[str, AnyArray], tuple[str, ...] | None]:
    """Columns of ``obs`` of an .h5ad file, and the expression of genes in ``X``, by name; names of the rows.

    Numbers are float64; words are objects, None where one is missing. Columns of other kinds are left out.
    """
    path = Path(path)
    with reading(path):
        arrays, size = _isolated_arrays(path, "h5ad", "columns", *genes)
        columns: dict[str, AnyArray] = {}
        for head in (key.removeprefix("c/") for key in arrays if key.startswith("c/")):
            values, levels = arrays[f"c/{head}"], arrays.get(f"l/{head}")
            if levels is not None:
                if values.dtype.kind not in "iu" or values.max(initial=-1) >= len(levels):
                    raise Fault(f"column {quoted(head)} has codes beyond its {len(levels)} categories")
                words = np.array([*_source.words_from_array(levels, len(levels), size), None], dtype=object)
                values = words[np.where(values < 0, len(levels), values)]
            elif values.dtype.kind == "S":
                values = np.array(_source.words_from_array(values, len(values), size), dtype=object)
            elif values.dtype.kind != "b":
                values = values.astype(np.float64)
            columns[head] = values
        lengths = {len(values) for values in columns.values()}
        if len(lengths) > 1:
            raise Fault(f"columns of obs have different lengths: {sorted(lengths)}")
        names = arrays.get("vertex_names")
        return columns, None if names is None else _source.words_from_array(names, len(names), size)


def _isolated_arrays(path: Path, kind: str, what: str, *genes: str) -> tuple[dict[str, AnyArray], int]:
    check_installed(kind)
    with _source.open_input(path) as (_, size), tempfile.TemporaryFile() as output:
        run_worker(path, kind, what, size, output, *genes)
        output.seek(0)
        if output.read(9) == b"refused: ":
            raise Fault(_source.brief(output.read(600).decode("utf-8", "replace")))
        try:
            return _source.read_archive(output, size), size
        except Fault as fault:
            # Out of memory or time, or a crash of the library.
            said = f"the process reading it failed: {fault.args[0]}"
            raise Fault(f"the file is damaged ({said})") from fault


def run_worker(path: Path, kind: str, what: str, size: int, output: IO[bytes], *genes: str) -> None:
    """Let a worker write into a file; however it ends, it has ended afterwards."""
    seconds = _CPU_SECONDS + (size >> 20)
    # The environment keeps libhdf5 from loading plugins that a file asks for, BLAS from starting threads, and
    # pyarrow from setting aside memory that counts against the limit.
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(folder for folder in sys.path if folder),
        "HDF5_PLUGIN_PRELOAD": "::",
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONWARNINGS": "ignore",
        "ARROW_DEFAULT_MEMORY_POOL": "system",
    }
    limits = (str(_source.memory_limit(size)), str(seconds))
    with suppress(subprocess.TimeoutExpired):
        # -P: a file of the current folder must not be taken for a module. A list of arguments and no shell:
        # the file's name, the only one from outside, is never parsed.
        subprocess.run(  # noqa: S603
            [sys.executable, "-P", str(_WORKER), kind, what, str(path.absolute()), *limits, *genes],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.DEVNULL,
            env=environment,
            timeout=_WAIT_FACTOR * seconds,
            check=False,
        )
