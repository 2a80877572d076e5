"""The most that a file of about a megabyte can make each reader do: processor time and memory.

    python fuzz/worst_cases.py

Every file is just within the limits of ``isoweave.io``, and made so that as little file as possible becomes
as much work as possible. Prints a Markdown table; memory is what the process grew by, at its peak.
"""

from __future__ import annotations

import os
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import isoweave.graph  # loaded here, so that it is not measured
import isoweave.result  # noqa: F401
from isoweave.io import InputFileError, read_embedding, read_input, read_labels
from isoweave.io._source import FREE_BYTES

VALUES = FREE_BYTES // 8 - 1000
ENTRIES = VALUES // 3
SIDE = int(VALUES**0.5)
VERTICES = FREE_BYTES // 16 - 1


def as_graph(path: Path) -> Any:
    return read_input(path, as_graph=True)


def sparse(layout: str, n: int, **arrays: np.ndarray) -> dict[str, np.ndarray]:
    return {"format": np.array(layout.encode()), "shape": np.array([n, n]), **arrays}


def archives() -> dict[str, tuple[dict[str, np.ndarray], Callable[[Path], Any]]]:
    ends = np.zeros(ENTRIES, np.int64)
    return {
        "square array of float64 as a graph": ({"A": np.ones((SIDE, SIDE))}, as_graph),
        "square array of int8 as a graph": ({"A": np.ones((SIDE, SIDE), np.int8)}, as_graph),
        "features of int8": ({"A": np.ones((VALUES // 10, 10), np.int8)}, read_input),
        "coo graph": (sparse("coo", VERTICES, row=ends, col=ends, data=np.ones(ENTRIES)), read_input),
        "coo graph, int8": (
            sparse(
                "coo", VERTICES, row=ends.astype("i1"), col=ends.astype("i1"), data=np.ones(ENTRIES, "i1")
            ),
            read_input,
        ),
        "csr graph": (
            sparse("csr", ENTRIES, indptr=np.arange(ENTRIES + 1), indices=ends, data=np.ones(ENTRIES)),
            read_input,
        ),
        "coordinates with names": (
            {"embedding": np.ones((FREE_BYTES // 64, 1)), "vertex_names": np.zeros(FREE_BYTES // 64, "U1")},
            read_embedding,
        ),
    }


def texts() -> dict[str, tuple[str, str, Callable[[Path], Any]]]:
    banner = "%%MatrixMarket matrix coordinate real "
    market = banner + f"symmetric\n{VERTICES} {VERTICES} 90000\n"
    return {
        "mtx, many empty rows": (
            ".mtx",
            market + "".join(f"{i + 2} {i + 1} 1\n" for i in range(90_000)),
            read_input,
        ),
        "mtx, features of zeros": (".mtx", banner + "general\n4000 4001 0\n", read_input),
        "edges, many empty rows": (".edges", "0 1 1\n" * 170_000 + f"0 {VERTICES - 1} 1\n", read_input),
        "edges with names": (".edges", "".join(f"a{i} b{i} 1\n" for i in range(60_000)), read_input),
        "csv, one line": (".csv", "11," * 349_524 + "1\n", read_input),
        "csv, one column": (".csv", "1\n" * 524_000, read_input),
        "labels of one letter": (".csv", "1\n" * 524_000, read_labels),
    }


def measure(name: str, path: Path, read: Callable[[Path], Any]) -> None:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        before = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
        started = time.process_time()
        try:
            read(path)
            result = "read"
        except InputFileError as error:
            result = f"refused: {error.reason[:60]}"
        seconds = time.process_time() - started
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10) - before
        size = path.stat().st_size
        os.write(writer, f"| {name} | {size:,} | {seconds:.2f} | {grown >> 20} | {result} |".encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader, "rb") as pipe:
        print(pipe.read().decode(), flush=True)


def main() -> None:
    print("| file | bytes | processor s | memory MiB | |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name, (arrays, read) in archives().items():
            path = Path(folder, "x.npz")
            np.savez_compressed(path, **arrays)
            del arrays
            measure(name, path, read)
        for name, (suffix, text, read) in texts().items():
            path = Path(folder, f"x{suffix}")
            path.write_text(text)
            measure(name, path, read)


if __name__ == "__main__":
    main()
