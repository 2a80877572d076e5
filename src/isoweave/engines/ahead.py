"""Kernels compiled side by side: other processes compile the last ones while a first fit compiles the first.

Numba compiles one function at a time, on one core, and keeps the result on disk. When a fit has to compile,
other processes compile the kernels of an ordinary fit, from the last one it needs to the first, and the fit
finds on disk what it has not compiled itself by then. They end with the fit at the latest, or with the
process that started them. Whatever goes wrong with them, the fit compiles everything itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from isoweave.engines.plain import FEW, LEAST_BANDED, MOST_BANDED, SEVERAL, SOME, WORTH_COMPILING

# In the order of need, with the types of the arguments: n an integer, f a number, t a truth value, and for
# arrays the kind of their entries and the number of their axes. What depends on the dimension is there in
# every version.
KERNELS = {
    "paths.common_neighbors": "n n i1 i1 f1",
    "paths.sort_rows_by_length": "n n n i1 i1 f1 i1 f1",
    "paths.find_detours": "n n i1 f1 n n i1 i1 i1 f1 t1 s1 s1",
    "local_mds.local_mds": "n n i1 i1 f1 i1 f1 n n n t t1 f2 f2 f2 t1",
    "local_mds.local_mds_several": "n n i1 i1 f1 i1 f1 n n n t t1 f2 f2 f2 t1",
    "cholesky.count_entries": "i1 i1 n",
    "cholesky.factorise": "i1 i1 f1 f1 f f n i1 f1",
    "alignment.align_edges_plane": "n n i1 i1 f1 f2 f2 f3 f1 f2",
    "alignment.align_edges": "n n i1 i1 f1 f2 f2 f3 f1 f2",
    "alignment.divergence": "n n i1 i1 f2 f2",
    "sparse.project": "i1 f1 f2 f2",
    "sparse.dot_chunks": "n n f2 f2 f2",
    "cholesky.substitute": "n n n1 i1 f1 f2",
    "sparse.multiply_rows": "n n i1 i1 f1 f2 f2",
    "paths.nearest_lists": "n n i1 i1 f1 i2 f2",
    "alignment.frame_transitions_plane": "n n i1 i1 f2 t1 f3 f1",
    "alignment.frame_transitions": "n n i1 i1 f2 t1 f3 f1",
    "stress.edge_stress": "n n i1 i1 i1 f1 f1 f2 f1 f2",
}
# Small problems do these in plain numpy.
_PLAIN = {
    "paths.common_neighbors", "paths.sort_rows_by_length", "alignment.divergence",
    "sparse.project", "sparse.multiply_rows",
}  # fmt: skip
_KINDS = {"n": "int64", "i": "int32", "s": "int8", "f": "float64", "t": "boolean"}
# The graph that the synchronized start makes has at most about so many times the edges.
_COMPANION = 3
# The frames, which are compiled early, take as long as half of the others.
_MOST_PROCESSES = 2
_busy = threading.Lock()
_fits: list[_Others] = []


def needed(n_components: int, n_vertices: int, n_entries: int, *, spared: bool = True) -> list[str]:
    """The kernels of an ordinary fit of a connected graph with so many stored edges, in the order of need.

    ``spared``: without those that have twins, if the graph is small enough for them.
    """
    is_banded = LEAST_BANDED <= n_vertices <= MOST_BANDED
    plane = n_components == 2
    other = {f"alignment.{name}{'' if plane else '_plane'}" for name in ("align_edges", "frame_transitions")}
    if n_components == 1:
        other = {"alignment.align_edges_plane", "alignment.frame_transitions"}
    other.add(f"local_mds.local_mds{'_several' if n_components < SEVERAL else ''}")

    def is_needed(name: str) -> bool:
        if name in other or (n_entries <= FEW and name in _PLAIN):
            return False
        if is_banded and name.startswith("cholesky."):
            return False
        return not (spared and name in WORTH_COMPILING and _COMPANION * n_entries <= SOME)

    return [name for name in KERNELS if is_needed(name)]


def kernel_and_types(name: str) -> tuple[Any, tuple[Any, ...]]:
    """A kernel of the table and the types of its arguments."""
    module, function = name.split(".")
    kernel = getattr(import_module(f"isoweave.engines.{module}"), function)
    return kernel, tuple(_type(word) for word in KERNELS[name].split())


def _type(word: str) -> Any:
    from numba import types

    kind, axes = getattr(types, _KINDS[word[0]]), word[1:]
    return types.Array(kind, int(axes), "C") if axes else kind


@contextmanager
def compiled_ahead(n_threads: int, n_components: int, n_vertices: int, n_entries: int) -> Iterator[None]:
    """Other processes compile, if there are cores for them and a kernel is compiled inside the block."""
    name = Path(sys.executable or "").name.lower()
    # A program that embeds Python, or was made of it, is not asked to run a module.
    if n_threads == 1 or getattr(sys, "frozen", False) or not name.startswith("python"):
        yield
        return
    count = min(n_threads - 1, _MOST_PROCESSES)
    # Those that have twins, too, if one of them has to be compiled.
    names = [needed(n_components, n_vertices, n_entries, spared=spared)[::-1] for spared in (True, False)]
    others = _Others(*([each[first::count] for first in range(count)] for each in names))
    _fits.append(others)
    try:
        yield
    finally:
        _fits.remove(others)
        others.end()


def when_compiling(function: Any) -> None:
    """Tell the fits that are running that numba begins to compile a Python function."""
    name = f"{function.__module__.rpartition('.')[2]}.{function.__name__}"
    if name in KERNELS:
        for others in tuple(_fits):
            others.begin(name)


class _Others:
    """The other processes, started by the first kernel that is compiled; one fit at a time has them.

    ``shares`` is what each of them compiles, ``with_twins`` if that first kernel has a twin.
    """

    def __init__(self, shares: list[list[str]], with_twins: list[list[str]] | None = None) -> None:
        self.shares, self.with_twins = shares, with_twins or shares
        self.processes: list[subprocess.Popen[bytes]] | None = None

    def begin(self, name: str) -> None:
        if self.processes is None and _busy.acquire(blocking=False):
            self.processes = []
            for names in self.with_twins if name in WORTH_COMPILING else self.shares:
                self._start(names)

    def _start(self, names: list[str]) -> None:
        path = os.pathsep.join(folder for folder in sys.path if folder)
        alone = {"PYTHONPATH": path, "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"}
        # Arguments of our own, and no shell. Its input never comes; it ends when this process does.
        command = [sys.executable, "-P", "-m", __name__, *names]
        try:
            process = subprocess.Popen(  # noqa: S603
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=os.environ | alone,
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )
        except OSError:
            return
        self.processes.append(process)  # type: ignore[union-attr]

    def end(self) -> None:
        if self.processes is None:
            return
        for process in self.processes:
            process.kill()
            process.communicate()
        _busy.release()


def _end_with_input() -> None:
    os.read(0, 1)
    os._exit(0)


def _compile(names: list[str]) -> None:
    threading.Thread(target=_end_with_input, daemon=True).start()
    for name in names:
        kernel, arguments = kernel_and_types(name)
        kernel.compile(arguments)


if __name__ == "__main__":
    _compile(sys.argv[1:])
