"""Settings of the tests in this folder."""

from __future__ import annotations

import os
import signal

import pytest


@pytest.fixture(autouse=True)
def no_syncs(monkeypatch):
    """Nobody pulls the plug here, and a sync takes longer than all the rest."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)


@pytest.fixture(autouse=True)
def interruptible():
    """Ctrl-C as in a terminal: a shell starts jobs in the background with it ignored, and so is ours then."""
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, previous)
