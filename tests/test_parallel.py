"""Threads: ranges cover everything once, counts are resolved, BLAS is held back, values are computed once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from math import fsum

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from isoweave._lazy import computed_once
from isoweave._parallel import ONE_THREAD, ThreadTeam, available_threads, resolve_n_jobs, thread_team


def mark(start, stop, out, seen):
    out[start:stop] += 1
    seen.append((start, stop, threading.current_thread().name))


@pytest.mark.parametrize("n_jobs", [1, 2, 3])
@pytest.mark.parametrize("n_items", [0, 1, 255, 256, 257, 5000])
def test_every_item_is_done_once(n_jobs, n_items):
    out, seen = np.zeros(n_items, dtype=int), []
    with thread_team(n_jobs) as team:
        assert team.n_threads == n_jobs
        team.run(mark, n_items, out, seen)
    assert np.all(out == 1)
    ranges = sorted((lo, hi) for lo, hi, _ in seen)
    assert (ranges[0][0], ranges[-1][1]) == (0, n_items)
    assert all(a[1] == b[0] for a, b in pairwise(ranges))


def test_small_jobs_and_one_thread_stay_in_the_caller():
    seen, shared, me = [], [], threading.current_thread().name
    ThreadTeam(1).run(mark, 10_000, np.zeros(10_000), seen)
    with thread_team(2) as team:
        team.run(mark, 100, np.zeros(100), seen)
        team.run(mark, 100, np.zeros(100), shared, grain=10)
    assert seen == [(0, 10_000, me), (0, 100, me)]
    # Of a team the caller is one.
    assert {name for _, _, name in shared} <= {me, "isoweave_0"}
    assert all(hi - lo >= 10 or hi == 100 for lo, hi, _ in shared)


@pytest.mark.parametrize("n_jobs", [1, 3])
@pytest.mark.parametrize("shape", [(0,), (7,), (50_000, 2), (32_769,), (21_847, 3), (262_144,), (333_331,)])
def test_vectors_have_the_bits_of_numpy(n_jobs, shape):
    rng = np.random.default_rng(5)
    a, b = rng.normal(size=shape), rng.normal(size=shape)
    with thread_team(n_jobs) as team:
        found = team.dot(a, b)
        assert found == ONE_THREAD.dot(a, b)
        products = (a * b).ravel()
        assert abs(found - fsum(products)) <= 1e-13 * fsum(abs(products))
        # Older versions do not halve all sizes at the same places.
        assert found == float(np.sum(products)) or np.lib.NumpyVersion(np.__version__) < "2.0.0"
        expected = a - 0.3 * b
        np.testing.assert_array_equal(team.plus(a, -0.3, b), expected)
        assert team.plus(a, -0.3, b, a) is a
        np.testing.assert_array_equal(a, expected)
        assert team.all_finite(a)
        if a.size:
            a.flat[-1] = np.inf
            assert not team.all_finite(a)


@pytest.mark.parametrize("error", [IndexError, StopIteration])
@pytest.mark.parametrize("only", ["the caller", "the others"])
def test_nothing_begins_after_an_error(only, error):
    """Wherever it happens: the caller learns of it, and the ranges that are left are not begun."""
    begun, caller = [], threading.current_thread()
    other, raised = threading.Event(), threading.Event()

    def fail(start, stop):
        begun.append(start)
        mine = threading.current_thread() is caller
        if mine == (only == "the caller"):
            other.wait(5)
            raise error(f"range {start}")
        other.set()
        raised.wait(5)

    with thread_team(2) as team:
        threading.Timer(0.2, raised.set).start()
        with pytest.raises(error, match="range"):
            team.run(fail, 1000, grain=10, exactly=True)
    assert len(begun) <= 3


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_interrupt_in_a_compiled_call_is_an_interrupt(n_jobs):
    """As numba lets it out: wrapped in a SystemError, or in two."""
    inner, outer, other = SystemError("_numba_unpickle"), SystemError("a kernel"), SystemError()
    outer.__cause__, inner.__cause__ = inner, KeyboardInterrupt("interrupted; kept")
    for error in (inner, outer):
        with pytest.raises(KeyboardInterrupt, match="interrupted; kept"), thread_team(n_jobs):
            raise error
    with pytest.raises(SystemError) as caught, thread_team(n_jobs):
        raise other
    assert caught.value is other


def test_blas_has_one_thread_inside_only():
    """Of two computations that overlap, the first to leave must not lift the limit, and the last must."""

    def blas_threads():
        return [info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"]

    first, second = thread_team(2), thread_team(1)
    seen = []
    with threadpool_limits(2, user_api="blas"):
        assert set(blas_threads()) == {2}
        for step in (first.__enter__, second.__enter__, lambda: first.__exit__(None, None, None)):
            step()
            seen += blas_threads()
        second.__exit__(None, None, None)
        assert set(blas_threads()) == {2}
    assert set(seen) == {1}


def test_resolved_counts():
    cores = available_threads()
    assert cores >= 1
    expected = {None: cores, -1: cores, 3: 3, np.int64(2): 2, -2: max(1, cores - 1), -1000: 1}
    assert {n_jobs: resolve_n_jobs(n_jobs) for n_jobs in expected} == expected
    for value in (0, 1.5, True, "two", "2", float("nan"), float("inf"), [1], (), {}):
        with pytest.raises((ValueError, TypeError), match="n_jobs must be"):
            resolve_n_jobs(value)


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


def test_no_more_threads_than_there_are_ranges():
    before = threading.active_count()
    with thread_team(60_000) as team:
        team.run(mark, 40, np.zeros(40), [], grain=10)
        assert threading.active_count() <= before + 3
        team.run(mark, 80, np.zeros(80), [], grain=10)
        assert threading.active_count() <= before + 7
    assert threading.active_count() == before


@pytest.mark.parametrize("n_jobs", [2, 4])
def test_calls_inside_ranges_wait_for_nobody_who_waits_for_them(n_jobs):
    done = np.zeros((40, 30), dtype=int)

    def inner(start, stop, row):
        row[start:stop] += 1

    with thread_team(n_jobs) as team:
        for _ in range(50):
            team.run(
                lambda lo, hi: [team.run(inner, 30, done[k], grain=1, exactly=True) for k in range(lo, hi)],
                len(done), grain=1, exactly=True,
            )  # fmt: skip
    assert np.all(done == 50)
