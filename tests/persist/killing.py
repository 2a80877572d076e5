"""Kill writers and fits with SIGKILL and look at what they leave; test_kills.py runs it as a process.

``killing.py models --kills 30`` replaces a model again and again. ``killing.py fits --kills 200`` kills fits
with a checkpoint, resumes them and compares the outputs byte by byte: half of the kills come at an instant
that is uniform over the run, half at a random system call in a checkpoint write. All of it runs in forked
processes, so that a round costs a fraction of a second. Prints one line of JSON.
"""

from __future__ import annotations

import argparse
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

from attacker import take_apart
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


def kill_models(folder, kills, rng):
    """At every system call, before, after and halfway through it; at random instants; among readers."""
    path, last = folder / "model", 1000
    found = Counter(dict.fromkeys(("none", "1", "2", "random: old", "random: new"), 0))
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
    write(path, [last], 30_000)
    for _ in range(kills):
        pid = forked(write, path, itertools.count(last + 1), 30_000)
        time.sleep(rng.uniform(0.0, 0.08))
        os.kill(pid, signal.SIGKILL)
        assert ended(pid) == -signal.SIGKILL
        number = read(path)
        assert number >= last
        found["random: new" if number > last else "random: old"] += 1
        last = number
    writers = [forked(write, path, range(first, first + 60)) for first in (20_000, 30_000)]
    seen = set()
    while os.waitpid(writers[0], os.WNOHANG) == (0, 0):
        seen.add(read(path, mmap=bool(found["reads"] % 2)))
        found["reads"] += 1
    assert ended(writers[1]) == 0
    return {**found, "models seen": len(seen)}


def cases(folder):
    """Inputs on disk and options: between them every start, both optimisers, one component and several."""
    roll = make_swiss_roll(3200, random_state=2)[0]
    np.save(folder / "small.npy", roll[:300])
    np.save(folder / "large.npy", roll)
    square = np.random.default_rng(4).random((150, 2))
    sp.save_npz(folder / "square.npz", sp.csr_array(knn_graph(square, 10).to_matrix()))
    parts = [knn_graph(np.random.default_rng(n).random((n, 3)), 9).to_matrix() for n in (250, 90, 40)]
    sp.save_npz(folder / "parts.npz", sp.csr_array(sp.block_diag(parts)))
    return {
        "two starts": (folder / "small.npy", {"n_neighbors": 8}),
        "coarse start": (folder / "large.npy", {"n_neighbors": 8, "tol": 0.003}),
        "recursion": (folder / "square.npz", {"preset": "paper", "max_iter": 60, "scale": "geodesics"}),
        "components": (folder / "parts.npz", {"n_components": 3, "start": "identity", "tol": 1e-3}),
    }


class Case:
    """One kind of fit: how long it takes, how many system calls its writes make, and what it must give."""

    # Writes at every step, or every so often: then more of the run lies between two writes.
    INTERVALS = (0.0, 0.02, 0.1)

    def __init__(self, name, source, options, folder):
        self.name, self.source, self.options = name, source, options
        self.output, self.checkpoint = folder / f"{name}.npz", folder / f"{name}.ckpt"
        self.fit(None)
        self.expected = self.output.read_bytes()
        self.seconds, self.calls = {}, {}
        for every in self.INTERVALS:
            started, calls = time.perf_counter(), Calls(sys.maxsize, None)
            self.checkpoint.unlink(missing_ok=True)
            self.fit(every, calls)
            self.seconds[every], self.calls[every] = time.perf_counter() - started, len(calls.seen)
            assert self.output.read_bytes() == self.expected, f"{name}: a checkpoint changes the result"

    def fit(self, every, calls=None):
        options = {"n_jobs": 1, **self.options}
        command = ["embed", self.source, "-o", self.output, "-q"]
        command += [
            part for name, value in options.items() for part in (f"--{name.replace('_', '-')}", value)
        ]
        if every is not None:
            command += ["--checkpoint", self.checkpoint, "--every", every, "--resume"]
        replace = FileJournal._replace

        def watched(journal, records):
            with (calls or Calls(sys.maxsize, None)).active():
                return replace(journal, records)

        with mock.patch.object(FileJournal, "_replace", watched):
            app(list(map(str, command)), standalone_mode=False)

    def slots(self):
        if not self.checkpoint.exists():
            return []
        return list(take_apart(self.checkpoint.read_bytes())[0]["__metadata__"]["content"]["slots"])

    def round(self, kills, rng, found):
        """Kill one run so many times, let it come to its end, and compare."""
        self.checkpoint.unlink(missing_ok=True)
        every = float(rng.choice(self.INTERVALS))
        for _ in range(kills):
            is_aimed = found["in writes"] <= found["at instants"] and self.calls[every] > 0
            calls = None
            if is_aimed:
                number = int(rng.integers(1, max(self.calls[every], 2)))
                calls = Calls(number, die(rng.choice(["before", "torn", "after"])))
            pid = forked(self.fit, every, calls)
            if not is_aimed:
                time.sleep(rng.uniform(0.0, self.seconds[every]))
                os.kill(pid, signal.SIGKILL)
            status = ended(pid)
            assert status in (0, -signal.SIGKILL), f"{self.name}: the fit ended with {status}"
            if status == 0:
                break
            found["kills"] += 1
            found["in writes" if is_aimed else "at instants"] += 1
            slots = self.slots()
            found["left a state"] += any(slot.endswith(".state") for slot in slots)
            found["left nothing"] += not slots
        status = ended(forked(self.fit, every))
        assert status == 0, f"{self.name}: the resumed fit ended with {status}"
        found["runs"] += 1
        found["different"] += self.output.read_bytes() != self.expected


def kill_fits(folder, kills, rng):
    found = Counter(dict.fromkeys(("kills", "runs", "different", "at instants", "in writes"), 0))
    made = [Case(name, *case, folder) for name, case in cases(folder).items()]
    started = time.perf_counter()
    for case in itertools.cycle(made):
        if found["kills"] >= kills:
            break
        case.round(min(int(rng.integers(1, 5)), kills - found["kills"]), rng, found)
    found["seconds"] = round(time.perf_counter() - started, 1)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["models", "fits"])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    # What a killed process has written is there whether it was synced or not.
    os.fsync = lambda fd: None
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        kill = {"models": kill_models, "fits": kill_fits}[arguments.what]
        found = kill(Path(folder), arguments.kills, np.random.default_rng(arguments.seed))
    print(json.dumps(found))


if __name__ == "__main__":
    if os.environ.get("OPENBLAS_NUM_THREADS") != "1":
        # A forked process has only the thread that forked it, so BLAS must not have any of its own.
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        os.execve(sys.executable, [sys.executable, *sys.argv], environment)
    main()
