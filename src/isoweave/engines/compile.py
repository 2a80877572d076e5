"""How kernels are compiled.

Compiling is most of the first run, so it is kept small: a helper becomes part of every kernel that calls it
and is compiled again with each, hence few levels of calls; copies of slices, array expressions, ``**``,
``np.full``, ``np.sort`` and the like bring whole libraries with them where a loop costs nothing. Arrays are
C-contiguous float64 or int32 throughout, so that every kernel has one signature.
"""

from typing import Any

from numba import njit
from numba.core import event

from isoweave.engines.ahead import when_compiling

# Nothing calls kernels from C, so that entry is left out. (numba's type hints do not know the option.)
_OPTIONS: dict[str, Any] = {"nogil": True, "no_cfunc_wrapper": True, "error_model": "numpy"}

# Called from Python and cached on disk.
kernel: Any = njit(cache=True, **_OPTIONS)
# The same with leave to reorder sums, so that loops use vector instructions.
reordering_kernel: Any = njit(cache=True, fastmath={"reassoc", "contract", "nsz"}, **_OPTIONS)
# Called from kernels, which hold a copy of it: no cache file and no entry from Python of its own.
helper: Any = njit(**_OPTIONS | {"no_cpython_wrapper": True})
# The same for the innermost loops of searches, copied before types are known.
inlined: Any = njit(nogil=True, inline="always", error_model="numpy")


class _Begin(event.Listener):
    def on_start(self, event: Any) -> None:
        when_compiling(event.data["dispatcher"].py_func)

    def on_end(self, event: Any) -> None:
        pass


event.register("numba:compile", _Begin())
