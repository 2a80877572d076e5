"""Attributes computed once, without a lock."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

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


@pytest.mark.parametrize("n_objects", [1, 2])
def test_threads_do_not_wait_for_each_other_and_one_value_is_kept(n_objects):
    """functools.cached_property of Python 3.11 hangs here: each computation waits for the other."""
    all_inside = threading.Barrier(2, timeout=30)

    class Meeting:
        @computed_once
        def value(self):
            all_inside.wait()
            return object()

    asked = [Meeting() for _ in range(n_objects)] * (3 - n_objects)
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda meeting: meeting.value, asked))
    assert found == [meeting.value for meeting in asked]
    assert len(set(found)) == n_objects
