"""How much of a fit runs on one thread, stage by stage, and what that leaves of many.

    python benchmarks/threads.py [--points 100000] [--threads 16]
    python benchmarks/threads.py --points 1000000 --measure 1 4 16

One thread does everything, and every range that a team would hand out is timed by itself. The last column is
the time on so many threads with a core each, if handing out ranges were free and memory fast enough. With
--measure the fit, neighbours included, is run on so many threads each: seconds to wait, stage by stage.
"""

from __future__ import annotations

import argparse
import hashlib
import heapq
import resource
import time
from collections import defaultdict
from typing import Any

from isoweave import IsometricEmbedding, embed_graph
from isoweave._parallel import ONE_THREAD, ThreadTeam
from isoweave.datasets import swiss_roll
from isoweave.graph import knn_graph
from stages import StageClock

WARM = 60_000  # points of a fit that compiles all that larger ones need
shared, longest = 0.0, 0.0  # seconds of all ranges so far, and of those that nothing can go beside


def run(
    team: ThreadTeam, kernel: Any, n_items: int, *args: Any, grain: int = 256, exactly: bool = False
) -> None:
    global shared, longest
    until = [0.0] * team.n_threads
    for lo, hi in team.ranges(n_items, grain, exactly) if n_items > grain else [(0, n_items)]:
        begin = time.thread_time()
        kernel(lo, hi, *args)
        took = time.thread_time() - begin
        heapq.heapreplace(until, until[0] + took)
        shared += took
    longest += max(until)


class SerialClock(StageClock):
    """With the seconds outside of ranges, and those that many threads would take."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])

    def wrap(self, stage: str, function: Any, *, inside: str | None) -> Any:
        timed = super().wrap(stage, function, inside=inside)

        def counted(*args: Any, **kwargs: Any) -> Any:
            if (self._inside[-1] if self._inside else None) != inside:
                return function(*args, **kwargs)
            before = (time.thread_time(), shared, longest)
            try:
                return timed(*args, **kwargs)
            finally:
                self.add(stage, *before)

        return counted

    def add(self, stage: str, begin: float, shared_before: float, longest_before: float) -> None:
        whole, row = time.thread_time() - begin, self.rows[stage]
        alone = whole - (shared - shared_before)
        for column, value in enumerate((whole, alone, alone + longest - longest_before)):
            row[column] += value


def measure(n_points: int, n_threads: list[int]) -> None:
    """Seconds of every stage on each number of threads; the maps must have the same bits."""
    points = swiss_roll(n_points, random_state=7).data
    clocks, bits = {}, set()
    IsometricEmbedding(n_jobs=max(n_threads)).fit(swiss_roll(WARM, random_state=7).data)
    for threads in n_threads:
        clocks[threads] = clock = StageClock()
        with clock.running():
            begin = time.perf_counter()
            model = IsometricEmbedding(n_jobs=threads).fit(points)
            clock.seconds["whole"] = {"wall": time.perf_counter() - begin}
        bits.add(hashlib.sha256(model.embedding_.tobytes()).hexdigest()[:16])
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        print(f"{threads} threads: {clock.seconds['whole']['wall']:.1f} s, peak {peak:.2f} GB", flush=True)
    print(f"{'stage':12}", *(f"{threads:>7}" for threads in n_threads), "  first over last")
    for stage in clocks[n_threads[0]].seconds:
        each = [clocks[threads].seconds[stage]["wall"] for threads in n_threads]
        print(f"{stage:12}", *(f"{wall:7.2f}" for wall in each), f"{each[0] / each[-1]:8.1f}")
    print("the same bits" if len(bits) == 1 else f"DIFFERENT BITS: {bits}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--points", type=int, default=100_000)
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--measure", type=int, nargs="+", metavar="THREADS")
    arguments = parser.parse_args()
    if arguments.measure:
        measure(arguments.points, arguments.measure)
        raise SystemExit
    graphs = [knn_graph(swiss_roll(n, random_state=7).data, 10) for n in (WARM, arguments.points)]
    ThreadTeam.run, ONE_THREAD.n_threads = run, arguments.threads  # type: ignore[method-assign]
    embed_graph(graphs[0], n_components=2, n_jobs=1)  # compiles
    clock = SerialClock()
    with clock.running():
        first = (time.thread_time(), shared, longest)
        embed_graph(graphs[1], n_components=2, n_jobs=1)
        clock.add("whole", *first)
    print(f"{'stage':12} {'1 thread':>10} {'not shared':>10} {arguments.threads:>3} threads")
    for stage, (whole, alone, least) in clock.rows.items():
        print(f"{stage:12} {whole:10.2f} {alone:10.2f} {least:11.2f}  {whole / least:4.1f} times as fast")
