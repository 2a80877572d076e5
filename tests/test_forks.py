"""Forks wait for other threads that are in the middle of something."""

import os
import threading
import time

import pytest

from isoweave import _forks
from isoweave._forks import forks_wait

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system"),
    # Python 3.12 warns of forks in a process that has threads, which is what is tried here.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


def forked(function):
    """Exit status of a child that calls the function: 0 if it returns something true."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            status = 0 if function() else 2
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def enters_and_leaves():
    with forks_wait():
        return _forks._inside == 1


def test_a_fork_waits_for_another_thread():
    inside, leave, order = threading.Event(), threading.Event(), []

    def work():
        with forks_wait():
            inside.set()
            leave.wait()
            time.sleep(0.05)
            order.append("left")

    thread = threading.Thread(target=work)
    thread.start()
    inside.wait()
    # The fork itself is what waits, so somebody else lets the thread go.
    threading.Timer(0.1, leave.set).start()
    status = forked(lambda: order == ["left"] and enters_and_leaves())
    thread.join()
    assert status == _forks._inside == 0


def test_nobody_enters_while_a_fork_waits_and_a_thread_forks_from_inside():
    """Many threads that come and go cannot hold a fork up forever."""
    stop = threading.Event()

    def come_and_go():
        while not stop.is_set():
            with forks_wait():
                time.sleep(0.001)

    threads = [threading.Thread(target=come_and_go) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        assert [forked(enters_and_leaves) for _ in range(10)] == [0] * 10
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    with forks_wait(), forks_wait():
        assert forked(lambda: _forks._inside == 2) == 0
        assert _forks._inside == 2
    # An error inside lets forks go on, too.
    with pytest.raises(KeyError), forks_wait():
        raise KeyError
    assert forked(enters_and_leaves) == _forks._inside == 0
