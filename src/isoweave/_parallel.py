"""Threads for compiled kernels.

Kernels are numba functions compiled with ``nogil=True`` whose first two arguments are a range of items; they
write only to its rows, so the bits do not depend on the number of threads. Ordinary Python threads call them:
unlike numba's own, such kernels are cached on disk, survive ``fork`` and may be called by several threads.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from numbers import Integral
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np
import threadpoolctl
from threadpoolctl import threadpool_limits

from isoweave._forks import forks_wait
from isoweave._typing import AnyArray, FloatArray

# A range is this part of a thread's share of what is left: one full of hubs, or late, keeps nobody waiting.
_PART_OF_SHARE = 4
_MOST_THREADS = 2**16
# Numbers of a vector that are worked on at once, and those of a thread at least: threads that call numpy more
# often wait for Python's lock, sixteen twice as long as four take.
_PIECE, _SHARE = 2**16, 2**19


def available_threads() -> int:
    """Number of CPU cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def resolve_n_jobs(n_jobs: int | None) -> int:
    """Turn scikit-learn's ``n_jobs`` into a number of threads (None and -1 mean all cores)."""
    if n_jobs is None:
        return available_threads()
    wrong = f"n_jobs must be None, or a non-zero integer up to {_MOST_THREADS}, got {n_jobs!r}."
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, Integral):
        raise TypeError(wrong)
    if n_jobs == 0 or n_jobs > _MOST_THREADS:
        raise ValueError(wrong)
    return int(n_jobs) if n_jobs > 0 else max(1, available_threads() + 1 + int(n_jobs))


