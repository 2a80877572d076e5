"""Kill writers and fits with SIGKILL and look at what they leave; test_kills.py runs it as a process.

``killing.py 0 SEED`` kills writers of models, ``killing.py 200 SEED`` so many fits with a checkpoint, resumes
them and compares the outputs byte by byte: half of the kills come at an instant that is uniform over the run,
half at a random system call in a checkpoint write. All of it runs in forked processes, so that a round costs
a fraction of a second. Prints one line of JSON.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from unittest import mock

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import make_swiss_roll

from attacker import SCRATCH, take_apart
from failing_calls import Calls, die
from isoweave import IsometricEmbedding, load, save
from isoweave.cli import app
from isoweave.graph import knn_graph
from isoweave.persist._checkpoint import FileJournal


def forked(function, *arguments):
    """Start a process that does this and nothing else."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            function(*arguments)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return pid


def ended(pid):
    """Exit status, negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def write(path, numbers, n=2000):
    """Models of which every part tells the number, one after the other."""
    for number in numbers:
        model = IsometricEmbedding(max_iter=number)
        model.parts_ = [np.full(n, 10 * number + at) for at in range(3)]
        save(model, path)


def read(path, mmap=False):
    model = load(path, mmap=mmap)
    assert all((part == 10 * model.max_iter + at).all() for at, part in enumerate(model.parts_))
    return model.max_iter


def kill_models(folder):
    """At every system call, before, after and halfway through it; and two writers among readers."""
    path = folder / "model"
    found = Counter(dict.fromkeys(("none", "1", "2"), 0))
    for had_old, when in itertools.product((True, False), ("before", "torn", "after")):
        for number in itertools.count(1):
            path.unlink(missing_ok=True)
            write(path, [1] if had_old else [])
            with Calls(number, die(when)).active():
                pid = forked(write, path, [2])
            status = ended(pid)
            left = [entry for entry in folder.iterdir() if entry != path]
            if status == 0:
                assert not left
                break
            assert status == -signal.SIGKILL, f"the writer ended with {status}"
            found[str(read(path)) if path.exists() else "none"] += 1
            # Only between the link and the rename the new file has a name of its own.
            found["left a hidden file"] += len(left)
            assert len(left) <= 1, left
            for entry in left:
                assert read(entry) == 2
                entry.unlink()
    write(path, [1])
    writers = [forked(write, path, itertools.count(first)) for first in (20_000, 30_000)]
    # However fast the machine is, they write until enough has been read between their writes.
    seen = {read(path, mmap=bool(at % 2)) for at in range(30)}
    while len(seen) < 5 and os.waitpid(-1, os.WNOHANG) == (0, 0):
        seen.add(read(path))
    for pid in writers:
        os.kill(pid, signal.SIGKILL)
        assert ended(pid) == -signal.SIGKILL
    return {**found, "models seen": len(seen)}


def cases(folder):
    """Inputs on disk and options: between them every start, both optimisers, one component and several."""
    roll = make_swiss_roll(3200, random_state=2)[0]
    np.save(folder / "small.npy", roll[:300])
    np.save(folder / "large.npy", roll)
    square = np.random.default_rng(4).random((150, 2))
    parts = [knn_graph(np.random.default_rng(n).random((n, 3)), 9).to_matrix() for n in (150, 60, 40)]
    sp.save_npz(folder / "square.npz", sp.csr_array(knn_graph(square, 10).to_matrix()))
    sp.save_npz(folder / "parts.npz", sp.csr_array(sp.block_diag(parts)))
    return {
        "small.npy": {"n_neighbors": 8},
        "large.npy": {"n_neighbors": 8, "tol": 0.01},
        "square.npz": {"preset": "paper", "max_iter": 40, "scale": "geodesics"},
        "parts.npz": {"n_components": 3, "start": "identity", "tol": 1e-3},
    }


class Case:
    """One kind of fit: how long it takes, and what it must give."""

    def __init__(self, name, options, folder):
        options = {"n_jobs": 1, "checkpoint": folder / f"{name}.ckpt", "every": 0, **options}
        self.output, self.checkpoint = folder / f"{name}.out.npz", options["checkpoint"]
        named = [part for key, value in options.items() for part in (f"--{key.replace('_', '-')}", value)]
        self.command = ["embed", folder / name, "-o", self.output, "-q", "--resume", *named]
        started = time.perf_counter()
        self.fit()
        self.expected, self.seconds = self.output.read_bytes(), time.perf_counter() - started

    def fit(self, calls=None):
        replace = FileJournal._replace

        def watched(journal, records):
            with (calls or Calls(sys.maxsize, None)).active():
                return replace(journal, records)

        with mock.patch.object(FileJournal, "_replace", watched):
            app(list(map(str, self.command)), standalone_mode=False)

    def round(self, kills, rng, found):
        """Kill one run so many times, let it come to its end, and compare."""
        self.checkpoint.unlink(missing_ok=True)
        for _ in range(kills):
            is_aimed = found["in writes"] <= found["at instants"]
            calls = Calls(int(rng.integers(1, 100)), die(rng.choice(["before", "torn", "after"])))
            pid = forked(self.fit, calls if is_aimed else None)
            if not is_aimed:
                time.sleep(rng.uniform(0.0, self.seconds))
                os.kill(pid, signal.SIGKILL)
            status = ended(pid)
            assert status in (0, -signal.SIGKILL), f"{self.output}: the fit ended with {status}"
            if status == 0:
                break
            found["kills"] += 1
            found["in writes" if is_aimed else "at instants"] += 1
            if self.checkpoint.exists():
                slots = take_apart(self.checkpoint.read_bytes())[0]["__metadata__"]["content"]["slots"]
                found["left a state"] += any(slot.endswith(".state") for slot in slots)
        assert ended(forked(self.fit)) == 0, f"{self.output}: the resumed fit ended badly"
        found["runs"] += 1
        found["different"] += self.output.read_bytes() != self.expected


def kill_fits(folder, kills, rng):
    found = Counter(dict.fromkeys(("kills", "runs", "different", "at instants", "in writes"), 0))
    made = [Case(name, options, folder) for name, options in cases(folder).items()]
    for case in itertools.cycle(made):
        if found["kills"] >= kills:
            return found
        case.round(min(int(rng.integers(1, 5)), kills - found["kills"]), rng, found)


if __name__ == "__main__":
    if os.environ.get("OPENBLAS_NUM_THREADS") != "1":
        # A forked process has only the thread that forked it, so BLAS must not have any of its own.
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        os.execve(sys.executable, [sys.executable, *sys.argv], environment)
    kills, seed = map(int, sys.argv[1:])
    # What a killed process has written is there whether it was synced or not.
    os.fsync = lambda fd: None
    with tempfile.TemporaryDirectory(dir=SCRATCH) as folder:
        found = (
            kill_fits(Path(folder), kills, np.random.default_rng(seed))
            if kills
            else kill_models(Path(folder))
        )
        print(json.dumps(found))
