"""What a new user waits for: import, and the first embedding with nothing compiled yet.

    python benchmarks/cold_start.py                        # this version
    python benchmarks/cold_start.py --against ../other     # turn about with another checkout, and the ratios

Seconds are of whole processes; processor time counts the processes that a fit starts to compile beside it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from process import environment

N_POINTS = 1000
_NOTHING = "pass"
_IMPORT = "import isoweave"
_FIT = f"""
from isoweave import IsometricEmbedding
from isoweave.datasets import swiss_roll
IsometricEmbedding(2, n_neighbors=10, n_jobs=JOBS).fit(swiss_roll({N_POINTS}, random_state=17).data)
"""
# Without scikit-learn, which the neighbours come from here, but not those of a user who has a graph.
_GRAPH = f"""
import numpy as np, scipy.sparse as sp
from scipy.spatial import cKDTree
from isoweave import embed_graph
angle, height = np.random.default_rng(17).random((2, {N_POINTS}))
angle = 4.7 + 9.4 * angle
points = np.column_stack([angle * np.cos(angle), 21 * height, angle * np.sin(angle)])
distances, columns = cKDTree(points).query(points, 11)
rows = np.repeat(np.arange({N_POINTS}), 10)
graph = sp.csr_array((distances[:, 1:].ravel(), (rows, columns[:, 1:].ravel())), shape=({N_POINTS},) * 2)
embed_graph(graph, 2, n_jobs=JOBS)
"""


def run_script(script: str, env: dict[str, str]) -> tuple[float, float]:
    """Wall and processor seconds of a whole Python process."""
    started = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-c", script], env=env)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"the process to be timed ended with status {process.returncode}: {script}")
    return wall, usage.ru_utime + usage.ru_stime


def measure_cold_start(n_jobs: int, **variables: str) -> dict[str, float]:
    """Seconds of whole processes: a bare one, one that imports, the first fit and the next one.

    The cache of compiled code is an empty folder; what Python itself caches (.pyc) is warm. The least of two
    first fits, each with a cache of its own, and of three of the others; the first with a graph is run once.
    """
    fit, graph = (script.replace("JOBS", str(n_jobs)) for script in (_FIT, _GRAPH))
    values: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        env, other, third = (
            environment(n_jobs, NUMBA_CACHE_DIR=str(Path(folder) / name), **variables) for name in "abc"
        )
        run_script("import isoweave.estimator", env)
        runs = {"bare": (_NOTHING, [env] * 3), "import": (_IMPORT, [env] * 3)}
        runs |= {"first": (fit, [other, env]), "second": (fit, [env] * 3)}
        runs |= {"graph_first": (graph, [third]), "graph_second": (graph, [env] * 3)}
        for name, (script, environments) in runs.items():
            times = [run_script(script, each) for each in environments]
            values[f"{name}_wall"], values[f"{name}_cpu"] = min(times)
    return values


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--against", type=Path, help="checkout to compare with")
    parser.add_argument("--n-jobs", type=int, default=2)
    arguments = parser.parse_args()
    found = [measure_cold_start(arguments.n_jobs)]
    if arguments.against:
        found.append(
            measure_cold_start(arguments.n_jobs, PYTHONPATH=str(arguments.against.resolve() / "src"))
        )
    for name, value in found[0].items():
        others = (f"{other[name]:10.2f}{value / other[name]:8.2f}" for other in found[1:])
        print(f"{name:20s}{value:10.2f}", *others)


if __name__ == "__main__":
    main()
