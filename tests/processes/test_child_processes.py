"""Fits in child processes: forked, spawned, by joblib; in a notebook; and many in one."""

import json
import os
import sys

import pytest

from process_scripts import TIMEOUT, run_python

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
slow = pytest.mark.slow

TOGETHER = """
import asyncio, numba
from concurrent.futures import ThreadPoolExecutor
from threadpoolctl import threadpool_info
from isoweave.engines import plain
# Python 3.12 warns of forks in a process that has threads, which is what is tried here.
warnings.filterwarnings("ignore", category=DeprecationWarning)

def in_child(seed, function=digest, **settings):
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(write, function(seed, **settings).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as stream:
        text = stream.read()
    assert os.waitpid(pid, 0)[1] == 0
    return text

# A fork before any fit. Then modules are imported and kernels loaded, or compiled, by whichever thread comes
# first: as if so much had been done in plain numpy that they are worth it.
before = in_child(1)
plain.expect(2**17)
barrier = threading.Barrier(3)
def first(seed):
    barrier.wait(500)
    return digest(seed)
with ThreadPoolExecutor(3) as pool:
    expected = dict(enumerate(pool.map(first, (1, 2, 3)), 1))
assert expected == {seed: digest(seed, n_jobs=1) for seed in (1, 2, 3)}
assert before == in_child(1) == in_child(1, n_jobs=1) == digest(1) == expected[1]
assert in_child(2, solver="amg", n_jobs=4) == digest(2, solver="amg")
# Other searches for neighbours: matrix products, and scikit-learn's distances.
wide = np.random.default_rng(3).normal(size=(200, 12))
for metric in ("euclidean", "manhattan"):
    assert in_child(3, data=wide, metric=metric) == digest(3, data=wide, metric=metric)

# As in a notebook or a server: called in the thread of an event loop, and from workers beside it.
async def main():
    beats = 0
    async def beat():
        nonlocal beats
        while True:
            await asyncio.sleep(0.001)
            beats += 1
    heart = asyncio.create_task(beat())
    assert digest(1) == expected[1]
    loop = asyncio.get_running_loop()
    jobs = (loop.run_in_executor(None, digest, seed) for seed in (1, 2))
    assert await asyncio.wait_for(asyncio.gather(*jobs), 500) == [expected[1], expected[2]]
    assert beats > 0
    heart.cancel()
asyncio.run(main(), debug=False)

# numba compiles one function at a time; a child must not wait for a compiler that is not there.
begun = threading.Event()
def compile_many():
    for factor in range(4):
        @numba.njit
        def scaled(x):
            return np.sqrt(x) * factor
        begun.set()
        scaled(np.ones(3))
def compiled(seed):
    @numba.njit
    def doubled(x):
        return 2 * x
    return str(doubled(seed))
thread = threading.Thread(target=compile_many)
thread.start()
begun.wait()
for seed in range(2):
    assert in_child(seed, compiled) == str(2 * seed)
thread.join()

# While another thread fits: the child inherits locks of a thread it does not have; Python's own clean-up
# must be complete in it.
def blas_threads():
    return [info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"]
def alone(seed):
    assert threading.enumerate() == [threading.main_thread()], threading.enumerate()
    return digest(seed)
before, stop = blas_threads(), threading.Event()
assert set(before) == {2}
def keep_fitting():
    while not stop.is_set():
        assert digest(2) == expected[2]
thread = threading.Thread(target=keep_fitting)
thread.start()
try:
    for _ in range(int(os.environ["FORKS"])):
        assert in_child(1, alone) == expected[1]
finally:
    stop.set()
    thread.join()
assert blas_threads() == before
"""


@needs_fork
@pytest.mark.parametrize(
    ("n_forks", "is_cached"),
    [(3, True), pytest.param(3, False, marks=slow), pytest.param(100, True, marks=slow)],
)
def test_forks_threads_and_event_loops(tmp_path, n_forks, is_cached):
    environment = {"FORKS": str(n_forks), "OPENBLAS_NUM_THREADS": "2"}
    if not is_cached:
        environment["NUMBA_CACHE_DIR"] = str(tmp_path / "cache")
    run_python(TOGETHER, tmp_path, timeout=2 * TIMEOUT + 12 * n_forks, **environment)


