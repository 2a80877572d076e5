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

from numba import types
from numba.core import event

from isoweave.engines.plain import FEW

# In the order of need, with the types of the arguments: n an integer, t a truth value, and for arrays the
# kind of their entries and the number of their axes. What depends on the dimension is there in every version.
KERNELS = {
    "paths.common_neighbors": "n n i1 i1 f1",
    "paths.sort_rows_by_length": "n n n i1 i1 f1 i1 f1",
    "paths.find_detours": "n n i1 f1 n n i1 i1 i1 f1 t1 s1 s1",
    "local_mds.local_mds": "n n i1 i1 f1 i1 f1 n n n t t1 f2 f2 f2 t1",
    "cholesky.permute": "i1 i1 i1",
    "cholesky.elimination_tree": "i1 i1",
    "cholesky.postorder": "i1",
    "cholesky.column_counts": "i1 i1 i1",
    "cholesky.find_supernodes": "i1 n1",
    "cholesky.supernode_rows": "i1 i1 i1 i1 n1 i1",
    "cholesky.factorise": "n n n i1 i1 n1 i1 n1 i1 i1 n1 i1 i1 f1 f1 f1 i1",
    "alignment.align_edges_plane": "n n i1 i1 f1 f2 f2 f3 f1 f2",
    "alignment.align_edges": "n n i1 i1 f1 f2 f2 f3 f1 f2",
    "alignment.divergence": "n n i1 i1 f2 f2",
    "sparse.project": "i1 f1 f2 f2",
    "sparse.dot_chunks": "n n f2 f2 f2",
    "cholesky.substitute": "n n n n t t i1 i1 n i1 n1 i1 n1 f1 f2",
    "sparse.multiply_rows": "n n i1 i1 f1 f2 f2",
    "paths.nearest_lists": "n n i1 i1 f1 i2 f2",
    "alignment.frame_transitions_plane": "n n i1 i1 f2 t1 f3 f1",
    "alignment.frame_transitions": "n n i1 i1 f2 t1 f3 f1",
    "stress.edge_stress": "n n i1 i1 f1 f1 f1 f2 f1 f2",
    "alignment.normal_equations": "n n i1 i1 t1 f2 f2 f3 f3",
}
# Small problems do these in plain numpy.
_PLAIN = {
    "paths.common_neighbors", "paths.sort_rows_by_length", "cholesky.permute", "alignment.divergence",
    "sparse.project", "sparse.multiply_rows", "alignment.normal_equations",
}  # fmt: skip
_KINDS: dict[str, Any] = {
    "n": types.int64, "i": types.int32, "s": types.int8, "f": types.float64, "t": types.boolean
}  # fmt: skip
# The frames, which are compiled early, take as long as half of the others.
_MOST_PROCESSES = 2
_busy = threading.Lock()


def needed(n_components: int, n_entries: int) -> list[str]:
    """The kernels of an ordinary fit of a graph with so many stored edges, in the order of need."""
    from isoweave.engines.alignment import align_edges_in, frame_transitions_in

    chosen = (align_edges_in(n_components).__name__, frame_transitions_in(n_components).__name__)

    def is_needed(name: str) -> bool:
        if n_entries <= FEW and name in _PLAIN:
            return False
        function = name.split(".")[1]
        return function in chosen or not function.startswith(("align_edges", "frame_transitions"))

    return [name for name in KERNELS if is_needed(name)]


def kernel_and_types(name: str) -> tuple[Any, tuple[Any, ...]]:
    """A kernel of the table and the types of its arguments."""
    module, function = name.split(".")
    kernel = getattr(import_module(f"isoweave.engines.{module}"), function)
    return kernel, tuple(_type(word) for word in KERNELS[name].split())


def _type(word: str) -> Any:
    kind, axes = _KINDS[word[0]], word[1:]
    return types.Array(kind, int(axes), "C") if axes else kind


@contextmanager
def compiled_ahead(n_threads: int, n_components: int, n_entries: int) -> Iterator[None]:
    """Other processes compile, if there are cores for them and a kernel is compiled inside the block."""
    name = Path(sys.executable or "").name.lower()
    # A program that embeds Python, or was made of it, is not asked to run a module.
    if n_threads == 1 or getattr(sys, "frozen", False) or not name.startswith("python"):
        yield
        return
    names = needed(n_components, n_entries)[::-1]
    count = min(n_threads - 1, _MOST_PROCESSES)
    others = _Others([names[first::count] for first in range(count)])
    try:
        with event.install_listener("numba:compile", others):
            yield
    finally:
        others.end()


class _Others(event.Listener):
    """The other processes, started by the first kernel that is compiled; one fit at a time has them."""

    def __init__(self, shares: list[list[str]]) -> None:
        self.shares = shares
        self.processes: list[subprocess.Popen[bytes]] | None = None

    def on_start(self, event: Any) -> None:
        function = event.data["dispatcher"].py_func
        name = f"{function.__module__.rpartition('.')[2]}.{function.__name__}"
        if self.processes is None and name in KERNELS and _busy.acquire(blocking=False):
            self.processes = []
            for names in self.shares:
                self._start(names)

    def on_end(self, event: Any) -> None:
        pass

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
