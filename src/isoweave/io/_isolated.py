"""Parquet and AnnData files, read in a process of their own (``_worker.py``) whose output is not believed."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import IO

import numpy as np
import scipy.sparse as sp

from isoweave._typing import AnyArray
from isoweave.io._arrays import read_archive
from isoweave.io._edges import graph_from_edges
from isoweave.io._source import InputFileError, brief, memory_limit, open_input, words_from_array
from isoweave.io._sparse import matrix_from_npz

NEEDED = {
    "parquet": (
        "pyarrow",
        "Parquet files need pyarrow: pip install 'isoweave[parquet]', or use .npy or .csv.",
    ),
    "h5ad": ("h5py", ".h5ad files need h5py: pip install 'isoweave[anndata]', or use .npz or .npy."),
}
_WORKER = Path(__file__).with_name("_worker.py")
# Processor seconds of the worker: for its start, and one more per megabyte. Waiting is limited more
# generously, because a busy machine is no fault of the file.
_CPU_SECONDS = 4
_WAIT_FACTOR = 10


def read_parquet(path: Path, as_graph: bool) -> tuple[AnyArray | sp.csr_array, tuple[str, ...] | None]:
    """Features, or a distance graph from the columns i, j, distance; and names, if there are any."""
    arrays = _read_isolated(path, "parquet", as_graph)
    numbers = arrays.pop("numbers", np.empty(0))
    if numbers.ndim != 2 or numbers.dtype != np.float64:
        raise InputFileError(path, f"the file is damaged ({numbers.dtype} of shape {numbers.shape})")
    text = [words_from_array(path, array, len(numbers), "") for array in arrays.values()]
    if not as_graph:
        return numbers, text[-1] if text else None
    if len(numbers) == 0:
        raise InputFileError(path, "the file holds no edges")
    # Names are numbered in the order in which they first appear, row by row.
    number_of: dict[str, int] = {}
    if len(text) == 2:
        named = [
            number_of.setdefault(name, len(number_of)) for pair in zip(*text, strict=True) for name in pair
        ]
        ends = np.array(named, dtype=np.float64).reshape(-1, 2)
    else:
        ends = numbers[:, :2]
    bad = ~((ends >= 0) & (ends < 2**31) & (ends == np.floor(ends)))
    if ends.shape[1] != 2 or bad.any():
        row, column = np.argwhere(bad)[0] if bad.any() else (0, 0)
        what = f"vertex {ends[row, column]} in row {row} is not a row number"
        raise InputFileError(path, f"{what}: integers are counted from 0")
    i, j = ends.astype(np.int64).T
    return graph_from_edges(path, i, j, numbers[:, -1]), tuple(number_of) or None


def read_h5ad(path: Path, as_graph: bool) -> tuple[AnyArray | sp.csr_array, tuple[str, ...] | None]:
    """``obsp["distances"]``, or ``obsm["X_pca"]`` or else ``X``, and the names of the observations.

    Only these arrays are read, from the on-disk format of anndata 0.7 and later; objects, links and datasets
    in other files are never followed.
    """
    arrays = _read_isolated(path, "h5ad", as_graph)
    names = arrays.pop("vertex_names", None)
    found = matrix_from_npz(path, arrays)
    return found, None if names is None else words_from_array(path, names, found.shape[0], "")


def _read_isolated(path: Path, kind: str, as_graph: bool) -> dict[str, AnyArray]:
    """The arrays that a worker makes of a file."""
    package, message = NEEDED[kind]
    if importlib.util.find_spec(package) is None:
        raise ImportError(message)
    with open_input(path) as (_, size), tempfile.TemporaryFile() as output:
        run_worker(path, kind, as_graph, size, output)
        output.seek(0)
        if output.read(9) == b"refused: ":
            raise InputFileError(path, brief(output.read(600).decode("utf-8", "replace")))
        try:
            return read_archive(path, output, size)
        except InputFileError as error:
            # Out of memory or time, or a crash of the library.
            said = f"the file is damaged (the process reading it failed: {error.reason})"
            raise InputFileError(path, said) from error


def run_worker(path: Path, kind: str, as_graph: bool, size: int, output: IO[bytes]) -> None:
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
    what = "graph" if as_graph else "features"
    limits = (str(memory_limit(size)), str(seconds))
    with suppress(subprocess.TimeoutExpired):
        # -P: a file of the current folder must not be taken for a module. A list of arguments and no shell:
        # the file's name, the only one from outside, is never parsed.
        subprocess.run(  # noqa: S603
            [sys.executable, "-P", str(_WORKER), kind, what, str(path.absolute()), *limits],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.DEVNULL,
            env=environment,
            timeout=_WAIT_FACTOR * seconds,
            check=False,
        )
