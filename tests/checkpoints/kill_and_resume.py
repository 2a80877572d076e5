"""Kill fits with SIGKILL, resume them, and compare the output files byte by byte.

``python tests/checkpoints/kill_and_resume.py --kills 200`` prints one line of JSON; the exit code is 1 if any
output differs from that of a run that nobody stopped. Fits are forked from a process in which everything is
compiled, so that one costs a fraction of a second. Half of the kills come at an instant that is uniform over
the run, the other half at a random system call inside a checkpoint write.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "persist"))

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import make_swiss_roll

from failing_calls import KINDS, Calls, die
from isoweave import Checkpoint
from isoweave.checkpoints import _folder
from isoweave.checkpoints._folder import FolderJournal
from isoweave.cli._embed import run_embed
from isoweave.graph import knn_graph

# At every step, or every so often: then more of the run lies between two writes.
INTERVALS = (0.0, 0.02, 0.1)


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


def fit(case, output, checkpoint=None):
    source, options = case
    keep = {} if checkpoint is None else {"checkpoint": checkpoint}
    run_embed(source, output, {"n_jobs": 1, **options, **keep}, as_graph=None, quiet=True, verbose=False)


def forked(function):
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            function()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return pid


def ended(pid):
    """Exit status, negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@contextmanager
def watched_writes(calls):
    """Count the system calls of checkpoint writes, and act at one of them."""
    parts = (_folder, "write_store"), (FolderJournal, "_discard")
    real = [getattr(owner, name) for owner, name in parts]

    def counted(function):
        def call(*arguments, **named):
            with calls.active():
                return function(*arguments, **named)

        return call

    for (owner, name), function in zip(parts, real, strict=True):
        setattr(owner, name, counted(function))
    try:
        yield
    finally:
        for (owner, name), function in zip(parts, real, strict=True):
            setattr(owner, name, function)


class Harness:
    """One case: how long it takes, how many system calls its writes make, and what it must give."""

    def __init__(self, name, case, folder):
        self.name, self.case, self.folder = name, case, folder
        self.output = folder / "output.npz"
        reference = folder / "reference.npz"
        fit(case, reference)
        self.expected = reference.read_bytes()
        self.seconds, self.calls = {}, {}
        for every in INTERVALS:
            started = time.perf_counter()
            calls = self.undisturbed(every)
            self.seconds[every] = time.perf_counter() - started
            self.calls[every] = calls
            assert self.output.read_bytes() == self.expected, f"{name}: a checkpoint changes the result"

    def undisturbed(self, every):
        """Run to the end with a checkpoint; the number of system calls of its writes."""
        self.clear()
        calls = Calls(sys.maxsize, None)
        with watched_writes(calls):
            fit(self.case, self.output, self.checkpoint(every))
        return len(calls.seen)

    def checkpoint(self, every):
        return Checkpoint(self.folder / "checkpoint", every=every, resume=True)

    def clear(self):
        shutil.rmtree(self.folder / "checkpoint", ignore_errors=True)
        self.output.unlink(missing_ok=True)

    def slots(self):
        """What the checkpoint holds."""
        folder = self.folder / "checkpoint"
        if not folder.exists():
            return set()
        return {entry.name for entry in folder.iterdir() if (entry / "manifest.json").exists()}

    def kill_at_instant(self, every, rng):
        """Kill from outside; False if the fit had ended by then."""
        pid = forked(lambda: fit(self.case, self.output, self.checkpoint(every)))
        time.sleep(rng.uniform(0.0, self.seconds[every]))
        os.kill(pid, signal.SIGKILL)
        return ended(pid) == -signal.SIGKILL

    def kill_in_write(self, every, rng):
        """Kill at a system call of a checkpoint write; False if there are fewer."""
        number = int(rng.integers(1, max(self.calls[every], 2)))
        calls = Calls(number, die(rng.choice(["before", "torn", "after"])), KINDS)

        def attempt():
            with watched_writes(calls):
                fit(self.case, self.output, self.checkpoint(every))

        status = ended(forked(attempt))
        assert status in (0, -signal.SIGKILL), f"{self.name}: the fit ended with {status}"
        return status != 0

    def round(self, kills, rng, found):
        """Kill one run ``kills`` times, let it come to its end, and compare."""
        self.clear()
        every = float(rng.choice(INTERVALS))
        killed = 0
        for _ in range(kills):
            is_aimed = found["in writes"] <= found["at instants"] and self.calls[every] > 0
            is_killed = (self.kill_in_write if is_aimed else self.kill_at_instant)(every, rng)
            if not is_killed:
                break
            killed += 1
            found["in writes" if is_aimed else "at instants"] += 1
            found["left a state"] += any(slot.endswith(".state") for slot in self.slots())
            found["left nothing"] += not self.slots()
        status = ended(forked(lambda: fit(self.case, self.output, self.checkpoint(every))))
        assert status == 0, f"{self.name}: the resumed fit ended with {status}"
        found["runs"] += 1
        found["different"] += self.output.read_bytes() != self.expected
        left = [path.name for path in (self.folder / "checkpoint").glob(".*")]
        assert not left, f"{self.name}: {left} left behind"
        return killed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", default=None, help="Where to work; in memory if the system has a place.")
    arguments = parser.parse_args()
    rng = np.random.default_rng(arguments.seed)
    found = Counter(dict.fromkeys(("kills", "runs", "different", "at instants", "in writes"), 0))
    started = time.perf_counter()
    # What a killed process has written is there whether it was synced or not.
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=arguments.folder or memory) as folder:
        folder = Path(folder)
        harnesses = []
        for number, (name, case) in enumerate(cases(folder).items()):
            (folder / str(number)).mkdir()
            harnesses.append(Harness(name, case, folder / str(number)))
        prepared = time.perf_counter()
        number = 0
        while found["kills"] < arguments.kills:
            harness = harnesses[number % len(harnesses)]
            number += 1
            wanted = min(int(rng.integers(1, 5)), arguments.kills - found["kills"])
            killed = harness.round(wanted, rng, found)
            found["kills"] += killed
            found[f"kills of {harness.name}"] += killed
    found["seconds"] = round(time.perf_counter() - prepared, 1)
    found["seconds before"] = round(prepared - started, 1)
    print(json.dumps(found))
    return 1 if found["different"] else 0


if __name__ == "__main__":
    if os.environ.get("OPENBLAS_NUM_THREADS") != "1":
        # A forked process has only the thread that forked it, so BLAS must not have any of its own.
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        os.execve(sys.executable, [sys.executable, *sys.argv], environment)
    sys.exit(main())
