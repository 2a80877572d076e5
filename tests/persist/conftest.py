from __future__ import annotations

import os
import signal

import numpy as np
import pytest

from isoweave import IsometricEmbedding, embed_graph


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


@pytest.fixture(scope="session")
def features():
    return np.random.default_rng(77).normal(size=(60, 3)) * [4, 3, 0.1]


@pytest.fixture
def fitted(features):
    return IsometricEmbedding(n_neighbors=8, random_state=5).fit(features)


@pytest.fixture(scope="session")
def embedding(features):
    model = IsometricEmbedding(n_neighbors=8).fit(features)
    return embed_graph(model.graph_, n_components=2)
