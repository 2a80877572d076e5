"""What a new user waits for: import, and the first embedding with nothing compiled yet."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time

from process import environment

N_POINTS = 1000
_NOTHING = "pass"
_IMPORT = "import isoweave"
_FIT = f"""
from isoweave import IsometricEmbedding
from isoweave.datasets import swiss_roll
IsometricEmbedding(2, n_neighbors=10, n_jobs=JOBS).fit(swiss_roll({N_POINTS}, random_state=17).data)
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


def measure_cold_start(n_jobs: int) -> dict[str, float]:
    """Seconds of whole processes: a bare one, one that imports, the first fit and the next one.

    The cache of compiled code is an empty folder; what Python itself caches (.pyc) is warm. The least of two
    first fits, each with a cache of its own, and of three of the others.
    """
    fit = _FIT.replace("JOBS", str(n_jobs))
    values: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as cache, tempfile.TemporaryDirectory() as other:
        env = environment(n_jobs, NUMBA_CACHE_DIR=cache)
        run_script("import isoweave.estimator", env)
        runs = {"bare": (_NOTHING, [env] * 3), "import": (_IMPORT, [env] * 3)}
        runs["first"] = (fit, [environment(n_jobs, NUMBA_CACHE_DIR=other), env])
        runs["second"] = (fit, [env] * 3)
        for name, (script, environments) in runs.items():
            times = [run_script(script, each) for each in environments]
            values[f"{name}_wall"], values[f"{name}_cpu"] = min(times)
    return values
