"""Attributes computed once, without a lock."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from isoweave._lazy import computed_once


@dataclass(frozen=True)
class Square:
    side: float
    calls: list

    @computed_once
    def area(self):
        """Side times side."""
        self.calls.append(self.side)
        return self.side**2


def test_computed_when_first_asked_for_and_then_kept():
    small, large = Square(2.0, []), Square(3.0, [])
    assert small.calls == []
    assert (small.area, small.area, large.area) == (4.0, 4.0, 9.0)
    assert (small.calls, large.calls) == ([2.0], [3.0])
    assert Square.area.__doc__ == "Side times side."


def values_of(*numbers):
    """Values of the objects with these numbers as threads found them, all at the same moment, and as kept."""
    all_inside = threading.Barrier(len(numbers), timeout=30)

    class Meeting:
        @computed_once
        def value(self):
            all_inside.wait()
            return object()

    meetings = [Meeting() for _ in range(max(numbers) + 1)]
    asked = [meetings[k] for k in numbers]
    with ThreadPoolExecutor(len(numbers)) as pool:
        return list(pool.map(lambda meeting: meeting.value, asked)), [meeting.value for meeting in asked]


def test_two_threads_do_not_wait_for_each_other():
    """functools.cached_property of Python 3.11 hangs here: each computation waits for the other."""
    found, kept = values_of(0, 1)
    assert found == kept
    assert found[0] is not found[1]


def test_the_first_value_is_kept_when_two_threads_compute_it():
    found, kept = values_of(0, 0)
    assert found[0] is found[1] is kept[0]
