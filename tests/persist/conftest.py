import os
import signal

import numpy as np
import pytest

from isoweave import IsometricEmbedding, as_embedding


@pytest.fixture(autouse=True)
def as_in_a_terminal(monkeypatch):
    """No syncs, which take longer than all the rest; and Ctrl-C, which background jobs have ignored."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler, "a handler was left behind"
    signal.signal(signal.SIGINT, previous)


@pytest.fixture(scope="session")
def features():
    return np.random.default_rng(77).normal(size=(60, 3)) * [4, 3, 0.1]


@pytest.fixture
def fitted(features):
    return IsometricEmbedding(n_neighbors=8, random_state=5).fit(features)


@pytest.fixture
def embedding(fitted):
    return as_embedding(fitted)
