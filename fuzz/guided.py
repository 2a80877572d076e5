"""Fuzz one target led by coverage, with atheris (libFuzzer): pip install 'isoweave[full-tests]'.

    python fuzz/guided.py --target npz_sparse --inputs 100000 --seed 1

Inputs that reach new code are kept in ``fuzz/found/corpus/<target>/`` and are built upon. What fails is
written to ``fuzz/found/<target>-...``: exceptions, crashes, inputs of more than 5 s of processor time (or 20
minutes in all) or 2 GiB. Targets that run pyarrow or libhdf5 are left to ``campaign.py``: those crash, and
that ends libFuzzer. ``long_run.py`` runs all targets by turns.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

import atheris

from fuzz_mutate import MUTATORS

FOUND = Path(__file__).resolve().parent / "found"
CPU_SECONDS = 5.0
_WALL_SECONDS = 1200

with atheris.instrument_imports(include=["isoweave.io", "isoweave.graph._validate", "isoweave.persist"]):
    import fuzz_targets


class TooSlow(Exception):
    """More processor time than a file may take."""


def timed(target: Callable[[bytes], None]) -> Callable[[bytes], None]:
    """The target with its promise about time; libFuzzer's clock also counts waiting for a busy machine."""

    def run(data: bytes) -> None:
        started = time.process_time()
        target(data)
        seconds = time.process_time() - started
        if seconds > CPU_SECONDS:
            raise TooSlow(f"{seconds:.1f} s of processor time")

    return run


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--target", required=True, choices=fuzz_targets.guided_targets())
    parser.add_argument("--inputs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=0, help="stop earlier, after so much time")
    parser.add_argument("--keep", type=Path, default=FOUND, help="where inputs are kept")
    options = parser.parse_args()

    kept = options.keep / "corpus" / options.target
    kept.mkdir(parents=True, exist_ok=True)
    # libFuzzer takes its seeds from folders, and the first one grows.
    for number, data in enumerate(fuzz_targets.seeds(options.target)):
        (kept / f"seed-{number}").write_bytes(data)
    flags = [
        sys.argv[0],
        str(kept),
        f"-runs={options.inputs}",
        f"-seed={options.seed}",
        f"-max_total_time={options.seconds}",
        f"-artifact_prefix={options.keep}/{options.target}-",
        f"-timeout={_WALL_SECONDS}",
        "-rss_limit_mb=2048",
        f"-max_len={4096 if options.target in ('text', 'mtx') else 65536}",
        "-len_control=0",
        "-print_final_stats=1",
    ]
    mutate = MUTATORS.get(options.target)

    def structured(data: bytes, max_size: int, seed: int) -> bytes:
        # Half of the changes know the format; the other half are libFuzzer's own.
        rng = random.Random(seed)
        if mutate is None or rng.random() < 0.5:
            return atheris.Mutate(data, max_size)
        return mutate(data, rng)[:max_size]

    atheris.Setup(flags, timed(fuzz_targets.TARGETS[options.target]), custom_mutator=structured)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
