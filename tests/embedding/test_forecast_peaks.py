"""Predicted peaks of memory against those of processes that make the fit."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

PROGRAM = """
import ctypes, gc, json, sys, time, warnings
import numpy as np, scipy.sparse as sp
from isoweave import embed_graph, estimate_resources
from isoweave.datasets import difficult, flat_torus, sphere, swiss_roll
from isoweave._memory import process_status
from isoweave.graph import knn_graph
warnings.simplefilter("ignore")
def grid(side):
    number = np.arange(side * side).reshape(side, side)
    pairs = np.concatenate([np.column_stack((number[1:].ravel(), number[:-1].ravel())),
                            np.column_stack((number[:, 1:].ravel(), number[:, :-1].ravel()))])
    return sp.coo_array((np.ones(len(pairs)), pairs.T), shape=(side * side,) * 2).tocsr()
def cloud(points, k):
    return knn_graph(points, k).to_matrix()
rng = np.random.default_rng(877)
cases = CASES
def run(make, n_components, options, measured):
    graph = make()
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    clock = time.process_time()
    estimate = estimate_resources(graph, n_components, **options)
    clock = time.process_time() - clock
    open("/proc/self/clear_refs", "w").write("5")
    fit = time.process_time()
    embed_graph(graph, n_components, **options)
    fit = time.process_time() - fit
    resident = estimate.peak_bytes - estimate.growth_bytes
    return [process_status()["VmHWM"] - resident, estimate.growth_bytes, resident, clock / fit,
            estimate.cpu_seconds / fit]
small = cloud(swiss_roll(3500, random_state=881).data, 8)
for n_components, options in ((2, {}), (5, {"solver": "amg"}), (5, {"solver": "jacobi"})):
    embed_graph(small, n_components, **options)
print(json.dumps([run(*case, True) for case in cases]))
"""


def measure(*cases):
    program = PROGRAM.replace("CASES", "[" + ", ".join(cases) + "]")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def check_measured(rows):
    for measured, predicted, resident, share, _ in rows:
        assert measured > 30e6, "too small a fit to tell anything"
        ratio = (resident + predicted) / (resident + measured)
        assert 0.95 <= ratio <= 1.25, (
            f"peak predicted {predicted / 1e6:.0f}, measured {measured / 1e6:.0f} MB"
        )
        assert 0.8 <= predicted / measured <= 2.5
        # A tenth is asked for on large graphs; these are small, and others work on the machine.
        assert share < 0.25


linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads and resets peaks in /proc")


@linux
def test_peaks_of_processes():
    """Five kinds of fits: surface, grid, five dimensions by two solvers, pieces."""
    rows = measure(
        "(lambda: cloud(swiss_roll(20_000, random_state=883).data, 9), 2, {'n_jobs': 1})",
        "(lambda: grid(220), 2, {'n_jobs': 2})",
        "(lambda: cloud(sphere(12_000, random_state=887).data, 10), 5, {'solver': 'amg', 'frame_size': 14})",
        "(lambda: cloud(rng.normal(size=(3500, 10)), 12), 11, {'solver': 'jacobi', 'n_jobs': 2})",
        "(lambda: sp.block_diag([grid(150), grid(130)], format='csr'), 3, {'start': 'landmark'})",
    )
    check_measured(rows)


@linux
@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        "(lambda: cloud(swiss_roll(150_000, random_state=907).data, 10), 2, {})",
        "(lambda: cloud(swiss_roll(60_000, random_state=911).data, 20), 2, {'n_jobs': 1})",
        "(lambda: cloud(sphere(80_000, random_state=919).data, 8), 3, {})",
        "(lambda: cloud(flat_torus(40_000, random_state=929).data, 10), 3, {'start': 'landmark'})",
        "(lambda: cloud(difficult(20_000, random_state=937).data, 14), 5, {})",
        "(lambda: cloud(rng.uniform(size=(40_000, 3)), 12), 3, {})",
        "(lambda: cloud(rng.uniform(size=(80_000, 3)), 12), 3, {'solver': 'amg'})",
        "(lambda: cloud(rng.normal(size=(8000, 13)), 15), 13, {})",
        "(lambda: cloud(swiss_roll(80_000, random_state=941).data, 10), 1, {'frame_size': 40})",
        "(lambda: grid(500), 2, {'solver': 'direct'})",
    ],
)
def test_peaks_of_larger_processes(case):
    check_measured(measure(case))
