"""Forks of a process in which other threads are at work.

The child of a fork has one thread and a copy of every lock: what another thread held stays locked forever,
and what that thread was changing stays half changed. So a fork waits until no thread is in such a place.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_changed = threading.Condition()
_inside = 0  # how often threads have entered and not left
_forking = 0  # threads about to fork
_compiler_lock: Any = None


class _ThisThread(threading.local):
    depth = 0  # its own share of _inside
    is_forking = False


_this_thread = _ThisThread()


@contextmanager
def forks_wait() -> Iterator[None]:
    """Hold up forks by other threads while any is inside, for seconds; one may fork from inside itself."""
    global _inside
    with _changed:
        while _forking and not (_this_thread.depth or _this_thread.is_forking):
            _changed.wait()
        _inside += 1
        _this_thread.depth += 1
    try:
        yield
    finally:
        with _changed:
            _inside -= 1
            _this_thread.depth -= 1
            _changed.notify_all()


def _before_fork() -> None:
    """Wait for the others; until the fork is done nobody enters."""
    global _forking, _compiler_lock
    _changed.acquire()
    _forking += 1
    _this_thread.is_forking = True
    while _inside > _this_thread.depth:
        _changed.wait()
    # A child that needs a kernel would wait forever for a thread that was compiling one.
    numba_locks = sys.modules.get("numba.core.compiler_lock")
    _compiler_lock = getattr(numba_locks, "global_compiler_lock", None)
    if _compiler_lock is not None:
        _compiler_lock.acquire()


def _after_fork(in_child: bool = False) -> None:
    global _changed, _inside, _forking
    if _compiler_lock is not None:
        _compiler_lock.release()
    _this_thread.is_forking = False
    if in_child:
        # Threads that were waiting are not there any more.
        _changed, _inside, _forking = threading.Condition(), _this_thread.depth, 0
        return
    _forking -= 1
    _changed.notify_all()
    _changed.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork, after_in_child=lambda: _after_fork(in_child=True)
    )