POOL = """
import multiprocessing
from joblib import Parallel, delayed

def pooled(method):
    if method not in multiprocessing.get_all_start_methods():
        return Parallel(n_jobs=2, backend=method, timeout=500)(delayed(digest)(seed) for seed in (1, 2, 3))
    with multiprocessing.get_context(method).Pool(1) as pool:
        try:
            pool.apply_async(too_far_apart).get(500)
        except ValueError as error:
            assert "ratio over 1e+70" in str(error)
        else:
            raise AssertionError("no error came back")
        return pool.map_async(digest, (1,)).get(500)

def too_far_apart():
    import scipy.sparse as sp
    return embed_graph(sp.coo_array(([1e-40, 1e40], ([0, 1], [1, 2])), shape=(3, 3)), 1)

if __name__ == "__main__":
    # In the children of a fork Python 3.12 and later warn of the threads of the parent.
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    found = pooled(os.environ["METHOD"])
    assert found == [digest(seed) for seed in (1, 2, 3)[: len(found)]]
    if os.environ["METHOD"] == "loky":
        from joblib.externals.loky import get_reusable_executor
        get_reusable_executor().shutdown(wait=True)
"""


@pytest.mark.parametrize(
    "method",
    [
        "spawn",
        *(pytest.param(method, marks=[needs_fork, slow]) for method in ("fork", "forkserver")),
        *(pytest.param(method, marks=slow) for method in ("loky", "threading", "multiprocessing")),
    ],
)
def test_pools(tmp_path, method):
    run_python(POOL, tmp_path, METHOD=method)


NOTEBOOK = [
    "from isoweave import IsometricEmbedding\nimport numpy as np\n"
    "X = np.random.default_rng(109).normal(size=(400, 3)) * np.array([5.0, 3.0, 0.1])\n",
    "model = IsometricEmbedding(2, n_neighbors=8, n_jobs=2, verbose=1).fit(X)\nmodel",
    "seen = []\nIsometricEmbedding(2, n_neighbors=8, callback=lambda s: seen.append(s.energy)).fit(X)\n"
    "assert seen and len(model.embedding_) == 400",
    # A cell that is interrupted, and the one after it.
    "def interrupt(state):\n    raise KeyboardInterrupt\n"
    "try:\n    IsometricEmbedding(2, n_neighbors=8, n_jobs=2, callback=interrupt).fit(X)\n"
    "except KeyboardInterrupt:\n    print('interrupted')",
    "import threading\nagain = IsometricEmbedding(2, n_neighbors=8).fit_transform(X)\n"
    "assert np.array_equal(again, model.embedding_)\n"
    "assert not [t for t in threading.enumerate() if t.name.startswith('isoweave')]\nprint('same bits')",
]


@slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_notebook(tmp_path, monkeypatch):
    """A real kernel runs real cells."""
    nbclient, nbformat, _ = map(pytest.importorskip, ("nbclient", "nbformat", "ipykernel"))
    # No settings, kernels or histories of the user's own.
    for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    kernel = tmp_path / "JUPYTER_DATA_DIR" / "kernels" / "this-python"
    kernel.mkdir(parents=True)
    launch = [sys.executable, "-Xfrozen_modules=off", "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    specification = {"argv": launch, "display_name": "this", "language": "python"}
    (kernel / "kernel.json").write_text(json.dumps(specification))
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in NOTEBOOK])
    limits = {"timeout": TIMEOUT, "startup_timeout": TIMEOUT}
    nbclient.NotebookClient(notebook, kernel_name="this-python", resources={}, **limits).execute()
    written = ["".join(output.get("text", "") for output in cell.outputs) for cell in notebook.cells]
    assert "[isoweave] start:" in written[1]
    assert "interrupted" in written[3]
    assert "same bits" in written[4]


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
for count in (7, int(os.environ["FITS"])):
    for number in range(count):
        fit(number)
    found.append(state())
print(json.dumps(found))
"""


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="needs Linux's /proc")
@pytest.mark.parametrize("count", [7, pytest.param(1000, marks=pytest.mark.slow)])
def test_small_fits(tmp_path, count):
    before, after = json.loads(run_python(MEASURE, tmp_path, timeout=1200, FITS=str(count)))
    assert after["threads"] == before["threads"] == 1
    assert after["tasks"] <= before["tasks"]
    assert after["descriptors"] == before["descriptors"]
    assert after["megabytes"] - before["megabytes"] < 20.0
