"""The targets for speed and memory, and what the records say about each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np

from ledger import Case, Record

MILLION = 1_000_000
COLD = "cold-start"
Records: TypeAlias = dict[Case, Record]
Measure: TypeAlias = Callable[[Records], float | None]


@dataclass(frozen=True)
class Target:
    """A number that must be at least or at most a limit.

    ``measure`` returns None where the cases it needs were not run, or were stopped.
    """

    text: str
    relation: str
    limit: float
    unit: str
    measure: Measure

    def is_met(self, value: float) -> bool:
        return value >= self.limit if self.relation == "≥" else value <= self.limit


def finished(records: Records, method: str, workload: str, n: int) -> Record | None:
    """The record of a case that ran to its end."""
    record = records.get((method, workload, n))
    return record if record is not None and record["status"] == "ok" else None


def ratio(
    records: Records, key: str, above: tuple[str, str, int], below: tuple[str, str, int]
) -> float | None:
    """Quotient of one number of two cases."""
    first, second = finished(records, *above), finished(records, *below)
    return None if first is None or second is None else float(first[key]) / float(second[key])


def _peer_ratio(peer: str, workload: str, n: int) -> Measure:
    """How many times isoweave's time the peer's is."""
    return lambda records: ratio(records, "wall", (peer, workload, n), ("isoweave", workload, n))


_isomap, _umap = partial(_peer_ratio, "isomap"), partial(_peer_ratio, "umap")


def number(key: str, workload: str, n: int, unit: float = 1.0) -> Measure:
    """One number of isoweave's record."""

    def measure(records: Records) -> float | None:
        record = finished(records, "isoweave", workload, n)
        return None if record is None else float(record[key]) / unit

    return measure


def exponent(records: Records, key: str = "cpu", least: int = 50_000, most: int = MILLION) -> float | None:
    """Slope of log time against log n on the swiss roll; both ends must be there."""
    found = [
        (n, float(r[key]))
        for (method, workload, n), r in records.items()
        if (method, workload) == ("isoweave", "swiss") and least <= n <= most and r["status"] == "ok"
    ]
    if not {least, most} <= {n for n, _ in found}:
        return None
    sizes, seconds = np.log(np.array(sorted(found))).T
    return float(np.polyfit(sizes, seconds, 1)[0])


def frame_microseconds(records: Records) -> float | None:
    """Worst over the swiss rolls of 10,000 points and more: processor time of all frames per vertex."""
    values = [
        1e6 * float(r["stages"]["frames"]["cpu"]) / n
        for (method, workload, n), r in records.items()
        if (method, workload) == ("isoweave", "swiss") and n >= 10_000 and r["status"] == "ok"
    ]
    return max(values, default=None)


def import_seconds(records: Records) -> float | None:
    """Import less a bare interpreter."""
    whole, bare = (number(key, COLD, 1000)(records) for key in ("import_wall", "bare_wall"))
    return None if whole is None or bare is None else whole - bare


def hub_ratio(records: Records, n: int = MILLION, key: str = "wall") -> float | None:
    """Graph with a hub of degree n / 10 over the same without."""
    return ratio(records, key, ("isoweave", "hub", n), ("isoweave", "sheet", n))


def memory_share(records: Records) -> float | None:
    return ratio(records, "above_idle_bytes", ("isoweave", "swiss", 10_000), ("isomap", "swiss", 10_000))


TARGETS = (
    Target("Isomap's time over ours, swiss roll, 10,000", "≥", 15, "", _isomap("swiss", 10_000)),
    Target("our memory over Isomap's, swiss roll, 10,000", "≤", 0.1, "", memory_share),
    Target("umap-learn's time over ours, swiss roll, 50,000", "≥", 4, "", _umap("swiss", 50_000)),
    Target("the same, MNIST 70,000 x 784, k = 10, N = 2", "≥", 1, "", _umap("mnist-2d", 70_000)),
    Target("the same, MNIST 70,000, k = 15, N = 13", "≥", 1, "", _umap("mnist", 70_000)),
    Target("the same, MNIST 10,000, k = 15, N = 13", "≥", 1, "", _umap("mnist", 10_000)),
    Target('the same, "difficult" set, 50,000, N = 5', "≥", 2, "", _umap("difficult", 50_000)),
    Target("1,000,000 points, neighbours included", "≤", 45, " s", number("wall", "swiss", MILLION)),
    Target("the same, peak of the process", "≤", 3, " GB", number("peak_bytes", "swiss", MILLION, 1e9)),
    Target("exponent of processor time, 50,000 to 1,000,000", "≤", 1.1, "", exponent),
    Target("frames, processor time per vertex", "≤", 60, " µs", frame_microseconds),
    Target("first fit of 1,000 points, nothing compiled", "≤", 8, " s", number("first_wall", COLD, 1000)),
    Target("the same in the next process", "≤", 1.5, " s", number("second_wall", COLD, 1000)),
    Target("`import isoweave`", "≤", 1, " s", import_seconds),
    Target("hub of degree 100,000 in 1,000,000 vertices, over none", "≤", 2, "", hub_ratio),
)
