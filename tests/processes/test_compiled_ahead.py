"""Kernels of a first fit compiled by other processes: which ones, where they go, when they end."""

import json
import os
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from isoweave.engines import ahead, cholesky, local_mds, neighbors, plain
from process_scripts import TIMEOUT, run_python

QUICK = "cholesky.count_entries"
SIGNATURES = """
import json
from isoweave.engines import ahead
wrong, counts = [], []

def kernels_used():
    engines = [m for name, m in sys.modules.items() if name.startswith("isoweave.engines.")]
    values = {id(value): value for module in engines for value in vars(module).values()}.values()
    # Helpers have no file on disk.
    used = [v for v in values if getattr(v, "signatures", ()) and v.stats.cache_path]
    return [f"{k.py_func.__module__.split('.')[-1]}.{k.__name__}" for k in used]

for n_components, n in ((2, 1000), (2, 400), (3, 1000), (3, 6000)):
    if n == 6000:
        used = kernels_used()
    fitted = IsometricEmbedding(n_components, n_neighbors=10).fit(points(1, n))
    if n_components == 2:
        numba = n == 400 or "numba" not in sys.modules
    counts.append(len(ahead.needed(n_components, n, fitted.graph_.nnz)))
for name in ahead.KERNELS:
    kernel, types = ahead.kernel_and_types(name)
    # One version of every kernel, for the types that the table says.
    wrong += [] if kernel.signatures in ([], [types]) else [(name, str(kernel.signatures))]
print(json.dumps([wrong, counts, used, numba, kernels_used()]))
"""


@pytest.fixture(autouse=True)
def as_outside_of_tests(monkeypatch):
    monkeypatch.setattr(ahead, "_MOST_PROCESSES", 2)


@pytest.fixture
def others(monkeypatch, tmp_path):
    """One other process that compiles one kernel into a folder of its own."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    made = ahead._Others([[QUICK]])
    monkeypatch.setattr(ahead, "_fits", [made])
    yield made
    made.end()


def test_the_table_is_what_a_fit_compiles(tmp_path):
    """Nothing twice, nothing else: every kernel more is time that a new user waits."""
    wrong, counts, used, without_numba, all_used = json.loads(run_python(SIGNATURES, tmp_path))
    assert wrong == []
    assert counts == [0, 3, 2, 15]
    assert sorted(used) == sorted({*ahead.needed(2, 400, 1), *ahead.needed(3, 1000, 1)})
    assert without_numba
    # What only the sample of a coarse start needs has twins that are enough for it.
    assert {*ahead.needed(3, 6000, 10**6)} - {*all_used} <= {*plain.WORTH_COMPILING, *ahead._PLAIN}
    assert "local_mds.local_mds" in all_used


def test_kernels_come_from_another_process(others, tmp_path):
    ahead.when_compiling(neighbors.k_smallest.py_func)
    assert others.processes is None
    ahead.when_compiling(cholesky.count_entries.py_func)
    (process,) = others.processes
    assert process.wait(TIMEOUT) == 0
    (found,) = tmp_path.rglob("*.nbi")
    assert "count_entries" in found.name
    # One fit at a time has other processes; a second compile starts no more of them.
    second = ahead._Others([[QUICK]])
    second.begin(QUICK)
    others.begin(QUICK)
    assert second.processes is None
    assert others.processes == [process]


def test_they_end_with_the_fit(others):
    others.shares = [["local_mds.local_mds"]]
    others.begin(QUICK)
    (process,) = others.processes
    others.end()
    assert process.returncode is not None
    assert process.stdin.closed
    assert ahead._busy.acquire(blocking=False)


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs Linux's /proc")
def test_they_end_with_the_process(tmp_path):
    """However it ends."""
    program = "from isoweave.engines import ahead\n"
    program += "others = ahead._Others([ahead.needed(2, 10**5, 10**6)])\n"
    program += "others.begin('cholesky.count_entries')\n"
    program += "print(others.processes[0].pid, flush=True)\nos._exit(0)\n"
    pid = int(run_python(program, tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "cache")))
    end = time.monotonic() + TIMEOUT
    line = Path(f"/proc/{pid}/cmdline")
    with suppress(OSError):  # the file goes with the process, perhaps while it is read
        while "engines.ahead" in line.read_text():
            assert time.monotonic() < end
            time.sleep(0.05)
    # It had not got far with what takes minutes on a busy machine.
    assert len([*(tmp_path / "cache").rglob("*.nbi")]) < len(ahead.needed(2, 10**5, 10**6))


@pytest.mark.parametrize(
    ("n_threads", "executable", "frozen"),
    [(1, sys.executable, False), (2, "", False), (2, "/usr/bin/editor", False), (2, sys.executable, True)],
)
def test_no_process_where_there_is_no_core_or_no_python(n_threads, executable, frozen, monkeypatch):
    monkeypatch.setattr(sys, "executable", executable)
    monkeypatch.setattr(sys, "frozen", frozen, raising=False)
    monkeypatch.setattr(ahead, "_Others", None)
    with ahead.compiled_ahead(n_threads, 2, 10, 100):
        pass


def test_a_process_that_cannot_start_or_fails_is_not_missed(others, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    others.begin(QUICK)
    assert others.processes == []


def test_a_kernel_with_a_twin_calls_for_all_of_them(monkeypatch):
    begun = []
    monkeypatch.setattr(ahead._Others, "_start", lambda self, names: begun.append(names))
    with ahead.compiled_ahead(2, 2, 1000, 12_000):
        ahead.when_compiling(cholesky.count_entries.py_func)
    with ahead.compiled_ahead(2, 2, 1000, 12_000):
        ahead.when_compiling(local_mds.local_mds.py_func)
    assert begun[0] == []
    assert "local_mds.local_mds" in begun[1]
    assert "stress.edge_stress" in begun[1]
    assert ahead._fits == []


@pytest.mark.slow
def test_a_first_fit_has_the_same_bits(tmp_path):
    program = "print(digest(1, n_jobs=int(os.environ['JOBS'])))\n"
    alone = run_python(program, tmp_path, JOBS="1", NUMBA_CACHE_DIR=str(tmp_path / "alone"))
    both = run_python(program, tmp_path, JOBS="3", NUMBA_CACHE_DIR=str(tmp_path / "both"))
    assert alone == both
    counts = [len([*(tmp_path / name).rglob("*.nbi")]) for name in ("alone", "both")]
    assert counts[0] <= counts[1]
