"""Kill writers of stores and look at what they leave; run by test_crashes.py in a process of its own.

``python crash_writer.py MODE FOLDER ROUNDS SEED`` prints one line of JSON, or a traceback if a reader ever
found anything but a whole store. Writers are forked, so that a round costs milliseconds.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

import numpy as np

from failing_calls import Calls, die
from isoweave.persist import StoreError, read_store, write_store


def write(path, number, n=2000):
    arrays = {name: np.full(n, number * 10 + at) for at, name in enumerate("abc")}
    write_store(path, "example", scalars={"number": number, "n": n}, arrays=arrays)


def read(path, **options):
    """The number of the store at ``path``, whose parts must all be of that number."""
    store = read_store(path, "example", **options)
    number, n = store.scalars["number"], store.scalars["n"]
    for at, name in enumerate("abc"):
        assert store.arrays[name].shape == (n,)
        assert (store.arrays[name] == number * 10 + at).all(), f"{name} is not of store {number}"
    return number


def forked(function):
    """Start a process that runs ``function``, and only that."""
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


def at_every_call(folder, had_old):
    """Kill at each system call in turn: before it, after it, and halfway through a write."""
    path = folder / "store"
    found = Counter()
    for when in ("before", "torn", "after"):
        for number in itertools.count(1):
            for entry in list(path.iterdir()) if path.exists() else []:
                entry.unlink()
            if path.exists():
                path.rmdir()
            if had_old:
                write(path, 1)

            def attempt(number=number, when=when):
                with Calls(number, die(when)).active():
                    write(path, 2)

            status = ended(forked(attempt))
            if status == 0:
                break
            assert status == -signal.SIGKILL, f"the writer ended with {status}"
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                try:
                    result = read(path)
                except StoreError as error:
                    if had_old or "there is no such store" not in str(error):
                        raise AssertionError(f"killed {when} call {number}") from error
                    result = "none"
            put_back = any("has been put back" in str(warning.message) for warning in caught)
            found[f"{result}{' put back' if put_back else ''}"] += 1
            # The next writer clears up whatever was left.
            write(path, 3)
            assert read(path) == 3
            left = sorted(entry.name for entry in folder.iterdir())
            assert left == ["store"], left
    return found


def at_random(folder, rounds, seed):
    """Kill a writer that writes one store after another, at random instants."""
    rng = np.random.default_rng(seed)
    path = folder / "store"
    write(path, 0, 30_000)
    last, found = 0, Counter()

    def write_for_ever(first):
        for number in itertools.count(first):
            write(path, number, 30_000)

    for _ in range(rounds):
        pid = forked(lambda first=last + 1: write_for_ever(first))
        time.sleep(rng.uniform(0.0, 0.08))
        os.kill(pid, signal.SIGKILL)
        assert ended(pid) == -signal.SIGKILL
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            number = read(path)
        assert number >= last
        found["new" if number > last else "old"] += 1
        last = number
    write(path, last + 1)
    left = sorted(entry.name for entry in folder.iterdir())
    assert left == ["store"], left
    return found


def among_readers(folder, rounds):
    """Two writers replace a store while it is read: every read gives a whole store."""
    path = folder / "store"
    write(path, 0)

    def write_many(first):
        for number in range(first, first + rounds):
            write(path, number)

    pids = [forked(lambda first=first: write_many(first)) for first in (1000, 2000)]
    seen = Counter()
    running = set(pids)
    while running:
        seen["reads"] += 1
        seen[str(read(path, mmap=bool(seen["reads"] % 2)))] += 1
        for pid in list(running):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                assert os.waitstatus_to_exitcode(status) == 0
                running.remove(pid)
    assert read(path) in (1000 + rounds - 1, 2000 + rounds - 1)
    left = sorted(entry.name for entry in folder.iterdir())
    assert left == ["store"], left
    return {"reads": seen["reads"], "stores": len(seen) - 1}


def main():
    mode, folder, rounds, seed = sys.argv[1:]
    folder, rounds, seed = Path(folder), int(rounds), int(seed)
    # SIGKILL does not touch what the system has taken over, so that nothing needs to reach the disk here.
    os.fsync = lambda fd: None
    if mode in ("calls", "calls-first"):
        found = at_every_call(folder, mode == "calls")
    elif mode == "random":
        found = at_random(folder, rounds, seed)
    else:
        found = among_readers(folder, rounds)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
