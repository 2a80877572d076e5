"""Fits in child processes however they come into being: forked, spawned, by joblib, under an event loop."""

from __future__ import annotations

import importlib.util
import json
import os
import sys

import pytest

from process_scripts import TIMEOUT, run_python

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")

FORK = """
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
"""


@needs_fork
def test_fork_after_a_fit(tmp_path):
    run_python(
        FORK
        + """
expected = {seed: digest(seed) for seed in (1, 2)}
for seed in (1, 2, 1):
    assert in_child(seed) == expected[seed]
    assert digest(seed) == expected[seed]
assert in_child(1, n_jobs=1) == expected[1]
assert in_child(2, solver="amg", n_jobs=4) == digest(2, solver="amg")

def wide(seed, metric):
    # Other searches for neighbours: matrix products, and scikit-learn's distances.
    data = np.random.default_rng(seed).normal(size=(200, 12))
    model = IsometricEmbedding(2, n_neighbors=8, metric=metric, n_jobs=2).fit(data)
    return hashlib.sha256(model.embedding_.tobytes()).hexdigest()

for metric in ("euclidean", "manhattan"):
    assert wide(3, metric) == in_child(3, wide, metric=metric)
""",
        folder=tmp_path,
    )


@needs_fork
def test_fork_before_any_fit(tmp_path):
    run_python(FORK + "found = in_child(1)\nassert found == digest(1), found\n", folder=tmp_path)


@needs_fork
@pytest.mark.parametrize("n_forks", [10, pytest.param(100, marks=pytest.mark.slow)])
def test_fork_while_another_thread_fits(tmp_path, n_forks):
    """The child inherits locks of a thread it does not have; Python's own clean-up must be complete in it."""
    run_python(
        f"n_forks = {n_forks}\n"
        + FORK
        + """
from threadpoolctl import threadpool_info
def blas_threads():
    return [info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"]

def alone(seed):
    assert threading.enumerate() == [threading.main_thread()], threading.enumerate()
    return digest(seed)

expected = {seed: digest(seed) for seed in (1, 2)}
before = blas_threads()
stop = threading.Event()
def keep_fitting():
    while not stop.is_set():
        assert digest(2) == expected[2]
thread = threading.Thread(target=keep_fitting)
thread.start()
try:
    for _ in range(n_forks):
        assert in_child(1, alone) == expected[1]
finally:
    stop.set()
    thread.join()
assert blas_threads() == before
""",
        folder=tmp_path,
        timeout=120 + 12 * n_forks,
    )


@needs_fork
def test_fork_while_another_thread_compiles(tmp_path):
    """numba compiles one function at a time; a child must not wait for a compiler that is not there."""
    run_python(
        FORK
        + """
import numba
import isoweave._parallel

begun = threading.Event()
def compile_many(seed):
    for factor in range(8):
        @numba.njit
        def scaled(x):
            return np.sqrt(x) * factor
        begun.set()
        scaled(np.ones(3))

thread = threading.Thread(target=compile_many, args=(1,))
thread.start()
begun.wait()
def compiled(seed):
    @numba.njit
    def doubled(x):
        return 2 * x
    return str(doubled(seed))
for seed in range(3):
    assert in_child(seed, compiled) == str(2 * seed)
thread.join()
""",
        folder=tmp_path,
        timeout=300,
    )


POOL = """
import multiprocessing

def main(method):
    expected = [digest(seed) for seed in (1, 2, 3)]
    with multiprocessing.get_context(method).Pool(2) as pool:
        found = pool.map_async(digest, (1, 2, 3)).get(500)
    assert found == expected, (found, expected)
    with multiprocessing.get_context(method).Pool(1) as pool:
        try:
            pool.apply_async(too_far_apart).get(500)
        except ValueError as error:
            assert "ratio over 1e+70" in str(error)
        else:
            raise AssertionError("no error came back")

def too_far_apart():
    import scipy.sparse as sp
    return embed_graph(sp.coo_array(([1e-40, 1e40], ([0, 1], [1, 2])), shape=(3, 3)), 1)

if __name__ == "__main__":
    # In the children of a fork Python 3.12 and later warn of the threads of the parent.
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    main(sys.argv[1] if len(sys.argv) > 1 else METHOD)
"""


@pytest.mark.parametrize(
    "method",
    [
        "spawn",
        pytest.param("fork", marks=needs_fork),
        pytest.param("forkserver", marks=[needs_fork, pytest.mark.slow]),
    ],
)
def test_multiprocessing(tmp_path, method):
    run_python(f"METHOD = {method!r}\n" + POOL, folder=tmp_path)


@pytest.mark.parametrize(
    "backend",
    ["loky", *(pytest.param(name, marks=pytest.mark.slow) for name in ("threading", "multiprocessing"))],
)
def test_joblib(tmp_path, backend):
    run_python(
        f"""
from joblib import Parallel, delayed
if __name__ == "__main__":
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    seeds = (1, 2, 3, 4)
    expected = [digest(seed) for seed in seeds]
    found = Parallel(n_jobs=2, backend={backend!r}, timeout=500)(delayed(digest)(seed) for seed in seeds)
    assert found == expected
    if {backend!r} == "loky":
        from joblib.externals.loky import get_reusable_executor
        get_reusable_executor().shutdown(wait=True)
""",
        folder=tmp_path,
    )


def test_a_running_event_loop(tmp_path):
    """As in a notebook or a server: called in the loop's thread, and from workers beside it."""
    run_python(
        """
import asyncio
expected = {seed: digest(seed) for seed in (1, 2)}
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
    found = await asyncio.wait_for(
        asyncio.gather(*(loop.run_in_executor(None, digest, seed) for seed in (1, 2, 1))), 500
    )
    assert found == [expected[1], expected[2], expected[1]]
    assert beats > 1
    heart.cancel()
asyncio.run(main(), debug=False)
""",
        folder=tmp_path,
    )


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


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_notebook(tmp_path, monkeypatch):
    """A real kernel runs real cells."""
    missing = [
        name for name in ("nbclient", "nbformat", "ipykernel") if importlib.util.find_spec(name) is None
    ]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}")
    import nbclient
    import nbformat

    # No settings, kernels or histories of the user's own.
    for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    kernel = tmp_path / "JUPYTER_DATA_DIR" / "kernels" / "this-python"
    kernel.mkdir(parents=True)
    launch = [sys.executable, "-Xfrozen_modules=off", "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (kernel / "kernel.json").write_text(
        json.dumps({"argv": launch, "display_name": "this", "language": "python"})
    )
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in NOTEBOOK])
    client = nbclient.NotebookClient(
        notebook, timeout=TIMEOUT, startup_timeout=TIMEOUT, kernel_name="this-python", resources={}
    )
    client.execute()
    written = ["".join(output.get("text", "") for output in cell.outputs) for cell in notebook.cells]
    assert "[isoweave] start:" in written[1]
    assert "interrupted" in written[3]
    assert "same bits" in written[4]
