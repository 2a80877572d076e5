"""Programs run in processes of their own: a deadlock or a crash fails one test, not the whole run."""

import os
import signal
import subprocess
import sys

# A fit of these sizes takes a second and importing a few; a busy machine may take a hundred times as long.
TIMEOUT = 600

# What every program begins with: points, and the hash of their embedding.
PRELUDE = '''
import hashlib, os, sys, threading, warnings
import numpy as np
from isoweave import IsometricEmbedding, embed_graph

def points(seed, n=300):
    rng = np.random.default_rng(seed)
    angle, height = 3.0 * rng.uniform(1.0, 3.0, n), rng.uniform(0.0, 8.0, n)
    return np.column_stack([angle * np.cos(angle), height, angle * np.sin(angle)])

def digest(seed, n_jobs=2, data=None, **settings):
    """Fit in two dimensions, a few steps; large enough for the kernels to be shared among threads."""
    data, settings = points(seed) if data is None else data, {"tol": 0.3, "refine": "none"} | settings
    model = IsometricEmbedding(2, n_neighbors=8, n_jobs=n_jobs, **settings).fit(data)
    return hashlib.sha256(np.ascontiguousarray(model.embedding_).tobytes()).hexdigest()
'''


def run_python(program, folder, *, timeout=TIMEOUT, **environment):
    """Output of a program after the prelude; it must end well, in time, and without a word on stderr.

    The program is a file: processes that are spawned import it. Should it hang, faulthandler writes where
    every thread is before the whole group is killed.
    """
    path = folder / "program.py"
    path.write_text(PRELUDE + program)
    process = subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-W", "error", str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | environment,
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGABRT)
        output, errors = process.communicate()
        raise AssertionError(f"not finished after {timeout} s:\n{output}\n{errors}") from None
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    assert process.returncode == 0, f"exit {process.returncode}:\n{output}\n{errors}"
    assert errors == "", errors
    return output