class ThreadTeam:
    """A fixed number of threads that share the items of a kernel call, made by :func:`thread_team`."""

    def __init__(self, n_threads: int) -> None:
        self.n_threads = n_threads
        # Futures would take longer than many a kernel.
        self._jobs: SimpleQueue[Any] = SimpleQueue()
        self._helpers: list[threading.Thread] = []

    def run(
        self, kernel: Callable[..., Any], n_items: int, *args: Any, grain: int = 256, exactly: bool = False
    ) -> None:
        """Call ``kernel(start, stop, *args)`` over ranges of ``grain`` items or more that cover all."""
        if self.n_threads == 1 or n_items <= grain:
            kernel(0, n_items, *args)
            return
        ranges, done = self.ranges(n_items, grain, exactly), SimpleQueue[BaseException | None]()
        left = iter(ranges)  # whose steps no other thread can interrupt

        def work() -> None:
            try:
                for lo, hi in left:
                    kernel(lo, hi, *args)
            except BaseException:
                # After Ctrl-C or an error nobody begins another range.
                deque(left, maxlen=0)
                raise

        n_late = min(self.n_threads, len(ranges)) - 1
        while len(self._helpers) < n_late:
            named: Any = {"name": f"isoweave_{len(self._helpers)}", "daemon": True}
            helper = threading.Thread(target=_help, args=(self._jobs,), **named)
            helper.start()
            self._helpers.append(helper)
        for _ in range(n_late):
            self._jobs.put((work, done))
        try:
            # This thread works too: a short call is over before the others have woken.
            work()
        finally:
            n_late -= self._take_back(done)
        for _ in range(n_late):
            error = done.get()
            if error is not None:
                raise error

    def ranges(self, n_items: int, grain: int, exactly: bool = False) -> list[tuple[int, int]]:
        """What the threads take one after the other: shorter and shorter ranges, unless they are exact."""
        if exactly:
            return [(lo, min(lo + grain, n_items)) for lo in range(0, n_items, grain)]
        found, lo = [], 0
        while lo < n_items:
            hi = min(lo + max(grain, (n_items - lo) // (_PART_OF_SHARE * self.n_threads)), n_items)
            found.append((lo, hi))
            lo = hi
        return found

    def _take_back(self, done: SimpleQueue[BaseException | None]) -> int:
        """Jobs of a call that nobody has begun, and nobody will: their number."""
        count = 0
        while True:
            try:
                job = self._jobs.get_nowait()
            except Empty:
                return count
            if job[1] is done:
                count += 1
            else:
                # Of a call inside a range, or around this one, whose caller may wait for it.
                _do(*job)

    def close(self) -> None:
        """Wait for the helpers to end."""
        for _ in self._helpers:
            self._jobs.put(None)
        for helper in self._helpers:
            helper.join()

    def take(self, array: AnyArray, rows: AnyArray) -> AnyArray:
        """``array[rows]``, a part of the rows by each thread."""
        out = np.empty((len(rows), *array.shape[1:]), dtype=array.dtype)

        def work(lo: int, hi: int) -> None:
            # Any mode but "raise" writes to `out` without a copy.
            np.take(array, rows[lo:hi], axis=0, out=out[lo:hi], mode="clip")

        self.run(work, len(rows), grain=1 << 15)
        return out

    def dot(self, a: FloatArray, b: FloatArray) -> float:
        """``np.sum(a * b)`` of contiguous arrays, bit by bit, in pieces that fit into the cache."""
        a, b, ends = a.ravel(), b.ravel(), [(0, a.size)]
        while ends[-1][1] - ends[-1][0] > _PIECE:
            # As numpy halves what it sums up.
            middles = [lo + (hi - lo) // 2 // 8 * 8 for lo, hi in ends]
            halved = zip(ends, middles, strict=True)
            ends = [part for (lo, hi), m in halved for part in ((lo, m), (m, hi))]
        sums = np.empty(len(ends))

        def work(start: int, stop: int) -> None:
            for k in range(start, stop):
                lo, hi = ends[k]
                sums[k] = np.sum(np.multiply(a[lo:hi], b[lo:hi], dtype=np.float64))

        self.run(work, len(ends), grain=_SHARE // _PIECE)
        while len(sums) > 1:
            sums = sums[::2] + sums[1::2]
        return float(sums[0])

    def plus(self, a: FloatArray, factor: float, b: FloatArray, out: FloatArray | None = None) -> FloatArray:
        """``a + factor * b``, a part by each thread; ``out`` may be one of them."""
        out = np.empty_like(a) if out is None else out
        flat = out.reshape(-1)
        a, b = a.reshape(-1), b.reshape(-1)

        def work(start: int, stop: int) -> None:
            for lo in range(start, stop, _PIECE):
                at = slice(lo, min(lo + _PIECE, stop))
                np.add(a[at], np.multiply(factor, b[at], dtype=np.float64), out=flat[at])

        self.run(work, len(a), grain=_SHARE)
        return out

    def all_finite(self, array: AnyArray) -> bool:
        """``np.isfinite(array).all()``, a part by each thread."""
        bad: list[int] = []
        flat = array.reshape(-1)

        def work(start: int, stop: int) -> None:
            pieces = (flat[lo : min(lo + _PIECE, stop)] for lo in range(start, stop, _PIECE))
            bad.extend(1 for piece in pieces if not np.isfinite(piece).all())

        self.run(work, len(flat), grain=_SHARE)
        return not bad


def _help(jobs: SimpleQueue[Any]) -> None:
    """What a helper does until the team closes."""
    while (job := jobs.get()) is not None:
        _do(*job)
        # While it waits it must not keep anybody's arrays.
        job = None


def _do(work: Callable[[], None], done: SimpleQueue[BaseException | None]) -> None:
    """Take part in a call, and say how it went."""
    try:
        work()
    except BaseException as error:
        done.put(error)
    else:
        done.put(None)


_blas_lock = threading.RLock()  # entered again by a thread that forks from inside, as in a signal handler
_blas_users = 0
_blas_limit: threadpool_limits | None = None
_this_thread = threading.local()


@contextmanager
def single_blas_thread() -> Iterator[None]:
    """BLAS held to one thread while any computation is inside; threads share the limit, the last lifts it."""
    global _blas_users, _blas_limit
    with forks_wait(), _blas_lock:
        if _blas_users == 0:
            _let_any_thread_control()
            _blas_limit = threadpool_limits(limits=1, user_api="blas")
            _let_any_thread_control()
        _blas_users += 1
    _this_thread.depth = getattr(_this_thread, "depth", 0) + 1
    try:
        yield
    finally:
        _this_thread.depth -= 1
        with forks_wait(), _blas_lock:
            _blas_users -= 1
            if _blas_users == 0:
                _lift_limit()


def _lift_limit() -> None:
    global _blas_limit
    if _blas_limit is not None:
        _let_any_thread_control()
        _blas_limit.restore_original_limits()
        _let_any_thread_control()
        _blas_limit = None


def _let_any_thread_control() -> None:
    """Of OpenBLAS: threadpoolctl 3.8 and later heed only the first thread that sets a limit."""
    openblas = getattr(threadpoolctl, "OpenBLASController", None)
    getattr(openblas, "clear_controlling_thread", lambda force: None)(force=True)


def _forget_other_threads() -> None:
    """In the child of a fork only the thread that forked goes on: the others never leave."""
    global _blas_users
    _blas_users = getattr(_this_thread, "depth", 0)
    if _blas_users == 0:
        _lift_limit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_other_threads)


# Whatever is called without a team runs in the thread that calls.
ONE_THREAD = ThreadTeam(1)


@contextmanager
def _plain_interrupts() -> Iterator[None]:
    """Ctrl-C is KeyboardInterrupt even where it meets a compiled call on its way in or out."""
    try:
        yield
    except SystemError as error:
        # numba does not look whether the Python it runs there has raised; when the call returns, Python does.
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, KeyboardInterrupt):
            cause = cause.__cause__ or cause.__context__
        if cause is None:
            raise
        raise KeyboardInterrupt(*cause.args) from error


@contextmanager
def thread_team(n_jobs: int | None = None) -> Iterator[ThreadTeam]:
    """Threads for one computation, with BLAS, whose rounding depends on its threads, held to one."""
    n_threads = resolve_n_jobs(n_jobs)
    with single_blas_thread(), _plain_interrupts():
        if n_threads == 1:
            yield ONE_THREAD
            return
        team = ThreadTeam(n_threads)
        try:
            yield team
        finally:
            team.close()
