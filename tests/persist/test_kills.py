"""SIGKILL at any system call: models are the old one or the new one, and fits resume to the same bytes.

``python test_kills.py 200 SEED`` kills writers of models at every system call, and then so many fits at
random calls of their writes, resumes them and compares the results byte by byte. All of it runs in forked
processes, so that a kill costs a fraction of a second; the test starts it as a process.
"""

import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from attacker import SCRATCH, take_apart
from failing_calls import Calls, die
from isoweave import Checkpoint, IsometricEmbedding, embed_graph, load, save
from isoweave.engines import plain
from runs import CASES


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("kills", [6, pytest.param(200, marks=pytest.mark.slow)])
def test_kills(kills):
    # A forked process has only the thread that forked it, so BLAS must not have any of its own.
    environment = {"OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    program = [sys.executable, "-W", "ignore", __file__, str(kills), "5"]
    done = subprocess.run(program, capture_output=True, text=True, env=os.environ | environment, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["no model"] > 10
    assert min(found["model 1"], found["model 2"]) > 3
    # On Linux at most one call lies between the link and the rename.
    assert sys.platform != "linux" or found["left a hidden file"] <= 8
    assert (found["different"], found["kills"]) == (0, kills)
    # Some must have come while the optimiser was at work, or nothing has been shown.
    assert found["left a state"] >= kills // 4


def ended(function, *arguments):
    """Exit status of a process that does this and nothing else, negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(forked(function, *arguments), 0)[1])


def forked(function, *arguments):
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


def write(path, numbers):
    """Models of which every part tells the number, one after the other."""
    for number in numbers:
        model = IsometricEmbedding(max_iter=number)
        model.parts_ = [np.full(2000, 10 * number + at) for at in range(3)]
        save(model, path)


def read(path, mmap=False):
    model = load(path, mmap=mmap)
    assert all((part == 10 * model.max_iter + at).all() for at, part in enumerate(model.parts_))
    return model.max_iter


def kill_models(folder, found):
    """At every system call, before, after and halfway through it; and two writers among readers."""
    path = folder / "model"
    for had_old, when in itertools.product((True, False), ("before", "torn", "after")):
        for number in itertools.count(1):
            path.unlink(missing_ok=True)
            write(path, [1] if had_old else [])
            with Calls(number, die(when)).active():
                status = ended(write, path, [2])
            left = [entry for entry in folder.iterdir() if entry != path]
            if status == 0:
                assert not left
                break
            assert status == -signal.SIGKILL, f"the writer ended with {status}"
            found[f"model {read(path)}" if path.exists() else "no model"] += 1
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
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    assert len(seen) >= 5


def fit(folder, matrix, options):
    keep = Checkpoint(folder / "run", every=0, resume=True)
    embed_graph(matrix, **options, n_jobs=1, checkpoint=keep).save(folder / "out")


def kill_fits(folder, found, kills, rng):
    """Each run is killed up to four times, comes to its end, and is compared."""
    for name in itertools.cycle(("two starts", "coarse", "recursion", "components")):
        matrix, options = CASES[name]
        with (calls := Calls(sys.maxsize, None)).active():
            fit(folder, matrix, options)
        expected = (folder / "out").read_bytes()
        (folder / "run").unlink()
        for _ in range(min(int(rng.integers(1, 5)), kills - found["kills"])):
            number = int(rng.integers(1, len(calls.seen) // 2))
            with Calls(number, die(rng.choice(["before", "torn", "after"]))).active():
                status = ended(fit, folder, matrix, options)
            assert status in (0, -signal.SIGKILL), f"the fit ended with {status}"
            found["kills"] += status != 0
            if status and (folder / "run").exists():
                slots = take_apart((folder / "run").read_bytes())[0]["__metadata__"]["content"]["slots"]
                found["left a state"] += any(slot.endswith(".state") for slot in slots)
        assert ended(fit, folder, matrix, options) == 0, "the resumed fit ended badly"
        found["runs"] += 1
        found["different"] += (folder / "out").read_bytes() != expected
        (folder / "run").unlink()
        if found["kills"] >= kills:
            return


if __name__ == "__main__":
    told = Counter(dict.fromkeys(("kills", "different", "left a state", "left a hidden file"), 0))
    # What a killed process has written is there whether it was synced or not.
    os.fsync = lambda fd: None
    # Kernels are loaded once, before the forks, instead of their plain twins in each of them.
    plain.expect(2**17)
    with tempfile.TemporaryDirectory(dir=SCRATCH) as scratch:
        kill_models(Path(scratch), told)
        kill_fits(Path(scratch), told, int(sys.argv[1]), np.random.default_rng(int(sys.argv[2])))
    print(json.dumps(told))
