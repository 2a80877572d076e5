"""How kernels are compiled.

Compiling is most of the first run, so it is kept small: a helper becomes part of every kernel that calls it
and is compiled again with each, hence few levels of calls; slices, array expressions, ``**``, ``np.full``,
``np.sort`` and the like bring whole libraries with them where a loop costs nothing. Arrays are C-contiguous
float64 or int32 throughout, so that every kernel has one signature.
"""

from __future__ import annotations

from numba import njit

# Called from Python and cached on disk. Nothing calls kernels from C, so that entry is left out.
kernel = njit(nogil=True, cache=True, no_cfunc_wrapper=True)

# Called from kernels, which hold a copy of it: no cache file of its own.
helper = njit(nogil=True, no_cfunc_wrapper=True)
