"""What checkpoints cost: a long fit without one, with the default interval, and with shorter ones.

``python benchmarks/checkpoint_cost.py`` fits a swiss roll of 50,000 points (``--points``) to a tolerance that
takes several times longer than the default, in turn with every setting, and prints a Markdown table.
``--long 200`` runs the paper's recursion for 200 seconds instead, with the default interval.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import make_swiss_roll

from isoweave import Checkpoint, IsometricEmbedding
from isoweave.persist._checkpoint import FileJournal


class Writes:
    """Measures what journals do."""

    def __init__(self):
        self.reset()
        real = FileJournal.write
        writes = self

        def measured(journal):
            started = time.perf_counter()
            is_written = real(journal)
            writes.seconds.append(time.perf_counter() - started)
            writes.bytes = max(writes.bytes, journal.path.stat().st_size)
            return is_written

        FileJournal.write = measured

    def reset(self):
        self.seconds, self.bytes = [], 0


def long_run(points, seconds):
    """The paper's recursion for so many seconds with the default interval."""
    writes = Writes()
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        model = IsometricEmbedding(
            n_neighbors=10,
            preset="paper",
            tol=1e-9,
            max_iter=10**6,
            checkpoint=Checkpoint(Path(folder) / "run"),
            callback=lambda state: time.perf_counter() - started > seconds,
        ).fit(points)
        whole = time.perf_counter() - started
    print(
        f"{len(points):,} points, {model.n_iter_} steps in {whole:.0f} s; {len(writes.seconds)} writes of "
        f"{', '.join(f'{s:.2f}' for s in writes.seconds)} s, {writes.bytes / 1e6:.0f} MB: "
        f"{100 * sum(writes.seconds) / whole:.2f} % of the fit"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=50_000)
    parser.add_argument("--long", type=float, default=None)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tol", type=float, default=1e-5)
    parser.add_argument("--max-iter", type=int, default=300)
    parser.add_argument("--every", type=float, nargs="*", default=[5.0, 1.0])
    arguments = parser.parse_args()
    points = make_swiss_roll(arguments.points, random_state=0)[0]
    if arguments.long is not None:
        long_run(points, arguments.long)
        return
    IsometricEmbedding(n_neighbors=10).fit(points[:4000])
    settings = ["none", "default", *arguments.every]
    times = {setting: [] for setting in settings}
    told = {}
    writes = Writes()
    bits = set()
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(arguments.rounds):
            for setting in settings:
                path = Path(folder) / "run"
                path.unlink(missing_ok=True)
                writes.reset()
                keep = None
                if setting != "none":
                    keep = Checkpoint(path, every=None if setting == "default" else setting)
                model = IsometricEmbedding(
                    n_neighbors=10, tol=arguments.tol, max_iter=arguments.max_iter, checkpoint=keep
                )
                started = time.perf_counter()
                model.fit(points)
                times[setting].append(time.perf_counter() - started)
                bits.add(model.embedding_.tobytes())
                told[setting] = (len(writes.seconds), sum(writes.seconds), writes.bytes, model.n_iter_)
    assert len(bits) == 1, "a checkpoint changes the result"
    print(f"{arguments.points:,} points, {told['none'][3]} steps, {arguments.rounds} rounds\n")
    print("| every | seconds (median) | writes | seconds in writes | file, MB | share of the fit |")
    print("|---|---|---|---|---|---|")
    for setting in settings:
        n_writes, seconds, size, _ = told[setting]
        whole = float(np.median(times[setting]))
        print(
            f"| {setting} | {whole:.2f} | {n_writes} | {seconds:.2f} | {size / 1e6:.1f} | "
            f"{100 * seconds / whole:.2f} % |"
        )


if __name__ == "__main__":
    main()
