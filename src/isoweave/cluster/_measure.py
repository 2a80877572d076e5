"""Order statistics over the ranks: exact, and without an array as long as the whole graph anywhere."""

from __future__ import annotations

from typing import Any

import numpy as np

from isoweave._typing import AnyArray, FloatArray
from isoweave.cluster._share import Ranks


def kth_smallest(ranks: Ranks, values: AnyArray, wanted: Any) -> FloatArray:
    """The values that would stand at places ``wanted`` if those of all ranks, not negative, were sorted."""
    # The bits of floats that are not negative rise with them: bisection over integers ends at the very value.
    ordered = np.sort(np.asarray(values, dtype=np.float64) + 0.0).view(np.int64)
    wanted = np.asarray(wanted, dtype=np.int64)
    low = np.zeros(len(wanted), dtype=np.int64)
    high = np.full(len(wanted), int(ranks.max(int(ordered[-1]) if len(ordered) else 0)))
    while (low < high).any():
        middle = low + (high - low) // 2
        enough = ranks.sum(np.searchsorted(ordered, middle, side="right")) > wanted
        low, high = np.where(enough, low, middle + 1), np.where(enough, middle, high)
    return low.view(np.float64)


def median(ranks: Ranks, values: AnyArray) -> float:
    """As ``np.median`` of the values, not negative, of all ranks; 0 where there are none."""
    n = int(ranks.sum(len(values)))
    return float(kth_smallest(ranks, values, [(n - 1) // 2, n // 2]).mean()) if n else 0.0


def lower_quartile(ranks: Ranks, degrees: AnyArray) -> float:
    """As :func:`isoweave.geometry.typical_degree` of all ranks."""
    at = 0.25 * (int(ranks.sum(len(degrees))) - 1)
    first, second = kth_smallest(ranks, degrees, [int(at), int(at) + 1 if at > 0 else 0])
    return float(first + (at - int(at)) * (second - first))


def total(ranks: Ranks, values: FloatArray) -> float:
    """Sum over all entries of all ranks, in a fixed order."""
    return float(ranks.sum(float(np.sum(values))))


def everywhere(ranks: Ranks, array: AnyArray) -> AnyArray:
    """The rows of all ranks, in their order, on every rank; for few rows."""
    return np.concatenate(ranks.gather(array))
