"""A device that is none: numpy for CuPy, and the CUDA kernels compiled as C++, one thread a team."""

import ctypes
import shutil
import subprocess
import tempfile
from contextlib import nullcontext
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from isoweave.cuda._device import kernel_defines, kernel_source

COMPILER = shutil.which("g++") or shutil.which("clang++")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler to run the kernels with")


@cache
def library(name, *how):
    folder = Path(tempfile.mkdtemp(prefix="isoweave-kernels-"))
    source = folder / "kernels.cpp"
    source.write_text(kernel_source(name), encoding="utf-8")
    defines = [f"-D{k}={v}" for k, v in kernel_defines(name, *how).items() if k != "LANES"]
    command = [COMPILER, "-Og", "-ffp-contract=off", "-shared", "-fPIC", "-w", "-DHOST_TWIN", *defines]
    subprocess.run([*command, str(source), "-o", str(folder / "kernels.so")], check=True, capture_output=True)
    loaded = ctypes.CDLL(str(folder / "kernels.so"))
    shutil.rmtree(folder)
    return loaded


def argument(value):
    if value is None:
        return ctypes.c_void_p(0)
    if isinstance(value, np.ndarray):
        assert value.flags.c_contiguous
        return ctypes.c_void_p(value.ctypes.data)
    return ctypes.c_double(value) if isinstance(value, float) else ctypes.c_int(value)


class HostModule:
    def __init__(self, *key):
        self._library = library(*key)

    def each(self, name, n_threads, *args):
        getattr(self._library, name)(*map(argument, args))

    def teams(self, name, n_items, *args, words=0, most=0):
        self.each(name, n_items, *args)


class HostDevice:
    """What the engine asks of a device, on the host."""

    xp, sparse, name, busy = np, sp, "host", nullcontext

    def __init__(self, free=2**40, shared=2**24):
        self._free, self.shared_bytes = free, shared

    def module(self, name, n_components=1, real="double", teams=False):
        return HostModule(name, n_components, real, teams)

    def record(self, work):
        return work

    def put(self, array):
        return np.ascontiguousarray(array)

    def get(self, array):
        return np.asarray(array)

    def free_bytes(self):
        return self._free
