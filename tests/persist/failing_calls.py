"""A stand-in for a full disk, a spent quota or a dying device: chosen system calls fail."""

import os
import signal
import threading
from contextlib import ExitStack, contextmanager
from unittest import mock

KINDS = ("open", "write", "fsync", "close", "link", "replace")
# What a full disk refuses; it still renames and closes.
SPACE_KINDS = ("open", "write", "fsync")
CREATES = os.O_CREAT | getattr(os, "O_TMPFILE", 0) & ~getattr(os, "O_DIRECTORY", 0)


class Calls:
    """Counts the calls of this thread and does ``act(kind, real, arguments, named)`` in place of one of them.

    ``number`` 1 is the first call; with ``is_lasting`` all later calls that take space meet the same fate.
    """

    def __init__(self, number, act, is_lasting=False):
        self.number, self.act, self.is_lasting = number, act, is_lasting
        self.seen = []

    @property
    def has_acted(self):
        return len(self.seen) >= self.number

    @contextmanager
    def active(self):
        thread = threading.get_ident()

        def stand_in(kind, real):
            def call(*arguments, **named):
                # The flags of an open for reading alone are 0; a full disk does not mind those.
                is_free = self.is_lasting and kind == "open" and not arguments[1] & CREATES
                if threading.get_ident() != thread or is_free:
                    return real(*arguments, **named)
                self.seen.append(kind)
                if len(self.seen) == self.number or (self.is_lasting and self.has_acted):
                    return self.act(kind, real, arguments, named)
                return real(*arguments, **named)

            return call

        with ExitStack() as stack:
            for kind in SPACE_KINDS if self.is_lasting else KINDS:
                stack.enter_context(mock.patch.object(os, kind, stand_in(kind, getattr(os, kind))))
            yield self


def write_half(real, fd, data):
    real(fd, memoryview(data)[: len(data) // 2])


def fail_with(code):
    """An action that raises; half of a write arrives first, and a failed close closes, as on Linux."""

    def act(kind, real, arguments, named):
        if kind == "write":
            write_half(real, *arguments)
        if kind == "close":
            real(*arguments, **named)
        raise OSError(code, os.strerror(code))

    return act


def die(when):
    """An action that kills the process: before the call, after it, or in the middle of a write."""

    def act(kind, real, arguments, named):
        if when == "torn" and kind == "write":
            write_half(real, *arguments)
        if when == "after":
            real(*arguments, **named)
        os.kill(os.getpid(), signal.SIGKILL)

    return act
