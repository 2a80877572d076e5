"""Many small fits leave no thread, no descriptor and no memory behind."""

from __future__ import annotations

import json
import os

import pytest

from process_scripts import run_python

MEASURE = """
import gc, json
import scipy.sparse as sp

def state():
    gc.collect()
    with open("/proc/self/statm") as stream:
        megabytes = int(stream.read().split()[1]) * os.sysconf("SC_PAGESIZE") / 2**20
    return {
        "threads": threading.active_count(),
        "tasks": len(os.listdir("/proc/self/task")),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "megabytes": megabytes,
    }

def graph(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(20, 120))
    i = np.arange(n)
    pairs = np.vstack([np.c_[i, (i + 1) % n], rng.integers(n, size=(2 * n, 2))])
    pairs = np.unique(np.sort(pairs[pairs[:, 0] != pairs[:, 1]], axis=1), axis=0)
    return sp.coo_array((rng.uniform(0.5, 2.0, len(pairs)), pairs.T), shape=(n, n))

SETTINGS = [
    {"n_jobs": 1},
    {"n_jobs": 3},
    {"n_jobs": 2, "solver": "amg"},
    {"n_jobs": 2, "solver": "jacobi"},
    {"n_jobs": 2, "preset": "paper"},
]

def fit(number):
    # Graphs by several solvers, features, and a call that fails.
    kind = number % 7
    if kind < 5:
        embed_graph(graph(number % 50), 2, tol=10.0, **SETTINGS[kind])
    elif kind == 5:
        IsometricEmbedding(2, n_neighbors=6, n_jobs=2, tol=10.0).fit(points(number % 50, 150))
    else:
        try:
            embed_graph(graph(number % 50), 500)
        except ValueError:
            return
        raise AssertionError("500 dimensions were accepted")

found = []
# The first fits load libraries and grow the allocator's arenas.
for count in (14, int(os.environ["FITS"])):
    for number in range(count):
        fit(number)
    found.append(state())
print(json.dumps(found))
"""


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="needs Linux's /proc")
@pytest.mark.parametrize("count", [14, pytest.param(1000, marks=pytest.mark.slow)])
def test_small_fits(tmp_path, count):
    before, after = json.loads(run_python(MEASURE, tmp_path, timeout=1200, FITS=str(count)))
    assert after["threads"] == before["threads"] == 1
    assert after["tasks"] <= before["tasks"]
    assert after["descriptors"] == before["descriptors"]
    assert after["megabytes"] - before["megabytes"] < 20.0
