"""How much of a fit runs on one thread, stage by stage, and what that leaves of many.

    python benchmarks/threads.py [--points 100000] [--threads 16]

One thread does everything, and every range that a team would hand out is timed by itself. The last column is
the time on so many threads with a core each, if handing out ranges were free and memory fast enough.
"""

from __future__ import annotations

import argparse
import heapq
import time
from collections import defaultdict
from typing import Any

from isoweave import embed_graph
from isoweave._parallel import ONE_THREAD, ThreadTeam
from isoweave.datasets import swiss_roll
from isoweave.graph import knn_graph
from stages import StageClock

shared, longest = 0.0, 0.0  # seconds of all ranges so far, and of those that nothing can go beside


def run(
    team: ThreadTeam, kernel: Any, n_items: int, *args: Any, grain: int = 256, exactly: bool = False
) -> None:
    global shared, longest
    step = grain if exactly else max(grain, -(-n_items // (8 * team.n_threads)))
    step = step if n_items > grain else max(n_items, 1)
    until = [0.0] * team.n_threads
    for lo in range(0, n_items, step):
        begin = time.thread_time()
        kernel(lo, min(lo + step, n_items), *args)
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


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--points", type=int, default=100_000)
    parser.add_argument("--threads", type=int, default=16)
    arguments = parser.parse_args()
    graphs = [knn_graph(swiss_roll(n, random_state=7).data, 10) for n in (25_000, arguments.points)]
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
