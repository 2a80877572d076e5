"""Attributes computed once, without a lock."""

from __future__ import annotations

import threading
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


def test_documentation_is_that_of_the_function():
    assert Square.area.__doc__ == "Side times side."


def test_two_threads_do_not_wait_for_each_other():
    """functools.cached_property of Python 3.11 hangs here: each computation waits for the other."""
    both = threading.Barrier(2, timeout=30)

    class Meeting:
        @computed_once
        def value(self):
            both.wait()
            return object()

    meetings, found = [Meeting(), Meeting()], {}
    threads = [threading.Thread(target=lambda m=m: found.update({m: m.value})) for m in meetings]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(found[meeting] is meeting.value for meeting in meetings)


def test_the_first_value_is_kept_when_two_threads_compute_it():
    both = threading.Barrier(2, timeout=30)

    class Race:
        @computed_once
        def value(self):
            both.wait()
            return object()

    race, found = Race(), []
    threads = [threading.Thread(target=lambda: found.append(race.value)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[0] is found[1] is race.value
