"""Fuzz every reader with mutated seeds: the same inputs for the same seed, each in a watched process.

    python fuzz/campaign.py --inputs 10000 --seed 1 --target all
    python fuzz/campaign.py --seed 1 --target npz_dense --only 4711     one input again, in this process

An input fails if its target raises, if the process crashes, if it takes more than 5 s of processor time or
60 s in all, or if memory grows by more than 1 GiB. Failures are written to ``fuzz/found/``. Targets that run
pyarrow or libhdf5 in this way may crash: that is counted as contained, since the readers have them in a
process of their own (targets ``parquet`` and ``h5ad`` do that too, and may not fail).
``guided.py`` does the same led by coverage.
"""

from __future__ import annotations

import argparse
import faulthandler
import mmap
import os
import random
import resource
import signal
import struct
import sys
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from fuzz_mutate import mutated
from fuzz_targets import CONTAINED, TARGETS, WEIGHTS, seeds

FOUND = Path(__file__).resolve().parent / "found"
CPU_SECONDS = 5
WALL_SECONDS = 60
MEMORY_GROWTH = 1 << 30
_ADDRESS_SPACE = 8 << 30
_BATCH = 2000


class TooSlow(BaseException):
    """Not an Exception, so that no reader takes it for a fault of the file."""


class TooLarge(BaseException):
    """The same for memory."""


@dataclass(frozen=True)
class Failure:
    target: str
    number: int
    what: str
    data: bytes
    is_contained: bool


def input_of(target: str, seed: int, number: int, corpus: list[bytes]) -> bytes:
    """Input ``number`` of a run; it depends on nothing else."""
    return mutated(target, corpus, random.Random(f"{seed} {target} {number}"))


def run_target(target: str, count: int, seed: int) -> Iterator[Failure]:
    """Run inputs 0 .. count - 1 of one target in processes of their own."""
    corpus = seeds(target)
    if not corpus:
        raise SystemExit(f"no seeds for target {target!r}")
    shared = mmap.mmap(-1, 16)
    start = 0
    while start < count:
        stop = min(start + _BATCH, count)
        shared[:] = struct.pack("<qd", start - 1, time.monotonic())
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            _work(target, corpus, seed, start, stop, shared, writer)
        os.close(writer)
        status = _watch(child, shared, WALL_SECONDS / 4 if target in CONTAINED else WALL_SECONDS)
        with os.fdopen(reader, "rb") as pipe:
            told = pipe.read().decode("utf-8", "replace")
        number = struct.unpack("<qd", shared[:])[0]
        if status == 0 and not told:
            start = stop
            continue
        what = told or (f"ended by signal {-status}" if status < 0 else f"exit status {status}")
        is_contained = target in CONTAINED and (
            status < 0 or what.startswith(("__main__.Too", "campaign.Too", "Too"))
        )
        yield Failure(target, number, what, input_of(target, seed, number, corpus), is_contained)
        start = number + 1


def _watch(child: int, shared: mmap.mmap, limit: float) -> int:
    """Wait for a worker, and end it if one input takes too long; its exit status, or minus the signal."""
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() - struct.unpack("<qd", shared[:])[1] > limit:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.02)


def _work(
    target: str, corpus: list[bytes], seed: int, start: int, stop: int, shared: mmap.mmap, writer: int
) -> None:
    status = 0
    try:
        resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE, resource.RLIM_INFINITY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        faulthandler.disable()
        signal.signal(signal.SIGPROF, _too_slow)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for number in range(start, stop):
            shared[:] = struct.pack("<qd", number, time.monotonic())
            data = input_of(target, seed, number, corpus)
            signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
            TARGETS[target](data)
            signal.setitimer(signal.ITIMER_PROF, 0)
            growth = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
            if growth > MEMORY_GROWTH:
                raise TooLarge(f"memory grew by {growth >> 20} MiB")
    except BaseException:
        signal.setitimer(signal.ITIMER_PROF, 0)
        status = 1
        report = traceback.format_exc(limit=-12)
        last = report.strip().splitlines()[-1]
        os.write(writer, f"{last}\n{report}".encode("utf-8", "replace")[:8000])
    finally:
        # Without the clean-up of the interpreter, whose buffers belong to the parent.
        os._exit(status)


def _too_slow(_number: int, _frame: FrameType | None) -> None:
    raise TooSlow(f"more than {CPU_SECONDS} s of processor time")


def shares(count: int, names: list[str]) -> dict[str, int]:
    """Inputs for each target: ``count`` in all, by weight, and at least a few."""
    total = sum(WEIGHTS[name] for name in names)
    return {name: max(2, round(count * WEIGHTS[name] / total)) for name in names}


def run(count: int, seed: int, names: list[str], report: bool = True) -> list[Failure]:
    """Run all targets and write what fails to ``fuzz/found``."""
    failures: list[Failure] = []
    for name, share in shares(count, names).items():
        started = time.monotonic()
        for failure in run_target(name, share, seed):
            failures.append(failure)
            FOUND.mkdir(exist_ok=True)
            stem = FOUND / f"{failure.target}-{seed}-{failure.number}"
            stem.with_suffix(".bin").write_bytes(failure.data)
            stem.with_suffix(".txt").write_text(failure.what)
            word = "contained" if failure.is_contained else "FAILED"
            print(f"{word} {name} input {failure.number}: {failure.what.splitlines()[0][:300]}", flush=True)
        if report:
            seconds = time.monotonic() - started
            print(f"{name:12} {share:8} inputs {seconds:8.1f} s", flush=True)
    return failures


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--inputs", type=int, default=10_000, help="in all, shared among the targets")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--target", default="all", help=f"all, or some of {','.join(TARGETS)}")
    parser.add_argument("--only", type=int, help="run this input alone, in this process")
    options = parser.parse_args()
    names = list(TARGETS) if options.target == "all" else options.target.split(",")
    if options.only is not None:
        for name in names:
            TARGETS[name](input_of(name, options.seed, options.only, seeds(name)))
        return 0
    failures = run(options.inputs, options.seed, names)
    broken = [failure for failure in failures if not failure.is_contained]
    print(
        f"{sum(shares(options.inputs, names).values())} inputs, {len(broken)} failures, "
        f"{len(failures) - len(broken)} crashes contained"
    )
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
