"""The device: arrays on it, kernels compiled for it, and the errors where there is none."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from isoweave._typing import AnyArray

_KERNELS = Path(__file__).with_name("kernels")
_THREADS = 128
_LANES = 32
# One matrix of N x N numbers is kept in registers up to here, beyond by a warp in shared memory.
_IN_REGISTERS = 3
# Entries of a row beyond which a warp sums them, whatever a thread does otherwise.
LONGEST_ROW = 512


class DeviceError(ImportError):
    """There is no usable device: no CuPy, no driver, or no GPU."""


def kernel_source(name: str) -> str:
    """The text of one file of kernels with what it includes."""
    lines = []
    for line in (_KERNELS / name).read_text(encoding="utf-8").splitlines():
        if line.startswith('#include "'):
            lines.append(kernel_source(line.split('"')[1]))
        else:
            lines.append(line)
    return "\n".join(lines)


def kernel_defines(name: str, n_components: int, real: str, teams: bool = False) -> dict[str, Any]:
    """What a file of kernels is compiled with for embeddings in N dimensions; ``teams`` wants warps."""
    teams |= name != "align.cu" or n_components > _IN_REGISTERS
    lanes = _LANES if teams else 1
    return {"N": n_components, "REAL": real, "LANES": lanes, "TEAMS": int(teams), "LONGEST": LONGEST_ROW}


class Module:
    """The kernels of one file, compiled for one dimension."""

    def __init__(self, device: CudaDevice, name: str, *how: Any) -> None:
        self._device, defines = device, kernel_defines(name, *how)
        self._lanes = defines["LANES"]
        options = ("--std=c++14", "--fmad=false", *(f"-D{key}={value}" for key, value in defines.items()))
        self._module = device.xp.RawModule(code=kernel_source(name), options=options)
        self._functions: dict[str, Any] = {}

    def each(self, name: str, n_threads: int, *args: Any) -> None:
        """Run a kernel with a thread for every item, or fewer that take several."""
        blocks = max(1, min(-(-n_threads // _THREADS), 2**30))
        self._function(name)((blocks,), (_THREADS,), tuple(map(_argument, args)))

    def teams(self, name: str, n_items: int, *args: Any, words: int = 0, most: int = 2**26) -> None:
        """Run a kernel with a team for every item, up to ``most``, with shared memory for each of them."""
        function, per_block = self._function(name), max(1, _THREADS // self._lanes)
        if words:
            per_block = max(1, min(per_block, self._device.shared_bytes // (8 * words)))
            function.max_dynamic_shared_size_bytes = 8 * words * per_block
        blocks = max(1, min(-(-n_items // per_block), most // per_block))
        shape, values = ((blocks,), (per_block * self._lanes,)), tuple(map(_argument, args))
        function(*shape, values, shared_mem=8 * words * per_block)

    def _function(self, name: str) -> Any:
        if name not in self._functions:
            self._functions[name] = self._module.get_function(name)
        return self._functions[name]


def _argument(value: Any) -> Any:
    """As a kernel takes it: int, double or pointer."""
    if value is None:
        return np.uintp(0)
    if isinstance(value, int):
        return np.int32(value)
    return np.float64(value) if isinstance(value, float) else value


class CudaDevice:
    """One NVIDIA GPU, through CuPy; all work is done in one stream.

    ``xp`` and ``sparse`` are CuPy's counterparts of numpy and scipy.sparse, ``shared_bytes`` the fast memory
    of a block.
    """

    def __init__(self) -> None:
        try:
            import cupy
            import cupyx.scipy.sparse
        except ImportError as error:
            raise DeviceError(
                f"engine='cuda' needs CuPy ({error}): run `pip install isoweave[gpu]`, or use engine='cpu'."
            ) from error
        try:
            n_devices = cupy.cuda.runtime.getDeviceCount()
        except cupy.cuda.runtime.CUDARuntimeError as error:
            raise DeviceError(
                f"engine='cuda' found no usable GPU or driver ({error}); nvidia-smi shows what there is. "
                "Use engine='cpu', or 'auto', which falls back to it."
            ) from error
        if n_devices == 0:
            raise DeviceError(
                "engine='cuda' found no GPU; use engine='cpu', or 'auto', which falls back to it."
            )
        self.xp, self.sparse = cupy, cupyx.scipy.sparse
        properties = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)
        self.name = properties["name"].decode()
        self.shared_bytes = int(properties["sharedMemPerBlockOptin"])
        self.stream = cupy.cuda.Stream(non_blocking=True)
        # One fit at a time: what is recorded must hold nobody else's calls.
        self.lock = threading.RLock()
        self._process = os.getpid()
        self._modules: dict[tuple[str, int, str, bool], Module] = {}

    @contextmanager
    def busy(self) -> Iterator[None]:
        """While a fit works here."""
        if os.getpid() != self._process:
            raise DeviceError(
                "engine='cuda': the GPU cannot be used in a process forked from one that has used it; start "
                "processes with multiprocessing's 'spawn', or use engine='cpu'."
            )
        with self.lock, self.stream:
            yield

    def module(self, name: str, n_components: int = 1, real: str = "double", teams: bool = False) -> Module:
        """The kernels of a file, compiled once."""
        key = (name, n_components, real, teams)
        if key not in self._modules:
            self._modules[key] = Module(self, *key)
        return self._modules[key]

    def record(self, work: Callable[[], None]) -> Callable[[], None]:
        """A function that repeats these kernel calls, in one launch; they have been called once before."""
        self.stream.begin_capture()
        try:
            work()
        finally:
            graph = self.stream.end_capture()
        return lambda: graph.launch(self.stream)

    def put(self, array: AnyArray) -> Any:
        """Copy of a host array on the device."""
        return self.xp.asarray(array)

    def get(self, array: Any) -> AnyArray:
        """Copy of a device array on the host."""
        return self.xp.asnumpy(array)

    def free_bytes(self) -> int:
        """Memory that is free, with what CuPy keeps for reuse."""
        pool = self.xp.get_default_memory_pool()
        return int(self.xp.cuda.runtime.memGetInfo()[0]) + int(pool.free_bytes())


@lru_cache(maxsize=1)
def find_device() -> CudaDevice:
    """The current GPU, or a :class:`DeviceError` that says what is missing."""
    return CudaDevice()
